//! Unsafe: atomic words in memory that another process writes at the same time.
//!
//! One ring as it lies in a region. A cache line has the cookie, the flags and the head, the next one has the tail, and
//! then come the descriptors, a power of two of them. Both indices run through all of `u16` and wrap.
#![expect(unsafe_code, reason = "the words belong to the peer as much as to us")]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use super::region::Region;

/// Bytes in front of the descriptors.
const HEADER: usize = 128;
/// Bytes of a descriptor.
const DESC: usize = 16;
/// The longest ring, as the binary logarithm of its length.
pub(super) const LOG2_MAX: u8 = 14;

const COOKIE_AT: usize = 0;
const FLAGS_AT: usize = 4;
const HEAD_AT: usize = 6;
const TAIL_AT: usize = 64;

/// Magic number of every ring.
const COOKIE: u32 = 0x03e3_1f20;
/// Flag of a ring: its receiver is awake.
const NO_INTERRUPTS: u16 = 1;
/// Flag of a descriptor: the frame goes on in the next one.
const NEXT: u16 = 1;

/// A buffer in a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Desc {
    /// Whether the frame goes on in the next one.
    pub(super) next: bool,
    /// The region.
    pub(super) region: u16,
    /// Bytes: of the frame, or that fit.
    pub(super) len: u32,
    /// Where it begins in the region, bytes.
    pub(super) offset: u32,
}

/// One of the two indices of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Index {
    /// Index of descriptors given by the slave.
    Head,
    /// Index of descriptors given back by the master.
    Tail,
}

/// A ring.
#[derive(Debug)]
pub(super) struct RingMemory {
    start: NonNull<u8>,
    mask: u16,
    /// Keeps the pointer valid.
    _region: Arc<Region>,
}

// SAFETY: the memory is shared with another process anyway; everything in it is read and written atomically.
unsafe impl Send for RingMemory {}

/// Bytes of a ring of this length.
pub(super) const fn bytes(log2_size: u8) -> usize {
    HEADER + (DESC << log2_size)
}

impl RingMemory {
    /// The ring at `offset`; `None` if there is no room for it or its words would not be aligned.
    pub(super) fn at(region: &Arc<Region>, offset: usize, log2_size: u8) -> Option<Self> {
        if log2_size > LOG2_MAX || !offset.is_multiple_of(8) {
            return None;
        }
        let start = region.address(offset, bytes(log2_size))?;
        Some(Self { start, mask: (1 << log2_size) - 1, _region: Arc::clone(region) })
    }

    /// Makes an empty ring of it.
    pub(super) fn init(&self) {
        self.word::<AtomicU32>(COOKIE_AT).store(COOKIE, Ordering::Relaxed);
        self.let_sleep(false);
        self.publish(Index::Head, 0);
        self.publish(Index::Tail, 0);
    }

    pub(super) fn has_cookie(&self) -> bool {
        self.word::<AtomicU32>(COOKIE_AT).load(Ordering::Relaxed) == COOKIE
    }

    /// Returns the number of descriptors.
    pub(super) const fn size(&self) -> u16 {
        self.mask + 1
    }

    /// Where the index leads.
    #[inline]
    pub(super) const fn slot(&self, index: u16) -> u16 {
        index & self.mask
    }

    /// The peer's index, and with it all that the peer wrote before.
    #[inline]
    pub(super) fn seen(&self, index: Index) -> u16 {
        self.index(index).load(Ordering::Acquire)
    }

    /// Our index, and with it all that we wrote before.
    #[inline]
    pub(super) fn publish(&self, index: Index, value: u16) {
        self.index(index).store(value, Ordering::Release);
    }

    /// Tells the sender whether we, the receiver, want an interrupt.
    pub(super) fn let_sleep(&self, interrupts: bool) {
        let flags = if interrupts { 0 } else { NO_INTERRUPTS };
        self.word::<AtomicU16>(FLAGS_AT).store(flags, Ordering::Relaxed);
    }

    /// Tells whether the receiver wants an interrupt.
    pub(super) fn wants_interrupt(&self) -> bool {
        self.word::<AtomicU16>(FLAGS_AT).load(Ordering::Relaxed) & NO_INTERRUPTS == 0
    }

    /// Reads a descriptor, each word once.
    #[inline]
    pub(super) fn desc(&self, index: u16) -> Desc {
        let [first, second] = self.words(index).map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        let [f0, f1, r0, r1, l0, l1, l2, l3] = first;
        let [o0, o1, o2, o3, ..] = second;
        Desc {
            next: u16::from_ne_bytes([f0, f1]) & NEXT != 0,
            region: u16::from_ne_bytes([r0, r1]),
            len: u32::from_ne_bytes([l0, l1, l2, l3]),
            offset: u32::from_ne_bytes([o0, o1, o2, o3]),
        }
    }

    /// Writes a descriptor.
    #[inline]
    pub(super) fn set_desc(&self, index: u16, desc: Desc) {
        let [f0, f1] = u16::from(desc.next).to_ne_bytes();
        let [r0, r1] = desc.region.to_ne_bytes();
        let [l0, l1, l2, l3] = desc.len.to_ne_bytes();
        let [o0, o1, o2, o3] = desc.offset.to_ne_bytes();
        let [first, second] = self.words(index);
        first.store(u64::from_ne_bytes([f0, f1, r0, r1, l0, l1, l2, l3]), Ordering::Relaxed);
        second.store(u64::from_ne_bytes([o0, o1, o2, o3, 0, 0, 0, 0]), Ordering::Relaxed);
    }

    #[inline]
    fn index(&self, index: Index) -> &AtomicU16 {
        self.word(match index {
            Index::Head => HEAD_AT,
            Index::Tail => TAIL_AT,
        })
    }

    #[inline]
    fn words(&self, index: u16) -> [&AtomicU64; 2] {
        let at = HEADER + DESC * usize::from(self.slot(index));
        [self.word(at), self.word(at + 8)]
    }

    /// The atomic word at `at`, which is one of the offsets above.
    #[inline]
    fn word<T: Word>(&self, at: usize) -> &T {
        // SAFETY: inside the ring, which `at` found to lie in the region.
        let word = unsafe { self.start.add(at) };
        // SAFETY: aligned, because the region begins at a page, the ring at a multiple of 8, and `at` is a multiple of
        // the word's size. An atomic may change under a shared reference, also by another process; the region is kept.
        unsafe { word.cast::<T>().as_ref() }
    }
}

/// A word of shared memory.
trait Word {}
impl Word for AtomicU16 {}
impl Word for AtomicU32 {}
impl Word for AtomicU64 {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_lies_in_its_region_or_is_none() {
        let region = Arc::new(Region::create(8192).unwrap().0);
        assert_eq!(bytes(8), 4224);
        for (offset, log2, fits) in [
            (0, 8, true),
            (3968, 8, true),
            (3976, 8, false),
            (4, 0, false),
            (8048, 0, true),
            (8056, 0, false),
        ] {
            assert_eq!(RingMemory::at(&region, offset, log2).is_some(), fits, "{offset} {log2}");
        }
        assert!(RingMemory::at(&region, usize::MAX - 7, 0).is_none());
        assert!(
            RingMemory::at(&region, 0, LOG2_MAX + 1).is_none() && RingMemory::at(&region, 0, 255).is_none()
        );
    }

    #[test]
    fn descriptors_and_indices_stand_where_other_programs_write_them() {
        let region = Arc::new(Region::create(4096).unwrap().0);
        let ring = RingMemory::at(&region, 64, 2).unwrap();
        ring.init();
        ring.publish(Index::Head, 0x0102);
        ring.publish(Index::Tail, 0x0304);
        let desc = Desc { next: true, region: 5, len: 0x0607_0809, offset: 0x0a0b_0c0d };
        ring.set_desc(7, desc);
        assert_eq!(ring.desc(3), desc);
        let mut bytes = [0; 192];
        assert!(region.read(64, &mut bytes));
        assert_eq!(bytes[..4], COOKIE.to_ne_bytes());
        assert_eq!((&bytes[4..6], &bytes[6..8]), (&[1, 0][..], &0x0102_u16.to_ne_bytes()[..]));
        assert_eq!(bytes[64..66], 0x0304_u16.to_ne_bytes());
        assert_eq!(bytes[176..178], 1_u16.to_ne_bytes());
        assert_eq!(bytes[178..180], 5_u16.to_ne_bytes());
        assert_eq!(bytes[180..184], 0x0607_0809_u32.to_ne_bytes());
        assert_eq!(bytes[184..188], 0x0a0b_0c0d_u32.to_ne_bytes());
    }
}
