//! Two hosts, and a man in the middle that changes segments and datagrams.

use sim::fuzz_bodies::hosts;
use sim::random::Random;

use crate::common::seeds;

/// Connections in each of these worlds.
const CONNECTIONS: usize = 300;
/// Packets that are changed in each of these worlds, at the least.
const CHANGED: u64 = 1000;

#[test]
fn of_segments_that_are_changed_on_their_way_nothing_comes_but_counted_drops() {
    for seed in seeds(4) {
        let mut random = Random::new(seed);
        let data: Vec<u8> = (0..64).map(|_| random.byte()).collect();
        let changed = hosts(&data, CONNECTIONS);
        assert!(changed >= CHANGED, "{changed} with seed {seed}");
    }
}
