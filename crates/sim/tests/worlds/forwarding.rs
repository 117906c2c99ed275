//! Packets that go through.

use net::count::Count;
use net::ifq::QueueSpec;
use net::time::Duration;
use sim::cable;
use sim::mem::Rss;
use sim::plan::Family;
use sim::station::Flow;

use crate::common::{Pair, Shape, pair, pair_around, pair_with, seeds};

const SECOND: Duration = Duration::from_secs(1);

/// Eight flows in each direction and family, which hash to different CPUs.
fn flows(pair: &mut Pair, count: u32, gap: Duration) -> Vec<sim::station::FlowId> {
    let mut flows = Vec::new();
    for family in Family::BOTH {
        for port in 0..8 {
            let flow = |net| Flow::to(family.addr(net, 2)).ports(1000 + port, 53).count(count).gap(gap);
            flows.push(pair.world.flow(pair.a, pair.b, flow(2)));
            flows.push(pair.world.flow(pair.b, pair.a, flow(1)));
        }
    }
    flows
}

#[test]
fn flows_arrive_whole_and_in_order_whatever_the_card_hashes() {
    for shape in Shape::several() {
        for seed in seeds(2) {
            // 640 packets come in the millisecond that a CPU may lose its processor for, and again in the next; an output
            // queue holds a quarter of the CPU's buffers.
            let roomy = |router: sim::host::Spec| router.buffers(8192);
            let ample = |port: sim::host::Port| port.card(|card| card.memory = 4096);
            let cables = [cable::Spec::default(); 2];
            let mut pair = pair_around("flows", seed, shape, roomy, ample, cables);
            pair.world.stalls = 100_000;
            // Only so many packets are held while neighbours are looked for: first one of each flow.
            flows(&mut pair, 1, SECOND);
            pair.world.run_for(SECOND);
            let flows = flows(&mut pair, 200, Duration::from_micros(50));
            pair.world.run_for(SECOND);
            for flow in flows {
                assert_eq!(pair.world.tally(flow).received, 200, "{flow:?}\n{}", pair.world.drops());
            }
            pair.world.finish();
        }
    }
}

#[test]
fn each_cpu_forwards_its_share() {
    let mut pair = pair("share", 1, Shape { cpus: 4, rings: 1, rss: Rss::Absent });
    flows(&mut pair, 100, Duration::from_micros(100));
    pair.world.run_for(SECOND);
    for cpu in &pair.world.of(pair.router).cpus {
        let events = &cpu.shared.counters.events;
        assert!(events.get(Count::Ip4Forwarded) + events.get(Count::Ip6Forwarded) > 100);
    }
    pair.world.finish();
}

#[test]
fn on_bad_cables_every_packet_is_accounted_for() {
    for seed in seeds(6) {
        let bad = cable::Spec {
            loss: 20_000,
            duplicate: 20_000,
            reorder: 50_000,
            corrupt: 10_000,
            ..cable::Spec::default()
        };
        let shape = Shape { cpus: 3, rings: 2, rss: Rss::Wrong };
        let mut pair = pair_with("bad_cables", seed, shape, |port| port, [bad; 2]);
        pair.world.stalls = 100_000;
        flows(&mut pair, 300, Duration::from_micros(100));
        pair.world.run_for(SECOND);
        pair.world.finish();
    }
}

#[test]
fn a_full_transmit_ring_pushes_back_and_loses_nothing() {
    for family in Family::BOTH {
        let slow = cable::Spec { rate_bps: Some(10_000_000), ..cable::Spec::default() };
        let shape = Shape { cpus: 2, rings: 2, rss: Rss::Right };
        // Fewer bytes than the smallest byte limit: the ring itself is full.
        let tiny = |port: sim::host::Port| {
            port.card(|card| (card.ring_len, card.allowance) = (8, 1024)).queue(QueueSpec::FIFO)
        };
        let mut pair = pair_with("full_tx", 1, shape, tiny, [cable::Spec::default(), slow]);
        pair.world.at(pair.a).ping(family.addr(2, 2), [1, 1], 8);
        pair.world.run_for(5 * SECOND);
        let flow = Flow::to(family.addr(2, 2)).count(300).gap(Duration::from_micros(20)).len(100);
        let flow = pair.world.flow(pair.a, pair.b, flow);
        pair.world.run_for(SECOND);
        let tx_full: u64 = {
            let cpus = &pair.world.of(pair.router).cpus;
            cpus.iter().flat_map(|cpu| cpu.netisr.rings()).map(|ring| ring.driver().stats().tx_full).sum()
        };
        assert!(tx_full > 0);
        assert_eq!(pair.world.tally(flow).received, 300, "{}", pair.world.drops());
        pair.world.finish();
    }
}

#[test]
fn a_card_that_refuses_frames_keeps_none_of_their_buffers() {
    let mut pair = pair("refused", 1, Shape::SIMPLE);
    pair.world.at(pair.a).ping(Family::V4.addr(2, 2), [1, 1], 8);
    pair.world.run_for(5 * SECOND);
    pair.world.of(pair.router).nics[1].refuse(3);
    let flow = pair.world.flow(pair.a, pair.b, Flow::to(Family::V4.addr(2, 2)).count(10));
    pair.world.run_for(SECOND);
    assert_eq!(pair.world.tally(flow).received, 7);
    pair.world.finish();
}

/// Freed buffers wake no CPU on their way home; but a ring whose buffers all died elsewhere must be filled again.
#[test]
fn a_ring_whose_buffers_all_died_elsewhere_goes_on_receiving() {
    for family in Family::BOTH {
        for seed in seeds(4) {
            let shape = Shape { cpus: 4, rings: 1, rss: Rss::Absent };
            let meagre = |port: sim::host::Port| {
                port.card(|card| (card.ring_len, card.allowance, card.memory) = (8, 8, 0))
            };
            let mut pair = pair_with("meagre", seed, shape, meagre, [cable::Spec::default(); 2]);
            pair.world.stalls = 100_000;
            flows(&mut pair, 50, Duration::from_micros(1));
            pair.world.run_for(2 * SECOND);
            let late = Flow::to(family.addr(2, 2)).ports(9, 9).count(100);
            let late = pair.world.flow(pair.a, pair.b, late);
            pair.world.run_for(SECOND);
            let received = pair.world.tally(late).received;
            assert!(received > 90, "{received} of 100 after the ring was empty");
            pair.world.finish();
        }
    }
}
