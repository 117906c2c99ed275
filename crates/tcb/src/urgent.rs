//! Urgent data (RFC 9293 §3.8.5, RFC 6093): marks in the streams.
//!
//! A mark is a number, and nothing is kept, moved or taken out because of it: what is urgent stands in the stream as all
//! else. A program may ask to have the last urgent byte by itself, as it is used to from BSD; then reading passes over it.

use wire::tcp::Flags;

use super::{Segment, State, Tcb};
use crate::seq::Seq;

/// Marks, ours and the other end's. Each stands behind the last urgent byte.
//= https://www.rfc-editor.org/rfc/rfc9293#section-3.8.5
//# the urgent pointer points to the sequence number of the octet following the urgent data
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Urgent {
    /// `SND.UP`, until all before it is acknowledged.
    ours: Option<Seq>,
    /// The other end has not been told of it.
    is_untold: bool,
    /// `RCV.UP`, until all before it is read.
    theirs: Option<Seq>,
    /// The last urgent byte, if it was passed over and not asked for.
    passed: Option<u8>,
    /// It was asked for.
    is_taken: bool,
}

impl Urgent {
    /// The other end has all before `first`.
    pub(super) fn acknowledged(&mut self, first: Seq) {
        self.ours = self.ours.filter(|ours| ours.is_after(first));
        self.is_untold &= self.ours.is_some();
    }

    /// Whether the other end is still to be told of a mark.
    pub(super) fn is_untold(&self) -> bool {
        self.is_untold
    }

    /// Whether what stands at `seq` and behind it is urgent. A device that cuts would not move the pointer.
    pub(super) fn is_behind(&self, seq: Seq) -> bool {
        self.ours.is_some_and(|ours| ours.is_after(seq))
    }

    /// Returns flag and pointer for a segment from `seq` on, as far as they can be expressed.
    pub(super) fn say(&mut self, seq: Seq) -> (Flags, u16) {
        let Some(ours) = self.ours.filter(|ours| ours.is_after(seq)) else { return (Flags::NONE, 0) };
        self.is_untold = false;
        (Flags::URG, u16::try_from(ours.since(seq)).unwrap_or(u16::MAX))
    }
}

impl Tcb {
    /// Takes as many of `bytes` as there is room for, and answers how many; the other end is told, at once, that it
    /// should hurry to read the last of them.
    #[inline]
    pub fn send_urgent(&mut self, bytes: &[u8]) -> usize {
        let taken = self.send(bytes);
        if taken > 0 {
            self.urgent.ours = Some(self.queued_end);
            self.urgent.is_untold = true;
        }
        taken
    }

    /// Bytes from the next that is read to behind the last urgent one, come or not; `None` if nothing is urgent.
    #[inline]
    #[must_use]
    pub fn urgent(&self) -> Option<u32> {
        Some((self.mark()? + 1).since(self.unread()))
    }

    /// Whether the next byte is the last urgent one (`sockatmark`).
    #[inline]
    #[must_use]
    pub fn is_at_mark(&self) -> bool {
        self.mark() == Some(self.unread())
    }

    /// The last urgent byte, for a program that wants it by itself, once; `None` if it has not come, or there is none.
    pub fn read_urgent(&mut self) -> Option<u8> {
        if let Some(byte) = self.urgent.passed.take() {
            return Some(byte);
        }
        let at = self.hidden()?;
        let mut byte = [0];
        let is_there = !self.urgent.is_taken && self.receive.peek(at, &mut byte) == 1;
        self.urgent.is_taken |= is_there;
        is_there.then_some(byte[0])
    }

    /// Whether it is known that there is such a byte, and it has not come.
    #[inline]
    #[must_use]
    pub fn awaits_urgent(&self) -> bool {
        !self.settings.urgent_inline && self.mark().is_some() && self.hidden().is_none()
    }

    /// Sixth: whether something is urgent.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.10.7.4
    //# If the URG bit is set, RCV.UP <- max(RCV.UP,SEG.UP), and signal
    //# the user that the remote side has urgent data if the urgent
    //# pointer (RCV.UP) is in advance of the data consumed.
    pub(super) fn check_urgent(&mut self, segment: &Segment<'_>) {
        let header = segment.header;
        let reads = matches!(self.state, State::Established | State::FinWait1 | State::FinWait2);
        if !header.flags.contains(Flags::URG) || !reads {
            return;
        }
        let mark = Seq(header.seq) + header.urgent.into();
        let known = self.urgent.theirs.unwrap_or_else(|| self.unread());
        if mark.is_after(known) {
            (self.urgent.theirs, self.urgent.is_taken, self.urgent.passed) = (Some(mark), false, None);
        }
    }

    /// Copies from the stream up to the mark, or from there on: a reader learns the mark's place by stopping there.
    pub(super) fn peek_to_mark(&self, into: &mut [u8]) -> usize {
        let (skipped, most) = self.part_to_read();
        let len = into.len().min(most);
        self.receive.peek(skipped, &mut into[..len])
    }

    /// Returns the bytes in place, in two pieces.
    #[inline]
    pub(super) fn pieces_to_mark(&self) -> [&[u8]; 2] {
        let (skipped, most) = self.part_to_read();
        self.receive.pieces(skipped, most)
    }

    /// `count` bytes were read, and what stood before them passed over.
    pub(super) fn was_read(&mut self, count: usize) {
        let (skipped, _) = self.part_to_read();
        if count > 0 && skipped > 0 {
            self.urgent.passed = self.read_urgent();
        }
        self.receive.consume(if count > 0 { skipped + count } else { 0 });
        if self.urgent.theirs.is_some_and(|mark| !mark.is_after(self.unread())) {
            self.urgent.theirs = None;
        }
    }

    /// Returns the bytes that the next read skips, and the most it takes.
    #[inline]
    fn part_to_read(&self) -> (usize, usize) {
        match self.mark().map(|mark| mark.since(self.unread()) as usize) {
            None => (0, usize::MAX),
            Some(0) => (usize::from(self.hidden().is_some()), usize::MAX),
            Some(before) => (0, before),
        }
    }

    /// Where the byte is that is not read with the others, counted from the next one, if there is such a byte.
    pub(super) fn hidden(&self) -> Option<usize> {
        let before = self.mark()?.since(self.unread()) as usize;
        (!self.settings.urgent_inline && before < self.receive.readable()).then_some(before)
    }

    /// Where the last urgent byte is. Behind the end of the stream there is none.
    fn mark(&self) -> Option<Seq> {
        let mark = self.urgent.theirs? - 1;
        let is_beyond = self.receive.is_finished() && !mark.is_before(self.receive.next() - 1);
        (!is_beyond && !mark.is_before(self.unread())).then_some(mark)
    }

    /// The next byte that is read.
    fn unread(&self) -> Seq {
        let read = self.receive.next() - u32::from(self.receive.is_finished());
        read - u32::try_from(self.receive.readable()).unwrap_or(0)
    }
}
