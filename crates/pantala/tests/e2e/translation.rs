//! NAT and exchanged prefixes, as Linux hosts on both sides see them.

use core::net::{IpAddr, SocketAddr};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;

use dev::netns::Netns;
use rustix::io::Errno;

use crate::firewall::section;
use crate::lab::{Attach, Family, Host, Lab, Link, at};
use crate::need;
use crate::socket::{Ping, listen, path_mtu, refusal, stream_arrives, udp};
use crate::wait::PATIENCE;

/// Connections at once.
const MANY: u32 = 1000;
/// Datagrams that wait in a socket's buffer at once.
const FEW: usize = 50;
/// All that goes through the second interface has its addresses: of IPv4 by NAT, of IPv6 by another prefix, which the
/// second host has no route to but its default one.
const BOTH: &str = "\
    nat 1 config if if2\n\
    nptv6 outside create int_prefix fd77:0:0:1:: ext_prefix 2001:db8:77:2:: prefixlen 64\n\
    add 100 nat 1 ip4 from any to any via if2\n\
    add 200 nptv6 outside ip6 from any to any via if2\n";

fn lab(test: &str, links: &[Link], rules: &str) -> Option<Lab> {
    let mut lab = Lab::without_pantala(test, links)?;
    lab.run_pantala(&section("allow", rules));
    Some(lab)
}

fn two() -> [Link; 2] {
    [Link::new(Attach::Native).rings(2), Link::new(Attach::Tap).rings(2)]
}

/// The only instance of NAT.
fn instance(lab: &Lab) -> serde_json::Value {
    lab.pantala().json("ipfw nat show")[0].clone()
}

/// Whether an address is one that the second host is to see of the first one.
fn is_translated(seen: IpAddr, b: &Host) -> bool {
    match seen {
        IpAddr::V4(_) => seen == b.router(Family::V4),
        IpAddr::V6(seen) => seen.segments()[..4] == [0x2001, 0xdb8, 0x77, 2],
    }
}

fn a_thousand_connections_at_once_share_an_address_and_each_gets_its_own_answers() {
    let name = "translation::a_thousand_connections_at_once_share_an_address_and_each_gets_its_own_answers";
    if !need::files(4096) {
        return;
    }
    let Some(lab) = lab(name, &two(), BOTH) else { return };
    let (a, b) = lab.pair();
    let target = b.addr(Family::V4);
    let listener = listen(&b.netns, Family::V4, 0);
    let address = at(target, listener.local_addr().unwrap().port());
    let (mut here, there): (Vec<TcpStream>, Vec<TcpStream>) = thread::scope(|scope| {
        let accepted = scope.spawn(|| {
            (0..MANY)
                .map(|_| {
                    let (stream, who) = listener.accept().unwrap();
                    assert!(is_translated(who.ip(), b), "{who}");
                    stream
                })
                .collect()
        });
        let connect = |_| a.netns.run(|| TcpStream::connect_timeout(&address, PATIENCE)).unwrap().unwrap();
        ((0..MANY).map(connect).collect(), accepted.join().unwrap())
    });
    for (stream, number) in here.iter_mut().zip(0_u32..) {
        stream.write_all(&number.to_be_bytes()).unwrap();
    }
    for mut stream in &there {
        let mut number = [0; 4];
        stream.read_exact(&mut number).unwrap();
        stream.write_all(&number.map(|byte| !byte)).unwrap();
    }
    for (stream, number) in here.iter_mut().zip(0_u32..) {
        let mut answer = [0; 4];
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(u32::from_be_bytes(answer), !number);
    }
    let nat = instance(&lab);
    assert_eq!((&nat["tcp"], &nat["tcp_ports"]), (&MANY.into(), &MANY.into()), "{nat}");
    assert_eq!((&nat["no_port"], &nat["no_room"]), (&0.into(), &0.into()), "{nat}");
    let shown = lab.pantala().shows("ipfw -d nat 1 show");
    let flows = shown.lines().filter(|line| line.contains(" NAT tcp 10.77.1.2 ")).count();
    assert_eq!(flows, MANY as usize);
}

fn a_thousand_udp_sockets_at_once_share_an_address_and_each_gets_its_own_answers() {
    let name = "translation::a_thousand_udp_sockets_at_once_share_an_address_and_each_gets_its_own_answers";
    if !need::files(4096) {
        return;
    }
    let Some(lab) = lab(name, &two(), BOTH) else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let server = udp(&b.netns, b.addr(family));
        let address = at(b.addr(family), server.local_addr().unwrap().port());
        let sockets: Vec<UdpSocket> = (0..MANY).map(|_| udp(&a.netns, b.addr(family))).collect();
        let numbered: Vec<(&UdpSocket, u32)> = sockets.iter().zip(0..).collect();
        // Twice: the second time all flows are known.
        for round in 0..2 {
            for some in numbered.chunks(FEW) {
                for (socket, number) in some {
                    socket.send_to(&number.to_be_bytes(), address).unwrap();
                }
                some.iter().for_each(|_| answer(&server, b));
                for (socket, number) in some {
                    let mut answer = [0; 4];
                    let (len, who) = socket.recv_from(&mut answer).unwrap();
                    assert_eq!(
                        (len, who, u32::from_be_bytes(answer)),
                        (4, address, !number),
                        "round {round}"
                    );
                }
            }
        }
    });
    let nat = instance(&lab);
    assert_eq!((&nat["udp"], &nat["udp_ports"]), (&MANY.into(), &MANY.into()), "{nat}");
}

/// Answers one datagram with each bit turned.
fn answer(server: &UdpSocket, b: &Host) {
    let mut buffer = [0; 4];
    let (_, who) = server.recv_from(&mut buffer).unwrap();
    assert!(is_translated(who.ip(), b), "{who}");
    server.send_to(&buffer.map(|byte| !byte), who).unwrap();
}

/// Connects, and exchanges a word with the acceptor; returns the address that it sees.
fn talk(from: &Netns, address: SocketAddr, listener: &TcpListener) -> IpAddr {
    let mut stream = from.run(|| TcpStream::connect_timeout(&address, PATIENCE)).unwrap().unwrap();
    let (mut peer, who) = listener.accept().unwrap();
    for stream in [&stream, &peer] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let mut seen = [0; 4];
    stream.write_all(b"ping").unwrap();
    peer.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"ping");
    peer.write_all(b"pong").unwrap();
    stream.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"pong");
    who.ip()
}

fn a_server_inside_is_reached_from_outside_and_by_its_outside_address_from_inside() {
    let name = "translation::a_server_inside_is_reached_from_outside_and_by_its_outside_address_from_inside";
    let rules = "nat 1 config if if2 redirect_port tcp 10.77.3.2:7080 8080\n\
        add 100 nat 1 ip4 from any to any via if2\n\
        add 110 nat 1 ip4 from any to 10.77.2.1 in not recv if2\n";
    let links = [Link::new(Attach::Native), Link::new(Attach::Tap).rings(2), Link::new(Attach::Native)];
    let Some(lab) = lab(name, &links, rules) else { return };
    let (inside, outside, server) = (&lab.hosts[0], &lab.hosts[1], &lab.hosts[2]);
    let listener = listen(&server.netns, Family::V4, 7080);
    let address = at(outside.router(Family::V4), 8080);
    for _ in 0..10 {
        let seen = talk(&outside.netns, address, &listener);
        assert_eq!(seen, outside.addr(Family::V4), "who calls from outside is seen as it is");
        let seen = talk(&inside.netns, address, &listener);
        assert_eq!(seen, outside.router(Family::V4), "who calls from inside has the outside address");
        let seen = talk(&server.netns, address, &listener);
        assert_eq!(seen, outside.router(Family::V4), "the server calls itself");
    }
    assert!(lab.pantala().counter("nat_hairpins") > 0 && lab.pantala().counter("nat_redirected") > 0);
}

fn a_server_inside_answers_in_the_name_of_the_router_where_rules_redirect_to_it() {
    let name = "translation::a_server_inside_answers_in_the_name_of_the_router_where_rules_redirect_to_it";
    let links = [Link::new(Attach::Native), Link::new(Attach::Tap).rings(2), Link::new(Attach::Native)];
    let Some(mut lab) = Lab::without_pantala(name, &links) else { return };
    let rdr = |family| {
        let (server, router) = (lab.hosts[2].addr(family), lab.hosts[1].router(family));
        format!(
            "add 200 rdr {server},7080 tcp from any to {router} 8080 in recv if2\n\
             add 200 rdr {server},7053 udp from any to {router} 8053 in recv if2\n\
             add 200 rdr {server},7081 ip from any to {router} 8081 in recv if2\n"
        )
    };
    let rules = format!(
        "add 100 check-state\n{}{}add 300 allow ip from any to any 7080,7053,7081 keep-state\n",
        rdr(Family::V4),
        rdr(Family::V6)
    );
    lab.run_pantala(&section("deny", &rules));
    let (outside, server) = (&lab.hosts[1], &lab.hosts[2]);
    lab.both(|family| {
        let router = outside.router(family);
        let listener = listen(&server.netns, family, 7080);
        for _ in 0..10 {
            let seen = talk(&outside.netns, at(router, 8080), &listener);
            assert_eq!(seen, outside.addr(family), "the server sees who calls");
        }
        let service = server.netns.run(|| UdpSocket::bind((family.any(), 7053))).unwrap().unwrap();
        let client = udp(&outside.netns, router);
        // The second one comes in pieces, and so does its answer.
        for len in [4, 6_000] {
            let (sent, mut buffer) = (vec![0x5a; len], vec![0; 9_000]);
            client.send_to(&sent, at(router, 8053)).unwrap();
            let (came, who) = service.recv_from(&mut buffer).unwrap();
            assert_eq!((who.ip(), &buffer[..came]), (outside.addr(family), &sent[..]));
            service.send_to(&buffer[..came], who).unwrap();
            let (came, who) = client.recv_from(&mut buffer).unwrap();
            assert_eq!((who, &buffer[..came]), (at(router, 8053), &sent[..]), "{len} bytes");
        }
        let refused = outside.netns.run(|| TcpStream::connect_timeout(&at(router, 8081), PATIENCE));
        assert_eq!(refused.unwrap().unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    });
    assert!(lab.pantala().counter("redirected") > 0);
}

fn datagrams_in_pieces_and_errors_about_them_find_their_way_through_translation() {
    let name = "translation::datagrams_in_pieces_and_errors_about_them_find_their_way_through_translation";
    let links = [Link::new(Attach::Native).rings(2), Link::new(Attach::Tap).rings(2).mtu(1400)];
    let Some(lab) = lab(name, &links, BOTH) else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let target = b.addr(family);
        assert_eq!(path_mtu(&a.netns, target, family.pick(1472, 1452)), (Some(1400), true));
        let refused = refusal(&a.netns, target, PATIENCE);
        assert_eq!(refused, Some(Errno::CONNREFUSED.raw_os_error()), "what the host outside says of a port");
        assert!(Ping::open(&a.netns, target).ask(1, 5_000), "an echo in pieces");
        let (here, there) = (udp(&a.netns, target), udp(&b.netns, target));
        let port = there.local_addr().unwrap().port();
        let (sent, mut buffer) = (vec![0x5a; 8_000], vec![0; 9_000]);
        here.send_to(&sent, at(target, port)).unwrap();
        let (len, who) = there.recv_from(&mut buffer).unwrap();
        assert!(is_translated(who.ip(), b) && buffer[..len] == sent, "{len} bytes from {who}");
        there.send_to(&buffer[..len], who).unwrap();
        let (len, who) = here.recv_from(&mut buffer).unwrap();
        assert_eq!((who, &buffer[..len]), (at(target, port), &sent[..]));
    });
    assert!(lab.pantala().counter("nat_errors") > 0);
}

fn a_stream_finds_the_mtu_of_a_narrow_link_through_translation() {
    let name = "translation::a_stream_finds_the_mtu_of_a_narrow_link_through_translation";
    let links = [Link::new(Attach::Native), Link::new(Attach::Native).pantala_mtu(1400)];
    let Some(lab) = lab(name, &links, BOTH) else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let told = family.pick("icmp_errors_sent", "icmp6_errors_sent");
        let before = lab.pantala().counter(told);
        assert!(stream_arrives(&a.netns, &b.netns, b.addr(family), 4_000_000).unwrap());
        assert!(lab.pantala().counter(told) > before, "the sender was not told");
    });
}

fn translated_transfers_go_on_while_the_rules_around_them_are_exchanged() {
    let name = "translation::translated_transfers_go_on_while_the_rules_around_them_are_exchanged";
    let rules = format!("pipe 1 config delay 1\nadd 50 count ip from table(1) to any\n{BOTH}");
    let Some(lab) = lab(name, &two(), &rules) else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let (begun, mut rounds) = (instance(&lab)["begun"].clone(), 0);
        thread::scope(|scope| {
            let transfer =
                scope.spawn(|| stream_arrives(&a.netns, &b.netns, b.addr(family), 100_000_000).unwrap());
            while !transfer.is_finished() || rounds == 0 {
                let more = format!(
                    "{rules}table 1 add 192.0.2.{}\nnat 2 config ip 192.0.2.1\nadd 40 pipe 1 udp from any to any\n\
                     add 300 deny udp from any to any 9\n",
                    rounds % 250 + 1
                );
                for rules in [&more, &rules] {
                    lab.pantala().rewrite_config(&lab.config(&section("allow", rules)));
                    assert_eq!(lab.pantala().shows("reload"), "the firewall's rules or settings differ\n");
                }
                rounds += 1;
            }
            assert!(transfer.join().unwrap(), "after {rounds} rounds");
        });
        let flows = family.pick(1, 0);
        let now = instance(&lab)["begun"].as_u64().unwrap();
        assert_eq!(now, begun.as_u64().unwrap() + flows, "no flow was begun anew in {rounds} rounds");
    });
}

harness::tests![
    a_thousand_connections_at_once_share_an_address_and_each_gets_its_own_answers,
    a_thousand_udp_sockets_at_once_share_an_address_and_each_gets_its_own_answers,
    a_server_inside_is_reached_from_outside_and_by_its_outside_address_from_inside,
    a_server_inside_answers_in_the_name_of_the_router_where_rules_redirect_to_it,
    datagrams_in_pieces_and_errors_about_them_find_their_way_through_translation,
    a_stream_finds_the_mtu_of_a_narrow_link_through_translation,
    translated_transfers_go_on_while_the_rules_around_them_are_exchanged,
];
