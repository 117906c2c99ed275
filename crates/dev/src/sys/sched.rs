//! Unsafe: calls `sched_setscheduler(2)` through libc.
//!
//! How much a thread wants its processor.
#![expect(unsafe_code, reason = "sched_setscheduler takes a pointer to its parameters")]

use std::io;

/// From now on the calling thread runs only when no other wants the processor (`SCHED_IDLE`): it is put aside as soon as
/// one does.
///
/// # Errors
/// None is expected.
pub fn yield_to_all() -> io::Result<()> {
    // SAFETY: the structure has numbers alone; musl's has more of them. The priority must be 0.
    let parameters: libc::sched_param = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is read during the call only; 0 is the calling thread.
    let answer = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
