//! Tail loss probes (RFC 8985 §7): when nothing is heard of the last segments, one is sent that makes the other end say
//! what it has, so that a loss is found by what was acknowledged and not by the timer, which would empty the window.

use super::{Out, State, Tcb};
use crate::congestion::Sign;
use crate::scoreboard::AckEffect;
use crate::seq::Seq;
use base::time::{Duration, Instant};

/// Longest delay of the acknowledgment of a single segment: `TLP.max_ack_delay`.
const ACK_DELAY_MAX: Duration = Duration::from_millis(200);
/// The wait while no round trip is measured.
const WAIT_FIRST: Duration = Duration::from_secs(1);

/// The state of tail loss probes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    /// Behind all that was sent when the last one went out, and whether it was sent before: `TLP.end_seq`,
    /// `TLP.is_retrans`. `None` once its fate is known.
    under_way: Option<(Seq, bool)>,
    /// No round trip was measured since it went out.
    is_unmeasured: bool,
    /// The wait for the next begins anew: something new was sent, or acknowledged.
    begins: bool,
    /// One is to be sent now.
    is_due: bool,
    /// A probe was sent, and not counted yet.
    is_news: bool,
}

impl Probe {
    /// Something new was sent, or acknowledged.
    pub(super) fn begins(&mut self) {
        self.begins = true;
    }

    /// A round trip was measured.
    pub(super) fn measured(&mut self) {
        self.is_unmeasured = false;
    }

    /// Losses are repaired in another way now.
    pub(super) fn ends(&mut self) {
        self.under_way = None;
        self.is_due = false;
    }
}

impl Tcb {
    /// Whether a probe was sent since this was asked last.
    #[inline]
    pub fn has_probed(&mut self) -> bool {
        core::mem::take(&mut self.probe.is_news)
    }

    /// Whether the next silence is answered with a probe (RFC 8985 §7.2 and the two conditions of §7.3).
    fn may_probe(&self) -> bool {
        let stands = (State::Established..State::TimeWait).contains(&self.state);
        let is_open = !self.recovery.is_on() && !self.sent.has_sacked();
        let is_first = self.probe.under_way.is_none() && !self.probe.is_unmeasured;
        let is_wanted = self.settings.tail_loss_probe && self.sacks();
        is_wanted && stands && is_open && is_first && self.sent.unacknowledged() > 0
    }

    /// Starts, restarts and stops the wait for a probe, which is never longer than that for the timer.
    pub(super) fn set_probe_timer(&mut self, now: Instant) {
        let begins = core::mem::take(&mut self.probe.begins);
        if !self.may_probe() {
            self.timers.probe = None;
        } else if begins {
            let wait = now + self.probe_wait();
            self.timers.probe = self.timers.retransmit.map(|retransmit| wait.min(retransmit));
        }
    }

    /// `PTO` of RFC 8985 §7.2.
    fn probe_wait(&self) -> Duration {
        let is_single = self.sent.unacknowledged() <= self.mss();
        let delay = if is_single { ACK_DELAY_MAX } else { Duration::ZERO };
        self.rtt.smoothed().map_or(WAIT_FIRST, |smoothed| smoothed * 2 + delay)
    }

    /// Nothing was heard for the time of a probe: it goes out with the next output, and the timer waits anew (§7.3).
    pub(super) fn probe_is_due(&mut self, now: Instant) {
        self.probe.is_due = true;
        self.timers.retransmit = Some(now + self.rtt.rto());
    }

    /// Sends the probe, if one is due: something new whatever the congestion window, else the last segment again.
    pub(super) fn send_probe(&mut self, now: Instant, wire: &mut dyn FnMut(&Out<'_>)) {
        if !core::mem::take(&mut self.probe.is_due) || !self.may_probe() {
            return;
        }
        let new = self.new_for_probe();
        let piece = new.or_else(|| self.sent.last(self.room()));
        let Some((start, end)) = piece else { return };
        self.send_piece(start, end, now, wire);
        let under_way = Some((self.sent.behind(), new.is_none()));
        self.probe = Probe { under_way, is_unmeasured: true, is_news: true, ..Probe::default() };
    }

    /// A segment that was never sent, if there is one that the other end takes.
    fn new_for_probe(&self) -> Option<(Seq, Seq)> {
        let start = self.sent.behind();
        let bytes = self.queued_end.since(start).min(self.right_edge.since(start)).min(self.room());
        (bytes > 0 && !self.waits_for_more()).then_some((start, start + bytes))
    }

    /// Finds out what an acknowledgment says of the probe (RFC 8985 §7.4.2).
    ///
    /// What comes twice was not lost, which the other end tells by D-SACK, or without a word. If it acknowledges more than
    /// there was, and has told nothing, the probe has repaired a loss, which the window must answer for.
    pub(super) fn find_out_about_the_probe(
        &mut self,
        heard: &AckEffect,
        is_duplicate: bool,
        has_blocks: bool,
    ) {
        let first = self.sent.first();
        let Some((end, is_again)) = self.probe.under_way.filter(|(end, _)| !first.is_before(*end)) else {
            return;
        };
        let is_told = heard.duplicate.is_some_and(|block| block.right == end.0);
        let came_twice = is_told || is_duplicate && !has_blocks && heard.acknowledged == 0;
        let has_repaired = is_again && !came_twice && first.is_after(end);
        if !is_again || came_twice || has_repaired {
            self.probe.under_way = None;
        }
        if has_repaired {
            self.congestion.congested(self.flight(), Sign::Loss);
            self.ecn.reduced = self.ecn.is_on;
        }
    }
}
