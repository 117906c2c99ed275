//! Neighbours come, age and go.

use net::count::Count;
use net::drop::DropReason;
use net::time::Duration;
use sim::mem::Rss;
use sim::plan::{self, Family};
use sim::station::Flow;

use crate::common::{Shape, pair, seeds};
use sim::world::Permit;

const SECOND: Duration = Duration::from_secs(1);

fn asked(family: Family) -> Count {
    match family {
        Family::V4 => Count::ArpRequestsSent,
        Family::V6 => Count::NdSolicitsSent,
    }
}

#[test]
fn the_first_packet_waits_for_its_neighbour_and_then_goes() {
    for family in Family::BOTH {
        for shape in Shape::several() {
            for seed in seeds(2) {
                let mut pair = pair("first_packet", seed, shape);
                let flow = pair.world.flow(pair.a, pair.b, Flow::to(family.addr(2, 2)).count(1));
                pair.world.run_for(SECOND);
                assert_eq!(pair.world.tally(flow).received, 1, "{}", pair.world.drops());
                assert!(pair.world.of(pair.router).count(Count::NeighHeld) >= 1);
                pair.world.finish();
            }
        }
    }
}

#[test]
fn a_neighbour_that_does_not_answer_is_given_up_and_all_that_waited_is_dropped() {
    for family in Family::BOTH {
        for seed in seeds(3) {
            let mut pair = pair("silent", seed, Shape { cpus: 4, rings: 2, rss: Rss::Wrong });
            for port in 0..8 {
                let flow = Flow::to(family.addr(2, 99)).ports(port, port).count(20).gap(SECOND / 10);
                pair.world.flow(pair.a, pair.b, flow);
            }
            pair.world.run_for(10 * SECOND);
            let router = pair.world.of(pair.router);
            assert!(router.dropped(DropReason::NeighUnreachable) > 0, "{:?}", router.drops());
            let questions = router.count(asked(family));
            assert!(questions < 50, "{questions} questions for 160 packets");
            pair.world.finish();
        }
    }
}

#[test]
fn a_neighbour_whose_link_address_changed_is_found_again() {
    for family in Family::BOTH {
        for seed in seeds(3) {
            let mut pair = pair("moved", seed, Shape { cpus: 2, rings: 2, rss: Rss::Right });
            pair.world.allow(Permit::Loss);
            pair.world.at(pair.a).ping(family.addr(2, 2), [1, 1], 8);
            pair.world.run_for(SECOND);
            pair.world.at(pair.b).mac = plan::mac(2, 77);
            let flow = Flow::to(family.addr(2, 2)).count(3000).gap(Duration::from_millis(50));
            let flow = pair.world.flow(pair.a, pair.b, flow);
            // At most as long as an entry counts as reachable (45 s), then delay and probes.
            pair.world.run_for(150 * SECOND);
            let received = pair.world.tally(flow).received;
            assert!(received > 3000 / 3, "{received}");
            pair.world.finish();
        }
    }
}

#[test]
fn a_host_answers_for_its_own_addresses_on_whichever_cpu() {
    for family in Family::BOTH {
        for shape in Shape::several() {
            let mut pair = pair("answers", 1, shape);
            pair.world.at(pair.a).ping(family.addr(1, 1), [1, 1], 8);
            let sent = |pair: &mut crate::common::Pair| {
                let router = pair.world.of(pair.router);
                match family {
                    Family::V4 => router.count(Count::ArpRepliesSent),
                    Family::V6 => router.count(Count::NdAdvertsSent),
                }
            };
            let before = sent(&mut pair);
            pair.world.run_for(SECOND);
            assert!(sent(&mut pair) > before);
            assert!(pair.world.at(pair.a).is_idle(), "the ping left");
            pair.world.finish();
        }
    }
}
