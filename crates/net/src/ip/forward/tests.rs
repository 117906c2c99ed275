use core::net::IpAddr;

use pkt::Gso;
use proptest::prelude::*;
use wire::{Protocol, tcp};

use crate::base::drop::DropReason;
use crate::fib::{Hop, Metrics, Prefix, Route, To};
use crate::link::tables::Rxcsum;
use crate::testkit::{Bench, Frame, addr4, addr6, build, peer_mac};
use base::count::Count;

/// Both families' hosts on the links of interfaces 1 and 2.
fn families() -> [(IpAddr, IpAddr); 2] {
    [(addr4(1, 9).into(), addr4(2, 9).into()), (addr6(1, 9).into(), addr6(2, 9).into())]
}

fn udp(family: (IpAddr, IpAddr), payload: &[u8]) -> Vec<u8> {
    build::udp(family.0, family.1, (1000, 2000), payload)
}

fn inject(bench: &mut Bench, packet: &[u8]) {
    bench.inject(1, build::frame(1, packet));
    bench.run();
}

fn set_ttl(packet: &mut [u8], ttl: u8) {
    if packet[0] >> 4 == 6 {
        packet[7] = ttl;
    } else {
        packet[8] = ttl;
        build::fix_ip4_checksum(packet);
    }
}

#[test]
fn a_forwarded_packet_has_one_hop_less_and_is_otherwise_the_same() {
    for family in families() {
        let mut bench = Bench::new(2);
        for ttl in [2, 64, 255] {
            let mut packet = udp(family, b"across");
            set_ttl(&mut packet, ttl);
            inject(&mut bench, &packet);
            set_ttl(&mut packet, ttl - 1);
            let expected =
                build::ether(peer_mac(family.1), crate::testkit::mac(2), ethertype(&packet), &packet);
            assert_eq!(bench.sent(2), [expected]);
        }
        assert!(bench.sent(1).is_empty());
    }
}

fn ethertype(packet: &[u8]) -> u16 {
    if packet[0] >> 4 == 6 { 0x86dd } else { 0x0800 }
}

#[test]
fn a_packet_whose_time_is_over_goes_no_further() {
    for family in families() {
        for ttl in [0, 1] {
            let mut bench = Bench::new(2);
            let mut packet = udp(family, b"late");
            set_ttl(&mut packet, ttl);
            inject(&mut bench, &packet);
            assert_eq!(bench.dropped(DropReason::TtlExceeded), 1);
            assert!(bench.sent(2).is_empty());
        }
    }
}

#[test]
fn a_packet_that_is_too_big_and_not_to_be_cut_goes_no_further() {
    for family in families() {
        for (mtu, is_sent) in [(1400, true), (1399, false)] {
            let mut bench = Bench::with(2, 1, |config| config.ifs[1].mtu = mtu);
            let packet = udp(family, &vec![7; 1400 - udp(family, b"").len()]);
            inject(&mut bench, &packet);
            assert_eq!(bench.sent(2).len(), usize::from(is_sent));
            assert_eq!(bench.dropped(DropReason::TooBig), u64::from(!is_sent));
        }
    }
}

#[test]
fn without_forwarding_nothing_passes() {
    for family in families() {
        let mut bench = Bench::with(2, 1, |config| config.forwarding = false);
        inject(&mut bench, &udp(family, b"across"));
        assert_eq!(bench.drops(), [(DropReason::ForwardingOff, 1)]);
        assert!(bench.sent(2).is_empty());
    }
}

#[test]
fn a_route_says_by_which_neighbour_or_that_there_is_none() {
    let far: [(IpAddr, IpAddr, IpAddr); 2] = [
        ("198.51.100.1".parse().unwrap(), addr4(1, 9).into(), addr4(2, 254).into()),
        ("2001:db8:ffff::1".parse().unwrap(), addr6(1, 9).into(), addr6(2, 254).into()),
    ];
    for (dst, src, via) in far {
        let hops = [
            (To::Gateway { ifindex: 2, via }, None),
            (To::Reject, Some(DropReason::RejectRoute)),
            (To::Blackhole, Some(DropReason::BlackholeRoute)),
            (To::NoRoute, Some(DropReason::NoRoute)),
            (To::OnLink { ifindex: 77 }, Some(DropReason::InterfaceGone)),
        ];
        for (hop, reason) in hops {
            let to = Prefix::host(dst);
            let mut bench = Bench::with(2, 1, |config| config.routes.push(Route::new(to, hop)));
            inject(&mut bench, &udp((src, dst), b"far"));
            match reason {
                Some(reason) => assert_eq!(bench.dropped(reason), 1),
                None => assert_eq!(bench.sent(2)[0][..6], peer_mac(via).0),
            }
        }
    }
}

/// Far destinations, clients, and gateways to them.
fn far() -> [(IpAddr, IpAddr, [IpAddr; 2]); 2] {
    [
        ("198.51.100.1".parse().unwrap(), addr4(1, 9).into(), [253, 254].map(|host| addr4(2, host).into())),
        (
            "2001:db8:ffff::1".parse().unwrap(),
            addr6(1, 9).into(),
            [253, 254].map(|host| addr6(2, host).into()),
        ),
    ]
}

#[test]
fn the_mtu_of_a_route_counts_where_it_is_below_that_of_the_link() {
    for (dst, src, [via, _]) in far() {
        for (mtu, is_sent) in [(0, true), (1400, true), (9000, true), (1399, false)] {
            let hop =
                Hop { to: To::Gateway { ifindex: 2, via }, metrics: Metrics { mtu, ..Metrics::default() } };
            let mut bench =
                Bench::with(2, 1, |config| config.routes.push(Route::new(Prefix::host(dst), hop)));
            let packet = udp((src, dst), &vec![7; 1400 - udp((src, dst), b"").len()]);
            // The first packet asks for the neighbour; later ones take the short way.
            for round in 1..=3 {
                inject(&mut bench, &packet);
                assert_eq!(bench.sent(2).len(), usize::from(is_sent), "round {round} with {mtu}");
                assert_eq!(bench.dropped(DropReason::TooBig), if is_sent { 0 } else { round });
            }
        }
    }
}

#[test]
fn the_flows_of_a_group_spread_over_its_members_and_each_stays_with_one() {
    for (dst, src, vias) in far() {
        let hops = vias.map(|via| To::Gateway { ifindex: 2, via }.into()).to_vec();
        let to = Prefix::host(dst);
        let mut bench = Bench::with(2, 1, |config| config.routes.push(Route { fib: 0, to, hops }));
        let mut took = [0; 2];
        for port in 0..32 {
            for _ in 0..3 {
                inject(&mut bench, &build::udp(src, dst, (port, 53), b"flow"));
            }
            let sent = bench.sent(2);
            bench.forget_sent();
            let macs: Vec<_> = sent.iter().map(|frame| frame[..6].to_vec()).collect();
            let member = vias.iter().position(|via| macs[0] == peer_mac(*via).0);
            assert!(macs.len() == 3 && macs.iter().all(|mac| *mac == macs[0]), "{macs:?}");
            took[member.unwrap()] += 1;
        }
        assert!(took.iter().all(|flows| *flows > 6), "{took:?}");
    }
}

#[test]
fn link_local_packets_do_not_leave_their_link() {
    let local4: IpAddr = "169.254.1.9".parse().unwrap();
    let local6: IpAddr = "fe80::9".parse().unwrap();
    for (src, dst) in [(local4, families()[0].1), (local6, families()[1].1), (families()[1].0, local6)] {
        let mut bench = Bench::new(2);
        inject(&mut bench, &udp((src, dst), b"stays"));
        assert!(bench.sent(2).is_empty());
        assert_eq!(bench.drops().iter().map(|(_, count)| count).sum::<u64>(), 1);
    }
}

#[test]
fn a_directed_broadcast_is_not_forwarded_and_one_of_the_own_link_is_taken_in() {
    let mut bench = Bench::new(2);
    inject(&mut bench, &udp((addr4(1, 9).into(), addr4(2, 255).into()), b"smurf"));
    assert_eq!(bench.drops(), [(DropReason::ForwardBroadcast, 1)]);
    inject(&mut bench, &udp((addr4(1, 9).into(), addr4(1, 255).into()), b"here"));
    assert_eq!(bench.counted(Count::Ip4Local), 1);
    assert!(bench.sent(2).is_empty());
}

#[test]
fn a_directed_broadcast_goes_to_all_of_its_link_where_that_is_switched_on() {
    let mut bench = Bench::new(2);
    let packet = udp((addr4(1, 9).into(), addr4(2, 255).into()), b"wake up");
    for (is_on, left) in [(false, 0), (true, 1), (false, 0)] {
        bench.cpu().sysctls.directed_broadcast = is_on;
        inject(&mut bench, &packet);
        let sent = bench.sent(2);
        assert_eq!(sent.len(), left, "{is_on}");
        assert!(sent.iter().all(|frame| frame[..6] == [0xff; 6]), "a broadcast frame");
    }
    assert_eq!(bench.drops(), [(DropReason::ForwardBroadcast, 2)]);
    // What came as a broadcast of the link stays on it.
    bench.cpu().sysctls.directed_broadcast = true;
    let mut frame = build::frame(1, &packet);
    frame[..6].fill(0xff);
    bench.inject(1, frame);
    bench.run();
    assert!(bench.sent(2).is_empty());
}

#[test]
fn a_partial_checksum_is_recognised_and_leaves_complete() {
    for family in families() {
        let whole = udp(family, b"from a host that left it to its card");
        let l4 = whole.len() - 8 - 36;
        let mut partial = whole.clone();
        let sum = !wire::checksum::Sum::new().bytes(&without_checksum(&whole)[l4..]).folded();
        let full = u16::from_be_bytes([whole[l4 + 6], whole[l4 + 7]]);
        // What the sum of the segment does not account for is that of the pseudo-header.
        let pseudo = wire::checksum::Sum::new().u16(!full).u16(sum).folded();
        partial[l4 + 6..l4 + 8].copy_from_slice(&pseudo.to_be_bytes());
        let complete = |rxcsum| {
            let mut bench = Bench::with(2, 1, |config| config.ifs[0].rxcsum = rxcsum);
            inject(&mut bench, &partial);
            inject(&mut bench, &whole);
            let sent = bench.sent(2);
            (sent[0].clone(), sent[1].clone(), bench.counted(Count::CsumCompleted))
        };
        let (first, second, completed) = complete(Rxcsum::Complete);
        assert!(first == second, "both leave with the checksum that the second came with");
        assert_eq!((second[14 + l4 + 6..][..2].to_vec(), completed), (full.to_be_bytes().to_vec(), 1));
        let (first, _, completed) = complete(Rxcsum::Verify);
        assert_eq!((&first[14 + l4..], completed), (&partial[l4..], 0));
    }
}

fn without_checksum(packet: &[u8]) -> Vec<u8> {
    let l4 = packet.len() - 8 - 36;
    let mut packet = packet.to_vec();
    packet[l4 + 6..l4 + 8].fill(0);
    packet
}

#[test]
fn a_super_packet_passes_if_its_segments_do() {
    let options = tcp::Options::parse(&[]).unwrap();
    let flags = tcp::Flags::ACK;
    let header =
        tcp::Header { src_port: 1, dst_port: 2, seq: 1, ack: 1, flags, window: 1, urgent: 0, options };
    for family in families() {
        let packet = build::tcp(family.0, family.1, &header, &[7; 10_000]);
        let headers = u32::try_from(packet.len() - 10_000).unwrap();
        for (mtu, segments) in [(headers + 1000, 10), (headers + 999, 0)] {
            let mut bench = Bench::with(2, 1, |config| config.ifs[1].mtu = mtu.max(68));
            let gso = if family.0.is_ipv4() { Gso::Tcp4 } else { Gso::Tcp6 };
            let frame = Frame { bytes: build::frame(1, &packet), gso, gso_size: 1000, ..Frame::default() };
            bench.inject(1, frame);
            bench.run();
            assert_eq!(bench.sent(2).len(), segments);
            assert_eq!(bench.dropped(DropReason::TooBig), u64::from(segments == 0));
            assert_eq!(bench.counted(Count::GsoIn), 1);
        }
    }
}

#[test]
fn padding_is_not_forwarded() {
    for family in families() {
        let packet = udp(family, b"x");
        let mut bench = Bench::new(2);
        inject(&mut bench, &[&packet[..], &[0xee; 30]].concat());
        assert_eq!(bench.sent(2)[0].len(), 14 + packet.len());
    }
}

#[test]
fn a_frame_for_many_with_a_packet_for_one_goes_nowhere() {
    for family in families() {
        for mac in [[0xff; 6], [0x01, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]] {
            let mut bench = Bench::new(2);
            let mut frame = build::frame(1, &udp(family, b"tricky"));
            frame[..6].copy_from_slice(&mac);
            bench.inject(1, frame);
            bench.run();
            assert_eq!(bench.drops(), [(DropReason::UnicastInBroadcast, 1)]);
            assert!(bench.sent(2).is_empty());
        }
    }
}

#[test]
fn a_packet_that_comes_from_where_it_goes_is_refused() {
    let land: [(IpAddr, DropReason); 2] =
        [(addr4(1, 1).into(), DropReason::Ip4OwnSource), (addr6(1, 1).into(), DropReason::Ip6OwnSource)];
    for (own, reason) in land {
        let mut bench = Bench::new(2);
        inject(&mut bench, &udp((own, own), b"land"));
        assert_eq!(bench.drops(), [(reason, 1)]);
        assert!(bench.sent(1).is_empty() && bench.sent(2).is_empty());
    }
}

/// A frame of some kind, to be spoiled.
fn seed(kind: usize) -> Vec<u8> {
    let (from, to) = families()[kind % 2];
    let ours: IpAddr = if from.is_ipv4() { addr4(1, 1).into() } else { addr6(1, 1).into() };
    let dst = if kind & 2 == 0 { to } else { ours };
    let hop_by_hop = [&[17, 0, 0x1e, 4, 0, 0, 0, 0][..], &[0, 1, 0, 2, 0, 8, 0, 0]].concat();
    let fragment = [&[17, 0, 0, 1, 0, 0, 0, 7][..], &[0, 1, 0, 2, 0, 24, 0, 0]].concat();
    let packet = match kind / 4 {
        0 => udp((from, dst), b"any"),
        1 => build::echo_request(from, dst, 1, 2, b"echo"),
        2 if from.is_ipv6() => build::ip(from, dst, Protocol::HOP_BY_HOP, 64, &hop_by_hop),
        3 if from.is_ipv6() => build::ip(from, dst, Protocol::FRAGMENT, 64, &fragment),
        _ => build::ip(from, dst, Protocol(99), 64, &[7; 100]),
    };
    build::frame(1, &packet)
}

fn spoil(frame: &mut Vec<u8>, draws: &mut impl FnMut(usize) -> usize) {
    for _ in 0..draws(4) {
        let at = 12 + draws(frame.len().min(90).saturating_sub(12).max(1));
        if let Some(byte) = frame.get_mut(at) {
            *byte = [0, 1, 0x45, 0x46, 0x60, 0x7f, 0xff, 0xe0, 44, 58][draws(10)];
        }
    }
    if draws(8) == 0 {
        frame.truncate(draws(frame.len() + 1));
    }
    if draws(2) == 0 && frame.len() >= 34 && frame[12..14] == [8, 0] {
        let len = usize::from(frame[14] & 0xf) * 4;
        if (20..=frame.len() - 14).contains(&len) {
            build::fix_ip4_checksum(&mut frame[14..]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes in is at the end in a queue, on a wire, or dropped: with time, no buffer is missing, and
    /// the numbers add up. 50 times 2000 frames.
    #[test]
    fn every_spoiled_packet_ends_somewhere(seeds in any::<u64>(), cpus in 1u16..3) {
        let mut bench = Bench::with(2, cpus, |config| config.ifs[0].rxcsum = Rxcsum::Complete);
        bench.neighbours_answer = true;
        let mut secret = base::secret::Secret::new(u128::from(seeds));
        let mut draws = |bound: usize| usize::try_from(secret.below(bound as u64)).unwrap();
        for _ in 0..100 {
            for _ in 0..20 {
                let mut frame = seed(draws(16));
                spoil(&mut frame, &mut draws);
                bench.inject(1, frame);
            }
            bench.run();
            bench.forget_sent();
        }
        bench.advance(core::time::Duration::from_secs(120));
        prop_assert_eq!(bench.buffers_out(), 0, "{:?}", bench.drops());
        prop_assert_eq!(bench.dropped(DropReason::NoBuffer), 0);
        let forwarded = bench.counted(Count::Ip4Forwarded) + bench.counted(Count::Ip6Forwarded);
        prop_assert!(bench.drops().len() > 15 && forwarded > 100, "too tame: {forwarded} {:?}", bench.drops());
    }
}
