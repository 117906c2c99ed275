//! No limit is passed, and what is given back is gone, in all interleavings.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::AcqRel};
use loom::thread;
use pkt::shared_limit::Tally;

const KEY: u64 = 0x1234_5678_9abc_0000;
const OTHER: u64 = 0x2234_5678_9abc_0000;

/// Counts up, is inside together with others, and counts down again. Returns whether it was let in.
fn pass(tally: &Tally, inside: &AtomicUsize, limit: u16) -> bool {
    let is_in = tally.take(KEY, limit).is_ok();
    if is_in {
        assert!(inside.fetch_add(1, AcqRel) < usize::from(limit), "more than the limit");
        inside.fetch_sub(1, AcqRel);
        tally.give(KEY);
    }
    is_in
}

#[test]
fn two_threads_that_create_a_number_create_one() {
    loom::model(|| {
        let (tally, inside) = (Arc::new(Tally::new(1)), Arc::new(AtomicUsize::new(0)));
        let (theirs, inside2) = (Arc::clone(&tally), Arc::clone(&inside));
        let other = thread::spawn(move || pass(&theirs, &inside2, 1));
        pass(&tally, &inside, 1);
        other.join().unwrap();
        assert_eq!(tally.get(KEY), 0);
        assert!(tally.take(KEY, 1).is_ok() && tally.take(KEY, 1).is_err());
    });
}

#[test]
fn a_number_that_ends_while_it_is_begun_again_is_one_number() {
    loom::model(|| {
        let tally = Arc::new(Tally::new(1));
        assert!(tally.take(OTHER, 1).is_ok() && tally.take(KEY, 2).is_ok());
        let theirs = Arc::clone(&tally);
        let other = thread::spawn(move || {
            theirs.give(OTHER);
            theirs.take(KEY, 2).is_ok()
        });
        tally.give(KEY);
        let is_in = tally.take(KEY, 2).is_ok();
        let other_is_in = other.join().unwrap();
        assert_eq!(usize::from(tally.get(KEY)), usize::from(is_in) + usize::from(other_is_in));
    });
}
