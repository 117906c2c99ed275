//! Unsafe: functions that a program calls in place of libc's, with its pointers.
//!
//! Calls that send, and name an address or may. `write`, `writev` and `send` need nothing: a socket that has a peer has bytes alone.
#![expect(unsafe_code, reason = "symbols of C, and pointers of a program")]

use core::ffi::{c_int, c_uint, c_void};
use core::slice;

use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use wire::program::Role;

use super::{message, named, word};
use crate::{addr, datagram, sys};

/// `sendto(2)`
///
/// # Safety
/// As of `sendto(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    bytes: *const c_void,
    count: size_t,
    flags: c_int,
    to: *const sockaddr,
    len: socklen_t,
) -> ssize_t {
    let mut buffer = iovec { iov_base: bytes.cast_mut(), iov_len: count };
    let mut message = message(&raw mut buffer, 1);
    (message.msg_name, message.msg_namelen) = (to.cast_mut().cast(), len);
    // SAFETY: the program's promise.
    if let Some(sent) = unsafe { datagram(fd, &message, flags) } {
        return sent;
    }
    // A connection ignores an address.
    let is_connection = !to.is_null() && named(fd).is_some_and(|name| name.role == Role::Stream);
    let (to, len) = if is_connection { (core::ptr::null(), 0) } else { (to, len) };
    sys::call(libc::SYS_sendto, [word(fd), bytes as usize, count, word(flags), to as usize, len as usize])
}

/// `sendmsg(2)`
///
/// # Safety
/// As of `sendmsg(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's promise.
    if let Some(message) = unsafe { message.as_ref() }
        // SAFETY: the program's promise.
        && let Some(sent) = unsafe { datagram(fd, message, flags) }
    {
        return sent;
    }
    sys::call(libc::SYS_sendmsg, [word(fd), message as usize, word(flags), 0, 0, 0])
}

/// `sendmmsg(2)`
///
/// # Safety
/// As of `sendmmsg(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    let pass = || {
        let arguments = [word(fd), messages as usize, count as usize, word(flags), 0, 0];
        c_int::try_from(sys::call(libc::SYS_sendmmsg, arguments)).unwrap_or(-1)
    };
    // The kernel says why.
    if messages.is_null() || count == 0 {
        return pass();
    }
    // SAFETY: the program's promise: there are so many.
    let places = unsafe { slice::from_raw_parts_mut(messages, count as usize) };
    for (done, place) in places.iter_mut().enumerate() {
        // SAFETY: the program's promise.
        let sent = match unsafe { datagram(fd, &place.msg_hdr, flags) } {
            Some(sent) => sent,
            None if done == 0 => return pass(),
            None => -1,
        };
        if sent < 0 {
            // Those before it are sent, and the next call reports the error.
            return if done > 0 { c_int::try_from(done).unwrap_or(c_int::MAX) } else { -1 };
        }
        place.msg_len = c_uint::try_from(sent).unwrap_or(0);
    }
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// Sends a message of a socket of datagrams; `None`: it is the kernel's, or a stream.
///
/// # Safety
/// As of `sendmsg(2)`.
unsafe fn datagram(fd: c_int, message: &msghdr, flags: c_int) -> Option<ssize_t> {
    let own = sys::borrow(fd)?;
    // SAFETY: the program's promise.
    let to = unsafe { addr::read(message.msg_name.cast(), message.msg_namelen) };
    // Without an address only a socket that is pantala's already can be meant.
    let name = match to {
        Some(_) => datagram::sends(own, to)?,
        None => Ok(datagram::name_if_any(own)?),
    };
    match name {
        // SAFETY: the program's promise.
        Ok(name) => Some(unsafe { datagram::send(own, &name, to, message, flags) }),
        Err(why) => Some(sys::fail(why) as ssize_t),
    }
}
