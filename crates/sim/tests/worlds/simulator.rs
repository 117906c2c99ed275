//! The simulator itself: cables, cards, stations, time, and the checks.

use net::time::Duration;
use sim::cable;
use sim::host::{Port, Spec};
use sim::mem::Rss;
use sim::plan::{self, Family};
use sim::station::Flow;
use sim::world::{Check, World};

use crate::common::{BOOT, Shape, pair, seeds, station};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn two_stations_on_a_cable_find_and_answer_each_other() {
    for family in Family::BOTH {
        let mut world = World::new("two_stations", 1);
        let cable = world.cable(cable::Spec::default());
        let [a, b] = [1, 2].map(|host| world.station(cable, station(1, host)));
        world.at(a).ping(family.addr(1, 2), [7, 0], 5000);
        world.run_for(SECOND);
        assert_eq!(world.at(a).replies(7), 1);
        assert_eq!(world.at(b).heard.len(), 1);
        world.finish();
    }
}

#[test]
fn a_bad_cable_loses_doubles_and_reorders_and_stations_notice() {
    let mut world = World::new("bad_cable", 1);
    let spec = cable::Spec { loss: 100_000, duplicate: 100_000, reorder: 100_000, ..cable::Spec::default() };
    let cable = world.cable(spec);
    let [a, b] = [1, 2].map(|host| world.station(cable, station(1, host)));
    world.at(a).learn(Family::V4.addr(1, 2), plan::mac(1, 2));
    let flow = Flow::to(Family::V4.addr(1, 2)).count(1000).gap(Duration::from_micros(20));
    let flow = world.flow(a, b, flow);
    world.run_for(SECOND);
    let (tally, counts) = (world.tally(flow), world.on(cable).counts);
    assert!(counts.lost > 0 && counts.duplicated > 0 && counts.reordered > 0, "{counts:?}");
    assert_eq!(u64::from(tally.received), 1000 - counts.lost);
    assert_eq!(u64::from(tally.duplicates), counts.duplicated);
    assert!(tally.late > 0);
    world.finish();
}

#[test]
fn a_slow_cable_takes_its_time() {
    let mut world = World::new("slow_cable", 1);
    let cable = world.cable(cable::Spec { rate_bps: Some(1_000_000), ..cable::Spec::default() });
    let [a, b] = [1, 2].map(|host| world.station(cable, station(1, host)));
    world.at(a).learn(Family::V4.addr(1, 2), plan::mac(1, 2));
    let flow = Flow::to(Family::V4.addr(1, 2)).count(100).gap(Duration::ZERO).len(1250 - 42);
    let flow = world.flow(a, b, flow);
    // 1250 bytes are 10 000 bits: 10 ms each.
    world.run_for(Duration::from_millis(505));
    assert_eq!(world.tally(flow).received, 50);
    world.finish();
}

#[test]
fn a_host_at_rest_has_all_its_buffers() {
    for shape in Shape::several() {
        for seed in seeds(2) {
            let mut pair = pair("at_rest", seed, shape);
            for family in Family::BOTH {
                let flow = Flow::to(family.addr(2, 2)).count(500).gap(Duration::from_micros(1));
                pair.world.flow(pair.a, pair.b, flow);
            }
            pair.world.run_for(SECOND);
            pair.world.finish();
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_world() {
    let digest = |seed| {
        let mut pair = pair("same_seed", seed, Shape { cpus: 4, rings: 2, rss: Rss::Wrong });
        pair.world.stalls = 200_000;
        pair.world.on(pair.cables[0]).spec.loss = 50_000;
        pair.world.flow(pair.a, pair.b, Flow::to(Family::V4.addr(2, 2)).count(300));
        pair.world.flow(pair.b, pair.a, Flow::to(Family::V6.addr(1, 2)).count(300));
        pair.world.run_for(SECOND);
        let digest = pair.world.digest();
        pair.world.forget();
        digest
    };
    assert_eq!(digest(3), digest(3));
    assert_ne!(digest(3), digest(4));
}

#[test]
fn a_card_whose_ring_and_memory_are_full_drops_and_counts() {
    let mut world = World::new("full_ring", 1);
    let cable = world.cable(cable::Spec::default());
    let port = Port::new(cable, 1, 1).card(|card| (card.ring_len, card.memory) = (8, 8));
    let host = world.host(Spec::host("host").port(port));
    let a = world.station(cable, station(1, 2));
    world.run_for(BOOT);
    world.at(a).learn(Family::V4.addr(1, 1), plan::mac(1, 1));
    world.of(host).cpus[0].cost.turn = Duration::from_millis(1);
    for _ in 0..100 {
        let ip = world.at(a).ip_to(Family::V4.addr(1, 1));
        world.at(a).send_udp(ip, [1, 2], b"anybody?");
    }
    world.run_for(SECOND);
    let dropped = world.of(host).nics[0].counts().dropped;
    assert!(dropped > 50 && dropped < 100, "{dropped}");
    world.finish();
}

#[test]
fn a_planted_wrong_hash_is_caught() {
    for family in Family::BOTH {
        let mut pair = pair("planted_hash", 1, Shape { cpus: 2, rings: 2, rss: Rss::Right });
        pair.world.of(pair.router).nics[0].plant_lying_hash();
        pair.world.at(pair.a).learn(family.addr(1, 1), plan::mac(1, 1));
        pair.world.flow(pair.a, pair.b, Flow::to(family.addr(2, 2)).count(10));
        pair.world.run_for(SECOND);
        let broken = pair.world.check();
        assert!(broken.iter().any(|broken| broken.check == Check::Ownership), "{broken:?}");
        pair.world.forget();
    }
}

#[test]
fn a_planted_loss_of_a_buffer_is_caught() {
    let mut pair = pair("planted_loss", 1, Shape::SIMPLE);
    pair.world.of(pair.router).nics[0].plant_lost_buffers(1);
    pair.world.at(pair.a).learn(Family::V4.addr(1, 1), plan::mac(1, 1));
    pair.world.flow(pair.a, pair.b, Flow::to(Family::V4.addr(2, 2)).count(10));
    pair.world.run_for(SECOND);
    let broken = pair.world.check();
    for check in [Check::Leak, Check::Conservation] {
        assert!(broken.iter().any(|broken| broken.check == check), "{broken:?}");
    }
    pair.world.forget();
}

#[test]
fn a_card_pulled_out_takes_no_buffer_with_it() {
    let mut pair = pair("pulled_out", 1, Shape { cpus: 2, rings: 2, rss: Rss::Right });
    pair.world.at(pair.a).learn(Family::V6.addr(1, 1), plan::mac(1, 1));
    let flow = pair.world.flow(pair.a, pair.b, Flow::to(Family::V6.addr(2, 2)).count(1000));
    pair.world.run_for(SECOND / 2);
    pair.world.of(pair.router).nics[1].pull_out();
    pair.world.run_for(SECOND);
    assert!(pair.world.tally(flow).received < 1000);
    pair.world.finish();
}
