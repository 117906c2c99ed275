//! When a ring that pushed back is tried again.

use crate::base::time::{Duration, Instant};

/// First interval, as long as it takes something.
const SOON: Duration = Duration::from_micros(100);
/// Longest interval.
const LATE: Duration = Duration::from_millis(100);
/// A ring that has taken nothing for so long is worth a question to the system.
const STUCK: Duration = Duration::from_millis(10);

/// When a ring is tried again: soon as long as it moves, ever later when it does not. So a device that stands still
/// does not keep its CPU awake.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    at: Instant,
    wait: Duration,
    /// When it moved last.
    moved: Instant,
}

impl Default for Retry {
    fn default() -> Self {
        Self { at: Instant::START, wait: SOON, moved: Instant::START }
    }
}

impl Retry {
    pub(super) const fn at(&self) -> Instant {
        self.at
    }

    /// The ring pushed back; it `moved` if it took something, or has sent something. Answers whether it is stuck.
    pub(super) fn pushed_back(&mut self, now: Instant, moved: bool) -> bool {
        if moved {
            *self = Self { at: now + SOON, wait: SOON, moved: now };
            return false;
        }
        // Other reasons to turn do not make it wait longer.
        if now < self.at {
            return false;
        }
        self.wait = (self.wait * 2).min(LATE);
        self.at = now + self.wait;
        now.since(self.moved) >= STUCK
    }
}
