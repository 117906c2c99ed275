//! Unsafe: system calls with the pointers that a program passed, and `errno`.
//!
//! Calls that pass by the hooks: what is not for pantala goes to the kernel as the program said it.
#![expect(
    unsafe_code,
    reason = "a program's pointers go to the kernel, and descriptors are borrowed by number"
)]

use core::ffi::{c_int, c_long};
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

/// Makes a system call whose arguments are those of the program's own call.
pub(crate) fn call(number: c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the program called the function of this system call with these arguments; they are as valid as it made them,
    // and the kernel checks its pointers.
    isize::try_from(unsafe { libc::syscall(number, a, b, c, d, e, f) }).unwrap_or(-1)
}

/// Sets `errno`, and returns what says so.
pub(crate) fn fail(why: Errno) -> c_int {
    // SAFETY: libc's place for this thread's `errno` is always there.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above; no other thread has it.
    unsafe { *place = why.raw_os_error() };
    -1
}

/// Returns `errno`.
pub(crate) fn errno() -> c_int {
    // SAFETY: as in `fail`.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as in `fail`.
    unsafe { *place }
}

/// A descriptor by its number; `None` for what cannot be one.
pub(crate) fn borrow<'a>(fd: c_int) -> Option<BorrowedFd<'a>> {
    // SAFETY: it is used for system calls alone during a call of the program about this number. One that is not open makes
    // them fail with `EBADF`, as the program's own would.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}
