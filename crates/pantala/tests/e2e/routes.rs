//! Routes of all kinds, made by hand while packets flow.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeSet;
use std::net::UdpSocket;

use ipnet::IpNet;

use crate::lab::{Attach, Family, Host, Lab, Link, at};
use crate::socket::{path_mtu, ping, udp};
use crate::wait::until_right;

/// Where the hosts behind the gateways listen.
const PORT: u16 = 7777;
/// Flows that are sent.
const FLOWS: usize = 60;

/// An address that several hosts have.
fn anycast(family: Family) -> IpAddr {
    family.pick(
        Ipv4Addr::new(203, 0, 113, 1).into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0xcafe, 0, 0, 0, 0, 1).into(),
    )
}

fn network(family: Family) -> &'static str {
    family.pick("203.0.113.0/24", "2001:db8:cafe::/48")
}

/// Gives the host the address, and listens there.
fn listen(host: &Host, family: Family) -> UdpSocket {
    let mut netlink = host.netns.netlink().unwrap();
    netlink.add_address("lo", IpNet::from(anycast(family))).unwrap();
    let socket = host.netns.run(|| UdpSocket::bind((family.any(), PORT))).unwrap().unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// The flows, by their ports, whose datagrams have come.
fn heard(listener: &UdpSocket) -> BTreeSet<u16> {
    let mut buffer = [0; 16];
    core::iter::from_fn(|| listener.recv_from(&mut buffer).ok()).map(|(_, from)| from.port()).collect()
}

/// Sends a datagram of each flow; answers which came to each listener, when all have come.
fn send(flows: &[UdpSocket], listeners: &[UdpSocket; 2], family: Family) -> [BTreeSet<u16>; 2] {
    for flow in flows {
        flow.send_to(b"flow", at(anycast(family), PORT)).unwrap();
    }
    let mut all = [BTreeSet::new(), BTreeSet::new()];
    until_right(
        "all datagrams have come",
        || {
            all.iter_mut().zip(listeners).for_each(|(all, listener)| all.append(&mut heard(listener)));
            all.iter().map(BTreeSet::len).sum::<usize>()
        },
        |came| *came == FLOWS,
    );
    all
}

fn flows_are_spread_over_gateways_and_those_of_one_stay_when_the_other_goes() {
    let links = [Link::new(Attach::Native).rings(2), Link::new(Attach::Native), Link::new(Attach::Tap)];
    let test = "routes::flows_are_spread_over_gateways_and_those_of_one_stay_when_the_other_goes";
    let Some(lab) = Lab::start(test, &links) else { return };
    let [a, b, c] = lab.hosts.as_slice() else { panic!("three hosts") };
    lab.both(|family| {
        let to = network(family);
        let [over_b, over_c] = [b, c].map(|host| host.addr(family));
        let listeners = [b, c].map(|host| listen(host, family));
        // Each CPU knows both gateways before it counts.
        assert!(ping(&a.netns, over_b, 3) > 0 && ping(&a.netns, over_c, 3) > 0);
        lab.pantala().shows(&format!("route add {to} {over_b} {over_c}"));
        let flows: Vec<UdpSocket> = (0..FLOWS).map(|_| udp(&a.netns, anycast(family))).collect();
        let first = send(&flows, &listeners, family);
        assert!(first.iter().all(|flows| flows.len() > FLOWS / 8), "{family:?}: {first:?}");
        assert!(first[0].is_disjoint(&first[1]), "a flow has one way");
        assert_eq!(send(&flows, &listeners, family), first, "and keeps it");

        lab.pantala().shows(&format!("route delete {to} {over_b}"));
        let rest = send(&flows, &listeners, family);
        assert!(rest[0].is_empty() && rest[1].len() == FLOWS, "{family:?}: {rest:?}");
        lab.pantala().shows(&format!("route change {to} {over_b} {over_c}"));
        assert_eq!(send(&flows, &listeners, family), first, "as before");

        lab.pantala().shows(&format!("route change {to} -blackhole"));
        flows[0].send_to(b"gone", at(anycast(family), PORT)).unwrap();
        until_right("it is dropped", || lab.pantala().dropped("blackhole_route"), |drops| *drops > 0);
        lab.pantala().shows(&format!("route delete {to}"));
    });
}

fn a_route_says_how_much_its_way_carries() {
    let links = [Link::new(Attach::Native), Link::new(Attach::Tap)];
    let Some(lab) = Lab::start("routes::a_route_says_how_much_its_way_carries", &links) else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let to = network(family);
        drop(listen(b, family));
        lab.pantala().shows(&format!("route add {to} {} -mtu 1400", b.addr(family)));
        let (told, _) = path_mtu(&a.netns, anycast(family), 1440);
        assert_eq!(told, Some(1400), "{family:?}");
        let get = format!("route -n get {}", anycast(family));
        assert!(lab.pantala().shows(&get).contains("mtu: 1400"));
        lab.pantala().shows(&format!("route change {to} -mtu 1350 -msl 20 -iw 10"));
        let shown = lab.pantala().shows(&get);
        for says in ["mtu: 1350", "msl: 20 ms", "iw: 10 segments"] {
            assert!(shown.contains(says), "{says}: {shown}");
        }
        lab.pantala().shows(&format!("route delete {to}"));
    });
}

fn a_batch_of_many_routes_comes_and_goes() {
    const ROUTES: usize = 20_000;
    let links = [Link::new(Attach::Native), Link::new(Attach::Tap)];
    let Some(lab) = Lab::start("routes::a_batch_of_many_routes_comes_and_goes", &links) else { return };
    let (_, b) = lab.pair();
    let via = b.addr(Family::V4);
    let line = |n: usize| format!("add {}.{}.{}.0/24 {via}\n", 20 + n / 65_536, n / 256 % 256, n % 256);
    let file = lab.pantala().folder().join("routes.txt");
    let text: String = (0..ROUTES).map(line).chain(["add 20.0.0.0/24 10.9.9.9\n".to_owned()]).collect();
    std::fs::write(&file, text).unwrap();
    let said = lab.pantala().command(&format!("route batch {}", file.display()));
    assert_eq!((said.code, said.out.as_str()), (Some(1), "20000 changes made, 1 refused\n"), "{said:?}");
    assert!(said.err.contains(":20001: there is a route to 20.0.0.0/24 already"), "{said:?}");
    let listed = lab.pantala().json("netstat -rn");
    let ours = |route: &&serde_json::Value| route["origin"] == "static";
    assert_eq!(listed.as_array().unwrap().iter().filter(ours).count(), ROUTES);
    assert!(lab.pantala().shows("route -n get 20.5.6.7").contains("destination: 20.5.6.0/24"));
    assert_eq!(lab.pantala().shows("route flush -inet"), "20000 routes deleted\n");
    assert!(!lab.pantala().shows("netstat -rn").contains("20.5.6.0"));
}

harness::tests![
    flows_are_spread_over_gateways_and_those_of_one_stay_when_the_other_goes,
    a_route_says_how_much_its_way_carries,
    a_batch_of_many_routes_comes_and_goes,
];
