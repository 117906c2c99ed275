//! Unsafe: gathers the buffers of a program's message behind an address, and reads its `struct msghdr`.
//!
//! Sockets of datagrams. A message on the pair of one without a peer begins with a header: it is put in front of what the program
//! sends, and taken off what it receives, without a copy of the rest. Of one with a peer only a message that a descriptor comes
//! with, as a mark, has a header: the error of one that was sent, or what control messages are about.
#![expect(unsafe_code, reason = "buffers of the program, through the pointers of its call")]

use core::ffi::{c_int, c_void};
use core::net::SocketAddr;
use core::slice;
use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use libc::{iovec, msghdr};
use program::control::Control;
use program::datagram::{self, is_addressed};
use program::stream;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use wire::program::{HEAD_LEN, Head, NO_ADDR, Name, Role};

use crate::sys::Own;
use crate::{control, sys};

/// Buffers of a message at the most, as of Linux.
const BUFFERS_MAX: usize = 1024;
/// Bytes for control messages that come with a mark.
const MARK_MAX: usize = 64;
/// Buffers of a message that need no allocation: a signal handler may send.
const FEW: usize = 8;

/// Whether this process has had a socket of datagrams. Until then `read` need not ask what a descriptor is.
static ANY: AtomicBool = AtomicBool::new(false);

/// The name of a socket of datagrams; `None` if it is none of pantala's.
pub(crate) fn name(fd: BorrowedFd<'_>) -> Option<Name> {
    let name = stream::name(fd).filter(|name| name.role == Role::Datagram)?;
    ANY.store(true, Ordering::Relaxed);
    Some(name)
}

/// [`name`] for calls that are mostly about files.
pub(crate) fn name_if_any(fd: BorrowedFd<'_>) -> Option<Name> {
    if ANY.load(Ordering::Relaxed) { name(fd) } else { None }
}

/// The socket for a message to `to`: one of pantala, or one of the kernel that becomes pantala's by this. `None`: the message is
/// the kernel's.
pub(crate) fn sends(fd: BorrowedFd<'_>, to: Option<SocketAddr>) -> stream::Taken<Name> {
    if let Some(name) = name(fd) {
        return Some(Ok(name));
    }
    let begun = datagram::begin(&Own(fd), to?)?;
    Some(begun.and_then(|()| name(fd).ok_or(Errno::NETDOWN)))
}

/// Sends the buffers of `message`, whose address is `to`.
///
/// # Safety
/// `message` is as `sendmsg(2)` needs it.
pub(crate) unsafe fn send(
    fd: BorrowedFd<'_>,
    name: &Name,
    to: Option<SocketAddr>,
    message: &msghdr,
    flags: c_int,
) -> isize {
    let mut plain = *message;
    (plain.msg_name, plain.msg_namelen) = (core::ptr::null_mut(), 0);
    (plain.msg_control, plain.msg_controllen) = (core::ptr::null_mut(), 0);
    let mut head = Head::of(to.unwrap_or(NO_ADDR));
    // SAFETY: the caller's promise.
    unsafe { control::read(message, &mut head) };
    if let Some(to) = to.or_else(|| (!is_addressed(name)).then_some(name.remote)) {
        // SAFETY: the caller's promise.
        if let Err(why) = datagram::check(fd, name, to, unsafe { total(message) }) {
            return sys::fail(why) as isize;
        }
    }
    let is_plain = !is_addressed(name) && to.is_none_or(|to| to == name.remote) && !head.details.any();
    if is_plain {
        return call(libc::SYS_sendmsg, fd, &raw const plain, flags);
    }
    if is_addressed(name) && to.is_none() {
        return sys::fail(Errno::DESTADDRREQ) as isize;
    }
    let mut space = [0_u64; MARK_MAX / 8];
    let mark = match Mark::new(name) {
        Ok(mark) => mark,
        Err(why) => return sys::fail(why) as isize,
    };
    if let Some(mark) = &mark {
        plain.msg_controllen = mark.write(&mut space);
        plain.msg_control = space.as_mut_ptr().cast();
    }
    let header = head.emit();
    // SAFETY: the caller's promise; the header outlives the call.
    let sent = unsafe {
        behind(&mut plain, header.as_ptr().cast_mut(), |message| call(libc::SYS_sendmsg, fd, message, flags))
    };
    without_header(sent)
}

/// Bytes of a message.
///
/// # Safety
/// `message` is as `sendmsg(2)` needs it.
unsafe fn total(message: &msghdr) -> usize {
    if message.msg_iov.is_null() || message.msg_iovlen >= BUFFERS_MAX {
        return 0;
    }
    // SAFETY: the caller's promise.
    let all = unsafe { slice::from_raw_parts(message.msg_iov, message.msg_iovlen) };
    all.iter().fold(0, |sum, buffer| sum.saturating_add(buffer.iov_len))
}

/// A descriptor that marks a message.
struct Mark(OwnedFd);

impl Mark {
    /// A mark for a message of a socket with a peer; others need none.
    fn new(name: &Name) -> Result<Option<Self>, Errno> {
        if is_addressed(name) {
            return Ok(None);
        }
        rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).map(|fd| Some(Self(fd)))
    }

    /// Writes the control message, and returns its length. The mark is closed when the program's call is over.
    fn write(&self, into: &mut [u64; MARK_MAX / 8]) -> usize {
        let words = [libc::SOL_SOCKET, libc::SCM_RIGHTS].map(i64::from);
        into[0] = 20;
        into[1] = (words[0] | words[1] << 32).cast_unsigned();
        into[2] = u64::from(self.0.as_raw_fd().cast_unsigned());
        24
    }
}

/// Receives into the buffers of `message`, and returns the sender; the name and the length of the name are the caller's to fill.
///
/// # Safety
/// `message` is as `recvmsg(2)` needs it.
pub(crate) unsafe fn receive(
    fd: BorrowedFd<'_>,
    name: &Name,
    message: &mut msghdr,
    flags: c_int,
) -> (isize, Option<SocketAddr>) {
    if flags & libc::MSG_ERRQUEUE != 0 {
        // SAFETY: the caller's promise.
        return unsafe { receive_error(fd, name, message) };
    }
    loop {
        // Of none, another call has told the error meanwhile.
        // SAFETY: the caller's promise.
        if let Some(received) = unsafe { receive_next(fd, name, message, flags) } {
            return received;
        }
    }
}

/// Takes the first error of a socket's queue: the bytes of its datagram, as far as an ICMP error quotes them, and its destination.
///
/// # Safety
/// `message` is as `recvmsg(2)` needs it.
unsafe fn receive_error(
    fd: BorrowedFd<'_>,
    name: &Name,
    message: &mut msghdr,
) -> (isize, Option<SocketAddr>) {
    let told = match datagram::take_report(fd, name) {
        Ok(told) => told,
        Err(why) => return (sys::fail(why) as isize, None),
    };
    // SAFETY: the caller's promise.
    let left = unsafe { copy(told.bytes(), message) };
    let (place, room) = (message.msg_control, message.msg_controllen);
    message.msg_flags = libc::MSG_ERRQUEUE | if left > 0 { libc::MSG_TRUNC } else { 0 };
    // SAFETY: the caller's promise.
    unsafe { control::write(&Control::of_report(&told.report, room), message, place) };
    ((told.bytes().len() - left).cast_signed(), Some(told.report.to))
}

/// Copies bytes into the buffers of `message`, and returns the number of those that have no room.
///
/// # Safety
/// `message` is as `recvmsg(2)` needs it.
unsafe fn copy(bytes: &[u8], message: &msghdr) -> usize {
    if message.msg_iov.is_null() || message.msg_iovlen >= BUFFERS_MAX {
        return bytes.len();
    }
    // SAFETY: the caller's promise.
    let buffers = unsafe { slice::from_raw_parts(message.msg_iov, message.msg_iovlen) };
    let mut rest = bytes;
    for buffer in buffers {
        let (now, behind) = rest.split_at(rest.len().min(buffer.iov_len));
        // SAFETY: the caller's promise.
        unsafe { core::ptr::copy_nonoverlapping(now.as_ptr(), buffer.iov_base.cast(), now.len()) };
        rest = behind;
    }
    rest.len()
}

/// Receives a message; `None` for one about an error that was told already.
///
/// # Safety
/// `message` is as `recvmsg(2)` needs it.
unsafe fn receive_next(
    fd: BorrowedFd<'_>,
    name: &Name,
    message: &mut msghdr,
    flags: c_int,
) -> Option<(isize, Option<SocketAddr>)> {
    let mut plain = *message;
    (plain.msg_name, plain.msg_namelen) = (core::ptr::null_mut(), 0);
    (plain.msg_control, plain.msg_controllen) = (core::ptr::null_mut(), 0);
    let mut header = [0; HEAD_LEN];
    let (got, head) = if is_addressed(name) {
        // SAFETY: the caller's promise; the header outlives the call.
        let got = unsafe {
            behind(&mut plain, header.as_mut_ptr(), |message| call(libc::SYS_recvmsg, fd, message, flags))
        };
        let head = Head::parse(&header).filter(|_| got > 0);
        (without_header(got), head)
    } else {
        // SAFETY: the caller's promise.
        unsafe { receive_marked(fd, &mut plain, &mut header, flags) }
    };
    if let Some(head) = head.filter(|head| head.error != 0) {
        if flags & libc::MSG_PEEK != 0 {
            // An error is reported once.
            let _ = recv(fd, &mut header[..], RecvFlags::DONTWAIT);
        }
        let why = datagram::error_of(name, &head)?;
        return Some((sys::fail(why) as isize, None));
    }
    let (place, room) = (message.msg_control, message.msg_controllen);
    (message.msg_flags, message.msg_controllen) = (plain.msg_flags, 0);
    let is_over = got == 0 && head.is_none() && (is_addressed(name) || has_hung_up(fd));
    if is_over || got < 0 && sys::errno() == libc::ECONNRESET {
        return Some((sys::fail(Errno::NETDOWN) as isize, None));
    }
    if let Some(head) = head.filter(|head| head.details.any()) {
        // SAFETY: the caller's promise.
        unsafe { control::write(&Control::of(&head, room), message, place) };
    }
    Some((got, head.map(|head| head.peer).or_else(|| (!is_addressed(name)).then_some(name.remote))))
}

/// Receives a message of a socket with a peer, and its header if it is marked, which is taken off then.
///
/// # Safety
/// `message` is as `recvmsg(2)` needs it.
unsafe fn receive_marked(
    fd: BorrowedFd<'_>,
    message: &mut msghdr,
    header: &mut [u8; HEAD_LEN],
    flags: c_int,
) -> (isize, Option<Head>) {
    let (buffers, count) = (message.msg_iov, message.msg_iovlen);
    if count >= BUFFERS_MAX || count > 0 && buffers.is_null() {
        return (sys::fail(Errno::MSGSIZE) as isize, None);
    }
    let own = match count {
        0 => &[][..],
        // SAFETY: the caller's promise.
        _ => unsafe { slice::from_raw_parts(buffers, count) },
    };
    let room: usize = own.iter().map(|buffer| buffer.iov_len).sum();
    let mut few = [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; FEW + 1];
    let mut many = Vec::new();
    // A header makes a message longer than the program has room for.
    let more = iovec { iov_base: header.as_mut_ptr().cast(), iov_len: HEAD_LEN };
    message.msg_iov = match few.get_mut(..=count) {
        Some(place) => {
            place[..count].copy_from_slice(own);
            place[count] = more;
            few.as_mut_ptr()
        }
        None => {
            many.extend_from_slice(own);
            many.push(more);
            many.as_mut_ptr()
        }
    };
    message.msg_iovlen = count + 1;
    let mut space = [0_u64; MARK_MAX / 8];
    (message.msg_control, message.msg_controllen) = (space.as_mut_ptr().cast(), MARK_MAX);
    let got = call(libc::SYS_recvmsg, fd, message, flags | libc::MSG_CMSG_CLOEXEC);
    let is_marked = got > 0 && close_marks(&space, message.msg_controllen);
    message.msg_flags &= !libc::MSG_CMSG_CLOEXEC;
    let Ok(len) = usize::try_from(got) else { return (got, None) };
    if !is_marked {
        if len > room {
            message.msg_flags |= libc::MSG_TRUNC;
        }
        let told = if flags & libc::MSG_TRUNC != 0 { len } else { len.min(room) };
        return (told.cast_signed(), None);
    }
    // SAFETY: the caller's promise: these are its buffers, and the kernel has filled them.
    let head = unsafe { take_header(own, header, len.min(room + HEAD_LEN)) };
    (without_header(got), head)
}

/// Moves what is behind a header to the beginning of the buffers.
///
/// # Safety
/// The buffers, and `last` behind them, hold `len` bytes of a message.
unsafe fn take_header(own: &[iovec], last: &[u8; HEAD_LEN], len: usize) -> Option<Head> {
    let mut whole = Vec::with_capacity(len + HEAD_LEN);
    for buffer in own {
        // SAFETY: the caller's promise.
        whole.extend_from_slice(unsafe { slice::from_raw_parts(buffer.iov_base.cast(), buffer.iov_len) });
    }
    whole.extend_from_slice(last);
    let mut rest = whole.get(HEAD_LEN..len)?;
    for buffer in own {
        let (now, behind) = rest.split_at(rest.len().min(buffer.iov_len));
        // SAFETY: the caller's promise; `whole` is a copy.
        unsafe { core::ptr::copy_nonoverlapping(now.as_ptr(), buffer.iov_base.cast(), now.len()) };
        rest = behind;
    }
    Head::parse(&whole)
}

/// Closes the descriptors that came with a message; false if there are none.
fn close_marks(space: &[u64; MARK_MAX / 8], len: usize) -> bool {
    let kind = i64::from(libc::SOL_SOCKET) | i64::from(libc::SCM_RIGHTS) << 32;
    if len < 20 || space[1] != kind.cast_unsigned() {
        return false;
    }
    let count = usize::try_from(space[0]).unwrap_or(0).saturating_sub(16) / 4;
    for n in 0..count {
        let word = space.get(2 + n / 2).copied().unwrap_or(0);
        let fd = if n % 2 == 0 { word & 0xffff_ffff } else { word >> 32 };
        sys::call(libc::SYS_close, [usize::try_from(fd).unwrap_or(usize::MAX), 0, 0, 0, 0, 0]);
    }
    true
}

/// Whether the daemon is gone.
fn has_hung_up(fd: BorrowedFd<'_>) -> bool {
    stream::is_ready(fd, rustix::event::PollFlags::empty(), Some(core::time::Duration::ZERO)).unwrap_or(true)
}

/// Bytes of the program's own in what was sent or received.
fn without_header(count: isize) -> isize {
    if count > 0 { (count - HEAD_LEN.cast_signed()).max(0) } else { count }
}

fn call(number: core::ffi::c_long, fd: BorrowedFd<'_>, message: *const msghdr, flags: c_int) -> isize {
    sys::call(number, [word(fd.as_raw_fd()), message as usize, word(flags), 0, 0, 0])
}

const fn word(number: c_int) -> usize {
    (number as isize).cast_unsigned()
}

/// Calls with `header` as the first buffer of a message.
///
/// # Safety
/// The buffers of `message` are as `sendmsg(2)` needs them, and `header` has [`HEAD_LEN`] bytes.
unsafe fn behind(message: &mut msghdr, header: *mut u8, call: impl FnOnce(*const msghdr) -> isize) -> isize {
    let count = message.msg_iovlen;
    if count >= BUFFERS_MAX {
        return sys::fail(Errno::MSGSIZE) as isize;
    }
    if count > 0 && message.msg_iov.is_null() {
        return sys::fail(Errno::FAULT) as isize;
    }
    let first = iovec { iov_base: header.cast::<c_void>(), iov_len: HEAD_LEN };
    let own = if count == 0 {
        &[][..]
    } else {
        // SAFETY: the caller's promise.
        unsafe { slice::from_raw_parts(message.msg_iov, count) }
    };
    let mut few = [first; FEW + 1];
    let mut many = Vec::new();
    let all = if let Some(place) = few.get_mut(1..=count) {
        place.copy_from_slice(own);
        few.as_mut_ptr()
    } else {
        many.reserve_exact(count + 1);
        many.push(first);
        many.extend_from_slice(own);
        many.as_mut_ptr()
    };
    (message.msg_iov, message.msg_iovlen) = (all, count + 1);
    call(message)
}
