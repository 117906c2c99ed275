use core::net::{IpAddr, Ipv6Addr};

use proptest::prelude::*;
use wire::checksum::{complete, partial_v4, partial_v6};
use wire::{icmp4, icmp6, ip4, ip6, tcp};

use super::*;
use crate::firewall::nat::fuzz_bodies;
use crate::testkit::build::{echo_request, fix_ip4_checksum, ip, udp};
use crate::testkit::{Bench, Frame, addr4, addr6, load};

fn host(is_ip4: bool, host: u8) -> IpAddr {
    if is_ip4 { addr4(1, host).into() } else { addr6(1, host.into()).into() }
}

pub(crate) fn bits(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(addr) => addr.to_bits().into(),
        IpAddr::V6(addr) => addr.to_bits(),
    }
}

fn segment(src: IpAddr, dst: IpAddr, payload: &[u8]) -> Vec<u8> {
    let header = tcp::Header {
        src_port: 4000,
        dst_port: 80,
        seq: 7,
        ack: 9,
        flags: tcp::Flags::ACK,
        window: 5,
        urgent: 0,
        options: tcp::Options { timestamps: Some((1, 2)), ..tcp::Options::NONE },
    };
    crate::testkit::build::tcp(src, dst, &header, payload)
}

/// An error from `src` to `dst` about a packet from `dst`.
fn error(src: IpAddr, dst: IpAddr, quote: &[u8]) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = icmp6::Message::PacketTooBig { mtu: 1280 }.to_bytes(from, to, quote);
            ip(src, dst, Protocol::ICMP6, 64, &[&header, quote].concat())
        }
        _ => {
            let header = icmp4::Message::Unreachable { code: 4, mtu: 576 }.to_bytes(quote);
            ip(src, dst, Protocol::ICMP, 64, &[&header, quote].concat())
        }
    }
}

/// Packets of all kinds from one host to another, but for errors.
fn plain(src: IpAddr, dst: IpAddr, payload: &[u8]) -> Vec<Vec<u8>> {
    let no_checksum = {
        let mut packet = udp(src, dst, (4000, 53), payload);
        let at = packet.len() - payload.len() - 2;
        packet[at..at + 2].fill(0);
        packet
    };
    let mut all = vec![
        segment(src, dst, payload),
        udp(src, dst, (4000, 53), payload),
        no_checksum,
        echo_request(src, dst, 77, 1, payload),
        ip(src, dst, Protocol::GRE, 64, payload),
        ip(src, dst, Protocol::UDP, 64, &payload[..payload.len().min(7)]),
    ];
    if src.is_ipv4() {
        all.extend(only_ip4(src, dst, payload));
    } else {
        all.extend(only_ip6(src, dst, payload));
    }
    all
}

/// A timestamp, a first and a later fragment, and a header with options.
fn only_ip4(src: IpAddr, dst: IpAddr, payload: &[u8]) -> Vec<Vec<u8>> {
    let stamp = icmp4::Message::Other { kind: 13, code: 0, rest: [0, 77, 0, 1] };
    let stamp = ip(src, dst, Protocol::ICMP, 64, &[&stamp.to_bytes(payload), payload].concat());
    let fragment = |word: u16| {
        let mut packet = udp(src, dst, (4000, 53), payload);
        packet[6..8].copy_from_slice(&word.to_be_bytes());
        fix_ip4_checksum(&mut packet);
        packet
    };
    let (IpAddr::V4(from), IpAddr::V4(to)) = (src, dst) else { return Vec::new() };
    let body = segment(src, dst, payload)[20..].to_vec();
    let header = ip4::Header::new(from, to, Protocol::TCP, u16::try_from(body.len()).unwrap());
    let header = ip4::Header { options: ip4::Options::from_bytes(&[148, 4, 0, 0]).unwrap(), ..header };
    let mut with_options = vec![0; 24];
    header.emit(&mut with_options).unwrap();
    with_options.extend(body);
    vec![stamp, fragment(0x2000), fragment(0x0005), with_options]
}

/// Destination options before the upper layer, a first and a later fragment.
fn only_ip6(src: IpAddr, dst: IpAddr, payload: &[u8]) -> Vec<Vec<u8>> {
    let body = segment(src, dst, payload)[40..].to_vec();
    let with = |next: Protocol, extension: [u8; 8]| ip(src, dst, next, 64, &[&extension[..], &body].concat());
    vec![
        with(Protocol::DESTINATION_OPTIONS, [6, 0, 1, 4, 0, 0, 0, 0]),
        with(Protocol::FRAGMENT, [6, 0, 0, 1, 0, 0, 0, 9]),
        with(Protocol::FRAGMENT, [6, 0, 1, 0, 0, 0, 0, 9]),
    ]
}

/// All of them, and errors about them, cut off at each length.
fn packets(is_ip4: bool, payload: &[u8]) -> Vec<Vec<u8>> {
    let (src, dst) = (host(is_ip4, 7), host(is_ip4, 8));
    let quoted = plain(dst, src, payload);
    let cuts = quoted.iter().flat_map(|packet| (20..packet.len()).map(move |len| &packet[..len]));
    let errors = cuts.map(|quote| error(src, dst, quote));
    plain(src, dst, payload).into_iter().chain(errors).collect()
}

fn is_intact(packet: &[u8]) -> bool {
    match (ip4::View::new(packet), ip6::View::new(packet)) {
        (Ok(view), _) => {
            let sum = Sum::pseudo_v4(
                view.src(),
                view.dst(),
                view.protocol(),
                u16::try_from(view.payload().len()).unwrap(),
            );
            let sum = if view.protocol() == Protocol::ICMP { Sum::new() } else { sum };
            view.verify_checksum()
                && has_checksum(view.protocol(), view.payload())
                && sum.bytes(view.payload()).is_intact()
        }
        (_, Ok(view)) => {
            let upper = crate::ip::ip6::headers::upper(packet).unwrap();
            let body = &packet[upper.at..];
            let len = u32::try_from(body.len()).unwrap();
            let sum = Sum::pseudo_v6(view.src(), view.dst(), upper.protocol, len).bytes(body);
            has_checksum(upper.protocol, body) && sum.is_intact()
        }
        _ => false,
    }
}

/// UDP's zero says that there is none, and a header that is cut off before it has none.
fn has_checksum(protocol: Protocol, body: &[u8]) -> bool {
    protocol != Protocol::UDP || body.get(6..8).is_some_and(|field| *field != [0, 0])
}

/// The end of the flow on a side, as an error knows it.
fn flow_end(packet: &[u8], shape: &Shape, side: Side) -> End {
    let end = shape.end(side);
    let quote = (shape.kind == Kind::Error).then(|| shape.quote(packet)).flatten();
    quote.map_or(end, |quote| quote.end(side.other()))
}

/// Packets of all kinds are given another end, and then theirs again.
fn there_and_back(is_ip4: bool, is_src: bool, to: End, payload: &[u8]) {
    let side = if is_src { Side::Src } else { Side::Dst };
    let to = End { addr: if is_ip4 { to.addr & u128::from(u32::MAX) } else { to.addr }, ..to };
    for packet in packets(is_ip4, payload) {
        let Some(shape) = Shape::read(&packet) else { continue };
        let mut bytes = packet.clone();
        rewrite(&mut bytes, &shape, false, side, to);
        let after = Shape::read(&bytes).unwrap();
        assert_eq!(after.end(side).addr, to.addr);
        let has_checksum = !matches!(shape.kind, Kind::Later | Kind::Other);
        assert!(!has_checksum || is_intact(&bytes) == is_intact(&packet), "{shape:?}");
        rewrite(&mut bytes, &after, false, side, flow_end(&packet, &shape, side));
        assert_eq!(bytes, packet, "{shape:?}");
    }
}

#[test]
fn what_has_no_checksum_is_not_intact_because_its_sum_happens_to_be_zero() {
    let nobody = End { addr: 0, port: 0 };
    there_and_back(false, false, nobody, &[185, 166, 67, 111, 130, 78, 37, 0]);
}

proptest! {
    #[test]
    fn what_is_translated_is_intact_and_translated_back_what_it_was(
        is_ip4: bool, is_src: bool, addr: u128, port: u16, payload in prop::collection::vec(any::<u8>(), 8..40),
    ) {
        there_and_back(is_ip4, is_src, End { addr, port }, &payload);
    }

    #[test]
    fn the_short_way_of_usual_packets_is_the_careful_one(
        is_src: bool, is_tcp: bool, addr: u32, port: u16, checksum: u16, old_addr: u32, old_port: u16, words: [u16; 2],
    ) {
        let (src, dst) = (host(true, 7), host(true, 8));
        let mut packet = if is_tcp { segment(src, dst, &[7; 9]) } else { udp(src, dst, (4000, 53), &[7; 9]) };
        // All that there may be, right or wrong; and the numbers at which sums turn over.
        let turn = |word: u16| if words.contains(&word) || word & 3 == 3 { 0xffff } else if word & 3 == 2 { 0 } else { word };
        let at = if is_tcp { 36 } else { 26 };
        packet[at..at + 2].copy_from_slice(&turn(checksum).to_be_bytes());
        packet[10..12].copy_from_slice(&turn(words[0]).to_be_bytes());
        packet[12..16].copy_from_slice(&old_addr.to_be_bytes());
        packet[20..22].copy_from_slice(&turn(old_port).to_be_bytes());
        let (side, port) = (if is_src { Side::Src } else { Side::Dst }, turn(port));
        packet.resize(WINDOW.max(packet.len()), 0xa5);
        let mut usual = *packet.first_chunk().unwrap();
        rewrite_usual(&mut usual, side, addr, port);
        let shape = Shape::read(&packet).unwrap();
        rewrite(&mut packet, &shape, false, side, End { addr: addr.into(), port });
        prop_assert_eq!(&usual[..], &packet[..WINDOW]);
    }

    #[test]
    fn any_bytes_are_translated_and_back_or_refused(
        seed: usize, is_ip4: bool, at: usize, byte: u8, head: [u8; 19], payload in prop::collection::vec(any::<u8>(), 8..24),
    ) {
        let all = packets(is_ip4, &payload);
        let mut packet = all[seed % all.len()].clone();
        let at = at % packet.len();
        packet[at] = byte;
        fuzz_bodies::round_trip(&[&head[..], &packet].concat());
    }

    #[test]
    fn a_partial_checksum_is_completed_to_a_right_one_after_translation(
        is_ip4: bool, is_src: bool, is_tcp: bool, addr: u128, port: u16, payload: [u8; 9],
    ) {
        let (src, dst) = (host(is_ip4, 7), host(is_ip4, 8));
        let mut frame = if is_tcp { segment(src, dst, &payload) } else { udp(src, dst, (4000, 53), &payload) };
        let (l4, off) = (if is_ip4 { 20 } else { 40 }, if is_tcp { 16 } else { 6 });
        let protocol = if is_tcp { Protocol::TCP } else { Protocol::UDP };
        let len = frame.len() - l4;
        let partial = match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => partial_v4(src, dst, protocol, u16::try_from(len).unwrap()),
            (IpAddr::V6(src), IpAddr::V6(dst)) => partial_v6(src, dst, protocol, u32::try_from(len).unwrap()),
            _ => unreachable!(),
        };
        frame[l4 + off..l4 + off + 2].copy_from_slice(&partial.to_be_bytes());
        let side = if is_src { Side::Src } else { Side::Dst };
        let to = End { addr: if is_ip4 { addr & u128::from(u32::MAX) } else { addr }, port };

        let mut bench = Bench::new(1);
        let partial = Some((u16::try_from(l4).unwrap(), u8::try_from(off).unwrap()));
        let frame = Frame { partial, flags: Flags::HASH, ..frame.into() };
        let mut pkt = load(&mut bench.cpu().pool, &frame).unwrap();
        let shape = Shape::read(pkt.head()).unwrap();
        translate(&mut pkt, &shape, side, to);
        let after = pkt.head().to_vec();
        let flags = pkt.flags;
        let there = Shape::read(&after).unwrap();
        translate(&mut pkt, &there, side, shape.end(side));
        let back = pkt.head().to_vec();
        bench.cpu().pool.give(pkt);

        prop_assert!(!flags.has(Flags::HASH), "its hash was that of other addresses");
        prop_assert_eq!(there.end(side), to);
        let mut completed = after;
        complete(&mut completed, l4, off).unwrap();
        prop_assert!(is_intact(&completed));
        prop_assert_eq!(back, frame.bytes);
    }
}

#[test]
fn no_checksum_stays_none_and_one_that_becomes_zero_is_written_as_ones() {
    for is_ip4 in [true, false] {
        let (src, dst) = (host(is_ip4, 7), host(is_ip4, 8));
        let good = udp(src, dst, (4000, 53), b"");
        let shape = Shape::read(&good).unwrap();
        let at = usize::from(shape.l4) + 6;
        let zeros = (0..=u16::MAX).filter(|port| {
            let mut bytes = good.clone();
            rewrite(&mut bytes, &shape, false, Side::Src, End { addr: bits(src), port: *port });
            assert_ne!(bytes[at..at + 2], [0, 0]);
            bytes[at..at + 2] == [0xff, 0xff]
        });
        assert!(zeros.count() > 0);
        let mut none = good.clone();
        none[at..at + 2].fill(0);
        rewrite(&mut none, &shape, false, Side::Src, End { addr: bits(dst), port: 1 });
        assert_eq!(none[at..at + 2], [0, 0]);
    }
}

#[test]
fn an_error_brings_both_ends_of_its_way_and_of_what_it_quotes() {
    for is_ip4 in [true, false] {
        let (router, inside, outside) = (host(is_ip4, 99), host(is_ip4, 7), host(is_ip4, 8));
        let quote = segment(outside, inside, b"abcdefgh");
        let mut bytes = error(router, outside, &quote);
        let shape = Shape::read(&bytes).unwrap();
        let to = End { addr: bits(host(is_ip4, 50)), port: 1234 };
        rewrite(&mut bytes, &shape, false, Side::Dst, to);
        let after = Shape::read(&bytes).unwrap();
        let quoted = after.quote(&bytes).unwrap();
        assert_eq!((after.src.addr, after.dst.addr), (bits(router), to.addr));
        assert_eq!((quoted.src, quoted.dst), (to, End { addr: bits(inside), port: 80 }));
        assert!(is_intact(&bytes));
        assert!(is_intact(&bytes[usize::from(after.l4) + 8..]), "what it quotes is intact too");
    }
}

#[test]
fn too_little_of_an_upper_layer_is_not_translated() {
    for is_ip4 in [true, false] {
        let (src, dst) = (host(is_ip4, 7), host(is_ip4, 8));
        let icmp = if is_ip4 { Protocol::ICMP } else { Protocol::ICMP6 };
        for (protocol, len) in [(Protocol::TCP, 3), (Protocol::UDP, 3), (icmp, 7)] {
            assert_eq!(Shape::read(&ip(src, dst, protocol, 64, &vec![0; len])), None);
            assert!(Shape::read(&ip(src, dst, protocol, 64, &vec![0; len + 1])).is_some());
        }
    }
    assert_eq!(Shape::read(&[]), None);
    assert_eq!(Shape::read(&Ipv6Addr::LOCALHOST.octets()), None);
}
