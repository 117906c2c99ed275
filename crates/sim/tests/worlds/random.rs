//! Worlds that seeds think up.

use crate::common::seeds;

#[test]
fn random_worlds_end_well() {
    for seed in seeds(20) {
        let (world, broken) = sim::world::explore("random_worlds", seed);
        assert!(broken.is_empty(), "{broken:#?}");
        world.forget();
    }
}
