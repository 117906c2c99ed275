//! Timers of connections, in two wheels: one for deadlines within a second, one for later ones.
//!
//! Each connection with a timer stands in one of them, so the number of entries is bounded. A deadline that moves away is not
//! moved in the wheel: it is found out when the old one has come.

use crate::collections::slab::Slab;
use crate::collections::wheel::{Linked, Links, Wheel, ms};
use crate::time::Instant;

/// Slot length of the near wheel: the precision of a deadline.
const NEAR_SLOT_MS: u64 = 1;
/// Start and slot length of the far wheel. It reaches 17 minutes; later deadlines are examined then.
const FAR_MS: u64 = 1000;

/// An entry of the wheel.
#[derive(Clone, Copy, Debug, Default)]
pub struct WheelEntry {
    links: Links,
    wheel: Where,
    /// When it is looked at.
    at_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Where {
    #[default]
    Nowhere,
    Near,
    Far,
}

/// A place in a table whose deadline is kept here.
pub trait HasDeadline: Default {
    /// Returns its entry.
    fn entry(&mut self) -> &mut WheelEntry;
}

/// The deadlines of one table.
#[derive(Debug)]
pub struct DeadlineWheel {
    near: Wheel<NEAR_SLOT_MS>,
    far: Wheel<FAR_MS>,
}

impl<T: HasDeadline> Linked for T {
    #[inline]
    fn links(&mut self) -> &mut Links {
        &mut self.entry().links
    }
}

impl Default for DeadlineWheel {
    fn default() -> Self {
        Self::new()
    }
}

impl DeadlineWheel {
    /// Makes an empty one.
    #[inline]
    #[must_use]
    pub fn new() -> Self {
        Self { near: Wheel::new(), far: Wheel::new() }
    }

    /// The deadline of `at` is `due` now.
    pub fn set<T: HasDeadline>(&mut self, slab: &mut Slab<T>, at: u32, due: Instant, now: Instant) {
        let Some(entry) = slab.get_mut(at).map(|place| *place.entry()) else { return };
        let due_ms = due.ns().div_ceil(1_000_000);
        if entry.wheel != Where::Nowhere && entry.at_ms <= due_ms {
            return;
        }
        self.forget(slab, at);
        if due == Instant::NEVER {
            return;
        }
        let is_far = due_ms > ms(now) + FAR_MS;
        // In the far wheel it is looked at when its slot has come, at the latest when it is due.
        let far_ms = due_ms.saturating_sub(FAR_MS).next_multiple_of(FAR_MS);
        let (wheel, at_ms) = if is_far { (Where::Far, far_ms) } else { (Where::Near, due_ms) };
        if is_far {
            self.far.link(slab, at, at_ms);
        } else {
            self.near.link(slab, at, at_ms);
        }
        if let Some(place) = slab.get_mut(at) {
            let entry = place.entry();
            (entry.wheel, entry.at_ms) = (wheel, at_ms);
        }
    }

    /// Cancels the timer of `at`.
    #[inline]
    pub fn forget<T: HasDeadline>(&mut self, slab: &mut Slab<T>, at: u32) {
        let Some(place) = slab.get_mut(at) else { return };
        match core::mem::take(&mut place.entry().wheel) {
            Where::Nowhere => {}
            Where::Near => self.near.unlink(slab, at),
            Where::Far => self.far.unlink(slab, at),
        }
    }

    /// One whose time has come, or may have; it is waited for no more.
    #[inline]
    pub fn due<T: HasDeadline>(&mut self, slab: &mut Slab<T>, now: Instant) -> Option<u32> {
        let at = self.near.due(now).or_else(|| self.far.due(now))?;
        self.forget(slab, at);
        Some(at)
    }

    /// When to ask again.
    #[inline]
    pub fn deadline(&self) -> Instant {
        let far = self.far.deadline().unwrap_or(Instant::NEVER);
        self.near.deadline().unwrap_or(Instant::NEVER).min(far)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    #[derive(Default)]
    struct Place(WheelEntry);

    impl HasDeadline for Place {
        fn entry(&mut self) -> &mut WheelEntry {
            &mut self.0
        }
    }

    #[test]
    fn each_is_woken_within_a_millisecond_of_its_last_deadline_and_seldom_before() {
        let (mut deadlines, mut slab) = (DeadlineWheel::new(), Slab::<Place>::new());
        let start = Instant::from_ns(5_000_000_000);
        let mut dues = Vec::new();
        for n in 0..500_u64 {
            let at = slab.insert(Place::default()).unwrap();
            let first = start + Duration::from_micros(n * n * 977 % 4_000_000_000);
            deadlines.set(&mut slab, at, first, start);
            // Some sooner, some later, some not at all.
            let last = match n % 4 {
                0 => first,
                1 => start + (first.since(start) / 3),
                2 => first + Duration::from_secs(n),
                _ => Instant::NEVER,
            };
            deadlines.set(&mut slab, at, last, start);
            dues.push(last);
        }
        let (mut woken, mut looks) = (0, 0_usize);
        while deadlines.deadline() != Instant::NEVER {
            let now = deadlines.deadline();
            while let Some(at) = deadlines.due(&mut slab, now) {
                looks += 1;
                assert!(looks < 500 * 7);
                let due = dues[at as usize];
                if due <= now {
                    assert!(now.since(due) < Duration::from_millis(1), "{:?} late", now.since(due));
                    woken += 1;
                } else {
                    deadlines.set(&mut slab, at, due, now);
                }
            }
        }
        assert_eq!(woken, 375);
    }
}
