//! The receive side: data in order or not, and its acknowledgment (RFC 2018, RFC 2883).

use wire::tcp::{SackBlock, SackBlocks};

use super::buffer::Buffer;
use super::rings::Rings;
use super::seq::Seq;

/// Blocks behind a gap that are kept of one stream: what a queue of a thousand segments leaves that loses each second one, as
/// it does at the end of slow start. A sender that makes more is after our memory, or its losses are such that it must send
/// most of it again anyway.
pub const BLOCKS_MAX: usize = 1024;

/// Blocks that a header has room for.
const SAID_MAX: usize = 4;

/// The receiving half of a connection: bytes from the one that is read next, and which of them are there.
#[derive(Debug)]
pub struct Receive {
    /// `RCV.NXT`.
    next: Seq,
    bytes: Buffer,
    /// Behind `next`, in order, none touching another.
    blocks: Vec<Block>,
    /// Arrivals so far, for the order in which blocks changed.
    arrivals: u32,
    /// Duplicate to be reported by D-SACK.
    duplicate: Option<SackBlock>,
    /// Where the stream ends, if that is known.
    fin: Option<Seq>,
    /// Whether all has come, and the FIN.
    finished: bool,
}

/// Bytes behind a gap.
#[derive(Clone, Copy, Debug)]
struct Block {
    start: Seq,
    end: Seq,
    /// The arrival that changed it last.
    changed: u32,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Block>() <= 12);

/// The effect of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Bytes that can be read now and could not before.
    pub readable: usize,
    /// Whether the stream has come to its end with this.
    pub finished: bool,
    /// Whether the sender must be told at once: it was not just the next piece with nothing missing before or behind it.
    pub is_odd: bool,
}

/// A segment that was dropped for want of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyGaps;

impl Receive {
    /// Makes one whose first byte is `next`.
    #[inline]
    #[must_use]
    pub fn new(next: Seq) -> Self {
        let (bytes, blocks) = (Buffer::default(), Vec::new());
        Self { next, bytes, blocks, arrivals: 0, duplicate: None, fin: None, finished: false }
    }

    /// Returns `RCV.NXT`.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Seq {
        self.next
    }

    /// Bytes of memory that it takes.
    #[inline]
    #[must_use]
    pub fn memory(&self) -> usize {
        self.bytes.memory() + self.blocks.capacity() * size_of::<Block>()
    }

    /// Before `bytes` come: see [`Buffer::borrow`]. Behind what waits there may be no room for them.
    #[inline]
    pub fn borrow(&mut self, bytes: usize, rings: &mut Rings) {
        if self.bytes.is_empty() {
            self.bytes.borrow(bytes, rings);
        }
    }

    /// Discards the data: it will not be read.
    #[inline]
    pub fn forget(&mut self) {
        self.bytes.forget(usize::MAX);
    }

    /// Gives empty memory back.
    #[inline]
    pub fn give_back(&mut self, rings: &mut Rings) {
        self.bytes.give_back(rings);
    }

    /// Bytes that can be read.
    #[inline]
    #[must_use]
    pub fn readable(&self) -> usize {
        let read_next = self.next - u32::from(self.finished);
        let behind = self.blocks.last().map_or(0, |last| last.end.since(read_next));
        self.bytes.len() - behind as usize
    }

    /// Whether the end was received, and all before it.
    #[inline]
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Whether something is missing before what has come.
    #[inline]
    #[must_use]
    pub fn has_gap(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Copies bytes in order into `out`, from the one at `at` on, and answers how many. They stay.
    #[inline]
    pub fn peek(&self, at: usize, out: &mut [u8]) -> usize {
        let len = out.len().min(self.readable().saturating_sub(at));
        self.bytes.copy_to(at, &mut out[..len])
    }

    /// The bytes that can be read, `most` of them, from the one at `at` on, in two pieces.
    #[inline]
    #[must_use]
    pub fn pieces(&self, at: usize, most: usize) -> [&[u8]; 2] {
        self.bytes.read(at, self.readable().saturating_sub(at).min(most))
    }

    /// Consumes a number of bytes.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.bytes.forget(count.min(self.readable()));
    }

    /// Takes `bytes` in that stand at `seq`, all inside the window, and a FIN behind them.
    ///
    /// Of what has come before, the bytes that came first count.
    ///
    /// # Errors
    ///
    /// [`TooManyGaps`]: it would be a block too many. Nothing has changed.
    pub fn arrive(&mut self, seq: Seq, bytes: &[u8], fin: bool) -> Result<Arrived, TooManyGaps> {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        // Behind the end of the stream there is nothing, whatever comes, and it does not end before what has come.
        let end = self.fin.map_or(seq + len, |fin| fin.min(seq + len));
        let fin = fin && self.blocks.last().is_none_or(|last| !last.end.is_after(end));
        if self.finished || !end.is_after(self.next) {
            return Ok(self.old(seq, end, fin));
        }
        let duplicate = self.first_duplicate(seq, end);
        let start = seq.max(self.next);
        let is_next = start == self.next;
        if !is_next && self.is_block_too_many(start, end) {
            return Err(TooManyGaps);
        }
        let had_gap = self.has_gap();
        let before = self.readable();
        if start.is_before(end) {
            self.fill(start, end, &bytes[start.since(seq) as usize..]);
            self.join(start, end);
        }
        if fin {
            self.fin.get_or_insert(end);
        }
        self.finish();
        duplicate.into_iter().for_each(|duplicate| self.came_twice(duplicate));
        let is_odd = !is_next || had_gap || duplicate.is_some();
        Ok(Arrived { readable: self.readable() - before, finished: self.finished, is_odd })
    }

    /// Returns the SACK blocks, at most `max`: first the duplicate, once, then
    /// blocks, the one that changed last first.
    //= https://www.rfc-editor.org/rfc/rfc2018#section-4
    //# The first SACK block (i.e., the one immediately following the
    //# kind and length fields in the option) MUST specify the contiguous
    //# block of data containing the segment which triggered this ACK,
    //# unless that segment advanced the Acknowledgment Number field in
    //# the header.
    pub fn sack(&mut self, max: usize) -> SackBlocks {
        if self.gaps_to_say() == 0 {
            return SackBlocks::NONE;
        }
        let mut said = SackBlocks::NONE;
        let duplicate = self.duplicate.take();
        //= https://www.rfc-editor.org/rfc/rfc2883#section-4
        //# If the D-SACK block reports a duplicate contiguous sequence from
        //# a (possibly larger) block of data in the receiver's data queue
        //# above the cumulative acknowledgement, then the second SACK block
        //# in that SACK option should specify that (possibly larger) block of
        //# data.
        let around = duplicate.and_then(|duplicate| self.around(duplicate)).map(Block::said);
        let latest = self.latest().into_iter().flatten().map(|(_, block)| block.said());
        let others = latest.filter(|block| Some(*block) != around);
        for block in duplicate.into_iter().chain(around).chain(others).take(max) {
            said.push(block);
        }
        said
    }

    /// Blocks that [`Self::sack`] would say if there were room for all.
    #[inline]
    #[must_use]
    pub fn gaps_to_say(&self) -> usize {
        self.blocks.len() + usize::from(self.duplicate.is_some())
    }

    /// A segment of which nothing is new, unless it is the FIN.
    fn old(&mut self, seq: Seq, end: Seq, fin: bool) -> Arrived {
        let had_gap = self.has_gap();
        if fin && !self.finished && end == self.next {
            self.fin.get_or_insert(end);
            self.finish();
            let is_odd = seq != end || had_gap;
            return Arrived { readable: 0, finished: self.finished, is_odd };
        }
        if seq.is_before(end) {
            let next = self.next - u32::from(self.finished);
            self.came_twice(SackBlock { left: seq.0, right: end.min(next).0 });
        }
        Arrived { readable: 0, finished: false, is_odd: true }
    }

    /// Notes what came twice. What goes on where the last ended is one with it: a packet may lie in several buffers, and several
    /// packets have one acknowledgment.
    //= https://www.rfc-editor.org/rfc/rfc2883#section-4
    //# Each duplicate contiguous sequence of data received is
    //# reported in at most one D-SACK block.
    fn came_twice(&mut self, duplicate: SackBlock) {
        let before = self.duplicate.filter(|before| before.right == duplicate.left);
        let left = before.map_or(duplicate.left, |before| before.left);
        self.duplicate = Some(SackBlock { left, ..duplicate });
    }

    /// The first bytes in a row that have come before.
    //= https://www.rfc-editor.org/rfc/rfc2883#section-4
    //# A D-SACK block is only used to report a duplicate contiguous
    //# sequence of data received by the receiver in the most recent packet.
    fn first_duplicate(&self, seq: Seq, end: Seq) -> Option<SackBlock> {
        if seq.is_before(self.next) {
            // It ends behind `next`, where something is missing.
            return Some(SackBlock { left: seq.0, right: self.next.0 });
        }
        let first = self.blocks.get(self.place(seq)).filter(|block| block.start.is_before(end))?;
        Some(SackBlock { left: seq.max(first.start).0, right: end.min(first.end).0 })
    }

    /// Whether a block from `start` to `end` touches none, and there are as many as there may be.
    fn is_block_too_many(&self, start: Seq, end: Seq) -> bool {
        let at = self.blocks.partition_point(|block| block.end.is_before(start));
        let touches = self.blocks.get(at).is_some_and(|block| !block.start.is_after(end));
        self.blocks.len() >= BLOCKS_MAX && !touches
    }

    /// The place of the first block that reaches beyond `at`.
    fn place(&self, at: Seq) -> usize {
        self.blocks.partition_point(|block| !block.end.is_after(at))
    }

    /// The block that all of another lies in.
    fn around(&self, inner: SackBlock) -> Option<&Block> {
        let at = self.blocks.partition_point(|block| block.end.is_before(Seq(inner.right)));
        self.blocks.get(at).filter(|block| !block.start.is_after(Seq(inner.left)))
    }

    /// Writes what is not there yet of the bytes from `start` to `end`.
    fn fill(&mut self, start: Seq, end: Seq, bytes: &[u8]) {
        let front = self.next - u32::try_from(self.readable()).unwrap_or(0);
        let (mut from, first) = (start, self.place(start));
        let mut put = |from: Seq, to: Seq| {
            if from.is_before(to) {
                let piece = &bytes[from.since(start) as usize..to.since(start) as usize];
                self.bytes.write(from.since(front) as usize, piece);
            }
        };
        for block in self.blocks[first..].iter().take_while(|block| block.start.is_before(end)) {
            put(from, end.min(block.start));
            from = from.max(block.end);
        }
        put(from, end);
    }

    /// Makes one of what touches `start` to `end`, and moves on if that is where something was missing.
    fn join(&mut self, start: Seq, end: Seq) {
        self.arrivals = self.arrivals.wrapping_add(1);
        let mut all = Block { start, end, changed: self.arrivals };
        let first = self.blocks.partition_point(|block| block.end.is_before(start));
        let behind = self.blocks.partition_point(|block| !block.start.is_after(end));
        for block in self.blocks.drain(first..behind.max(first)) {
            all.start = all.start.min(block.start);
            all.end = all.end.max(block.end);
        }
        if all.start == self.next {
            self.next = all.end;
        } else {
            self.blocks.insert(first, all);
        }
        if self.blocks.is_empty() {
            self.blocks = Vec::new();
        }
    }

    fn finish(&mut self) {
        if !self.finished && self.fin == Some(self.next) {
            self.finished = true;
            self.next += 1;
        }
    }

    /// Returns as many blocks as fit, the one that changed last first, each with its age. Moments would wrap.
    fn latest(&self) -> [Option<(u32, &Block)>; SAID_MAX] {
        let mut latest = [None; SAID_MAX];
        for block in &self.blocks {
            let mut next = Some((self.arrivals.wrapping_sub(block.changed), block));
            for place in &mut latest {
                let is_older = |(age, _): &(u32, &Block)| next.is_some_and(|(younger, _)| *age > younger);
                if place.as_ref().is_none_or(is_older) {
                    core::mem::swap(place, &mut next);
                }
            }
        }
        latest
    }
}

impl Block {
    /// As it stands in a header.
    fn said(&self) -> SackBlock {
        SackBlock { left: self.start.0, right: self.end.0 }
    }
}

#[cfg(test)]
mod tests;
