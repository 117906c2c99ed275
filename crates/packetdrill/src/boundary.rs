//! Unsafe: C's memory, which is where C says, and the functions that C finds by their names.
#![expect(unsafe_code, reason = "C says where its memory is, and nobody else can know")]

use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::ptr;

use crate::errno::Code;
use crate::{abi, commands, hosts};

/// A place that C has named: null, or valid for what the call says that is there, until it returns. It is made by C alone,
/// as an argument or as a field of what an argument points to.
#[repr(transparent)]
pub(crate) struct Ptr<T>(*mut T);

impl<T> Clone for Ptr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ptr<T> {}

impl<T> Ptr<T> {
    /// Whether it is no place.
    pub(crate) const fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The number of a pointer that is never dereferenced.
    pub(crate) fn number(self) -> usize {
        self.0.addr()
    }

    /// Makes a pointer from its number.
    pub(crate) const fn of_number(number: usize) -> Self {
        Self(ptr::without_provenance_mut(number))
    }

    /// A place in an array.
    pub(crate) const fn at(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    fn place(self, len: usize) -> Result<*mut T, Code> {
        match isize::try_from(len) {
            Err(_) => Err(Code(libc::EINVAL)),
            Ok(_) if self.is_null() && len > 0 => Err(Code(libc::EFAULT)),
            Ok(_) => Ok(self.0),
        }
    }

    /// Puts a value there.
    pub(crate) fn put(self, value: T) -> Result<(), Code> {
        let place = self.place(size_of::<T>())?;
        // SAFETY: it is not null, so C has place for a value there.
        unsafe { place.write_unaligned(value) };
        Ok(())
    }

    /// A copy of so many bytes, at most `max` of them.
    pub(crate) fn bytes(self, len: usize, max: usize) -> Result<Vec<u8>, Code> {
        let place = self.place(len)?.cast_const().cast::<u8>();
        let mut bytes = vec![0; len.min(max)];
        if !place.is_null() {
            // SAFETY: it is not null, so C has `len` bytes there; they are no bytes of ours.
            unsafe { ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), bytes.len()) };
        }
        Ok(bytes)
    }

    /// Writes bytes, as many as there is room for; answers how many.
    pub(crate) fn fill(self, room: usize, bytes: &[u8]) -> Result<usize, Code> {
        let (place, len) = (self.place(room)?.cast::<u8>(), room.min(bytes.len()));
        if !place.is_null() {
            // SAFETY: it is not null, so C has place for `room` bytes there; they are no bytes of ours.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place, len) };
        }
        Ok(len)
    }
}

/// A type for which any bytes that C writes are valid.
pub(crate) trait Plain: Copy {}
impl Plain for u32 {}
impl Plain for usize {}
impl Plain for i64 {}
impl Plain for c_int {}
impl Plain for libc::pollfd {}
impl Plain for libc::epoll_event {}
impl Plain for Piece {}
impl Plain for Message {}

impl<T: Plain> Ptr<T> {
    /// The value that stands there.
    pub(crate) fn get(self) -> Result<T, Code> {
        let place = self.place(size_of::<T>())?;
        // SAFETY: it is not null, so C has such a value there, and any bytes are one.
        Ok(unsafe { place.read_unaligned() })
    }
}

/// `struct iovec`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Piece {
    /// Where it is.
    pub(crate) at: Ptr<c_void>,
    /// Its length.
    pub(crate) len: usize,
}

/// `struct msghdr`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Message {
    /// An address.
    pub(crate) name: Ptr<c_void>,
    /// Its length.
    pub(crate) name_len: u32,
    /// Its bytes.
    pub(crate) pieces: Ptr<Piece>,
    /// In so many pieces.
    pub(crate) piece_count: usize,
    /// Control data.
    pub(crate) control: Ptr<c_void>,
    /// Its length.
    pub(crate) control_len: usize,
    /// Flags of the received message.
    pub(crate) flags: c_int,
}

/// This thread's `errno`.
pub(crate) fn set_errno(Code(code): Code) {
    // SAFETY: each thread has one.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: it is this thread's own.
    unsafe { *errno = code };
}

/// Fills the table of functions for a host that is as the flags say; null is none. If they are wrong, all functions fail with
/// `EINVAL`.
#[unsafe(no_mangle)]
extern "C" fn packetdrill_interface_init(flags: Ptr<c_char>, table: Ptr<abi::Table>) {
    let text = if flags.is_null() {
        String::new()
    } else {
        // SAFETY: C has a text there that ends with a zero.
        unsafe { CStr::from_ptr(flags.0) }.to_string_lossy().into_owned()
    };
    abi::init(&text, table);
}

/// `getsockopt` for programs that ask the system for options of a descriptor that is ours: packetdrill asks for `TCP_INFO`
/// so, and finds this if the library was loaded before the system's (`LD_PRELOAD`). Others' are the system's.
#[unsafe(no_mangle)]
extern "C" fn getsockopt(fd: c_int, level: c_int, option: c_int, value: Ptr<c_void>, len: Ptr<u32>) -> c_int {
    if let Some(host) = hosts::of(fd) {
        return abi::answer(|| abi::option(&host, fd, (level, option), value, len));
    }
    // SAFETY: C asks the system, which believes no pointer.
    let asked = unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, option, value.0, len.0) };
    c_int::try_from(asked as c_long).unwrap_or(-1)
}

/// `system` for packetdrill, which runs the commands of scripts by it, and finds this in the same way: those that are meant
/// for the host are done there, all others by the shell.
#[unsafe(no_mangle)]
extern "C" fn system(command: Ptr<c_char>) -> c_int {
    if command.is_null() {
        // There is a shell.
        return 1;
    }
    // SAFETY: C ends it with a zero.
    let text = unsafe { CStr::from_ptr(command.0) }.to_string_lossy();
    abi::answer(|| commands::run(&text))
}
