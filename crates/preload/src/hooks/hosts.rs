//! Unsafe: functions that a program calls in place of libc's, with its pointers.
//!
//! Names of hosts, for programs older than `getaddrinfo`.
#![expect(unsafe_code, reason = "symbols of C, and pointers of a program")]

use core::cell::RefCell;
use core::ffi::{CStr, c_char, c_int};
use core::net::IpAddr;
use core::ptr;

use libc::{hostent, size_t};

use super::names::{found, name_of, next};
use crate::names::Lookup;

/// Numbers of `h_errno`.
const HOST_NOT_FOUND: c_int = 1;
const TRY_AGAIN: c_int = 2;
const NETDB_INTERNAL: c_int = -1;
/// Bytes of an entry's addresses and names at the most.
const ENTRY_MAX: usize = 8192;

/// An entry in memory of this thread, until its next call.
#[repr(C)]
struct Own {
    entry: hostent,
    words: [usize; ENTRY_MAX / size_of::<usize>()],
}

thread_local! {
    static OWN: RefCell<Option<Box<Own>>> = const { RefCell::new(None) };
}

unsafe extern "C" {
    fn __h_errno_location() -> *mut c_int;
}

type ByName = unsafe extern "C" fn(*const c_char) -> *mut hostent;
type ByName2 = unsafe extern "C" fn(*const c_char, c_int) -> *mut hostent;
type ByNameR = unsafe extern "C" fn(
    *const c_char,
    *mut hostent,
    *mut c_char,
    size_t,
    *mut *mut hostent,
    *mut c_int,
) -> c_int;
type ByName2R = unsafe extern "C" fn(
    *const c_char,
    c_int,
    *mut hostent,
    *mut c_char,
    size_t,
    *mut *mut hostent,
    *mut c_int,
) -> c_int;

/// `gethostbyname(3)`
///
/// # Safety
/// As of `gethostbyname(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyname(name: *const c_char) -> *mut hostent {
    // SAFETY: the program's promise.
    if let Some(entry) = unsafe { own(name, libc::AF_INET) } {
        return entry;
    }
    // SAFETY: the symbol of this name is a function of this type.
    match unsafe { next::<ByName>(c"gethostbyname") } {
        // SAFETY: the program's promise.
        Some(libc_s) => unsafe { libc_s(name) },
        None => ptr::null_mut(),
    }
}

/// `gethostbyname2(3)`
///
/// # Safety
/// As of `gethostbyname2(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyname2(name: *const c_char, family: c_int) -> *mut hostent {
    // SAFETY: the program's promise.
    if let Some(entry) = unsafe { own(name, family) } {
        return entry;
    }
    // SAFETY: the symbol of this name is a function of this type.
    match unsafe { next::<ByName2>(c"gethostbyname2") } {
        // SAFETY: the program's promise.
        Some(libc_s) => unsafe { libc_s(name, family) },
        None => ptr::null_mut(),
    }
}

/// `gethostbyname_r(3)`
///
/// # Safety
/// As of `gethostbyname_r(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyname_r(
    name: *const c_char,
    entry: *mut hostent,
    bytes: *mut c_char,
    len: size_t,
    result: *mut *mut hostent,
    why: *mut c_int,
) -> c_int {
    // SAFETY: the program's promise.
    if let Some(done) = unsafe { given(name, libc::AF_INET, (entry, bytes, len), result, why) } {
        return done;
    }
    // SAFETY: the symbol of this name is a function of this type.
    match unsafe { next::<ByNameR>(c"gethostbyname_r") } {
        // SAFETY: the program's promise.
        Some(libc_s) => unsafe { libc_s(name, entry, bytes, len, result, why) },
        None => libc::ENOSYS,
    }
}

/// `gethostbyname2_r(3)`
///
/// # Safety
/// As of `gethostbyname2_r(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gethostbyname2_r(
    name: *const c_char,
    family: c_int,
    entry: *mut hostent,
    bytes: *mut c_char,
    len: size_t,
    result: *mut *mut hostent,
    why: *mut c_int,
) -> c_int {
    // SAFETY: the program's promise.
    if let Some(done) = unsafe { given(name, family, (entry, bytes, len), result, why) } {
        return done;
    }
    // SAFETY: the symbol of this name is a function of this type.
    match unsafe { next::<ByName2R>(c"gethostbyname2_r") } {
        // SAFETY: the program's promise.
        Some(libc_s) => unsafe { libc_s(name, family, entry, bytes, len, result, why) },
        None => libc::ENOSYS,
    }
}

/// Looks a name up into memory of this thread; `None`: it is libc's to look up.
///
/// # Safety
/// `name` is null or a string of C.
unsafe fn own(name: *const c_char, family: c_int) -> Option<*mut hostent> {
    // SAFETY: the caller's promise.
    let found = unsafe { look_up(name, family) }?;
    let entry = found.and_then(|addrs| {
        OWN.with_borrow_mut(|own| {
            // SAFETY: zeros and null pointers are an entry that says nothing.
            let own = own.get_or_insert_with(|| Box::new(unsafe { core::mem::zeroed::<Own>() }));
            let (entry, bytes) = (&raw mut own.entry, own.words.as_mut_ptr().cast::<c_char>());
            // SAFETY: the memory is ours, and as large as is said.
            unsafe { write(name, family, &addrs, (entry, bytes, ENTRY_MAX)) }.then_some(entry)
        })
        .ok_or(NETDB_INTERNAL)
    });
    Some(entry.unwrap_or_else(|why| {
        // SAFETY: libc has this function.
        let place = unsafe { __h_errno_location() };
        // SAFETY: libc's place for this thread's `h_errno` is always there.
        unsafe { place.write(why) };
        ptr::null_mut()
    }))
}

/// Looks a name up into memory of the program; `None`: it is libc's to look up.
///
/// # Safety
/// As of `gethostbyname_r(3)`.
unsafe fn given(
    name: *const c_char,
    family: c_int,
    place: (*mut hostent, *mut c_char, size_t),
    result: *mut *mut hostent,
    why: *mut c_int,
) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let found = unsafe { look_up(name, family) }?;
    // SAFETY: the caller's promise.
    let written = found.map(|addrs| unsafe { write(name, family, &addrs, place) });
    let (entry, errno, done) = match written {
        Ok(true) => (place.0, 0, 0),
        Ok(false) => (ptr::null_mut(), NETDB_INTERNAL, libc::ERANGE),
        // That there is no such name is no error of the call.
        Err(HOST_NOT_FOUND) => (ptr::null_mut(), HOST_NOT_FOUND, 0),
        Err(errno) => (ptr::null_mut(), errno, libc::EAGAIN),
    };
    // SAFETY: the caller's promise.
    if let Some(result) = unsafe { result.as_mut() } {
        *result = entry;
    }
    // SAFETY: the caller's promise.
    if let Some(why) = unsafe { why.as_mut() } {
        *why = errno;
    }
    Some(done)
}

/// The addresses of a name, or a number of `h_errno`; `None`: it is libc's to look up.
///
/// # Safety
/// `name` is null or a string of C.
unsafe fn look_up(name: *const c_char, family: c_int) -> Option<Result<Vec<IpAddr>, c_int>> {
    // SAFETY: the caller's promise.
    let name = unsafe { name_of(name) }?;
    match found(&name, family, 0) {
        Lookup::Elsewhere => None,
        Lookup::Missing => Some(Err(HOST_NOT_FOUND)),
        Lookup::Again => Some(Err(TRY_AGAIN)),
        Lookup::Found(addrs) => Some(Ok(addrs)),
    }
}

/// Writes an entry, and what it points to; false if there is no room for it.
///
/// # Safety
/// `name` is a string of C; the entry is writable, and so many bytes.
unsafe fn write(
    name: *const c_char,
    family: c_int,
    addrs: &[IpAddr],
    (entry, bytes, len): (*mut hostent, *mut c_char, size_t),
) -> bool {
    const WORD: usize = size_of::<usize>();
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
    let width = if family == libc::AF_INET { 4 } else { 16 };
    let skip = (bytes as usize).next_multiple_of(WORD) - bytes as usize;
    // The list of addresses and its end, which is also the list of no aliases; the addresses; the name.
    let lists = (addrs.len() + 1) * WORD;
    if skip + lists + addrs.len() * width + name.len() > len {
        return false;
    }
    let at = |offset: usize| bytes.wrapping_add(skip + offset);
    let put = |offset: usize, from: &[u8]| {
        // SAFETY: there is room for it, as was seen above.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), at(offset).cast(), from.len()) };
    };
    for (n, addr) in addrs.iter().enumerate() {
        let place = lists + n * width;
        match addr {
            IpAddr::V4(addr) => put(place, &addr.octets()),
            IpAddr::V6(addr) => put(place, &addr.octets()),
        }
        put(n * WORD, &(at(place) as usize).to_ne_bytes());
    }
    put(addrs.len() * WORD, &[0; WORD]);
    let text = lists + addrs.len() * width;
    put(text, name);
    let whole = hostent {
        h_name: at(text),
        h_aliases: at(addrs.len() * WORD).cast(),
        h_addrtype: family,
        h_length: if width == 4 { 4 } else { 16 },
        h_addr_list: at(0).cast(),
    };
    // SAFETY: the caller's promise.
    unsafe { entry.write(whole) };
    true
}
