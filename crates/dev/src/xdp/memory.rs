//! Unsafe: atomic words, of one to eight bytes, in memory that several CPUs and other processes read and write.
//!
//! The values of maps. A program may address any byte, so there are no references to them: each access is checked, and is
//! one atomic access if it is aligned, else one for each byte.
#![expect(unsafe_code, reason = "atomic accesses of several sizes to the same memory")]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::io;
use std::os::fd::AsFd;

use crate::sys::mmap::Mapping;

/// Memory of values.
pub(super) struct Memory {
    map: Mapping,
    len: usize,
}

/// An atomic change of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Add,
    Or,
    And,
    Xor,
    Exchange,
    /// Stores it if the word was this.
    CompareExchange(u64),
}

/// One access of each size at an address that is aligned and in the memory.
macro_rules! word {
    ($pointer:expr, $bytes:expr, |$word:ident| $access:expr) => {
        match $bytes {
            // SAFETY: the caller has checked that the word lies in the mapping and is aligned; all accesses to it are atomic.
            1 => unsafe {
                let $word = AtomicU8::from_ptr($pointer.as_ptr());
                u64::from($access)
            },
            // SAFETY: as above.
            2 => unsafe {
                let $word = AtomicU16::from_ptr($pointer.as_ptr().cast());
                u64::from($access)
            },
            // SAFETY: as above.
            4 => unsafe {
                let $word = AtomicU32::from_ptr($pointer.as_ptr().cast());
                u64::from($access)
            },
            // SAFETY: as above.
            _ => unsafe {
                let $word = AtomicU64::from_ptr($pointer.as_ptr().cast());
                u64::from($access)
            },
        }
    };
}

impl Memory {
    /// New memory, zeroed; pages are taken when they are used.
    pub(super) fn new(len: usize) -> io::Result<Self> {
        Ok(Self { map: Mapping::anonymous(len.max(1))?, len })
    }

    /// The values of an array of the kernel's that can be mapped.
    pub(super) fn of_map(map: impl AsFd, len: usize) -> io::Result<Self> {
        const PAGE: usize = 4096;
        Ok(Self { map: Mapping::shared(map, len.next_multiple_of(PAGE), 0)?, len })
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// All of it, for machine code that checks its accesses.
    pub(super) fn whole(&self) -> (*mut u8, usize) {
        (self.map.start().as_ptr(), self.len)
    }

    /// Address of `bytes` bytes at `at`, if they lie in the memory.
    #[inline]
    fn at(&self, at: u64, bytes: u64) -> Option<NonNull<u8>> {
        let end = at.checked_add(bytes)?;
        if end > self.len as u64 {
            return None;
        }
        // SAFETY: `at` is at most the length of the mapping.
        Some(unsafe { self.map.start().add(usize::try_from(at).ok()?) })
    }

    /// Reads `bytes` (1, 2, 4 or 8) at `at`; `None` if they do not lie in the memory.
    #[inline]
    pub(super) fn load(&self, at: u64, bytes: u64) -> Option<u64> {
        let place = self.at(at, bytes)?;
        if at.is_multiple_of(bytes) {
            return Some(word!(place, bytes, |word| word.load(Ordering::Relaxed)));
        }
        let each = (0..bytes).rev().map(|n| self.load(at + n, 1).unwrap_or(0));
        Some(each.fold(0, |all, byte| all << 8 | byte))
    }

    /// Writes the lower bytes of `value`; `None`, and nothing is written, if they do not lie in the memory.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lower bytes are meant")]
    pub(super) fn store(&self, at: u64, bytes: u64, value: u64) -> Option<()> {
        let place = self.at(at, bytes)?;
        if at.is_multiple_of(bytes) {
            word!(place, bytes, |word| {
                word.store(value as _, Ordering::Relaxed);
                0_u64
            });
            return Some(());
        }
        (0..bytes).try_for_each(|n| self.store(at + n, 1, value >> (8 * n)))
    }

    /// Changes a word of four or eight bytes atomically; answers what it was. `None` if it is not aligned or not in the memory.
    #[expect(clippy::cast_possible_truncation, reason = "the lower bytes are meant")]
    pub(super) fn change(&self, at: u64, bytes: u64, change: Change, value: u64) -> Option<u64> {
        let place = self.at(at, bytes)?;
        if !at.is_multiple_of(bytes) || bytes < 4 {
            return None;
        }
        let order = Ordering::SeqCst;
        Some(word!(place, bytes, |word| match change {
            Change::Add => word.fetch_add(value as _, order),
            Change::Or => word.fetch_or(value as _, order),
            Change::And => word.fetch_and(value as _, order),
            Change::Xor => word.fetch_xor(value as _, order),
            Change::Exchange => word.swap(value as _, order),
            Change::CompareExchange(was) =>
                word.compare_exchange(was as _, value as _, order, order).unwrap_or_else(|is| is),
        }))
    }

    /// Copies bytes out.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> Option<()> {
        self.at(at, into.len() as u64)?;
        let mut at = at;
        for part in into.chunks_mut(8) {
            let whole = part.len() == 8;
            if whole {
                part.copy_from_slice(&self.load(at, 8)?.to_le_bytes());
            } else {
                (0..).zip(&mut *part).try_for_each(|(n, byte)| {
                    *byte = self.load(at + n, 1)?.to_le_bytes()[0];
                    Some(())
                })?;
            }
            at += 8;
        }
        Some(())
    }

    /// Copies bytes in.
    pub(super) fn write(&self, at: u64, from: &[u8]) -> Option<()> {
        self.at(at, from.len() as u64)?;
        let mut at = at;
        for part in from.chunks(8) {
            match part.first_chunk() {
                Some(word) => self.store(at, 8, u64::from_le_bytes(*word))?,
                None => (0..).zip(part).try_for_each(|(n, byte)| self.store(at + n, 1, u64::from(*byte)))?,
            }
            at += 8;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_access_leaves_the_memory_and_unaligned_ones_are_whole() {
        let memory = Memory::new(20).unwrap();
        assert_eq!(memory.store(12, 8, 0x0102_0304_0506_0708), Some(()));
        assert_eq!(memory.load(12, 8), Some(0x0102_0304_0506_0708));
        assert_eq!((memory.load(13, 2), memory.load(19, 1)), (Some(0x0607), Some(1)));
        for (at, bytes) in [(13, 8), (20, 1), (u64::MAX, 4), (u64::MAX - 3, 8)] {
            assert_eq!((memory.load(at, bytes), memory.store(at, bytes, 1)), (None, None), "{at} {bytes}");
        }
        assert_eq!(memory.change(16, 4, Change::Add, 1), Some(0x0102_0304));
        assert_eq!(memory.change(16, 4, Change::CompareExchange(0x0102_0305), 9), Some(0x0102_0305));
        assert_eq!((memory.load(16, 4), memory.change(17, 4, Change::Add, 1)), (Some(9), None));
    }
}
