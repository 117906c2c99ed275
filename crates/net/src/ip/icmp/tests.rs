use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pkt::{Flags, Gso};
use wire::ether::Mac;
use wire::{Protocol, icmp4, icmp6, ip6, tcp};

use super::*;
use crate::base::drop::DropReason;
use crate::fib::{Prefix, Route, To};
use crate::testkit::build::{echo_request, ether, fix_ip4_checksum, frame, ip, udp};
use crate::testkit::{Bench, Frame, addr4, addr6, mac};

/// Both families: the tests are one body.
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    /// Host `host` on the link of interface `i`; host 1 is the stack.
    fn host(self, i: u16, host: u8) -> IpAddr {
        match self {
            Self::V4 => addr4(i, host).into(),
            Self::V6 => addr6(i, host.into()).into(),
        }
    }

    /// Where no route leads.
    fn nowhere(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::new(203, 0, 113, 7).into(),
            Self::V6 => Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 7).into(),
        }
    }

    fn counts(self) -> Counts {
        if self == Self::V4 { COUNTS4 } else { COUNTS6 }
    }

    fn echo_answered(self) -> Count {
        if self == Self::V4 { Count::IcmpEchoAnswered } else { Count::Icmp6EchoAnswered }
    }

    fn header_len(self) -> usize {
        if self == Self::V4 { 20 } else { 40 }
    }
}

/// An ICMP message on the wire.
#[derive(Debug)]
struct Reported {
    from: IpAddr,
    to: IpAddr,
    tos: u8,
    ttl: u8,
    message: Message,
    payload: Vec<u8>,
    len: usize,
}

/// Reads a frame with an ICMP message, and checks everything that must always hold.
fn hear(frame: &[u8]) -> Reported {
    let packet = &frame[14..];
    if packet[0] >> 4 == 4 {
        let header = wire::ip4::Header::parse(packet).expect("a good header");
        let view = wire::ip4::View::new(packet).unwrap();
        let (message, payload) = icmp4::Message::parse(view.payload()).expect("a good message");
        let (from, to) = (header.src.into(), header.dst.into());
        let (message, payload) = (Message::V4(message), payload.to_vec());
        Reported { from, to, tos: header.tos, ttl: header.ttl, message, payload, len: packet.len() }
    } else {
        let view = ip6::View::new(packet).expect("a good header");
        let parsed = icmp6::Message::parse(view.src(), view.dst(), view.payload());
        let (message, payload) = parsed.expect("a good message");
        let (from, to) = (view.src().into(), view.dst().into());
        let (message, payload) = (Message::V6(message), payload.to_vec());
        let (tos, ttl) = (view.traffic_class(), view.hop_limit());
        Reported { from, to, tos, ttl, message, payload, len: packet.len() }
    }
}

/// The one ICMP message that was sent by interface `i`.
fn heard(bench: &mut Bench, i: u16) -> Reported {
    let sent = bench.sent(i);
    assert_eq!(sent.len(), 1, "{:?}", bench.drops());
    hear(&sent[0])
}

fn assert_silence(bench: &mut Bench) {
    assert!(bench.sent(1).is_empty() && bench.sent(2).is_empty());
}

/// The error of a family.
fn error(family: Family, v4: icmp4::Message, v6: icmp6::Message) -> Message {
    match family {
        Family::V4 => Message::V4(v4),
        Family::V6 => Message::V6(v6),
    }
}

fn unreachable4(code: u8) -> icmp4::Message {
    icmp4::Message::Unreachable { code, mtu: 0 }
}

fn unreachable6(code: u8) -> icmp6::Message {
    icmp6::Message::Unreachable { code }
}

/// A UDP datagram from host 9 on link 1, with `payload` bytes.
fn probe(family: Family, to: IpAddr, ttl: u8, payload: usize) -> Vec<u8> {
    let mut packet = udp(family.host(1, 9), to, (4000, 33434), &vec![7; payload]);
    match family {
        Family::V4 => {
            packet[8] = ttl;
            fix_ip4_checksum(&mut packet);
        }
        Family::V6 => packet[7] = ttl,
    }
    packet
}

#[test]
fn an_echo_request_is_answered_with_its_own_bytes() {
    for family in FAMILIES {
        let mut bench = Bench::new(1);
        let (ours, peer) = (family.host(1, 1), family.host(1, 9));
        for payload in [&b""[..], b"x", b"the wandering glider"] {
            bench.inject(1, frame(1, &echo_request(peer, ours, 77, 3, payload)));
            bench.run();
            let reply = heard(&mut bench, 1);
            let expected = error(
                family,
                icmp4::Message::EchoReply { id: 77, seq: 3 },
                icmp6::Message::EchoReply { id: 77, seq: 3 },
            );
            assert_eq!((reply.from, reply.to, reply.ttl), (ours, peer, 64));
            assert_eq!((reply.message, &reply.payload[..]), (expected, payload));
        }
        assert_eq!(bench.counted(family.echo_answered()), 3);
    }
}

#[test]
fn an_echo_in_several_buffers_is_answered_whole() {
    for family in FAMILIES {
        let mut bench = Bench::with(1, 1, |config| {
            config.ifs[0].mtu = 9000;
            config.ifs[0].caps.buffers_max = 8;
        });
        let payload: Vec<u8> = (0..=255).cycle().take(7001).collect();
        bench.inject(1, frame(1, &echo_request(family.host(1, 9), family.host(1, 1), 1, 1, &payload)));
        bench.run();
        assert_eq!(heard(&mut bench, 1).payload, payload);
    }
}

#[test]
fn an_echo_keeps_its_class_and_loses_its_options() {
    let mut bench = Bench::new(1);
    let mut packet = echo_request(addr4(1, 9).into(), addr4(1, 1).into(), 1, 2, b"data");
    packet[1] = 0xbb;
    packet.splice(20..20, [7, 7, 4, 0, 0, 0, 0, 0]);
    packet[0] = 0x47;
    packet[3] += 8;
    fix_ip4_checksum(&mut packet);
    bench.inject(1, frame(1, &packet));
    bench.run();
    let reply = heard(&mut bench, 1);
    assert_eq!((reply.tos, reply.len, &reply.payload[..]), (0xb8, 32, &b"data"[..]));
}

#[test]
fn an_echo_behind_extension_headers_is_answered_without_them() {
    let mut bench = Bench::new(1);
    let request = echo_request(addr6(1, 9).into(), addr6(1, 1).into(), 1, 2, b"data");
    let options = [&[58, 0, 1, 4, 0, 0, 0, 0], &request[40..]].concat();
    let packet = ip(addr6(1, 9).into(), addr6(1, 1).into(), Protocol::DESTINATION_OPTIONS, 3, &options);
    bench.inject(1, frame(1, &packet));
    bench.run();
    let reply = heard(&mut bench, 1);
    assert_eq!((reply.len, &reply.payload[..], reply.ttl), (40 + 8 + 4, &b"data"[..], 64));
}

#[test]
fn an_atomic_fragment_is_answered_for_itself() {
    let mut bench = Bench::new(1);
    let request = echo_request(addr6(1, 9).into(), addr6(1, 1).into(), 1, 2, b"data");
    let fragment = [&[58, 0, 0, 0, 0, 0, 0, 9], &request[40..]].concat();
    let packet = ip(addr6(1, 9).into(), addr6(1, 1).into(), Protocol::FRAGMENT, 64, &fragment);
    bench.inject(1, frame(1, &packet));
    bench.run();
    assert_eq!(heard(&mut bench, 1).payload, b"data");
}

#[test]
fn an_ipv4_echo_to_a_broadcast_address_is_not_answered() {
    for dst in [Ipv4Addr::BROADCAST, addr4(1, 255), addr4(1, 0), Ipv4Addr::new(224, 0, 0, 1)] {
        for to in [Mac::BROADCAST, mac(1)] {
            let mut bench = Bench::new(2);
            let packet = echo_request(addr4(1, 9).into(), dst.into(), 1, 1, b"smurf");
            bench.inject(1, ether(to, Mac([6, 0, 0, 0, 0, 9]), 0x0800, &packet));
            bench.run();
            assert_silence(&mut bench);
        }
    }
}

#[test]
fn an_ipv6_echo_to_all_nodes_is_answered_by_one_of_our_addresses() {
    let mut bench = Bench::new(1);
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let packet = echo_request(addr6(1, 9).into(), all_nodes.into(), 5, 6, b"anybody?");
    bench.inject(1, ether(Mac([0x33, 0x33, 0, 0, 0, 1]), Mac([6, 0, 0, 0, 0, 9]), 0x86dd, &packet));
    bench.run();
    let reply = heard(&mut bench, 1);
    assert_eq!((reply.from, reply.to), (addr6(1, 1).into(), addr6(1, 9).into()));
    assert_eq!(reply.payload, b"anybody?");
}

#[test]
fn a_link_local_echo_is_answered_on_its_link() {
    let mut bench = Bench::new(2);
    let ours = wire::addr::link_local_from_mac(mac(2));
    let peer = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    bench.inject(2, frame(2, &echo_request(peer.into(), ours.into(), 1, 1, b"")));
    bench.run();
    assert_eq!((heard(&mut bench, 2).from, bench.sent(1).len()), (ours.into(), 0));
}

#[test]
fn a_broken_or_short_message_is_not_answered() {
    for family in FAMILIES {
        let mut bench = Bench::new(2);
        let (ours, peer) = (family.host(1, 1), family.host(1, 9));
        let protocol = if family == Family::V4 { Protocol::ICMP } else { Protocol::ICMP6 };
        let mut broken = echo_request(peer, ours, 1, 1, b"abc");
        *broken.last_mut().unwrap() ^= 1;
        // Whatever the device says of it.
        for flags in [Flags::NONE, Flags::CSUM_GOOD] {
            bench.inject(1, Frame { flags, ..frame(1, &broken).into() });
        }
        for len in [0, 1, 7] {
            bench.inject(1, frame(1, &ip(peer, ours, protocol, 64, &[8; 7][..len])));
        }
        bench.run();
        assert_silence(&mut bench);
        assert_eq!(bench.dropped(DropReason::IcmpBadChecksum), 2);
        assert_eq!(bench.dropped(DropReason::IcmpMalformed), 3);
    }
}

#[test]
fn timestamps_masks_redirects_and_the_unknown_are_not_answered() {
    let mut bench = Bench::new(2);
    for (kind, reason) in [
        (13, DropReason::IcmpNotAnswered),
        (17, DropReason::IcmpNotAnswered),
        (4, DropReason::IcmpNotAnswered),
        (99, DropReason::IcmpNotAnswered),
        (5, DropReason::IcmpRedirect),
    ] {
        let before = bench.dropped(reason);
        let body = icmp4::Message::Other { kind, code: 0, rest: [0; 4] }.to_bytes(&[0; 20]);
        let body = [&body[..], &[0; 20]].concat();
        bench.inject(1, frame(1, &ip(addr4(1, 9).into(), addr4(1, 1).into(), Protocol::ICMP, 64, &body)));
        bench.run();
        assert_eq!(bench.dropped(reason), before + 1, "type {kind}");
    }
    assert_silence(&mut bench);
}

#[test]
fn a_hop_that_ends_a_packet_names_itself_by_its_nearer_side() {
    for family in FAMILIES {
        let mut bench = Bench::new(2);
        let packet = probe(family, family.host(2, 9), 1, 12);
        bench.inject(1, frame(1, &packet));
        bench.run();
        let error = heard(&mut bench, 1);
        let (v4, v6) = (icmp4::Message::TimeExceeded { code: 0 }, icmp6::Message::TimeExceeded { code: 0 });
        assert_eq!(error.message, self::error(family, v4, v6));
        assert_eq!((error.from, error.to, error.ttl), (family.host(1, 1), family.host(1, 9), 64));
        assert_eq!(error.payload, packet, "the packet is quoted as it came");
        assert_eq!(error.tos, if family == Family::V4 { 0xc0 } else { 0 });
        assert_eq!(bench.counted(family.counts().sent), 1);
        assert_eq!(bench.dropped(DropReason::TtlExceeded), 1);
    }
}

#[test]
fn an_error_says_what_is_the_matter() {
    for family in FAMILIES {
        let reject = family.nowhere();
        let mut bench = Bench::with(2, 1, |config| {
            config.routes.push(Route::new(Prefix::host(reject), To::Reject));
        });
        let other = match family {
            Family::V4 => Ipv4Addr::new(198, 51, 100, 1).into(),
            Family::V6 => Ipv6Addr::new(0x3fff, 1, 0, 0, 0, 0, 0, 1).into(),
        };
        for (dst, v4, v6) in
            [(other, 0, 0), (reject, 1, 6), (family.host(1, 1), 3, 4), (family.host(2, 1), 3, 4)]
        {
            bench.inject(1, frame(1, &probe(family, dst, 64, 0)));
            bench.run();
            let heard = heard(&mut bench, 1);
            assert_eq!(heard.message, error(family, unreachable4(v4), unreachable6(v6)), "{dst}");
            let from = if bench.cpu().tables.is_ours(dst) { dst } else { family.host(1, 1) };
            assert_eq!(heard.from, from);
        }
    }
}

#[test]
fn an_unknown_protocol_is_named() {
    for family in FAMILIES {
        let mut bench = Bench::new(1);
        let packet = ip(family.host(1, 9), family.host(1, 1), Protocol(253), 64, b"?");
        bench.inject(1, frame(1, &packet));
        bench.run();
        let v6 = icmp6::Message::ParameterProblem { code: 1, pointer: 6 };
        assert_eq!(heard(&mut bench, 1).message, error(family, unreachable4(2), v6));
    }
}

#[test]
fn a_packet_too_big_for_the_next_link_is_answered_with_its_mtu() {
    for family in FAMILIES {
        let mut bench = Bench::with(2, 1, |config| config.ifs[1].mtu = 1400);
        let packet = probe(family, family.host(2, 9), 64, 1500 - family.header_len() - 8);
        bench.inject(1, frame(1, &packet));
        bench.run();
        let error = heard(&mut bench, 1);
        let (v4, v6) =
            (icmp4::Message::Unreachable { code: 4, mtu: 1400 }, icmp6::Message::PacketTooBig { mtu: 1400 });
        assert_eq!(error.message, self::error(family, v4, v6));
        assert_eq!(error.len, if family == Family::V4 { 576 } else { 1280 });
        assert_eq!(error.payload[..], packet[..error.payload.len()]);
    }
}

#[test]
fn no_ipv6_path_is_said_to_carry_less_than_the_minimum() {
    let message = |mtu| crate::ip::ip6::icmp6::message(Problem::TooBig { mtu });
    assert_eq!(message(576), Some(icmp6::Message::PacketTooBig { mtu: 1280 }));
    assert_eq!(message(9000), Some(icmp6::Message::PacketTooBig { mtu: 9000 }));
}

#[test]
fn a_super_packet_is_quoted_like_any_other() {
    for family in FAMILIES {
        let mut bench = Bench::new(2);
        let header = tcp::Header {
            src_port: 4000,
            dst_port: 80,
            seq: 1,
            ack: 1,
            flags: tcp::Flags::ACK,
            window: 1000,
            urgent: 0,
            options: tcp::Options::NONE,
        };
        let packet = crate::testkit::build::tcp(family.host(1, 9), family.nowhere(), &header, &[1; 20_000]);
        let gso = if family == Family::V4 { Gso::Tcp4 } else { Gso::Tcp6 };
        let partial = Some((u16::try_from(14 + family.header_len()).unwrap(), 16));
        bench.inject(1, Frame { gso, gso_size: 1400, partial, ..frame(1, &packet).into() });
        bench.run();
        let error = heard(&mut bench, 1);
        assert_eq!(error.len, if family == Family::V4 { 576 } else { 1280 });
        assert_eq!(error.payload[..], packet[..error.payload.len()]);
    }
}

/// Sends `packet` in from link 1 and expects that it dies, and that its sender is not told.
fn assert_not_told(family: Family, to: Mac, packet: &[u8]) {
    let mut bench = Bench::new(2);
    let ethertype = if family == Family::V4 { 0x0800 } else { 0x86dd };
    bench.inject(1, ether(to, Mac([6, 0, 0, 0, 0, 9]), ethertype, packet));
    bench.run();
    assert_silence(&mut bench);
    assert_eq!(bench.counted(family.counts().sent), 0);
}

#[test]
fn errors_and_redirects_are_not_answered_with_errors() {
    for family in FAMILIES {
        let kinds: &[u8] =
            if family == Family::V4 { &[3, 4, 5, 11, 12, 200] } else { &[1, 2, 3, 4, 100, 137] };
        for kind in kinds {
            let (src, dst) = (family.host(1, 9), family.nowhere());
            let protocol = if family == Family::V4 { Protocol::ICMP } else { Protocol::ICMP6 };
            let body = [&[*kind, 0, 0, 0, 0, 0, 0, 0][..], &[0; 48]].concat();
            assert_not_told(family, mac(1), &ip(src, dst, protocol, 1, &body));
        }
        let told = echo_request(family.host(1, 9), family.nowhere(), 1, 1, b"");
        let mut bench = Bench::new(2);
        bench.inject(1, frame(1, &told));
        bench.run();
        assert_eq!(bench.sent(1).len(), 1, "a request is no error");
    }
}

#[test]
fn groups_and_broadcasts_are_not_answered_with_errors() {
    let link_groups = [Mac::BROADCAST, Mac([1, 0, 0x5e, 0, 0, 1])];
    for to in [addr4(1, 255), Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 1)] {
        for link in link_groups.into_iter().chain([mac(1)]) {
            assert_not_told(Family::V4, link, &probe(Family::V4, to.into(), 64, 0));
        }
    }
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    assert_not_told(Family::V6, Mac([0x33, 0x33, 0, 0, 0, 1]), &probe(Family::V6, all_nodes.into(), 64, 0));
}

/// A fragment of a datagram of `protocol` to nowhere.
fn fragment(family: Family, protocol: Protocol, offset: u8, more: bool) -> Vec<u8> {
    let (src, dst) = (family.host(1, 9), family.nowhere());
    match family {
        Family::V4 => {
            let mut packet = ip(src, dst, protocol, 64, &[8; 64]);
            packet[6..8].copy_from_slice(&[u8::from(more) << 5, offset / 8]);
            fix_ip4_checksum(&mut packet);
            packet
        }
        Family::V6 => {
            let body = [&[protocol.0, 0, 0, offset | u8::from(more), 0, 0, 0, 1][..], &[128; 64]].concat();
            ip(src, dst, Protocol::FRAGMENT, 64, &body)
        }
    }
}

#[test]
fn a_first_fragment_is_answered() {
    for family in FAMILIES {
        for protocol in [Protocol::UDP, if family == Family::V4 { Protocol::ICMP } else { Protocol::ICMP6 }] {
            let first = fragment(family, protocol, 0, true);
            let mut bench = Bench::new(1);
            bench.inject(1, frame(1, &first));
            bench.run();
            assert_eq!(heard(&mut bench, 1).payload, first);
        }
    }
}

#[test]
fn a_later_fragment_is_not_answered_if_it_may_be_of_an_error() {
    assert_not_told(Family::V4, mac(1), &fragment(Family::V4, Protocol::UDP, 64, true));
    assert_not_told(Family::V4, mac(1), &fragment(Family::V4, Protocol::ICMP, 64, true));
    assert_not_told(Family::V6, mac(1), &fragment(Family::V6, Protocol::ICMP6, 64, true));
    // RFC 4443 has no rule against it, and RFC 8200 §4.5 asks for it.
    let later = fragment(Family::V6, Protocol::UDP, 64, true);
    let mut bench = Bench::new(1);
    bench.inject(1, frame(1, &later));
    bench.run();
    assert_eq!(heard(&mut bench, 1).payload, later);
}

#[test]
fn sources_that_are_no_host_are_not_answered() {
    let sources4 =
        ["0.0.0.0", "127.0.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "10.0.1.255", "10.0.2.0"];
    for src in sources4 {
        let packet = udp(src.parse().unwrap(), addr4(1, 1).into(), (1, 2), b"");
        assert_not_told(Family::V4, mac(1), &packet);
    }
    for src in ["::", "::1", "ff02::1", "::ffff:1.2.3.4"] {
        let packet = udp(src.parse().unwrap(), addr6(1, 1).into(), (1, 2), b"");
        assert_not_told(Family::V6, mac(1), &packet);
    }
}

#[test]
fn a_flood_is_answered_a_little_and_a_trace_wholly() {
    for family in FAMILIES {
        let mut bench = Bench::new(2);
        // The flooder is a neighbour that is known already.
        bench.inject(1, frame(1, &echo_request(family.host(1, 9), family.host(1, 1), 1, 1, b"")));
        bench.run();
        bench.forget_sent();
        for _ in 0..5000 {
            bench.inject(1, frame(1, &probe(family, family.host(1, 1), 64, 0)));
        }
        bench.run();
        let sent = u64::try_from(bench.sent(1).len()).unwrap();
        assert!((1..=50).contains(&sent), "{sent}");
        assert_eq!(bench.counted(family.counts().sent), sent);
        assert_eq!(bench.counted(family.counts().limited), 5000 - sent);
        // Another host traces a route meanwhile.
        for _ in 0..3 {
            let mut packet = probe(family, family.host(1, 9), 1, 0);
            let (from, to) = (family.host(2, 9), family.host(1, 9));
            let ends: Vec<u8> = match (from, to) {
                (IpAddr::V4(from), IpAddr::V4(to)) => [from.octets(), to.octets()].concat(),
                (IpAddr::V6(from), IpAddr::V6(to)) => [from.octets(), to.octets()].concat(),
                _ => unreachable!(),
            };
            let at = family.header_len() - ends.len();
            packet[at..][..ends.len()].copy_from_slice(&ends);
            if family == Family::V4 {
                fix_ip4_checksum(&mut packet);
            }
            bench.inject(2, frame(2, &packet));
        }
        bench.run();
        assert_eq!(bench.sent(2).len(), 3);
    }
}

#[test]
fn an_interface_without_addresses_speaks_with_another_ones() {
    for family in FAMILIES {
        let mut bench = Bench::with(2, 1, |config| {
            config.ifs[0].addrs.retain(|own| own.addr.is_ipv4() && family == Family::V6);
            let ifindex = 1;
            let to = Prefix::new(family.host(1, 0), if family == Family::V4 { 24 } else { 64 }).unwrap();
            config.routes.push(Route::new(to, To::OnLink { ifindex }));
        });
        bench.neighbours_answer = true;
        bench.inject(1, frame(1, &probe(family, family.nowhere(), 64, 0)));
        bench.run();
        // No link address can be resolved without an own one; the error that was made counts.
        assert_eq!(bench.counted(family.counts().sent), 1, "{:?}", bench.drops());
    }
}
