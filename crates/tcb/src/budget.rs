//! Rate limit of replies to unacceptable segments (RFC 5961 §7).
//!
//! Each connection has a budget of its own, so that using up that of another reveals nothing
//! (CVE-2016-5696), and two desynchronised ends do not answer each other for ever.

use base::time::Instant;

/// Answers within one second (FreeBSD's `ack_war_cnt` and `ack_war_timewindow`).
const ANSWERS_MAX: u8 = 5;
/// Ticks of a second. As many as a number has place for are 68 minutes.
const TICKS: u16 = 16;
const TICK_NS: u64 = 1_000_000_000 / 16;

/// The remaining budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// The tick in which the second began; they run round.
    since: u16,
    used: u8,
}

impl Budget {
    /// Whether there may be one more answer.
    #[inline]
    pub fn allows(&mut self, now: Instant) -> bool {
        let tick = u16::try_from(now.ns() / TICK_NS % (1 << 16)).unwrap_or(0);
        if self.used == 0 || tick.wrapping_sub(self.since) >= TICKS {
            *self = Self { since: tick, used: 0 };
        }
        let allows = self.used < ANSWERS_MAX;
        self.used += u8::from(allows);
        allows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::time::Duration;

    #[test]
    fn there_are_five_answers_in_a_second_also_when_the_clock_runs_round() {
        let round = Instant::from_ns((1 << 16) * TICK_NS);
        for start in [Instant::START, Instant::from_ns(7_000_000), round - Duration::from_millis(500)] {
            let mut budget = Budget::default();
            let allowed = |budget: &mut Budget, at| {
                let now = start + Duration::from_millis(at);
                (0..9).filter(|_| budget.allows(now)).count()
            };
            let seen = [0, 1, 900, 1000, 1900, 2000].map(|at| allowed(&mut budget, at));
            assert_eq!(seen, [5, 0, 0, 5, 0, 5]);
        }
    }
}
