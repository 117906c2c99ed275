//! Unsafe: functions that a program calls in place of libc's, with its pointers.
//!
//! The calls, as C has them. Each asks whether the socket is pantala's, and is the kernel's own call if it is not.
#![expect(unsafe_code, reason = "symbols of C, and pointers of a program")]

pub mod filter;
pub mod hosts;
pub mod interfaces;
pub mod ioctl;
pub mod names;
pub mod options;
pub mod receive;
pub mod send;
pub mod wait;

use core::ffi::{c_int, c_long};
use std::os::fd::{BorrowedFd, IntoRawFd};

use libc::{iovec, msghdr, sockaddr, socklen_t};
use program::stream::{self, Connected};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use wire::program::{Name, Role};

use crate::sys::Own;
use crate::{addr, datagram, sys};

/// `bind(2)`
///
/// # Safety
/// As of `bind(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the program's promise.
    let wanted = unsafe { addr::read(at, len) };
    let taken = sys::borrow(fd).zip(wanted).and_then(|(fd, wanted)| stream::bind(&Own(fd), wanted));
    said(taken, || kernel(libc::SYS_bind, [word(fd), at as usize, len as usize, 0, 0, 0]))
}

/// `connect(2)`
///
/// # Safety
/// As of `connect(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the program's promise.
    let wanted = unsafe { addr::read(to, len) };
    let taken = sys::borrow(fd).and_then(|fd| match wanted {
        Some(wanted) => stream::connect(&Own(fd), wanted).map(|done| match done? {
            Connected::Begins => stream::wait(fd),
            Connected::Yes => Ok(()),
        }),
        // SAFETY: the program's promise.
        None if unsafe { addr::is_none(to, len) } => stream::disconnect(&Own(fd)),
        None => None,
    });
    said(taken, || kernel(libc::SYS_connect, [word(fd), to as usize, len as usize, 0, 0, 0]))
}

/// `listen(2)`
#[unsafe(no_mangle)]
pub extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    let taken = sys::borrow(fd).and_then(|fd| stream::listen(fd, backlog));
    said(taken, || kernel(libc::SYS_listen, [word(fd), word(backlog), 0, 0, 0, 0]))
}

/// `accept(2)`
///
/// # Safety
/// As of `accept(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept(fd: c_int, from: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the program's promise.
    unsafe { accept4(fd, from, len, 0) }
}

/// `accept4(2)`
///
/// # Safety
/// As of `accept4(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn accept4(fd: c_int, from: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
    match sys::borrow(fd).and_then(|fd| stream::accept(fd, flags, RecvFlags::empty())) {
        Some(Ok((new, remote))) => {
            if !from.is_null() {
                // SAFETY: the program's promise.
                unsafe { addr::write(remote, from, len) };
            }
            new.into_raw_fd()
        }
        Some(Err(why)) => sys::fail(why),
        None => kernel(libc::SYS_accept4, [word(fd), from as usize, len as usize, word(flags), 0, 0]),
    }
}

/// `getsockname(2)`
///
/// # Safety
/// As of `getsockname(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int {
    let Some(local) = sys::borrow(fd).and_then(stream::local) else {
        return kernel(libc::SYS_getsockname, [word(fd), at as usize, len as usize, 0, 0, 0]);
    };
    // SAFETY: the program's promise.
    unsafe { addr::write(local, at, len) };
    0
}

/// `getpeername(2)`
///
/// # Safety
/// As of `getpeername(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(fd: c_int, at: *mut sockaddr, len: *mut socklen_t) -> c_int {
    match named(fd) {
        Some(Name { role: Role::Listener, .. }) => sys::fail(Errno::NOTCONN),
        Some(name) if name.role == Role::Datagram && program::datagram::is_addressed(&name) => {
            sys::fail(Errno::NOTCONN)
        }
        Some(Name { remote, .. }) => {
            // SAFETY: the program's promise.
            unsafe { addr::write(remote, at, len) };
            0
        }
        None => kernel(libc::SYS_getpeername, [word(fd), at as usize, len as usize, 0, 0, 0]),
    }
}

/// A socket of datagrams, and its name; `None` if it is none of pantala's.
fn datagrams<'a>(fd: c_int) -> Option<(BorrowedFd<'a>, Name)> {
    let own = sys::borrow(fd)?;
    datagram::name(own).map(|name| (own, name))
}

/// A message of these buffers alone.
fn message(buffers: *mut iovec, count: usize) -> msghdr {
    msghdr {
        msg_name: core::ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: buffers,
        msg_iovlen: count,
        msg_control: core::ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    }
}

fn named(fd: c_int) -> Option<Name> {
    sys::borrow(fd).and_then(stream::name)
}

fn said(taken: stream::Taken<()>, kernel: impl FnOnce() -> c_int) -> c_int {
    match taken {
        Some(Ok(())) => 0,
        Some(Err(why)) => sys::fail(why),
        None => kernel(),
    }
}

fn kernel(number: c_long, arguments: [usize; 6]) -> c_int {
    c_int::try_from(sys::call(number, arguments)).unwrap_or(-1)
}

/// An `int` in a register, with its sign.
const fn word(number: c_int) -> usize {
    (number as isize).cast_unsigned()
}
