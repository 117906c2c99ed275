//! The kernel and pantala on one interface.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

use dev::bpf::share;
use dev::netns::Netns;
use dev::sys::packet::PacketSocket;
use rustix::process::Signal;

use crate::daemon::lab::{Lab, OURS, THEIRS, Wire, until};

/// The kernel's addresses on the interface.
const KERNELS: [&str; 2] = ["192.0.2.7", "2001:db8::7"];
const KERNEL_NETS: [&str; 2] = ["192.0.2.7/24", "2001:db8::7/64"];
const PATIENCE: Duration = Duration::from_secs(10);
const ECHO: &str = "[[service]]\nkind = \"echo\"";

/// The lab's configuration with a shared device.
fn config(lab: &Lab, options: &str, more: &str) -> String {
    let shared = format!("\"af_xdp:pt0,share{options}\"");
    format!("{}\n{ECHO}\n", lab.config(more).replace("\"af_xdp:pt0\"", &shared))
}

/// Serves one connection: sends `word` to it and ends.
fn serve(netns: &Netns, at: (&str, u16), word: &'static [u8]) -> SocketAddr {
    let listener = netns.run(|| TcpListener::bind(at)).unwrap().unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.accept().unwrap().0.write_all(word));
    addr
}

/// Connects from a namespace, and returns what comes until the other end closes.
fn ask(netns: &Netns, to: SocketAddr) -> Vec<u8> {
    let mut stream = netns.run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    got
}

/// The host reaches the kernel's service and ours, and the kernel a service of the host's.
fn both_are_reached(lab: &Lab) {
    for (ours, (kernels, theirs)) in OURS.into_iter().zip(KERNELS.into_iter().zip(THEIRS)) {
        assert_eq!(ask(lab.host(), serve(lab.router(), (kernels, 0), b"kernel")), b"kernel");
        assert!(echoes(lab, ours));
        assert_eq!(ask(lab.router(), serve(lab.host(), (theirs, 0), b"host")), b"host");
    }
}

/// Whether our echo service answers at an address.
fn echoes(lab: &Lab, addr: &str) -> bool {
    let to = SocketAddr::new(addr.parse().unwrap(), 7);
    let Ok(mut stream) = lab.host().run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap() else {
        return false;
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut got = [0; 5];
    stream.read_exact(&mut got).is_ok() && got == *b"hello"
}

/// Neighbour advertisements that the kernel beside us has sent.
fn advertisements_of_kernel(lab: &Lab) -> usize {
    let counters =
        lab.router().run(|| std::fs::read_to_string("/proc/thread-self/net/snmp6")).unwrap().unwrap();
    let line = counters.lines().find(|line| line.starts_with("Icmp6OutNeighborAdvertisements")).unwrap();
    line.split_whitespace().last().unwrap().parse().unwrap()
}

/// The senders of ARP replies and neighbour advertisements that came to the host.
fn answers(socket: &PacketSocket) -> Vec<IpAddr> {
    let (mut found, mut frame) = (Vec::new(), [0; 2048]);
    while let Ok(Some(_)) = socket.receive(&mut frame) {
        match ([frame[12], frame[13]], frame[21], frame[54]) {
            ([0x08, 0x06], 2, _) => found.push(<[u8; 4]>::try_from(&frame[28..32]).unwrap().into()),
            ([0x86, 0xdd], _, 136) => found.push(<[u8; 16]>::try_from(&frame[62..78]).unwrap().into()),
            _ => {}
        }
    }
    found
}

fn a_service_of_the_kernel_and_one_of_ours_live_on_one_interface_by_addresses_or_by_link_addresses() {
    for options in [",mode=native", ",mode=generic"] {
        for more in ["", "mac = \"02:00:00:00:00:77\""] {
            let Some(lab) = Lab::new("share", Wire::Veth { queues: 2 }) else { return };
            lab.address_router(&KERNEL_NETS);
            lab.default_route(THEIRS[0]);
            lab.write(&config(&lab, options, more));
            // It carries the default route, and is not taken away.
            let daemon = lab.start();
            both_are_reached(&lab);
            daemon.signal(Signal::TERM);
            daemon.says("0 buffers missing, 0 leaked");
            daemon.says("ended");
            assert!(lab.link("pt0").unwrap().xdp.is_none());
        }
    }
}

fn one_side_answers_for_an_address_and_groups_reach_both() {
    for more in ["", "mac = \"02:00:00:00:00:77\""] {
        let Some(lab) = Lab::new("answers", Wire::Veth { queues: 1 }) else { return };
        lab.address_router(&KERNEL_NETS);
        lab.write(&config(&lab, "", more));
        let daemon = lab.start();
        let index = lab.host().netlink().unwrap().link("far").unwrap().index;
        let heard = lab.host().run(|| PacketSocket::open(index, &share::copies().unwrap()).unwrap()).unwrap();
        both_are_reached(&lab);
        let found = answers(&heard);
        for addr in OURS.into_iter().chain(KERNELS) {
            let addr: IpAddr = addr.parse().unwrap();
            let count = found.iter().filter(|own| **own == addr).count();
            // Of IPv6 a neighbour is asked again when it is used again.
            assert!(count == 1 || (count > 1 && addr.is_ipv6()), "{addr}: {found:?}");
        }
        let ours = |addr: &&IpAddr| OURS.iter().any(|own| own.parse() == Ok(**addr));
        let by_kernel = found.iter().filter(|addr| addr.is_ipv6()).filter(|addr| !ours(addr)).count();
        assert_eq!(advertisements_of_kernel(&lab), by_kernel, "{found:?}");
        // A group that the kernel has joined, and none of ours.
        let kernels = lab.router().run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
        kernels.join_multicast_v4(&"224.0.0.99".parse().unwrap(), &KERNELS[0].parse().unwrap()).unwrap();
        kernels.set_read_timeout(Some(PATIENCE)).unwrap();
        let sender = lab.host().run(|| UdpSocket::bind((THEIRS[0], 0))).unwrap().unwrap();
        sender.send_to(b"all", ("224.0.0.99", kernels.local_addr().unwrap().port())).unwrap();
        let mut got = [0; 8];
        assert_eq!(kernels.recv(&mut got).unwrap(), 3);
        until("we have a copy", || daemon.shows("netstat -s").contains("group_not_joined"));
    }
}

fn addresses_change_hands_while_it_runs() {
    let Some(lab) = Lab::new("hands", Wire::Veth { queues: 1 }) else { return };
    lab.address_router(&KERNEL_NETS);
    lab.write(&config(&lab, "", ""));
    let daemon = lab.start();
    for (family, net) in [("inet", "192.0.2.9/24"), ("inet6", "2001:db8::9/64")] {
        let addr = net.split('/').next().unwrap();
        daemon.shows(&format!("ifconfig lan {family} {net} alias"));
        until("the address is used", || echoes(&lab, addr));
        daemon.shows(&format!("ifconfig lan {family} {addr} -alias"));
        lab.router().netlink().unwrap().add_address("pt0", net.parse().unwrap()).unwrap();
        assert_eq!(ask(lab.host(), serve(lab.router(), (addr, 0), b"kernel")), b"kernel");
    }
    both_are_reached(&lab);
}

fn an_address_of_both_is_ours_but_for_the_ports_of_the_kernel() {
    let Some(lab) = Lab::new("ports", Wire::Veth { queues: 1 }) else { return };
    lab.address_router(&["192.0.2.1/24", "2001:db8::1/64"]);
    lab.write(&config(&lab, "", "kernel_ports = [\"tcp/22\", \"tcp/32768-60999\"]"));
    let daemon = lab.start();
    for (ours, theirs) in OURS.into_iter().zip(THEIRS) {
        assert_eq!(ask(lab.host(), serve(lab.router(), (ours, 22), b"kernel")), b"kernel");
        assert!(echoes(&lab, ours));
        // What the kernel begins comes back to it: its neighbours, too.
        assert_eq!(ask(lab.router(), serve(lab.host(), (theirs, 0), b"host")), b"host");
        // The kernel has this port, and nothing listens.
        let _kernels = lab.router().run(|| TcpListener::bind((ours, 80))).unwrap().unwrap();
        let to = SocketAddr::new(ours.parse().unwrap(), 80);
        let refused = lab.host().run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap();
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused, "80 is ours");
    }
    lab.write(&config(&lab, "", "kernel_ports = [\"tcp/80\"]"));
    assert!(daemon.shows("reload").contains("the kernel has other ports"));
    for ours in OURS {
        assert_eq!(ask(lab.host(), serve(lab.router(), (ours, 80), b"kernel")), b"kernel");
    }
}

fn a_router_forwards_by_a_shared_interface_what_is_neithers() {
    let Some(lab) = Lab::new("forwards", Wire::Veth { queues: 1 }) else { return };
    lab.address_router(&KERNEL_NETS);
    let inside = "[[interface]]\nname = \"in\"\ndevice = \"tap:pt1\"\naddress = [\"198.51.100.1/24\", \"2001:db8:1::1/64\"]";
    lab.write(&format!("forwarding = true\n{}", config(&lab, "", inside)));
    let _daemon = lab.start();
    let within = Netns::anonymous().unwrap();
    lab.move_link("pt1", &within);
    let mut netlink = within.netlink().unwrap();
    netlink.set_up("pt1", true).unwrap();
    for (net, (to, (via, back))) in ["198.51.100.2/24", "2001:db8:1::2/64"]
        .into_iter()
        .zip(["0.0.0.0/0", "::/0"].into_iter().zip(["198.51.100.1", "2001:db8:1::1"].into_iter().zip(OURS)))
    {
        let route = |to: &str, via: &str| dev::netlink::Route {
            to: to.parse().unwrap(),
            via: Some(via.parse().unwrap()),
            ifindex: None,
        };
        netlink.add_address("pt1", net.parse().unwrap()).unwrap();
        netlink.add_route(&route(to, via)).unwrap();
        let host = net.split('/').next().unwrap();
        let prefix = ipnet::IpNet::new(
            net.parse::<ipnet::IpNet>().unwrap().network(),
            if to == "::/0" { 64 } else { 24 },
        );
        lab.host().netlink().unwrap().add_route(&route(&prefix.unwrap().to_string(), back)).unwrap();
        assert_eq!(ask(lab.host(), serve(&within, (host, 0), b"inside")), b"inside");
    }
    both_are_reached(&lab);
}

harness::tests![
    a_service_of_the_kernel_and_one_of_ours_live_on_one_interface_by_addresses_or_by_link_addresses,
    one_side_answers_for_an_address_and_groups_reach_both,
    addresses_change_hands_while_it_runs,
    an_address_of_both_is_ours_but_for_the_ports_of_the_kernel,
    a_router_forwards_by_a_shared_interface_what_is_neithers,
];
