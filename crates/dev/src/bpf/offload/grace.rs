//! Unsafe: calls `membarrier(2)` through libc.
//!
//! Waits until programs are over that were running when the wait began.
#![expect(unsafe_code, reason = "membarrier has no wrapper")]

use std::io;

const QUERY: i32 = 0;
const GLOBAL: i32 = 1;

/// Whether [`wait`] works on this kernel.
///
/// # Errors
/// The errors of `membarrier(2)`; `Unsupported` on kernels whose CPUs are isolated with `nohz_full`.
pub fn is_available() -> io::Result<()> {
    if membarrier(QUERY)? & GLOBAL == 0 {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel has no global membarrier"));
    }
    Ok(())
}

/// Waits until all XDP programs that were running are over, and the frames that they redirected have been given to their
/// devices: a grace period of RCU, some milliseconds.
///
/// # Errors
/// As [`is_available`].
pub fn wait() -> io::Result<()> {
    membarrier(GLOBAL).map(drop)
}

fn membarrier(command: i32) -> io::Result<i32> {
    // SAFETY: no pointers are passed.
    let answer = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    i32::try_from(answer).ok().filter(|answer| *answer >= 0).ok_or_else(io::Error::last_os_error)
}
