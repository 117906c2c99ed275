//! Unsafe: functions that a program calls in place of libc's, with its pointers, and lists that it reads and frees.
//!
//! Interfaces and addresses: those of pantala in front of the kernel's. An interface of the kernel with the name of one of pantala's
//! is left out. Without a daemon that serves this program, the kernel's are told alone.
#![expect(unsafe_code, reason = "symbols of C, and lists in C's memory")]

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::net::IpAddr;
use core::ptr;

use libc::{if_nameindex as NameIndex, ifaddrs, sockaddr};
use program::interfaces::{self, Interface};
use rustix::io::Errno;

use super::names::next;
use crate::sys;

/// Counters of an interface (`struct rtnl_link_stats`), which are not told. Their address says that an entry is ours.
static COUNTERS: [u64; 32] = [0; 32];

/// Room for an address of a link, of IPv4 or of IPv6.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Place([u8; 32]);

/// An entry of a list.
#[derive(Clone)]
#[repr(C)]
struct Entry {
    told: ifaddrs,
    /// Number of entries, and the kernel's list behind them; in the first entry alone.
    count: usize,
    kernel: *mut ifaddrs,
    name: [u8; wire::program::INTERFACE_NAME_LEN],
    addr: Place,
    mask: Place,
    broadcast: Place,
}

type GetIfAddrs = unsafe extern "C" fn(*mut *mut ifaddrs) -> c_int;
type FreeIfAddrs = unsafe extern "C" fn(*mut ifaddrs);
type NameToIndex = unsafe extern "C" fn(*const c_char) -> c_uint;
type IndexToName = unsafe extern "C" fn(c_uint, *mut c_char) -> *mut c_char;
type ListNames = unsafe extern "C" fn() -> *mut NameIndex;
type FreeNames = unsafe extern "C" fn(*mut NameIndex);

/// `getifaddrs(3)`
///
/// # Safety
/// As of `getifaddrs(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getifaddrs(list: *mut *mut ifaddrs) -> c_int {
    // SAFETY: the symbol of this name is a function of this type.
    let Some(libc_s) = (unsafe { next::<GetIfAddrs>(c"getifaddrs") }) else { return sys::fail(Errno::NOSYS) };
    // SAFETY: the program's promise.
    let done = unsafe { libc_s(list) };
    if done != 0 {
        return done;
    }
    let Some(own) = interfaces::list().filter(|own| !own.is_empty()) else { return done };
    // SAFETY: the program's promise.
    let list = unsafe { &mut *list };
    // SAFETY: libc has made the list, and nothing else has it.
    *list = unsafe { in_front_of(*list, &own) };
    done
}

/// `freeifaddrs(3)`
///
/// # Safety
/// As of `freeifaddrs(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn freeifaddrs(list: *mut ifaddrs) {
    let mut rest = list;
    // SAFETY: null, or an entry of a list, by the program's promise.
    if unsafe { list.as_ref() }.is_some_and(|first| ptr::eq(first.ifa_data, counters())) {
        let first = list.cast::<Entry>();
        // SAFETY: only entries that `in_front_of` has made have this address there.
        let head = unsafe { &*first };
        rest = head.kernel;
        let all = ptr::slice_from_raw_parts_mut(first, head.count);
        // SAFETY: as above: it is the first of so many, and the program has no use for it any more.
        drop(unsafe { Box::from_raw(all) });
    }
    // SAFETY: the symbol of this name is a function of this type.
    if let Some(libc_s) = unsafe { next::<FreeIfAddrs>(c"freeifaddrs") } {
        // SAFETY: libc has made it, or the program's promise.
        unsafe { libc_s(rest) };
    }
}

/// `if_nametoindex(3)`
///
/// # Safety
/// As of `if_nametoindex(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn if_nametoindex(name: *const c_char) -> c_uint {
    if !name.is_null() {
        // SAFETY: the program's promise.
        let wanted = unsafe { CStr::from_ptr(name) };
        if let Some(own) = interfaces::named(wanted.to_bytes()) {
            return own.number;
        }
    }
    // SAFETY: the symbol of this name is a function of this type.
    match unsafe { next::<NameToIndex>(c"if_nametoindex") } {
        // SAFETY: the program's promise.
        Some(libc_s) => unsafe { libc_s(name) },
        None => 0,
    }
}

/// `if_indextoname(3)`
///
/// # Safety
/// As of `if_indextoname(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn if_indextoname(number: c_uint, name: *mut c_char) -> *mut c_char {
    if let Some(own) = interfaces::numbered(number).filter(|_| !name.is_null()) {
        // SAFETY: the program's promise: there is room for so many.
        unsafe { ptr::copy_nonoverlapping(own.name.as_ptr(), name.cast::<u8>(), own.name.len()) };
        return name;
    }
    // SAFETY: the symbol of this name is a function of this type.
    match unsafe { next::<IndexToName>(c"if_indextoname") } {
        // SAFETY: the program's promise.
        Some(libc_s) => unsafe { libc_s(number, name) },
        None => ptr::null_mut(),
    }
}

/// `if_nameindex(3)`
#[unsafe(no_mangle)]
pub extern "C" fn if_nameindex() -> *mut NameIndex {
    let kernel = kernel_s_names();
    let own = interfaces::list().unwrap_or_default();
    let mut all: Vec<(c_uint, Vec<u8>)> = own.iter().map(|own| (own.number, own.name.to_vec())).collect();
    all.extend(kernel.into_iter().flatten().filter(|(_, name)| !is_one_of(&own, name)));
    // SAFETY: libc checks the product.
    let list = unsafe { libc::calloc(all.len() + 1, size_of::<NameIndex>()) }.cast::<NameIndex>();
    if list.is_null() {
        sys::set_errno(libc::ENOBUFS);
        return list;
    }
    for (at, (number, mut name)) in all.into_iter().enumerate() {
        name.push(0);
        // SAFETY: a string of C; `if_freenameindex` frees the copy.
        let if_name = unsafe { libc::strdup(name.as_ptr().cast()) };
        // SAFETY: there is room for as many, and the last stays zero.
        let place = unsafe { list.add(at) };
        // SAFETY: as above.
        unsafe { place.write(NameIndex { if_index: number, if_name }) };
    }
    list
}

/// `if_freenameindex(3)`
///
/// # Safety
/// As of `if_freenameindex(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn if_freenameindex(list: *mut NameIndex) {
    if list.is_null() {
        return;
    }
    let mut at = list;
    // SAFETY: an entry, or the last, by the program's promise.
    while let entry = unsafe { &*at }
        && entry.if_index != 0
    {
        // SAFETY: `if_nameindex` has made the copy; it may be null.
        unsafe { libc::free(entry.if_name.cast()) };
        // SAFETY: it is not the last.
        at = unsafe { at.add(1) };
    }
    // SAFETY: `if_nameindex` has made it.
    unsafe { libc::free(list.cast()) };
}

/// The interfaces of the kernel by name; `None` for an error.
fn kernel_s_names() -> Option<Vec<(c_uint, Vec<u8>)>> {
    // SAFETY: the symbol of this name is a function of this type.
    let list = unsafe { next::<ListNames>(c"if_nameindex") }?;
    // SAFETY: as above.
    let free = unsafe { next::<FreeNames>(c"if_freenameindex") }?;
    // SAFETY: it has no arguments.
    let first = unsafe { list() };
    if first.is_null() {
        return None;
    }
    let (mut all, mut at) = (Vec::new(), first);
    // SAFETY: an entry of libc's list, or its last.
    while let entry = unsafe { &*at }
        && entry.if_index != 0
    {
        // SAFETY: a string of C.
        all.push((entry.if_index, unsafe { CStr::from_ptr(entry.if_name) }.to_bytes().to_vec()));
        // SAFETY: it is not the last.
        at = unsafe { at.add(1) };
    }
    // SAFETY: libc has made it, and nothing else has it.
    unsafe { free(first) };
    Some(all)
}

/// Whether one of pantala's interfaces has this name, or the name has a label behind it (`t0:1`).
pub(super) fn is_one_of(own: &[Interface], name: &[u8]) -> bool {
    let name = name.split(|byte| *byte == b':').next().unwrap_or_default();
    own.iter().any(|own| own.name() == name)
}

fn counters() -> *const c_void {
    (&raw const COUNTERS).cast()
}

/// Puts the entries of pantala's interfaces in front of the kernel's list, and returns the first.
///
/// # Safety
/// `kernel` is a list of libc's, which nothing else has; there is one interface at least.
unsafe fn in_front_of(kernel: *mut ifaddrs, own: &[Interface]) -> *mut ifaddrs {
    let all: Vec<Entry> = own.iter().flat_map(entries).collect();
    let all = Box::leak(all.into_boxed_slice());
    // SAFETY: the caller's promise.
    let mut behind = unsafe { without(kernel, own) };
    for entry in all.iter_mut().rev() {
        point(entry, behind);
        behind = (&raw mut *entry).cast();
    }
    let count = all.len();
    if let Some(head) = all.first_mut() {
        (head.count, head.kernel) = (count, kernel);
    }
    all.as_mut_ptr().cast()
}

/// Takes the entries of interfaces that have the name of one of pantala's out of the kernel's list, and returns the first that is left.
///
/// # Safety
/// As of [`in_front_of`].
unsafe fn without(kernel: *mut ifaddrs, own: &[Interface]) -> *mut ifaddrs {
    let mut first = ptr::null_mut();
    let (mut last, mut other) = (&raw mut first, kernel);
    // SAFETY: an entry of libc's list, or null.
    while let Some(entry) = unsafe { other.as_mut() } {
        let behind = entry.ifa_next;
        // SAFETY: a string of C.
        if !is_one_of(own, unsafe { CStr::from_ptr(entry.ifa_name) }.to_bytes()) {
            // SAFETY: `first`, or the place in the entry before it.
            unsafe { *last = other };
            last = &raw mut entry.ifa_next;
        }
        other = behind;
    }
    // SAFETY: as above.
    unsafe { *last = ptr::null_mut() };
    first
}

/// Sets the pointers of an entry to what is in it. It stays where it is from now on.
fn point(entry: &mut Entry, behind: *mut ifaddrs) {
    let pointer = |place: &mut Place| match place.0 {
        // No family.
        [0, 0, ..] => ptr::null_mut(),
        _ => (&raw mut *place).cast::<sockaddr>(),
    };
    entry.told.ifa_next = behind;
    entry.told.ifa_name = entry.name.as_mut_ptr().cast();
    entry.told.ifa_addr = pointer(&mut entry.addr);
    entry.told.ifa_netmask = pointer(&mut entry.mask);
    entry.told.ifa_ifu = pointer(&mut entry.broadcast);
}

/// The entries of an interface: its link first.
fn entries(own: &Interface) -> impl Iterator<Item = Entry> {
    let none = Place([0; 32]);
    let entry = |addr, mask, broadcast, data: *const c_void| Entry {
        told: ifaddrs {
            ifa_next: ptr::null_mut(),
            ifa_name: ptr::null_mut(),
            ifa_flags: own.flags,
            ifa_addr: ptr::null_mut(),
            ifa_netmask: ptr::null_mut(),
            ifa_ifu: ptr::null_mut(),
            ifa_data: data.cast_mut(),
        },
        count: 0,
        kernel: ptr::null_mut(),
        name: own.name,
        addr,
        mask,
        broadcast,
    };
    let all = own.has_broadcast().then_some([0xff; 6]);
    let first = entry(link(own, own.link), none, all.map_or(none, |all| link(own, Some(all))), counters());
    let addrs = own.addrs.iter().map(move |(ip, prefix)| {
        let broadcast = interfaces::broadcast(*ip, *prefix).filter(|_| own.has_broadcast());
        let broadcast = broadcast.map_or(none, |ip| place(own, ip.into()));
        entry(place(own, *ip), place(own, interfaces::mask(*ip, *prefix)), broadcast, ptr::null())
    });
    core::iter::once(first).chain(addrs)
}

/// `struct sockaddr_in` or `sockaddr_in6`.
fn place(own: &Interface, ip: IpAddr) -> Place {
    let (addr, len) = program::addr::emit(own.addr(ip));
    let mut bytes = [0; 32];
    for (place, byte) in bytes.iter_mut().zip(addr.iter().take(len)) {
        *place = *byte;
    }
    Place(bytes)
}

/// `struct sockaddr_ll`.
fn link(own: &Interface, addr: Option<[u8; 6]>) -> Place {
    let mut bytes = [0; 32];
    let family = u16::try_from(libc::AF_PACKET).unwrap_or(0);
    bytes[..2].copy_from_slice(&family.to_ne_bytes());
    bytes[4..8].copy_from_slice(&own.number.to_ne_bytes());
    bytes[8..10].copy_from_slice(&own.link_type().to_ne_bytes());
    if let Some(addr) = addr {
        bytes[11] = 6;
        bytes[12..18].copy_from_slice(&addr);
    }
    Place(bytes)
}
