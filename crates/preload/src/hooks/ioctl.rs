//! Unsafe: functions that a program calls in place of libc's, with its pointers.
//!
//! `ioctl(2)` about interfaces.
#![expect(unsafe_code, reason = "symbols of C, and pointers of a program")]

use core::ffi::{c_int, c_ulong, c_void};
use std::os::fd::{AsRawFd, OwnedFd};

use program::ifreq::{self, IFREQ_LEN, LIST};
use program::interfaces::{self, trimmed};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::interfaces::is_one_of;
use super::{kernel, named, word};
use crate::sys;

/// Bytes of the kernel's list at the most.
const KERNEL_MAX: usize = 1 << 20;
/// Times that the kernel's list is asked for, if it grows meanwhile.
const TRIES: u32 = 4;

/// `struct ifconf`
#[repr(C)]
struct List {
    len: c_int,
    entries: *mut u8,
}

/// `ioctl(2)`: C's variable argument has the place of a fixed one on x86-64 and on aarch64.
///
/// # Safety
/// As of `ioctl(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // The kernel looks at so many bits; programs that have it in an `int` extend its sign.
    let number = request & 0xffff_ffff;
    let pass_by = |fd: c_int| {
        let request = usize::try_from(request).unwrap_or(0);
        kernel(libc::SYS_ioctl, [word(fd), request, argument as usize, 0, 0, 0])
    };
    if !ifreq::is_known(number) || argument.is_null() || !sys::borrow(fd).is_some_and(ifreq::is_asked) {
        return pass_by(fd);
    }
    let other = match other(fd) {
        Ok(other) => other,
        Err(why) => return sys::fail(why),
    };
    let at = other.as_ref().map_or(fd, AsRawFd::as_raw_fd);
    if number == LIST {
        // SAFETY: the program's promise.
        return unsafe { list(at, argument.cast()) }.unwrap_or_else(|| pass_by(at));
    }
    // SAFETY: the program's promise: it is a `struct ifreq`, or what is looked at of it.
    let asked = unsafe { &mut *argument.cast::<[u8; IFREQ_LEN]>() };
    match ifreq::answer(number, asked) {
        Some(Ok(())) => 0,
        Some(Err(why)) => sys::fail(why),
        None => pass_by(at),
    }
}

/// The socket that asks the kernel in place of one of pantala, which is a Unix socket of the daemon's network namespace.
fn other(fd: c_int) -> Result<Option<OwnedFd>, Errno> {
    let new = |_| socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    named(fd).map(new).transpose()
}

/// The list of addresses; `None`: it is the kernel's alone.
///
/// # Safety
/// As of `ioctl(2)`.
unsafe fn list(fd: c_int, asked: *mut List) -> Option<c_int> {
    let own = interfaces::list().filter(|own| !own.is_empty())?;
    let mut all = ifreq::entries(&own);
    all.extend(kernel_s(fd)?.into_iter().filter(|entry| !is_one_of(&own, trimmed(&entry[..16]))));
    // SAFETY: the caller's promise.
    let asked = unsafe { &mut *asked };
    let Ok(room) = usize::try_from(asked.len) else { return Some(sys::fail(Errno::INVAL)) };
    let count = if asked.entries.is_null() { all.len() } else { all.len().min(room / IFREQ_LEN) };
    if !asked.entries.is_null() {
        // SAFETY: the caller's promise: there is room for so many.
        unsafe { core::ptr::copy_nonoverlapping(all.as_ptr().cast(), asked.entries, count * IFREQ_LEN) };
    }
    asked.len = c_int::try_from(count * IFREQ_LEN).unwrap_or(c_int::MAX);
    Some(0)
}

/// The kernel's list; `None` for an error.
fn kernel_s(fd: c_int) -> Option<Vec<[u8; IFREQ_LEN]>> {
    let request = usize::try_from(LIST).ok()?;
    let ask =
        |list: &mut List| kernel(libc::SYS_ioctl, [word(fd), request, (&raw mut *list) as usize, 0, 0, 0]);
    for _ in 0..TRIES {
        let mut list = List { len: 0, entries: core::ptr::null_mut() };
        if ask(&mut list) != 0 {
            return None;
        }
        // A list that fills its place may go on.
        let room = usize::try_from(list.len).ok()?.min(KERNEL_MAX) / IFREQ_LEN + 1;
        let mut entries = vec![[0; IFREQ_LEN]; room];
        list = List { len: c_int::try_from(room * IFREQ_LEN).ok()?, entries: entries.as_mut_ptr().cast() };
        if ask(&mut list) != 0 {
            return None;
        }
        let count = usize::try_from(list.len).ok()? / IFREQ_LEN;
        if count < room {
            entries.truncate(count);
            return Some(entries);
        }
    }
    None
}
