//! Unsafe: reads and writes control messages where a program's `struct msghdr` says they are.
//!
//! Control messages of datagrams ([`program::control`]).
#![expect(unsafe_code, reason = "memory of the program, through the pointers of its call")]

use core::ffi::c_void;
use core::slice;

use libc::msghdr;
use program::control::Control;
use wire::program::Head;

/// Reads what a program says of a datagram that it sends.
///
/// # Safety
/// `message` is as `sendmsg(2)` needs it.
pub(crate) unsafe fn read(message: &msghdr, head: &mut Head) {
    if message.msg_control.is_null() {
        return;
    }
    let (start, len) = (message.msg_control.cast::<u8>(), message.msg_controllen);
    // SAFETY: the caller's promise.
    program::control::read(unsafe { slice::from_raw_parts(start, len) }, head);
}

/// Writes control messages, for which the program has made room.
///
/// # Safety
/// `place` is that of the `struct msghdr` that the program passed, with the room that `all` was made for.
pub(crate) unsafe fn write(all: &Control, message: &mut msghdr, place: *mut c_void) {
    if all.is_cut {
        message.msg_flags |= libc::MSG_CTRUNC;
    }
    message.msg_controllen = all.bytes().len();
    if !place.is_null() {
        // SAFETY: the caller's promise; the bytes are ours, and no more than there is room for.
        unsafe { core::ptr::copy_nonoverlapping(all.bytes().as_ptr(), place.cast(), all.bytes().len()) };
    }
}
