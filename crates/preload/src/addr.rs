//! Unsafe: reads and writes `struct sockaddr` and options where a program says they are.
//!
//! C's socket addresses.
#![expect(unsafe_code, reason = "memory of the program, through the pointers of its call")]

use core::ffi::c_int;
use core::net::SocketAddr;
use core::slice;

use libc::{sockaddr, socklen_t};

/// Reads an IPv4 or IPv6 address; `None` if it is another, or too short.
///
/// # Safety
/// `addr` is null, or points to `len` bytes.
pub(crate) unsafe fn read(addr: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    if addr.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { slice::from_raw_parts(addr.cast::<u8>(), len as usize) };
    program::addr::parse(bytes)
}

/// Whether it is of no family, which means that a socket has no peer any more.
///
/// # Safety
/// As of [`read`].
pub(crate) unsafe fn is_none(addr: *const sockaddr, len: socklen_t) -> bool {
    // SAFETY: the caller's promise.
    len as usize >= size_of::<libc::sa_family_t>()
        && unsafe { addr.as_ref() }.is_some_and(|addr| c_int::from(addr.sa_family) == libc::AF_UNSPEC)
}

/// Writes an address as the kernel does: as much as there is room for, and its whole length. Nothing if there is no place.
///
/// # Safety
/// `len` is null or writable, and `addr` is null or has room for so many bytes.
pub(crate) unsafe fn write(at: SocketAddr, addr: *mut sockaddr, len: *mut socklen_t) {
    let (bytes, whole) = program::addr::emit(at);
    // SAFETY: the caller's promise.
    unsafe { put(&bytes[..whole], addr.cast(), len) };
}

/// Writes the value of an option: as much as there is room for, and how much that was.
///
/// # Safety
/// As of [`write()`].
pub(crate) unsafe fn write_value(bytes: &[u8], value: *mut u8, len: *mut socklen_t) {
    // SAFETY: the caller's promise.
    let room = unsafe { len.as_ref() }.map_or(0, |len| *len as usize);
    // SAFETY: the caller's promise.
    unsafe { put(&bytes[..bytes.len().min(room)], value, len) };
}

/// Says that there is no address: what `recvfrom` says of a connected TCP socket.
///
/// # Safety
/// `len` is null or writable.
pub(crate) unsafe fn none(len: *mut socklen_t) {
    // SAFETY: the caller's promise.
    if let Some(len) = unsafe { len.as_mut() } {
        *len = 0;
    }
}

/// Copies what there is room for, and says how much there would be.
unsafe fn put(bytes: &[u8], place: *mut u8, len: *mut socklen_t) {
    // SAFETY: the caller's promise.
    let Some(len) = (unsafe { len.as_mut() }) else { return };
    let count = bytes.len().min(*len as usize);
    *len = socklen_t::try_from(bytes.len()).unwrap_or(0);
    if !place.is_null() {
        // SAFETY: the caller's promise; the bytes are ours.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), place, count) };
    }
}
