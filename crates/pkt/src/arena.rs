//! Unsafe: maps the arena and turns slot indices into handles.
//!
//! One mapping holds the buffers of all CPUs, so that it can be registered as an AF_XDP UMEM as it is.
#![allow(unsafe_code, reason = "owns the mapping that every packet handle points into")]

use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

use crate::pkt::Pkt;
use crate::pool::Pool;
use crate::pool_ids::Homes;
use crate::slot::{HEADROOM, Holder, META_LEN, Meta, STRIDE, Slot, SlotHead};

/// The memory that all packets of a stack live in.
pub struct Arena {
    base: NonNull<u8>,
    slots: usize,
    mapped: usize,
    pages: PageKind,
    /// Slots that dropped pools still held: all of them, or the mapping must outlive us.
    home: AtomicUsize,
    /// Stands behind the last slot, because it must live as long as the last handle.
    leaked: NonNull<AtomicU64>,
    /// The numbers of its pools.
    homes: Homes,
}

/// The kind of pages behind an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Huge pages (2 MiB here).
    Huge,
    /// Ordinary pages: huge ones were not asked for, or the machine has none free.
    Normal,
}

/// Why an arena could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum ArenaError {
    /// No pools, no slots, or more than the indices can name.
    Shape {
        /// Pools asked for.
        pools: usize,
        /// Slots asked for in each.
        slots_per_pool: usize,
    },
    /// The system refused the memory.
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// Its message.
        error: std::io::Error,
    },
}

impl core::fmt::Display for ArenaError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Shape { pools, slots_per_pool } => {
                write!(f, "an arena of {pools} pools with {slots_per_pool} buffers each cannot be addressed")
            }
            Self::Memory { bytes, error } => {
                write!(f, "no {} MiB for packet buffers: {error}; configure fewer `buffers`", bytes >> 20)
            }
        }
    }
}

impl core::error::Error for ArenaError {}

// SAFETY: the arena hands out disjoint slots as owned handles and itself never touches their bytes.
unsafe impl Send for Arena {}
// SAFETY: as above; the counters are atomic.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps `pools * slots_per_pool` buffers and deals them out, an equal share to each pool.
    ///
    /// Huge pages are tried when `huge` is set, and never required: [`Arena::pages`] tells what it became.
    ///
    /// # Errors
    ///
    /// [`ArenaError`], when the shape cannot be addressed (the process has 65,535 pools at the most) or the memory is not to be had.
    pub fn carve(pools: usize, slots_per_pool: usize, huge: bool) -> Result<Vec<Pool>, ArenaError> {
        let shape = || ArenaError::Shape { pools, slots_per_pool };
        if pools == 0 || slots_per_pool == 0 || pools > usize::from(u16::MAX) {
            return Err(shape());
        }
        let slots =
            pools.checked_mul(slots_per_pool).filter(|n| u32::try_from(*n).is_ok()).ok_or_else(shape)?;
        let homes = Homes::take(pools).ok_or_else(shape)?;
        let arena = Arc::new(Self::map(slots, huge, homes).inspect_err(|_| homes.give_back())?);
        Ok((0..pools).map(|id| Pool::new(&arena, id, pools, slots_per_pool)).collect())
    }

    /// Lets this process keep the memory of arenas that end, up to so many bytes, each for the next arena of the same size in ordinary
    /// pages. For programs that make many, as a simulator does: the system takes longer to find and clear memory than a short
    /// life of a stack takes. Nothing is kept before.
    pub fn keep_memory(bytes: usize) {
        os::keep(bytes);
    }

    fn map(slots: usize, huge: bool, homes: Homes) -> Result<Self, ArenaError> {
        let bytes = slots * STRIDE + size_of::<AtomicU64>();
        let (base, mapped, pages) =
            os::map(bytes, huge).map_err(|error| ArenaError::Memory { bytes, error })?;
        // SAFETY: the mapping is that much longer than its slots.
        let leaked: NonNull<AtomicU64> = unsafe { base.add(slots * STRIDE) }.cast();
        // SAFETY: as above, and nothing else knows of it yet.
        unsafe { leaked.write(AtomicU64::new(0)) };
        Ok(Self { base, slots, mapped, pages, home: AtomicUsize::new(0), leaked, homes })
    }

    /// Writes the metadata of slot `index` for the first time and makes its one handle.
    ///
    /// Called once per slot, by the pool that it is dealt to.
    pub(crate) fn first_handle(&self, index: u32, home: u16) -> Pkt {
        let slot = self.slot(index);
        let head = SlotHead::new(index, home, self.leaked.as_ptr());
        // SAFETY: the head is the first field of the slot, which lies in the mapping, aligned to 64, and there is no
        // handle of it yet.
        unsafe { slot.cast::<SlotHead>().write(head) };
        // SAFETY: that far into the same slot.
        let meta = unsafe { slot.byte_add(offset_of!(Slot, meta)) };
        // SAFETY: the slot's metadata, as above.
        unsafe { meta.cast::<Meta>().write(Meta::NONE) };
        Pkt::from_slot(slot)
    }

    fn slot(&self, index: u32) -> NonNull<Slot> {
        assert!((index as usize) < self.slots, "slot {index} of {}", self.slots);
        // SAFETY: the index was just checked, so the result stays inside the mapping.
        unsafe { self.base.add(index as usize * STRIDE) }.cast()
    }

    /// Takes a packet back from a device, by the offset that [`Pkt::into_frame`] gave (or any byte of that slot).
    ///
    /// `None` if the offset is outside the arena or the slot is not with a device: then the device named a frame
    /// twice, and the caller counts it.
    ///
    /// # Safety
    ///
    /// The device must be done with the slot, and no other thread may be reclaiming the same one. Devices that
    /// belong to one CPU, and a kernel that gives each frame back once, have that by construction.
    #[inline]
    pub unsafe fn reclaim(&self, offset: u64) -> Option<Pkt> {
        let index = usize::try_from(offset).ok()? / STRIDE;
        if index >= self.slots {
            return None;
        }
        let slot = self.slot(u32::try_from(index).ok()?);
        // SAFETY: in the mapping; the caller promises that no other handle exists, so its metadata is ours.
        let head = unsafe { slot.cast::<SlotHead>().as_mut() };
        if head.holder != Holder::Device {
            return None;
        }
        head.holder = Holder::Stack;
        Some(Pkt::from_slot(slot))
    }

    /// Fetches the metadata of the slot around an offset, which is about to be [reclaimed](Self::reclaim).
    #[inline]
    pub fn prefetch(&self, offset: u64) {
        let at = usize::try_from(offset).unwrap_or(0) / STRIDE * STRIDE;
        crate::vec::prefetch_line(self.base.as_ptr().wrapping_add(at));
    }

    /// Where the mapping starts: what a device registers.
    #[must_use]
    pub const fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes of the mapping that hold slots.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.slots * STRIDE
    }

    /// Whether there is no slot at all; never, in an arena that exists.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.slots == 0
    }

    /// Buffers in all.
    #[must_use]
    pub const fn slots(&self) -> usize {
        self.slots
    }

    /// The kind of pages that were to be had.
    #[must_use]
    pub const fn pages(&self) -> PageKind {
        self.pages
    }

    /// Handles that were dropped instead of given back, ever: a bug, and zero in every test.
    #[must_use]
    pub fn leaked(&self) -> u64 {
        // SAFETY: stands in the mapping, which lives at least as long as we do.
        unsafe { self.leaked.as_ref() }.load(Ordering::Relaxed)
    }

    /// The number of the first pool; the others follow.
    pub(crate) const fn first_home(&self) -> u16 {
        self.homes.first()
    }

    pub(crate) fn came_home(&self, slots: usize) {
        self.home.fetch_add(slots, Ordering::Relaxed);
    }

    /// The offset in the arena of the first data byte of the slot at `index` when nothing is prepended.
    #[must_use]
    pub const fn data_offset(index: u32) -> u64 {
        index as u64 * STRIDE as u64 + (META_LEN + HEADROOM) as u64
    }
}

impl Drop for Arena {
    /// Unmaps, unless a handle is still out there: then the memory stays, because the handle may be used.
    fn drop(&mut self) {
        if *self.home.get_mut() == self.slots {
            os::unmap(self.base, self.mapped, self.pages);
            self.homes.give_back();
        }
    }
}

#[cfg(not(miri))]
mod os {
    use core::ptr::NonNull;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::PageKind;

    const HUGE_PAGE: usize = 2 << 20;

    /// A mapping that no arena uses.
    struct Idle {
        base: NonNull<u8>,
        bytes: usize,
    }

    // SAFETY: it owns its memory, to which there is no other pointer.
    unsafe impl Send for Idle {}

    /// Mappings for the next arenas of their sizes.
    struct Kept {
        /// Bytes that may be kept, and bytes that are.
        bound: usize,
        bytes: usize,
        idle: Vec<Idle>,
    }

    static KEPT: Mutex<Kept> = Mutex::new(Kept { bound: 0, bytes: 0, idle: Vec::new() });

    fn kept() -> MutexGuard<'static, Kept> {
        KEPT.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep(bytes: usize) {
        kept().bound = bytes;
    }

    pub(super) fn map(bytes: usize, huge: bool) -> std::io::Result<(NonNull<u8>, usize, PageKind)> {
        let rounded = bytes.next_multiple_of(HUGE_PAGE);
        if huge && let Ok(base) = anonymous(rounded, libc::MAP_HUGETLB) {
            return Ok((base, rounded, PageKind::Huge));
        }
        let base = match again(bytes) {
            Some(base) => base,
            None => anonymous(bytes, 0)?,
        };
        Ok((base, bytes, PageKind::Normal))
    }

    /// Takes a mapping of this size that was kept.
    fn again(bytes: usize) -> Option<NonNull<u8>> {
        let mut kept = kept();
        let at = kept.idle.iter().position(|idle| idle.bytes == bytes)?;
        kept.bytes -= bytes;
        Some(kept.idle.swap_remove(at).base)
    }

    fn anonymous(bytes: usize, flags: i32) -> std::io::Result<NonNull<u8>> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { libc::mmap(core::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        NonNull::new(base.cast()).ok_or_else(|| std::io::Error::from(std::io::ErrorKind::OutOfMemory))
    }

    pub(super) fn unmap(base: NonNull<u8>, bytes: usize, pages: PageKind) {
        let mut kept = kept();
        if pages == PageKind::Normal && bytes <= kept.bound.saturating_sub(kept.bytes) {
            kept.bytes += bytes;
            kept.idle.push(Idle { base, bytes });
            return;
        }
        drop(kept);
        // SAFETY: exactly what `anonymous` mapped, and every slot of it has come home.
        unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
    }
}

/// miri sees allocations better than mappings.
#[cfg(miri)]
mod os {
    use core::ptr::NonNull;
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    use super::PageKind;

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 4096).expect("a size that fits")
    }

    pub(super) fn map(bytes: usize, _huge: bool) -> std::io::Result<(NonNull<u8>, usize, PageKind)> {
        // SAFETY: the size is not zero.
        let base = unsafe { alloc_zeroed(layout(bytes)) };
        let base = NonNull::new(base).ok_or_else(|| std::io::Error::from(std::io::ErrorKind::OutOfMemory))?;
        Ok((base, bytes, PageKind::Normal))
    }

    /// An allocation of its own for each arena, so that miri sees what is used behind its end.
    pub(super) fn keep(_bytes: usize) {}

    pub(super) fn unmap(base: NonNull<u8>, bytes: usize, _pages: PageKind) {
        // SAFETY: exactly what `map` allocated, and every slot of it has come home.
        unsafe { dealloc(base.as_ptr(), layout(bytes)) };
    }
}
