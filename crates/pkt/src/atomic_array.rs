//! Unsafe: a large array of atomic words in mapped memory, and prefetches of them.
//!
//! What all CPUs read and one thread changes in place. The memory is reserved at its bound and backed where it is
//! touched, so a bound costs nothing until it is used.
#![allow(unsafe_code, reason = "owns the mapping, and prefetching is an intrinsic")]

use core::ops::Deref;
use core::ptr::NonNull;
use std::io;

use crate::map;
use crate::shared::AtomicU32;

/// An array of words, zero at first.
#[derive(Debug)]
pub struct Words {
    base: NonNull<AtomicU32>,
    len: usize,
    /// Bytes reserved, less one: all ones, and a cache line at least.
    mask: usize,
}

/// From this size on, huge pages are worth having: all of it may be used.
const LARGE: usize = 8 << 20;

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
        let base = map::map(reserved)?;
        if reserved >= LARGE {
            // SAFETY: that is what was mapped.
            unsafe { map::prefer_huge_pages(base, reserved) };
        }
        Ok(Self { base: base.cast(), len, mask: reserved - 1 })
    }

    /// The cache line that byte `at` is in, without a check that could fail: where the array has no such byte it is some
    /// other line, of the array or of zeros behind it.
    #[inline]
    #[must_use]
    pub const fn line(&self, at: u32) -> &Line {
        let at = at as usize & self.mask & !(size_of::<Line>() - 1);
        // SAFETY: `mask` is one less than a power of two and a multiple of a line that is reserved, so the line lies within what is mapped.
        let line = unsafe { self.base.as_ptr().byte_add(at) };
        // SAFETY: atomics, aligned to their line, zeroed when they were mapped; borrowed no longer than we are.
        unsafe { &*line.cast() }
    }

    /// The word that byte `at` is in, in the way of [`line`](Self::line).
    #[inline]
    #[must_use]
    pub const fn word(&self, at: u32) -> &AtomicU32 {
        let at = at as usize & self.mask & !(size_of::<AtomicU32>() - 1);
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
        // SAFETY: exactly what `zeroed` mapped, and its borrowers borrowed us.
        unsafe { map::unmap(self.base.cast(), self.mask + 1) };
    }
}

#[cfg(test)]
mod tests;
