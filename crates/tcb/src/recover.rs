//! Loss recovery: round trips, losses, the window (RFC 5681, RFC 6582, RFC 6675,
//! RFC 8985), and whether a loss was none (RFC 3522, RFC 4015).

use super::prr::{Progress, Prr};
use super::{Segment, Tcb};
use crate::congestion::{Sign, initial_window};
use crate::scoreboard::AckEffect;
use crate::seq::Seq;
use base::time::Instant;

/// Duplicate acknowledgments that mean a loss (RFC 5681 §3.2), and how many it may take where reordering is waited out
/// (DragonFly's `ncr_rxtthresh_max`).
const DUPLICATES: u8 = 3;
const NCR_MAX: u32 = 16;

/// Losses, and what is done about them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recovery {
    /// Losses below this belong to one reduction of the window: `RecoveryPoint`.
    until: Option<Seq>,
    /// Acknowledgments in a row that said nothing but that something is missing.
    duplicates: u8,
    /// Our timestamp when the first segment was sent again: an echo of an earlier one is of the original (Eifel).
    again_from: Option<u32>,
    /// To be noted when the next segment is sent again.
    is_begin: bool,
    /// It was the timer that found the loss.
    by_timer: bool,
    /// State of PRR in recovery.
    prr: Prr,
    /// Bytes that duplicates have told of, which no acknowledgment has named since.
    unnamed: u32,
}

/// The use of the congestion window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    /// It had no room for another segment.
    is_full: bool,
    /// The most that was under way.
    most: u32,
    /// End of the sent data.
    until: Seq,
}

impl Recovery {
    pub(super) fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Whether the timer has found what is repaired.
    pub(super) fn is_by_timer(&self) -> bool {
        self.is_on() && self.by_timer
    }

    /// Whether the first segment is still to be sent again: it is, whatever the window (RFC 5681 §3.2, step 3).
    pub(super) fn is_begin(&self) -> bool {
        self.is_begin
    }

    /// Segments that have left the network, as duplicate acknowledgments say (RFC 5681 §3.2, step 4).
    pub(super) fn duplicates(&self) -> u32 {
        self.duplicates.into()
    }

    /// Bytes are sent, for the first time or again.
    pub(super) fn sends(&mut self, bytes: u32) {
        self.prr.sends(bytes);
    }

    /// Something is sent again at `stamp`.
    pub(super) fn sends_again(&mut self, stamp: u32) {
        if core::mem::take(&mut self.is_begin) {
            self.again_from = Some(stamp);
        }
    }
}

impl Tcb {
    /// An acknowledgment of something between what is acknowledged and what was sent. `is_duplicate`, if it has no data
    /// and no new window.
    pub(super) fn heard(&mut self, segment: &Segment<'_>, is_duplicate: bool, now: Instant) -> AckEffect {
        let was = self.sent.first();
        let options = &segment.header.options;
        let blocks = if self.sacks() { options.sack.as_slice() } else { &[] };
        let heard = self.sent.acknowledge(Seq(segment.header.ack), blocks, now);
        self.measure(segment, &heard, now);
        self.find_out_about_the_probe(&heard, is_duplicate, !blocks.is_empty());
        if heard.acknowledged > 0 {
            self.recovery.duplicates = 0;
            self.find_out_whether_it_was_none(segment);
            self.path_carries(now);
            self.go_on(was, now);
        } else if is_duplicate && self.sent.unacknowledged() > 0 && (heard.delivered > 0 || !self.sacks()) {
            self.recovery.duplicates = self.recovery.duplicates.saturating_add(1);
        }
        let has_lost = self.detect_losses(heard.delivered, now);
        if self.recovery.is_on() {
            self.regulate(&heard, is_duplicate, has_lost);
        }
        match self.needs_window() {
            true => self.grow(heard.acknowledged, now),
            false => self.congestion.was_not_needed(now),
        }
        heard
    }

    /// Notes how much of the congestion window is in use: for a window of data what was used most, since acknowledgments
    /// make room sooner than the program fills it.
    pub(super) fn use_window(&mut self) {
        let flight = self.sent.unacknowledged();
        let is_full = flight.saturating_add(self.mss()) > self.congestion.window();
        if is_full || flight > self.used.most || !self.sent.first().is_before(self.used.until) {
            self.used = Used { is_full, most: flight, until: self.sent.behind() };
        }
    }

    /// Whether the window may grow: it was full, or in slow start half of it was used, so that it grows to twice of what has
    /// proved to arrive (RFC 7661 §4.3 calls that validated).
    fn needs_window(&self) -> bool {
        let is_half = self.congestion.window() < self.used.most.saturating_mul(2);
        self.used.is_full || self.congestion.is_slow_start() && is_half
    }

    /// The window was what held us back, and `bytes` of it were acknowledged.
    ///
    /// What is sent again after a timeout is sent in slow start (RFC 5681 §3.1). Much of what is acknowledged then arrived
    /// long before, so that an acknowledgment counts for one segment at the most (RFC 3465 §2.3).
    fn grow(&mut self, bytes: u32, now: Instant) {
        let bytes = match (self.recovery.is_on(), self.recovery.by_timer) {
            (false, _) => bytes,
            (true, true) => bytes.min(self.mss()),
            (true, false) => return,
        };
        if bytes > 0 {
            let rtt = self.rtt.smoothed().unwrap_or(self.settings.initial_rto);
            self.congestion.acknowledged(bytes, now, rtt);
        }
    }

    /// RFC 7323 §4: a timestamp tells a segment from its copy, so that each acknowledgment of something new measures.
    fn measure(&mut self, segment: &Segment<'_>, heard: &AckEffect, now: Instant) {
        let echo = segment.header.options.timestamps.filter(|_| self.agreed.timestamps).map(|(_, echo)| echo);
        let by_stamp = echo.filter(|_| heard.acknowledged > 0).and_then(|echo| self.stamps.since(echo, now));
        // What was sent once is known more exactly than in milliseconds.
        match heard.rtt.or(by_stamp) {
            Some(rtt) => {
                self.rtt.measure(rtt);
                self.probe.measured();
            }
            None if heard.acknowledged > 0 => self.rtt.answered(),
            None => {}
        }
    }

    /// Says how much may be sent because of an acknowledgment, while losses are repaired.
    ///
    /// Of a receiver that says only where it waits, each duplicate says that a segment has arrived, and what moves that place
    /// on says it again of those.
    fn regulate(&mut self, heard: &AckEffect, is_duplicate: bool, has_lost: bool) {
        if self.recovery.by_timer {
            return;
        }
        let mss = self.mss();
        let delivered = match (self.sacks(), heard.acknowledged) {
            (true, _) => heard.delivered,
            (false, 0) if is_duplicate => mss,
            (false, 0) => 0,
            (false, bytes) => bytes.saturating_sub(self.recovery.unnamed).max(mss),
        };
        self.recovery.unnamed = match heard.acknowledged {
            0 => self.recovery.unnamed.saturating_add(delivered),
            bytes => self.recovery.unnamed.saturating_sub(bytes),
        };
        let is_safe = heard.acknowledged > 0 && !has_lost && self.sacks();
        // RFC 6582 §3.2, step 3: what is missing next is sent again at once.
        let is_partial = heard.acknowledged > 0 && !self.sacks();
        let (pipe, target) = (self.pipe(), self.congestion.window());
        self.recovery.prr.hears(Progress { delivered, is_safe, is_partial, pipe, target, mss });
    }

    /// Bytes that may be in the network, as far as its congestion is concerned.
    pub(super) fn congestion_window(&self) -> u32 {
        match self.recovery.is_on() && !self.recovery.by_timer {
            true => self.pipe().saturating_add(self.recovery.prr.allowed()),
            false => self.congestion.window(),
        }
    }

    /// Looks for losses, and begins to repair them; answers whether there are new ones. `fresh` bytes have just arrived.
    pub(super) fn detect_losses(&mut self, fresh: u32, now: Instant) -> bool {
        self.timers.reordering = None;
        let has_lost = match (self.sacks() && self.sent.has_sacked(), self.settings.rack) {
            (true, true) => self.detect_by_time(now),
            (true, false) => self.sent.detect_overtaken(self.threshold(), self.mss()) > 0,
            (false, _) => self.detect_by_duplicates(),
        };
        if has_lost && !self.recovery.is_on() && !self.is_lost_for_its_length() {
            if !self.is_reduced_for_a_mark() {
                self.congestion.congested(self.flight(), Sign::Loss);
                self.ecn.reduced = self.ecn.is_on;
            }
            self.recovery = Recovery { until: Some(self.sent.behind()), is_begin: true, ..self.recovery };
            let known = self.sent.sacked().saturating_sub(fresh);
            self.recovery.prr = Prr::begin(self.sent.unacknowledged().saturating_sub(known));
            self.recovery.unnamed = self.recovery.duplicates().saturating_sub(1) * self.mss();
            self.probe.ends();
        }
        has_lost
    }

    fn detect_by_time(&mut self, now: Instant) -> bool {
        // One acknowledgment may name what several have, where others were lost or put together (RFC 8985 §6.2: segments
        // that are named, as RFC 6675 counts them).
        let named = self.sent.sacked() > u32::from(DUPLICATES - 1) * self.mss();
        let at_once = self.recovery.is_on() || named || self.recovery.duplicates >= DUPLICATES;
        let smoothed = self.rtt.smoothed().unwrap_or(self.settings.initial_rto);
        let (lost, again) = self.sent.detect(now, smoothed, at_once);
        self.timers.reordering = again;
        lost > 0
    }

    fn detect_by_duplicates(&mut self) -> bool {
        let is_third = self.recovery.duplicates == DUPLICATES && !self.recovery.is_on();
        if is_third {
            self.sent.lose_first(self.mss());
        }
        is_third
    }

    /// Returns the number of segments that must have overtaken a lost one: half of those in flight, so that a network
    /// that reorders within half a round trip is not taken for one that loses (`DupThresh` of RFC 4653 with `LT_F` = 1/2,
    /// one new segment for each that has left: Aggressive Limited Transmit). That more is sent meanwhile follows from the
    /// window, which counts what is in the network; so what is acknowledged at last lets no burst out either.
    //= https://www.rfc-editor.org/rfc/rfc4653#section-3.1
    fn threshold(&self) -> u32 {
        let half = self.sent.unacknowledged() / 2 / self.mss().max(1);
        if self.settings.ncr { half.clamp(DUPLICATES.into(), NCR_MAX) } else { DUPLICATES.into() }
    }

    /// Returns the base of a reduction. Behind a gap more may be unacknowledged than the window ever let out at once, since
    /// arrivals make room: then a share of that would be more than the window.
    pub(super) fn flight(&self) -> u32 {
        self.sent.unacknowledged().min(self.congestion.window())
    }

    /// The first byte that is not acknowledged has moved on from `was`.
    fn go_on(&mut self, was: Seq, _now: Instant) {
        let Some(until) = self.recovery.until else { return };
        let first = self.sent.first();
        debug_assert!(first.is_after(was), "something was acknowledged");
        if !first.is_before(until) {
            self.recovery = Recovery::default();
            self.sent.recovered();
            return self.congestion.settled();
        }
        //= https://www.rfc-editor.org/rfc/rfc6582#section-3.2
        //# If this ACK does *not* acknowledge all of the data up to and
        //# including recover, then this is a partial ACK.  In this case,
        //# retransmit the first unacknowledged segment.
        if !self.sacks() && !self.recovery.by_timer {
            self.sent.lose_first(self.mss());
        }
    }

    /// All that is not acknowledged is taken for lost.
    pub(super) fn lose_all(&mut self, is_first: bool) {
        let flight = self.flight();
        self.sent.lose_all();
        self.congestion.timed_out(flight, is_first);
        let until = Some(self.sent.behind());
        self.recovery =
            Recovery { until, is_begin: is_first, by_timer: true, duplicates: 0, ..self.recovery };
        self.probe.ends();
    }

    /// RFC 3522 §3.2: the acknowledgment echoes a time before anything was sent again, so the original has arrived.
    fn find_out_whether_it_was_none(&mut self, segment: &Segment<'_>) {
        let Some(from) = self.recovery.again_from.take() else { return };
        let echo = segment.header.options.timestamps.map(|(_, echo)| echo);
        if self.agreed.timestamps && echo.is_some_and(|echo| Seq(echo).is_before(Seq(from))) {
            if self.recovery.by_timer {
                self.rtt.was_too_short();
            }
            self.sent.find_all();
            self.congestion.undo();
            self.recovery = Recovery::default();
            self.sent.recovered();
            self.timers.reordering = None;
        }
    }

    /// The connection stands: the window that it begins with is known now.
    pub(super) fn begin_window(&mut self, syn_was_lost: bool) {
        let mss = self.mss();
        let window = initial_window(mss, self.settings.initial_segments, syn_was_lost);
        self.congestion = super::Congestion::new(self.settings.algorithm, mss, window);
        if syn_was_lost {
            self.rtt.syn_was_lost();
        }
        self.recovery = Recovery::default();
    }

    /// The other end says that a packet of ours was marked (RFC 3168 §6.1.2): once for each window.
    pub(super) fn was_marked(&mut self) {
        if self.is_reduced_for_a_mark() || self.recovery.is_on() {
            return;
        }
        self.congestion.congested(self.flight(), Sign::Mark);
        self.ecn.until = Some(self.sent.behind());
        self.ecn.reduced = true;
    }

    /// Whether the window that is under way was reduced already, because a packet of it was marked.
    //= https://www.rfc-editor.org/rfc/rfc3168#section-6.1.2
    //# TCP should not react to congestion indications more than once every
    //# window of data (or more loosely, more than once every round-trip
    //# time).
    pub(super) fn is_reduced_for_a_mark(&self) -> bool {
        self.ecn.until.is_some()
    }
}
