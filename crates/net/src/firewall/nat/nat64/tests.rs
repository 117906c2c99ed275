//! NAT64 as seen by hosts on both sides: IPv6 on the first link, IPv4 on the second.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::checksum::Sum;
use wire::{icmp4, icmp6, ip4, ip6};

use super::*;
use crate::base::time::Duration;
use crate::testkit::build::{self, frame};
use crate::testkit::rules::rules;
use crate::testkit::{Bench, addr4, addr6};

const POOL: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const RULES: &str = "nat64lsn gate create prefix4 198.51.100.1/32 prefix6 2001:db8:64::/96\n\
    add nat64lsn gate ip6 from any to 2001:db8:64::/96 in\n\
    add nat64lsn gate ip4 from any to 198.51.100.1 in\n\
    add allow ip from any to any\n";

/// A router between a client of IPv6 and a server of IPv4.
struct Gate {
    bench: Bench,
}

impl Gate {
    fn new(text: &str) -> Self {
        let mut bench = Bench::new(2);
        bench.set_rules(&mut rules(text));
        Self { bench }
    }

    /// A packet from the client; what the server gets.
    fn out(&mut self, packet: &[u8]) -> Vec<Vec<u8>> {
        self.go(1, packet, 2)
    }

    /// A packet from the server; what the client gets.
    fn back(&mut self, packet: &[u8]) -> Vec<Vec<u8>> {
        self.go(2, packet, 1)
    }

    fn go(&mut self, from: u16, packet: &[u8], to: u16) -> Vec<Vec<u8>> {
        self.bench.inject(from, frame(from, packet));
        self.bench.run();
        let sent: Vec<Vec<u8>> = self.bench.sent(to).into_iter().map(|frame| frame[14..].to_vec()).collect();
        sent.iter().for_each(|packet| check(packet));
        sent
    }
}

fn client() -> IpAddr {
    addr6(1, 9).into()
}

fn server() -> IpAddr {
    addr4(2, 9).into()
}

/// An address of IPv4, as IPv6 sees it.
fn there(addr: IpAddr) -> IpAddr {
    let IpAddr::V4(addr) = addr else { panic!("it is of IPv4") };
    Ipv6Addr::from_bits((0x2001_0db8_0064_u128 << 80) | u128::from(addr.to_bits())).into()
}

/// A packet has right sums.
fn check(packet: &[u8]) {
    let shape = Shape::read(packet).expect("a packet");
    let l4 = &packet[usize::from(shape.l4)..];
    assert!(!shape.is_ip4 || Sum::new().bytes(&packet[..20]).is_intact(), "{packet:x?}");
    if !shape.is_whole {
        return;
    }
    let pseudo = Sum::new().bytes(&shape.src.addr.to_be_bytes()).bytes(&shape.dst.addr.to_be_bytes());
    let pseudo = pseudo.u16(shape.protocol.0.into()).u16(u16::try_from(l4.len()).unwrap());
    let pseudo = if shape.protocol == Protocol::ICMP { Sum::new() } else { pseudo };
    assert!(pseudo.bytes(l4).is_intact(), "{packet:x?}");
}

fn echo_reply(src: IpAddr, dst: IpAddr, id: u16, payload: &[u8]) -> Vec<u8> {
    let (IpAddr::V4(_), message) = (src, icmp4::Message::EchoReply { id, seq: 1 }) else {
        panic!("it is of IPv4")
    };
    build::ip(src, dst, Protocol::ICMP, 64, &[&message.to_bytes(payload)[..], payload].concat())
}

/// An error from a router of either family.
fn error4(src: IpAddr, message: icmp4::Message, quote: &[u8]) -> Vec<u8> {
    build::ip(src, POOL.into(), Protocol::ICMP, 64, &[&message.to_bytes(quote)[..], quote].concat())
}

fn error6(src: Ipv6Addr, dst: Ipv6Addr, message: icmp6::Message, quote: &[u8]) -> Vec<u8> {
    let bytes = [&message.to_bytes(src, dst, quote)[..], quote].concat();
    build::ip(src.into(), dst.into(), Protocol::ICMP6, 64, &bytes)
}

fn v6(addr: IpAddr) -> Ipv6Addr {
    let IpAddr::V6(addr) = addr else { panic!("it is of IPv6") };
    addr
}

#[test]
fn datagrams_and_pings_reach_the_server_and_its_answers_the_client() {
    let mut gate = Gate::new(RULES);
    let sent = gate.out(&build::udp(client(), there(server()), (4000, 53), b"a question"));
    let shape = Shape::read(&sent[0]).unwrap();
    let port = shape.src.port;
    let expected = build::udp(POOL.into(), server(), (port, 53), b"a question");
    assert_eq!((sent.len(), &sent[0][20..], &sent[0][12..20]), (1, &expected[20..], &expected[12..20]));
    assert_eq!(sent[0][8], 63, "a hop less, as by any router");
    let got = gate.back(&build::udp(server(), POOL.into(), (53, port), b"an answer"));
    let mut expected = build::udp(there(server()), client(), (53, 4000), b"an answer");
    expected[7] = 63;
    assert_eq!(got, [expected]);

    let sent = gate.out(&build::echo_request(client(), there(server()), 77, 1, b"hear"));
    let id = Shape::read(&sent[0]).unwrap().src.port;
    assert_eq!(sent[0][20..], build::echo_request(POOL.into(), server(), id, 1, b"hear")[20..]);
    let got = gate.back(&echo_reply(server(), POOL.into(), id, b"hear"));
    let (head, _) = icmp6::Message::parse(v6(there(server())), v6(client()), &got[0][40..]).unwrap();
    assert_eq!(head, icmp6::Message::EchoReply { id: 77, seq: 1 });
    assert_eq!(gate.bench.drops(), []);
}

#[test]
fn unsolicited_packets_are_dropped_unless_for_this_host() {
    let mut gate = Gate::new(RULES);
    assert!(gate.back(&build::udp(server(), POOL.into(), (53, 4000), b"unasked")).is_empty());
    assert_eq!(gate.bench.drops(), [(DropReason::NatDenied, 1)]);
    let text = RULES.replace("198.51.100.1", "10.0.2.1");
    let mut gate = Gate::new(&text);
    let request = build::echo_request(server(), addr4(2, 1).into(), 5, 1, b"to the router");
    assert_eq!(gate.go(2, &request, 2).len(), 1, "it answers");
}

#[test]
fn what_routers_of_ipv4_say_reaches_the_client_as_if_it_was_about_what_it_sent() {
    let cases = [
        (icmp4::Message::Unreachable { code: 3, mtu: 0 }, icmp6::Message::Unreachable { code: 4 }),
        (icmp4::Message::Unreachable { code: 1, mtu: 0 }, icmp6::Message::Unreachable { code: 0 }),
        (icmp4::Message::Unreachable { code: 13, mtu: 0 }, icmp6::Message::Unreachable { code: 1 }),
        (icmp4::Message::Unreachable { code: 4, mtu: 1400 }, icmp6::Message::PacketTooBig { mtu: 1420 }),
        (icmp4::Message::Unreachable { code: 4, mtu: 576 }, icmp6::Message::PacketTooBig { mtu: 1280 }),
        (icmp4::Message::TimeExceeded { code: 0 }, icmp6::Message::TimeExceeded { code: 0 }),
        (
            icmp4::Message::ParameterProblem { code: 0, pointer: 12 },
            icmp6::Message::ParameterProblem { code: 0, pointer: 8 },
        ),
    ];
    for (said, heard) in cases {
        let mut gate = Gate::new(RULES);
        let packet = build::udp(client(), there(server()), (4000, 53), &[1; 100]);
        let sent = gate.out(&packet);
        let told = gate.back(&error4(addr4(2, 7).into(), said, &sent[0][..60]));
        let from = v6(there(addr4(2, 7).into()));
        let (head, quote) = icmp6::Message::parse(from, v6(client()), &told[0][40..]).unwrap();
        let mut expected = packet[..80].to_vec();
        expected[7] = 63;
        assert_eq!((head, quote), (heard, &expected[..]), "{said:?}");
        assert_eq!(ip6::Header::parse(&told[0]).unwrap().src, from);
    }
}

#[test]
fn what_the_client_and_its_routers_say_reaches_the_server() {
    let router = addr6(1, 7);
    let cases = [
        (
            icmp6::Message::Unreachable { code: 4 },
            icmp4::Message::Unreachable { code: 3, mtu: 0 },
            v6(client()),
        ),
        (
            icmp6::Message::PacketTooBig { mtu: 1280 },
            icmp4::Message::Unreachable { code: 4, mtu: 1260 },
            router,
        ),
        (icmp6::Message::TimeExceeded { code: 0 }, icmp4::Message::TimeExceeded { code: 0 }, router),
    ];
    for (said, heard, from) in cases {
        let mut gate = Gate::new(RULES);
        let sent = gate.out(&build::udp(client(), there(server()), (4000, 53), b"?"));
        let port = Shape::read(&sent[0]).unwrap().src.port;
        let answer = build::udp(server(), POOL.into(), (53, port), &[2; 100]);
        let got = gate.back(&answer);
        let told = gate.out(&error6(from, v6(there(server())), said, &got[0]));
        let (head, quote) = icmp4::Message::parse(&told[0][20..]).unwrap();
        assert_eq!((head, &quote[12..]), (heard, &answer[12..]), "{said:?}");
        assert_eq!(ip4::Header::parse(&told[0]).unwrap().src, POOL, "nobody in IPv4 knows another");
    }
}

#[test]
fn what_the_translator_itself_says_is_said_in_the_senders_words() {
    let mut gate = Gate::new(RULES);
    let mut packet = build::udp(client(), there(server()), (4000, 53), b"far");
    packet[7] = 1;
    assert!(gate.out(&packet).is_empty());
    gate.bench.inject(1, frame(1, &packet));
    gate.bench.run();
    let told = gate.bench.sent(1).remove(0)[14..].to_vec();
    check(&told);
    let from = ip6::Header::parse(&told).unwrap().src;
    let (head, quote) = icmp6::Message::parse(from, v6(client()), &told[40..]).unwrap();
    assert_eq!((head, quote), (icmp6::Message::TimeExceeded { code: 0 }, &packet[..]));

    packet[7] = 64;
    let sent = gate.out(&packet);
    let port = Shape::read(&sent[0]).unwrap().src.port;
    let long = build::udp(server(), POOL.into(), (53, port), &[3; 1472]);
    let told = gate.go(2, &long, 2);
    let (head, quote) = icmp4::Message::parse(&told[0][20..]).unwrap();
    assert_eq!(head, icmp4::Message::Unreachable { code: 4, mtu: 1480 }, "its header grows by 20 bytes");
    assert_eq!(quote[12..], long[12..quote.len()]);
}

#[test]
fn what_may_be_cut_is_cut_on_either_side() {
    let mut gate = Gate::new(RULES);
    let sent = gate.out(&build::udp(client(), there(server()), (4000, 53), b"?"));
    let port = Shape::read(&sent[0]).unwrap().src.port;
    let mut long = build::udp(server(), POOL.into(), (53, port), &[3; 1472]);
    long[6] = 0;
    build::fix_ip4_checksum(&mut long);
    let got = gate.back(&long);
    assert!(got.len() == 2 && got.iter().all(|piece| piece.len() <= 1500 && piece[6] == 44), "{got:?}");
    assert!(sent[0][6] & 0x40 == 0 && sent[0][4..6] != [0, 0], "a short packet may be cut on its way");
    let sent = gate.out(&build::udp(client(), there(server()), (4000, 53), &[1; 1300]));
    assert_eq!(sent[0][4..8], [0, 0, 0x40, 0], "a long one must not");
}

#[test]
fn datagrams_in_pieces_are_put_together_first() {
    let mut gate = Gate::new(RULES);
    let packet = build::udp(client(), there(server()), (4000, 53), &[7; 1800]);
    let piece = |offset: u16, more: bool, bytes: &[u8]| {
        let header = wire::ip6_ext::Fragment { next_header: Protocol::UDP, offset, more, id: 5 };
        build::ip(
            client(),
            there(server()),
            Protocol::FRAGMENT,
            64,
            &[&header.to_bytes()[..], bytes].concat(),
        )
    };
    assert!(gate.out(&piece(0, true, &packet[40..1040])).is_empty());
    let sent = gate.out(&piece(1000, false, &packet[1040..]));
    let bytes: usize = sent.iter().map(|piece| piece.len() - 20).sum();
    assert!(sent.len() == 2 && bytes == packet.len() - 40, "{sent:?}");
    assert!(sent.iter().all(|piece| piece[12..16] == POOL.octets()));
    assert_eq!(gate.bench.drops(), []);
}

#[test]
fn a_datagram_without_a_checksum_gets_one() {
    let mut gate = Gate::new(RULES);
    let sent = gate.out(&build::udp(client(), there(server()), (4000, 53), b"?"));
    let port = Shape::read(&sent[0]).unwrap().src.port;
    let mut answer = build::udp(server(), POOL.into(), (53, port), b"an odd answer");
    answer[26..28].fill(0);
    let mut expected = build::udp(there(server()), client(), (53, 4000), b"an odd answer");
    expected[7] = 63;
    assert_eq!(gate.back(&answer), [expected]);
}

#[test]
fn what_has_no_translation_dies_and_its_name_is_counted() {
    let own = build::udp(there(server()), there(server()), (1, 2), b"a loop");
    let sctp = build::ip(client(), there(server()), Protocol::SCTP, 64, &[0; 40]);
    let timestamp = {
        let bytes = [130, 0, 0, 0, 0, 5, 0, 1];
        build::ip(client(), there(server()), Protocol::ICMP6, 64, &bytes)
    };
    let routed = {
        let udp = &build::udp(client(), there(server()), (1, 2), b"r")[40..];
        let header = [17, 0, 3, 1, 0, 0, 0, 0];
        build::ip(client(), there(server()), Protocol::ROUTING, 64, &[&header[..], udp].concat())
    };
    for packet in [own, sctp, timestamp, routed] {
        let mut gate = Gate::new(RULES);
        assert!(gate.out(&packet).is_empty());
        assert_eq!(gate.bench.drops(), [(DropReason::Nat64Untranslatable, 1)], "{packet:x?}");
    }
}

#[test]
fn private_hosts_are_not_behind_the_well_known_prefix_unless_they_are_allowed() {
    let known = |addr: IpAddr| {
        let IpAddr::V4(addr) = addr else { panic!("it is of IPv4") };
        IpAddr::from(Ipv6Addr::from_bits((0x64_ff9b << 96) | u128::from(addr.to_bits())))
    };
    for (allowed, count) in [("", 0), (" allow_private", 1)] {
        let mut gate = Gate::new(&format!(
            "nat64lsn gate create prefix4 198.51.100.1/32{allowed}\n\
             add nat64lsn gate ip6 from any to 64:ff9b::/96 in\nadd allow ip from any to any\n"
        ));
        let packet = build::udp(client(), known(server()), (4000, 53), b"?");
        assert_eq!(gate.out(&packet).len(), count);
        assert_eq!(gate.bench.sent(1).len(), 1 - count, "the client is told");
    }
}

#[test]
fn hosts_of_ipv6_that_spoke_to_each_other_by_their_addresses_in_ipv4_reach_each_other() {
    let mut gate = Gate::new(RULES);
    let (one, other) = (client(), IpAddr::from(addr6(1, 10)));
    let mut port = |from: IpAddr| {
        let sent = gate.out(&build::udp(from, there(server()), (4000, 53), b"who am I?"));
        Shape::read(&sent[0]).unwrap().src.port
    };
    let ports = [port(one), port(other)];
    let open = build::udp(other, there(POOL.into()), (4000, ports[0]), b"open");
    assert_eq!(gate.go(1, &open, 1), [[0; 0]; 0], "the other has not spoken yet");
    let got = gate.go(1, &build::udp(one, there(POOL.into()), (4000, ports[1]), b"hello"), 1);
    assert_eq!(got.len(), 1);
    let shape = Shape::read(&got[0]).unwrap();
    assert_eq!((shape.src.port, shape.dst.port, &got[0][24..40]), (ports[0], 4000, &v6(other).octets()[..]));
}

#[test]
fn a_host_is_seen_as_the_same_by_all_and_on_the_same_port() {
    let text =
        RULES.replace("198.51.100.1/32", "198.51.100.0/28").replace("to 198.51.100.1", "to 198.51.100.0/28");
    let mut gate = Gate::new(&text);
    let mut seen = |from: u16, to: u8, port: u16| {
        let packet = build::udp(addr6(1, from).into(), there(addr4(2, to).into()), (4000, port), b"?");
        Shape::read(&gate.out(&packet)[0]).unwrap().src
    };
    for host in 9..40 {
        let first = seen(host, 9, 53);
        assert!((10..20).all(|to| seen(host, to, u16::from(to)) == first), "host {host}");
    }
    let addrs: std::collections::HashSet<u128> = (9..40).map(|host| seen(host, 9, 53).addr).collect();
    assert!(addrs.len() > 8, "{addrs:x?}");
}

#[test]
fn without_one_pass_rules_behind_are_asked_about_the_packet_as_it_is_now() {
    for (rule, passes) in [("deny ip4 from 198.51.100.1 to any", false), ("deny ip6 from any to any", true)] {
        let text = RULES.replace("add allow", &format!("add {rule} in\nadd allow"));
        let mut gate = Gate::new(&format!("disable one_pass\n{text}"));
        let sent = gate.out(&build::udp(client(), there(server()), (4000, 53), b"?"));
        assert_eq!(sent.len(), usize::from(passes), "{rule}");
    }
}

/// The bytes in front of it now are no frame header: a part of the old header, which an attacker can write.
#[test]
fn a_packet_that_has_crossed_has_no_frame_any_more() {
    let rule = "add deny ip4 from any to any not MAC any 06:09:09:09:09:09 in\nadd allow";
    let text = RULES.replace("add allow", rule);
    let mut gate = Gate::new(&format!("disable one_pass\n{text}"));
    assert_eq!(gate.out(&build::udp(client(), there(server()), (4000, 53), b"?")).len(), 0);
    let mut gate = Gate::new(&format!("disable one_pass\n{}", text.replace("not MAC", "MAC")));
    let anybody: Ipv6Addr = "2001:db8:609:909:909::9".parse().unwrap();
    for client in [client(), anybody.into()] {
        assert_eq!(gate.out(&build::udp(client, there(server()), (4000, 53), b"?")).len(), 1, "{client}");
    }
}

#[test]
fn flows_end_and_their_memory_comes_back() {
    let mut gate = Gate::new(RULES);
    for port in 1000..2000 {
        gate.out(&build::udp(client(), there(server()), (port, 53), b"?"));
    }
    let flows = |gate: &mut Gate| {
        let firewall = gate.bench.cpu().firewall.as_ref().unwrap();
        firewall.nat64().get("gate").unwrap().table().len()
    };
    assert_eq!(flows(&mut gate), 1000);
    gate.bench.advance(Duration::from_secs(310));
    assert_eq!(flows(&mut gate), 0);
    gate.bench.set_rules(&mut rules("add allow ip from any to any\n"));
    assert!(gate.bench.cpu().firewall.as_ref().unwrap().nat64().is_empty());
}
