use wire::bpdu::{Config, Flags as Said, Role as SaidRole, Times, Vector};
use wire::ether::Mac;

use super::*;
use crate::base::time::Duration;
use crate::link::bridge::Bridge;
use crate::link::fdb::Behind;
use crate::link::stp::Role;
use crate::link::tables::{Config as Interfaces, Ifnet};
use crate::testkit::link::{FAMILIES, Family};
use crate::testkit::{Bench, build, ifnet};

/// Ports 1 to 3 are of the bridge 4.
const PORTS: [IfIndex; 3] = [1, 2, 3];
const BRIDGE: IfIndex = 4;

fn interfaces(config: &mut Interfaces) {
    for ifnet in &mut config.ifs {
        let stp = Some(PortSettings::default());
        ifnet.port = Some(Port { bridge: BRIDGE, stp, ..Port::default() });
        ifnet.addrs = Vec::new();
    }
    let bridge = Bridge { stp: Some(Settings::default()), ..Bridge::default() };
    config.ifs.push(Ifnet { kind: Kind::Bridge(bridge), ..ifnet(BRIDGE) });
}

/// A bridge that has just been made.
fn cold(cpus: u16) -> Bench {
    let mut bench = Bench::cold(3, cpus, interfaces);
    bench.neighbours_answer = false;
    bench
}

/// A bridge whose ports forward.
fn warm(cpus: u16) -> Bench {
    let mut bench = cold(cpus);
    bench.advance(Duration::from_secs(15));
    bench.forget_sent();
    bench
}

fn station(host: u8) -> Mac {
    Mac([6, 0, 0, 0, 7, host])
}

fn frame(family: Family, to: u8, from: u8) -> Vec<u8> {
    let packet = build::udp(family.addr(9, from), family.addr(9, to), (1, 7), &[0x5a; 30]);
    build::ether(station(to), station(from), if family == Family::V4 { 0x0800 } else { 0x86dd }, &packet)
}

/// A unit of another bridge, which is better than ours.
fn said(flags: u8, port: u16) -> Bpdu {
    let root = BridgeId { priority: 0x1000, mac: Mac([2, 0, 0, 0, 0xff, 1]) };
    let usual = 256;
    let times = Times { message_age: 0, max_age: 20 * usual, hello: 2 * usual, forward_delay: 15 * usual };
    let flags = Said(flags).with_role(SaidRole::Designated);
    Bpdu::Rst(Config { flags, vector: Vector { root, cost: 0, bridge: root, port }, times })
}

fn unit(bpdu: Bpdu) -> Vec<u8> {
    let mut bytes = [0; 46];
    let len = bpdu.emit(&mut bytes).unwrap();
    build::ether(bpdu::GROUP, station(99), u16::try_from(len).unwrap(), &bytes)
}

/// By which ports other frames than units left.
fn left(bench: &mut Bench) -> Vec<IfIndex> {
    let sent = |port| {
        bench.sent(port).into_iter().filter(|frame| frame[..6] != bpdu::GROUP.octets()).map(move |_| port)
    };
    PORTS.into_iter().flat_map(sent).collect()
}

fn pass(bench: &mut Bench, port: IfIndex, frame: &[u8]) -> Vec<IfIndex> {
    bench.inject(port, frame.to_vec());
    bench.run();
    left(bench)
}

/// The units that a port has sent.
fn units(bench: &mut Bench, port: IfIndex) -> Vec<Bpdu> {
    let own: Vec<_> = bench.sent(port);
    let own = own.iter().filter(|frame| frame[..6] == bpdu::GROUP.octets());
    own.map(|frame| {
        let len = usize::from(u16::from_be_bytes([frame[12], frame[13]]));
        assert_eq!(frame[6..12], crate::testkit::mac(port).octets(), "from the port");
        assert_eq!(frame.len(), MIN_FRAME_LEN);
        Bpdu::parse(&frame[HEADER_LEN..HEADER_LEN + len]).unwrap()
    })
    .collect()
}

/// The state of each port, on each CPU.
fn states(bench: &Bench) -> Vec<[State; 3]> {
    bench.netisrs.iter().map(|one| PORTS.map(|port| state(&one.cpu, port))).collect()
}

#[test]
fn a_bridge_that_hears_no_other_blocks_its_ports_for_the_migration_time() {
    for cpus in [1, 4] {
        for family in FAMILIES {
            let mut bench = cold(cpus);
            assert_eq!(pass(&mut bench, 1, &frame(family, 30, 10)), []);
            assert_eq!(bench.dropped(DropReason::BridgeBlocked), 1);
            assert!(
                bench.netisrs.iter().all(|one| fdb::peek(&one.cpu, &key(10)).is_none()),
                "nothing is learnt"
            );
            bench.advance(Duration::from_secs(4));
            assert_eq!(states(&bench), vec![[State::Forwarding; 3]; cpus.into()]);
            assert_eq!(pass(&mut bench, 1, &frame(family, 30, 10)), [2, 3]);
            assert_eq!(pass(&mut bench, 3, &frame(family, 10, 30)), [1]);
        }
    }
}

fn key(host: u8) -> fdb::Key {
    fdb::Key { ifindex: BRIDGE, mac: station(host) }
}

#[test]
fn each_port_sends_a_proposal_and_then_a_unit_in_each_hello_time() {
    let mut bench = cold(2);
    bench.advance(Duration::from_millis(1));
    for port in PORTS {
        let units = units(&mut bench, port);
        let [.., Bpdu::Rst(config)] = units[..] else { panic!("{units:?}") };
        assert!(config.flags.has(Said::PROPOSAL) && config.flags.role() == SaidRole::Designated);
        let own = BridgeId { priority: 0x8000, mac: crate::testkit::mac(BRIDGE) };
        assert_eq!(config.vector, Vector { root: own, cost: 0, bridge: own, port: 0x8000 | port });
    }
    bench.advance(Duration::from_secs(20));
    bench.forget_sent();
    bench.advance(Duration::from_secs(20));
    assert_eq!(PORTS.map(|port| units(&mut bench, port).len()), [10; 3]);
    assert!(bench.counted(Count::BpdusSent) >= 30);
}

#[test]
fn of_two_ways_to_the_root_one_is_blocked_on_all_cpus_and_carries_nothing() {
    for cpus in [1, 2, 4] {
        for family in FAMILIES {
            let mut bench = warm(cpus);
            bench.inject(1, unit(said(Said::PROPOSAL, 0x8001)));
            bench.inject(2, unit(said(Said::PROPOSAL, 0x8002)));
            bench.run();
            let agreed = |bpdu: &Bpdu| matches!(bpdu, Bpdu::Rst(config) if config.flags.has(Said::AGREEMENT));
            assert!(units(&mut bench, 1).iter().any(agreed), "the root port agrees");
            let status: Vec<_> = bench.netisrs.iter().flat_map(|one| status(&one.cpu)).collect();
            let [status] = &status[..] else { panic!("one CPU owns it: {status:?}") };
            assert_eq!((status.root_port, status.cost), (Some(1), 20_000));
            let roles: Vec<_> = status.ports.iter().map(|(_, port)| port.role).collect();
            assert_eq!(roles, [Role::Root, Role::Alternate, Role::Designated]);
            let expected = [State::Forwarding, State::Discarding, State::Forwarding];
            assert_eq!(states(&bench), vec![expected; cpus.into()]);
            left(&mut bench);
            assert_eq!(pass(&mut bench, 3, &frame(family, 30, 10)), [1]);
            assert_eq!(pass(&mut bench, 2, &frame(family, 30, 11)), []);
            // The root is silent by the first way: the second one takes over.
            for _ in 0..4 {
                bench.advance(Duration::from_secs(2));
                bench.inject(2, unit(said(0, 0x8002)));
                bench.run();
            }
            assert!(
                states(&bench).iter().all(|states| states[1] == State::Forwarding),
                "{:?}",
                states(&bench)
            );
        }
    }
}

#[test]
fn a_topology_change_flushes_what_was_learnt_by_other_ports() {
    for cpus in [1, 4] {
        let mut bench = warm(cpus);
        bench.inject(1, unit(said(Said::PROPOSAL, 0x8001)));
        bench.advance(Duration::from_secs(6));
        bench.inject(1, unit(said(0, 0x8001)));
        bench.run();
        // Port 3 leads to another bridge, which agrees: it is no edge port.
        assert_eq!(pass(&mut bench, 1, &frame(Family::V4, 30, 10)).len(), 2);
        assert_eq!(pass(&mut bench, 1, &frame(Family::V4, 30, 12)).len(), 2);
        let is_known =
            |bench: &Bench, host| bench.netisrs.iter().all(|one| fdb::peek(&one.cpu, &key(host)).is_some());
        assert!(is_known(&bench, 10) && is_known(&bench, 12));
        let mut agreement = said(Said::AGREEMENT, 0x8003);
        if let Bpdu::Rst(config) = &mut agreement {
            config.flags = Said(Said::TC).with_role(SaidRole::Root);
            config.vector.cost = 40_000;
            config.vector.bridge = BridgeId { priority: 0xf000, mac: station(98) };
        }
        let before = bench.counted(Count::StpFlushes);
        bench.inject(3, unit(agreement));
        bench.run();
        assert!(bench.counted(Count::StpFlushes) > before);
        assert!(!is_known(&bench, 10), "{cpus} CPUs");
        assert!(bench.netisrs.iter().all(|one| fdb::peek(&one.cpu, &key(12)) != Some(Behind::Port(1))));
    }
}

#[test]
fn what_is_no_unit_is_dropped_and_no_more_are_taken_than_a_turn_allows() {
    let mut bench = warm(1);
    let mut cut = unit(said(0, 1));
    cut[13] = 20;
    bench.inject(1, cut);
    let mut other = unit(said(0, 1));
    other[14] = 0xaa;
    bench.inject(1, other);
    bench.run();
    assert_eq!(bench.dropped(DropReason::BpduMalformed), 2);
    let taken = bench.counted(Count::BpdusConsumed);
    for _ in 0..100 {
        bench.inject(1, unit(said(0, 1)));
    }
    bench.run();
    assert!(bench.dropped(DropReason::BpduLimit) >= 36 || bench.counted(Count::BpdusConsumed) - taken == 100);
    assert_eq!(bench.dropped(DropReason::BpduLimit) + bench.counted(Count::BpdusConsumed) - taken, 100);
}

#[test]
fn a_port_that_goes_down_or_leaves_the_bridge_is_blocked_and_its_way_replaced_at_once() {
    for cpus in [1, 4] {
        let mut bench = warm(cpus);
        bench.inject(1, unit(said(Said::PROPOSAL, 0x8001)));
        bench.inject(2, unit(said(Said::PROPOSAL, 0x8002)));
        bench.run();
        let mut ifs: Vec<_> = bench.cpu().tables.ifnets().cloned().collect();
        ifs[0].up = false;
        bench.set_tables(Interfaces {
            generation: 2,
            ifs: ifs.clone(),
            routes: Vec::new(),
            forwarding: true,
            ..Default::default()
        });
        bench.run();
        let expected = [State::Discarding, State::Forwarding, State::Forwarding];
        assert_eq!(states(&bench), vec![expected; cpus.into()]);
        // Without a tree all ports forward.
        for ifnet in &mut ifs {
            ifnet.up = true;
            ifnet.port.iter_mut().for_each(|port| port.stp = None);
        }
        ifs[3].kind = Kind::Bridge(Bridge::default());
        bench.set_tables(Interfaces {
            generation: 3,
            ifs,
            routes: Vec::new(),
            forwarding: true,
            ..Default::default()
        });
        bench.run();
        assert!(bench.netisrs.iter().all(|one| status(&one.cpu).is_empty()));
        left(&mut bench);
        assert_eq!(pass(&mut bench, 1, &frame(Family::V6, 30, 10)), [2, 3]);
    }
}
