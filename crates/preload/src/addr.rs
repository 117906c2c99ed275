//! Unsafe: reads and writes `struct sockaddr` and options where a program says they are.
//!
//! C's socket addresses.
#![expect(unsafe_code, reason = "memory of the program, through the pointers of its call")]

use core::ffi::c_int;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use core::slice;

use libc::{sockaddr, socklen_t};

const V4_LEN: usize = size_of::<libc::sockaddr_in>();
const V6_LEN: usize = size_of::<libc::sockaddr_in6>();

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
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let port = u16::from_be_bytes(*port);
    match c_int::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET if bytes.len() >= V4_LEN => {
            let ip = Ipv4Addr::from(*rest.first_chunk::<4>()?);
            Some((ip, port).into())
        }
        libc::AF_INET6 if bytes.len() >= V6_LEN => {
            let (flow, rest) = rest.split_first_chunk::<4>()?;
            let (ip, rest) = rest.split_first_chunk::<16>()?;
            let scope = u32::from_ne_bytes(*rest.first_chunk::<4>()?);
            let flow = u32::from_be_bytes(*flow);
            Some(SocketAddrV6::new(Ipv6Addr::from(*ip), port, flow, scope).into())
        }
        _ => None,
    }
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
    let mut bytes = [0; V6_LEN];
    let (family, whole) = match at {
        SocketAddr::V4(at) => {
            bytes[4..8].copy_from_slice(&at.ip().octets());
            (libc::AF_INET, V4_LEN)
        }
        SocketAddr::V6(at) => {
            bytes[8..24].copy_from_slice(&at.ip().octets());
            bytes[24..28].copy_from_slice(&at.scope_id().to_ne_bytes());
            (libc::AF_INET6, V6_LEN)
        }
    };
    let family = u16::try_from(family).unwrap_or(0);
    bytes[..2].copy_from_slice(&family.to_ne_bytes());
    bytes[2..4].copy_from_slice(&at.port().to_be_bytes());
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
