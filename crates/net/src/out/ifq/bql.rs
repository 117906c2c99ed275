//! Byte queue limits: the bytes that a transmit ring needs to stay busy.
//!
//! Packets in the ring cannot be reordered, marked or dropped any more. So it is given no more than it sends until it is
//! looked after again; the rest waits where the discipline sees it. The limit is learned: a ring that ran dry while
//! more was there was given too little; one that for a second never got down to the bottom was given too much.

use crate::base::time::{Duration, Instant};

/// Fewest bytes that a ring may hold: two full-sized frames, so that one can follow the other without a pause.
const LIMIT_MIN: usize = 2 * 1514;
/// Most bytes.
const LIMIT_MAX: usize = 8 << 20;
/// Bytes never needed for so long are taken away.
const HOLD: Duration = Duration::from_secs(1);

/// The byte limit of one transmit ring. Totals of bytes grow for ever, as counters do.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteLimit {
    limit: usize,
    /// Bytes that the ring has been given.
    given: u64,
    /// Bytes that it has sent, when it was last looked after.
    completed: u64,
    /// As it was when it was last looked after.
    before: Before,
    /// Fewest bytes that were more than needed since `slack_since`.
    slack: usize,
    slack_since: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
struct Before {
    given: u64,
    /// Bytes above the limit.
    over: usize,
    /// Length of the frame that went above it.
    last: usize,
}

impl Default for ByteLimit {
    fn default() -> Self {
        Self {
            limit: LIMIT_MIN,
            given: 0,
            completed: 0,
            before: Before::default(),
            slack: usize::MAX,
            slack_since: Instant::START,
        }
    }
}

impl ByteLimit {
    /// The limit, bytes.
    pub(super) const fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes in the ring, as far as we know.
    pub(super) fn in_flight(&self) -> usize {
        bytes(self.given - self.completed)
    }

    /// Bytes that the ring may still be given; none when it is full. The last frame may go beyond.
    pub(super) fn room(&self) -> Option<usize> {
        self.limit.checked_sub(self.in_flight())
    }

    /// The ring was given so many bytes; the last frame had `last`.
    pub(super) const fn give(&mut self, bytes: usize, last: usize) {
        self.given += bytes as u64;
        self.before.last = last;
    }

    /// The ring says how many bytes it has not sent yet: learns from it, and answers whether it has sent any.
    pub(super) fn look(&mut self, now: Instant, in_flight: usize) -> bool {
        let completed = self.given.saturating_sub(in_flight as u64).max(self.completed);
        if completed == self.completed {
            return false;
        }
        let over = self.in_flight().saturating_sub(self.limit);
        let all_of_before = completed >= self.before.given;
        let is_dry = in_flight == 0;
        if (over > 0 && is_dry) || (self.before.over > 0 && all_of_before) {
            self.starved(now, completed);
        } else if !is_dry && self.before.given > self.completed && !all_of_before {
            self.was_busy(now, completed);
        }
        let limit = self.limit.clamp(LIMIT_MIN, LIMIT_MAX);
        self.before = Before { given: self.given, over, last: self.before.last };
        (self.limit, self.completed) = (limit, completed);
        true
    }

    /// It could have sent more: as much as it sent of what came after, and what the limit had been passed by.
    fn starved(&mut self, now: Instant, completed: u64) {
        self.limit += bytes(completed.saturating_sub(self.before.given)) + self.before.over;
        (self.slack, self.slack_since) = (usize::MAX, now);
    }

    /// It had enough all the time: notes how much of it was too much, and takes that away when it was so for long.
    fn was_busy(&mut self, now: Instant, completed: u64) {
        let sent = bytes(completed - self.completed);
        let unused = (self.limit + self.before.over).saturating_sub(2 * sent);
        let of_last =
            if self.before.over > 0 { self.before.last.saturating_sub(self.before.over) } else { 0 };
        self.slack = self.slack.min(unused.max(of_last));
        if now.since(self.slack_since) > HOLD {
            self.limit = self.limit.saturating_sub(self.slack);
            (self.slack, self.slack_since) = (usize::MAX, now);
        }
    }
}

fn bytes(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
