//! Unsafe: maps memory of zeros, which is reserved at its bound and backed where it is touched.
#![allow(unsafe_code, reason = "asks the system for memory, and gives it back")]

#[cfg(not(feature = "loom"))]
pub(crate) use os::forget;
pub(crate) use os::{map, prefer_huge_pages, unmap};

#[cfg(not(miri))]
mod os {
    use core::ptr::NonNull;
    use std::io;

    /// Reserves address space only: pages come when they are touched.
    pub(crate) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { libc::mmap(core::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(base.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// # Safety
    ///
    /// `base` and `bytes` are of one call to `map`.
    pub(crate) unsafe fn prefer_huge_pages(base: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller says so. A kernel that refuses the advice has small pages.
        unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
    }

    /// Gives the whole pages among these bytes back: they are zero again.
    ///
    /// # Safety
    ///
    /// They lie in memory of one call to `map`, and no other thread uses them meanwhile.
    #[cfg(not(feature = "loom"))]
    pub(crate) unsafe fn forget(base: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller says so. Bytes that do not begin with a page are refused, and stay.
        unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_DONTNEED) };
    }

    /// # Safety
    ///
    /// `base` and `bytes` are of one call to `map`, and the memory is not used any more.
    pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
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
        Layout::from_size_align(bytes, 128).map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    pub(crate) fn map(bytes: usize) -> io::Result<NonNull<u8>> {
        // SAFETY: the size is not zero.
        let base = unsafe { alloc_zeroed(layout(bytes)?) };
        NonNull::new(base).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// # Safety
    ///
    /// None is needed.
    pub(crate) unsafe fn prefer_huge_pages(_: NonNull<u8>, _: usize) {}

    /// # Safety
    ///
    /// They lie in memory of one call to `map`, and no other thread uses them meanwhile.
    #[cfg(not(feature = "loom"))]
    pub(crate) unsafe fn forget(base: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller says so.
        unsafe { base.write_bytes(0, bytes) };
    }

    /// # Safety
    ///
    /// `base` and `bytes` are of one call to `map`, and the memory is not used any more.
    pub(crate) unsafe fn unmap(base: NonNull<u8>, bytes: usize) {
        let layout = layout(bytes).expect("it had a layout when it was mapped");
        // SAFETY: the caller says so.
        unsafe { dealloc(base.as_ptr(), layout) };
    }
}
