//! Unsafe: calls `setsockopt(2)` and `getsockopt(2)` through libc, for options that rustix does not know.
#![expect(unsafe_code, reason = "setsockopt and getsockopt take a pointer to the value")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Sets a socket option whose value is an `int`.
///
/// # Errors
/// The errors of `getsockopt(2)` and `setsockopt(2)`.
pub fn set_int(fd: impl AsFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    set(fd, level, option, &value.to_ne_bytes())
}

/// Sets a socket option whose value is a plain structure, given as its bytes.
///
/// # Errors
/// The errors of `getsockopt(2)` and `setsockopt(2)`.
pub fn set(fd: impl AsFd, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
    let len = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the kernel reads `len` bytes from `value`, which it does not keep.
    let answer =
        unsafe { libc::setsockopt(fd.as_fd().as_raw_fd(), level, option, value.as_ptr().cast(), len) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the first bytes of the value of an option, and how many there are.
///
/// # Errors
/// The errors of `getsockopt(2)`.
pub fn get<const N: usize>(fd: impl AsFd, level: i32, option: i32) -> io::Result<([u8; N], usize)> {
    let mut value = [0; N];
    let mut len = libc::socklen_t::try_from(N).map_err(io::Error::other)?;
    let place = value.as_mut_ptr().cast();
    // SAFETY: the kernel writes `len` bytes at most to `value`.
    let answer = unsafe { libc::getsockopt(fd.as_fd().as_raw_fd(), level, option, place, &raw mut len) };
    if answer == 0 { Ok((value, len as usize)) } else { Err(io::Error::last_os_error()) }
}

/// Bounds how long a receive on this socket may block.
///
/// # Errors
/// None is expected.
pub fn set_receive_timeout(fd: impl AsFd, limit: core::time::Duration) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_timeout(fd, rustix::net::sockopt::Timeout::Recv, Some(limit))?)
}
