//! Twins: the kernel beside pantala on an interface, with its addresses.

pub(crate) mod killed;

use core::net::IpAddr;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;

use dev::netlink::LinkFlags;
use dev::netns::Netns;
use dev::sys::process::end_with_parent;
use ipnet::IpNet;
use rustix::process::Signal;

use crate::lab::{Attach, Family, Lab, Link, at};
use crate::need;
use crate::pantala::Pantala;
use crate::socket::{Ping, ping, stream_arrives};
use crate::wait::{until, until_right};

/// Where programs of the kernel listen.
const PORT: u16 = 7000;
/// Where pantala's echo service listens, and a program of the kernel, too.
const ECHO: u16 = 7;

/// The end of the configuration, which begins in its last interface.
const MORE: &str = "punt = true\n[[service]]\nkind = \"echo\"\n";

/// A lab whose last interface has a twin of the same name.
fn lab(test: &str, attach: Attach, rings: u32) -> Option<Lab> {
    let links = [Link::new(Attach::Native).rings(rings), Link::new(attach).rings(rings)];
    Lab::start_with(test, &links, MORE)
}

/// Sends a text by a new connection, and returns what comes back.
fn answer(from: &Netns, to: IpAddr, port: u16, text: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = from.run(|| TcpStream::connect(at(to, port))).unwrap()?;
    stream.write_all(text)?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut all = Vec::new();
    stream.read_to_end(&mut all)?;
    Ok(all)
}

/// A program of the kernel that greets each connection.
fn greet(netns: &Netns, own: IpAddr, port: u16) {
    let listener = netns.run(|| TcpListener::bind(at(own, port))).unwrap().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.write_all(b"the kernel");
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
}

/// All that a host expects of a router with programs on its kernel.
fn both_live(router: &Netns, host: &Netns, own: IpAddr, theirs: IpAddr, family: Family) {
    assert_eq!(ping(host, own, 3), 3, "pantala answers echo requests");
    until("a connection to the kernel", || {
        answer(host, own, PORT, b"x").ok().filter(|all| all == b"the kernel")
    });
    assert!(stream_arrives(host, router, own, 3_000_000).unwrap(), "to the kernel");
    assert!(stream_arrives(router, host, theirs, 3_000_000).unwrap(), "from the kernel");
    assert!(Ping::open(router, theirs).ask(1, 56), "the kernel pings");
    let closed = answer(host, own, 9, b"x").unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::ConnectionRefused, "a port that both leave closed");
    let socket = host.run(|| UdpSocket::bind(at(family.any(), 0))).unwrap().unwrap();
    socket.set_read_timeout(Some(core::time::Duration::from_secs(5))).unwrap();
    socket.connect(at(own, 9)).unwrap();
    socket.send(b"x").unwrap();
    let why = socket.recv(&mut [0; 8]).unwrap_err();
    assert_eq!(why.kind(), ErrorKind::ConnectionRefused, "UDP, too");
    let kernels = router.run(|| UdpSocket::bind(at(own, PORT))).unwrap().unwrap();
    kernels.set_read_timeout(Some(core::time::Duration::from_secs(5))).unwrap();
    socket.connect(at(own, PORT)).unwrap();
    // Longer than a packet.
    socket.send(&[7; 4000]).unwrap();
    let (len, from) = kernels.recv_from(&mut [0; 8000]).unwrap();
    kernels.send_to(&[8; 5000][..len], from).unwrap();
    assert_eq!(socket.recv(&mut [0; 8000]).unwrap(), 4000);
}

fn a_program_of_the_kernel_speaks_through_the_twin() {
    for (attach, rings) in [(Attach::Native, 1), (Attach::Generic, 1), (Attach::Tap, 1), (Attach::Tap, 2)] {
        let test = "twins::a_program_of_the_kernel_speaks_through_the_twin";
        let Some(lab) = lab(test, attach, rings) else { return };
        let (a, b) = lab.pair();
        lab.both(|family| {
            let own = b.router(family);
            greet(&lab.router, own, PORT);
            greet(&lab.router, own, ECHO);
            both_live(&lab.router, &b.netns, own, b.addr(family), family);
            assert_eq!(answer(&b.netns, own, ECHO, b"own").unwrap(), b"own", "pantala's listener is first");
            assert_eq!(ping(&a.netns, b.addr(family), 3), 3, "forwarded");
            let here = a.router(family);
            let closed = answer(&a.netns, here, PORT, b"x").unwrap_err();
            assert_eq!(closed.kind(), ErrorKind::ConnectionRefused, "no twin there");
        });
        let counts = ["punted", "punted_out", "punt_copied"].map(|name| lab.pantala().counter(name));
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
        assert_eq!(lab.pantala().dropped("punt_full"), 0);
        assert!(lab.pantala().shows("ifconfig if2").contains("twin: if2 in the kernel"));
    }
}

fn a_name_server_of_the_kernel_answers_hosts() {
    if !need::program("dnsmasq") {
        return;
    }
    let test = "twins::a_name_server_of_the_kernel_answers_hosts";
    let Some(lab) = lab(test, Attach::Native, 1) else { return };
    let b = &lab.hosts[1];
    let mut command = Command::new("dnsmasq");
    command.args(["-d", "-C", "/dev/null", "--no-resolv", "--no-hosts", "--bind-interfaces", "--user=root"]);
    command.args(["--pid-file=", "--address=/office.example/192.0.2.77"]);
    for family in Family::BOTH {
        command.arg(format!("--listen-address={}", b.router(family)));
    }
    command.stdout(Stdio::null()).stderr(Stdio::null());
    end_with_parent(&mut command);
    let mut server = lab.router.put(&mut command).unwrap().spawn().unwrap();
    lab.both(|family| {
        let socket = b.netns.run(|| UdpSocket::bind(at(family.any(), 0))).unwrap().unwrap();
        socket.set_read_timeout(Some(core::time::Duration::from_millis(500))).unwrap();
        socket.connect(at(b.router(family), 53)).unwrap();
        let question = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x06office\x07example\0\0\x01\0\x01";
        let mut answer = [0; 512];
        let len = until("an answer", || {
            let _ = socket.send(question);
            socket.recv(&mut answer).ok()
        });
        assert!(answer[..len].ends_with(&[192, 0, 2, 77]), "{:02x?}", &answer[..len]);
    });
    server.kill().unwrap();
    server.wait().unwrap();
}

fn a_bridge_has_a_twin() {
    let test = "twins::a_bridge_has_a_twin";
    let links = [Link::new(Attach::Native), Link::new(Attach::Tap)];
    let Some(mut lab) = Lab::without_pantala(test, &links) else { return };
    let port = |host: &crate::lab::Host| {
        let kind = if host.link.attach == Attach::Tap { "tap" } else { "af_xdp" };
        format!("[[interface]]\nname = \"{}\"\ndevice = \"{kind}:{}\"\n", host.ifname(), host.outside())
    };
    let ports: String = lab.hosts.iter().map(port).collect();
    let bridge = "[[interface]]\nname = \"br\"\ndevice = \"bridge:if1,if2\"\npunt = \"twin0\"\n\
                  address = [\"10.99.0.1/24\", \"fd99::1/64\"]\n";
    lab.pantala = Some(Pantala::start(&lab.router, &(ports + bridge)));
    lab.attach();
    let addr = |family: Family, host: u8| -> IpAddr {
        family.pick(format!("10.99.0.{host}"), format!("fd99::{host}")).parse().unwrap()
    };
    lab.both(|family| {
        greet(&lab.router, addr(family, 1), PORT);
        for (host, number) in lab.hosts.iter().zip(2..) {
            let own = addr(family, number);
            host.netns.netlink().unwrap().add_address("eth0", net(family, own)).unwrap();
            both_live(&lab.router, &host.netns, addr(family, 1), own, family);
        }
        assert_eq!(ping(&lab.hosts[0].netns, addr(family, 3), 3), 3, "bridged");
    });
}

fn net(family: Family, addr: IpAddr) -> IpNet {
    IpNet::new_assert(addr, family.pick(24, 64))
}

/// The kernel's addresses of the twin, in order.
fn addresses(lab: &Lab) -> Vec<IpNet> {
    let mut netlink = lab.router.netlink().unwrap();
    let Ok(link) = netlink.link("if2") else { return Vec::new() };
    let all = netlink.addresses().unwrap();
    let mut own: Vec<_> = all.iter().filter(|own| own.ifindex == link.index).map(|own| own.net).collect();
    own.sort_unstable();
    own
}

fn a_twin_follows_its_interface_and_goes_with_pantala() {
    let test = "twins::a_twin_follows_its_interface_and_goes_with_pantala";
    let Some(mut lab) = lab(test, Attach::Native, 1) else { return };
    let ours = || {
        let shown = lab.pantala().interface("if2");
        let mut own: Vec<_> =
            shown.addresses.iter().map(|own| IpNet::new_assert(own.address, own.prefix_len)).collect();
        own.sort_unstable();
        own
    };
    let is_mirrored = || until_right("the same addresses", || (addresses(&lab), ours()), |(a, b)| a == b);
    is_mirrored();
    let link = || lab.router.netlink().unwrap().link("if2").unwrap();
    assert_eq!(Some(lab.pantala().interface("if2").mac.unwrap().0.octets()), link().mac);
    let b = &lab.hosts[1];
    for family in Family::BOTH {
        let word = family.pick("inet", "inet6");
        // In the same prefix: the kernel removes the others with the first one.
        for host in [8, 9] {
            let more = net(family, b.neighbour(family, host));
            lab.pantala().shows(&format!("ifconfig if2 {word} {more} alias"));
            is_mirrored();
            greet_once(&lab, more.addr());
        }
        for host in [1, 8] {
            lab.pantala().shows(&format!("ifconfig if2 {word} {} -alias", b.neighbour(family, host)));
            is_mirrored();
        }
        greet_once(&lab, b.neighbour(family, 9));
    }
    assert_eq!(link().mtu, 1500);
    lab.pantala().shows("ifconfig if2 mtu 1400");
    until_right("the same MTU", || link().mtu, |mtu| *mtu == 1400);
    lab.pantala().shows("ifconfig if2 down");
    until_right("it is down", || link().flags.contains(LinkFlags::UP), |is_up| !is_up);
    lab.pantala().shows("ifconfig if2 up");
    until_right("it is up", || link().flags.contains(LinkFlags::UP), |is_up| *is_up);
    is_mirrored();
    // The wire loses its carrier, and has it again.
    let has_carrier = || link().flags.contains(LinkFlags::RUNNING);
    let mut other_end = b.netns.netlink().unwrap();
    for is_up in [false, true] {
        other_end.set_up("eth0", is_up).unwrap();
        until_right("carrier", has_carrier, |has| *has == is_up);
    }
    lab.pantala().signal(Signal::TERM);
    lab.pantala_mut().wait();
    assert!(lab.router.netlink().unwrap().link("if2").is_err(), "it goes with pantala");
    lab.run_pantala(MORE);
    until("it is there again", || lab.router.netlink().unwrap().link("if2").ok());
    let without = lab.config("").replace("punt = true", "");
    lab.pantala().rewrite_config(&without);
    lab.pantala().shows("reload");
    assert!(lab.router.netlink().unwrap().link("if2").is_err(), "it goes with the key");
}

/// The second host reaches a program of the kernel at this address.
fn greet_once(lab: &Lab, to: IpAddr) {
    let listener = lab.router.run(|| TcpListener::bind(at(to, PORT))).unwrap().unwrap();
    let greeter = thread::spawn(move || listener.accept().unwrap().0.write_all(b"hello").unwrap());
    let mut stream = lab.hosts[1].netns.run(|| TcpStream::connect(at(to, PORT))).unwrap().unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"hello");
    greeter.join().unwrap();
}

fn a_flood_for_the_kernel_leaves_forwarding_alone() {
    const FLOOD: usize = 200_000;
    let test = "twins::a_flood_for_the_kernel_leaves_forwarding_alone";
    let Some(lab) = lab(test, Attach::Native, 1) else { return };
    let (a, b) = lab.pair();
    let own = b.router(Family::V4);
    let sender = b.netns.run(|| UdpSocket::bind(at(Family::V4.any(), 0))).unwrap().unwrap();
    let flood = thread::spawn(move || {
        (0..FLOOD).for_each(|_| _ = sender.send_to(&[0; 18], at(own, 9)));
    });
    // What is forwarded meanwhile arrives.
    let mut answered = 0;
    while !flood.is_finished() {
        assert_eq!(ping(&a.netns, b.addr(Family::V4), 1), 1);
        answered += 1;
    }
    flood.join().unwrap();
    assert!(answered > 0);
    // The kernel is spoken to again, too.
    greet(&lab.router, own, PORT);
    until("the kernel answers", || answer(&b.netns, own, PORT, b"x").ok());
    let [punted, full] = [lab.pantala().counter("punted"), lab.pantala().dropped("punt_full")];
    println!("{punted} punted, {full} dropped, {answered} pings");
}

harness::tests![
    a_program_of_the_kernel_speaks_through_the_twin,
    a_name_server_of_the_kernel_answers_hosts,
    a_bridge_has_a_twin,
    a_twin_follows_its_interface_and_goes_with_pantala,
    a_flood_for_the_kernel_leaves_forwarding_alone,
];
