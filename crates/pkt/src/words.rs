//! Unsafe: maps a large array of atomic words, and prefetches them.
//!
//! What all CPUs read and one thread changes in place. The memory is reserved at its bound and backed where it is
//! touched, so a bound costs nothing until it is used.
#![allow(unsafe_code, reason = "owns the mapping, and prefetching is an intrinsic")]

use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
use std::io;

/// An array of words, zero at first.
#[derive(Debug)]
pub struct Words {
    base: NonNull<AtomicU32>,
    len: usize,
    /// Bytes reserved: a power of two, not less than a cache line.
    reserved: usize,
}

/// The words of a cache line.
pub type Line = [AtomicU32; 16];

// SAFETY: owns its memory, which is nothing but atomics.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// An array of `len` words that starts on a cache line. Large ones ask for huge pages, and do without where the
    /// machine has none.
    ///
    /// # Errors
    ///
    /// When the system has not so much address space for us.
    pub fn zeroed(len: usize) -> io::Result<Self> {
        let bytes = len.checked_mul(size_of::<AtomicU32>());
        let reserved = bytes.and_then(|bytes| bytes.max(size_of::<Line>()).checked_next_power_of_two());
        let reserved = reserved.ok_or(io::ErrorKind::OutOfMemory)?;
        let base = os::map(reserved)?.cast();
        Ok(Self { base, len, reserved })
    }

    /// The cache line that byte `at` is in, without a check that could fail: where the array has no such byte it is some
    /// other line, of the array or of zeros behind it.
    #[inline]
    #[must_use]
    pub const fn line(&self, at: u32) -> &Line {
        let at = at as usize & (self.reserved - 1) & !(size_of::<Line>() - 1);
        // SAFETY: `reserved` is a power of two and a multiple of a line, so the line lies within what is mapped.
        let line = unsafe { self.base.as_ptr().byte_add(at) };
        // SAFETY: atomics, aligned to their line, zeroed when they were mapped; borrowed no longer than we are.
        unsafe { &*line.cast() }
    }

    /// The word that byte `at` is in, in the way of [`line`](Self::line).
    #[inline]
    #[must_use]
    pub const fn word(&self, at: u32) -> &AtomicU32 {
        let at = at as usize & (self.reserved - 1) & !(size_of::<AtomicU32>() - 1);
        // SAFETY: as in `line`, with a word instead of a line.
        let word = unsafe { self.base.as_ptr().byte_add(at) };
        // SAFETY: as in `line`.
        unsafe { &*word }
    }

    /// Asks for the cache line that byte `at` is in; asks for nothing if there is no such byte.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        let line = self.base.as_ptr().wrapping_byte_add(at);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch of any address reads nothing and cannot fault.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = line;
    }
}

impl Deref for Words {
    type Target = [AtomicU32];

    #[inline]
    fn deref(&self) -> &[AtomicU32] {
        // SAFETY: the mapping is `len` words long, aligned to more than a word, zeroed, which is a word, and lives as
        // long as we do.
        unsafe { core::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: exactly what `zeroed` mapped, and whoever borrowed it borrowed us.
        unsafe { os::unmap(self.base.cast(), self.reserved) };
    }
}

#[cfg(not(miri))]
mod os {
    use core::ptr::NonNull;
    use std::io;

    /// From this size on, huge pages are worth having.
    const LARGE: usize = 8 << 20;

    /// Reserves address space only: pages come when they are touched.
    pub(super) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { libc::mmap(core::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if bytes >= LARGE {
            // SAFETY: advice about the mapping that was just made. A kernel that refuses it has small pages.
            unsafe { libc::madvise(base, bytes, libc::MADV_HUGEPAGE) };
        }
        NonNull::new(base.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// # Safety
    ///
    /// `base` and `bytes` are of one call to `map`, and nobody uses the memory any more.
    pub(super) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller says so.
        unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
    }
}

/// miri sees allocations better than mappings.
#[cfg(miri)]
mod os {
    use core::ptr::NonNull;
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::io;

    fn layout(bytes: usize) -> io::Result<Layout> {
        Layout::from_size_align(bytes, 64).map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    pub(super) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
        // SAFETY: the size is not zero.
        let base = unsafe { alloc_zeroed(layout(bytes)?) };
        NonNull::new(base).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// # Safety
    ///
    /// `base` and `bytes` are of one call to `map`, and nobody uses the memory any more.
    pub(super) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        let layout = layout(bytes).expect("it had a layout when it was mapped");
        // SAFETY: the caller says so.
        unsafe { dealloc(base.as_ptr(), layout) };
    }
}

#[cfg(test)]
mod tests;
