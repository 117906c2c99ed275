//! Output queues: doorbells, byte limits, disciplines, and devices that cannot send.

use net::count::Count;
use net::drop::DropReason;
use net::ifq::QueueSpec;
use net::time::Duration;
use sim::cable;
use sim::host::{Port, ifindex};
use sim::mem::Rss;
use sim::plan::Family;
use sim::station::{Flow, FlowId};

use crate::common::{Pair, Shape, pair_with};

const SECOND: Duration = Duration::from_secs(1);
/// The way out of the router is slow: a full frame takes 1.2 ms.
const SLOW: cable::Spec = cable::Spec {
    delay: Duration::from_micros(10),
    rate_bps: Some(10_000_000),
    mtu: 1500,
    loss: 0,
    duplicate: 0,
    reorder: 0,
    corrupt: 0,
};
/// 12 Mbit/s of frames of 1442 bytes.
const BULK_GAP: Duration = Duration::from_micros(960);

/// A router to a slow link, whose neighbours are known.
fn slow(name: &str, shape: Shape, queue: QueueSpec) -> Pair {
    let port = |port: Port| port.queue(queue).card(|card| card.allowance = 1024);
    warm(pair_with(name, 1, shape, port, [cable::Spec::default(), SLOW]))
}

/// The neighbours have been asked for.
fn warm(mut pair: Pair) -> Pair {
    for (at, family) in [1, 2].into_iter().zip(Family::BOTH) {
        pair.world.at(pair.a).ping(family.addr(2, 2), [9, at], 8);
    }
    // What they ask each other later, they ask five seconds after their first packet (RFC 4861 §7.3.3).
    pair.world.run_for(7 * SECOND);
    pair
}

fn bulk(family: Family) -> Flow {
    Flow::to(family.addr(2, 2)).gap(BULK_GAP).len(1400)
}

fn sparse(family: Family) -> Flow {
    Flow::to(family.addr(2, 2)).ports(53, 53).gap(Duration::from_millis(20)).len(100)
}

fn longest(pair: &Pair, flow: FlowId) -> Duration {
    pair.world.delays(flow).into_iter().max().unwrap_or(Duration::MAX)
}

/// Returns the router's counts since `before`.
fn since(pair: &mut Pair, before: [u64; 2]) -> [u64; 2] {
    let router = pair.world.of(pair.router);
    [router.count(Count::TxPackets) - before[0], router.count(Count::Doorbells) - before[1]]
}

#[test]
fn packets_that_come_singly_have_a_doorbell_each_and_leave_in_the_turn_they_came_in() {
    for family in Family::BOTH {
        for spec in [QueueSpec::FIFO, QueueSpec::FQ_CODEL] {
            let fast = cable::Spec::default();
            let mut pair = warm(pair_with("single", 1, Shape::SIMPLE, |port| port.queue(spec), [fast; 2]));
            let before = since(&mut pair, [0, 0]);
            let flow = pair.world.flow(pair.a, pair.b, Flow::to(family.addr(2, 2)).count(50));
            pair.world.run_for(SECOND);
            assert_eq!(since(&mut pair, before), [50, 50], "packets and doorbells");
            let on_cables = 2 * fast.delay;
            assert!(
                longest(&pair, flow) <= on_cables + Duration::from_micros(1),
                "{:?}",
                longest(&pair, flow)
            );
            pair.world.finish();
        }
    }
}

#[test]
fn under_load_there_is_at_most_one_doorbell_for_sixteen_packets() {
    for family in Family::BOTH {
        let big =
            |port: Port| port.card(|card| (card.ring_len, card.allowance, card.memory) = (512, 1500, 2000));
        let mut pair = warm(pair_with("load", 1, Shape::SIMPLE, big, [cable::Spec::default(); 2]));
        let before = since(&mut pair, [0, 0]);
        let flow = Flow::to(family.addr(2, 2)).count(20_000).gap(Duration::from_nanos(100));
        let flow = pair.world.flow(pair.a, pair.b, flow);
        pair.world.run_for(SECOND);
        let [packets, doorbells] = since(&mut pair, before);
        assert!(doorbells * 16 <= packets, "{doorbells} doorbells for {packets} packets");
        assert!(pair.world.tally(flow).received > 10_000);
        pair.world.finish();
    }
}

#[test]
fn beside_a_greedy_flow_a_sparse_one_waits_long_in_a_fifo_and_hardly_in_fq_codel() {
    for family in Family::BOTH {
        for (spec, shape) in [
            (QueueSpec::FIFO, Shape::SIMPLE),
            (QueueSpec::FQ_CODEL, Shape::SIMPLE),
            (QueueSpec::FQ_CODEL, Shape { cpus: 4, rings: 1, rss: Rss::Absent }),
        ] {
            let mut pair = slow("sparse", shape, spec);
            pair.world.flow(pair.a, pair.b, bulk(family).count(2000));
            let seldom = pair.world.flow(pair.a, pair.b, sparse(family).count(90));
            pair.world.run_for(5 * SECOND);
            let (longest, tally) = (longest(&pair, seldom), pair.world.tally(seldom));
            if spec == QueueSpec::FIFO {
                assert!(longest > Duration::from_millis(200), "{longest:?}");
            } else {
                assert!(longest < Duration::from_millis(8), "{longest:?} with {shape:?}", shape = shape.cpus);
                assert_eq!(tally.received, 90);
            }
            pair.world.finish();
        }
    }
}

#[test]
fn two_greedy_flows_share_a_link_by_bytes_whatever_they_offer() {
    for family in Family::BOTH {
        for cpus in [1, 3] {
            let shape = Shape { cpus, rings: 1, rss: Rss::Absent };
            let mut pair = slow("fair", shape, QueueSpec::FQ_CODEL);
            let modest = pair.world.flow(pair.a, pair.b, bulk(family).count(5000));
            let small = Flow::to(family.addr(2, 2)).ports(7, 7).gap(Duration::from_micros(120)).len(300);
            let greedy = pair.world.flow(pair.a, pair.b, small.count(40_000));
            pair.world.run_for(4 * SECOND);
            let bytes = |flow, len: u64| u64::from(pair.world.tally(flow).received) * len;
            let (modest, greedy) = (bytes(modest, 1442), bytes(greedy, 342));
            assert!(modest.abs_diff(greedy) * 10 < modest + greedy, "{modest} and {greedy} bytes");
            assert!(modest + greedy > 4_500_000, "the link is busy: {modest} and {greedy} bytes of 5 MB");
            pair.world.run_for(5 * SECOND);
            pair.world.finish();
        }
    }
}

#[test]
fn codel_brings_a_standing_queue_down_to_its_target() {
    for family in Family::BOTH {
        let mut pair = slow("standing", Shape::SIMPLE, QueueSpec::FQ_CODEL);
        let flow =
            pair.world.flow(pair.a, pair.b, bulk(family).gap(Duration::from_micros(1090)).count(12_000));
        pair.world.run_for(15 * SECOND);
        let mut delays = pair.world.delays(flow);
        let highest = delays.iter().max().copied().unwrap_or_default();
        let mut last = delays.split_off(delays.len() - 1000);
        last.sort_unstable();
        assert!(highest > Duration::from_millis(30), "there was a queue: {highest:?}");
        assert!(last[500] < Duration::from_millis(25), "half of the last waited for {:?}", last[500]);
        assert!(pair.world.of(pair.router).dropped(DropReason::IfqCodel) > 100);
        pair.world.finish();
    }
}

#[test]
fn a_flow_that_understands_marks_is_marked_and_loses_nothing() {
    for family in Family::BOTH {
        let mut pair = slow("marks", Shape::SIMPLE, QueueSpec::FQ_CODEL);
        let flow = pair.world.flow(pair.a, pair.b, bulk(family).ect().count(1500));
        pair.world.run_for(5 * SECOND);
        let (tally, router) = (pair.world.tally(flow), pair.router);
        assert_eq!(tally.received, 1500);
        assert!(tally.marked > 10, "{}", tally.marked);
        assert_eq!(pair.world.of(router).count(Count::EcnMarked), u64::from(tally.marked));
        pair.world.finish();
    }
}

/// The card has room for 64 frames; without a limit of its own it would hold 77 ms of them.
#[test]
fn a_ring_holds_only_what_keeps_it_busy() {
    let mut pair = slow("bql", Shape::SIMPLE, QueueSpec::FIFO);
    let flow = pair.world.flow(pair.a, pair.b, bulk(Family::V4).count(3000));
    pair.world.run_for(2 * SECOND);
    let state = pair.world.of(pair.router).cpus[0].netisr.cpu.ifqs.state(ifindex(1)).expect("a queue");
    assert!(state.packets > 100, "the queue is here: {state:?}");
    let byte_limit = state.byte_limit.unwrap_or(usize::MAX);
    assert!(byte_limit < 10 * 1514 && state.in_flight <= byte_limit + 1514, "{state:?}");
    pair.world.run_for(2 * SECOND);
    // 10 Mbit/s of 1442 bytes: no time was lost.
    let received = pair.world.tally(flow).received;
    assert!(received > 2800, "{received}");
    pair.world.finish();
}

#[test]
fn a_full_queue_is_the_owners_and_what_it_drops_has_one_name() {
    for (spec, cpus) in [(QueueSpec::FIFO, 1), (QueueSpec::FIFO, 3), (QueueSpec::FQ_CODEL, 3)] {
        let spec = QueueSpec { packets_max: 50, ..spec };
        let mut pair = slow("full", Shape { cpus, rings: 1, rss: Rss::Absent }, spec);
        for port in 1..=20 {
            let flow = Flow::to(Family::V6.addr(2, 2)).ports(port, 9).gap(Duration::from_millis(2)).len(700);
            pair.world.flow(pair.a, pair.b, flow.count(500));
        }
        let mut most = 0;
        for _ in 0..20 {
            pair.world.run_for(Duration::from_millis(50));
            let cpus = &pair.world.of(pair.router).cpus;
            let queued = |cpu: &sim::host::SimCpu| {
                cpu.netisr.cpu.ifqs.state(ifindex(1)).map_or(0, |state| state.packets)
            };
            assert_eq!(
                cpus.iter().skip(1).map(queued).sum::<usize>(),
                0,
                "only the owner of the ring queues"
            );
            most = most.max(queued(&cpus[0]));
        }
        // The queue, and what had left it when the ring was full.
        assert!((30..=50 + 64).contains(&most), "{most} packets");
        pair.world.run_for(5 * SECOND);
        let router = pair.world.of(pair.router);
        assert!(router.dropped(DropReason::IfqFull) > 500);
        assert_eq!(router.dropped(DropReason::HandoffFull), 0);
        pair.world.finish();
    }
}

/// Packets queued for one link keep buffers from a ring that receives for others too.
#[test]
fn a_queue_does_not_starve_the_ring_that_its_packets_came_by() {
    for spec in [QueueSpec::FIFO, QueueSpec::FQ_CODEL] {
        let few = |port: Port| port.queue(spec).card(|card| card.allowance = 256);
        let mut pair = warm(pair_with("starve", 1, Shape::SIMPLE, few, [cable::Spec::default(), SLOW]));
        pair.world.flow(pair.a, pair.b, bulk(Family::V4).gap(Duration::from_micros(200)).count(5000));
        pair.world.run_for(Duration::from_millis(500));
        for seq in 1..=100 {
            pair.world.at(pair.a).ping(Family::V4.addr(1, 1), [78, seq], 8);
            pair.world.run_for(Duration::from_millis(5));
        }
        assert!(pair.world.at(pair.a).replies(78) >= 99, "{}", pair.world.at(pair.a).replies(78));
        assert_eq!(pair.world.of(pair.router).nics[0].counts().dropped, 0);
        pair.world.run_for(5 * SECOND);
        pair.world.finish();
    }
}

#[test]
fn an_interface_that_goes_down_or_away_frees_its_queue() {
    for (exists, reason) in [(true, DropReason::InterfaceDown), (false, DropReason::InterfaceGone)] {
        for cpus in [1, 2] {
            let mut pair = slow("down", Shape { cpus, rings: 1, rss: Rss::Absent }, QueueSpec::FIFO);
            pair.world.flow(pair.a, pair.b, bulk(Family::V4).gap(Duration::from_micros(100)).count(1000));
            pair.world.run_for(Duration::from_millis(90));
            let queued =
                pair.world.of(pair.router).cpus[0].netisr.cpu.ifqs.state(ifindex(1)).unwrap().packets;
            assert!(queued > 100, "{queued}");
            assert!(
                pair.world
                    .of(pair.router)
                    .change(|spec| (spec.ports[1].up, spec.ports[1].exists) = (false, exists))
            );
            pair.world.run_for(Duration::from_millis(1));
            let router = pair.world.of(pair.router);
            let state = router.cpus[0].netisr.cpu.ifqs.state(ifindex(1)).unwrap();
            assert_eq!((state.packets, state.bytes), (0, 0));
            assert!(router.dropped(reason) >= queued as u64 - 2, "{:?}", router.drops());
            pair.world.run_for(SECOND);
            pair.world.finish();
        }
    }
}

#[test]
fn a_device_without_a_link_frees_its_queue_lets_its_cpu_sleep_and_goes_on_later() {
    for family in Family::BOTH {
        let mut pair = slow("no_link", Shape::SIMPLE, QueueSpec::FQ_CODEL);
        pair.world.of(pair.router).nics[1].set_link(false);
        pair.world.flow(pair.a, pair.b, bulk(family).count(500));
        pair.world.run_for(SECOND);
        let (router, turns) = (pair.router, |pair: &mut Pair| pair.world.of(pair.router).count(Count::Turns));
        let dropped = pair.world.of(router).dropped(DropReason::LinkDown);
        assert!(dropped > 300, "{dropped}");
        assert_eq!(pair.world.of(router).cpus[0].netisr.cpu.ifqs.state(ifindex(1)).unwrap().packets, 0);
        let before = turns(&mut pair);
        pair.world.run_for(10 * SECOND);
        let idle = turns(&mut pair) - before;
        assert!(idle < 300, "{idle} turns in 10 s with nothing to do");
        pair.world.of(router).nics[1].set_link(true);
        pair.world.run_for(SECOND);
        let again = pair.world.flow(pair.a, pair.b, sparse(family).count(20));
        pair.world.run_for(SECOND);
        assert_eq!(pair.world.tally(again).received, 20);
        pair.world.finish();
    }
}

#[test]
fn a_card_pulled_out_with_a_full_queue_keeps_nothing() {
    let mut pair = slow("pulled", Shape::SIMPLE, QueueSpec::FIFO);
    pair.world.flow(pair.a, pair.b, bulk(Family::V6).gap(Duration::from_micros(100)).count(1000));
    pair.world.run_for(Duration::from_millis(50));
    pair.world.of(pair.router).nics[1].pull_out();
    pair.world.run_for(SECOND);
    let state = pair.world.of(pair.router).cpus[0].netisr.cpu.ifqs.state(ifindex(1)).unwrap();
    assert_eq!(state.packets, 0);
    pair.world.finish();
}

#[test]
fn our_own_answers_do_not_wait_behind_a_full_fifo() {
    for family in Family::BOTH {
        let mut pair = slow("urgent", Shape::SIMPLE, QueueSpec { packets_max: 100, ..QueueSpec::FIFO });
        pair.world.flow(pair.a, pair.b, bulk(family).gap(Duration::from_micros(500)).count(4000));
        pair.world.run_for(SECOND);
        for seq in 1..=10 {
            pair.world.at(pair.b).ping(family.addr(2, 1), [77, seq], 8);
            pair.world.run_for(Duration::from_millis(10));
        }
        assert!(pair.world.at(pair.b).replies(77) >= 9, "answered within 10 ms, before a queue of 100 ms");
        pair.world.run_for(5 * SECOND);
        pair.world.finish();
    }
}
