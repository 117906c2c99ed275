//! Unsafe: `malloc_trim` of glibc, which has no wrapper.
//!
//! Memory that was freed, back to the machine. An allocator keeps what lies between pieces that are in use, and each thread's
//! share of it: after a flood, all of the flood.
#![expect(unsafe_code, reason = "malloc_trim is a function of C")]

/// Gives all free pages of the heap back to the machine. Threads that allocate meanwhile wait for as long as their part of it
/// takes. Does nothing with another allocator than glibc's.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and may be called by any thread at any time (malloc_trim(3): MT-Safe).
    unsafe {
        libc::malloc_trim(0);
    }
}
