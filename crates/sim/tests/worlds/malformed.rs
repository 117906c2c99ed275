//! Broken frames of all kinds, from a seed.

use net::time::Duration;
use sim::mem::Rss;
use sim::mutate::Mutator;
use sim::plan::{self, Family};

use crate::common::{Shape, pair, seeds};
use sim::world::Permit;

/// Frames in each world.
const FRAMES: usize = 12_500;
/// Frames that are sent at a time.
const BURST: usize = 50;

/// 100 000 frames with 8 seeds; a million with 80.
#[test]
fn of_nonsense_nothing_comes_but_counted_drops() {
    for seed in seeds(8) {
        let rss = if seed % 2 == 0 { Rss::Wrong } else { Rss::Right };
        let cpus = u16::try_from(seed % 4 + 1).unwrap_or(1);
        let shape = Shape { cpus, rings: 2, rss };
        let mut pair = pair("nonsense", seed, shape);
        pair.world.allow(Permit::Nonsense);
        pair.world.stalls = 20_000;
        for family in Family::BOTH {
            pair.world.at(pair.a).ping(family.addr(2, 2), [1, 1], 8);
        }
        let random = pair.world.random().fork();
        let mut mutator = Mutator::new(random, 1, 2, [plan::mac(1, 2), plan::mac(1, 1)]);
        for _ in 0..FRAMES / BURST {
            for _ in 0..BURST {
                pair.world.at(pair.a).send_frame(mutator.next_frame());
            }
            pair.world.run_for(Duration::from_micros(200));
        }
        pair.world.run_for(Duration::from_secs(60));
        pair.world.forbid(Permit::Nonsense);
        let reasons = pair.world.of(pair.router).drops().len();
        assert!(reasons > 20, "only {reasons} reasons to drop anything");
        pair.world.at(pair.a).ping(Family::V4.addr(1, 1), [2, 2], 8);
        pair.world.at(pair.a).ping(Family::V6.addr(1, 1), [2, 2], 8);
        pair.world.run_for(Duration::from_secs(60));
        assert_eq!(pair.world.at(pair.a).replies(2), 2, "the router still answers\n{}", pair.world.drops());
        pair.world.finish();
    }
}
