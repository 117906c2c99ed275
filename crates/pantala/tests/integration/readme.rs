//! Checks configurations and rules in the README, the guides and the reference.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use pantala::config::{Config, Machine};
use pantala::sockets::Sockets;
use pantala::sockets::blocking::{TcpListener, TcpStream, UdpSocket};
use pantala::{Interface, Stack, mem};

const README: &str = include_str!("../../../../README.md");
/// Longest time without progress before the test has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// The project's top directory.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The blocks of a language on a page.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let begin = format!("\n```{language}\n");
    page.split(&begin).skip(1).map(|rest| rest.split("\n```").next().unwrap().to_owned() + "\n").collect()
}

/// The text that commands of the README write to `file`.
fn written_to(file: &str) -> String {
    let documents = README.split("<<'END'\n").skip(1).map(|rest| rest.split("END\n").next().unwrap());
    let commands = README.split("<<'END'\n").map(|before| before.trim_end().ends_with(file));
    documents.zip(commands).filter(|(_, is_it)| *is_it).map(|(text, _)| text).collect()
}

fn parse(name: &str, text: &str) -> Config {
    let config = Config::parse(name, text, &Machine { cpus: vec![0, 1] });
    config.unwrap_or_else(|problems| panic!("{problems}\n{text}"))
}

fn the_configuration_in_the_readme_is_good() {
    let config = parse("README.md", &written_to("/etc/pantala/pantala.toml"));
    assert_eq!((config.interfaces.len(), config.forwarding), (2, true));
    assert_eq!(config.firewall.unwrap().warnings, [] as [&str; 0]);
    let guides = std::fs::read_dir(root().join("docs/guide")).unwrap().map(|entry| entry.unwrap().path());
    let mut checked = 0;
    let pages = guides.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    for path in pages.chain([root().join("docs/reference/CONFIGURATION.md")]) {
        let page = std::fs::read_to_string(&path).unwrap();
        let rules = blocks(&page, "ipfw");
        for text in blocks(&page, "toml").iter().filter(|text| !text.starts_with("[dependencies]")) {
            // A file of rules is the page's first block of them.
            let rules = rules.first().map_or("add allow ip from any to any\n", String::as_str);
            let in_place = |line: &str| match line.starts_with("rules ") {
                true => format!("rules_text = '''\n{rules}'''\n"),
                false => format!("{line}\n"),
            };
            let config = parse(&path.display().to_string(), &text.lines().map(in_place).collect::<String>());
            let warnings = config.firewall.map(|firewall| firewall.warnings).unwrap_or_default();
            assert_eq!(warnings, [] as [&str; 0], "{}", path.display());
            checked += 1;
        }
        for text in rules {
            ipfw::parse_file(&path.display().to_string(), &text).unwrap();
        }
    }
    assert!(checked > 10, "the guides have lost their configurations");
}

/// An office behind the router of the guide to port forwarding, and a host outside.
struct Office {
    router: Stack,
    inside: Stack,
    outside: Stack,
}

/// By family: the router's address outside, a host inside, the host outside.
const PLACES: [[&str; 3]; 2] = [
    ["198.51.100.1", "192.168.7.2", "198.51.100.2"],
    ["2001:db8:100::1", "2001:db8:7::2", "2001:db8:100::2"],
];
const SERVER: &str = "192.168.7.80";

impl Office {
    /// With the rules of the example. The host outside knows where the hosts inside are.
    fn open() -> Self {
        let [lan, inside] = mem::wire(2).unwrap();
        let [wan, outside] = mem::wire(2).unwrap();
        let lan = Interface::mem(lan).name("lan").address("192.168.7.1/24").address("2001:db8:7::1/64");
        let wan = Interface::mem(wan).name("wan").address("198.51.100.1/24").address("2001:db8:100::1/64");
        let router = Stack::builder().threads(2).forwarding().interface(lan).interface(wan);
        let guide = std::fs::read_to_string(root().join("docs/guide/PORT-FORWARDING.md")).unwrap();
        let [rules, hairpin, ..] = &blocks(&guide, "ipfw")[..] else { panic!("the guide has no rules") };
        let config = router.firewall(&format!("{rules}{hairpin}")).config().unwrap();
        assert_eq!(config.firewall.as_ref().unwrap().warnings, [] as [&str; 0]);
        let inside = Interface::mem(inside).name("eth0").address("192.168.7.2/24").address("192.168.7.80/24");
        let inside = Stack::builder()
            .threads(1)
            .interface(inside.address("2001:db8:7::2/64"))
            .route("0.0.0.0/0", "192.168.7.1")
            .route("::/0", "2001:db8:7::1");
        let outside =
            Interface::mem(outside).name("eth0").address("198.51.100.2/24").address("2001:db8:100::2/64");
        let outside = Stack::builder()
            .threads(1)
            .interface(outside)
            .route("192.168.7.0/24", "198.51.100.1")
            .route("2001:db8:7::/64", "2001:db8:100::1");
        Self {
            router: Stack::start(config).unwrap(),
            inside: inside.start().unwrap(),
            outside: outside.start().unwrap(),
        }
    }

    /// Packets that died because a rule denied them.
    fn denied(&self) -> u64 {
        let metrics = self.router.metrics().unwrap();
        let lines = metrics.lines().filter(|line| line.contains("reason=\"firewall_deny\""));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    fn stop(self) {
        for stack in [self.router, self.inside, self.outside] {
            stack.stop().unwrap();
        }
    }
}

fn at(addr: &str, port: u16) -> SocketAddr {
    SocketAddr::new(addr.parse().unwrap(), port)
}

/// Connects and exchanges a word with the acceptor; returns the address that it sees.
fn talk(from: &Sockets, address: SocketAddr, listener: &TcpListener) -> IpAddr {
    let mut here = TcpStream::connect_timeout(from, &address, PATIENCE).unwrap();
    let (mut there, who) = listener.accept().unwrap();
    let says = |says: &mut TcpStream, hears: &mut TcpStream, said: &[u8; 4]| {
        let mut word = [0; 4];
        says.write_all(said).unwrap();
        hears.set_read_timeout(Some(PATIENCE)).unwrap();
        hears.read_exact(&mut word).unwrap();
        assert_eq!(&word, said);
    };
    says(&mut here, &mut there, b"ping");
    says(&mut there, &mut here, b"pong");
    who.ip()
}

fn hears_nothing(socket: &UdpSocket) -> bool {
    socket.set_nonblocking(true).unwrap();
    socket.recv_from(&mut [0; 64]).is_err_and(|why| why.kind() == ErrorKind::WouldBlock)
}

fn behind_the_nat_of_the_readme_answers_and_the_server_are_reached_and_nothing_else() {
    const KNOCKS: u64 = 20;
    let office = Office::open();
    let [router, inside, outside] =
        [&office.router, &office.inside, &office.outside].map(|stack| stack.sockets().unwrap());
    let server = TcpListener::bind(&inside, at(SERVER, 80)).unwrap();
    let mut unheard = Vec::new();
    let mut sent = 0;
    for [door, host, away] in PLACES {
        // Answers come in.
        let listener = TcpListener::bind(&outside, at(away, 7000)).unwrap();
        let seen = talk(&inside, at(away, 7000), &listener);
        assert_eq!(seen.to_string(), if seen.is_ipv4() { door } else { host }, "who is seen outside");
        // Unsolicited packets do not pass, to the router's own sockets or beyond.
        let knocks = UdpSocket::bind(&outside, at(away, 0)).unwrap();
        for (sockets, address) in [(&router, door), (&inside, host)] {
            unheard.push(UdpSocket::bind(sockets, at(address, 5353)).unwrap());
            for _ in 0..KNOCKS {
                knocks.send_to(b"let me in", at(address, 5353)).unwrap();
            }
            sent += KNOCKS;
        }
        let _local = TcpListener::bind(&router, at(door, 22)).unwrap();
        for address in [door, host] {
            let soon = Duration::from_millis(300);
            assert!(TcpStream::connect_timeout(&outside, &at(address, 22), soon).is_err(), "{address}");
            sent += 1;
        }
        unheard.push(knocks);
    }
    assert_eq!(
        talk(&outside, at(PLACES[0][0], 80), &server).to_string(),
        PLACES[0][2],
        "the server is reached"
    );
    let begun = Instant::now();
    while office.denied() < sent {
        assert!(begun.elapsed() < PATIENCE, "{} of {sent} were denied", office.denied());
        std::thread::yield_now();
    }
    assert!(unheard.iter().all(hears_nothing));
    drop((unheard, server));
    office.stop();
}

harness::tests![
    the_configuration_in_the_readme_is_good,
    behind_the_nat_of_the_readme_answers_and_the_server_are_reached_and_nothing_else
];
