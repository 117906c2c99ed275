//! RACK (RFC 8985 §6): what was sent a good while before something that has arrived is lost.

use core::time::Duration;

use crate::seq::Seq;
use base::time::Instant;

/// RACK's state of segments that have arrived.
#[derive(Debug, Default)]
pub(super) struct Rack {
    /// When the one that was sent last was sent, and where it ended: `RACK.xmit_ts`, `RACK.end_seq`.
    last: Option<(Instant, Seq)>,
    /// Its RTT: `RACK.rtt`.
    rtt: Duration,
    /// The shortest that one took.
    least: Option<Duration>,
    /// Behind the last byte that has arrived: `RACK.fack`.
    forward: Option<Seq>,
    /// Whether one that was sent once has arrived after one behind it.
    has_reordering: bool,
    /// Quarters of the shortest round trip in the reordering window beyond the first: `RACK.reo_wnd_mult` - 1. It grows by one
    /// with each round trip in which something arrived twice.
    more_quarters: u8,
    /// Recoveries until it is one quarter again: `RACK.reo_wnd_persist`.
    recoveries: u8,
    /// Whether D-SACKs before `round` is acknowledged belong to the round trip of the last one.
    has_round: bool,
    /// `RACK.dsack_round`.
    round: Seq,
}

/// Recoveries after which a longer window is given up.
const PERSISTS: u8 = 16;

impl Rack {
    /// A segment that ended at `end` and was sent at `at` has arrived (RFC 8985 §6.2, steps 1 to 3).
    pub(super) fn delivered(&mut self, at: Instant, end: Seq, is_again: bool, now: Instant) {
        let took = now.since(at);
        // Sooner than any could: it is the one that was sent before that has arrived.
        if is_again && self.least.is_some_and(|least| took < least) {
            return;
        }
        if !is_again {
            self.least = Some(self.least.map_or(took, |least| least.min(took)));
            match self.forward {
                Some(forward) if !end.is_after(forward) => self.has_reordering |= end.is_before(forward),
                _ => self.forward = Some(end),
            }
        }
        if self.last.is_none_or(|last| is_later((at, end), last)) {
            self.last = Some((at, end));
            self.rtt = took;
        }
    }

    /// An acknowledgment up to `ack` says whether something has arrived twice (`is_twice`), when all up to `behind` was sent.
    //= https://www.rfc-editor.org/rfc/rfc8985#section-6.2
    pub(super) fn acknowledged(&mut self, ack: Seq, is_twice: bool, behind: Seq) {
        if self.has_round && !ack.is_before(self.round) {
            self.has_round = false;
        }
        if is_twice && !self.has_round {
            self.more_quarters = self.more_quarters.saturating_add(1);
            (self.recoveries, self.has_round, self.round) = (PERSISTS, true, behind);
        }
    }

    /// A recovery has ended.
    pub(super) fn recovered(&mut self) {
        self.recoveries = self.recoveries.saturating_sub(1);
        if self.recoveries == 0 {
            self.more_quarters = 0;
        }
    }

    /// Returns the reordering window (RFC 8985 §6.2, step 4).
    pub(super) fn reordering_window(&self, smoothed: Duration, at_once: bool) -> Duration {
        if !self.has_reordering && at_once {
            return Duration::ZERO;
        }
        let quarters = u32::from(self.more_quarters) + 1;
        (self.least.unwrap_or_default() / 4 * quarters).min(smoothed)
    }

    /// When a segment counts as lost; `None` while nothing that was sent later has arrived (RFC 8985 §6.2, step 5).
    pub(super) fn due(&self, at: Instant, end: Seq, window: Duration) -> Option<Instant> {
        let last = self.last.filter(|last| is_later(*last, (at, end)))?;
        debug_assert!(last.0 >= at, "sent later");
        Some(at + self.rtt + window)
    }
}

/// Whether the first of two segments was sent after the second: of those of one moment, the one behind.
fn is_later(one: (Instant, Seq), other: (Instant, Seq)) -> bool {
    one.0 > other.0 || one.0 == other.0 && one.1.is_after(other.1)
}
