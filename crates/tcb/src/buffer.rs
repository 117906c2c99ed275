//! Bytes of a stream that wait: to be sent and acknowledged, or to be read.

use core::cmp::min;
use std::sync::Arc;

use super::rings::Rings;

/// The least memory that is taken at once.
const LEAST: usize = 64;
/// Size of a ring that never wraps: that of shared bytes, of which there are fewer.
const SHARED: u32 = 1 << 31;

/// The memory of a buffer.
#[derive(Debug)]
enum Bytes {
    /// A ring of its own, up to where it was ever written: what is behind is not worth being filled.
    Ring(Vec<u8>),
    /// Bytes of a program, which others may send as well: they are read where they are.
    Shared(Arc<[u8]>),
}

impl Default for Bytes {
    fn default() -> Self {
        Self::Ring(Vec::new())
    }
}

/// A queue of bytes in a ring, that can be written and read anywhere, and forgets from the front.
///
/// What it takes is a power of two, at the most what was ever needed at once. Empty, it gives its ring back when it is asked
/// to, and then begins with as much as it needed before. Positions are counted from the front.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Bytes,
    /// Bytes of the ring: a power of two, or 0; [`SHARED`] if it is none.
    size: u32,
    /// Where the front stands in the ring.
    front: u32,
    /// Bytes from the front to behind the last that was written.
    len: u32,
    /// Bytes that were written of the last ring.
    needed: u32,
}

impl Buffer {
    /// Bytes from the front to behind the last that was written.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is nothing.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory it takes.
    #[inline]
    #[must_use]
    pub fn memory(&self) -> usize {
        if self.is_shared() { 0 } else { self.size() }
    }

    /// Whether what is here are bytes of a program.
    #[inline]
    const fn is_shared(&self) -> bool {
        self.size == SHARED
    }

    fn size(&self) -> usize {
        self.size as usize
    }

    /// Prepares to append `bytes`: a recycled ring saves an allocation,
    /// and a ring that is too small is left to others.
    #[inline]
    pub fn borrow(&mut self, bytes: usize, rings: &mut Rings) {
        let needed = self.len() + bytes;
        if (needed > self.size() || self.is_shared())
            && let Some(ring) = rings.take(ring_size(needed.max(self.needed as usize)))
        {
            rings.give(self.go_on_in(ring));
        }
    }

    /// Gives the ring back if nothing is in it.
    #[inline]
    pub fn give_back(&mut self, rings: &mut Rings) {
        if self.len > 0 || self.size == 0 {
            return;
        }
        let Self { bytes, needed, .. } = core::mem::take(self);
        self.needed = match bytes {
            Bytes::Ring(ring) => {
                let needed = short(ring.len());
                rings.give(ring);
                needed
            }
            Bytes::Shared(_) => needed,
        };
    }

    /// Holds bytes of a program without a copy, if nothing else is here; answers whether it does.
    #[inline]
    pub fn share(&mut self, bytes: &Arc<[u8]>, rings: &mut Rings) -> bool {
        let may = self.len == 0 && !bytes.is_empty() && bytes.len() < SHARED as usize;
        if may {
            self.give_back(rings);
            let (shared, len) = (Bytes::Shared(Arc::clone(bytes)), short(bytes.len()));
            *self = Self { bytes: shared, size: SHARED, front: 0, len, needed: self.needed };
        }
        may
    }

    /// Writes `bytes` at `at`, which may be behind the end: what is between is whatever was there.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if end > self.size() || self.is_shared() {
            self.grow(end.max(self.len()));
        }
        if self.front as usize + at >= self.size() {
            // What is between may reach round the end of the ring.
            let size = self.size();
            if let Bytes::Ring(ring) = &mut self.bytes {
                ring.resize(size, 0);
            }
        }
        let (first, second) = self.parts(at, bytes.len());
        let (head, tail) = bytes.split_at(first.len());
        self.put(first.start, head);
        if !tail.is_empty() {
            self.put(second.start, tail);
        }
        self.len = self.len.max(short(end));
    }

    /// Writes at the end.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.write(self.len(), bytes);
    }

    /// The bytes from `at` on, `len` of them or as many as there are; in two pieces where the ring ends between.
    #[inline]
    #[must_use]
    pub fn read(&self, at: usize, len: usize) -> [&[u8]; 2] {
        let at = min(at, self.len());
        let (first, second) = self.parts(at, min(len, self.len() - at));
        let bytes: &[u8] = match &self.bytes {
            Bytes::Ring(ring) => ring,
            Bytes::Shared(bytes) => bytes,
        };
        [&bytes[first], &bytes[second]]
    }

    /// Copies from `at` on into `out` as much as there is and fits, and answers how much. Nothing is forgotten.
    #[inline]
    pub fn copy_to(&self, at: usize, out: &mut [u8]) -> usize {
        let [first, second] = self.read(at, out.len());
        let (head, tail) = out.split_at_mut(first.len());
        head.copy_from_slice(first);
        tail[..second.len()].copy_from_slice(second);
        first.len() + second.len()
    }

    /// Forgets `count` bytes from the front, or all.
    #[inline]
    pub fn forget(&mut self, count: usize) {
        let count = short(min(count, self.len()));
        self.front = (self.front + count) & self.size.wrapping_sub(1);
        self.len -= count;
        if self.len == 0 {
            self.front = 0;
        }
    }

    /// Where `len` bytes from `at` on stand in the ring, which holds them.
    #[inline]
    fn parts(&self, at: usize, len: usize) -> (core::ops::Range<usize>, core::ops::Range<usize>) {
        let start = (self.front as usize + at) & self.size().wrapping_sub(1);
        let first = min(len, self.size() - min(start, self.size()));
        (start..start + first, 0..len - first)
    }

    /// Writes at a place of the ring.
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let Bytes::Ring(ring) = &mut self.bytes else { return };
        if at > ring.len() && !bytes.is_empty() {
            ring.resize(at, 0);
        }
        let (over, behind) = bytes.split_at(min(bytes.len(), ring.len().saturating_sub(at)));
        if !over.is_empty() {
            ring[at..at + over.len()].copy_from_slice(over);
        }
        ring.extend_from_slice(behind);
    }

    #[cold]
    fn grow(&mut self, needed: usize) {
        self.go_on_in(Vec::with_capacity(ring_size(needed.max(self.needed as usize))));
    }

    /// Moves to another ring, which is empty and has room for what is here, and answers the one before.
    fn go_on_in(&mut self, mut ring: Vec<u8>) -> Vec<u8> {
        let [first, second] = self.read(0, self.len());
        ring.extend_from_slice(first);
        ring.extend_from_slice(second);
        let size = short(ring.capacity());
        let bytes = Bytes::Ring(ring);
        match core::mem::replace(self, Self { bytes, size, front: 0, len: self.len, needed: 0 }).bytes {
            Bytes::Ring(ring) => ring,
            Bytes::Shared(_) => Vec::new(),
        }
    }
}

/// Bytes of the ring that holds so many.
const fn ring_size(bytes: usize) -> usize {
    let size = bytes.next_power_of_two();
    if size < LEAST { LEAST } else { size }
}

/// A length or a place, of which a window bounds all.
fn short(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Act {
        Write(usize, Vec<u8>),
        Push(Vec<u8>),
        Forget(usize),
        Share(Vec<u8>),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..3000);
        let act = prop_oneof![
            (0..5000_usize, bytes()).prop_map(|(at, bytes)| Act::Write(at, bytes)),
            bytes().prop_map(Act::Push),
            (0..9000_usize).prop_map(Act::Forget),
            bytes().prop_map(Act::Share),
        ];
        proptest::collection::vec(act, 0..60)
    }

    proptest! {
        #[test]
        fn it_holds_what_a_plain_queue_holds(acts in acts()) {
            let (mut buffer, mut plain) = (Buffer::default(), Vec::<u8>::new());
            for act in acts {
                match act {
                    Act::Write(at, bytes) => {
                        // What lies in a gap is not said.
                        let at = at.min(plain.len());
                        plain.resize(plain.len().max(at + bytes.len()), 0);
                        plain[at..at + bytes.len()].copy_from_slice(&bytes);
                        buffer.write(at, &bytes);
                    }
                    Act::Push(bytes) => {
                        plain.extend(&bytes);
                        buffer.push(&bytes);
                    }
                    Act::Share(bytes) => {
                        let shares = buffer.share(&bytes.as_slice().into(), &mut Rings::default());
                        prop_assert_eq!(shares, plain.is_empty() && !bytes.is_empty());
                        if shares {
                            prop_assert_eq!(buffer.memory(), 0);
                            plain = bytes;
                        }
                    }
                    Act::Forget(count) => {
                        plain.drain(..count.min(plain.len()));
                        buffer.forget(count);
                    }
                }
                prop_assert_eq!(buffer.len(), plain.len());
                prop_assert_eq!(buffer.read(0, usize::MAX).concat(), plain.clone());
                let middle = plain.len() / 3;
                prop_assert_eq!(buffer.read(middle, 100).concat(), &plain[middle..][..100.min(plain.len() - middle)]);
            }
        }
    }

    #[test]
    fn bytes_behind_a_gap_stay_where_they_are() {
        let mut buffer = Buffer::default();
        buffer.write(5000, b"late");
        buffer.write(0, &[7; 5000]);
        assert_eq!(buffer.len(), 5004);
        buffer.forget(4999);
        assert_eq!(buffer.read(0, 10).concat(), b"\x07late");
    }

    #[test]
    fn what_is_written_behind_a_gap_that_reaches_round_the_end_of_the_ring_is_there() {
        let mut buffer = Buffer::default();
        buffer.push(&[1; 60]);
        buffer.forget(59);
        buffer.write(20, b"late");
        assert_eq!((buffer.memory(), buffer.len()), (64, 24));
        assert_eq!(buffer.read(20, 10).concat(), b"late");
        buffer.write(1, &[2; 19]);
        buffer.push(&[3; 100]);
        assert_eq!(buffer.read(0, 30).concat(), [&[1][..], &[2; 19], b"late", &[3; 6]].concat());
    }

    #[test]
    fn empty_it_gives_its_memory_back_and_then_takes_as_much_as_it_needed_before() {
        let (mut buffer, mut rings) = (Buffer::default(), Rings::default());
        assert_eq!(buffer.memory(), 0);
        for (bytes, memory) in [(5000, 8192), (18, 8192), (18, 64), (100, 128)] {
            buffer.borrow(bytes, &mut rings);
            buffer.push(&vec![1; bytes]);
            assert_eq!(buffer.memory(), memory);
            buffer.forget(bytes);
            buffer.give_back(&mut rings);
            assert_eq!((buffer.memory(), buffer.is_empty()), (0, true));
            assert_eq!(buffer.read(0, 1).concat(), b"");
        }
    }

    #[test]
    fn what_grows_takes_what_another_has_used_and_leaves_its_own() {
        let (mut buffer, mut rings) = (Buffer::default(), Rings::default());
        rings.give(Vec::with_capacity(2048));
        buffer.push(&[1; 300]);
        buffer.forget(10);
        buffer.borrow(1000, &mut rings);
        assert_eq!((buffer.memory(), rings.bytes()), (2048, 512));
        buffer.push(&[2; 1000]);
        assert_eq!(buffer.read(0, 2000).concat(), [&[1; 290][..], &[2; 1000]].concat());
        assert_eq!(buffer.memory(), 2048);
    }

    #[test]
    fn what_a_ring_held_for_another_is_not_seen() {
        let (mut first, mut second, mut rings) = (Buffer::default(), Buffer::default(), Rings::default());
        first.push(&[9; 1000]);
        first.forget(1000);
        first.give_back(&mut rings);
        second.borrow(600, &mut rings);
        assert_eq!((rings.bytes(), second.memory()), (0, 1024));
        second.push(&[1; 10]);
        second.write(20, &[3; 10]);
        assert_eq!(second.read(0, 100).concat(), [&[1; 10][..], &[0; 10], &[3; 10]].concat());
    }
}
