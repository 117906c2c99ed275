//! Bursts, and fairness between rings, messages and timers, when a CPU cannot keep up.

use net::netisr::{Polling, Ring};
use net::time::Duration;
use sim::cable;
use sim::host::{Port, Spec, ifindex};
use sim::plan::Family;
use sim::station::Flow;
use sim::world::{HostId, World};

use crate::common::{BOOT, Pair, Shape, pair, pair_with, seeds, station};

const US: fn(u64) -> Duration = Duration::from_micros;

/// A pair whose router needs so long for each packet.
fn slow_pair(name: &str, seed: u64, item: Duration) -> Pair {
    let mut pair = pair(name, seed, Shape::SIMPLE);
    learn(&mut pair);
    pair.world.of(pair.router).cpus.iter_mut().for_each(|cpu| cpu.cost.item = item);
    pair
}

/// Lets the router resolve both stations.
fn learn(pair: &mut Pair) {
    for family in Family::BOTH {
        pair.world.at(pair.a).ping(family.addr(2, 2), [1, 1], 8);
    }
    pair.world.run_for(Duration::from_secs(1));
}

fn bursts(world: &mut World, router: HostId) -> Vec<u16> {
    world.of(router).cpus.iter().flat_map(|cpu| cpu.netisr.rings()).map(Ring::burst).collect()
}

#[test]
fn bursts_shrink_while_turns_are_long_and_grow_again_when_they_are_not() {
    for family in Family::BOTH {
        let mut pair = slow_pair("bursts", 1, US(10));
        assert_eq!(bursts(&mut pair.world, pair.router), [256, 256]);
        // Five times what the router can do; a turn may take half a millisecond, so 50 packets.
        pair.world.flow(pair.a, pair.b, Flow::to(family.addr(2, 2)).count(100_000).gap(US(2)));
        pair.world.run_for(Duration::from_millis(150));
        let under_load = bursts(&mut pair.world, pair.router);
        assert!((40..=52).contains(&under_load[0]), "{under_load:?}");
        assert_eq!(under_load[1], 256, "the ring without frames is not to blame");
        pair.world.run_for(Duration::from_millis(100));
        pair.world.of(pair.router).cpus[0].cost.item = US(1);
        pair.world.flow(pair.a, pair.b, Flow::to(family.addr(2, 2)).count(2000).gap(US(50)));
        pair.world.run_for(Duration::from_secs(1));
        assert_eq!(bursts(&mut pair.world, pair.router), [256, 256]);
        pair.world.finish();
    }
}

#[test]
fn a_burst_never_falls_below_one_packet_and_never_rises_above_its_limit() {
    let mut pair = slow_pair("burst_limits", 1, Duration::from_millis(2));
    let polling = Polling { burst_max: 40, ..Polling::default() };
    pair.world.of(pair.router).call(0, move |netisr| netisr.set_polling(polling));
    pair.world.flow(pair.a, pair.b, Flow::to(Family::V4.addr(2, 2)).count(3000).gap(US(300)));
    let mut seen = Vec::new();
    for _ in 0..80 {
        pair.world.run_for(Duration::from_millis(20));
        seen.extend(bursts(&mut pair.world, pair.router));
    }
    assert_eq!((seen.iter().min(), seen.iter().max()), (Some(&1), Some(&40)));
    pair.world.of(pair.router).cpus[0].cost.item = US(1);
    pair.world.finish();
}

#[test]
fn a_flood_on_one_ring_takes_nothing_from_another_ring_of_the_same_cpu() {
    for family in Family::BOTH {
        for seed in seeds(4) {
            let mut world = World::new("ring_fairness", seed);
            world.stalls = 50_000;
            let cables = [1, 2, 3].map(|_| world.cable(cable::Spec::default()));
            let port = |net: u8| Port::new(cables[usize::from(net) - 1], net, 1);
            // The way out holds what a turn sends: no output queue stands, whose flows would share it.
            let out = port(3).card(|card| card.ring_len = 1024);
            let router = world.host(Spec::router("router").port(port(1)).port(port(2)).port(out));
            let [loud, quiet, far] =
                [1, 2, 3].map(|net: u8| world.station(cables[usize::from(net) - 1], station(net, 2)));
            world.run_for(BOOT);
            [loud, quiet].into_iter().for_each(|from| world.at(from).ping(family.addr(3, 2), [1, 1], 8));
            world.run_for(Duration::from_secs(1));
            world.of(router).cpus[0].cost.item = US(4);
            let flood = world.flow(loud, far, Flow::to(family.addr(3, 2)).count(100_000).gap(US(1)));
            // A quarter of what the CPU can do.
            let quiet = world.flow(quiet, far, Flow::to(family.addr(3, 2)).count(6000).gap(US(16)));
            world.run_for(Duration::from_secs(2));
            assert_eq!(world.tally(quiet).received, 6000, "{}", world.drops());
            let of_flood = world.tally(flood).received;
            assert!((10_000..40_000).contains(&of_flood), "{of_flood} of the flood");
            world.finish();
        }
    }
}

#[test]
fn rings_that_are_all_full_share_a_turn_evenly() {
    let mut world = World::new("ring_shares", 3);
    let cables = [1, 2, 3].map(|_| world.cable(cable::Spec::default()));
    let port = |net: u8| Port::new(cables[usize::from(net) - 1], net, 1).card(|card| card.ring_len = 512);
    let router = Spec::router("router").buffers(8192).port(port(1)).port(port(2)).port(port(3));
    let router = world.host(router);
    let [a, b, far] = [1, 2, 3].map(|net: u8| world.station(cables[usize::from(net) - 1], station(net, 2)));
    world.run_for(BOOT);
    [a, b].into_iter().for_each(|from| world.at(from).ping(Family::V4.addr(3, 2), [1, 1], 8));
    world.run_for(Duration::from_secs(1));
    world.of(router).cpus[0].cost.item = US(4);
    let flows =
        [a, b].map(|from| world.flow(from, far, Flow::to(Family::V4.addr(3, 2)).count(80_000).gap(US(1))));
    world.run_for(Duration::from_secs(2));
    let [one, other] = flows.map(|flow| world.tally(flow).received);
    assert!(one.abs_diff(other) * 20 <= one, "{one} and {other}: more than 5 % apart");
    world.finish();
}

#[test]
fn timers_run_in_time_while_ten_times_too_many_packets_arrive() {
    for seed in seeds(3) {
        let more = |port: Port| port.card(|card| card.ring_len = 256);
        let mut pair = pair_with("timers_in_flood", seed, Shape::SIMPLE, more, [cable::Spec::default(); 2]);
        learn(&mut pair);
        pair.world.of(pair.router).cpus[0].cost.item = US(10);
        for family in Family::BOTH {
            pair.world.flow(pair.a, pair.b, Flow::to(family.addr(2, 2)).count(200_000).gap(US(2)));
        }
        let mut latest = Duration::ZERO;
        for _ in 0..400 {
            pair.world.run_for(Duration::from_millis(1));
            let now = pair.world.now();
            let due = pair.world.of(pair.router).cpus[0].netisr.cpu.timers.deadline();
            latest = latest.max(due.map_or(Duration::ZERO, |due| now.since(due)));
        }
        // One turn with a burst that has not shrunk yet: 256 packets of two rings at 10 microseconds.
        assert!(latest <= US(6000), "a timer was {latest:?} late");
        pair.world.run_for(Duration::from_secs(1));
        pair.world.finish();
    }
}

#[test]
fn a_message_waits_no_longer_than_a_turn_should_take_once_bursts_have_shrunk() {
    let mut pair = slow_pair("message_in_flood", 1, US(10));
    pair.world.flow(pair.a, pair.b, Flow::to(Family::V6.addr(2, 2)).count(100_000).gap(US(2)));
    pair.world.run_for(Duration::from_millis(100));
    for _ in 0..20 {
        let done = std::sync::Arc::new(core::sync::atomic::AtomicBool::new(false));
        let set = std::sync::Arc::clone(&done);
        pair.world.of(pair.router).call(0, move |_| set.store(true, core::sync::atomic::Ordering::Relaxed));
        let limit = 2 * Polling::default().turn_max;
        assert!(pair.world.run_until(limit, |_| done.load(core::sync::atomic::Ordering::Relaxed)));
    }
    pair.world.run_for(Duration::from_secs(1));
    assert!(pair.world.of(pair.router).count(net::count::Count::LongTurns) > 0);
    let index = ifindex(0);
    assert!(pair.world.of(pair.router).cpus[0].netisr.rings().any(|ring| {
        ring.ifindex() == index && ring.counts().bursts_used_up > 0 && ring.counts().busy_polls > 0
    }));
    pair.world.finish();
}
