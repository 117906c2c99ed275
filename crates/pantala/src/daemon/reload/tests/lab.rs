//! A router, made of a file, and a stack on each side of it.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Instant;

use crate::api::firewall::Filter;
use crate::api::stack::Stack as _;
use crate::api::{AddressState, FirewallCommands, Interface as Shown, RoutePage};
use crate::config::{Config, Machine, Wires};
use crate::daemon::bring_up::bring_up;
use crate::daemon::control::Control;
use crate::daemon::running::Source;
use crate::sockets::Sockets;
use crate::sockets::blocking::{TcpStream, UdpSocket};
use crate::{Interface, Stack, mem};

/// Ports, of which the old rules let one pass and the new ones the other.
/// Datagrams to the allowed port that arrive before one to the other port counts as denied.
const SENTINELS: u32 = 1000;
pub(in crate::daemon) const PASSED: u16 = 53;
pub(in crate::daemon) const BLOCKED: u16 = 54;
/// A host that no configuration lets packets through to, at the port at which it listens.
pub(in crate::daemon) const FAR: SocketAddr =
    SocketAddr::new(IpAddr::V4(core::net::Ipv4Addr::new(203, 0, 113, 9)), PASSED);

const CLIENT: [&str; 2] = ["192.0.2.2", "2001:db8:1::2"];
const SERVER: [&str; 2] = ["198.51.100.2", "2001:db8:2::2"];
const PATIENCE: Duration = Duration::from_secs(60);
/// For connections that must fail, too.
const SHORT_PATIENCE: Duration = Duration::from_secs(5);

pub(in crate::daemon) const OLD: &str = r#"
threads = 1
forwarding = true
flow_cache = 0
[[interface]]
name = "lan"
device = "mem:lan"
address = ["192.0.2.1/24", "2001:db8:1::1/64"]
[[interface]]
name = "wan"
device = "mem:wan"
address = ["198.51.100.1/24", "2001:db8:2::1/64"]
[[interface]]
name = "lan2"
device = "mem:lan2"
address = ["192.0.3.1/24"]
[[route]]
to = "203.0.113.0/24"
via = ["198.51.100.2"]
[[service]]
kind = "echo"
port = 7
[[serve]]
dir = "FOLDER/old"
[sysctl]
net.inet.tcp.delacktime = 30
[firewall]
rules_text = """
table own add 192.0.2.2
add allow udp from any to any 53
add allow tcp from any to any
add allow ipv6-icmp from any to any
add allow udp from table(guests) to any 55
add allow udp from table(own) to any 56
"""
"#;

/// Every kind of change at once: devices opened, opened anew and closed; addresses, routes, rules, variables, services, sites.
pub(in crate::daemon) const NEW: &str = r#"
threads = 1
forwarding = true
flow_cache = 64
[[interface]]
name = "lan"
device = "mem:lan"
address = ["192.0.2.1/24", "192.0.2.7/24", "2001:db8:1::1/64"]
[[interface]]
name = "wan"
device = "mem:wan"
mac = "02:00:00:00:00:77"
address = ["198.51.100.1/24", "2001:db8:2::1/64"]
[[interface]]
name = "lan2"
device = "mem:lan2"
monitor = true
[[interface]]
name = "dmz"
device = "mem:dmz"
address = ["192.0.4.1/24"]
[[route]]
to = "203.0.113.0/25"
via = ["198.51.100.2"]
[[service]]
kind = "echo"
port = 9
[[serve]]
dir = "FOLDER/new"
[sysctl]
net.inet.tcp.delacktime = 40
[firewall]
rules_text = """
add allow udp from any to any 54
add allow tcp from any to any
add allow ipv6-icmp from any to any
"""
"#;

pub(in crate::daemon) struct Lab {
    pub(in crate::daemon) router: Control,
    folder: PathBuf,
    client: Sockets,
    server: Sockets,
    far: UdpSocket,
    // Dropped behind their sockets.
    _stacks: [Stack; 2],
    /// Keeps port 4000 of the router for itself.
    _other: UdpSocket,
}

impl Lab {
    /// Starts all three, and waits until the addresses of all can be used.
    pub(in crate::daemon) fn start(name: &str, config: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("pantala-reload-{name}-{}", std::process::id()));
        for site in ["old", "new"] {
            fs::create_dir_all(folder.join(site)).unwrap();
            fs::write(folder.join(site).join("index.html"), site).unwrap();
        }
        let mut wires = Wires::new();
        let mut ends = ["lan", "wan", "lan2", "dmz"].map(|name| {
            let [near, far] = mem::wire(2).unwrap();
            wires.insert(name.to_owned(), near);
            Some(far)
        });
        let [lan, wan, lan2, _] = &mut ends;
        let client = host(lan.take().unwrap(), CLIENT, "192.0.2.1", "2001:db8:1::1", None);
        let server = host(wan.take().unwrap(), SERVER, "198.51.100.1", "2001:db8:2::1", lan2.take());
        let text = config.replace("FOLDER", &folder.display().to_string());
        let file = folder.join("pantala.toml");
        fs::write(&file, &text).unwrap();
        let config = Config::parse("t", &text, &Machine { cpus: vec![0] }).unwrap();
        let (router, _) = bring_up(Some(Source { file, text }), Config { wires, ..config }).unwrap();
        let other = UdpSocket::bind(&Sockets::open(&router.remotes()).unwrap(), "[::]:4000").unwrap();
        let sockets = [&client, &server].map(|stack| stack.sockets().unwrap());
        let far = UdpSocket::bind(&sockets[1], FAR).unwrap();
        far.set_nonblocking(true).unwrap();
        let [of_client, of_server] = sockets;
        let mut lab = Self {
            router,
            folder,
            client: of_client,
            server: of_server,
            far,
            _stacks: [client, server],
            _other: other,
        };
        lab.settle();
        lab
    }

    /// Writes the file that the next reload reads.
    pub(in crate::daemon) fn write(&self, config: &str) {
        let text = config.replace("FOLDER", &self.folder.display().to_string());
        fs::write(self.folder.join("pantala.toml"), text).unwrap();
    }

    pub(in crate::daemon) fn command(&mut self, text: &str) {
        let commands = FirewallCommands { name: String::new(), text: text.to_owned() };
        self.router.run_commands(&commands).unwrap();
    }

    /// All that can be seen of the router and does not count or age.
    pub(in crate::daemon) fn look(&mut self) -> Vec<String> {
        self.settle();
        let interfaces = self.router.interfaces().unwrap().into_iter().map(|shown| {
            let Shown { name, flags, options, mtu, mac, addresses, groups, link, rings, .. } = shown;
            format!(
                "{name} {flags:?} {options:?} {mtu} {mac:?} {addresses:?} {groups:?} {link:?} {}",
                rings.len()
            )
        });
        let interfaces: Vec<String> = interfaces.collect();
        let routes = self.router.routes(&RoutePage::default()).unwrap();
        let sysctls = self.router.sysctls().unwrap();
        let rules = self.router.firewall_rules().unwrap();
        let rules = rules.into_iter().map(|rule| format!("{} {} {}", rule.number, rule.enabled, rule.rule));
        let status = self.router.firewall_status().unwrap();
        let status = format!("{} {} {:?}", status.enabled, status.one_pass, status.settings);
        let runs = format!("{:?} {:?}", self.router.serves(), self.router.running_services());
        let rest = rules.chain([status, runs]).chain(routes.iter().map(|route| format!("{route:?}")));
        let all = interfaces.into_iter().chain(rest);
        let mut all: Vec<String> = all.chain(sysctls.iter().map(|one| format!("{one:?}"))).collect();
        // An interface that is opened anew has another number, and so another place among others.
        all.sort();
        all
    }

    pub(in crate::daemon) fn is_as_of_old(&self) {
        assert!(self.passes(PASSED) && !self.passes(BLOCKED));
        assert_eq!((self.echo(7), self.echo(9)), (true, false));
        assert_eq!(self.page(), "old");
    }

    pub(in crate::daemon) fn is_as_of_new(&mut self) {
        self.settle();
        assert!(self.passes(BLOCKED) && !self.passes(PASSED));
        assert_eq!((self.echo(7), self.echo(9)), (false, true));
        assert_eq!(self.page(), "new");
    }

    /// Tells whether datagrams of both families get through to a port of the server. Each is followed by one to a port that
    /// the rules let pass; as the two may be on different CPUs, many of those must arrive alone before the answer is no.
    pub(in crate::daemon) fn passes(&self, port: u16) -> bool {
        let other = if port == PASSED { BLOCKED } else { PASSED };
        let each = SERVER.map(|server| {
            let [wanted, sentinel] = [port, other].map(|port| {
                let socket = UdpSocket::bind(&self.server, (server, port)).unwrap();
                socket.set_nonblocking(true).unwrap();
                socket
            });
            let own =
                UdpSocket::bind(&self.client, if server.contains(':') { "[::]:0" } else { "0.0.0.0:0" });
            let own = own.unwrap();
            let (begun, mut buf, mut alone) = (Instant::now(), [0; 9], 0);
            loop {
                own.send_to(b"?", (server, port)).unwrap();
                own.send_to(b"?", (server, other)).unwrap();
                std::thread::yield_now();
                if wanted.recv_from(&mut buf).is_ok() {
                    return true;
                }
                alone += u32::from(sentinel.recv_from(&mut buf).is_ok());
                if alone == SENTINELS {
                    return false;
                }
                assert!(begun.elapsed() < PATIENCE, "neither port of {server} is heard");
            }
        });
        assert_eq!(each[0], each[1], "both families");
        each[0]
    }

    pub(in crate::daemon) fn client_socket(&self) -> UdpSocket {
        UdpSocket::bind(&self.client, "0.0.0.0:0").unwrap()
    }

    /// Datagrams that have come to the far host.
    pub(in crate::daemon) fn leaked(&self) -> usize {
        let mut buf = [0; 99];
        core::iter::from_fn(|| self.far.recv_from(&mut buf).ok()).count()
    }

    /// Whether an echo service of the router answers.
    fn echo(&self, port: u16) -> bool {
        let Ok(mut stream) = self.connect(port) else { return false };
        stream.write_all(b"hello").unwrap();
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).is_ok() && heard == *b"hello"
    }

    /// Whether the echo service answers at an address of the router.
    pub(in crate::daemon) fn reaches(&mut self, addr: &str) -> bool {
        self.settle();
        let addr = SocketAddr::new(addr.parse().unwrap(), 7);
        TcpStream::connect_timeout(&self.client, &addr, SHORT_PATIENCE).is_ok()
    }

    /// Returns the page of the router's web server.
    fn page(&self) -> String {
        let mut stream = self.connect(80).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n").unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        heard.rsplit("\r\n").next().unwrap_or_default().to_owned()
    }

    fn connect(&self, port: u16) -> std::io::Result<TcpStream> {
        TcpStream::connect_timeout(
            &self.client,
            &SocketAddr::new("192.0.2.1".parse().unwrap(), port),
            PATIENCE,
        )
    }

    /// Waits until all addresses of the router can be used.
    fn settle(&mut self) {
        let begun = Instant::now();
        let is_usable =
            |shown: &Shown| shown.addresses.iter().all(|address| address.state == AddressState::Preferred);
        while !self.router.interfaces().unwrap().iter().filter(|shown| shown.link.active).all(is_usable) {
            assert!(begun.elapsed() < PATIENCE, "addresses stay tentative");
            std::thread::yield_now();
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let ended = self.router.shut_down();
        // Another test may have the folder still in use only if it has its name.
        let _ = fs::remove_dir_all(&self.folder);
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

/// A stack with one interface, or two, that sends everything else to the router.
fn host(end: mem::End, own: [&str; 2], via4: &str, via6: &str, more: Option<mem::End>) -> Stack {
    let [v4, v6] = own;
    let lan = Interface::mem(end).name("lan").address(format!("{v4}/24")).address(format!("{v6}/64"));
    let stack = Stack::builder().threads(1).interface(lan).route("default", via4).route("::/0", via6);
    let stack = match more {
        Some(end) => stack
            .interface(Interface::mem(end).name("lan2").address("192.0.3.2/24").address("203.0.113.9/32")),
        None => stack,
    };
    stack.start().unwrap()
}
