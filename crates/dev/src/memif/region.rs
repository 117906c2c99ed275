//! Unsafe: copies from and to memory that another process writes at the same time.
//!
//! Regions, the memory of a connection. The slave makes them and the master maps them; both may write everywhere, at
//! any time, whatever the protocol says. So nothing here hands out a reference: bytes are copied, after a check that
//! they lie in the region.
//!
//! A file that is truncated while it is mapped kills the process that touches the hole (SIGBUS). A region that we accept must be
//! sealed against that; huge pages are refused because a hole that is punched into them cannot be filled again when
//! the machine has no more.
#![expect(unsafe_code, reason = "the memory belongs to the peer as much as to us")]

use core::ptr::NonNull;
use core::sync::atomic::{Ordering, compiler_fence};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs, ftruncate, memfd_create,
};

use super::fault::Fault;
use crate::sys::mmap::Mapping;

/// Bytes that all regions of a connection may have together.
pub(super) const BYTES_MAX: u64 = 1 << 30;
/// `HUGETLBFS_MAGIC` of `linux/magic.h`.
const HUGETLBFS: i64 = 0x9584_58f6;

/// Memory that two processes share.
#[derive(Debug)]
pub(super) struct Region {
    map: Mapping,
}

impl Region {
    /// New memory, zeroed, whose file can never change its length; and the file.
    pub(super) fn create(len: usize) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("memif", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, len as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self { map: Mapping::shared(&file, len, 0)? }, file))
    }

    /// Memory that the peer offers.
    pub(super) fn accept(file: impl AsFd, claimed: u64) -> Result<Self, Fault> {
        let len = usize::try_from(claimed).ok().filter(|len| (1..=BYTES_MAX).contains(&(*len as u64)));
        let len = len.ok_or(Fault::RegionSize(claimed))?;
        let seals = fcntl_get_seals(&file).map_err(|_| Fault::Unsealed)?;
        let kind = fstatfs(&file).map_err(Fault::system("ask for a region's kind"))?.f_type;
        if !seals.contains(SealFlags::SHRINK) || kind == HUGETLBFS {
            return Err(Fault::Unsealed);
        }
        let size = fstat(&file).map_err(Fault::system("ask for a region's size"))?.st_size;
        let size = u64::try_from(size).unwrap_or(0);
        if size < claimed {
            return Err(Fault::RegionShort { claimed, file: size });
        }
        Ok(Self { map: Mapping::shared(&file, len, 0).map_err(Fault::system("map a region"))? })
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns the address of `len` bytes at `offset`, if they are there. A caller that makes references of it answers for them.
    #[inline]
    pub(super) fn address(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        // SAFETY: inside the mapping, or one past its end.
        self.has(offset, len).then(|| unsafe { self.map.start().add(offset) })
    }

    /// Whether it has so many bytes at `offset`.
    pub(super) fn has(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.map.len())
    }

    /// Copies what is at `offset` now; answers whether the region has so much there.
    #[inline]
    pub(super) fn read(&self, offset: usize, to: &mut [u8]) -> bool {
        let Some(from) = self.address(offset, to.len()) else { return false };
        // SAFETY: `from` has that many bytes, `to` is a slice of ours, and the two cannot overlap: there is no
        // reference to a region's bytes. That the peer writes meanwhile spoils the copy's contents only.
        unsafe { copy(from.as_ptr(), to.as_mut_ptr(), to.len()) };
        // From here on the copy is all that is looked at: the compiler may not read the original again.
        compiler_fence(Ordering::SeqCst);
        true
    }

    /// Copies bytes to `offset`; answers whether the region has so much there.
    #[inline]
    pub(super) fn write(&self, offset: usize, from: &[u8]) -> bool {
        let Some(to) = self.address(offset, from.len()) else { return false };
        // SAFETY: `to` has that many bytes, `from` is a slice of ours, and the two cannot overlap (see `read`).
        unsafe { copy(from.as_ptr(), to.as_ptr(), from.len()) };
        true
    }

    /// Begins to fetch what is at `offset`.
    #[inline]
    pub(super) fn prefetch(&self, offset: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let line = self.map.start().as_ptr().wrapping_add(offset);
            // SAFETY: a prefetch reads nothing that the program could see, and never faults.
            unsafe { _mm_prefetch(line.cast(), _MM_HINT_T0) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = offset;
    }
}

/// Copies exactly `len` bytes. The lengths of small frames are two moves that overlap, not a call: no more is read or
/// written than belongs to the frame, so nothing stale is shown to the peer.
///
/// # Safety
/// Both have `len` bytes, and they do not overlap.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    match len {
        // SAFETY: as the caller says, and N <= len <= 2 N.
        32..=64 => unsafe { copy_ends::<32>(from, to, len) },
        // SAFETY: the same.
        65..=128 => unsafe { copy_ends::<64>(from, to, len) },
        // SAFETY: as the caller says.
        _ => unsafe { to.copy_from_nonoverlapping(from, len) },
    }
}

/// Copies the first N and the last N bytes.
///
/// # Safety
/// Both have `len` bytes, they do not overlap, and `N <= len <= 2 * N`.
#[inline]
unsafe fn copy_ends<const N: usize>(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the first N of at least N bytes; bytes need no alignment.
    let first = unsafe { from.cast::<[u8; N]>().read() };
    let from_end = from.wrapping_add(len - N);
    // SAFETY: the last N of them.
    let last = unsafe { from_end.cast::<[u8; N]>().read() };
    // SAFETY: the same in the destination.
    unsafe { to.cast::<[u8; N]>().write(first) };
    let to_end = to.wrapping_add(len - N);
    // SAFETY: the same.
    unsafe { to_end.cast::<[u8; N]>().write(last) };
}

#[cfg(test)]
mod tests;
