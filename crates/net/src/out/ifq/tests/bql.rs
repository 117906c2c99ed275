use super::*;
use crate::out::ifq::bql::ByteLimit;

/// A ring that sends `rate` bytes between two looks; always as full as its limit lets it be.
struct Ring {
    limit: ByteLimit,
    held: usize,
    now: Instant,
}

impl Ring {
    fn new() -> Self {
        Self { limit: ByteLimit::default(), held: 0, now: Instant::START }
    }

    /// Gives it frames of 1000 bytes as long as it has room and there are any.
    fn fill(&mut self, mut frames: usize) {
        while frames > 0 && self.limit.room().is_some() {
            self.limit.give(1000, 1000);
            self.held += 1000;
            frames -= 1;
        }
    }

    /// Sends up to `rate` bytes, and looks.
    fn send(&mut self, rate: usize) {
        self.held = self.held.saturating_sub(rate);
        self.now = self.now + Duration::from_millis(1);
        self.limit.look(self.now, self.held);
    }
}

#[test]
fn a_ring_that_runs_dry_is_given_more_until_it_does_not() {
    let mut ring = Ring::new();
    for _ in 0..100 {
        ring.fill(1000);
        ring.send(50_000);
    }
    assert!(ring.limit.limit() >= 50_000, "{}", ring.limit.limit());
    for _ in 0..3000 {
        ring.fill(1000);
        ring.send(50_000);
        assert!(ring.held > 0, "it does not run dry any more");
    }
    assert!(ring.limit.limit() <= 110_000, "no more than it sends in two looks: {}", ring.limit.limit());
}

#[test]
fn the_ring_holds_no_more_than_one_frame_beyond_the_limit() {
    let mut ring = Ring::new();
    for rate in [3_000, 90_000, 500, 20_000] {
        for _ in 0..50 {
            ring.fill(1000);
            assert!(ring.held <= ring.limit.limit() + 1000);
            assert_eq!(ring.held, ring.limit.in_flight());
            ring.send(rate);
        }
    }
}

#[test]
fn bytes_not_needed_for_a_second_are_taken_away() {
    let mut ring = Ring::new();
    for _ in 0..100 {
        ring.fill(1000);
        ring.send(90_000);
    }
    let learned = ring.limit.limit();
    for _ in 0..500 {
        ring.fill(1000);
        ring.send(5_000);
    }
    assert_eq!(ring.limit.limit(), learned, "half a second is too early");
    for _ in 0..5_000 {
        ring.fill(1000);
        ring.send(5_000);
        assert!(ring.held > 0 || ring.limit.limit() < learned, "it never ran dry");
    }
    assert!(ring.limit.limit() < learned / 4, "{learned} became {}", ring.limit.limit());
    assert!(ring.limit.limit() >= 5_000);
}

#[test]
fn a_ring_that_is_never_pushed_to_its_limit_keeps_it() {
    let mut ring = Ring::new();
    for _ in 0..3_000 {
        ring.fill(1);
        ring.send(50_000);
    }
    assert_eq!(ring.limit.limit(), 2 * FULL);
}

#[test]
fn the_limit_stays_between_two_frames_and_eight_megabytes() {
    let mut ring = Ring::new();
    for _ in 0..40 {
        ring.fill(100_000);
        ring.send(usize::MAX);
    }
    assert_eq!(ring.limit.limit(), 8 << 20);
    for _ in 0..20_000 {
        ring.fill(100_000);
        ring.send(1);
    }
    assert!(ring.limit.limit() >= 2 * FULL);
}

#[test]
fn a_ring_that_says_nothing_new_teaches_nothing() {
    let mut ring = Ring::new();
    ring.fill(100);
    let before = ring.limit.limit();
    assert!(!ring.limit.look(Instant::from_ns(1 << 40), ring.held));
    assert_eq!((ring.limit.limit(), ring.limit.in_flight()), (before, ring.held));
}
