//! The network: a router, Linux hosts around it, and a program with a stack of its own.

use core::fmt::Write;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::loads::Loads;
use crate::peers::process::{Running, mortal, wait};
use crate::run::{capture, root};

const START_LIMIT: Duration = Duration::from_secs(30);
/// Time limit of the load's programs to end what they have begun.
pub const END_LIMIT: Duration = Duration::from_secs(60);
/// Packet buffers of the router: enough for all rings on either CPU.
const BUFFERS: u32 = 65_536;
/// Everything that runs here gives way to others.
const NICENESS: &str = "10";

/// The router's interfaces: name, device, rings. The number of a network is its position, from 1.
const INTERFACES: [(&str, &str, u32); 6] = [
    ("a", "af_xdp:port-a,mode=native", 2),
    ("b", "tap:port-b", 2),
    ("m", "memif:SOCKET,id=0,role=master", 1),
    ("f", "af_xdp:port-f,mode=native", 1),
    ("g0", "af_xdp:port-g0,mode=native", 1),
    ("g1", "af_xdp:port-g1,mode=native", 1),
];
/// Veth pairs: the host's namespace, its end, the router's end, pairs of queues.
const PAIRS: [(&str, &str, &str, u32); 4] = [
    ("a", "eth0", "port-a", 2),
    ("f", "eth0", "port-f", 1),
    ("g", "gen0", "port-g0", 1),
    ("g", "gen1", "port-g1", 1),
];
/// Hosts with addresses of their own: namespace, interface, number of the network.
const HOSTS: [(&str, &str, u8); 3] = [("a", "eth0", 1), ("b", "port-b", 2), ("f", "eth0", 4)];

/// The router's own connections pass `nat … out`, too: past it, a port of theirs could be that of a binding, which then took
/// their replies.
const RULES: &str = "\
nat 1 config if b
table bad create type addr
add 10 allow ipv6-icmp from any to any icmp6types 133,134,135,136
add 50 deny ip from table(bad) to any
add 100 nat 1 ip4 from any to any in recv b
add 200 check-state
add 250 allow udp from any to any recv g0
add 300 skipto 1000 tcp from any to any in recv a setup limit src-addr 4000
add 310 skipto 1000 { udp or icmp or ipv6-icmp } from any to any in recv a keep-state
add 320 skipto 1000 tcp from any to any in recv m setup keep-state
add 330 skipto 1000 { udp or icmp or ipv6-icmp } from any to any in recv m keep-state
add 340 allow { udp or icmp or ipv6-icmp } from any to me in recv f keep-state
add 350 skipto 1000 ip from me to any out keep-state
add 500 deny log ip from any to any in
add 1000 nat 1 ip4 from any to any out xmit b
add 1010 allow ip from any to any
add 65000 deny log ip from any to any
";

/// Where the router is told what to do.
#[derive(Clone)]
pub struct Tools {
    pub program: PathBuf,
    pub folder: PathBuf,
    hosts: String,
}

impl Tools {
    /// Runs one of pantala's commands.
    pub fn pantala(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("--socket").arg(self.socket()).args(args);
        capture(command)
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("control.sock")
    }

    pub fn netns(&self, name: &str) -> String {
        format!("{}-{name}", self.hosts)
    }

    /// Writes the configuration that is asked for; there are four.
    pub fn write_config(&self, variant: usize) -> Result<()> {
        write(&self.folder.join("pantala.toml"), self.config(variant))
    }

    fn config(&self, variant: usize) -> String {
        let mut text = format!(
            "cpus = [{}]\nbuffers = {BUFFERS}\nforwarding = true\n[polling]\npolicy = \"adaptive\"\nuser_frac = 20\n",
            if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) { "0, 1" } else { "0" }
        );
        let socket = self.folder.join("memif.sock").display().to_string();
        for ((name, device, rings), net) in INTERFACES.into_iter().zip(1..) {
            let device = device.replace("SOCKET", &socket);
            let more = if name == "f" && variant == 1 { ", \"10.78.44.1/24\"" } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "[[interface]]\nname = \"{name}\"\ndevice = \"{device}\"\nrings = {rings}\n\
                 address = [\"{}/24\", \"{}/64\"{more}]\n",
                v4(net, 1),
                v6(net, 1)
            );
        }
        text + &self.sections(variant)
    }

    fn sections(&self, variant: usize) -> String {
        let (www, more_rules) = (self.folder.join("www"), "add 60 count tcp from any to any 80\n");
        let mut text = format!("[[serve]]\ndir = \"{}\"\n[[service]]\nkind = \"echo\"\n", www.display());
        for (port, to) in [(8080, v4(2, 2)), (8086, format!("[{}]", v6(2, 2)))] {
            let _ = write!(text, "[[service]]\nkind = \"relay\"\nport = {port}\nto = \"{to}:7000\"\n");
        }
        let _ = write!(
            text,
            "[firewall]\ndyn_ack_lifetime = 60\nrules_text = '''\n{RULES}{}'''\n\
             [sysctl]\n\"net.inet.tcp.msl\" = 5000\n\"net.inet.tcp.delacktime\" = {}\n",
            if variant == 2 { more_rules } else { "" },
            if variant == 2 { 20 } else { 40 },
        );
        match variant {
            1 => text += "[[service]]\nkind = \"discard\"\n",
            3 => text += "[[route]]\nto = \"203.0.113.0/24\"\nvia = [\"10.78.2.2\"]\n",
            _ => {}
        }
        text
    }
}

pub fn v4(net: u8, host: u8) -> String {
    format!("10.78.{net}.{host}")
}

pub fn v6(net: u8, host: u8) -> String {
    format!("fd78:{net}::{host}")
}

/// Everything that runs. Dropped, it is taken away.
pub struct Lab {
    tools: Tools,
    pub router: Running,
    pub library: Option<Running>,
    loads: Loads,
}

/// Takes namespaces and folder away, also when the start fails half way.
struct Ground(Tools);

impl Drop for Ground {
    fn drop(&mut self) {
        take_away(&self.0);
    }
}

impl Lab {
    /// The network with the router in its middle, and no load yet.
    pub fn start(release: bool) -> Result<Self> {
        let target = root().join("target").join(if release { "release" } else { "debug" });
        let hosts = format!("pt-soak{}", std::process::id());
        let folder = std::env::temp_dir().join(&hosts);
        let ground = Ground(Tools { program: folder.join("pantala"), folder, hosts });
        let tools = &ground.0;
        std::fs::create_dir_all(tools.folder.join("www"))?;
        // Copies, so that what is compiled meanwhile changes nothing here.
        std::fs::copy(target.join("pantala"), &tools.program)?;
        std::fs::copy(target.join("examples/memif_threads"), tools.folder.join("memif_threads"))?;
        files(&tools.folder)?;
        wires(tools)?;
        tools.write_config(0)?;
        let router = router(tools)?;
        attach(tools)?;
        let library = Some(library(tools)?);
        let lab = Self { tools: tools.clone(), router, library, loads: Loads::default() };
        core::mem::forget(ground);
        lab.is_connected()?;
        Ok(lab)
    }

    fn is_connected(&self) -> Result<()> {
        let ask = || {
            let answer = self.tools.pantala(&["ping", "-c", "1", "-W", "500", &v4(3, 2)]);
            Ok(answer.is_ok().then_some(()))
        };
        wait("answer over memif", START_LIMIT, ask)
    }

    pub fn tools(&self) -> Tools {
        self.tools.clone()
    }

    pub fn begin_load(&mut self) -> Result<()> {
        self.loads.begin(&self.tools)
    }

    /// Ends the load, and answers its accounts.
    pub fn end_load(&mut self) -> Vec<super::loads::Account> {
        let mut accounts = self.loads.end();
        if let Some(library) = &mut self.library {
            accounts.extend(super::loads::quiet(library));
        }
        accounts
    }

    /// Fails if something has ended that should run.
    pub fn is_alive(&mut self) -> Result<()> {
        self.router.is_alive().context("the router")?;
        self.library.iter_mut().try_for_each(Running::is_alive).context("the program with a stack")?;
        self.loads.is_alive()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.loads.end();
        self.library = None;
        self.router.end();
        take_away(&self.tools);
    }
}

fn router(tools: &Tools) -> Result<Running> {
    let mut command = gentle(Some(&tools.netns("r")));
    command.arg(&tools.program).arg("--socket").arg(tools.socket()).args(["up", "-q", "-c"]);
    command.arg(tools.folder.join("pantala.toml"));
    let mut router = Running::start("soak-router", command)?;
    wait("router", START_LIMIT, || {
        router.is_alive()?;
        Ok(tools.pantala(&["netstat", "-m"]).ok())
    })?;
    Ok(router)
}

/// A program with a stack of its own whose threads use sockets; it is the router's neighbour over memif.
fn library(tools: &Tools) -> Result<Running> {
    let mut command = gentle(None);
    command.arg(tools.folder.join("memif_threads")).arg(tools.folder.join("memif.sock"));
    command.args([format!("{}/24", v4(3, 2)), format!("{}/64", v6(3, 2)), v4(3, 1), v6(3, 1)]);
    Running::start("soak-library", command)
}

/// A command that gives way to others, in a namespace or here.
pub fn gentle(netns: Option<&str>) -> Command {
    let mut command = mortal("nice");
    command.args(["-n", NICENESS]);
    if let Some(netns) = netns {
        command.args(["ip", "netns", "exec", netns]);
    }
    command
}

/// Writes a whole file, or says which one not.
pub fn write(file: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(file, bytes).with_context(|| format!("cannot write {}", file.display()))
}

/// Files to be served: their bytes depend on the position.
fn files(folder: &Path) -> Result<()> {
    for (name, len) in [("small", 1000), ("large", super::agent::LARGE)] {
        write(&folder.join("www").join(name), super::agent::pattern(0, len))?;
    }
    Ok(())
}

fn wires(tools: &Tools) -> Result<()> {
    for name in ["r", "a", "b", "f", "g"] {
        let netns = tools.netns(name);
        ip(&["netns", "add", &netns])?;
        ip(&["-n", &netns, "link", "set", "lo", "up"])?;
        for key in ["all", "default"] {
            let set = format!("net.ipv6.conf.{key}.accept_dad=0");
            ip(&["netns", "exec", &netns, "sysctl", "-qw", &set])?;
        }
    }
    // What pantala has taken over is not to be disturbed by what this kernel has to say.
    ip(&["netns", "exec", &tools.netns("r"), "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"])?;
    for (host, inside, outside, queues) in PAIRS {
        let (near, far, queues) = (tools.netns(host), tools.netns("r"), queues.to_string());
        let queues = ["numrxqueues", &queues, "numtxqueues", &queues];
        let mut args = vec!["link", "add", inside, "netns", &near];
        args.extend(queues);
        args.extend(["type", "veth", "peer", "name", outside, "netns", &far]);
        args.extend(queues);
        ip(&args)?;
        ip(&["-n", &near, "link", "set", inside, "up"])?;
        ip(&["-n", &far, "link", "set", outside, "up"])?;
    }
    Ok(())
}

/// Gives hosts their addresses; the kernel's end of the TAP moves to its host.
fn attach(tools: &Tools) -> Result<()> {
    let (router, b) = (tools.netns("r"), tools.netns("b"));
    wait("TAP", START_LIMIT, || Ok(ip(&["-n", &router, "link", "show", "port-b"]).ok()))?;
    ip(&["-n", &router, "link", "set", "port-b", "netns", &b])?;
    for (host, interface, net) in HOSTS {
        let netns = tools.netns(host);
        ip(&["-n", &netns, "link", "set", interface, "up"])?;
        for (address, length, gateway) in [(v4(net, 2), 24, v4(net, 1)), (v6(net, 2), 64, v6(net, 1))] {
            ip(&["-n", &netns, "addr", "add", &format!("{address}/{length}"), "dev", interface])?;
            ip(&["-n", &netns, "route", "add", "default", "via", &gateway])
                .or_else(|_| ip(&["-n", &netns, "-6", "route", "add", "default", "via", &gateway]))?;
        }
    }
    Ok(())
}

fn take_away(tools: &Tools) {
    for name in ["r", "a", "b", "f", "g"] {
        // That one is not there is well.
        let _ = ip(&["netns", "del", &tools.netns(name)]);
    }
    let _ = std::fs::remove_dir_all(&tools.folder);
}

pub fn ip(args: &[&str]) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(args);
    capture(command).map(drop)
}
