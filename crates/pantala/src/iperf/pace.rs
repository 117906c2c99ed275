//! The rate of a sender: when the next block is due.

use core::time::Duration;
use std::time::Instant;

/// A sender that is later than this does not catch up: buffers of receivers have no room for longer bursts.
const LATE_MAX: Duration = Duration::from_millis(20);

/// A clock of bits: blocks are due at their time, not at a distance from the last one.
pub(super) struct Pace {
    bits_per_second: u64,
    due: Instant,
}

impl Pace {
    pub(super) const fn new(bits_per_second: u64, begun: Instant) -> Self {
        Self { bits_per_second, due: begun }
    }

    /// Returns how long to wait before the next block at `now`; nothing if there is no limit.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        self.due.saturating_duration_since(now)
    }

    /// Counts what was sent.
    pub(super) fn sent(&mut self, bytes: usize, now: Instant) {
        if self.bits_per_second == 0 {
            return;
        }
        let ns = (bytes as u128 * 8 * 1_000_000_000) / u128::from(self.bits_per_second);
        self.due += Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX).min(1 << 50));
        if now.saturating_duration_since(self.due) > LATE_MAX {
            self.due = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_due_at_the_rate_and_a_late_sender_does_not_send_a_burst() {
        let begun = Instant::now();
        let mut pace = Pace::new(8_000_000, begun);
        for _ in 0..1000 {
            pace.sent(1000, begun);
        }
        assert_eq!(pace.wait(begun), Duration::from_secs(1));
        let late = begun + Duration::from_secs(10);
        pace.sent(1000, late);
        assert_eq!(pace.wait(late), Duration::ZERO);
        pace.sent(1000, late);
        assert_eq!(pace.wait(late), Duration::from_millis(1));
        let mut unlimited = Pace::new(0, begun);
        unlimited.sent(1 << 30, begun);
        assert_eq!(unlimited.wait(begun), Duration::ZERO);
    }
}
