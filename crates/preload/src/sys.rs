//! Unsafe: system calls with the pointers that a program passed, and `errno`.
//!
//! Calls that pass by the hooks: what is not for pantala goes to the kernel as the program said it.
#![expect(
    unsafe_code,
    reason = "a program's pointers go to the kernel, and descriptors are borrowed by number"
)]

use core::ffi::{c_int, c_long};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use program::options::VALUE_MAX;
use program::{Socket, stream};
use rustix::io::{Errno, FdFlags, fcntl_getfd};

use crate::hooks::wait;

/// Makes a system call whose arguments are those of the program's own call.
pub(crate) fn call(number: c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the program called the function of this system call with these arguments; they are as valid as it made them,
    // and the kernel checks its pointers.
    isize::try_from(unsafe { libc::syscall(number, a, b, c, d, e, f) }).unwrap_or(-1)
}

/// Sets `errno`, and returns what says so.
pub(crate) fn fail(why: Errno) -> c_int {
    set_errno(why.raw_os_error());
    -1
}

/// Sets `errno`, to 0 as well.
pub(crate) fn set_errno(number: c_int) {
    // SAFETY: libc's place for this thread's `errno` is always there.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above; no other thread has it.
    unsafe { *place = number };
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

/// A socket of this process.
pub(crate) struct Own<'a>(pub(crate) BorrowedFd<'a>);

impl Socket for Own<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0
    }

    fn put_in_place(&self, new: OwnedFd) -> Result<(), Errno> {
        stream::prepare(self.0, new.as_fd())?;
        // From now on calls that receive ask whether a socket is one of datagrams.
        let _ = crate::datagram::name(new.as_fd());
        let cloexec = fcntl_getfd(self.0)?.contains(FdFlags::CLOEXEC);
        let flags = if cloexec { libc::O_CLOEXEC } else { 0 };
        let numbers = [new.as_raw_fd(), self.0.as_raw_fd(), flags];
        let [new, old, flags] = numbers.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        let left = wait::leave(self.0.as_raw_fd());
        let done = match call(libc::SYS_dup3, [new, old, flags, 0, 0, 0]) {
            -1 => Err(Errno::from_raw_os_error(errno())),
            _ => Ok(()),
        };
        if let Some(left) = left {
            wait::enter(self.0.as_raw_fd(), left);
        }
        done
    }

    fn option(fd: BorrowedFd<'_>, level: c_int, number: c_int) -> Option<[u8; VALUE_MAX]> {
        let mut bytes = [0_u8; VALUE_MAX];
        let mut len = u32::try_from(VALUE_MAX).unwrap_or(0);
        let words = [fd.as_raw_fd(), level, number].map(|word| (word as isize).cast_unsigned());
        let [fd, level, number] = words;
        let arguments = [fd, level, number, (&raw mut bytes) as usize, (&raw mut len) as usize, 0];
        let before = errno();
        if call(libc::SYS_getsockopt, arguments) != 0 {
            set_errno(before);
            return None;
        }
        Some(bytes)
    }
}
