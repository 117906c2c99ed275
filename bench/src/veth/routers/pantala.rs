//! pantala, as its users start it.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use dev::sys::process::end_with_parent;
use rustix::process::{Pid, Signal, kill_process};

use super::{Figures, Filter, Over, Router, Sent};
use crate::veth::frames::{self, SINK_MAC, Side};
use crate::veth::lab::{IN, Lab, OUT};
use crate::veth::layout::{Layout, ROUTER_CPU};
use crate::veth::thread::Thread;

/// Time limit of start and end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Settings of the program.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Its rules.
    pub filter: Filter,
    /// It rings before the end of a turn for so many packets, of whatever length.
    pub doorbell: Option<u16>,
    /// Whether flows are offloaded to the driver.
    pub offloads: bool,
    /// The interface through which it forwards.
    pub over: Option<Over>,
}

/// The running program, and its folder.
pub struct Pantala {
    child: Child,
    program: PathBuf,
    folder: PathBuf,
}

impl Pantala {
    /// Starts the program that lies beside this one.
    ///
    /// # Errors
    /// When it is not there, or does not start.
    pub fn start(lab: &Lab, options: Options) -> Result<Self> {
        let program = std::env::current_exe()?.with_file_name("pantala");
        ensure!(program.exists(), "{} is missing: cargo build --release -p pantala", program.display());
        let folder = std::env::temp_dir().join(format!("pt-veth-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("pantala.toml"), config(lab, options))?;
        let mut command = Command::new(&program);
        command.arg("--socket").arg(folder.join("control.sock"));
        command.args(["up", "-c"]).arg(folder.join("pantala.toml"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        end_with_parent(lab.router.put(&mut command)?);
        let child = command.spawn().with_context(|| program.display().to_string())?;
        let mut pantala = Self { child, program, folder };
        pantala.await_gateway(lab)?;
        if options.over == Some(Over::Vxlan) {
            let gateway = frames::addr(lab.family, Side::Vxlan, 2).to_string();
            let word = if gateway.contains(':') { "ndp" } else { "arp" };
            pantala.says(&[word, "-s", &gateway, &SINK_MAC.to_string()])?;
        }
        Ok(pantala)
    }

    /// Waits until it knows where the sink is: the first datagrams of a flood would only be in the way.
    fn await_gateway(&mut self, lab: &Lab) -> Result<()> {
        let gateway = frames::addr(lab.family, Side::Out, 2).to_string();
        let begun = Instant::now();
        while self.says(&["ping", "-c", "1", &gateway]).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("pantala ended with {status}");
            }
            ensure!(begun.elapsed() < PATIENCE, "pantala does not reach the sink");
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Packet buffers that receive rings answer for, and those that are neither free nor there.
    fn buffers(&self) -> Result<[f64; 2]> {
        let said = self.says(&["netstat", "-m"])?;
        let numbers = said.split([' ', '/']).take(3).map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        match numbers[..] {
            [used, rings, _] => Ok([rings, used]),
            _ => bail!("netstat -m said {said}"),
        }
    }

    /// A counter of `netstat -s`, if it is not zero.
    fn counter(&self, name: &str) -> Option<f64> {
        let said = self.says(&["--json", "netstat", "-s"]).ok()?;
        let (_, rest) = said.split_once(&format!("\"{name}\""))?;
        let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    /// The last three columns of `netstat -o` are packets, flushes and doorbells.
    fn sent_by(&self, interface: &str) -> Option<Sent> {
        let said = self.says(&["netstat", "-o", "-I", interface]).ok()?;
        let row = said.lines().find(|line| line.split_whitespace().next() == Some(interface))?;
        let mut last = row.split_whitespace().rev();
        let doorbells = last.next()?.parse().ok()?;
        Some(Sent { frames: last.nth(1)?.parse().ok()?, doorbells })
    }

    /// Returns the output of one of its commands.
    ///
    /// # Errors
    /// When the command fails.
    pub fn says(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("--socket").arg(self.folder.join("control.sock")).args(words).stdin(Stdio::null());
        let output = command.output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "pantala {}: {error}", words.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Router for Pantala {
    fn thread(&self) -> Option<Thread> {
        Thread::named(self.child.id(), "netisr").ok()
    }

    fn sent(&self) -> Option<Sent> {
        self.sent_by("out")
    }

    fn figures(&mut self) -> Figures {
        let buffers =
            self.buffers().map(|[rings, out]| [("buffers in rings", rings), ("buffers elsewhere", out)]);
        let offload = [
            ("packets offloaded", "flow_offloaded"),
            ("flows offloaded", "offload_inserted"),
            ("flows without room", "offload_full"),
            ("flows evicted", "offload_evicted"),
            ("flows stale", "offload_stale"),
        ];
        let offload = offload.into_iter().filter_map(|(name, counter)| Some((name, self.counter(counter)?)));
        buffers.into_iter().flatten().chain(offload).collect()
    }
}

impl Drop for Pantala {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && asked.elapsed() < PATIENCE {
            sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        remove(&self.folder);
    }
}

fn remove(folder: &Path) {
    let _ = std::fs::remove_dir_all(folder);
}

fn config(lab: &Lab, Options { filter, doorbell, offloads, over }: Options) -> String {
    let polling = match lab.layout {
        Layout::One => "never",
        Layout::Two => "always",
        Layout::Split => "adaptive",
    };
    let interface = |name: &str, host: &str, side| {
        let net = frames::net(lab.family, side, 1);
        let address = if over == Some(Over::Bridge) { String::new() } else { format!("\"{net}\"") };
        let offload = if offloads { "auto" } else { "off" };
        format!(
            "[[interface]]\nname = \"{name}\"\ndevice = \"af_xdp:{host}\"\naddress = [{address}]\noffload = \"{offload}\"\n\n"
        )
    };
    let side = if over == Some(Over::Vxlan) { Side::Vxlan } else { Side::Out };
    let (to, via) = (frames::beyond(lab.family), frames::addr(lab.family, side, 2));
    [
        format!("cpus = [{ROUTER_CPU}]\npolling = \"{polling}\"\nforwarding = true\n\n"),
        interface("in", IN, Side::In),
        interface("out", OUT, Side::Out),
        over.map_or_else(String::new, |over| section(lab, over)),
        format!("[[route]]\nto = \"{to}\"\nvia = [\"{via}\"]\n\n"),
        filter
            .ipfw(lab.family)
            .map_or_else(String::new, |rules| format!("[firewall]\nrules_text = '''\n{rules}'''\n")),
        doorbell.map_or_else(String::new, |packets| {
            format!("[sysctl]\nnet.link.stage_cntmax = {packets}\nnet.link.stage_bytemax = {}\n", 16 << 20)
        }),
    ]
    .concat()
}

/// The interface that stands on the others.
fn section(lab: &Lab, over: Over) -> String {
    let (device, side) = match over {
        Over::Bridge => ("bridge:in,out".to_owned(), Side::Out),
        Over::Vxlan => {
            let [local, remote] = [1, 2].map(|host| frames::addr(lab.family, Side::Out, host));
            (format!("vxlan:42,{local},{remote}"), Side::Vxlan)
        }
    };
    let net = frames::net(lab.family, side, 1);
    format!("[[interface]]\nname = \"over\"\ndevice = \"{device}\"\naddress = [\"{net}\"]\n\n")
}
