mod gre;

use core::net::IpAddr;

use pkt::WINDOW;
use wire::{icmp4, icmp6};

use super::*;
use crate::fib::{Prefix, Route as FibRoute, To};
use crate::link::logical::Kind;
use crate::link::tables::{Config, IfIndex};
use crate::testkit::link::{FAMILIES, Family};
use crate::testkit::{Bench, build, ifnet, mac, peer_mac};

/// The interface that outer packets leave by, and come by.
const OUTSIDE: IfIndex = 2;
/// Host at the other end of the tunnels.
const FAR: u8 = 9;

/// An encapsulation: the family of the outer header, and the header behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outer(Family, Encap);

const ENCAPS: [Encap; 3] = [Encap::Ip, Encap::Gre { key: None }, Encap::Gre { key: Some(KEY) }];
const KEY: u32 = 0x0102_0304;
/// All tunnels, in the order of their interfaces.
const ALL: [Outer; 6] = [
    Outer(Family::V4, ENCAPS[0]),
    Outer(Family::V6, ENCAPS[0]),
    Outer(Family::V4, ENCAPS[1]),
    Outer(Family::V6, ENCAPS[1]),
    Outer(Family::V4, ENCAPS[2]),
    Outer(Family::V6, ENCAPS[2]),
];

impl core::ops::Deref for Outer {
    type Target = Family;

    fn deref(&self) -> &Family {
        &self.0
    }
}

/// Index of a tunnel.
fn over(outer: Outer) -> IfIndex {
    3 + IfIndex::try_from(ALL.iter().position(|one| *one == outer).unwrap()).unwrap()
}

fn ends(outer: Outer) -> Tunnel {
    Tunnel::between(outer.addr(OUTSIDE, 1), outer.addr(OUTSIDE, FAR), outer.1)
}

fn tunnel(outer: Outer) -> Ifnet {
    Ifnet { kind: Kind::Tunnel(ends(outer)), ..ifnet(over(outer)) }
}

/// The header behind the outer network header, of a packet of this version.
fn behind(outer: Outer, version: u8) -> Vec<u8> {
    let ethertype = if version == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    match outer.1 {
        Encap::Ip => Vec::new(),
        Encap::Gre { key: None } => [[0, 0], ethertype].concat(),
        Encap::Gre { key: Some(key) } => [&[0x20, 0], &ethertype[..], &key.to_be_bytes()].concat(),
    }
}

/// Two devices, and tunnels of each kind over each family by the second one. All tunnels carry both families.
fn bench(cpus: u16, change: impl FnOnce(&mut Config)) -> Bench {
    Bench::with(2, cpus, |config| {
        config.ifs.extend(ALL.map(tunnel));
        change(config);
    })
}

fn pairs() -> impl Iterator<Item = (Outer, Family)> {
    ALL.into_iter().flat_map(|outer| FAMILIES.map(|inner| (outer, inner)))
}

/// An outer packet, byte by byte.
fn outer(over_: Outer, (src, dst): (u8, u8), tos: u8, df: bool, inner: &[u8]) -> Vec<u8> {
    let protocol = match over_.1 {
        Encap::Gre { .. } => 47,
        Encap::Ip if inner[0] >> 4 == 4 => 4,
        Encap::Ip => 41,
    };
    let inner = &[&behind(over_, inner[0] >> 4), inner].concat();
    match *over_ {
        Family::V4 => {
            let [len_hi, len_lo] = u16::try_from(20 + inner.len()).unwrap().to_be_bytes();
            let flags = if df { 0x40 } else { 0 };
            let mut packet = vec![0x45, tos, len_hi, len_lo, 0, 0, flags, 0, 64, protocol, 0, 0];
            packet.extend([10, 0, 2, src, 10, 0, 2, dst]);
            build::fix_ip4_checksum(&mut packet);
            [packet, inner.to_vec()].concat()
        }
        Family::V6 => {
            let [len_hi, len_lo] = u16::try_from(inner.len()).unwrap().to_be_bytes();
            let mut packet = vec![0x60 | tos >> 4, tos << 4, 0, 0, len_hi, len_lo, protocol, 64];
            for host in [src, dst] {
                packet.extend([0x20, 0x01, 0x0d, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
            }
            [packet, inner.to_vec()].concat()
        }
    }
}

/// A packet from the link of interface 1 to a host behind the tunnel over `over`.
fn inward(inner: Family, over_: Outer, len: usize) -> Vec<u8> {
    build::udp(inner.addr(1, 9), inner.addr(over(over_), 7), (5, 7), &vec![0x5a; len])
}

fn packets(bench: &mut Bench, ifindex: IfIndex) -> Vec<Vec<u8>> {
    let is_ip = |frame: &Vec<u8>| frame[12..14] == [8, 0] || frame[12..14] == [0x86, 0xdd];
    bench.sent(ifindex).into_iter().filter(is_ip).map(|frame| frame[14..].to_vec()).collect()
}

fn from_outside(outer: Outer, packet: &[u8]) -> Vec<u8> {
    build::ether(mac(OUTSIDE), peer_mac(outer.addr(OUTSIDE, FAR)), ethertype(*outer), packet)
}

fn counted(bench: &Bench, ifindex: IfIndex, what: IfCount) -> u64 {
    bench.netisrs.iter().map(|one| one.cpu.counters.reader().ifs.get(usize::from(ifindex), what)).sum()
}

#[test]
fn packets_get_their_outer_header_and_lose_it_byte_by_byte() {
    for (over_, family) in pairs() {
        let mut bench = bench(1, |_| ());
        let packet = inward(family, over_, 30);
        // The first goes step by step, the second by what that has found out, and 40 together in a chunk.
        for count in [1, 1, 40] {
            (0..count).for_each(|_| bench.inject(1, build::frame_from(1, family.addr(1, 9), &packet)));
            bench.run();
            let df = family == Family::V4 || *over_ == Family::V4;
            let expected = outer(over_, (1, FAR), 0, df, &build::forwarded(packet.clone()));
            assert_eq!(packets(&mut bench, OUTSIDE), vec![expected; count], "{over_:?}, {family:?}");
        }
        let back = build::udp(family.addr(over(over_), 7), family.addr(1, 9), (7, 5), &[0x33; 20]);
        for count in [1, 1, 40] {
            for _ in 0..count {
                bench.inject(OUTSIDE, from_outside(over_, &outer(over_, (FAR, 1), 0, true, &back.clone())));
            }
            bench.run();
            assert_eq!(
                packets(&mut bench, 1),
                vec![build::forwarded(back.clone()); count],
                "{over_:?}, {family:?}"
            );
        }
        assert_eq!(bench.drops(), []);
        let [rx, tx] =
            [IfCount::RxPackets, IfCount::TxPackets].map(|what| counted(&bench, over(over_), what));
        assert_eq!((rx, tx), (42, 42));
        assert_eq!([Count::TunnelIn, Count::TunnelOut].map(|what| bench.counted(what)), [42, 42]);
        assert_eq!(counted(&bench, over(over_), IfCount::RxBytes), 42 * back.len() as u64);
    }
}

#[test]
fn inner_packets_go_to_the_cpu_that_owns_their_flow() {
    for (over_, family) in pairs() {
        let mut bench = bench(4, |_| ());
        for port in 0..64 {
            let inner = build::udp(family.addr(over(over_), 7), family.addr(1, 9), (port, 5), &[0x33; 20]);
            bench.inject(OUTSIDE, from_outside(over_, &outer(over_, (FAR, 1), 0, true, &inner)));
        }
        bench.run();
        assert_eq!(packets(&mut bench, 1).len(), 64, "{:?}", bench.drops());
        assert_eq!(bench.counted(Count::Strays), 0);
        let forwarded = if family == Family::V4 { Count::Ip4Forwarded } else { Count::Ip6Forwarded };
        let each = bench.netisrs.iter().map(|one| one.cpu.counters.get(forwarded));
        assert!(each.clone().all(|one| one > 4), "{:?}", each.collect::<Vec<_>>());
    }
}

#[test]
fn only_the_other_end_of_the_tunnel_gets_packets_in() {
    for (over_, family) in pairs() {
        let mut bench = bench(1, |_| ());
        let inner = build::udp(family.addr(over(over_), 7), family.addr(1, 9), (7, 5), &[0x33; 20]);
        let packet = outer(over_, (8, 1), 0, true, &inner);
        bench.inject(OUTSIDE, build::ether(mac(2), peer_mac(over_.addr(2, 8)), ethertype(*over_), &packet));
        bench.run();
        assert_eq!(bench.drops(), [(DropReason::TunnelUnknown, 1)], "{over_:?}, {family:?}");
    }
}

#[test]
fn a_packet_is_of_the_tunnel_whose_other_end_matches_most_of_its_source() {
    /// Interfaces whose other ends are any, a network, half of it, and one host; made in another order.
    const WIDE: [(IfIndex, u8); 3] = [(20, 0), (21, 25), (22, 24)];
    for (over_, family) in pairs() {
        let bits = |len: u8| if *over_ == Family::V4 || len == 0 { len } else { 96 + len };
        let mut bench = bench(1, |config| {
            for (index, len) in WIDE {
                let kind = Kind::Tunnel(Tunnel { remote_len: bits(len), ..ends(over_) });
                config.ifs.push(Ifnet { kind, addrs: Vec::new(), ..ifnet(index) });
            }
        });
        let inner = build::udp(family.addr(over(over_), 7), family.addr(1, 9), (7, 5), &[0x33; 20]);
        // Host 9 is the other end of the tunnel of one end; of IPv6 the last 32 bits are as of IPv4.
        for (host, wins) in [(FAR, over(over_)), (8, 21), (200, 22)] {
            let before = counted(&bench, wins, IfCount::RxPackets);
            let packet = outer(over_, (host, 1), 0, true, &inner);
            let from = peer_mac(over_.addr(2, host));
            bench.inject(OUTSIDE, build::ether(mac(2), from, ethertype(*over_), &packet));
            bench.run();
            assert_eq!(
                counted(&bench, wins, IfCount::RxPackets),
                before + 1,
                "{over_:?}, {family:?}, {host}: {:?}",
                bench.drops()
            );
        }
        // Into one with several other ends nothing is sent: the sender is told.
        let wide = Tunnel { remote_len: 0, ..ends(over_) };
        assert!(!wide.has_one_end() && ends(over_).has_one_end());
    }
}

fn ethertype(family: Family) -> u16 {
    if family == Family::V4 { 0x0800 } else { 0x86dd }
}

#[test]
fn without_a_tunnel_its_protocols_are_unreachable() {
    for (over_, family) in pairs() {
        let mut bench = Bench::with(2, 1, |_| ());
        let inner = build::udp(family.addr(1, 7), family.addr(1, 9), (7, 5), &[0x33; 20]);
        bench.inject(OUTSIDE, from_outside(over_, &outer(over_, (FAR, 1), 0, true, &inner)));
        bench.run();
        assert_eq!(bench.drops(), [(DropReason::NoProtocol, 1)]);
    }
}

#[test]
fn what_is_inside_is_looked_at_again() {
    for (over_, family) in pairs() {
        let good = build::udp(family.addr(over(over_), 7), family.addr(1, 9), (7, 5), &[0x33; 20]);
        let change = |at: usize, byte: u8| {
            let mut packet = good.clone();
            packet[at] = byte;
            if family == Family::V4 {
                build::fix_ip4_checksum(&mut packet[..20]);
            }
            packet
        };
        let [own_source, long, short] = match family {
            Family::V4 => [
                (build::udp(family.addr(1, 1), family.addr(1, 9), (7, 5), &[1]), DropReason::Ip4OwnSource),
                (change(3, 200), DropReason::Ip4BadTotalLen),
                (good[..19].to_vec(), DropReason::TunnelMalformed),
            ],
            Family::V6 => [
                (build::udp(family.addr(1, 1), family.addr(1, 9), (7, 5), &[1]), DropReason::Ip6OwnSource),
                (change(5, 200), DropReason::Ip6BadPayloadLen),
                (good[..39].to_vec(), DropReason::TunnelMalformed),
            ],
        };
        let version = (change(0, 0x55), DropReason::TunnelMalformed);
        for (inner, reason) in [own_source, long, short, version] {
            let mut bench = bench(1, |_| ());
            let mut packet = outer(over_, (FAR, 1), 0, true, &inner);
            if inner[0] == 0x55 {
                let (at, protocol) =
                    (if *over_ == Family::V4 { 9 } else { 6 }, if family == Family::V4 { 4 } else { 41 });
                match over_.1 {
                    Encap::Ip => packet[at] = protocol,
                    Encap::Gre { .. } => {
                        let header = behind(over_, if family == Family::V4 { 4 } else { 6 });
                        let at = ends(over_).network_len();
                        packet[at..at + header.len()].copy_from_slice(&header);
                    }
                }
                if *over_ == Family::V4 {
                    build::fix_ip4_checksum(&mut packet[..20]);
                }
            }
            bench.inject(OUTSIDE, from_outside(over_, &packet));
            bench.run();
            assert_eq!(bench.drops(), [(reason, 1)], "{over_:?}, {family:?}");
        }
    }
}

#[test]
fn padding_of_the_outer_packet_is_cut_off_the_inner_one() {
    for (over_, family) in pairs() {
        let mut bench = bench(1, |_| ());
        let inner = build::udp(family.addr(over(over_), 7), family.addr(1, 9), (7, 5), &[0x33; 20]);
        let padded = [&inner[..], &[0xee; 9]].concat();
        bench.inject(OUTSIDE, from_outside(over_, &outer(over_, (FAR, 1), 0, true, &padded)));
        bench.run();
        assert_eq!(packets(&mut bench, 1), [build::forwarded(inner)]);
    }
}

/// RFC 6040, figure 4: by inner and outer bits, in the order not-ECT, ECT(1), ECT(0), CE.
const DECAPSULATED: [[Option<u8>; 4]; 4] = [
    [Some(0), Some(0), Some(0), None],
    [Some(1), Some(1), Some(1), Some(3)],
    [Some(2), Some(1), Some(2), Some(3)],
    [Some(3), Some(3), Some(3), Some(3)],
];

#[test]
fn congestion_marks_pass_through_both_ends_as_rfc_6040_says() {
    for (over_, family) in pairs() {
        for inner_ecn in 0..4_u8 {
            let mut bench = bench(1, |_| ());
            let marked = |mut packet: Vec<u8>, ecn: u8| {
                let mut window = [0; WINDOW];
                window[..40].copy_from_slice(&packet[..40]);
                ecn::set(&mut window, ecn);
                packet[..40].copy_from_slice(&window[..40]);
                packet
            };
            // In: the outer header has the bits of the inner one.
            let packet = marked(inward(family, over_, 30), inner_ecn);
            bench.inject(1, build::frame_from(1, family.addr(1, 9), &packet));
            bench.run();
            let df = family == Family::V4 || *over_ == Family::V4;
            let expected = outer(over_, (1, FAR), inner_ecn, df, &build::forwarded(packet));
            assert_eq!(packets(&mut bench, OUTSIDE), [expected]);
            // Out: the table.
            for outer_ecn in 0..4_u8 {
                let back = build::udp(family.addr(over(over_), 7), family.addr(1, 9), (7, 5), &[0x33; 20]);
                let packet = outer(over_, (FAR, 1), outer_ecn, true, &marked(back.clone(), inner_ecn));
                bench.inject(OUTSIDE, from_outside(over_, &packet));
                bench.run();
                let ecn = DECAPSULATED[usize::from(inner_ecn)][usize::from(outer_ecn)];
                let expected: Vec<_> =
                    ecn.map(|ecn| build::forwarded(marked(back, ecn))).into_iter().collect();
                assert_eq!(
                    packets(&mut bench, 1),
                    expected,
                    "{over_:?}, {family:?}: {inner_ecn}, {outer_ecn}"
                );
            }
            let dropped = u64::from(inner_ecn == 0);
            assert_eq!(bench.dropped(DropReason::TunnelCongested), dropped);
        }
    }
}

/// The MTU that an error to host 9 of interface 1 reports.
fn told(packet: &[u8]) -> Option<u32> {
    match packet[0] >> 4 {
        4 => match icmp4::Message::parse(&packet[20..]).ok()?.0 {
            icmp4::Message::Unreachable { code: 4, mtu } => Some(mtu.into()),
            _ => None,
        },
        _ => match icmp6::Message::parse_quoted(&packet[40..]).ok()?.0 {
            icmp6::Message::PacketTooBig { mtu } => Some(mtu),
            _ => None,
        },
    }
}

#[test]
fn the_mtu_of_the_outer_path_less_the_header_is_told_to_the_sender() {
    for (over_, family) in pairs() {
        let header = u32::try_from(ends(over_).header_len()).unwrap();
        // The link of the outer packets, and what fits into the tunnel.
        for (mtu, fits) in [(1500, 1500 - header), (1400, 1400 - header)] {
            let mut bench = bench(1, |config| {
                config.ifs[usize::from(OUTSIDE) - 1].mtu = mtu;
                config.ifs.iter_mut().skip(2).for_each(|tunnel| tunnel.mtu = 9000);
            });
            let ip = if family == Family::V4 { 28 } else { 48 };
            for (len, is_told) in [(fits, false), (fits + 1, true)] {
                let packet = inward(family, over_, len as usize - ip);
                bench.inject(1, build::frame_from(1, family.addr(1, 9), &packet));
                bench.run();
                let errors: Vec<_> =
                    packets(&mut bench, 1).iter().filter_map(|packet| told(packet)).collect();
                assert_eq!(errors, if is_told { vec![fits] } else { vec![] }, "{over_:?}, {family:?}, {len}");
                assert_eq!(packets(&mut bench, OUTSIDE).len(), usize::from(!is_told));
            }
        }
    }
}

#[test]
fn a_packet_that_may_be_cut_travels_in_pieces_of_the_outer_packet() {
    for over_ in ALL {
        // IPv4 may be cut if its sender allows it; IPv6 of 1280 bytes has to arrive whatever the path carries.
        for family in FAMILIES {
            let mut bench = bench(1, |config| {
                config.ifs[usize::from(OUTSIDE) - 1].mtu = 1290;
                config.ifs.iter_mut().skip(2).for_each(|tunnel| tunnel.mtu = 1500);
            });
            let mut packet = inward(family, over_, if family == Family::V4 { 1372 } else { 1232 });
            if family == Family::V4 {
                packet[6] &= !0x40;
                build::fix_ip4_checksum(&mut packet);
            }
            bench.inject(1, build::frame_from(1, family.addr(1, 9), &packet));
            bench.run();
            let pieces = packets(&mut bench, OUTSIDE);
            assert_eq!(pieces.len(), 2, "{over_:?}, {family:?}: {:?}", bench.drops());
            assert!(pieces.iter().all(|piece| piece.len() <= 1290));
            // The other end puts them together again: so do we, if they come from there.
            let header = if *over_ == Family::V4 { 12..20 } else { 8..40 };
            for piece in pieces {
                let mut piece = piece;
                let half = header.len() / 2;
                piece[header.clone()].rotate_left(half);
                bench.inject(OUTSIDE, from_outside(over_, &piece));
            }
            bench.run();
            assert_eq!(bench.counted(Count::TunnelIn), 1, "{over_:?}, {family:?}: {:?}", bench.drops());
        }
    }
}

/// An error of the router 8 outside about an outer packet.
fn error(over_: Outer, about: &[u8], v4: icmp4::Message, v6: icmp6::Message) -> Vec<u8> {
    let (from, to) = (over_.addr(OUTSIDE, 8), over_.addr(OUTSIDE, 1));
    let quote = &about[..about.len().min(500)];
    let (protocol, header) = match (from, to) {
        (IpAddr::V4(_), _) => (Protocol::ICMP, v4.to_bytes(quote)),
        (IpAddr::V6(from), IpAddr::V6(to)) => (Protocol::ICMP6, v6.to_bytes(from, to, quote)),
        _ => unreachable!(),
    };
    build::ip(from, to, protocol, 64, &[&header[..], quote].concat())
}

#[test]
fn an_error_about_a_long_outer_packet_limits_the_tunnel_once_one_was_sent() {
    for cpus in [1, 4] {
        for (over_, family) in pairs() {
            let mut bench = bench(cpus, |_| ());
            let header = u32::try_from(ends(over_).header_len()).unwrap();
            let packet = inward(family, over_, 1380);
            let sent = outer(over_, (1, FAR), 0, true, &build::forwarded(packet.clone()));
            let too_big = error(
                over_,
                &sent,
                icmp4::Message::Unreachable { code: 4, mtu: 1400 },
                icmp6::Message::PacketTooBig { mtu: 1400 },
            );
            // Not before it was sent, but then.
            for (round, expected) in [vec![], vec![], vec![1400 - header]].into_iter().enumerate() {
                if round != 1 {
                    bench.inject(OUTSIDE, from_outside(over_, &too_big));
                    bench.run();
                }
                let before = packets(&mut bench, 1).len();
                assert_eq!(before, 0);
                bench.inject(1, build::frame_from(1, family.addr(1, 9), &packet));
                bench.run();
                let errors: Vec<_> =
                    packets(&mut bench, 1).iter().filter_map(|packet| told(packet)).collect();
                assert_eq!(
                    errors,
                    expected,
                    "{cpus} CPUs, {over_:?}, {family:?}, {round}: {:?}",
                    bench.drops()
                );
            }
        }
    }
}

#[test]
fn the_sender_is_told_that_the_other_end_cannot_be_reached() {
    for (over_, family) in pairs() {
        let mut bench = bench(1, |_| ());
        let packet = inward(family, over_, 30);
        let sent = outer(over_, (1, FAR), 0, true, &build::forwarded(packet.clone()));
        let unreachable = error(
            over_,
            &sent,
            icmp4::Message::Unreachable { code: 1, mtu: 0 },
            icmp6::Message::Unreachable { code: 0 },
        );
        bench.inject(OUTSIDE, from_outside(over_, &unreachable));
        bench.run();
        let [told] = <[Vec<u8>; 1]>::try_from(packets(&mut bench, 1)).unwrap();
        let (at, kind) = if family == Family::V4 { (20, [3, 1]) } else { (40, [1, 3]) };
        assert_eq!(told[at..at + 2], kind, "{over_:?}, {family:?}");
        assert_eq!(told[at + 8..], build::forwarded(packet), "quotes the inner packet");
        assert_eq!(bench.counted(Count::TunnelErrorsRelayed), 1);
    }
}

#[test]
fn a_tunnel_that_leads_through_itself_or_home_is_a_loop() {
    for (over_, family) in pairs() {
        for (to, reason) in [(Some(over(over_)), DropReason::TunnelLoop), (None, DropReason::TunnelLoop)] {
            let mut bench = bench(1, |config| {
                let remote = if to.is_some() { over_.addr(99, 9) } else { over_.addr(1, 1) };
                let at = usize::from(over(over_)) - 1;
                config.ifs[at].kind = Kind::Tunnel(Tunnel { remote, ..ends(over_) });
                if let Some(ifindex) = to {
                    config.routes.push(FibRoute::new(Prefix::host(remote), To::OnLink { ifindex }));
                }
            });
            bench.inject(1, build::frame_from(1, family.addr(1, 9), &inward(family, over_, 30)));
            bench.run();
            assert_eq!(bench.drops(), [(reason, 1)], "{over_:?}, {family:?}");
        }
    }
}

#[test]
fn two_tunnels_through_each_other_end_at_the_bound() {
    let both = |encap| [Outer(Family::V4, encap), Outer(Family::V6, encap)];
    for (family, [v4, v6]) in
        FAMILIES.into_iter().flat_map(|family| ENCAPS.map(|encap| (family, both(encap))))
    {
        let mut bench = bench(1, |config| {
            for (over_, other) in [(v4, v6), (v6, v4)] {
                let remote = over_.addr(99, 9);
                config.ifs[usize::from(over(over_)) - 1].kind =
                    Kind::Tunnel(Tunnel { remote, ..ends(over_) });
                let to = To::OnLink { ifindex: over(other) };
                config.routes.push(FibRoute::new(Prefix::host(remote), to));
            }
        });
        bench.inject(1, build::frame_from(1, family.addr(1, 9), &inward(family, v4, 30)));
        bench.run();
        assert_eq!(bench.drops(), [(DropReason::TunnelNested, 1)], "{family:?}");
        assert_eq!(bench.counted(Count::TunnelOut), u64::from(NESTING_MAX));
    }
}

#[test]
fn a_packet_in_too_many_tunnels_comes_out_of_as_many_as_are_allowed() {
    for over_ in ALL {
        let mut bench = bench(1, |_| ());
        let mut packet = build::udp(over_.addr(over(over_), 7), over_.addr(1, 9), (7, 5), &[0x33; 20]);
        for _ in 0..=NESTING_MAX {
            packet = outer(over_, (FAR, 1), 0, true, &packet);
        }
        bench.inject(OUTSIDE, from_outside(over_, &packet));
        bench.run();
        assert_eq!(bench.drops(), [(DropReason::TunnelNested, 1)]);
        assert_eq!(bench.counted(Count::TunnelIn), u64::from(NESTING_MAX));
    }
}

#[test]
fn a_tunnel_from_an_address_that_is_not_ours_sends_nothing() {
    for (over_, family) in pairs() {
        let mut bench = bench(1, |config| {
            let at = usize::from(over(over_)) - 1;
            config.ifs[at].kind = Kind::Tunnel(Tunnel { local: over_.addr(OUTSIDE, 77), ..ends(over_) });
        });
        bench.inject(1, build::frame_from(1, family.addr(1, 9), &inward(family, over_, 30)));
        bench.run();
        assert_eq!(bench.drops(), [(DropReason::TunnelNoSource, 1)]);
        assert!(packets(&mut bench, OUTSIDE).is_empty());
    }
}

#[test]
fn a_tunnel_that_is_down_takes_nothing_in_either_direction() {
    for (over_, family) in pairs() {
        let mut bench = bench(1, |config| config.ifs[usize::from(over(over_)) - 1].up = false);
        let inner = build::udp(family.addr(over(over_), 7), family.addr(1, 9), (7, 5), &[0x33; 20]);
        bench.inject(OUTSIDE, from_outside(over_, &outer(over_, (FAR, 1), 0, true, &inner)));
        bench.run();
        assert_eq!(bench.drops(), [(DropReason::InterfaceDown, 1)]);
    }
}
