//! Output of segments: retransmissions, new data, acknowledgments (RFC 9293 §3.8, §3.10.2).

use wire::tcp::{Flags, Header};

use super::{Ack, Event, Out, State, Tcb};
use crate::congestion::initial_window;
use crate::seq::Seq;
use base::time::Instant;

/// Bytes that a connection sends at once, and whatever its last super-packet has more: what it sends, and what is acknowledged
/// meanwhile, is still in the processor's cache then, and others have their turn.
const BURST: u32 = 128 << 10;

/// A piece of new data: from where to where.
type Piece = (Seq, Seq);

impl Tcb {
    /// Whether [`Self::output`] has sent as much as it does at once: it is to be called again in the next turn.
    #[inline]
    pub fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Hands all that is to be sent now to `wire`, segment by segment; to be called once when all that came in a turn was
    /// taken, so that there is one acknowledgment for it. Where it is much, the rest follows in the next turn.
    pub fn output(&mut self, now: Instant, wire: &mut dyn FnMut(&Out<'_>)) {
        if core::mem::take(&mut self.says_farewell) {
            wire(&Out { header: self.reset(now), payload: [&[], &[]], cut: 0, may_be_marked: false });
        }
        match self.state {
            State::Closed => return,
            State::SynSent | State::SynReceived => self.send_syn(now, wire),
            _ => {}
        }
        let stands = (State::Established..State::TimeWait).contains(&self.state);
        let may_send = stands || self.state == State::SynReceived && self.open.is_early;
        if self.advice.is_due {
            self.advise(now, wire);
        }
        self.send_probe(now, wire);
        if may_send {
            self.probe_path(now, wire);
        }
        self.begin_again(now);
        let mut left = BURST;
        while may_send
            && left > 0
            && let Some((start, end)) = self.next_again().or_else(|| self.next_new())
        {
            self.send_piece(start, end, now, wire);
            left = left.saturating_sub(end.since(start));
        }
        self.goes_on = left == 0;
        self.use_window();
        if core::mem::take(&mut self.challenges) {
            self.send_bare(self.sent.behind(), now, wire);
        }
        if core::mem::take(&mut self.keep.asks) {
            // The one before what it expects, which it must answer.
            self.send_bare(self.sent.first() - 1, now, wire);
        }
        if self.ack == Ack::Now || self.opens_window() || stands && self.urgent.is_untold() {
            self.send_ack(now, wire);
        }
        for _ in 0..core::mem::take(&mut self.duplicates) {
            self.send_ack(now, wire);
        }
        self.note_what_it_waits_for(now);
        self.set_timers(now);
    }

    /// After an idle time the capacity of the path is unknown.
    //= https://www.rfc-editor.org/rfc/rfc5681#section-4.1
    //# Therefore, a TCP SHOULD set cwnd to no more than RW before beginning
    //# transmission if the TCP has not sent data in an interval exceeding
    //# the retransmission timeout.
    fn begin_again(&mut self, now: Instant) {
        let begins = self.sent.unacknowledged() == 0 && self.has_unsent();
        if begins && now.since(self.spoke) > self.rtt.rto() {
            let restart = initial_window(self.mss(), self.settings.initial_segments, false);
            self.congestion.was_idle(restart);
        }
    }

    /// Whether bytes, or our FIN, were never sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.all_end().is_after(self.sent.behind())
    }

    /// Whether the program does not want what waits to be sent yet.
    pub(super) fn waits_for_more(&self) -> bool {
        let (start, bytes) = (self.sent.behind(), self.queued_end.since(self.sent.behind()));
        self.settings.cork && !self.is_ended && bytes < self.mss() && self.right_edge.since(start) >= bytes
    }

    /// Behind all that there is to send, the FIN included.
    fn all_end(&self) -> Seq {
        self.queued_end + u32::from(self.fin().is_some())
    }

    /// Our SYN, if it was not sent or was lost.
    fn send_syn(&mut self, now: Instant, wire: &mut dyn FnMut(&Out<'_>)) {
        let is_first = self.sent.behind() == self.iss;
        if !is_first && self.sent.first_lost().is_none_or(|(start, _)| start != self.iss) {
            return;
        }
        let is_answer = self.state == State::SynReceived;
        let may_ask = self.rtt.backoffs() <= self.settings.ecn_retries;
        let marks = match (self.ecn.is_on && (is_answer || may_ask), is_answer) {
            (false, _) => Flags::NONE,
            (true, true) => Flags::ECE,
            (true, false) => Flags::ECE | Flags::CWR,
        };
        let ack = if is_answer { Flags::ACK } else { Flags::NONE };
        let mut options = self.syn_options(now);
        let behind = self.open_with(&mut options);
        let window = self.window_to_say(0);
        let header = Header { options, ..self.header_saying(window, Flags::SYN | ack | marks, self.iss) };
        if !is_first {
            self.recovery.sends_again(self.stamps.at(now));
        }
        self.syn_goes(!is_first, behind, now);
        let payload = self.outgoing.read(0, behind.since(self.stream()) as usize);
        wire(&Out { header, payload, cut: 0, may_be_marked: false });
    }

    fn syn_goes(&mut self, is_again: bool, behind: Seq, now: Instant) {
        self.tally.sent(1, false, is_again);
        self.sent.send(self.iss, behind, now);
        self.ack = Ack::None;
    }

    /// Notes that the first reply to a SYN was sent: the changes of [`Self::output`] without a segment.
    #[inline]
    pub fn has_answered(&mut self, now: Instant) {
        self.window_to_say(0);
        self.syn_goes(false, self.stream(), now);
        self.use_window();
        self.set_timers(now);
    }

    /// Returns the next piece to retransmit.
    fn next_again(&self) -> Option<Piece> {
        let (start, end) = self.sent.first_lost()?;
        let end = end.min(start + self.room());
        // Something is always sent of what the timer has found: the window is one segment then.
        let pipe = self.pipe();
        let fits =
            pipe == 0 || self.recovery.is_begin() || pipe + end.since(start) <= self.congestion_window();
        fits.then_some((start, end))
    }

    /// Bytes that are thought to be in the network.
    pub(super) fn pipe(&self) -> u32 {
        let left = if self.sacks() { 0 } else { self.recovery.duplicates() * self.mss() };
        self.sent.pipe().saturating_sub(left)
    }

    /// Returns the next piece of new data.
    fn next_new(&mut self) -> Option<Piece> {
        let start = self.sent.behind();
        let available = self.all_end().since(start);
        if available == 0 {
            return None;
        }
        let is_stuck = core::mem::take(&mut self.is_stuck);
        let window = self.right_edge.since(start).max(u32::from(is_stuck));
        let congestion = self.congestion_window().saturating_sub(self.pipe());
        let bytes = self.queued_end.since(start);
        let most = if self.urgent.is_behind(start) { self.room() } else { self.batch() };
        let sendable = bytes.min(window).min(congestion).min(most);
        // What is left over of whole segments is asked about by itself.
        let left_over = if sendable > self.room() { sendable % self.room() } else { 0 };
        let sendable = sendable - left_over;
        let end = start + sendable;
        // A FIN takes no room in the window that anybody would miss, and goes with the last byte.
        let may_end = self.state >= State::Established && self.fin().is_some();
        let with_fin = u32::from(end == self.queued_end && may_end);
        // Data of our SYN that was not taken was not delayed the first time.
        let is_forced = sendable > 0 && (self.open.has_sent(start) || is_stuck);
        (is_forced || self.is_worth_it(sendable, bytes, with_fin > 0)).then_some((start, end + with_fin))
    }

    /// Whether a segment of `sendable` of `bytes` waiting bytes is sent, or waits for company.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6.2.1
    //# Send data:
    //#
    //# (1) if a maximum-sized segment can be sent, i.e., if:
    fn is_worth_it(&self, sendable: u32, bytes: u32, with_fin: bool) -> bool {
        let is_all = sendable == bytes;
        if self.waits_for_more() {
            return false;
        }
        let is_full = sendable >= self.room();
        let is_half_the_window = sendable > 0 && sendable >= self.window_max / 2;
        // (2) all of it, and no short segment is in flight or Nagle is off (as modified in appendix A.3). As to
        // (4), the override timeout is that of the persist timer.
        let is_alone = self.settings.nodelay || with_fin || !self.has_small_under_way();
        let is_last = is_all && sendable > 0 && is_alone;
        is_full || with_fin || is_last || is_half_the_window
    }

    /// Whether a segment that was shorter than others is not acknowledged: of such there is one at a time.
    fn has_small_under_way(&self) -> bool {
        let small = self.small;
        small.is_after(self.sent.first()) && !small.is_after(self.sent.behind())
    }

    pub(super) fn send_piece(&mut self, start: Seq, end: Seq, now: Instant, wire: &mut dyn FnMut(&Out<'_>)) {
        self.send_cut(start, end, self.room(), now, wire);
    }

    /// In segments of `cut` bytes at the most, made by the device.
    pub(super) fn send_cut(
        &mut self,
        start: Seq,
        end: Seq,
        cut: u32,
        now: Instant,
        wire: &mut dyn FnMut(&Out<'_>),
    ) {
        let is_again = start.is_before(self.sent.behind());
        let with_fin = self.fin().is_some_and(|fin| end.is_after(fin));
        let data_end = end - u32::from(with_fin);
        let is_all = data_end == self.queued_end;
        let mut flags = Flags::ACK;
        if with_fin {
            flags = flags | Flags::FIN;
            self.goes(Event::FinSent);
        }
        let segments = data_end.since(start).div_ceil(cut.max(1)).max(1);
        // PSH also on the last of several that leave together: reassembly of a super-packet need not wait for more of them.
        if is_all && data_end.is_after(start) || segments > 1 {
            //= https://www.rfc-editor.org/rfc/rfc9293#section-3.9.1.2
            //# MUST set the PSH bit in the last buffered segment
            flags = flags | Flags::PSH;
        }
        if self.ecn.is_on && !is_again && core::mem::take(&mut self.ecn.reduced) {
            flags = flags | Flags::CWR;
        }
        if self.recovery.is_on() {
            self.recovery.sends(end.since(start));
        }
        if !data_end.since(start).is_multiple_of(cut.max(1)) {
            self.small = data_end;
        }
        if is_again {
            self.recovery.sends_again(self.stamps.at(now));
            self.path.sends_again(start);
        } else {
            self.probe.begins();
        }
        let header = self.acknowledging(flags, start, now);
        self.tally.sent(segments, data_end.is_after(start), is_again);
        self.sent.send(start, end, now);
        self.spoke = now;
        let front = self.first_byte();
        let payload = self.outgoing.read(start.since(front) as usize, data_end.since(start) as usize);
        // RFC 3168 §6.1.5: what is sent again is not marked, nor what carries no data.
        let may_be_marked = self.ecn.is_on && !is_again && data_end.is_after(start);
        let cut = if segments > 1 { u16::try_from(cut).unwrap_or(u16::MAX) } else { 0 };
        wire(&Out { header, payload, cut, may_be_marked });
    }

    /// An acknowledgment; with our FIN, as long as the other end does not say that it has it.
    fn send_ack(&mut self, now: Instant, wire: &mut dyn FnMut(&Out<'_>)) {
        let behind = self.sent.behind();
        match self.state {
            State::FinWait1 | State::Closing | State::LastAck => {
                self.send_piece(behind - 1, behind, now, wire)
            }
            _ => self.send_bare(behind, now, wire),
        }
    }

    fn send_bare(&mut self, seq: Seq, now: Instant, wire: &mut dyn FnMut(&Out<'_>)) {
        let header = self.acknowledging(Flags::ACK, seq, now);
        self.tally.sent(1, false, false);
        wire(&Out { header, payload: [&[], &[]], cut: 0, may_be_marked: false });
    }

    /// The header of a segment that says all we know.
    pub(super) fn acknowledging(&mut self, flags: Flags, seq: Seq, now: Instant) -> Header {
        let echo = if self.ecn.echo { Flags::ECE } else { Flags::NONE };
        let options = self.options(now);
        let window = self.window_to_say(self.agreed.shift.0);
        self.ack = Ack::None;
        self.acknowledged = self.receive.next();
        let (urg, urgent) = self.urgent.say(seq);
        Header { options, urgent, ..self.header_saying(window, flags | echo | urg, seq) }
    }

    /// A header without options, but for the signature; it changes nothing.
    pub(super) fn header(&self, flags: Flags, seq: Seq) -> Header {
        let window = u16::try_from(self.window() >> self.agreed.shift.0).unwrap_or(u16::MAX);
        self.header_saying(window, flags, seq)
    }

    fn header_saying(&self, window: u16, flags: Flags, seq: Seq) -> Header {
        let (src_port, dst_port) = self.ports;
        let ack = if flags.ack() { self.receive.next().0 } else { 0 };
        Header { src_port, dst_port, seq: seq.0, ack, flags, window, urgent: 0, options: self.bare_options() }
    }

    /// Bytes that may come from now on. What was promised is kept.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6
    //# A TCP receiver SHOULD NOT shrink the window, i.e., move the right
    //# window edge to the left (SHLD-14)
    pub(super) fn window(&self) -> u32 {
        let waiting = u32::try_from(self.receive.readable()).unwrap_or(u32::MAX);
        // Before it stands, a listener's connection takes what its answer can say.
        let most =
            if self.state == State::SynReceived && self.is_passive { u16::MAX.into() } else { u32::MAX };
        let buffer = self.receive_buffer.min(most);
        let room = buffer.saturating_sub(waiting);
        // RFC 9293 §3.8.6.2.2: a little room is not worth a segment, and is not said.
        let room = if room < buffer / 4 && room < self.mss() { 0 } else { room };
        room.max(self.promised.since(self.receive.next()))
    }

    /// The window as it stands in a header, which is a promise.
    fn window_to_say(&mut self, shift: u8) -> u16 {
        let said = u16::try_from(self.window() >> shift).unwrap_or(u16::MAX);
        self.tally.zero_windows += u64::from(said == 0);
        self.promised = self.promised.max(self.receive.next() + (u32::from(said) << shift));
        said
    }

    /// Whether the window has opened by so much that the other end should know: RFC 9293 §3.8.6.2.2 says half the buffer
    /// or a segment. Where there was room anyway it is a quarter.
    fn opens_window(&self) -> bool {
        let is_wanted = matches!(self.state, State::Established | State::FinWait1 | State::FinWait2);
        let left = self.promised.since(self.receive.next());
        let more = self.window().saturating_sub(left);
        let buffer = self.receive_buffer;
        is_wanted
            && (more >= buffer / 2 || (more >= 2 * self.mss() && (more >= buffer / 4 || left < buffer / 4)))
    }
}
