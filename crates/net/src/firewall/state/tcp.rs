//! Tracking of a TCP connection in transit: its phase, and its windows.
//!
//! The bounds are those of van Rooij ("Real Stateful TCP Packet Filtering in IP Filter", 2001). What an end may send
//! lies between what it has sent before, less the other's largest window, and what the other has acknowledged, plus that
//! window; what it may acknowledge lies below what the other has sent. A segment outside of that is not the ends', or
//! they will not take it: it says nothing about the connection.

use pkt::{Pkt, WINDOW};
use wire::tcp::{Flags, HEADER_LEN, HEADER_MAX, window_scale};
use wire::{Protocol, ip4, ip6};

use super::key::Key;
use crate::firewall::pkt_info::{Part, PktInfo};

/// Tolerance of old acknowledgments, whatever the window: replies to earlier segments.
const ACK_BEHIND: u32 = 66_000;
/// Data that may come with a SYN (RFC 7413), bytes.
const SYN_DATA_MAX: u32 = 1460;
/// The largest scale (RFC 7323 §2.3), assumed where the SYNs were not seen.
const SCALE_MAX: u8 = 14;
/// Segments with one of these are looked at more closely.
const BREAKS: Flags = Flags(Flags::SYN.0 | Flags::RST.0);
/// A scale that was not offered.
const NO_SCALE: u8 = u8::MAX;

/// The parts of a segment that tracking needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Control bits.
    pub flags: Flags,
    /// Sequence number of the first byte, or of the SYN.
    pub seq: u32,
    /// Acknowledgement, if the flag says so.
    pub ack: u32,
    /// Window, as it stands in the header.
    pub window: u16,
    /// Length in sequence space: payload, SYN and FIN.
    pub len: u32,
    /// The window scale that a SYN offers.
    pub scale: Option<u8>,
}

/// The sequence state of one end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peer {
    /// One beyond the highest sequence number that it has sent.
    end: u32,
    /// The highest that it has acknowledged.
    ack: u32,
    /// The largest window that it has offered, bytes.
    window: u32,
    /// Bits of [`seen`].
    seen: u8,
    /// The scale that it has offered.
    scale: u8,
    /// Bits that the window of its segments is shifted by.
    shift: u8,
}

/// Flags of segments seen from an end.
mod seen {
    /// Anything.
    pub(super) const ANY: u8 = 1;
    pub(super) const SYN: u8 = 2;
    pub(super) const FIN: u8 = 4;
    /// A reset that the other end believes.
    pub(super) const RST: u8 = 8;
    /// An acknowledgement by it.
    pub(super) const ACK: u8 = 16;
    /// An acknowledgement of its SYN by the other.
    pub(super) const SYN_ACKED: u8 = 32;
    /// An acknowledgement of its FIN.
    pub(super) const FIN_ACKED: u8 = 64;
    /// Nothing, for a while: its segments went another way, so that its numbers are old.
    pub(super) const UNTRACKED: u8 = 128;
}

/// A connection: the end that made the state, and the other one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Track(pub(super) [Peer; 2]);

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its beginning was not seen.
    Unknown,
    /// Not acknowledged both ways.
    Opening,
    /// Open; or closed by one end alone.
    Established,
    /// Closed by both, with an acknowledgement missing.
    Closing,
    /// Closed by both.
    Closed,
    /// Reset.
    Reset,
}

/// The verdict on a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It goes on with it.
    Fresh,
    /// It repeats what was said before.
    Stale,
    /// It cannot be of it.
    Outside,
}

impl Segment {
    /// Reads the segment of a packet; `None` if that is not TCP.
    #[inline]
    #[must_use]
    pub fn of(info: &PktInfo, pkt: &Pkt) -> Option<Self> {
        if info.proto != Protocol::TCP.0 || info.part == Part::Later {
            return None;
        }
        let l4 = usize::from(info.l4);
        let header = pkt.window(l4);
        Some(Self::parse(header, pkt.len().saturating_sub(l4)))
    }

    /// Reads the segment of a [`usual`](crate::firewall::pkt_info::usual) packet.
    #[inline]
    pub(in super::super) fn of_usual(pkt: &Pkt) -> Option<Self> {
        let ip = pkt.window(0);
        let is_ip4 = ip[0] >> 4 == 4;
        let proto = if is_ip4 { ip[9] } else { ip[6] };
        (proto == Protocol::TCP.0).then(|| Self::of_plain(pkt, is_ip4))
    }

    /// Reads the segment of a packet of TCP that has neither options of IPv4 nor extension headers.
    #[inline(always)]
    pub(super) fn of_plain(pkt: &Pkt, is_ip4: bool) -> Self {
        let l4 = if is_ip4 { ip4::HEADER_LEN } else { ip6::HEADER_LEN };
        Self::parse(pkt.window(l4), pkt.len().saturating_sub(l4))
    }

    /// Reads a [`usual`](crate::firewall::pkt_info::usual) packet of a flow; `None` if it is not TCP, or a SYN or reset.
    #[inline(always)]
    pub(super) fn of_running(key: &Key, pkt: &Pkt) -> Option<Self> {
        // One window has the fixed part of both families' headers.
        let (ip, is_ip4) = (pkt.window(0), key.is_ip4());
        let (v4, v6) = (ip[ip4::HEADER_LEN..].first_chunk()?, ip[ip6::HEADER_LEN..].first_chunk()?);
        let (header, l4) = if is_ip4 { (v4, ip4::HEADER_LEN) } else { (v6, ip6::HEADER_LEN) };
        let is_running = key.proto() == Protocol::TCP.0 && !Flags(header[13]).intersects(BREAKS);
        is_running.then(|| Self::fixed(header, pkt.len().saturating_sub(l4)))
    }

    /// Reads a header that is `len` bytes with its payload.
    #[inline(always)]
    pub(super) fn parse(header: &[u8; WINDOW], len: usize) -> Self {
        let Some(fixed) = header.first_chunk() else { return Self::default() };
        let segment = Self::fixed(fixed, len);
        let header_len = usize::from(header[12] >> 4) * 4;
        let scale = if segment.flags.syn() { scale(header, header_len.min(len)) } else { None };
        Self { scale, ..segment }
    }

    /// Reads the part of a header that is before its options.
    #[inline(always)]
    fn fixed(header: &[u8; HEADER_LEN], len: usize) -> Self {
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let flags = Flags(header[13]);
        let header_len = usize::from(header[12] >> 4) * 4;
        let payload = u32::try_from(len.saturating_sub(header_len)).unwrap_or(u32::MAX);
        let controls = u32::from(flags.syn()) + u32::from(flags.fin());
        Self {
            flags,
            seq: word(4),
            ack: word(8),
            window: u16::from_be_bytes([header[14], header[15]]),
            len: payload.saturating_add(controls),
            scale: None,
        }
    }

    /// A SYN that opens a connection.
    #[inline]
    pub(super) const fn is_opening(&self) -> bool {
        self.flags.0 & (Flags::SYN.0 | Flags::ACK.0 | Flags::RST.0 | Flags::FIN.0) == Flags::SYN.0
    }

    const fn end(&self) -> u32 {
        self.seq.wrapping_add(self.len)
    }
}

/// The window scale among a SYN's options.
#[inline(never)]
fn scale(header: &[u8; WINDOW], header_len: usize) -> Option<u8> {
    let options = header.get(HEADER_LEN..header_len.min(HEADER_MAX))?;
    //= https://www.rfc-editor.org/rfc/rfc7323#section-2.3
    //# If a Window Scale option is received with a shift.cnt value
    //# larger than 14, the TCP SHOULD log the error but MUST use 14
    //# instead of the specified value.
    window_scale(options).map(|scale| scale.min(SCALE_MAX))
}

impl Track {
    /// The connection whose state this segment makes.
    pub(super) fn begin(segment: &Segment) -> Self {
        let mut creator = Peer::begin(segment);
        if segment.flags.contains(Flags::RST) {
            creator.seen |= seen::RST;
        }
        let mut track = Self([creator, Peer::default()]);
        track.set_shifts();
        track
    }

    /// Flags that were seen from either end since the beginning: SYN, ACK, FIN, RST.
    pub(super) fn flags(&self) -> Flags {
        const BITS: [(u8, Flags); 4] = [
            (seen::SYN, Flags::SYN),
            (seen::FIN, Flags::FIN),
            (seen::RST, Flags::RST),
            (seen::ACK, Flags::ACK),
        ];
        let all = self.0.iter().fold(0, |all, peer| all | peer.seen);
        let flags = BITS.iter().filter(|(bit, _)| all & bit != 0);
        flags.fold(Flags::default(), |flags, (_, flag)| flags | *flag)
    }

    /// Takes a segment of the creator (0) or to it (1) into account. One that is outside changes nothing.
    pub(super) fn take(&mut self, from: usize, segment: &Segment) -> Judgement {
        if segment.flags.intersects(BREAKS) || !self.0[from].has(seen::ANY) {
            return self.take_unusual(from, segment);
        }
        if let Some((judgement, _)) = self.take_running(from, segment) {
            return judgement;
        }
        let (sender, receiver) = self.ends_mut(from);
        if !resume(sender, receiver, segment) {
            return Judgement::Outside;
        }
        let window = sender.scaled(segment.window);
        go_on(sender, receiver, segment, window)
    }

    /// Takes a segment that is neither a SYN nor a reset into account. `None`, and nothing has changed, if it is the first of
    /// its end, or outside. Answers also whether the flags seen of the ends are others now.
    #[inline(always)]
    pub(super) fn take_running(&mut self, from: usize, segment: &Segment) -> Option<(Judgement, bool)> {
        let (sender, receiver) = self.ends_mut(from);
        if !sender.has(seen::ANY) || !fits(sender, receiver, segment) {
            return None;
        }
        let (window, before) = (sender.scaled(segment.window), [sender.seen, receiver.seen]);
        let judgement = go_on(sender, receiver, segment, window);
        Some((judgement, [sender.seen, receiver.seen] != before))
    }

    /// From now on segments go another way. When they come back, the first one of each end says where that is.
    pub(super) const fn release(&mut self) {
        self.0[0].seen |= seen::UNTRACKED;
        self.0[1].seen |= seen::UNTRACKED;
    }

    /// Returns the flags seen of both ends, as a number that changes with each of them.
    #[inline]
    pub(super) const fn marks(&self) -> u16 {
        u16::from_ne_bytes([self.0[0].seen, self.0[1].seen])
    }

    #[cold]
    #[inline(never)]
    fn take_unusual(&mut self, from: usize, segment: &Segment) -> Judgement {
        if segment.flags.contains(Flags::RST) { self.reset(from, segment) } else { self.first(from, segment) }
    }

    /// A reset closes a connection only if the other end will believe it: if it stands exactly where the other end is,
    /// or answers its SYN. One in the window elsewhere makes the other end ask back, and then comes one that is exact.
    //= https://www.rfc-editor.org/rfc/rfc5961#section-3.2
    //# If the RST bit is set and the sequence number exactly matches the
    //# next expected sequence number (RCV.NXT), then TCP MUST reset the
    //# connection.
    fn reset(&mut self, from: usize, segment: &Segment) -> Judgement {
        let [sender, receiver] = self.pair(from);
        let is_believed = if sender.has(seen::ANY) {
            segment.seq == sender.end || receiver.has(seen::ACK) && segment.seq == receiver.ack
        } else {
            segment.flags.ack() && segment.ack == receiver.end
        };
        if is_believed {
            self.0[from].seen |= seen::ANY | seen::RST;
            return Judgement::Fresh;
        }
        // One of an end that was out of sight may be right: the other end will know.
        let is_near =
            sender.has(seen::ANY) && (fits(&sender, &receiver, segment) || sender.has(seen::UNTRACKED));
        if is_near { Judgement::Stale } else { Judgement::Outside }
    }

    /// A SYN, or the first segment of an end.
    fn first(&mut self, from: usize, segment: &Segment) -> Judgement {
        let [sender, receiver] = self.pair(from);
        let is_syn = segment.flags.syn();
        let begins = match (sender.has(seen::ANY), receiver.has(seen::ANY)) {
            // Not answered: the next attempt may begin elsewhere.
            (true, false) => is_syn,
            (true, true) => false,
            // To a SYN only a SYN is the answer; without that all is.
            (false, _) if !receiver.has(seen::SYN) => true,
            (false, _) => {
                let behind = receiver.end.wrapping_sub(segment.ack);
                is_syn && (!segment.flags.ack() || behind <= SYN_DATA_MAX)
            }
        };
        if begins {
            self.0[from] = Peer { seen: sender.seen | Peer::begin(segment).seen, ..Peer::begin(segment) };
            self.set_shifts();
            if segment.flags.ack() {
                self.0[1 - from].seen |= seen::SYN_ACKED;
            }
            return Judgement::Fresh;
        }
        // A retransmitted SYN. Others in the window are guesses, or of an end that has lost its memory; the
        // other end asks back.
        if is_syn && segment.end() == sender.end && fits(&sender, &receiver, segment) {
            let (sender, receiver) = self.ends_mut(from);
            return go_on(sender, receiver, segment, segment.window.into());
        }
        Judgement::Outside
    }

    /// Returns the phase of the connection.
    #[inline]
    pub(super) const fn phase(&self) -> Phase {
        let [a, b] = self.0;
        let (any, both) = (a.seen | b.seen, a.seen & b.seen);
        const OPEN: u8 = seen::SYN | seen::SYN_ACKED;
        match (any, both) {
            (any, _) if any & seen::RST != 0 => Phase::Reset,
            (_, both) if both & seen::FIN != 0 && both & seen::FIN_ACKED != 0 => Phase::Closed,
            (_, both) if both & seen::FIN != 0 => Phase::Closing,
            (_, both) if both & OPEN == OPEN => Phase::Established,
            (any, _) if any & seen::SYN != 0 => Phase::Opening,
            _ => Phase::Unknown,
        }
    }

    /// Whether `seq`, of a segment that this end is said to have sent, can be of the connection, and has been sent.
    pub(super) fn has_sent(&self, from: usize, seq: u32) -> bool {
        let [sender, receiver] = self.pair(from);
        let behind = sender.end.wrapping_sub(seq);
        sender.has(seen::ANY) && behind <= receiver.window.max(ACK_BEHIND)
    }

    /// Sequence number and acknowledgement of a keepalive in the name of this end: the byte before the one that the
    /// other end expects, so that it answers.
    pub(super) const fn keepalive(&self, from: usize) -> (u32, u32) {
        let [sender, receiver] = self.pair(from);
        (receiver.ack.wrapping_sub(1), sender.ack)
    }

    /// Bits that the window of an end's segments is shifted by. Both ends must have offered to scale, or neither does.
    const fn scale_of(&self, from: usize) -> u8 {
        let [sender, receiver] = self.pair(from);
        match (sender.has(seen::SYN), receiver.has(seen::SYN)) {
            (true, true) if sender.scale == NO_SCALE || receiver.scale == NO_SCALE => 0,
            (true, true) => sender.scale,
            // The other is still to be seen: nothing is judged by this yet.
            (true, false) => 0,
            (false, _) => SCALE_MAX,
        }
    }

    fn set_shifts(&mut self) {
        self.0[0].shift = self.scale_of(0);
        self.0[1].shift = self.scale_of(1);
    }

    #[inline]
    const fn ends_mut(&mut self, from: usize) -> (&mut Peer, &mut Peer) {
        let [creator, other] = &mut self.0;
        if from == 0 { (creator, other) } else { (other, creator) }
    }

    const fn pair(&self, from: usize) -> [Peer; 2] {
        let [creator, other] = self.0;
        if from == 0 { [creator, other] } else { [other, creator] }
    }
}

impl Peer {
    fn begin(segment: &Segment) -> Self {
        let syn = if segment.flags.syn() { seen::SYN } else { 0 };
        let ack = if segment.flags.ack() { seen::ACK } else { 0 };
        // The window of a SYN is never scaled (RFC 7323 §2.2).
        let scale = if segment.flags.syn() { 0 } else { SCALE_MAX };
        Self {
            end: segment.end(),
            ack: segment.ack,
            window: u32::from(segment.window) << scale,
            seen: seen::ANY | syn | ack,
            scale: segment.scale.unwrap_or(NO_SCALE),
            shift: 0,
        }
    }

    #[inline]
    const fn has(&self, what: u8) -> bool {
        self.seen & what != 0
    }

    /// Returns the window of one of its segments in bytes.
    #[inline]
    const fn scaled(&self, window: u16) -> u32 {
        (window as u32).wrapping_shl(self.shift as u32)
    }
}

/// A segment that fits, with its window in bytes: what is new in it?
#[inline]
fn go_on(sender: &mut Peer, receiver: &mut Peer, segment: &Segment, window: u32) -> Judgement {
    let end = segment.end();
    sender.window = sender.window.max(window);
    let mut is_fresh = !is_before(end, sender.end);
    if is_fresh {
        sender.end = end;
        if segment.flags.fin() {
            sender.seen |= seen::FIN;
        }
    }
    if segment.flags.ack() {
        let is_news = !sender.has(seen::ACK) || !is_before(segment.ack, sender.ack);
        is_fresh &= is_news;
        if is_news {
            sender.ack = segment.ack;
            sender.seen |= seen::ACK;
        }
        // A SYN can be forged; only the receiver of the reply can acknowledge it.
        if segment.ack == receiver.end {
            receiver.seen |= seen::SYN_ACKED | (receiver.seen & seen::FIN) << 4;
        }
    }
    if is_fresh { Judgement::Fresh } else { Judgement::Stale }
}

/// Whether a segment lies within the windows. An end that has not been seen sets no bounds.
#[inline]
fn fits(sender: &Peer, receiver: &Peer, segment: &Segment) -> bool {
    if !receiver.has(seen::ANY) {
        return true;
    }
    // Into a closed window one byte is sent, to find out whether it is still closed.
    let window = receiver.window.max(1);
    if is_before(segment.seq, sender.end.wrapping_sub(window)) {
        return false;
    }
    if receiver.has(seen::ACK) && is_before(receiver.ack.wrapping_add(window), segment.end()) {
        return false;
    }
    let behind = receiver.end.wrapping_sub(segment.ack);
    !segment.flags.ack() || behind <= sender.window.max(ACK_BEHIND)
}

/// Takes up a connection again of which an end was out of sight: its place is where the segment is. False, and nothing has
/// changed, if both ends were in sight.
#[cold]
fn resume(sender: &mut Peer, receiver: &mut Peer, segment: &Segment) -> bool {
    if !sender.has(seen::UNTRACKED) && !receiver.has(seen::UNTRACKED) {
        return false;
    }
    sender.end = segment.end();
    if segment.flags.ack() {
        sender.ack = segment.ack;
        if receiver.has(seen::UNTRACKED) {
            receiver.end = segment.ack;
        }
    }
    sender.seen &= !seen::UNTRACKED;
    true
}

/// Whether one sequence number comes before another.
#[inline]
const fn is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

#[cfg(test)]
mod tests;
