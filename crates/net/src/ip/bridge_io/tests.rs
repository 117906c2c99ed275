use core::net::IpAddr;

use wire::Protocol;

use super::*;
use crate::base::time::Duration;
use crate::ip::neigh;
use crate::link::bridge::Bridge;
use crate::link::logical::Vlan;
use crate::link::tables::Config;
use crate::testkit::link::{FAMILIES, Family, question};
use crate::testkit::{Bench, build, ifnet, mac, peer_mac};

/// Ports 1 to 3 are of the bridge 5; interface 4 is not.
const PORTS: [IfIndex; 3] = [1, 2, 3];
const OUTSIDE: IfIndex = 4;
const BRIDGE: IfIndex = 5;

fn port() -> Port {
    Port { bridge: BRIDGE, ..Port::default() }
}

fn bench(cpus: u16, change: impl FnOnce(&mut Config)) -> Bench {
    let mut bench = Bench::with(4, cpus, |config| {
        for index in PORTS {
            let ifnet = &mut config.ifs[usize::from(index) - 1];
            (ifnet.port, ifnet.addrs) = (Some(port()), Vec::new());
        }
        let kind = Kind::Bridge(Bridge { storm: 0, ..Bridge::default() });
        config.ifs.push(Ifnet { kind, ..ifnet(BRIDGE) });
        change(config);
    });
    bench.neighbours_answer = false;
    bench
}

/// The station `host` on any port.
fn station(host: u8) -> Mac {
    Mac([6, 0, 0, 0, 7, host])
}

/// A frame between two stations, with a datagram of a flow.
fn frame(family: Family, to: u8, from: u8, flow: u16) -> Vec<u8> {
    let packet = build::udp(family.addr(9, from), family.addr(9, to), (flow, 7), &[0x5a; 30]);
    build::ether(station(to), station(from), if family == Family::V4 { 0x0800 } else { 0x86dd }, &packet)
}

/// Where frames have left, and which.
fn left(bench: &mut Bench) -> Vec<(IfIndex, Vec<u8>)> {
    let all = PORTS.into_iter().flat_map(|port| bench.sent(port).into_iter().map(move |frame| (port, frame)));
    all.collect::<Vec<_>>()
}

/// Injects a frame and answers by which ports it has left as it was.
fn pass(bench: &mut Bench, port: IfIndex, frame: &[u8]) -> Vec<IfIndex> {
    bench.inject(port, frame.to_vec());
    bench.run();
    let left = left(bench);
    assert!(left.iter().all(|(_, sent)| sent == frame), "{left:02x?}");
    left.into_iter().map(|(port, _)| port).collect()
}

#[test]
fn a_frame_for_an_unknown_station_is_flooded_and_one_for_a_known_one_is_not() {
    for cpus in [1, 2, 4, 8] {
        for family in FAMILIES {
            let mut bench = bench(cpus, |_| ());
            for flow in 0..8 {
                let expected = if flow == 0 { vec![2, 3] } else { vec![3] };
                assert_eq!(pass(&mut bench, 1, &frame(family, 30, 10, flow)), expected, "{cpus} CPUs");
                assert_eq!(pass(&mut bench, 3, &frame(family, 10, 30, flow)), [1]);
            }
            let other = build::ether(station(30), station(10), 0x88b5, &[7; 50]);
            assert_eq!(pass(&mut bench, 1, &other), [3], "not only IP");
            assert_eq!(bench.drops(), []);
            // Silence, and it is flooded again.
            bench.advance(Duration::from_secs(1500));
            bench.forget_sent();
            assert_eq!(pass(&mut bench, 1, &frame(family, 30, 10, 9)), [2, 3]);
            // It has moved.
            assert_eq!(pass(&mut bench, 2, &frame(family, 10, 30, 9)), [1]);
            assert_eq!(pass(&mut bench, 1, &frame(family, 30, 10, 9)), [2]);
        }
    }
}

#[test]
fn each_flow_is_forwarded_by_the_cpu_that_owns_it_after_one_hand_off_at_the_most() {
    for family in FAMILIES {
        let mut bench = bench(4, |_| ());
        assert_eq!(pass(&mut bench, 3, &frame(family, 10, 30, 1)).len(), 2);
        let before = bench.counted(Count::HandoffOut);
        let own = |bench: &Bench| -> Vec<u64> {
            bench.netisrs.iter().map(|one| one.cpu.counters.get(Count::BridgeForwarded)).collect()
        };
        let forwarded = own(&bench);
        for flow in 0..64 {
            bench.inject(1, frame(family, 30, 10, flow));
        }
        bench.run();
        assert_eq!(bench.sent(3).len(), 64, "{:?}", bench.drops());
        let each: Vec<_> = own(&bench).iter().zip(forwarded).map(|(now, then)| now - then).collect();
        assert!(each.iter().all(|one| *one > 4), "{each:?}");
        assert!(bench.counted(Count::HandoffOut) - before <= 64);
    }
}

#[test]
fn a_broadcast_leaves_by_all_other_ports_and_reaches_the_bridge_itself() {
    for cpus in [1, 4] {
        for family in FAMILIES {
            let mut bench = bench(cpus, |_| ());
            let (asker, target) = (family.addr(BRIDGE, 9), family.addr(BRIDGE, 1));
            let asked = question(peer_mac(asker), asker, target);
            bench.inject(2, asked.clone());
            bench.run();
            let left = left(&mut bench);
            let flooded: Vec<_> =
                left.iter().filter(|(_, frame)| *frame == asked).map(|(port, _)| *port).collect();
            assert_eq!(flooded, [1, 3], "{family:?}");
            // The answer goes to the port of the asker: alone, where the CPU that answers has heard of it by then.
            let is_answer =
                |frame: &[u8]| frame[..6] == peer_mac(asker).octets() && frame[6..12] == mac(BRIDGE).octets();
            let answers: Vec<_> =
                left.iter().filter(|(_, frame)| is_answer(frame)).map(|(port, _)| *port).collect();
            assert!(
                answers == [2] || cpus > 1 && answers.contains(&2),
                "{cpus} CPUs, {family:?}: {left:02x?}"
            );
        }
    }
}

#[test]
fn packets_are_routed_between_a_bridge_and_another_interface() {
    for cpus in [1, 4] {
        for family in FAMILIES {
            let mut bench = bench(cpus, |_| ());
            for (i, host) in [(BRIDGE, 9), (OUTSIDE, 9)] {
                let addr = family.addr(i, host);
                for netisr in &mut bench.netisrs {
                    _ = neigh::set_static(&mut netisr.cpu, neigh::Key { ifindex: i, addr }, peer_mac(addr));
                }
            }
            bench.run();
            let (inside, outside) = (family.addr(BRIDGE, 9), family.addr(OUTSIDE, 9));
            let there = build::udp(inside, outside, (5, 7), &[1; 20]);
            for count in [1, 1, 40] {
                (0..count).for_each(|_| bench.inject(2, build::frame_from(BRIDGE, inside, &there)));
                bench.run();
                assert_eq!(bench.sent(OUTSIDE).len(), count, "{cpus} CPUs, {family:?}: {:?}", bench.drops());
                let back = build::udp(outside, inside, (7, 5), &[1; 20]);
                (0..count).for_each(|_| bench.inject(OUTSIDE, build::frame_from(OUTSIDE, outside, &back)));
                bench.run();
                let left = left(&mut bench);
                assert!(left.len() == count && left.iter().all(|(port, _)| *port == 2), "{left:02x?}");
            }
            assert_eq!(bench.counted(Count::Strays), 0);
            assert_eq!(bench.drops(), []);
        }
    }
}

/// Receives one frame and returns the drops that it causes.
fn dropped(bench: &mut Bench, port: IfIndex, frame: &[u8]) -> Vec<(DropReason, u64)> {
    let before = bench.drops();
    assert_eq!(pass(bench, port, frame), []);
    bench.drops().into_iter().filter(|one| !before.contains(one)).collect()
}

#[test]
fn what_a_bridge_does_not_forward_has_a_reason() {
    let mut bench = bench(1, |config| config.ifs[1].mtu = 1400);
    assert_eq!(pass(&mut bench, 1, &frame(Family::V4, 20, 10, 1)), [2, 3]);
    assert_eq!(dropped(&mut bench, 1, &frame(Family::V4, 10, 11, 1)), [(DropReason::BridgeSamePort, 1)]);
    let bpdu = build::ether(Mac([1, 0x80, 0xc2, 0, 0, 0]), station(10), 39, &[0x42; 39]);
    assert_eq!(dropped(&mut bench, 1, &bpdu), [(DropReason::BridgeReserved, 1)]);
    let own = build::ether(station(20), mac(BRIDGE), 0x0800, &[0; 46]);
    assert_eq!(dropped(&mut bench, 1, &own), [(DropReason::BridgeLoop, 1)]);
    let group = build::ether(station(20), Mac([1, 0, 0, 0, 0, 1]), 0x0800, &[0; 46]);
    assert_eq!(dropped(&mut bench, 1, &group), [(DropReason::EtherMulticastSource, 1)]);
    assert_eq!(pass(&mut bench, 2, &frame(Family::V4, 10, 20, 1)), [1], "learnt on port 2");
    let long = build::ether(station(20), station(10), 0x0800, &[0; 1401]);
    assert_eq!(dropped(&mut bench, 1, &long), [(DropReason::BridgeTooBig, 1)]);
}

#[test]
fn private_ports_exchange_nothing_and_a_span_port_gets_a_copy_of_all() {
    for family in FAMILIES {
        let mut bench = bench(1, |config| {
            config.ifs[0].port = Some(Port { is_private: true, ..port() });
            config.ifs[1].port = Some(Port { is_private: true, ..port() });
        });
        assert_eq!(pass(&mut bench, 1, &frame(family, 20, 10, 1)), [3]);
        assert_eq!(pass(&mut bench, 2, &frame(family, 30, 20, 1)), [3]);
        assert_eq!(dropped(&mut bench, 1, &frame(family, 20, 10, 1)), [(DropReason::BridgePrivate, 1)]);
        assert_eq!(pass(&mut bench, 3, &frame(family, 10, 30, 1)), [1]);

        let mut bench = self::bench(1, |config| config.ifs[2].port = Some(Port { is_span: true, ..port() }));
        assert_eq!(pass(&mut bench, 1, &frame(family, 20, 10, 1)), [2, 3]);
        assert_eq!(pass(&mut bench, 2, &frame(family, 10, 20, 1)), [1, 3]);
        assert_eq!(dropped(&mut bench, 3, &frame(family, 10, 30, 1)), [(DropReason::BridgeSpan, 1)]);
    }
}

#[test]
fn no_more_is_flooded_than_the_storm_limit_allows() {
    for cpus in [1, 4] {
        let mut bench = bench(cpus, |config| {
            config.ifs[usize::from(BRIDGE) - 1].kind =
                Kind::Bridge(Bridge { storm: 400, ..Bridge::default() });
        });
        let broadcast = |flow: u16| {
            let packet = build::udp(Family::V4.addr(9, 1), Family::V4.addr(9, 2), (flow, 7), &[1; 30]);
            build::ether(Mac::BROADCAST, station(10), 0x0800, &packet)
        };
        for _ in 0..2 {
            for flow in 0..200 {
                bench.inject(1, broadcast(flow));
            }
            bench.run();
            // A tenth of a second's worth at once, as the flows fall to CPUs.
            let flooded = bench.sent(2).len();
            assert!((20..=40).contains(&flooded), "{cpus} CPUs: {flooded}");
            bench.forget_sent();
            bench.advance(Duration::from_secs(1));
        }
        assert!(bench.dropped(DropReason::BridgeStorm) >= 320);
    }
}

#[test]
fn a_vlan_over_a_bridge_and_one_as_its_port_have_their_tags() {
    for family in FAMILIES {
        // 6 is VLAN 10 of interface 4, and a port; 7 is VLAN 20 of the bridge.
        let vlan = |parent, vid| Kind::Vlan(Vlan { parent, tpid: EtherType::VLAN, vid, pcp: 0 });
        let mut bench = bench(1, |config| {
            config.ifs.push(Ifnet {
                kind: vlan(OUTSIDE, 10),
                port: Some(port()),
                addrs: Vec::new(),
                ..ifnet(6)
            });
            config.ifs.push(Ifnet { kind: vlan(BRIDGE, 20), ..ifnet(7) });
        });
        let tag = |frame: &[u8], vid: u8| [&frame[..12], &[0x81, 0, 0, vid], &frame[12..]].concat();
        let plain = frame(family, 30, 10, 1);
        assert_eq!(pass(&mut bench, 1, &plain), [2, 3]);
        assert_eq!(bench.sent(OUTSIDE), [tag(&plain, 10)]);
        let answer = frame(family, 10, 30, 1);
        bench.inject(OUTSIDE, tag(&answer, 10));
        bench.run();
        assert_eq!(left(&mut bench), [(1, answer)]);
        let (asker, target): (IpAddr, IpAddr) = (family.addr(7, 9), family.addr(7, 1));
        bench.inject(2, tag(&question(peer_mac(asker), asker, target), 20));
        bench.run();
        let answers: Vec<_> = left(&mut bench)
            .into_iter()
            .filter(|(_, frame)| frame[..6] == peer_mac(asker).octets())
            .collect();
        assert!(answers.len() == 1 && answers[0].0 == 2, "{answers:02x?}");
        assert_eq!(answers[0].1[12..16], [0x81, 0, 0, 20]);
    }
}

#[test]
fn a_port_that_goes_down_is_forgotten_and_nothing_leaves_by_it() {
    let mut bench = bench(4, |_| ());
    assert_eq!(pass(&mut bench, 3, &frame(Family::V4, 10, 30, 1)), [1, 2]);
    let mut ifs: Vec<_> = bench.cpu().tables.ifnets().cloned().collect();
    ifs[2].up = false;
    bench.set_tables(Config {
        generation: 2,
        ifs,
        routes: Vec::new(),
        forwarding: true,
        ..Default::default()
    });
    assert_eq!(pass(&mut bench, 1, &frame(Family::V4, 30, 10, 1)), [2]);
    assert_eq!(dropped(&mut bench, 3, &frame(Family::V4, 10, 30, 1)), [(DropReason::InterfaceDown, 1)]);
}

#[test]
fn a_partial_checksum_is_completed_for_a_port_whose_device_cannot() {
    use crate::link::tables::Rxcsum;
    for family in FAMILIES {
        let mut bench = bench(1, |config| config.ifs[0].rxcsum = Rxcsum::Complete);
        let (from, to) = (family.addr(9, 10), family.addr(9, 20));
        let good = build::udp(from, to, (1, 7), &[0x5a; 30]);
        let at = if family == Family::V4 { 26 } else { 46 };
        let mut partial = good.clone();
        let len = u16::try_from(good.len() - (at - 6)).unwrap();
        let sum = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                wire::checksum::Sum::pseudo_v4(from, to, Protocol::UDP, len)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                wire::checksum::Sum::pseudo_v6(from, to, Protocol::UDP, len.into())
            }
            _ => unreachable!(),
        };
        partial[at..at + 2].copy_from_slice(&sum.folded().to_be_bytes());
        let kind = if family == Family::V4 { 0x0800 } else { 0x86dd };
        bench.inject(1, build::ether(station(20), station(10), kind, &partial));
        bench.run();
        let expected = build::ether(station(20), station(10), kind, &good);
        assert_eq!(left(&mut bench), [(2, expected.clone()), (3, expected)], "{family:?}");
    }
}
