//! Unsafe: maps and unmaps memory.
#![expect(unsafe_code, reason = "mmap and munmap are unsafe; this file makes a value that owns a mapping")]

use core::ptr::{self, NonNull};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The size of one huge page, in bytes.
pub const HUGE_PAGE: usize = 2 << 20;

/// Which pages back a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// 2 MiB pages from the machine's pool (`vm.nr_hugepages`).
    Huge,
    /// 4 KiB pages.
    Base,
}

/// A mapping of memory, zeroed at first and unmapped when dropped.
///
/// It hands out its address only: code that makes references into it decides, and answers for, all other accesses.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    pages: Pages,
}

// SAFETY: a mapping is an address range of the process; no thread owns it more than another, and the type
// itself never reads or writes it.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`; `&Mapping` allows to read the address and the length only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Private memory of at least `len` bytes: huge pages if the machine has enough of them, else base pages.
    ///
    /// # Errors
    /// `OutOfMemory`; `InvalidInput` if `len` is 0.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        let rounded = len.checked_next_multiple_of(HUGE_PAGE).ok_or(io::ErrorKind::InvalidInput)?;
        Self::private(rounded, MapFlags::HUGETLB, Pages::Huge)
            .or_else(|_| Self::private(len, MapFlags::empty(), Pages::Base))
    }

    /// Memory shared with the kernel: `len` bytes of `fd` from `offset`, all present at once.
    ///
    /// # Errors
    /// The errors of `mmap(2)`.
    pub fn shared(fd: impl AsFd, len: usize, offset: u64) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: no address is given, so no existing mapping is replaced.
        let start = unsafe { mmap(ptr::null_mut(), len, READ_WRITE, flags, fd, offset) }?;
        Self::owning(start.cast(), len, Pages::Base)
    }

    /// Memory with machine code: it can be executed, and not written at any time.
    ///
    /// It is a file in memory that is sealed before it is mapped: systemd's `MemoryDenyWriteExecute` lets no memory that
    /// could be written become executable.
    ///
    /// # Errors
    /// The errors of `memfd_create(2)` and `mmap(2)`; `InvalidInput` if there is no code.
    pub fn executable(code: &[u8]) -> io::Result<Self> {
        let len = code.len().next_multiple_of(4096);
        let mut file = File::from(memfd_create("code", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        file.write_all(code)?;
        ftruncate(&file, len as u64)?;
        fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::EXEC, MapFlags::PRIVATE | MapFlags::POPULATE);
        // SAFETY: no address is given, so no existing mapping is replaced.
        let start = unsafe { mmap(ptr::null_mut(), len, protection, flags, &file, 0) }?;
        Self::owning(start.cast(), len, Pages::Base)
    }

    /// The first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The length in bytes; with huge pages it is rounded up.
    #[expect(clippy::len_without_is_empty, reason = "a mapping is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Which pages it got.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    fn private(len: usize, extra: MapFlags, pages: Pages) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE | extra;
        // SAFETY: no address is given, so no existing mapping is replaced.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, READ_WRITE, flags) }?;
        Self::owning(start.cast(), len, pages)
    }

    fn owning(start: *mut u8, len: usize, pages: Pages) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len, pages })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by this value, which is the only one to unmap it; references into it
        // live no longer than the value by the contract of their makers.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Raises the soft limit of locked memory to the hard one, and the hard one to "unlimited" where allowed.
///
/// Registering a UMEM counts against it unless the process has `CAP_IPC_LOCK`. Answers the limit now in
/// force, in bytes (`None`: unlimited); being refused is not an error.
pub fn raise_locked_memory_limit() -> Option<u64> {
    let unlimited = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, unlimited).is_err() {
        let maximum = getrlimit(Resource::Memlock).maximum;
        let _ = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum });
    }
    getrlimit(Resource::Memlock).current
}

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_memory_is_zero_writable_and_says_which_pages_it_got() {
        let memory = Mapping::anonymous(100_000).unwrap();
        match memory.pages() {
            Pages::Huge => assert_eq!(memory.len(), HUGE_PAGE),
            Pages::Base => assert_eq!(memory.len(), 100_000),
        }
        // SAFETY: the mapping is live, this long, and there is no other reference to it.
        let bytes = unsafe { core::slice::from_raw_parts_mut(memory.start().as_ptr(), memory.len()) };
        assert!(bytes.iter().all(|&b| b == 0));
        bytes[99_999] = 7;
        assert_eq!(bytes[99_999], 7);
    }

    #[test]
    fn an_empty_or_absurd_mapping_is_an_error() {
        assert!(Mapping::anonymous(0).is_err());
        assert!(Mapping::anonymous(usize::MAX).is_err());
    }

    #[test]
    fn the_soft_limit_of_locked_memory_reaches_the_hard_one() {
        let limit = raise_locked_memory_limit();
        assert_eq!(limit, getrlimit(Resource::Memlock).maximum);
    }
}
