//! Packet generators: how many frames a CPU sends, and how many it receives and drops, without a device and over veth.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::served::host::{inside, ip};
use crate::peers::contest::{Bed, Case, Claim, Contest, Need, Sample, Source};
use crate::peers::dpdk::{Eal, HugePages, rate_of};
use crate::peers::machine;
use crate::peers::process::{self, Running, mortal};
use crate::run::{self, capture, cargo, root};

/// 14 million frames per second: the upper end of what papers report of generators on one CPU.
const USUAL_NS: f64 = 71.4;
const FRAME_NS: &str = "a frame, ns";
const START_LIMIT: Duration = Duration::from_secs(20);
/// Frames after which trafgen ends by itself, whatever becomes of us.
const TRAFGEN_MAX: &str = "100000000";
const BUILD_LIMIT: Duration = Duration::from_secs(1200);
/// From the first frame to the window: pktgen begins with learning frames, for a second at most.
const MARGIN: Duration = Duration::from_millis(1500);
const NETNS: &str = "pt-generate";
/// The end that is sent into, and the kernel's, which drops what is not for it.
const NEAR: &str = "pt-gen0";
const FAR: &str = "pt-gen1";

pub fn contests() -> Vec<Contest> {
    let case = |role| -> Box<dyn Case> { Box::new(Generator { role, program: PathBuf::new() }) };
    let usual = Claim::Ceiling { of: 0, figure: FRAME_NS, at_most: USUAL_NS };
    let shown = |to| Claim::Ratio { of: 0, to, need: Need::Shown };
    vec![
        Contest {
            id: "generate/send",
            title: "64 bytes, sent as fast as it goes, to a device that forgets them".into(),
            unit: "frames",
            bed: HugePages::bed(),
            cases: vec![case(Role::Send), case(Role::TxOnly("net_null0,no-rx=1"))],
            claims: vec![usual.clone(), shown(1)],
        },
        Contest {
            id: "generate/drop",
            title: "64 bytes, received as fast as it goes, looked at and dropped".into(),
            unit: "frames",
            bed: HugePages::bed(),
            cases: vec![case(Role::Drop), case(Role::RxOnly)],
            claims: vec![usual, shown(1)],
        },
        Contest {
            id: "generate/veth",
            title: "64 bytes, sent as fast as it goes, over veth".into(),
            unit: "frames",
            bed: Some(Box::new(Cable)),
            cases: vec![
                case(Role::Veth),
                case(Role::Trafgen),
                case(Role::TxOnly("net_af_packet0,iface=pt-gen0")),
                case(Role::TxOnly("net_af_xdp0,iface=pt-gen0")),
            ],
            claims: vec![shown(1), shown(2), shown(3)],
        },
    ]
}

#[derive(Clone, Copy)]
enum Role {
    /// `pantala pktgen` into `null:`.
    Send,
    /// `pantala pktgen --sink` of `null:rx=60`.
    Drop,
    /// `pantala pktgen` by AF_XDP into the veth.
    Veth,
    /// netsniff-ng's trafgen into the veth.
    Trafgen,
    /// testpmd that sends by this device.
    TxOnly(&'static str),
    /// testpmd that receives.
    RxOnly,
}

struct Generator {
    role: Role,
    program: PathBuf,
}

/// Both ends of the cable, in one namespace.
struct Cable;

impl Bed for Cable {
    fn set_up(&mut self) -> Result<()> {
        ensure!(crate::setup::is_root(), "needs root");
        self.tear_down();
        ip(&["netns", "add", NETNS])?;
        ip(&["-n", NETNS, "link", "add", NEAR, "type", "veth", "peer", "name", FAR])?;
        ip(&["-n", NETNS, "link", "set", NEAR, "up"])?;
        ip(&["-n", NETNS, "link", "set", FAR, "up"])
    }

    fn tear_down(&mut self) {
        // That it is not there is well.
        let _ = ip(&["netns", "del", NETNS]);
    }
}

impl Case for Generator {
    fn name(&self) -> String {
        match self.role {
            Role::Send => "pantala pktgen".into(),
            Role::Drop => "pantala pktgen --sink".into(),
            Role::Veth => "pantala pktgen, AF_XDP".into(),
            Role::Trafgen => "trafgen".into(),
            Role::TxOnly(device) => {
                let driver: String = device.chars().take_while(|c| !c.is_ascii_digit()).collect();
                format!("testpmd txonly, {driver}")
            }
            Role::RxOnly => "testpmd rxonly, net_null".into(),
        }
    }

    fn cpus(&self) -> String {
        let cpu = machine::test_cpu();
        match self.role {
            Role::Send => format!("cpu{cpu}: making frames with sequence numbers, time stamps and checksums"),
            Role::TxOnly("net_null0,no-rx=1") => format!("cpu{cpu}: making frames, all alike"),
            Role::Drop => format!("cpu{cpu}: copying a frame from memory, looking for a probe, dropping"),
            Role::RxOnly => format!("cpu{cpu}: taking empty buffers, dropping"),
            _ => format!("cpu{cpu}: making frames, sending them, dropping them in the kernel"),
        }
    }

    fn set_up(&mut self) -> Result<()> {
        match self.role {
            Role::Trafgen => ensure!(run::has("trafgen"), "no trafgen: apt-get install netsniff-ng"),
            Role::TxOnly(_) | Role::RxOnly => {
                ensure!(run::has("dpdk-testpmd"), "no dpdk-testpmd: apt-get install dpdk-dev");
            }
            Role::Send | Role::Drop | Role::Veth => {
                let build = cargo(["build", "--release", "--package", "pantala"]);
                let done = run::follow("peers-build", build, BUILD_LIMIT)?;
                ensure!(done.status.success(), "pantala does not build:\n{}", run::gist(&done.log));
                self.program = root().join("target/release/pantala");
            }
        }
        Ok(())
    }

    fn launch(&mut self, window: Duration) -> Result<Sample> {
        let rate = match self.role {
            Role::Send => self.pktgen("null:", &["--time"], window, "/sent/frames")?,
            Role::Drop => self.pktgen("null:rx=60", &["--sink", "--time"], window, "/received/other")?,
            Role::Veth => {
                let mut command = self.command(&format!("af_xdp:{NEAR}"));
                command.args(["--time", "1m"]);
                into_the_cable(Running::start("pktgen", command)?, window)?
            }
            Role::Trafgen => into_the_cable(trafgen()?, window)?,
            Role::TxOnly(device) => testpmd("txonly", device, "opackets", window)?,
            Role::RxOnly => testpmd("rxonly", "net_null0,size=60", "ipackets", window)?,
        };
        Ok(Sample { rate, source: Source::Saturated, figures: vec![(FRAME_NS, 1e9 / rate)] })
    }
}

impl Generator {
    /// pktgen on the CPU that is measured.
    fn command(&self, device: &str) -> Command {
        let mut command = inside_of_cable(device.contains(NEAR));
        command.arg(&self.program).args(["--json", "pktgen", "-i", device]);
        command.args(["--cpus", &machine::test_cpu().to_string()]);
        if !device.contains("rx=") {
            command.args(["--src", "192.0.2.1", "--dst", "198.51.100.1", "--dst-mac", "02:00:00:00:00:01"]);
        }
        command
    }

    /// Frames per second of a run for as long as the window.
    fn pktgen(&self, device: &str, options: &[&str], window: Duration, count: &str) -> Result<f64> {
        let mut command = self.command(device);
        command.args(options).arg(format!("{}ms", window.as_millis())).stderr(std::process::Stdio::null());
        let text = capture(command)?;
        let said: Value = serde_json::from_str(&text).with_context(|| format!("pktgen said {text}"))?;
        let seconds = said["duration_s"].as_f64().context("no duration_s")?;
        let frames = said.pointer(count).and_then(Value::as_f64).with_context(|| format!("no {count}"))?;
        ensure!(frames > 0.0, "no frame passed");
        Ok(frames / seconds)
    }
}

/// Frames per second that arrive at the other end of the cable.
fn into_the_cable(mut running: Running, window: Duration) -> Result<f64> {
    process::wait("frames", START_LIMIT, || {
        running.is_alive()?;
        let before = arrived()?;
        process::pause(MARGIN / 20)?;
        Ok((arrived()? > before).then_some(()))
    })?;
    process::pause(MARGIN)?;
    let (begun, before) = (Instant::now(), arrived()?);
    process::pause(window)?;
    let (ended, after) = (Instant::now(), arrived()?);
    running.is_alive()?;
    running.end();
    ensure!(after > before, "nothing was sent");
    Ok((after - before) as f64 / (ended - begun).as_secs_f64())
}

fn arrived() -> Result<u64> {
    let counter = format!("/sys/class/net/{FAR}/statistics/rx_packets");
    Ok(capture(inside(NETNS, &["cat", &counter]))?.trim().parse()?)
}

/// A command that dies with us, in the namespace of the cable or in ours.
fn inside_of_cable(is_inside: bool) -> Command {
    if !is_inside {
        return mortal("env");
    }
    let mut command = mortal("ip");
    command.args(["netns", "exec", NETNS]);
    command
}

fn trafgen() -> Result<Running> {
    let frame = root().join("target/peers/trafgen.cfg");
    let text = "{ eth(da=02:00:00:00:00:01, sa=02:00:00:00:00:02), ipv4(sa=192.0.2.1, da=198.51.100.1), \
                udp(sp=49152, dp=9), fill(0x00, 18) }\n";
    std::fs::create_dir_all(root().join("target/peers"))?;
    std::fs::write(&frame, text)?;
    let mut command = inside_of_cable(true);
    // The frames are made by a child of its own, which does not end with it: `timeout` tells them both.
    command.args(["timeout", "--signal=INT", "60", "taskset", "-c", &machine::test_cpu().to_string()]);
    command.args(["trafgen", "--dev", NEAR, "--conf"]).arg(frame);
    command.args(["--cpus", "1", "--no-cpu-stats", "--num", TRAFGEN_MAX]);
    Running::start("trafgen", command)
}

/// Frames per second that testpmd counts on its port.
fn testpmd(mode: &str, device: &str, counter: &str, window: Duration) -> Result<f64> {
    let mut eal = Eal::on(machine::test_cpu(), "generate", vec![device.to_owned()]);
    // The main one only waits; the second one works.
    eal.cpus = format!("{},{}", machine::other_cpu(), machine::test_cpu());
    let is_cable = device.contains(NEAR);
    let program = if is_cable { "ip" } else { "dpdk-testpmd" };
    let options: &[&str] = if is_cable { &["netns", "exec", NETNS, "dpdk-testpmd"] } else { &[] };
    let mut command = eal.command(Path::new(program), options);
    command.args(["--no-mlockall", "--nb-cores=1", "--auto-start", "--total-num-mbufs=16384"]);
    command.arg(format!("--forward-mode={mode}"));
    let mut running = Running::start("testpmd", command)?;
    let begun = running.says("packet forwarding", START_LIMIT);
    if is_cable {
        let rate = begun.and_then(|()| into_the_cable(running, window));
        eal.clean();
        return rate;
    }
    let rate = begun.and_then(|()| rate_of(&eal, 0, counter, window));
    running.end();
    eal.clean();
    rate
}
