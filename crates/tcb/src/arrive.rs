//! A segment came (RFC 9293 §3.10.7).

use wire::tcp::Flags;

use super::{Ack, Ended, Event, Segment, State, Tcb};
use crate::seq::Seq;
use base::time::Instant;

/// The immediate reply to a segment, besides the output of [`Tcb::output`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Nothing,
    /// A reset, as a closed port sends it: the connection is not this one.
    Reset,
    /// An acknowledgment that asks whether the other end meant it, if there were not too many of them already
    /// (RFC 5961 §7).
    Challenge,
    /// Nothing, for there were too many answers already.
    Withheld,
}

/// The result of a processing step; an error ends it.
type Verdict = Result<(), Reply>;

impl Tcb {
    /// Takes a segment in.
    #[inline]
    #[must_use]
    pub fn arrive(&mut self, segment: &Segment<'_>, now: Instant) -> Reply {
        self.tally.came(segment);
        let verdict = match self.state {
            State::Closed => Err(Reply::Reset),
            State::SynSent => self.arrive_at_syn_sent(segment, now),
            _ => self.arrive_at_others(segment, now),
        };
        verdict.err().unwrap_or(Reply::Nothing)
    }

    /// An acknowledgment that asks the other end whether it meant what it sent, unless there were too many already:
    /// answers whether it goes out.
    //= https://www.rfc-editor.org/rfc/rfc5961#section-7
    //# An implementation SHOULD include an ACK throttling mechanism
    #[inline]
    pub fn challenge(&mut self, now: Instant) -> bool {
        let may = self.budget.allows(now);
        self.challenges |= may;
        may
    }

    /// RFC 9293 §3.10.7.3.
    fn arrive_at_syn_sent(&mut self, segment: &Segment<'_>, now: Instant) -> Verdict {
        let (flags, ack) = (segment.header.flags, Seq(segment.header.ack));
        let is_ours = ack.is_after(self.iss) && !ack.is_after(self.opened_until());
        if flags.ack() && !is_ours {
            return if flags.rst() { Err(Reply::Nothing) } else { Err(Reply::Reset) };
        }
        if flags.rst() {
            if flags.ack() {
                self.end(Event::ResetCame, Some(Ended::Refused));
            }
            return Err(Reply::Nothing);
        }
        if !flags.syn() || flags.fin() && self.settings.drop_synfin {
            return Err(Reply::Nothing);
        }
        let was_again = self.rtt.backoffs() > 0;
        self.take_syn(segment, now);
        if !flags.ack() {
            self.both_have_begun(segment);
            return Ok(());
        }
        self.take_answer(segment, now);
        self.establish(was_again, now);
        self.ack = Ack::Now;
        self.take_text(segment, now)
    }

    /// Both ends have begun at once.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.3
    //# Otherwise, enter SYN-RECEIVED, form a SYN,ACK segment
    fn both_have_begun(&mut self, segment: &Segment<'_>) {
        self.goes(Event::SynCame);
        self.sent.lose_all();
        // What else there is waits. A FIN comes again by itself.
        self.early = segment.payload.into();
    }

    /// RFC 9293 §3.10.7.4, step by step.
    fn arrive_at_others(&mut self, segment: &Segment<'_>, now: Instant) -> Verdict {
        self.check_sequence(segment, now)?;
        self.check_reset(segment)?;
        self.check_syn(segment, now)?;
        self.check_ack(segment, now)?;
        if segment.header.options.user_timeout.is_some() {
            self.take_advice(segment.header.options.user_timeout);
        }
        if segment.is_marked && self.ecn.is_on && !segment.payload.is_empty() {
            self.ecn.echo = true;
            self.ack = Ack::Now;
        }
        if segment.header.flags.contains(Flags::CWR) && !segment.payload.is_empty() {
            self.ecn.echo = segment.is_marked && self.ecn.is_on;
        }
        self.check_urgent(segment);
        self.take_text(segment, now)
    }

    /// First: whether something of it lies in the window, and whether it is not an old duplicate.
    fn check_sequence(&mut self, segment: &Segment<'_>, now: Instant) -> Verdict {
        let flags = segment.header.flags;
        if self.state == State::TimeWait && (flags.rst() || !(flags.ack() || flags.syn())) {
            // RFC 1337 §3: an old duplicate must not end TIME-WAIT.
            return Err(Reply::Nothing);
        }
        let is_repeated_syn = self.state == State::SynReceived
            && flags.syn()
            && !flags.ack()
            && !flags.rst()
            && Seq(segment.header.seq) + 1 == self.receive.next();
        if is_repeated_syn {
            // The answer to it was lost.
            self.sent.lose_all();
            return Err(Reply::Nothing);
        }
        //= https://www.rfc-editor.org/rfc/rfc7323#section-3.2
        //# If a non-<RST> segment is received without an
        //# expected TSopt, a TCP SHOULD silently drop the segment.
        let is_unstamped = self.agreed.timestamps && segment.header.options.timestamps.is_none();
        if is_unstamped && !flags.rst() && !flags.syn() && !self.settings.takes_unstamped {
            return Err(Reply::Nothing);
        }
        //= https://www.rfc-editor.org/rfc/rfc7323#section-5.3
        //# R1) If there is a Timestamps option in the arriving segment,
        //# SEG.TSval < TS.Recent, TS.Recent is valid (see later
        //# discussion), and if the RST bit is not set, then treat the
        //# arriving segment as not acceptable
        if !flags.rst() && self.is_old(segment, now) || !self.is_in_window(segment) {
            if flags.syn() {
                // RFC 5961 §4.2: irrespective of the sequence number.
                return Err(Reply::Challenge);
            }
            if flags.rst() {
                return Err(Reply::Nothing);
            }
            if self.is_late(segment) {
                self.is_again(segment);
            }
            self.take_late_ack(segment, now);
            return self.correct(segment, now);
        }
        self.keep.hears(now);
        self.remember_stamp(segment, now);
        self.check_expected(segment, now)
    }

    /// Sends an acknowledgment. Not for ever, if the peer does the same: two desynchronised
    /// ends would never stop.
    fn correct(&mut self, segment: &Segment<'_>, now: Instant) -> Verdict {
        if segment.payload.is_empty() && !self.budget.allows(now) {
            return Err(Reply::Withheld);
        }
        self.ack = Ack::Now;
        Err(Reply::Nothing)
    }

    /// A segment out of order is acknowledged at once. But where our FIN is retransmitted with each
    /// acknowledgment, two ends can make war with nothing else.
    fn acknowledge_oddity(&mut self, segment: &Segment<'_>, now: Instant) {
        if !segment.payload.is_empty() || self.budget.allows(now) {
            self.ack = Ack::Now;
        }
    }

    /// The acknowledgment of a segment may be new though it has no data: two ends that have closed simultaneously retransmit
    /// their FINs with each acknowledgment.
    fn take_late_ack(&mut self, segment: &Segment<'_>, now: Instant) {
        let ack = Seq(segment.header.ack);
        let is_new = ack.is_after(self.sent.first()) && !ack.is_after(self.sent.behind());
        let is_late = self.is_late(segment) && !self.is_old(segment, now);
        if segment.header.flags.ack() && is_new && is_late && self.state > State::SynReceived {
            // What it says is new, so the other end lives.
            self.keep.hears(now);
            self.take_ack(segment, false, now);
        }
    }

    /// Whether a segment begins within one receive window before `RCV.NXT`, where a retransmission can begin. Further back
    /// are two gigabytes of sequence space that a blind attacker would hit with every second guess.
    //= https://www.rfc-editor.org/rfc/rfc5961#section-5.1
    fn is_late(&self, segment: &Segment<'_>) -> bool {
        let (seq, next) = (Seq(segment.header.seq), self.receive.next());
        let widest = self.receive_buffer.max(self.window());
        seq.is_before(next) && next.since(seq) <= widest
    }

    /// In TIME-WAIT nothing is expected but what has come before.
    fn check_expected(&mut self, segment: &Segment<'_>, now: Instant) -> Verdict {
        let is_ahead = Seq(segment.header.seq) != self.receive.next();
        if self.state == State::TimeWait && is_ahead && !segment.header.flags.syn() {
            return self.correct(segment, now);
        }
        Ok(())
    }

    /// A duplicate part of an unacceptable segment is reported by D-SACK; the rest of it is not taken.
    fn is_again(&mut self, segment: &Segment<'_>) {
        let seq = Seq(segment.header.seq) + u32::from(segment.header.flags.syn());
        let known = self.receive.next().since(seq) as usize;
        let bytes = &segment.payload[..segment.payload.len().min(known)];
        if !bytes.is_empty() {
            let _ = self.receive.arrive(seq, bytes, false);
        }
    }

    /// The four cases of RFC 9293 §3.10.7.4, table 6.
    fn is_in_window(&self, segment: &Segment<'_>) -> bool {
        let seq = Seq(segment.header.seq);
        let len = sequence_len(segment);
        match (len, self.open_window()) {
            (0, 0) => seq == self.receive.next(),
            (0, _) => self.is_inside(seq),
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
            //# If the RCV.WND is zero, no segments will be acceptable, but
            //# special allowance should be made to accept valid ACKs, URGs, and
            //# RSTs.
            (_, 0) => seq == self.receive.next(),
            _ => self.is_inside(seq) || self.is_inside(seq + (len - 1)),
        }
    }

    /// Returns the receive window. In TIME-WAIT there is no buffer any more: the last announced one counts.
    fn open_window(&self) -> u32 {
        let is_over = self.state == State::TimeWait;
        if is_over { self.promised.since(self.receive.next()) } else { self.window() }
    }

    /// Whether a place is in the window.
    fn is_inside(&self, at: Seq) -> bool {
        let next = self.receive.next();
        !at.is_before(next) && at.is_before(next + self.open_window())
    }

    /// Second: whether it resets the connection.
    //= https://www.rfc-editor.org/rfc/rfc5961#section-3.2
    //# 1) If the RST bit is set and the sequence number is outside the
    //#    current receive window, silently drop the segment.
    //#
    //# 2) If the RST bit is set and the sequence number exactly matches the
    //#    next expected sequence number (RCV.NXT), then TCP MUST reset the
    //#    connection.
    //#
    //# 3) If the RST bit is set and the sequence number does not exactly
    //#    match the next expected sequence value, yet is within the current
    //#    receive window, TCP MUST send an acknowledgment (challenge ACK).
    fn check_reset(&mut self, segment: &Segment<'_>) -> Verdict {
        if !segment.header.flags.rst() {
            return Ok(());
        }
        let is_exact = Seq(segment.header.seq) == self.receive.next();
        if !is_exact && !self.settings.insecure_rst {
            return Err(Reply::Challenge);
        }
        // RFC 9293 §3.10.7.4: "connection refused" is for the active opener; a listener's may have been opened fast, and read.
        let is_refused = self.state == State::SynReceived && !self.is_passive;
        self.end(Event::ResetCame, Some(if is_refused { Ended::Refused } else { Ended::Reset }));
        Err(Reply::Nothing)
    }

    /// Fourth: a SYN of a connection that stands.
    //= https://www.rfc-editor.org/rfc/rfc5961#section-4.2
    //# 1) If the SYN bit is set, irrespective of the sequence number, TCP
    //#    MUST send an ACK (also referred to as challenge ACK) to the remote
    //#    peer
    fn check_syn(&mut self, segment: &Segment<'_>, _now: Instant) -> Verdict {
        if !segment.header.flags.syn() {
            return Ok(());
        }
        let is_answer_to_ours = self.state == State::SynReceived
            && segment.header.flags.ack()
            && Seq(segment.header.seq) + 1 == self.receive.next();
        if is_answer_to_ours {
            // Both ends have begun at once, and this is the answer to our SYN.
            return Ok(());
        }
        if self.settings.insecure_syn && self.is_inside(Seq(segment.header.seq)) {
            self.give_up(Event::Aborted, Ended::Reset);
            return Err(Reply::Nothing);
        }
        Err(Reply::Challenge)
    }

    /// Fifth: what it acknowledges.
    fn check_ack(&mut self, segment: &Segment<'_>, now: Instant) -> Verdict {
        let header = segment.header;
        if !header.flags.ack() {
            return Err(Reply::Nothing);
        }
        let ack = Seq(header.ack);
        if self.state == State::SynReceived {
            // What went with our SYN may have been taken, though the answer to the other end's bore none of it.
            if !ack.is_after(self.sent.first()) || ack.is_after(self.opened_until()) {
                return Err(Reply::Reset);
            }
            let was_again = self.rtt.backoffs() > 0;
            self.take_answer(segment, now);
            self.establish(was_again, now);
            self.widen(segment);
            self.timers.changes(true);
            return Ok(());
        }
        //= https://www.rfc-editor.org/rfc/rfc5961#section-5.2
        //# The ACK value is considered acceptable only if
        //# it is in the range of ((SND.UNA - MAX.SND.WND) <= SEG.ACK <=
        //# SND.NXT).  All incoming segments whose ACK value doesn't satisfy the
        //# above condition MUST be discarded and an ACK sent back.
        if self.acknowledges_in_vain(segment) {
            return Err(Reply::Challenge);
        }
        if ack.is_before(self.sent.first()) {
            // Old, but what comes with it may be new.
            return Ok(());
        }
        let is_duplicate = segment.payload.is_empty()
            && !header.flags.fin()
            && ack == self.sent.first()
            && !self.changes_window(segment);
        self.take_ack(segment, is_duplicate, now);
        Ok(())
    }

    /// Whether a segment acknowledges what was never sent, or what is long acknowledged.
    pub(super) fn acknowledges_in_vain(&self, segment: &Segment<'_>) -> bool {
        let ack = Seq(segment.header.ack);
        let is_old = ack.is_before(self.sent.first() - self.window_max);
        segment.header.flags.ack() && (ack.is_after(self.sent.behind()) || is_old)
    }

    fn take_ack(&mut self, segment: &Segment<'_>, is_duplicate: bool, now: Instant) {
        let queued_end = self.queued_end;
        let had_bytes = self.sent.first();
        let heard = self.heard(segment, is_duplicate, now);
        let fin_arrived = self.is_ended && self.sent.first().is_after(queued_end);
        let bytes = self.sent.first().min(queued_end).since(had_bytes);
        if bytes > 0 {
            self.tune_send();
        }
        self.outgoing.forget(bytes as usize);
        self.urgent.acknowledged(self.sent.first());
        self.ecn.until = self.ecn.until.filter(|until| self.sent.first().is_before(*until));
        self.doubt = self.doubt.filter(|_| heard.acknowledged == 0);
        self.tally.bytes_acknowledged += u64::from(bytes);
        self.clock.ack = now;
        if heard.acknowledged > 0 {
            self.vain = 0;
        }
        if heard.delivered > 0 {
            let is_marked = self.ecn.is_on && segment.header.flags.contains(Flags::ECE);
            self.tally.delivered(heard.delivered.div_ceil(self.mss().max(1)), is_marked);
        }
        if self.ecn.is_on && segment.header.flags.contains(Flags::ECE) && heard.acknowledged > 0 {
            self.was_marked();
        }
        self.widen(segment);
        self.is_shut_out();
        if fin_arrived {
            self.fin_was_acknowledged(now);
        }
        if self.state != State::TimeWait {
            self.timers.changes(heard.acknowledged > 0);
        }
    }

    /// A zero window is still an answer. But an orphaned connection does not wait for room without end.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.1
    //# As long as the receiving TCP peer continues to send
    //# acknowledgments in response to the probe segments, the sending TCP
    //# peer MUST allow the connection to stay open (MUST-37).
    fn is_shut_out(&mut self) {
        if !self.right_edge.is_after(self.sent.first()) && !self.is_released {
            self.vain = 0;
        }
    }

    fn fin_was_acknowledged(&mut self, now: Instant) {
        if !self.goes(Event::FinAcknowledged) {
            return;
        }
        match self.state {
            State::FinWait2 => self.bound_half_closed(now),
            State::TimeWait => self.wait(now),
            _ => self.end(Event::FinAcknowledged, None),
        }
    }

    /// The connection stands.
    fn establish(&mut self, syn_was_lost: bool, now: Instant) {
        self.goes(Event::SynAcknowledged);
        self.timers.establish = None;
        self.timers.retransmit = None;
        self.vain = 0;
        self.keep.hears(now);
        self.clock.begin(now);
        self.round_buffers();
        self.begin_window(syn_was_lost);
        self.advice.is_due = self.settings.uto.is_on;
        let early = core::mem::take(&mut self.early);
        if !early.is_empty() && self.receive.arrive(self.receive.next(), &early, false).is_ok() {
            self.ack = self.ack.max(Ack::Delayed);
        }
    }

    /// Behind the last byte that the other end takes, as this segment says.
    fn edge(&self, segment: &Segment<'_>) -> Seq {
        let shift = if segment.header.flags.syn() { 0 } else { self.agreed.shift.1 };
        Seq(segment.header.ack) + (u32::from(segment.header.window) << shift)
    }

    fn changes_window(&self, segment: &Segment<'_>) -> bool {
        self.edge(segment) != self.right_edge
    }

    /// Takes the window from a segment that is not older than the one it was taken from last.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
    //# If SND.UNA =< SEG.ACK =< SND.NXT, the send window should be
    //# updated.  If (SND.WL1 < SEG.SEQ or (SND.WL1 = SEG.SEQ and
    //# SND.WL2 =< SEG.ACK)), set SND.WND <- SEG.WND, set SND.WL1 <-
    //# SEG.SEQ, and set SND.WL2 <- SEG.ACK.
    fn widen(&mut self, segment: &Segment<'_>) {
        let from = (Seq(segment.header.seq), Seq(segment.header.ack));
        let is_newer = self.window_from.0.is_before(from.0)
            || self.window_from.0 == from.0 && !from.1.is_before(self.window_from.1);
        if is_newer {
            self.window_from = from;
            self.right_edge = self.edge(segment);
            self.window_max = self.window_max.max(self.right_edge.since(from.1));
        }
    }

    /// Seventh and eighth: what it brings.
    fn take_text(&mut self, segment: &Segment<'_>, now: Instant) -> Verdict {
        let flags = segment.header.flags;
        if segment.payload.is_empty() && !flags.fin() {
            return Ok(());
        }
        let takes =
            matches!(self.state, State::SynReceived | State::Established | State::FinWait1 | State::FinWait2);
        if !takes {
            // The other end has ended its stream: this is the end again, or nonsense.
            self.acknowledge_oddity(segment, now);
            if self.state == State::TimeWait {
                self.wait(now);
            }
            return Ok(());
        }
        let seq = Seq(segment.header.seq) + u32::from(flags.syn());
        if self.is_released && (seq + len_of(segment.payload)).is_after(self.receive.next()) {
            // RFC 9293 §3.6.1: the data will never be read.
            self.end(Event::Aborted, Some(Ended::Aborted));
            return Err(Reply::Reset);
        }
        if self.window() == 0 {
            // All else of it has counted: its acknowledgment, its window, its urgent pointer.
            self.acknowledge_oddity(segment, now);
            return Ok(());
        }
        let next = self.receive.next();
        let right = next + self.window();
        let room = right.since(seq) as usize;
        let bytes = &segment.payload[..segment.payload.len().min(room)];
        let is_whole = bytes.len() == segment.payload.len();
        let Ok(arrived) = self.receive.arrive(seq, bytes, flags.fin() && is_whole) else {
            self.acknowledge_oddity(segment, now);
            return Ok(());
        };
        //= https://www.rfc-editor.org/rfc/rfc5681#section-4.2
        //# A TCP receiver SHOULD send an immediate duplicate ACK when an out-
        //# of-order segment arrives.
        self.tally.bytes_received += arrived.readable as u64;
        if !bytes.is_empty() {
            self.clock.data = now;
        }
        self.tune_receive(now);
        self.tally.came_early(seq.is_after(next));
        if arrived.is_odd && !self.sacks() && self.ack == Ack::Now {
            self.duplicates = self.duplicates.saturating_add(1);
        }
        let is_second = self.ack == Ack::Delayed;
        let at_once = arrived.finished || is_second || !is_whole || self.settings.quick_ack;
        match arrived.is_odd && !arrived.finished {
            true => self.acknowledge_oddity(segment, now),
            false => self.ack = self.ack.max(if at_once { Ack::Now } else { Ack::Delayed }),
        }
        if arrived.finished {
            self.other_end_ended(now);
        }
        Ok(())
    }

    fn other_end_ended(&mut self, now: Instant) {
        self.goes(Event::FinCame);
        if self.state == State::TimeWait {
            self.wait(now);
        }
    }
}

/// Bytes that a segment takes in sequence space.
fn sequence_len(segment: &Segment<'_>) -> u32 {
    let flags = segment.header.flags;
    let ends = u32::from(flags.syn()) + u32::from(flags.fin());
    len_of(segment.payload).saturating_add(ends)
}

fn len_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}
