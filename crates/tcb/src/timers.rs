//! When a connection must be looked at again though nothing comes.

use super::{Ack, Ended, Event, State, Tcb};
use crate::settings::Settings;
use base::time::{Duration, Instant};

/// Moments; none that is not waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timers {
    /// Retransmission timer.
    pub(super) retransmit: Option<Instant>,
    /// A closed window is probed.
    pub(super) persist: Option<Instant>,
    /// An acknowledgment has waited long enough.
    pub(super) delayed_ack: Option<Instant>,
    /// Reordering is not waited for any longer (RFC 8985 §6.3).
    pub(super) reordering: Option<Instant>,
    /// Nothing was heard of the last segments for a while (RFC 8985 §7.2).
    pub(super) probe: Option<Instant>,
    /// The connection should stand by now.
    pub(super) establish: Option<Instant>,
    /// The other end has been silent for long.
    pub(super) keep: Option<Instant>,
    /// User timeout.
    pub(super) give_up: Option<Instant>,
    /// TIME-WAIT, or an orphan's FIN-WAIT-2.
    pub(super) gone: Option<Instant>,
    /// [`Self::retransmit`] is when a closed window is probed again.
    probes: bool,
    /// The first hop is doubted after so many retransmissions in vain.
    doubts: bool,
    /// They are to be set anew, because of what has come since; with `true`, something was acknowledged.
    changes: Option<bool>,
}

/// Between which the wait from one probe of a closed window to the next is kept.
const PROBE_MIN: Duration = Duration::from_secs(5);
const PROBE_MAX: Duration = Duration::from_secs(60);

impl Timers {
    /// A connection begins.
    pub(super) fn begin(&mut self, now: Instant, settings: &Settings) {
        self.establish = Some(now + settings.establish_within);
    }

    /// In-flight data has changed: everything received in a turn moves the timers once, when it is over. `heard`, if data was
    /// acknowledged.
    pub(super) fn changes(&mut self, heard: bool) {
        self.changes = self.changes.max(Some(heard));
    }
}

impl Tcb {
    /// When [`Self::expire`] has something to do.
    #[inline]
    #[must_use]
    pub fn deadline(&self) -> Instant {
        let Timers {
            retransmit,
            persist,
            delayed_ack,
            reordering,
            probe,
            establish,
            keep,
            give_up,
            gone,
            ..
        } = self.timers;
        let sooner = |soonest: Instant, at: Option<Instant>| soonest.min(at.unwrap_or(Instant::NEVER));
        let usual = [retransmit, probe, delayed_ack, keep].into_iter().fold(Instant::NEVER, sooner);
        [persist, reordering, establish, give_up, gone].into_iter().fold(usual, sooner)
    }

    /// Does what is due at `now`; [`Self::output`] says what is to be sent.
    pub fn expire(&mut self, now: Instant) {
        if self.timers.changes.is_some() {
            self.set_timers(now);
        }
        let due = |timer: &mut Option<Instant>| timer.take_if(|at| *at <= now).is_some();
        if due(&mut self.timers.gone) {
            return self.end(Event::WaitOver, None);
        }
        if due(&mut self.timers.establish) {
            return self.end(Event::TimedOut, Some(self.silence()));
        }
        if due(&mut self.timers.give_up) {
            return self.give_up(Event::TimedOut, Ended::TimedOut);
        }
        if due(&mut self.timers.keep) {
            self.ask();
        }
        if due(&mut self.timers.delayed_ack) {
            self.ack = Ack::Now;
        }
        if due(&mut self.timers.reordering) {
            self.detect_losses(0, now);
        }
        if due(&mut self.timers.persist) {
            self.is_stuck = true;
            // What was corked for as long as may be says nothing of the path.
            if !self.waits_for_more() {
                self.rtt.back_off();
            }
        }
        if due(&mut self.timers.probe) {
            self.probe_is_due(now);
        }
        if due(&mut self.timers.retransmit) {
            self.time_out(now);
        }
    }

    /// Nothing was acknowledged for too long (RFC 6298 §5.4 to §5.6).
    fn time_out(&mut self, now: Instant) {
        self.tally.timed_out();
        // Where both ends have said how long to wait, they do not count.
        if self.vain >= self.settings.retransmissions_max && self.adopted().is_none() {
            return self.give_up(Event::TimedOut, self.silence());
        }
        self.vain = self.vain.saturating_add(1);
        self.timers.doubts |= self.vain >= self.settings.doubts_after;
        let is_first = self.rtt.backoffs() == 0;
        self.rtt.back_off();
        self.open_plainly();
        self.doubt_path(now);
        self.lose_all(is_first);
    }

    /// Whether the first hop is to be asked whether it is still there, and this was not asked before.
    #[inline]
    pub fn doubts(&mut self) -> bool {
        core::mem::take(&mut self.timers.doubts)
    }

    /// Starts, restarts and stops the timers that follow from what is under way; to be called when that has changed.
    pub(super) fn set_timers(&mut self, now: Instant) {
        let heard = self.timers.changes.take().unwrap_or(false);
        let is_under_way = self.sent.unacknowledged() > 0;
        if !is_under_way {
            self.timers.retransmit = None;
        } else if heard || self.timers.retransmit.is_none() || self.timers.probes && !self.is_probing() {
            self.timers.probes = self.is_probing();
            let rto = self.rtt.rto();
            let wait = if self.timers.probes { rto.clamp(PROBE_MIN, PROBE_MAX) } else { rto };
            self.timers.retransmit = Some(now + wait);
        }
        if heard {
            self.probe.begins();
        }
        self.set_probe_timer(now);
        let is_left = !is_under_way && self.has_unsent() && self.state != State::SynSent;
        let is_stuck = is_left && !self.waits_for_more();
        let wait = match (is_stuck, is_left) {
            (true, _) => Some(self.rtt.rto().clamp(PROBE_MIN, PROBE_MAX)),
            (false, true) => self.settings.cork_max,
            (false, false) => None,
        };
        match wait {
            None => self.timers.persist = None,
            Some(wait) if self.timers.persist.is_none() => self.timers.persist = Some(now + wait),
            Some(_) => {}
        }
        self.set_keep_timers(heard, is_under_way || is_stuck, now);
        if self.ack == Ack::Delayed {
            self.timers.delayed_ack.get_or_insert(now + self.settings.delayed_ack);
        } else {
            self.timers.delayed_ack = None;
        }
    }

    /// Whether all that is under way is a byte that asks about a closed window, and of which there may be no word for long.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.1
    //# The transmitting host SHOULD send the first zero-window probe when a
    //# zero window has existed for the retransmission timeout period (SHLD-
    //# 29) (Section 3.8.1), and SHOULD increase exponentially the interval
    //# between successive probes (SHLD-30).
    fn is_probing(&self) -> bool {
        let first = self.sent.first();
        self.sent.unacknowledged() == 1
            && self.state >= State::Established
            && !self.right_edge.is_after(first)
            && first.is_before(self.queued_end)
    }

    /// A connection that the program has closed does not wait for ever for the other end to close it too.
    pub(super) fn bound_half_closed(&mut self, now: Instant) {
        if self.is_released && self.state == State::FinWait2 {
            self.timers.gone = Some(now + self.settings.fin_wait_2);
        }
    }

    /// Both streams have ended: what is under way dies out within twice its lifetime.
    pub(super) fn wait(&mut self, now: Instant) {
        self.timers = Timers { gone: Some(now + self.settings.msl * 2), ..Timers::default() };
    }
}
