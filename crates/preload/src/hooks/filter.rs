//! Unsafe: functions that a program calls in place of libc's, with its pointers.
//!
//! Source filters of groups (RFC 3678). Those of libc set an option without a call that is met here.
#![expect(unsafe_code, reason = "symbols of C, and pointers of a program")]

use core::ffi::{c_int, c_void};
use core::{ptr, slice};

use libc::{in_addr, sockaddr, sockaddr_storage, socklen_t};
use rustix::io::Errno;

use super::options::{getsockopt, setsockopt};
use crate::sys;

/// Options that libc does not have.
const IP_MSFILTER: c_int = 41;
const MCAST_MSFILTER: c_int = 48;
/// Senders of a filter at the most, as of Linux (`net.ipv4.igmp_max_msf` may be less).
const SENDERS_MAX: usize = 1024;
const STORAGE: usize = size_of::<sockaddr_storage>();

/// `setipv4sourcefilter(3)`
///
/// # Safety
/// As of `setipv4sourcefilter(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setipv4sourcefilter(
    fd: c_int,
    interface: in_addr,
    group: in_addr,
    mode: u32,
    count: u32,
    senders: *const in_addr,
) -> c_int {
    let mut value = header_v4(group, interface, mode, count);
    // SAFETY: the program's promise: there are so many.
    let Some(all) = (unsafe { read(senders.cast(), count, size_of::<in_addr>()) }) else {
        return sys::fail(Errno::NOBUFS);
    };
    value.extend(all);
    // SAFETY: the value is ours.
    unsafe { set(fd, libc::IPPROTO_IP, IP_MSFILTER, &value) }
}

/// `getipv4sourcefilter(3)`
///
/// # Safety
/// As of `getipv4sourcefilter(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getipv4sourcefilter(
    fd: c_int,
    interface: in_addr,
    group: in_addr,
    mode: *mut u32,
    count: *mut u32,
    senders: *mut in_addr,
) -> c_int {
    // SAFETY: the program's promise.
    let Some(room) = (unsafe { count.as_ref() }).copied() else { return sys::fail(Errno::FAULT) };
    let value = header_v4(group, interface, 0, room);
    // SAFETY: the program's promise: there is room for so many.
    unsafe {
        get(
            fd,
            (libc::IPPROTO_IP, IP_MSFILTER),
            (value, 8, size_of::<in_addr>()),
            (mode, count, senders.cast()),
        )
    }
}

/// `setsourcefilter(3)`
///
/// # Safety
/// As of `setsourcefilter(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsourcefilter(
    fd: c_int,
    interface: u32,
    group: *const sockaddr,
    len: socklen_t,
    mode: u32,
    count: u32,
    senders: *const sockaddr_storage,
) -> c_int {
    // SAFETY: the program's promise.
    let Some((level, mut value)) = (unsafe { header_any(interface, group, len, mode, count) }) else {
        return sys::fail(Errno::INVAL);
    };
    // SAFETY: the program's promise: there are so many.
    let Some(all) = (unsafe { read(senders.cast(), count, STORAGE) }) else {
        return sys::fail(Errno::NOBUFS);
    };
    value.extend(all);
    // SAFETY: the value is ours.
    unsafe { set(fd, level, MCAST_MSFILTER, &value) }
}

/// `getsourcefilter(3)`
///
/// # Safety
/// As of `getsourcefilter(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsourcefilter(
    fd: c_int,
    interface: u32,
    group: *const sockaddr,
    len: socklen_t,
    mode: *mut u32,
    count: *mut u32,
    senders: *mut sockaddr_storage,
) -> c_int {
    // SAFETY: the program's promise.
    let Some(room) = (unsafe { count.as_ref() }).copied() else { return sys::fail(Errno::FAULT) };
    // SAFETY: the program's promise.
    let Some((level, value)) = (unsafe { header_any(interface, group, len, 0, room) }) else {
        return sys::fail(Errno::INVAL);
    };
    // SAFETY: the program's promise: there is room for so many.
    unsafe { get(fd, (level, MCAST_MSFILTER), (value, 8 + STORAGE, STORAGE), (mode, count, senders.cast())) }
}

/// `struct ip_msfilter` without senders.
fn header_v4(group: in_addr, interface: in_addr, mode: u32, count: u32) -> Vec<u8> {
    [group.s_addr, interface.s_addr, mode, count].into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// `struct group_filter` without senders, and the level of its option; `None` of what is no group.
///
/// # Safety
/// `group` is null or points to `len` bytes.
unsafe fn header_any(
    interface: u32,
    group: *const sockaddr,
    len: socklen_t,
    mode: u32,
    count: u32,
) -> Option<(c_int, Vec<u8>)> {
    // SAFETY: the caller's promise.
    let is_v4 = unsafe { crate::addr::read(group, len) }?.is_ipv4();
    // SAFETY: the caller's promise.
    let group = unsafe { slice::from_raw_parts(group.cast::<u8>(), (len as usize).min(STORAGE)) };
    let mut value = interface.to_ne_bytes().to_vec();
    value.resize(8, 0);
    value.extend(group);
    value.resize(8 + STORAGE, 0);
    value.extend(mode.to_ne_bytes());
    value.extend(count.to_ne_bytes());
    Some((if is_v4 { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 }, value))
}

/// Reads the senders of a program; `None`: there are too many.
///
/// # Safety
/// There are `count` of `each` bytes, or none.
unsafe fn read<'a>(senders: *const u8, count: u32, each: usize) -> Option<&'a [u8]> {
    let count = usize::try_from(count).ok().filter(|count| *count <= SENDERS_MAX)?;
    if senders.is_null() || count == 0 {
        return (count == 0).then_some(&[]);
    }
    // SAFETY: the caller's promise.
    Some(unsafe { slice::from_raw_parts(senders, count * each) })
}

/// Sets an option.
///
/// # Safety
/// As of `setsockopt(2)`.
unsafe fn set(fd: c_int, level: c_int, option: c_int, value: &[u8]) -> c_int {
    let len = socklen_t::try_from(value.len()).unwrap_or(0);
    // SAFETY: the value is as long as it says.
    unsafe { setsockopt(fd, level, option, value.as_ptr().cast::<c_void>(), len) }
}

/// Reads an option whose value begins with `value`, and has its mode at `mode_at` and senders of `each` bytes.
///
/// # Safety
/// `mode` and `count` are null or writable; there is room for so many senders.
unsafe fn get(
    fd: c_int,
    (level, option): (c_int, c_int),
    (mut value, mode_at, each): (Vec<u8>, usize, usize),
    (mode, count, senders): (*mut u32, *mut u32, *mut u8),
) -> c_int {
    let number = |value: &[u8], at: usize| {
        value.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    };
    let header = value.len();
    let room = usize::try_from(number(&value, mode_at + 4)).unwrap_or(0).min(SENDERS_MAX);
    value.resize(header + room * each, 0);
    let mut len = socklen_t::try_from(value.len()).unwrap_or(0);
    // SAFETY: the value is as long as it says.
    let done = unsafe { getsockopt(fd, level, option, value.as_mut_ptr().cast::<c_void>(), &raw mut len) };
    if done != 0 {
        return done;
    }
    let found = usize::try_from(number(&value, mode_at + 4)).unwrap_or(0).min(room);
    if let Some(all) = value.get(header..header + found * each).filter(|all| !all.is_empty())
        && !senders.is_null()
    {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(all.as_ptr(), senders, all.len()) };
    }
    for (place, at) in [(mode, mode_at), (count, mode_at + 4)] {
        // SAFETY: the caller's promise.
        if let Some(place) = unsafe { place.as_mut() } {
            *place = number(&value, at);
        }
    }
    0
}
