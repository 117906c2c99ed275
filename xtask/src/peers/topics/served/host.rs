//! Two namespaces with a veth pair between them, and a server in one of them.

use core::fmt::Write;
use core::time::Duration;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::peers::contest::Bed;
use crate::peers::machine;
use crate::peers::process::{Running, mortal, wait};
use crate::run::{capture, root};

/// The namespaces.
const SERVER: &str = "pt-served";
pub const CLIENT: &str = "pt-asks";
/// The ends of the pair, and the TAP.
const NEAR: &str = "pt-asks0";
const FAR: &str = "pt-served0";
const TAP: &str = "pt-tap0";
/// The kernel's end.
const ASKER: &str = "10.9.0.1";
const START_LIMIT: Duration = Duration::from_secs(15);
/// Ticks of the kernel's accounts in a second.
pub const TICKS: f64 = 100.0;
const BULK_BYTES: usize = 16 << 20;

/// Runs a command with as many connections as the machine allows, at high priority.
pub const PREFERRED: [&str; 5] = ["setsid", "sh", "-c", PREFER, "sh"];
/// The kernel shares a CPU among sessions first, where it has autogroups.
const PREFER: &str = "ulimit -n $(ulimit -Hn); [ ! -e /proc/self/autogroup ] || echo -20 > /proc/self/autogroup; \
                      exec nice -n -20 \"$@\"";

/// The server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// pantala over a TAP, whose other end is the kernel's.
    Tap,
    /// Over AF_XDP on a veth.
    Xdp,
    /// Both where pantala sleeps whenever it has nothing to do, and never waits for the next packet by looking.
    TapAsleep,
    /// See [`Self::TapAsleep`].
    XdpAsleep,
    /// [`Self::Xdp`] with a firewall that makes a state for each connection.
    States,
    /// nginx on the kernel.
    Nginx,
    /// nginx without super-packets.
    NginxPlain,
}

impl ServerKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Tap => "pantala over TAP",
            Self::Xdp => "pantala over AF_XDP",
            Self::TapAsleep => "pantala over TAP, which never spins",
            Self::XdpAsleep => "pantala over AF_XDP, which never spins",
            Self::States => "pantala over AF_XDP, a state for each connection",
            Self::Nginx => "nginx over veth",
            Self::NginxPlain => "nginx over veth, no super-packets",
        }
    }

    fn has_tap(self) -> bool {
        matches!(self, Self::Tap | Self::TapAsleep)
    }

    fn polling(self) -> &'static str {
        if matches!(self, Self::TapAsleep | Self::XdpAsleep) { "never" } else { "adaptive" }
    }

    fn is_nginx(self) -> bool {
        matches!(self, Self::Nginx | Self::NginxPlain)
    }
}

/// The namespaces are made for each launch; here they are only taken away.
pub struct Wires;

impl Bed for Wires {
    fn set_up(&mut self) -> Result<()> {
        ensure!(crate::setup::is_root(), "needs root");
        ensure!(machine::cpus() > 1, "the client needs a CPU of its own");
        objects()
    }

    fn tear_down(&mut self) {
        remove();
    }
}

/// A server that answers.
pub struct Server {
    who: ServerKind,
    running: Running,
}

impl Server {
    pub const ADDRESS: &str = "10.9.0.2";

    pub fn start(who: ServerKind) -> Result<Self> {
        remove();
        wires()?;
        let server = Self { who, running: if who.is_nginx() { nginx(who)? } else { pantala(who)? } };
        server.answers()?;
        Ok(server)
    }

    /// The namespace from which it is asked.
    pub fn client_netns(&self) -> &'static str {
        if self.who.has_tap() { SERVER } else { CLIENT }
    }

    fn answers(&self) -> Result<()> {
        if self.who.has_tap() {
            wait("TAP", START_LIMIT, || Ok(ip(&["-n", SERVER, "link", "show", TAP]).ok()))?;
            ip(&["-n", SERVER, "addr", "add", &format!("{ASKER}/24"), "dev", TAP])?;
            ip(&["-n", SERVER, "link", "set", TAP, "up"])?;
            steer(SERVER, TAP, machine::other_cpu())?;
        }
        let asks = || {
            let url = format!("http://{}/k", Self::ADDRESS);
            let mut curl =
                inside(self.client_netns(), &["curl", "--silent", "--max-time", "1", "-o", "/dev/null"]);
            Ok(curl.arg(url).status()?.success().then_some(()))
        };
        wait("answer", START_LIMIT, asks)
    }

    /// Seconds of processor time of its threads, and of what the kernel does for packets in a thread of its own.
    pub fn time(&self) -> Result<f64> {
        Ok(time_of(self.running.id())? + time_of(ksoftirqd(machine::test_cpu())?)?)
    }
}

impl Server {
    /// Seconds that its threads were in the kernel, in system calls and interrupts.
    pub fn kernel_time(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.running.id()))?;
        // "PID (NAME) STATE …", and a name may hold anything; the fifteenth field is the time in the kernel.
        let time = text.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(12)?.parse::<f64>().ok());
        Ok(time.context("no such field")? / TICKS)
    }
}

/// Seconds of processor time of a process.
fn time_of(pid: u32) -> Result<f64> {
    let mut sum = 0.0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        let time: f64 = text.split(' ').next().context("schedstat is empty")?.parse()?;
        sum += time / 1e9;
    }
    Ok(sum)
}

/// The kernel's thread that deals with a CPU's packets when there are too many of them to do so at once.
fn ksoftirqd(cpu: usize) -> Result<u32> {
    let name = format!("ksoftirqd/{cpu}");
    let pids = std::fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_it = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    let mut pids = pids.filter(is_it);
    pids.next().with_context(|| format!("there is no {name}"))
}

/// The namespaces and the pair.
fn wires() -> Result<()> {
    ip(&["netns", "add", SERVER])?;
    ip(&["netns", "add", CLIENT])?;
    ip(&["-n", SERVER, "link", "set", "lo", "up"])?;
    ip(&["link", "add", NEAR, "netns", CLIENT, "type", "veth", "peer", "name", FAR, "netns", SERVER])?;
    ip(&["-n", CLIENT, "addr", "add", &format!("{ASKER}/24"), "dev", NEAR])?;
    ip(&["-n", CLIENT, "link", "set", NEAR, "up"])?;
    ip(&["-n", SERVER, "link", "set", FAR, "up"])?;
    steer(CLIENT, NEAR, machine::other_cpu())
}

/// Directs the kernel's processing of an interface's packets to this CPU.
fn steer(netns: &str, interface: &str, cpu: usize) -> Result<()> {
    let write = format!("echo {:x} > /sys/class/net/{interface}/queues/rx-0/rps_cpus", 1_u64 << cpu);
    run(inside(netns, &["sh", "-c", &write]))
}

/// Ends that are gone take the pair with them.
fn remove() {
    for netns in [SERVER, CLIENT] {
        // That it is not there is well.
        let _ = quiet(Command::new("ip").args(["netns", "del", netns])).status();
    }
}

fn pantala(who: ServerKind) -> Result<Running> {
    if !who.has_tap() {
        // What AF_XDP hands over has no half-made checksums.
        run(inside(CLIENT, &["ethtool", "-K", NEAR, "tx", "off"]))?;
    }
    let device = if who.has_tap() { format!("tap:{TAP}") } else { format!("af_xdp:{FAR}") };
    let mut text = format!(
        "cpus = [{}]\npolling = \"{}\"\n\
         [[interface]]\nname = \"lan\"\ndevice = \"{device}\"\naddress = [\"{}/24\"]\n\
         [[route]]\nto = \"{ASKER}/32\"\ndev = \"lan\"\nmsl_ms = 20\n\
         [[serve]]\ndir = \"{}\"\n",
        machine::test_cpu(),
        who.polling(),
        Server::ADDRESS,
        folder().display(),
    );
    if who == ServerKind::States {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[firewall]\nrules_text = '''\nadd 100 check-state\n\
             add 200 allow tcp from any to me 80 setup keep-state\nadd 65000 deny ip from any to any\n'''\n"
        );
    }
    let config = root().join("target/peers/served.toml");
    std::fs::write(&config, text)?;
    let mut command = server();
    command.arg(root().join("target/release/pantala")).args(["up", "-q", "-c"]).arg(config);
    command.arg("--socket").arg(root().join("target/peers/served.sock"));
    Running::start("served-pantala", command)
}

fn nginx(who: ServerKind) -> Result<Running> {
    ip(&["-n", SERVER, "addr", "add", &format!("{}/24", Server::ADDRESS), "dev", FAR])?;
    steer(SERVER, FAR, machine::test_cpu())?;
    if who == ServerKind::NginxPlain {
        for (netns, interface) in [(SERVER, FAR), (CLIENT, NEAR)] {
            run(inside(netns, &["ethtool", "-K", interface, "tso", "off", "gso", "off", "gro", "off"]))?;
        }
    }
    let here = root().join("target/peers");
    let config = here.join("nginx.conf");
    let text = format!(
        "daemon off; master_process off; user root; pid {0}/nginx.pid; error_log {0}/nginx-error.log;\n\
         events {{ worker_connections 65536; }}\n\
         http {{ access_log off; sendfile on; tcp_nopush on; open_file_cache max=16;\n\
         keepalive_requests 1000000000; reset_timedout_connection on;\n\
         server {{ listen 80 backlog=16384; root {1}; }} }}\n",
        here.display(),
        folder().display(),
    );
    std::fs::write(&config, text)?;
    let mut command = server();
    command.arg("nginx").arg("-c").arg(config);
    Running::start("served-nginx", command)
}

/// A command on the server's CPU, in its namespace.
fn server() -> Command {
    let mut command = mortal("ip");
    command.args(["netns", "exec", SERVER]).args(PREFERRED).args(["taskset", "-c"]);
    command.arg(machine::test_cpu().to_string());
    command
}

fn folder() -> PathBuf {
    root().join("target/peers/www")
}

fn objects() -> Result<()> {
    std::fs::create_dir_all(folder())?;
    std::fs::write(folder().join("k"), [b'k'; 1024])?;
    Ok(std::fs::write(folder().join("bulk"), vec![b'b'; BULK_BYTES])?)
}

pub fn ip(args: &[&str]) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(args);
    run(command)
}

pub fn inside(netns: &str, args: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns]).args(args);
    command
}

fn run(command: Command) -> Result<()> {
    capture(command).map(drop)
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdout(Stdio::null()).stderr(Stdio::null())
}
