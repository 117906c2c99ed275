//! Unsafe: functions that a program calls in place of libc's, with its pointers.
//!
//! Options.
#![expect(unsafe_code, reason = "symbols of C, and pointers of a program")]

use core::ffi::{c_int, c_void};
use core::slice;

use libc::socklen_t;
use program::values::{self, VALUE_MAX, Value};
use rustix::io::Errno;

use super::{kernel, named, wait, word};
use crate::sys::Own;
use crate::{addr, sys};

/// `getsockopt(2)`
///
/// # Safety
/// As of `getsockopt(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let pass = || {
        let arguments = [word(fd), word(level), word(option), value as usize, len as usize, 0];
        kernel(libc::SYS_getsockopt, arguments)
    };
    let Some((own, name)) = sys::borrow(fd).zip(named(fd)) else {
        let bound = sys::borrow(fd).and_then(|fd| values::bound_before::<Own<'_>>(fd, (level, option)));
        return match bound {
            Some(bytes) => {
                // SAFETY: the program's promise.
                unsafe { addr::write_value(&bytes, value.cast(), len) };
                0
            }
            None => pass(),
        };
    };
    // SAFETY: the program's promise.
    let room = unsafe { len.as_ref() }.map_or(0, |len| *len as usize).min(VALUE_MAX);
    let given = match program::filter::is_whole((level, option)) && !value.is_null() {
        // SAFETY: the program's promise: there are so many.
        true => unsafe { slice::from_raw_parts(value.cast::<u8>(), room) },
        false => &[][..],
    };
    let found = match values::get(own, &name, (level, option), given) {
        Ok(Some(Value::Number(number))) => number.to_ne_bytes().to_vec(),
        Ok(Some(Value::Bytes(bytes))) => bytes,
        Ok(None) => return pass(),
        Err(why) => return sys::fail(why),
    };
    // SAFETY: the program's promise.
    unsafe { addr::write_value(&found, value.cast(), len) };
    0
}

/// `setsockopt(2)`
///
/// # Safety
/// As of `setsockopt(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    let pass = || {
        let arguments = [word(fd), word(level), word(option), value as usize, len as usize, 0];
        kernel(libc::SYS_setsockopt, arguments)
    };
    wait::note_option(level, option);
    let bytes = match value.is_null() {
        true => &[][..],
        // SAFETY: the program's promise: there are so many, and more are not looked at.
        false => unsafe { slice::from_raw_parts(value.cast::<u8>(), (len as usize).min(VALUE_MAX)) },
    };
    let name = match (named(fd), sys::borrow(fd)) {
        (Some(name), _) => name,
        (None, None) => return pass(),
        (None, Some(own)) => match values::begin_for_group(&Own(own), (level, option), bytes) {
            Some(Err(why)) => return sys::fail(why),
            begun => match begun.and_then(|_| named(fd)) {
                Some(name) => name,
                None => {
                    let device = values::device_before(&Own(own), (level, option), bytes);
                    return device.map_or_else(pass, |number| bind_to_number(fd, number));
                }
            },
        },
    };
    let keep = || if pass() == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(sys::errno())) };
    match values::set(&name, (level, option), bytes, keep) {
        Ok(Some(())) => 0,
        Ok(None) => pass(),
        Err(why) => sys::fail(why),
    }
}

/// Binds a socket of the kernel to the interface of a number.
fn bind_to_number(fd: c_int, number: u32) -> c_int {
    let (at, len) = ((&raw const number) as usize, size_of::<u32>());
    let option = program::options::SO_BINDTOIFINDEX;
    kernel(libc::SYS_setsockopt, [word(fd), word(libc::SOL_SOCKET), word(option), at, len, 0])
}
