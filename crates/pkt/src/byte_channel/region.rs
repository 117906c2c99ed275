//! Unsafe: the memory of lanes, where one end writes what the other reads.
//!
//! The heads of all lanes stand together, and their bytes behind them. In the model checker each byte is a cell of its own,
//! which sees each access.
#![expect(unsafe_code, reason = "bytes are shared by two threads, whose positions say whose they are")]

pub(super) use memory::Region;

use core::fmt;

use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// A lane that has carried no more bytes than this keeps its memory when it is free.
const LITTLE: usize = 16 << 10;

/// Holders of a lane: a bit each.
pub(super) const NEAR_WRITER: usize = 1;
pub(super) const NEAR_READER: usize = 2;
pub(super) const FAR_WRITER: usize = 4;
pub(super) const FAR_READER: usize = 8;
const NEAR: usize = NEAR_WRITER | NEAR_READER;
const FAR: usize = FAR_WRITER | FAR_READER;
/// The lane was begun, and the far end has not taken it yet.
pub(super) const FRESH: usize = 16;

/// There is no room in the address space for so many lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no room in the address space for so many lanes")
    }
}

impl core::error::Error for TooLarge {}

impl Region {
    /// Begins a lane of which nothing is held: its near half is the caller's.
    pub(super) fn begin(&self, lane: u32) -> Option<()> {
        let head = self.hold_free(lane)?;
        head.reset();
        // Only now may the far end have it: its words say nothing any more of how it was before.
        head.state.fetch_or(FRESH, Ordering::Release);
        Some(())
    }

    /// Takes the far half of a lane that was begun, if it is free.
    pub(super) fn join(&self, lane: u32) -> Option<()> {
        let joined = |state: usize| (state & FRESH != 0).then_some(state & !FRESH | FAR);
        // Acquire: it begins as the near end has left it.
        self.head(lane)?.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, joined).ok().map(drop)
    }

    /// Gives the memory of a lane back of which nothing is held, and that has carried more than little.
    pub(super) fn tidy(&self, lane: u32) {
        let Some(head) = self.hold_free(lane) else { return };
        if head.carried() > LITTLE {
            // SAFETY: no end of this lane exists, and none is made before the state says so.
            unsafe { self.forget(lane) };
            // What it has carried is no longer there.
            head.reset();
        }
        head.state.store(0, Ordering::Release);
    }

    /// Holds the near half of a lane of which nothing is held; the far end cannot take it.
    fn hold_free(&self, lane: u32) -> Option<&Head> {
        let head = self.head(lane)?;
        let state = head.state.load(Ordering::Relaxed);
        if state & (NEAR | FAR) != 0 {
            return None;
        }
        // Acquire: the accesses of former holders have happened.
        head.state.compare_exchange(state, NEAR, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(head)
    }
}

/// The state of a lane besides its bytes. All of it may be zero.
#[repr(C)]
pub(super) struct Head {
    pub(super) state: Line<AtomicUsize>,
    /// From the near end to the far one, and back.
    pub(super) rings: [Ring; 2],
}

#[repr(C)]
pub(super) struct Ring {
    pub(super) writer: Line<WriterWords>,
    pub(super) reader: Line<ReaderWords>,
}

/// Words of the writer.
#[repr(C)]
pub(super) struct WriterWords {
    /// Bytes written since the lane was begun; wraps.
    pub(super) tail: AtomicUsize,
    /// End of the stream behind them; 0: it goes on.
    pub(super) end: AtomicUsize,
    /// It waits for room.
    pub(super) waits: AtomicBool,
}

/// Words of the reader.
#[repr(C)]
pub(super) struct ReaderWords {
    /// Bytes read since the lane was begun; wraps.
    pub(super) head: AtomicUsize,
    /// It waits for bytes.
    pub(super) waits: AtomicBool,
}

/// A cache line of its own.
#[repr(C, align(64))]
pub(super) struct Line<T>(T);

impl<T> core::ops::Deref for Line<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl Head {
    /// As a lane begins.
    pub(super) fn reset(&self) {
        for Ring { writer, reader } in &self.rings {
            writer.tail.store(0, Ordering::Relaxed);
            writer.end.store(0, Ordering::Relaxed);
            writer.waits.store(false, Ordering::Relaxed);
            reader.head.store(0, Ordering::Relaxed);
            reader.waits.store(false, Ordering::Relaxed);
        }
    }

    /// The most bytes that one of its rings has carried.
    pub(super) fn carried(&self) -> usize {
        self.rings.iter().map(|ring| ring.writer.tail.load(Ordering::Relaxed)).max().unwrap_or(0)
    }
}

/// Where `len` bytes from position `at` on stand in a ring of `capacity`, a power of two.
const fn parts(capacity: usize, at: usize, len: usize) -> (usize, usize) {
    let start = at & (capacity - 1);
    let room = capacity - start;
    (start, if len < room { len } else { room })
}

#[cfg(not(feature = "loom"))]
mod memory {
    use core::ptr::{NonNull, copy_nonoverlapping};
    use core::slice::from_raw_parts;

    use super::{Head, TooLarge, parts};
    use crate::map;

    /// The memory of many lanes.
    pub(in super::super) struct Region {
        base: NonNull<u8>,
        count: u32,
        capacity: usize,
        mapped: usize,
    }

    // SAFETY: it owns its memory, of which heads are atomics, and bytes are touched only by callers that promise that they
    // may.
    unsafe impl Send for Region {}
    // SAFETY: as above.
    unsafe impl Sync for Region {}

    impl Region {
        pub(in super::super) fn new(count: u32, capacity: usize) -> Result<Self, TooLarge> {
            let capacity = capacity.max(1).checked_next_power_of_two().ok_or(TooLarge)?;
            let heads = heads(count);
            let bytes = capacity.checked_mul(2).and_then(|lane| lane.checked_mul(count as usize));
            let mapped = bytes.and_then(|bytes| bytes.checked_add(heads)).ok_or(TooLarge)?;
            if isize::try_from(mapped).is_err() {
                return Err(TooLarge);
            }
            let base = map::map(mapped).map_err(|_| TooLarge)?;
            Ok(Self { base, count, capacity, mapped })
        }

        pub(in super::super) const fn count(&self) -> u32 {
            self.count
        }

        #[inline]
        pub(in super::super) const fn capacity(&self) -> usize {
            self.capacity
        }

        #[inline]
        pub(in super::super) fn head(&self, lane: u32) -> Option<&Head> {
            if lane >= self.count {
                return None;
            }
            // SAFETY: there are heads for all lanes in front.
            let head = unsafe { self.base.cast::<Head>().add(lane as usize) };
            // SAFETY: mapped memory begins with a cache line at least; all of it are atomics, for which zeros are values.
            Some(unsafe { head.as_ref() })
        }

        /// Copies bytes into ring `ring` from position `at` on.
        ///
        /// # Safety
        ///
        /// There is such a ring, it has room for so many bytes, and no other thread touches those places meanwhile.
        #[inline]
        pub(in super::super) unsafe fn write(&self, ring: usize, at: usize, bytes: &[u8]) {
            let (start, first) = parts(self.capacity, at, bytes.len());
            let (head, tail) = bytes.split_at(first);
            // SAFETY: the first piece ends with the ring at the latest.
            unsafe { copy_nonoverlapping(head.as_ptr(), self.place(ring, start), first) };
            // SAFETY: the second is the rest of no more than the ring.
            unsafe { copy_nonoverlapping(tail.as_ptr(), self.place(ring, 0), tail.len()) };
        }

        /// Shows `len` bytes of ring `ring` from position `at` on to `what`, in two pieces.
        ///
        /// # Safety
        ///
        /// There is such a ring, `len` is not more than it holds, and no other thread writes to those places meanwhile.
        #[inline]
        pub(in super::super) unsafe fn read<R>(
            &self,
            ring: usize,
            at: usize,
            len: usize,
            what: impl FnOnce([&[u8]; 2]) -> R,
        ) -> R {
            let (start, first) = parts(self.capacity, at, len);
            // SAFETY: the first piece ends with the ring at the latest; all bytes have been zero at least.
            let head = unsafe { from_raw_parts(self.place(ring, start), first) };
            // SAFETY: the second is the rest of no more than the ring.
            let tail = unsafe { from_raw_parts(self.place(ring, 0), len - first) };
            what([head, tail])
        }

        /// Gives the memory of a lane's bytes back; they are zeros from now on.
        ///
        /// # Safety
        ///
        /// No other thread touches them meanwhile.
        pub(in super::super) unsafe fn forget(&self, lane: u32) {
            if lane < self.count {
                let behind = heads(self.count) + lane as usize * 2 * self.capacity;
                // SAFETY: the lane's bytes begin there.
                let bytes = unsafe { self.base.add(behind) };
                // SAFETY: the caller's promise, and the lane has so many.
                unsafe { map::forget(bytes, self.capacity * 2) };
            }
        }

        /// Where byte `at` of a ring stands: the rings are behind the heads.
        #[inline]
        const fn place(&self, ring: usize, at: usize) -> *mut u8 {
            let behind = heads(self.count).wrapping_add(ring.wrapping_mul(self.capacity)).wrapping_add(at);
            self.base.as_ptr().wrapping_add(behind)
        }
    }

    impl Drop for Region {
        fn drop(&mut self) {
            // SAFETY: exactly what was mapped, and its users held us.
            unsafe { map::unmap(self.base, self.mapped) };
        }
    }

    /// Bytes of all heads: whole pages, one at least.
    const fn heads(count: u32) -> usize {
        (count as usize * size_of::<Head>() + 1).next_multiple_of(4096)
    }
}

#[cfg(feature = "loom")]
mod memory {
    use super::{Head, Line, ReaderWords, Ring, TooLarge, WriterWords, parts};
    use crate::sync::{AtomicBool, AtomicUsize, UnsafeCell};

    /// The memory of a few lanes.
    pub(in super::super) struct Region {
        heads: Vec<Head>,
        bytes: Vec<UnsafeCell<u8>>,
        capacity: usize,
    }

    // SAFETY: loom checks each access.
    unsafe impl Send for Region {}
    // SAFETY: as above.
    unsafe impl Sync for Region {}

    impl Region {
        pub(in super::super) fn new(count: u32, capacity: usize) -> Result<Self, TooLarge> {
            let capacity = capacity.max(1).next_power_of_two();
            let bytes = (0..count as usize * 2 * capacity).map(|_| UnsafeCell::new(0)).collect();
            Ok(Self { heads: (0..count).map(|_| head()).collect(), bytes, capacity })
        }

        pub(in super::super) fn count(&self) -> u32 {
            u32::try_from(self.heads.len()).unwrap_or(u32::MAX)
        }

        pub(in super::super) const fn capacity(&self) -> usize {
            self.capacity
        }

        pub(in super::super) fn head(&self, lane: u32) -> Option<&Head> {
            self.heads.get(lane as usize)
        }

        pub(in super::super) unsafe fn write(&self, ring: usize, at: usize, bytes: &[u8]) {
            for (place, byte) in self.places(ring, at, bytes.len()).zip(bytes) {
                // SAFETY: loom says if not.
                place.with_mut(|place| unsafe { *place = *byte });
            }
        }

        pub(in super::super) unsafe fn read<R>(
            &self,
            ring: usize,
            at: usize,
            len: usize,
            what: impl FnOnce([&[u8]; 2]) -> R,
        ) -> R {
            // SAFETY: loom says if not.
            let byte = |place: &UnsafeCell<u8>| place.with(|place| unsafe { *place });
            let bytes: Vec<u8> = self.places(ring, at, len).map(byte).collect();
            let (_, first) = parts(self.capacity, at, len);
            let (head, tail) = bytes.split_at(first);
            what([head, tail])
        }

        pub(in super::super) unsafe fn forget(&self, lane: u32) {
            for place in self.places(lane as usize * 2, 0, self.capacity * 2) {
                // SAFETY: loom says if not.
                place.with_mut(|place| unsafe { *place = 0 });
            }
        }

        fn places(&self, ring: usize, at: usize, len: usize) -> impl Iterator<Item = &UnsafeCell<u8>> {
            let place = move |n: usize| ring * self.capacity + (at.wrapping_add(n) & (self.capacity - 1));
            (0..len).map(move |n| &self.bytes[place(n)])
        }
    }

    fn head() -> Head {
        let word = || AtomicUsize::new(0);
        let ring = || Ring {
            writer: Line(WriterWords { tail: word(), end: word(), waits: AtomicBool::new(false) }),
            reader: Line(ReaderWords { head: word(), waits: AtomicBool::new(false) }),
        };
        Head { state: Line(word()), rings: [ring(), ring()] }
    }
}
