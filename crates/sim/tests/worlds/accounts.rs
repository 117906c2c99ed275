//! The checks of a world: each packet that begins ends, for a cause that is counted, and permissions end.

use net::count::Count;
use net::drop::DropReason;
use net::time::Duration;
use sim::builder;
use sim::cable;
use sim::host::{Port, Spec};
use sim::plan::{self, Family};
use sim::station::Flow;
use sim::world::{Check, Permit, Plant, World, explore_planted};
use wire::tcp::{Flags, Header, Options};

use crate::common::{BOOT, Shape, on, pair, station};

const SECOND: Duration = Duration::from_secs(1);

/// A connection is begun.
const SYN: Header = Header {
    src_port: 1,
    dst_port: 2,
    seq: 1,
    ack: 0,
    flags: Flags::SYN,
    window: 1000,
    urgent: 0,
    options: Options::NONE,
};

/// The checks that fail at the end of a world.
fn broken(mut world: World) -> Vec<Check> {
    let broken = world.check();
    world.forget();
    broken.into_iter().map(|broken| broken.check).collect()
}

#[test]
fn a_planted_packet_that_is_counted_and_does_not_exist_is_found() {
    let counted: [fn(&mut net::cpu::Cpu); 3] = [
        |cpu| cpu.count(Count::TcpOut),
        |cpu| cpu.counters.drop(DropReason::NoBuffer),
        |cpu| cpu.count(Count::Ip6FragmentsJoined),
    ];
    for count in counted {
        let mut pair = pair("planted_count", 1, Shape::SIMPLE);
        on(&mut pair.world, pair.router, 0, count);
        assert_eq!(broken(pair.world), [Check::Accounting, Check::Accounting], "at rest, and at the end");
    }
}

#[test]
fn messages_that_find_no_buffer_are_not_counted_as_sent() {
    for family in Family::BOTH {
        let mut world = World::new("no_buffer", 1);
        let cable = world.cable(cable::Spec::default());
        let host = world.host(Spec::host("host").port(Port::new(cable, 1, 1)));
        let a = world.station(cable, station(1, 2));
        world.run_for(BOOT);
        let mut hoard = Vec::new();
        let mut take_all = |world: &mut World| {
            let all = on(world, host, 0, |cpu| core::iter::from_fn(|| cpu.pool.take()).collect::<Vec<_>>());
            hoard.extend(all);
        };
        // Address resolution, a closed port of UDP and one of TCP: all in vain.
        let us = family.addr(1, 1);
        take_all(&mut world);
        world.at(a).learn(us, plan::mac(1, 1));
        world.at(a).ping(us, [1, 1], 8);
        world.run_for(SECOND);
        take_all(&mut world);
        let ip = world.at(a).ip_to(us);
        world.at(a).send_udp(ip, [1, 2], b"anybody?");
        world.run_for(SECOND);
        take_all(&mut world);
        world.at(a).send(builder::tcp(ip, &SYN, &[]));
        world.run_for(SECOND);
        let counts = [Count::NeighNoBuffer, Count::IcmpNoBuffer, Count::TcpResetsNoBuffer];
        let counts = counts.map(|count| world.of(host).count(count));
        assert!(counts.iter().all(|count| *count > 0), "{family:?}: {counts:?}");
        on(&mut world, host, 0, |cpu| hoard.into_iter().for_each(|pkt| cpu.pool.give(pkt)));
        world.run_for(BOOT);
        world.finish();
    }
}

#[test]
fn a_loss_is_excused_while_its_cause_lasts_and_not_afterwards() {
    for mutes_again in [false, true] {
        let mut pair = pair("permission", 1, Shape::SIMPLE);
        pair.world.allow(Permit::Loss);
        pair.world.at(pair.b).mute = true;
        pair.world.flow(pair.a, pair.b, Flow::to(Family::V4.addr(2, 2)).count(10));
        pair.world.run_for(SECOND);
        pair.world.at(pair.b).mute = false;
        pair.world.run_for(BOOT);
        pair.world.forbid(Permit::Loss);
        pair.world.at(pair.a).learn(Family::V4.addr(1, 1), plan::mac(1, 1));
        if mutes_again {
            pair.world.flow(pair.a, pair.b, Flow::to(Family::V4.addr(2, 2)).count(1));
            pair.world.run_for(SECOND);
            pair.world.at(pair.b).mute = true;
        }
        pair.world.flow(pair.a, pair.b, Flow::to(Family::V4.addr(2, 2)).count(10));
        pair.world.run_for(SECOND);
        let expected = if mutes_again { vec![Check::Loss] } else { vec![] };
        let mut found = broken(pair.world);
        found.dedup();
        assert_eq!(found, expected, "mute again: {mutes_again}");
    }
}

#[test]
fn random_worlds_find_a_firewall_that_does_not_deny() {
    for plant in [Plant::OpenFirewall, Plant::StaleRules] {
        let is_found = (1..200).any(|seed| {
            let (world, broken) = explore_planted("planted_firewall", seed, Some(plant));
            world.forget();
            broken.iter().any(|broken| broken.check == Check::Firewall)
        });
        assert!(is_found, "{plant:?}");
    }
}
