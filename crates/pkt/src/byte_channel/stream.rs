//! Unsafe: bytes are written and read where the two positions say that the other end does not touch them.
//!
//! One direction of a lane: a ring of bytes with one writer and one reader (SPSC).
#![expect(unsafe_code, reason = "touches the bytes that its position gives it")]

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;

use super::region::{FAR_READER, FAR_WRITER, FRESH, Head, NEAR_READER, NEAR_WRITER, Region, Ring};
use crate::sync::{Arc, AtomicBool, Ordering, fence};

/// The other end says that it has read or written what it cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other end of the stream says what cannot be")
    }
}

impl core::error::Error for Broken {}

/// Which end of the lanes.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Near,
    Far,
}

/// Both halves of one end of a lane that was just begun, or joined.
pub(super) fn ends(region: &Arc<Region>, lane: u32, side: Side) -> (Writer, Reader) {
    let near = (0, NEAR_WRITER, NEAR_READER);
    let far = (1, FAR_WRITER, FAR_READER);
    let ((out, writer, reader), (back, peer_writer, peer_reader)) = match side {
        Side::Near => (near, far),
        Side::Far => (far, near),
    };
    let end = |ring, own, peer| End { region: region.clone(), lane, ring, own, peer };
    (
        Writer { end: end(out, writer, peer_reader), tail: 0, published: 0, one_thread: PhantomData },
        Reader {
            end: end(back, reader, peer_writer),
            head: 0,
            released: 0,
            end_seen: 0,
            one_thread: PhantomData,
        },
    )
}

/// Where bytes are written. It can be sent to a thread, but not shared or cloned.
///
/// ```compile_fail,E0277
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<pkt::byte_channel::Writer>();
/// ```
pub struct Writer {
    end: End,
    tail: usize,
    published: usize,
    one_thread: PhantomData<Cell<()>>,
}

impl Writer {
    /// Bytes that can be written now. Looks at the reader's position.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    #[inline]
    pub fn free(&self) -> Result<usize, Broken> {
        // Acquire: the reader is done with the places that it has given back.
        let head = self.end.ring().reader.head.load(Ordering::Acquire);
        self.capacity().checked_sub(self.tail.wrapping_sub(head)).ok_or(Broken)
    }

    /// Copies as many of `bytes` as there is room for, and answers how many. The reader sees them after [`Self::publish`].
    ///
    /// # Errors
    ///
    /// [`Broken`].
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        let count = bytes.len().min(self.free()?);
        // SAFETY: the reader has given these places back, and does not look at them before it sees them published.
        unsafe { self.end.region.write(self.end.place(), self.tail, &bytes[..count]) };
        self.tail = self.tail.wrapping_add(count);
        Ok(count)
    }

    /// Shows the reader what was written. True if the reader waits: the caller must notify it.
    #[must_use = "a reader that waits has to be told"]
    #[inline]
    pub fn publish(&mut self) -> bool {
        if self.published == self.tail {
            return false;
        }
        self.published = self.tail;
        let ring = self.end.ring();
        ring.writer.tail.store(self.tail, Ordering::Release);
        has_to_tell(&ring.reader.waits)
    }

    /// The stream ends behind what was written: the reader learns `how`, which is not 0. What is written afterwards is not
    /// seen. True if the reader has to be told.
    #[must_use = "a reader that waits has to be told"]
    pub fn finish(&mut self, how: u32) -> bool {
        let ring = self.end.ring();
        ring.writer.tail.store(self.tail, Ordering::Release);
        ring.writer.end.store(how as usize, Ordering::Release);
        self.published = self.tail;
        has_to_tell(&ring.reader.waits)
    }

    /// Announces that the writer waits until half of the ring is free. False if it is, or perhaps is, already: then
    /// nothing was announced.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub fn waits(&mut self) -> Result<bool, Broken> {
        self.waits_for(0)
    }

    /// Waits until a number of bytes is free, if that is more. The reader notifies of each part that it gives back while less
    /// is free: a writer that needs more than half announces again.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub fn waits_for(&mut self, bytes: usize) -> Result<bool, Broken> {
        let waits = &self.end.ring().writer.waits;
        waits.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let has_room = self.free()? >= half(self.capacity()).max(bytes);
        if has_room {
            waits.store(false, Ordering::Relaxed);
        }
        Ok(!has_room)
    }

    /// Whether the reader has taken all that was published.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub fn is_drained(&self) -> Result<bool, Broken> {
        Ok(self.free()? + self.tail.wrapping_sub(self.published) == self.capacity())
    }

    /// All bytes that it has room for.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.end.region.capacity()
    }

    /// The number of the lane.
    #[must_use]
    pub const fn lane(&self) -> u32 {
        self.end.lane
    }

    /// Tells whether the reader is gone, so that nothing written will be read.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.end.is_abandoned()
    }

    /// Makes of it what another process could be, that says whatever it likes.
    #[must_use]
    pub fn forge(self) -> Forger {
        Forger { end: self.end, is_writer: true }
    }
}

/// Where bytes are read. It can be sent to a thread, but not shared or cloned.
pub struct Reader {
    end: End,
    head: usize,
    released: usize,
    end_seen: u32,
    one_thread: PhantomData<Cell<()>>,
}

impl Reader {
    /// Bytes that wait to be read. Looks at the writer's position.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    #[inline]
    pub fn len(&self) -> Result<usize, Broken> {
        // Acquire: what is there was written before.
        let tail = self.end.ring().writer.tail.load(Ordering::Acquire);
        let len = tail.wrapping_sub(self.head);
        if len > self.capacity() { Err(Broken) } else { Ok(len) }
    }

    /// Whether nothing waits to be read.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    #[inline]
    pub fn is_empty(&self) -> Result<bool, Broken> {
        self.len().map(|len| len == 0)
    }

    /// Shows the bytes that wait to `what`, in two pieces where they stand, which says how many it is done with: those are
    /// given back with the next [`Self::release`].
    ///
    /// # Errors
    ///
    /// [`Broken`].
    #[inline]
    pub fn read_in_place<R>(&mut self, what: impl FnOnce([&[u8]; 2]) -> (usize, R)) -> Result<R, Broken> {
        let len = self.len()?;
        // SAFETY: these bytes are published and not given back, so the writer does not touch them; the ring holds no more.
        let (count, done) = unsafe { self.end.region.read(self.end.place(), self.head, len, what) };
        self.head = self.head.wrapping_add(count.min(len));
        Ok(done)
    }

    /// Copies as many bytes as there are and fit, and answers how many: as [`Self::read_in_place`].
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Broken> {
        self.read_in_place(|pieces| {
            let count = copy(pieces, into);
            (count, count)
        })
    }

    /// Reads without consuming.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub fn peek(&mut self, into: &mut [u8]) -> Result<usize, Broken> {
        self.read_in_place(|pieces| (0, copy(pieces, into)))
    }

    /// Gives the places back of what was read. True if the writer has to be told, because it waits and half of the ring is
    /// free.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    #[must_use = "a writer that waits has to be told"]
    #[inline]
    pub fn release(&mut self) -> Result<bool, Broken> {
        if self.released == self.head {
            return Ok(false);
        }
        self.released = self.head;
        let ring = self.end.ring();
        ring.reader.head.store(self.head, Ordering::Release);
        let has_room = self.capacity() - self.len()? >= half(self.capacity());
        Ok(has_room && has_to_tell(&ring.writer.waits))
    }

    /// Returns how the stream has ended, if all of it was read.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub fn end(&mut self) -> Result<Option<u32>, Broken> {
        // First how, then whether all was read: it was said behind the last byte.
        let how = self.how();
        self.end_seen = how;
        Ok(if how == 0 || !self.is_empty()? { None } else { Some(how) })
    }

    /// Returns how the stream ends behind the unread bytes, if that is known; else 0.
    #[must_use]
    pub fn how(&self) -> u32 {
        u32::try_from(self.end.ring().writer.end.load(Ordering::Acquire)).unwrap_or(u32::MAX)
    }

    /// Announces that the reader waits for bytes, or for an end that it has not seen. False if something is there, or
    /// perhaps is, already: then nothing was announced.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub fn waits(&mut self) -> Result<bool, Broken> {
        let ring = self.end.ring();
        ring.reader.waits.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_news = !self.is_empty()? || self.how() != self.end_seen;
        if is_news {
            ring.reader.waits.store(false, Ordering::Relaxed);
        }
        Ok(!is_news)
    }

    /// All bytes that there is room for.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.end.region.capacity()
    }

    /// Whether the writer is gone: what is found after this is all that will come.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.end.is_abandoned()
    }

    /// Makes of it what another process could be, that says whatever it likes.
    #[must_use]
    pub fn forge(self) -> Forger {
        Forger { end: self.end, is_writer: false }
    }
}

/// Half of a stream that says what it likes of its position, to find out what the other end makes of it. It touches no
/// bytes.
pub struct Forger {
    end: End,
    is_writer: bool,
}

impl Forger {
    /// Says that so many bytes were written, or read, since the lane was begun.
    pub fn say(&self, position: usize) {
        let ring = self.end.ring();
        let word = if self.is_writer { &ring.writer.tail } else { &ring.reader.head };
        word.store(position, Ordering::Release);
    }
}

/// The common part of both halves. When it is dropped, the lane has one holder less.
struct End {
    region: Arc<Region>,
    /// There is such a lane.
    lane: u32,
    ring: usize,
    own: usize,
    peer: usize,
}

impl End {
    #[inline]
    fn head(&self) -> &Head {
        let head = self.region.head(self.lane);
        // SAFETY: there is such a lane.
        unsafe { head.unwrap_unchecked() }
    }

    #[inline]
    fn ring(&self) -> &Ring {
        &self.head().rings[self.ring & 1]
    }

    /// Where the ring's bytes are.
    #[inline]
    fn place(&self) -> usize {
        self.lane as usize * 2 + self.ring
    }

    fn is_abandoned(&self) -> bool {
        let state = self.head().state.load(Ordering::Acquire);
        state & FRESH == 0 && state & self.peer == 0
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // Release: the next holder of the lane comes after all that was done here.
        self.head().state.fetch_and(!self.own, Ordering::Release);
    }
}

/// Tells whether the other end waits and was not notified since. To be asked after a publication.
#[inline]
fn has_to_tell(waits: &AtomicBool) -> bool {
    fence(Ordering::SeqCst);
    // A load first: the line stays shared while no end waits.
    waits.load(Ordering::Relaxed) && waits.swap(false, Ordering::AcqRel)
}

const fn half(capacity: usize) -> usize {
    capacity.div_ceil(2)
}

/// Copies as much as there is and fits.
fn copy(pieces: [&[u8]; 2], into: &mut [u8]) -> usize {
    let mut count = 0;
    for piece in pieces {
        let len = piece.len().min(into.len() - count);
        into[count..count + len].copy_from_slice(&piece[..len]);
        count += len;
    }
    count
}
