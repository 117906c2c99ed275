//! Unsafe: functions that a program calls in place of libc's, with its pointers.
//!
//! Calls that receive.
#![expect(unsafe_code, reason = "symbols of C, and pointers of a program")]

use core::ffi::{c_int, c_uint, c_void};
use core::slice;
use std::os::fd::BorrowedFd;

use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};
use program::stream;
use rustix::io::Errno;
use wire::program::Name;

use super::{datagrams, message, named, word};
use crate::{addr, datagram, sys};

/// `read(2)`
///
/// # Safety
/// As of `read(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, into: *mut c_void, count: size_t) -> ssize_t {
    let mut buffer = iovec { iov_base: into, iov_len: count };
    // SAFETY: the program's promise.
    if let Some(got) = unsafe { datagram_if_any(fd, &raw mut buffer, 1, 0) } {
        return got;
    }
    ended(fd, count, sys::call(libc::SYS_read, [word(fd), into as usize, count, 0, 0, 0]))
}

/// `read(2)`, as a fortified program calls it.
///
/// # Safety
/// As of `read(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __read_chk(fd: c_int, into: *mut c_void, count: size_t, room: size_t) -> ssize_t {
    fortified(count, room);
    // SAFETY: the program's promise.
    unsafe { read(fd, into, count) }
}

/// `readv(2)`
///
/// # Safety
/// As of `readv(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(fd: c_int, into: *const iovec, count: c_int) -> ssize_t {
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    // SAFETY: the program's promise.
    if let Some(got) = unsafe { datagram_if_any(fd, into.cast_mut(), most, 0) } {
        return got;
    }
    let got = sys::call(libc::SYS_readv, [word(fd), into as usize, word(count), 0, 0, 0]);
    ended(fd, word(count), got)
}

/// `recv(2)`
///
/// # Safety
/// As of `recv(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, into: *mut c_void, count: size_t, flags: c_int) -> ssize_t {
    let mut buffer = iovec { iov_base: into, iov_len: count };
    // SAFETY: the program's promise.
    if let Some(got) = unsafe { datagram_if_any(fd, &raw mut buffer, 1, flags) } {
        return got;
    }
    ended(fd, count, sys::call(libc::SYS_recvfrom, [word(fd), into as usize, count, word(flags), 0, 0]))
}

/// `recv(2)`, as a fortified program calls it.
///
/// # Safety
/// As of `recv(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recv_chk(
    fd: c_int,
    into: *mut c_void,
    count: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    fortified(count, room);
    // SAFETY: the program's promise.
    unsafe { recv(fd, into, count, flags) }
}

/// `recvfrom(2)`
///
/// # Safety
/// As of `recvfrom(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    into: *mut c_void,
    count: size_t,
    flags: c_int,
    from: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    if from.is_null() {
        // SAFETY: the program's promise.
        return unsafe { recv(fd, into, count, flags) };
    }
    if let Some((own, name)) = datagrams(fd) {
        let mut buffer = iovec { iov_base: into, iov_len: count };
        let mut message = message(&raw mut buffer, 1);
        // SAFETY: the program's promise.
        let (got, sender) = unsafe { datagram::receive(own, &name, &mut message, flags) };
        if let Some(sender) = sender.filter(|_| got >= 0) {
            // SAFETY: the program's promise.
            unsafe { addr::write(sender, from, len) };
        }
        return got;
    }
    if named(fd).is_some() {
        // SAFETY: the program's promise.
        unsafe { addr::none(len) };
        // SAFETY: the program's promise.
        return unsafe { recv(fd, into, count, flags) };
    }
    let arguments = [word(fd), into as usize, count, word(flags), from as usize, len as usize];
    ended(fd, count, sys::call(libc::SYS_recvfrom, arguments))
}

/// `recvfrom(2)`, as a fortified program calls it.
///
/// # Safety
/// As of `recvfrom(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    into: *mut c_void,
    count: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    fortified(count, room);
    // SAFETY: the program's promise.
    unsafe { recvfrom(fd, into, count, flags, from, len) }
}

/// `recvmsg(2)`
///
/// # Safety
/// As of `recvmsg(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's promise.
    if let Some(message) = unsafe { message.as_mut() }
        && let Some((own, name)) =
            if message.msg_name.is_null() { datagrams_if_any(fd) } else { datagrams(fd) }
    {
        // SAFETY: the program's promise.
        return unsafe { receive_one(own, &name, message, flags) };
    }
    // A connection has no queue of errors.
    if flags & libc::MSG_ERRQUEUE != 0 && named(fd).is_some() {
        return sys::fail(Errno::AGAIN) as ssize_t;
    }
    let got = sys::call(libc::SYS_recvmsg, [word(fd), message as usize, word(flags), 0, 0, 0]);
    // SAFETY: the program's promise.
    if let Some(message) = unsafe { message.as_mut() }
        && got >= 0
        && !message.msg_name.is_null()
        && named(fd).is_some()
    {
        message.msg_namelen = 0;
    }
    ended(fd, 1, got)
}

/// `recvmmsg(2)`
///
/// # Safety
/// As of `recvmmsg(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    within: *mut timespec,
) -> c_int {
    let Some((own, name)) = datagrams(fd) else {
        let arguments = [word(fd), messages as usize, count as usize, word(flags), within as usize, 0];
        return c_int::try_from(sys::call(libc::SYS_recvmmsg, arguments)).unwrap_or(-1);
    };
    let mut flags = flags & !libc::MSG_WAITFORONE;
    if messages.is_null() {
        return sys::fail(Errno::FAULT);
    }
    // SAFETY: the program's promise: there are so many.
    let places = unsafe { slice::from_raw_parts_mut(messages, count as usize) };
    for (done, place) in places.iter_mut().enumerate() {
        // SAFETY: the program's promise.
        let got = unsafe { receive_one(own, &name, &mut place.msg_hdr, flags) };
        if got < 0 {
            // What was received is not lost by the error of what follows.
            return if done > 0 { c_int::try_from(done).unwrap_or(c_int::MAX) } else { -1 };
        }
        place.msg_len = c_uint::try_from(got).unwrap_or(0);
        // It waits for the first, and then takes what there is; so it never waits longer than a time limit.
        flags |= libc::MSG_DONTWAIT;
    }
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// Receives a message of a socket of datagrams, with its sender.
///
/// # Safety
/// As of `recvmsg(2)`.
unsafe fn receive_one(own: BorrowedFd<'_>, name: &Name, message: &mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's promise.
    let (got, sender) = unsafe { datagram::receive(own, name, message, flags) };
    if let Some(sender) = sender.filter(|_| got >= 0) {
        // SAFETY: the program's promise.
        unsafe { addr::write(sender, message.msg_name.cast(), &raw mut message.msg_namelen) };
    }
    got
}

/// Receives from a socket of datagrams, if it is one, without the sender.
///
/// # Safety
/// The buffers are the program's.
unsafe fn datagram_if_any(fd: c_int, buffers: *mut iovec, count: usize, flags: c_int) -> Option<ssize_t> {
    let (own, name) = datagrams_if_any(fd)?;
    let mut message = message(buffers, count);
    // SAFETY: the program's promise.
    Some(unsafe { datagram::receive(own, &name, &mut message, flags) }.0)
}

/// [`datagrams`] for calls that are mostly about others.
fn datagrams_if_any<'a>(fd: c_int) -> Option<(BorrowedFd<'a>, Name)> {
    let own = sys::borrow(fd)?;
    datagram::name_if_any(own).map(|name| (own, name))
}

/// A stream that ended in order says so with 0. One whose connection has failed hangs up, and the daemon knows why.
fn ended(fd: c_int, count: usize, got: isize) -> ssize_t {
    let may_have_failed = got == 0 && count > 0 || got < 0 && sys::errno() == libc::ECONNRESET;
    if !may_have_failed {
        return got;
    }
    let before = sys::errno();
    match sys::borrow(fd).and_then(stream::outcome) {
        Some(why) => sys::fail(why) as ssize_t,
        None if got < 0 => sys::fail(Errno::from_raw_os_error(before)) as ssize_t,
        None => got,
    }
}

/// Ends a program that reads more than it has room for, as libc does.
fn fortified(count: size_t, room: size_t) {
    if count > room {
        std::process::abort();
    }
}
