use core::net::IpAddr;
use core::time::Duration;

use wire::{Protocol, tcp};

use super::*;
use crate::base::drop::DropReason;
use crate::fib::{Hop, Metrics, Prefix, Route, To};
use crate::ip::neigh::{self, Key as Neighbour};
use crate::link::tables::Config;
use crate::testkit::link::{FAMILIES, Family as Ip};
use crate::testkit::{Bench, addr4, build, ifnet};

/// A TCP header to begin with.
const SEGMENT: [u8; 20] = [0, 0, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0];

/// A host behind the gateway, in network `net`.
fn far(family: Ip, net: u8) -> IpAddr {
    match family {
        Ip::V4 => IpAddr::from([198, 51, net, 1]),
        Ip::V6 => IpAddr::from([0x2001, 0xdb8, 0xffff, net.into(), 0, 0, 0, 1]),
    }
}

/// Two interfaces, and routes of all kinds to the networks of [`far`]; `variant` is what changes in it.
fn config(family: Ip, variant: u8) -> Config {
    let via = |host| To::Gateway { ifindex: 2, via: family.addr(2, host) };
    let hops: [Vec<Hop>; 6] = [
        vec![via(100 + variant % 3).into()],
        vec![Hop { to: via(110), metrics: Metrics { mtu: 1300 + u32::from(variant), ..Metrics::default() } }],
        (120..122 + variant % 3).map(|host| via(host).into()).collect(),
        vec![To::Blackhole.into()],
        vec![To::Reject.into()],
        vec![To::OnLink { ifindex: 2 }.into()],
    ];
    let route = |(net, hops)| Route { fib: 0, to: Prefix::host(far(family, net)), hops };
    let mut ifs = vec![ifnet(1), ifnet(2)];
    ifs[1].up = variant != 7;
    ifs[1].mtu = if variant == 5 { 1400 } else { 1500 };
    Config {
        generation: 2 + u64::from(variant),
        ifs,
        routes: (0..).zip(hops).map(route).collect(),
        forwarding: variant != 6,
        ..Config::default()
    }
}

fn bench(family: Ip, flows: Option<usize>) -> Bench {
    let mut bench = Bench::with(2, 1, |config| *config = self::config(family, 0));
    bench.netisrs[0].set_flows(flows);
    bench
}

fn udp(family: Ip, dst: IpAddr, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    build::udp(family.addr(1, 9), dst, ports, payload)
}

/// Lets a packet be forwarded; answers whether by the flow cache.
fn hits(bench: &mut Bench, packet: &[u8]) -> bool {
    let before = bench.counted(Count::FlowHits);
    bench.inject(1, build::frame(1, packet));
    bench.run();
    bench.counted(Count::FlowHits) > before
}

#[test]
fn a_flow_is_forwarded_fast_from_its_third_packet_on_and_until_something_changes() {
    for family in FAMILIES {
        let mut bench = bench(family, Some(64));
        let packet = udp(family, far(family, 0), (1, 2), b"fast");
        // The first waits for the gateway's link address.
        hits(&mut bench, &packet);
        let hits_in_a_row = [(); 4].map(|()| hits(&mut bench, &packet));
        assert_eq!(hits_in_a_row, [false, false, true, true]);
        let neighbour = Neighbour { ifindex: 2, addr: family.addr(2, 100) };
        assert!(neigh::set_static(bench.cpu(), neighbour, wire::ether::Mac([6; 6])));
        let hits_in_a_row = [(); 3].map(|()| hits(&mut bench, &packet));
        assert_eq!(hits_in_a_row, [false, true, true], "known, and learnt anew");
        bench.set_tables(config(family, 1));
        hits(&mut bench, &packet);
        let hits_in_a_row = [(); 3].map(|()| hits(&mut bench, &packet));
        assert_eq!(hits_in_a_row, [false, true, true], "over another gateway");
    }
}

#[test]
fn what_is_not_a_datagram_or_segment_by_itself_is_looked_at_each_time() {
    for family in FAMILIES {
        let mut bench = bench(family, Some(64));
        let (src, dst) = (family.addr(1, 9), far(family, 0));
        let mut packets = vec![
            build::echo_request(src, dst, 1, 1, b"echo"),
            build::ip(src, dst, Protocol(99), 64, b"what"),
        ];
        if family == Ip::V4 {
            let mut fragment = udp(family, dst, (1, 2), b"fragment");
            fragment[6..8].copy_from_slice(&[0x20, 0]);
            build::fix_ip4_checksum(&mut fragment);
            packets.push(fragment);
        }
        for packet in &packets {
            assert_eq!([(); 5].map(|()| hits(&mut bench, packet)), [false; 5]);
        }
        assert_eq!(bench.sent(2).len(), packets.len() * 5, "and all were forwarded");
        assert_eq!(bench.counted(Count::FlowLearnt), 0);
    }
}

#[test]
fn each_miss_has_its_reason() {
    for family in FAMILIES {
        let mut bench = bench(family, Some(64));
        let packet = udp(family, far(family, 1), (1, 2), b"fast");
        let reasons = |bench: &mut Bench| {
            [Count::FlowMissUnknown, Count::FlowMissUnfit, Count::FlowMissLimits, Count::FlowMissEnded]
                .map(|reason| bench.counted(reason))
        };
        let known = [(); 4].map(|()| hits(&mut bench, &packet));
        // Others are made here: what resolves the gateway's address, and the error about what is too long.
        let [unknown, unfit, ..] = reasons(&mut bench);
        assert_eq!((known, unknown), ([false, false, false, true], 3));
        hits(&mut bench, &build::echo_request(family.addr(1, 9), far(family, 0), 1, 1, b"echo"));
        let [unknown, others, ..] = reasons(&mut bench);
        assert_eq!((unknown, others > unfit), (3, true));
        hits(&mut bench, &udp(family, far(family, 1), (1, 2), &[0; 1300]));
        let [unknown, _, limits, ended] = reasons(&mut bench);
        assert_eq!((unknown, limits, ended), (3, 1, 0), "longer than the route carries");
        let misses = bench.counted(Count::FlowMisses);
        assert_eq!(misses, reasons(&mut bench).iter().sum::<u64>());
    }
}

#[test]
fn the_traffic_class_tells_flows_apart_and_congestion_marks_do_not() {
    for family in FAMILIES {
        let mut bench = bench(family, Some(64));
        let packet = |class: u8| {
            let mut packet = udp(family, far(family, 0), (1, 2), b"class");
            match family {
                Ip::V4 => {
                    packet[1] = class;
                    build::fix_ip4_checksum(&mut packet);
                }
                Ip::V6 => (packet[0], packet[1]) = (0x60 | class >> 4, class << 4),
            }
            packet
        };
        for _ in 0..3 {
            hits(&mut bench, &packet(0));
        }
        assert!(hits(&mut bench, &packet(1)) && hits(&mut bench, &packet(3)));
        assert!(!hits(&mut bench, &packet(0xb8)));
    }
}

#[test]
fn a_scan_does_not_push_live_flows_out() {
    for family in FAMILIES {
        let mut bench = bench(family, Some(64));
        let live: Vec<_> = (0..20).map(|port| udp(family, far(family, 0), (port, 7), b"live")).collect();
        for _ in 0..3 {
            live.iter().for_each(|packet| _ = hits(&mut bench, packet));
        }
        let learnt = bench.counted(Count::FlowLearnt);
        for scan in 0..5000 {
            hits(&mut bench, &udp(family, far(family, 0), (scan, 9), b"scan"));
        }
        assert_eq!(bench.counted(Count::FlowLearnt), learnt, "single packets take no room");
        for scan in 0..2000 {
            let packet = udp(family, far(family, 0), (scan, 10), b"pairs");
            hits(&mut bench, &packet);
            hits(&mut bench, &packet);
        }
        assert!(bench.counted(Count::FlowFull) > 0, "pairs fill the table");
        assert!(live.iter().all(|packet| hits(&mut bench, packet)), "and the live flows are still there");
        let netisr = &bench.netisrs[0];
        let (used, room) = netisr.cpu.flows.as_ref().unwrap().usage(&netisr.cpu);
        assert!(used <= room, "{used} of {room}");
    }
}

/// One step of the two stacks that are compared.
fn step(bench: &mut Bench, family: Ip, random: u64) {
    let pick = |shift: u32, of: u64| (random >> shift) % of;
    let small = |shift: u32, of: u64| u8::try_from(pick(shift, of)).unwrap();
    match pick(0, 400) {
        0 => bench.set_tables(config(family, small(8, 8))),
        1 => {
            let key = Neighbour { ifindex: 2, addr: family.addr(2, 100 + small(8, 4)) };
            neigh::set_static(bench.cpu(), key, wire::ether::Mac([6, 7, 8, 9, 0, small(16, 250)]));
        }
        2 => bench.advance(Duration::from_millis(pick(8, 20_000))),
        3 => drop(neigh::delete(
            bench.cpu(),
            Neighbour { ifindex: 2, addr: family.addr(2, 100 + small(8, 4)) },
        )),
        _ => bench.inject(1, build::frame(1, &packet(family, random))),
    }
    bench.run();
}

/// Few addresses and ports, so that flows come again; sizes, lifetimes and kinds that end in different places.
fn packet(family: Ip, random: u64) -> Vec<u8> {
    let pick = |shift: u32, of: u64| (random >> shift) % of;
    let small = |shift: u32, of: u64| u8::try_from(pick(shift, of)).unwrap();
    let src = family.addr(1, 9 + small(8, 2));
    let dst = if pick(12, 4) == 0 { family.addr(2, 100 + small(16, 4)) } else { far(family, small(16, 7)) };
    let port = u16::from(small(24, 2));
    let payload = vec![7; [10, 100, 1260, 1280, 1320, 1440][usize::from(small(28, 6))]];
    let mut packet = match pick(32, 5) {
        0 => build::echo_request(src, dst, port, 1, &payload),
        1 => build::tcp(
            src,
            dst,
            &tcp::Header { src_port: port, dst_port: 80, ..tcp::Header::parse(&SEGMENT).unwrap() },
            &payload,
        ),
        _ => build::udp(src, dst, (port, 53), &payload),
    };
    let ttl = [1, 2, 64, 64, 64][usize::from(small(36, 5))];
    match family {
        Ip::V4 => {
            packet[8] = ttl;
            packet[6] = if pick(40, 4) == 0 { 0 } else { 0x40 };
            build::fix_ip4_checksum(&mut packet);
        }
        Ip::V6 => packet[7] = ttl,
    }
    packet
}

/// The oracle of fast forwarding is normal forwarding.
#[test]
fn fast_forwarding_sends_what_normal_forwarding_sends() {
    for family in FAMILIES {
        let (mut normal, mut fast) = (bench(family, None), bench(family, Some(32)));
        let mut random = 0x5eed_u64;
        for at in 0..30_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mixed = random ^ random >> 29;
            step(&mut normal, family, mixed);
            step(&mut fast, family, mixed);
            for i in [1, 2] {
                assert_eq!(normal.sent(i), fast.sent(i), "{family:?}, step {at}, interface {i}");
            }
        }
        assert_eq!(normal.drops(), fast.drops());
        for count in [Count::Ip4Forwarded, Count::Ip6Forwarded, Count::IcmpErrorsSent, Count::Icmp6ErrorsSent]
        {
            assert_eq!(normal.counted(count), fast.counted(count), "{}", count.name());
        }
        assert!(normal.dropped(DropReason::BlackholeRoute) > 0 && normal.counted(Count::FlowHits) == 0);
        let (hits, misses) = (fast.counted(Count::FlowHits), fast.counted(Count::FlowMisses));
        assert!(hits > 2000 && misses > 2000, "{hits} hits, {misses} misses");
    }
}

#[test]
fn a_link_local_destination_is_not_cached() {
    let mut bench = bench(Ip::V4, Some(64));
    let packet = udp(Ip::V4, IpAddr::from([169, 254, 1, 1]), (1, 2), b"here");
    assert_eq!([(); 3].map(|()| hits(&mut bench, &packet)), [false; 3]);
    assert!(bench.sent(2).is_empty() && addr4(1, 1).is_private());
}
