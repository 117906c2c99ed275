//! Unsafe: functions that a program calls in place of libc's, with its pointers.
//!
//! Names of hosts.
#![expect(unsafe_code, reason = "symbols of C, and pointers of a program")]

use core::ffi::{CStr, c_char, c_int};
use core::net::{IpAddr, Ipv6Addr};
use core::ptr;
use std::ffi::CString;
use std::sync::OnceLock;

use libc::addrinfo;
use program::interfaces;

use crate::names::{Families, Lookup, look_up};

type GetAddrInfo =
    unsafe extern "C" fn(*const c_char, *const c_char, *const addrinfo, *mut *mut addrinfo) -> c_int;

/// `getaddrinfo(3)`: what is looked up by libc goes through no hook, so names are looked up here. What is not a name, and the list
/// that is returned, are libc's.
///
/// # Safety
/// As of `getaddrinfo(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    list: *mut *mut addrinfo,
) -> c_int {
    let Some(libc_s) = libc_s() else { return libc::EAI_FAIL };
    // SAFETY: the program's promise.
    let wanted = unsafe { hints.as_ref() };
    let flags = wanted.map_or(0, |hints| hints.ai_flags);
    let family = wanted.map_or(libc::AF_UNSPEC, |hints| hints.ai_family);
    // SAFETY: the program's promise.
    let found = match unsafe { name_of(node) }.filter(|_| flags & libc::AI_NUMERICHOST == 0) {
        Some(name) => found(&name, family, flags),
        None => Lookup::Elsewhere,
    };
    match found {
        Lookup::Elsewhere => {
            // SAFETY: the program's promise.
            let numbered = unsafe { with_number(node) };
            let node = numbered.as_ref().map_or(node, |text| text.as_ptr());
            // SAFETY: the program's promise; the text is a string of C.
            unsafe { libc_s(node, service, hints, list) }
        }
        Lookup::Missing => libc::EAI_NONAME,
        Lookup::Again => libc::EAI_AGAIN,
        // SAFETY: the program's promise.
        Lookup::Found(addrs) => unsafe { listed(libc_s, &addrs, (node, service), wanted, list) },
    }
}

/// The function of libc.
fn libc_s() -> Option<GetAddrInfo> {
    static FOUND: OnceLock<Option<GetAddrInfo>> = OnceLock::new();
    // SAFETY: the symbol of this name is a function of this type.
    *FOUND.get_or_init(|| unsafe { next(c"getaddrinfo") })
}

/// The function of this name that is behind ours; `None` if there is none.
///
/// # Safety
/// `T` is the type of the function of this name.
pub(super) unsafe fn next<T: Copy>(name: &CStr) -> Option<T> {
    // SAFETY: the name ends with a NUL.
    let symbol = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    // SAFETY: a pointer has the size of a pointer to a function; the caller's promise.
    (!symbol.is_null()).then(|| unsafe { core::mem::transmute_copy::<*mut libc::c_void, T>(&symbol) })
}

/// The name of a host; `None` for an address, or none.
///
/// # Safety
/// `node` is null or a string of C.
pub(super) unsafe fn name_of(node: *const c_char) -> Option<String> {
    if node.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(node) }.to_str().ok()?;
    let is_addr = name.split('%').next().is_some_and(|addr| addr.parse::<IpAddr>().is_ok());
    // Old forms of an address (`127.1`) are libc's, too.
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (!is_addr && !is_number && !name.is_empty()).then(|| name.to_owned())
}

/// An address with the number of the interface that it names, if that is one of pantala's: libc knows the kernel's alone.
///
/// # Safety
/// `node` is null or a string of C.
unsafe fn with_number(node: *const c_char) -> Option<CString> {
    if node.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let (addr, zone) = unsafe { CStr::from_ptr(node) }.to_str().ok()?.split_once('%')?;
    addr.parse::<Ipv6Addr>().ok()?;
    let number = interfaces::named(zone.as_bytes())?.number;
    CString::new(format!("{addr}%{number}")).ok()
}

pub(super) fn found(name: &str, family: c_int, flags: c_int) -> Lookup {
    let families = match family {
        libc::AF_UNSPEC => Families { v4: true, v6: true },
        libc::AF_INET => Families { v4: true, v6: false },
        libc::AF_INET6 => Families { v4: false, v6: true },
        _ => return Lookup::Elsewhere,
    };
    let maps = family == libc::AF_INET6 && flags & libc::AI_V4MAPPED != 0;
    match look_up(name, families) {
        Lookup::Missing if maps => match look_up(name, Families { v4: true, v6: false }) {
            Lookup::Found(addrs) => Lookup::Found(addrs.into_iter().map(mapped).collect()),
            other => other,
        },
        other => other,
    }
}

fn mapped(addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().into(),
        IpAddr::V6(_) => addr,
    }
}

/// The list for addresses, as libc makes it of each as text.
///
/// # Safety
/// As of `getaddrinfo(3)`.
unsafe fn listed(
    libc_s: GetAddrInfo,
    addrs: &[IpAddr],
    (node, service): (*const c_char, *const c_char),
    wanted: Option<&addrinfo>,
    list: *mut *mut addrinfo,
) -> c_int {
    // SAFETY: a list of no hints is of zeros and null pointers.
    let none = unsafe { core::mem::zeroed::<addrinfo>() };
    let mut hints = wanted.copied().unwrap_or(none);
    let names = hints.ai_flags & libc::AI_CANONNAME != 0;
    hints.ai_flags &= !(libc::AI_CANONNAME | libc::AI_ADDRCONFIG | libc::AI_V4MAPPED | libc::AI_ALL);
    hints.ai_flags |= libc::AI_NUMERICHOST;
    let mut first: *mut addrinfo = ptr::null_mut();
    let mut last = &raw mut first;
    for addr in addrs {
        let Ok(text) = CString::new(addr.to_string()) else { continue };
        hints.ai_family = if addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        // SAFETY: the text and the hints are ours, the service is the program's.
        let done = unsafe { libc_s(text.as_ptr(), service, &raw const hints, last) };
        if done != 0 {
            if !first.is_null() {
                // SAFETY: libc has made it, and nothing else has it.
                unsafe { libc::freeaddrinfo(first) };
            }
            return done;
        }
        loop {
            // SAFETY: it is `first`, or in an entry of the list.
            let next = unsafe { *last };
            // SAFETY: libc has made a list, whose last entry has no next one.
            let Some(entry) = (unsafe { next.as_mut() }) else { break };
            last = &raw mut entry.ai_next;
        }
    }
    // SAFETY: as above.
    if let Some(entry) = unsafe { first.as_mut() }.filter(|_| names) {
        // SAFETY: `node` is a string of C; `freeaddrinfo` frees what this allocates.
        entry.ai_canonname = unsafe { libc::strdup(node) };
    }
    // SAFETY: the program's promise.
    unsafe { *list = first };
    0
}
