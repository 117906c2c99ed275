//! Frames in several buffers: long ones, and those of peers with short buffers.
//!
//! Headers lie in the first buffer of a packet, however the peer has cut the frame.

use pkt::{DATA_LEN, Fragments, Pkt, PktVec, Pool};

use super::super::FRAME_MAX;
use super::super::fault::{Counters, Fault};
use super::super::ring_memory::Desc;
use super::{End, Put, TxQueue};

/// Descriptors of the longest chain. A peer whose buffers are so small that a frame needs more does not get it.
const CHAIN_MAX: u16 = 64;

/// The pieces of a received frame, and up to where they were read.
struct Pieces {
    descs: [Desc; CHAIN_MAX as usize],
    count: u16,
    at: usize,
    offset: usize,
}

impl End {
    /// Takes the frame that begins at our place, if it is good and ends within `left` descriptors; answers how many of
    /// them are dealt with: none, if there are no buffers for it.
    #[inline(never)]
    pub(super) fn take_chain(
        &self,
        left: u16,
        pool: &mut Pool,
        into: &mut PktVec,
        counters: &Counters,
    ) -> u16 {
        let (used, counter) = match self.pieces(left) {
            Err(used) => (used, &counters.bad_chain),
            Ok(mut pieces) => match pieces.len().map(|len| self.gather(&mut pieces, len, pool)) {
                None => (pieces.count, &counters.bad_length),
                Some(Err(Missing::Bytes)) => (pieces.count, &counters.bad_descriptor),
                Some(Err(Missing::Buffers)) => return 0,
                Some(Ok(whole)) => {
                    self.unlink(pieces.count);
                    let _ = into.push(whole).map_err(|whole| pool.give(whole));
                    return pieces.count;
                }
            },
        };
        Counters::add(counter);
        self.unlink(used);
        used
    }

    /// Takes the marks from the descriptors of a chain. DPDK's slaves (22.11) set them and never clear them, and would
    /// send chains that are none when the ring has gone round.
    fn unlink(&self, count: u16) {
        for index in (0..count).map(|at| self.next.wrapping_add(at)) {
            self.ring.set_desc(index, Desc { next: false, ..self.ring.desc(index) });
        }
    }

    /// The chain at our place; if it does not end, or is too long, how many descriptors it has at least.
    fn pieces(&self, left: u16) -> Result<Pieces, u16> {
        let mut pieces = Pieces { descs: [Desc::default(); CHAIN_MAX as usize], count: 0, at: 0, offset: 0 };
        for count in 1..=left {
            let desc = self.received(self.next.wrapping_add(count - 1));
            if let Some(place) = pieces.descs.get_mut(usize::from(count - 1)) {
                *place = desc;
            }
            if !desc.next {
                pieces.count = count;
                return if count <= CHAIN_MAX { Ok(pieces) } else { Err(count) };
            }
        }
        Err(left)
    }

    /// Copies a frame of `len` bytes.
    fn gather(&self, pieces: &mut Pieces, len: usize, pool: &mut Pool) -> Result<Pkt, Missing> {
        let mut whole = self.part(pieces, len.min(DATA_LEN), pool)?;
        while whole.len() < len {
            match self.part(pieces, (len - whole.len()).min(DATA_LEN), pool) {
                Ok(part) => whole.chain(part),
                Err(missing) => {
                    pool.give(whole);
                    return Err(missing);
                }
            }
        }
        Ok(whole)
    }

    /// Copies as much of a frame as goes in one of our buffers.
    fn part(&self, pieces: &mut Pieces, len: usize, pool: &mut Pool) -> Result<Pkt, Missing> {
        let mut pkt = pool.take().ok_or(Missing::Buffers)?;
        if pkt.append(len).is_ok_and(|to| self.copy(pieces, to)) {
            return Ok(pkt);
        }
        pool.give(pkt);
        Err(Missing::Bytes)
    }

    /// Fills `to` with what comes next; answers whether all of that lies where the peer has memory.
    fn copy(&self, pieces: &mut Pieces, mut to: &mut [u8]) -> bool {
        while !to.is_empty() {
            let Some(desc) = pieces.descs.get(pieces.at) else { return false };
            let rest = (desc.len as usize).saturating_sub(pieces.offset);
            let (now, later) = to.split_at_mut(rest.min(to.len()));
            if !self.read(desc, pieces.offset, now) {
                return false;
            }
            pieces.offset += now.len();
            if now.len() == rest {
                (pieces.at, pieces.offset) = (pieces.at + 1, 0);
            }
            to = later;
        }
        true
    }
}

impl Pieces {
    /// Bytes of the frame; none if a piece is empty or the frame is longer than any.
    fn len(&self) -> Option<usize> {
        let pieces = &self.descs[..usize::from(self.count)];
        let len = pieces.iter().map(|desc| desc.len as usize).sum();
        (len <= FRAME_MAX && pieces.iter().all(|desc| desc.len > 0)).then_some(len)
    }
}

/// The reason why a frame could not be copied.
enum Missing {
    /// There are none of ours left.
    Buffers,
    /// The peer has no memory there.
    Bytes,
}

impl TxQueue {
    /// Puts any frame in, in as many buffers as it takes.
    ///
    /// # Errors
    /// [`Fault::Buffer`].
    #[inline(never)]
    pub(in super::super) fn put(&mut self, pkt: &Pkt) -> Result<Put, Fault> {
        let mut source = Source { parts: pkt.fragments(), rest: &[] };
        let mut left = pkt.len();
        for used in 0..self.room.min(CHAIN_MAX) {
            let at = self.end.next.wrapping_add(used);
            let buffer = self.end.empty(at);
            let len = left.min(buffer.len as usize);
            if len == 0 || !self.scatter(&mut source, &buffer, len) {
                return Err(Fault::Buffer);
            }
            left -= len;
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            self.end.ring.set_desc(at, Desc { next: left > 0, len, ..buffer });
            if left == 0 {
                // Counted as one, so that a peer in the middle of it has taken it.
                self.note(self.end.next, u32::try_from(pkt.len()).unwrap_or(u32::MAX));
                (1..=used).for_each(|piece| self.note(self.end.next.wrapping_add(piece), 0));
                self.end.next = at.wrapping_add(1);
                self.room -= used + 1;
                return Ok(Put::Done);
            }
        }
        let never = self.room >= self.end.ring.size().min(CHAIN_MAX);
        Ok(if never { Put::TooLong } else { Put::Full })
    }

    /// Fills a buffer with the next `len` bytes; answers whether it lies where the peer has memory.
    fn scatter(&self, source: &mut Source<'_>, buffer: &Desc, len: usize) -> bool {
        let mut done = 0;
        while done < len {
            let bytes = source.next(len - done);
            if bytes.is_empty() || !self.end.write(buffer, done, bytes) {
                return false;
            }
            done += bytes.len();
        }
        true
    }
}

/// The bytes of a packet, across its buffers.
struct Source<'a> {
    parts: Fragments<'a>,
    rest: &'a [u8],
}

impl<'a> Source<'a> {
    /// The next bytes, at most `max`; none at the end.
    fn next(&mut self, max: usize) -> &'a [u8] {
        while self.rest.is_empty() {
            let Some(part) = self.parts.next() else { return &[] };
            self.rest = part;
        }
        let (now, later) = self.rest.split_at(max.min(self.rest.len()));
        self.rest = later;
        now
    }
}
