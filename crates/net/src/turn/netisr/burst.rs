//! Bursts: as many packets are taken from a ring in one turn as keep turns short.
//!
//! This is the ring-based polling of DragonFly for a loop without ticks. There a tick has a burst for each CPU, which
//! shrinks by one when the handlers took more than their share of the tick, by an eighth when ticks were lost, and
//! grows by one otherwise. Here a turn takes the place of the tick, and each ring has its burst.

use core::time::Duration;

use super::CHUNK;

/// The limits of a CPU in one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polling {
    /// Packets taken from a ring before the next ring has its turn: 1 to [`EACH_BURST_MAX`].
    pub each_burst: u16,
    /// Packets taken from a ring in one turn, at the most: 1 to [`BURST_MAX`].
    pub burst_max: u16,
    /// Target duration of a turn. Longer turns make bursts smaller.
    pub turn_max: Duration,
}

/// The largest [`Polling::each_burst`]: what goes through the stages together.
#[expect(clippy::cast_possible_truncation, reason = "64")]
pub const EACH_BURST_MAX: u16 = CHUNK as u16;
/// The largest [`Polling::burst_max`].
pub const BURST_MAX: u16 = 4096;

impl Default for Polling {
    fn default() -> Self {
        Self { each_burst: EACH_BURST_MAX, burst_max: 256, turn_max: Duration::from_micros(500) }
    }
}

impl Polling {
    pub(super) fn within_bounds(self) -> Self {
        Self {
            each_burst: self.each_burst.clamp(1, EACH_BURST_MAX),
            burst_max: self.burst_max.clamp(1, BURST_MAX),
            ..self
        }
    }

    pub(super) fn judge(&self, took: Duration) -> Verdict {
        if took <= self.turn_max {
            Verdict::InTime
        } else if took <= 2 * self.turn_max {
            Verdict::Long
        } else {
            Verdict::FarTooLong
        }
    }
}

/// The duration of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    InTime,
    Long,
    /// Longer than two turns should take: of ticks, some would have been lost.
    FarTooLong,
}

impl Verdict {
    pub(super) const fn is_long(self) -> bool {
        !matches!(self, Self::InTime)
    }
}

/// The burst of one ring: never below 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    size: u16,
    /// Remainder in this turn.
    left: u16,
    /// Whether the ring had frames in this turn.
    was_used: bool,
}

impl Burst {
    pub(super) const fn new(size: u16) -> Self {
        Self { size, left: 0, was_used: false }
    }

    pub(super) const fn size(&self) -> u16 {
        self.size
    }

    /// A new turn.
    pub(super) const fn begin(&mut self) {
        self.left = self.size;
        self.was_used = false;
    }

    /// Returns the number of packets that may be taken now.
    pub(super) fn share(&self, each: u16) -> usize {
        self.left.min(each).into()
    }

    /// Notes that of `max` packets `got` came; answers whether the burst is used up with more to come. A ring that gave
    /// less than it was asked for is empty.
    pub(super) fn took(&mut self, got: usize, max: usize) -> bool {
        self.was_used = true;
        if got < max {
            self.end();
            return false;
        }
        self.left = self.left.saturating_sub(u16::try_from(got).unwrap_or(u16::MAX));
        self.left == 0
    }

    /// Nothing more is to be had in this turn.
    pub(super) const fn end(&mut self) {
        self.left = 0;
    }

    /// A ring without frames did not make the turn long.
    pub(super) fn adapt(&mut self, verdict: Verdict, most: u16) {
        let less = match verdict {
            Verdict::InTime => return self.size = most.min(self.size + 1),
            _ if !self.was_used => return,
            Verdict::Long => 1,
            Verdict::FarTooLong => (self.size / 8).max(1),
        };
        self.size = (self.size - less).max(1);
    }

    pub(super) fn cut(&mut self, most: u16) {
        self.size = self.size.min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(verdicts: impl IntoIterator<Item = Verdict>, size: u16) -> u16 {
        let mut burst = Burst::new(size);
        for verdict in verdicts {
            burst.begin();
            burst.took(1, 1);
            burst.adapt(verdict, 250);
        }
        burst.size()
    }

    #[test]
    fn a_burst_grows_by_one_to_its_limit_and_shrinks_by_one_to_one() {
        assert_eq!(after([Verdict::InTime; 3], 10), 13);
        assert_eq!(after([Verdict::InTime; 1000], 10), 250);
        assert_eq!(after([Verdict::Long; 3], 10), 7);
        assert_eq!(after([Verdict::Long; 1000], 250), 1);
        assert_eq!(after([Verdict::FarTooLong; 1000], 250), 1);
    }

    #[test]
    fn a_turn_that_was_far_too_long_costs_an_eighth() {
        assert_eq!(after([Verdict::FarTooLong], 250), 250 - 31);
        assert_eq!(after([Verdict::FarTooLong], 7), 6);
    }

    #[test]
    fn a_ring_without_frames_is_not_to_blame() {
        let mut burst = Burst::new(100);
        burst.begin();
        burst.end();
        burst.adapt(Verdict::FarTooLong, 250);
        assert_eq!(burst.size(), 100);
    }

    #[test]
    fn a_ring_that_gives_less_than_it_was_asked_for_is_not_asked_again() {
        let mut burst = Burst::new(100);
        burst.begin();
        assert_eq!((burst.share(64), burst.took(64, 64)), (64, false));
        assert_eq!((burst.share(64), burst.took(36, 36), burst.share(64)), (36, true, 0), "used up");
        burst.begin();
        assert_eq!((burst.took(63, 64), burst.share(64)), (false, 0), "empty");
    }

    #[test]
    fn settings_out_of_bounds_become_the_nearest_that_work() {
        let wild = Polling { each_burst: 0, burst_max: 0, ..Polling::default() }.within_bounds();
        assert_eq!((wild.each_burst, wild.burst_max), (1, 1));
        let wild =
            Polling { each_burst: u16::MAX, burst_max: u16::MAX, ..Polling::default() }.within_bounds();
        assert_eq!((wild.each_burst, wild.burst_max), (EACH_BURST_MAX, BURST_MAX));
    }

    #[test]
    fn a_turn_is_judged_by_what_it_may_take() {
        let polling = Polling { turn_max: Duration::from_micros(100), ..Polling::default() };
        let judged = [0, 100, 101, 200, 201].map(|us| polling.judge(Duration::from_micros(us)));
        use Verdict::{FarTooLong, InTime, Long};
        assert_eq!(judged, [InTime, InTime, Long, Long, FarTooLong]);
    }
}
