//! Messages between CPUs, and changes under load.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use net::count::Count;
use net::cpu::CpuId;
use net::drop::DropReason;
use net::fib::To;
use net::msg::{HANDOFF_MAX, Msg};
use net::netisr::{Netisr, NoSuchRing};
use net::time::Duration;
use sim::cable;
use sim::host::{Port, Spec, ifindex};
use sim::mem::Rss;
use sim::plan::{self, Family};
use sim::station::Flow;
use sim::world::{Permit, World};

use crate::common::{BOOT, Shape, pair, pair_around, seeds, station};

const SECOND: Duration = Duration::from_secs(1);

/// A message that counts itself.
fn counting(counter: &Arc<AtomicUsize>) -> Msg {
    let counter = Arc::clone(counter);
    Msg::Call(Box::new(move |_: &mut Netisr| _ = counter.fetch_add(1, Ordering::Relaxed)))
}

/// A flag, and what sets it.
fn flag() -> (Arc<AtomicBool>, impl FnOnce() + Send + 'static) {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    (flag, move || set.store(true, Ordering::Relaxed))
}

#[test]
fn of_513_messages_one_waits_for_the_next_turn() {
    let mut world = World::new("messages_513", 1);
    let host = world.host(Spec::host("host").cpus(3));
    world.run_for(SECOND);
    let (now, counter) = (world.now(), Arc::new(AtomicUsize::new(0)));
    let host = world.of(host);
    for from in [1, 2] {
        let counter = Arc::clone(&counter);
        host.call(from, move |netisr| {
            (0..256).for_each(|_| netisr.cpu.peers.send(CpuId(0), counting(&counter)));
        });
        host.cpus[from].turn(now);
    }
    assert!(host.send(0, counting(&counter)));
    let turn = host.cpus[0].turn(now);
    assert_eq!((turn.worked, counter.load(Ordering::Relaxed)), (512, 512));
    assert!(!host.cpus[0].is_asleep());
    host.cpus[0].turn(now);
    assert_eq!(counter.load(Ordering::Relaxed), 513);
    world.finish();
}

#[test]
fn messages_beyond_a_ring_wait_at_their_sender_and_all_arrive_in_order() {
    for seed in seeds(3) {
        let mut world = World::new("messages_wait", seed);
        let host = world.host(Spec::host("host").cpus(2));
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let list = Arc::clone(&seen);
        world.of(host).call(0, move |netisr| {
            for number in 0..2000 {
                let list = Arc::clone(&list);
                let note = move |_: &mut Netisr| list.lock().unwrap().push(number);
                netisr.cpu.peers.send(CpuId(1), Msg::Call(Box::new(note)));
            }
        });
        world.run_for(SECOND);
        assert_eq!(*seen.lock().unwrap(), (0..2000).collect::<Vec<_>>());
        world.finish();
    }
}

#[test]
fn a_quiesce_sees_all_earlier_messages() {
    for seed in seeds(10) {
        let mut world = World::new("quiesce", seed);
        world.stalls = 300_000;
        let host = world.host(Spec::host("host").cpus(4));
        let earlier = Arc::new(AtomicUsize::new(0));
        for cpu in (0..4).cycle().take(400) {
            assert!(world.of(host).send(cpu, counting(&earlier)));
        }
        let at_the_end = Arc::new(AtomicUsize::new(0));
        let (seen, end) = (Arc::clone(&earlier), Arc::clone(&at_the_end));
        world.of(host).tour(|_| {}, move || end.store(seen.load(Ordering::Relaxed), Ordering::Relaxed));
        world.run_for(SECOND);
        assert_eq!(at_the_end.load(Ordering::Relaxed), 400);
        world.finish();
    }
}

#[test]
fn a_tour_visits_all_cpus_in_turn_and_answers_from_the_last() {
    let mut world = World::new("tour", 1);
    let host = world.host(Spec::host("host").cpus(4));
    let visits = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (list, (done, set)) = (Arc::clone(&visits), flag());
    world.of(host).tour(move |netisr| list.lock().unwrap().push(netisr.cpu.id.0), set);
    world.run_for(SECOND);
    assert_eq!(*visits.lock().unwrap(), [0, 1, 2, 3]);
    assert!(done.load(Ordering::Relaxed));
    world.finish();
}

#[test]
fn messages_get_through_while_ten_times_too_many_packets_arrive() {
    for shape in [Shape { cpus: 2, rings: 1, rss: Rss::Absent }, Shape { cpus: 4, rings: 4, rss: Rss::Wrong }]
    {
        let mut pair = pair("flood", 1, shape);
        for cpu in &mut pair.world.of(pair.router).cpus {
            cpu.cost.item = Duration::from_micros(2);
        }
        let gap = Duration::from_nanos(200) / u32::from(shape.cpus);
        let mut flows = Vec::new();
        for family in Family::BOTH {
            let flow = Flow::to(family.addr(2, 2)).count(40_000).gap(2 * gap);
            flows.push(pair.world.flow(pair.a, pair.b, flow));
        }
        pair.world.run_for(Duration::from_millis(2));
        let (done, set) = flag();
        pair.world.of(pair.router).tour(|_| {}, set);
        // Two turns of each CPU, of 256 packets from each ring and each peer at the most, would be enough.
        let limit = Duration::from_millis(12);
        assert!(pair.world.run_until(limit, |_| done.load(Ordering::Relaxed)));
        pair.world.run_for(SECOND);
        let received: u32 = flows.iter().map(|flow| pair.world.tally(*flow).received).sum();
        assert!(received > 500 && received < 79_000, "{received} of 80 000");
        pair.world.finish();
    }
}

#[test]
fn a_full_hand_off_ring_drops_and_counts() {
    for family in Family::BOTH {
        let shape = Shape { cpus: 2, rings: 1, rss: Rss::Absent };
        // More than the ring holds can be on its way to a CPU that stands still.
        let roomy = |router: Spec| router.buffers(3 * HANDOFF_MAX);
        let ample = |port: Port| port.card(|card| card.allowance = 2 * HANDOFF_MAX);
        let mut pair = pair_around("handoff_full", 1, shape, roomy, ample, [cable::Spec::default(); 2]);
        pair.world.at(pair.a).ping(family.addr(2, 2), [1, 1], 8);
        pair.world.run_for(SECOND);
        let until = pair.world.now() + SECOND;
        pair.world.of(pair.router).cpus[1].stall_until(until);
        for port in 0..16 {
            let flow = Flow::to(family.addr(2, 2)).ports(port, 7).count(800).gap(Duration::from_micros(20));
            pair.world.flow(pair.a, pair.b, flow);
        }
        pair.world.run_for(2 * SECOND);
        let dropped = pair.world.of(pair.router).dropped(DropReason::HandoffFull);
        assert!(dropped > 0, "{}", pair.world.drops());
        pair.world.finish();
    }
}

#[test]
fn after_a_route_change_every_cpu_uses_the_new_route_and_nothing_is_lost() {
    for family in Family::BOTH {
        for seed in seeds(4) {
            let mut world = World::new("route_change", seed);
            world.stalls = 100_000;
            let cables = [1, 2, 3].map(|_| world.cable(cable::Spec::default()));
            let port = |net: u8| Port::new(cables[usize::from(net) - 1], net, 1).rings(2, Rss::Wrong);
            let router = Spec::router("router").cpus(4).port(port(1)).port(port(2)).port(port(3));
            let router = world.host(router.via(family.prefix(9), family.addr(2, 2)));
            let a = world.station(cables[0], station(1, 2));
            let [old, new] = [2, 3].map(|net: u8| {
                let addrs = [plan::addrs(net, 2), plan::addrs(9, 2)].concat();
                let station = sim::station::Station::new("far", plan::mac(net, 2), &addrs);
                world.station(cables[usize::from(net) - 1], station.gateway(family.addr(net, 1)))
            });
            world.run_for(BOOT);
            for net in [2, 3] {
                world.at(a).ping(family.addr(net, 2), [1, 1], 8);
            }
            world.at(a).ping(family.addr(9, 2), [1, 1], 8);
            world.run_for(5 * SECOND);
            let flow =
                |port| Flow::to(family.addr(9, 2)).ports(port, 9).count(400).gap(Duration::from_micros(250));
            world.allow(Permit::Loss);
            let flows: Vec<_> = (0..16).map(|port| world.flow(a, old, flow(port))).collect();
            world.run_for(Duration::from_millis(50));
            let at = |world: &mut World, station| -> u32 {
                flows.iter().map(|flow| world.at(station).tally(*flow).received).sum()
            };
            world.of(router).change(|spec| {
                let hop = To::Gateway { ifindex: ifindex(2), via: family.addr(3, 2) };
                spec.routes[0].hops = vec![hop.into()];
            });
            let (done, set) = flag();
            world.of(router).tour(|_| {}, set);
            assert!(world.run_until(SECOND, |_| done.load(Ordering::Relaxed)));
            // What was on the cable, or in a ring, arrives.
            world.run_for(Duration::from_millis(3));
            let before = at(&mut world, old);
            world.run_for(SECOND);
            assert_eq!(at(&mut world, old), before, "no packet took the old route after the change");
            // Each CPU holds a few packets while it asks for the neighbour, and drops the others.
            let held_too_many = world.of(router).dropped(DropReason::NeighHoldFull);
            let received = u64::from(before + at(&mut world, new));
            assert_eq!(received + held_too_many, 16 * 400, "{}", world.drops());
            world.finish();
        }
    }
}

#[test]
fn rings_that_move_to_another_cpu_under_load_lose_nothing() {
    for family in Family::BOTH {
        for seed in seeds(5) {
            let mut pair = pair("ring_moves", seed, Shape { cpus: 3, rings: 1, rss: Rss::Absent });
            pair.world.stalls = 100_000;
            // What is with the old owner is overtaken by what the new one receives.
            pair.world.allow(Permit::Disorder);
            let flow =
                |port| Flow::to(family.addr(2, 2)).ports(port, 9).count(500).gap(Duration::from_micros(100));
            // Only so many packets are held while neighbours are looked for: first one of each flow.
            (0..6).for_each(|port| _ = pair.world.flow(pair.a, pair.b, flow(port).count(1)));
            pair.world.run_for(5 * SECOND);
            let flows: Vec<_> = (0..6).map(|port| pair.world.flow(pair.a, pair.b, flow(port))).collect();
            for (from, to) in [(0, 1), (1, 2), (2, 0), (0, 2)] {
                pair.world.run_for(Duration::from_millis(10));
                pair.world.of(pair.router).move_rings(0, from, to);
            }
            pair.world.run_for(SECOND);
            pair.world.forbid(Permit::Disorder);
            pair.world.flow(pair.a, pair.b, flow(7));
            pair.world.run_for(SECOND);
            for flow in flows {
                assert_eq!(pair.world.tally(flow).received, 500, "{}", pair.world.drops());
            }
            pair.world.finish();
        }
    }
}

/// Each CPU has a ring; they go round, so that at times a CPU has all of them and others none.
#[test]
fn rings_of_one_card_that_go_round_the_cpus_under_load_lose_nothing() {
    for family in Family::BOTH {
        for seed in seeds(5) {
            let shape = Shape { cpus: 3, rings: 3, rss: Rss::Wrong };
            let mut pair = pair("rings_go_round", seed, shape);
            pair.world.stalls = 100_000;
            pair.world.allow(Permit::Disorder);
            let flow =
                |port| Flow::to(family.addr(2, 2)).ports(port, 9).count(500).gap(Duration::from_micros(100));
            (0..9).for_each(|port| _ = pair.world.flow(pair.a, pair.b, flow(port).count(1)));
            pair.world.run_for(5 * SECOND);
            let flows: Vec<_> = (0..9).map(|port| pair.world.flow(pair.a, pair.b, flow(port))).collect();
            for (port, from, to) in [(0, 0, 1), (1, 1, 2), (0, 1, 2), (1, 2, 0), (0, 2, 1), (1, 0, 1)] {
                pair.world.run_for(Duration::from_millis(6));
                pair.world.of(pair.router).move_rings(port, from, to);
            }
            pair.world.run_for(SECOND);
            for flow in flows {
                assert_eq!(pair.world.tally(flow).received, 500, "{}", pair.world.drops());
            }
            let at = |cpu: usize, world: &mut World| world.of(pair.router).cpus[cpu].netisr.rings().count();
            assert_eq!([0, 1, 2].map(|cpu| at(cpu, &mut pair.world)), [0, 6, 0]);
            pair.world.finish();
        }
    }
}

#[test]
fn a_ring_that_is_not_there_or_a_cpu_that_is_not_there_moves_nothing() {
    let mut pair = pair("no_such_ring", 1, Shape { cpus: 2, rings: 2, rss: Rss::Wrong });
    let router = pair.world.of(pair.router);
    let netisr = &mut router.cpus[0].netisr;
    let mut try_to = |queue, to| netisr.move_ring(ifindex(0), queue, CpuId(to), Box::new(|_| ()));
    assert_eq!([try_to(1, 1), try_to(7, 1), try_to(0, 2)], [Err(NoSuchRing); 3]);
    assert_eq!(try_to(0, 0), Ok(()), "to where it is");
    assert_eq!(netisr.rings().count(), 2);
    pair.world.finish();
}

#[test]
fn an_interface_that_is_removed_under_load_leaves_no_buffer_behind() {
    for family in Family::BOTH {
        for seed in seeds(4) {
            let mut pair = pair("if_removed", seed, Shape { cpus: 4, rings: 2, rss: Rss::Wrong });
            pair.world.stalls = 100_000;
            let flow =
                |port| Flow::to(family.addr(2, 2)).ports(port, 9).count(400).gap(Duration::from_micros(100));
            (0..8).for_each(|port| _ = pair.world.flow(pair.a, pair.b, flow(port)));
            pair.world.run_for(Duration::from_millis(10));
            pair.world.of(pair.router).change(|spec| spec.ports[1].exists = false);
            pair.world.run_for(Duration::from_millis(10));
            let index = ifindex(1);
            pair.world.of(pair.router).tour(move |netisr| drop(netisr.detach(index)), || {});
            pair.world.run_for(SECOND);
            let handled = pair.world.of(pair.router).count(Count::Messages);
            assert!(handled > 0);
            pair.world.finish();
        }
    }
}

/// While the change is on its way, some CPUs ask others for neighbours on a link that those hold for gone.
#[test]
fn a_flapping_interface_under_load_leaves_no_waiter() {
    for family in Family::BOTH {
        for seed in seeds(12) {
            let mut pair = pair("flap", seed, Shape { cpus: 4, rings: 2, rss: Rss::Wrong });
            pair.world.stalls = 500_000;
            let flow =
                |port| Flow::to(family.addr(2, 2)).ports(port, 9).count(200).gap(Duration::from_micros(100));
            (0..16).for_each(|port| _ = pair.world.flow(pair.a, pair.b, flow(port)));
            for up in [false, true, false, true] {
                pair.world.run_for(Duration::from_millis(1));
                pair.world.of(pair.router).change(|spec| spec.ports[1].up = up);
            }
            pair.world.run_for(15 * SECOND);
            let late = pair.world.flow(pair.a, pair.b, flow(9).count(1));
            pair.world.run_for(SECOND);
            assert_eq!(pair.world.tally(late).received, 1, "{}", pair.world.drops());
            pair.world.finish();
        }
    }
}
