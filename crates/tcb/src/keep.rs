//! Whether the other end is still there: questions in a silence (RFC 9293 §3.8.4), and an end to waiting (RFC 5482).

use super::{Ended, Event, State, Tcb};
use base::time::{Duration, Instant};

/// The state of keepalive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keep {
    /// When something of it came last.
    pub(super) heard: Instant,
    /// Questions since then.
    pub(super) asked: u8,
    /// Another is to be sent.
    pub(super) asks: bool,
    /// Since when it has not acknowledged what it should.
    stuck: Option<Instant>,
}

impl Keep {
    /// Something came.
    pub(super) fn hears(&mut self, now: Instant) {
        *self = Self { heard: now, asked: 0, asks: false, stuck: self.stuck };
    }
}

impl Tcb {
    /// Starts and stops the timers of all this. `heard`, if something was acknowledged; `is_waiting`, if something is
    /// still to be.
    pub(super) fn set_keep_timers(&mut self, heard: bool, is_waiting: bool, now: Instant) {
        let since = self.keep.stuck.filter(|_| !heard).unwrap_or(now);
        self.keep.stuck = is_waiting.then_some(since);
        self.timers.give_up = self.gives_up(since).filter(|_| is_waiting);
        //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.4
        //# Keep-alive packets MUST only be sent when no sent data is
        //# outstanding, and no data or acknowledgment packets have been received
        //# for the connection within an interval (MUST-26).
        let stands = (State::Established..State::TimeWait).contains(&self.state);
        let asks = self.settings.keepalive && stands && !is_waiting;
        self.timers.keep = asks.then(|| self.keep.heard + self.silence_allowed());
    }

    /// Returns the idle time before the next keepalive, behind those already sent.
    //= https://www.rfc-editor.org/rfc/rfc5482#section-4.2
    fn silence_allowed(&self) -> Duration {
        let (idle, interval) = (self.settings.keep_idle, self.settings.keep_interval);
        let adopted = self.adopted().map(|adopted| adopted + interval);
        adopted.map_or(idle, |adopted| adopted.max(idle)) + interval * self.keep.asked.into()
    }

    /// Nothing was heard for long.
    pub(super) fn ask(&mut self) {
        if self.keep.asked >= self.settings.keep_count {
            return self.give_up(Event::TimedOut, Ended::TimedOut);
        }
        self.keep.asked += 1;
        self.keep.asks = true;
    }
}
