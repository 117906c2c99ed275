//! Unsafe: gathers the buffers of a program's message behind an address, and reads its `struct msghdr`.
//!
//! Sockets of datagrams. A message on the pair of one without a peer begins with an address: it is put in front of what the
//! program sends, and taken off what it receives, without a copy of the rest.
#![expect(unsafe_code, reason = "buffers of the program, through the pointers of its call")]

use core::ffi::{c_int, c_void};
use core::net::SocketAddr;
use core::slice;
use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{iovec, msghdr};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, getpeername, getsockname, recv};
use wire::program::{
    ADDR_LEN, NO_ADDR, Name, Request, Role, Transport, emit_addr, mark_returned, parse_addr,
};

use crate::daemon::{ask, may_be_ours};
use crate::{stream, sys};

/// Buffers of a message at the most, as of Linux.
const BUFFERS_MAX: usize = 1024;
/// Bytes of a message on a pair at the most.
const MESSAGE_MAX: usize = (64 << 10) + ADDR_LEN;
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

/// Whether messages of a socket begin with an address.
pub(crate) fn is_addressed(name: &Name) -> bool {
    name.remote == NO_ADDR
}

/// The local address of a socket of the kernel that is bound; else [`NO_ADDR`].
pub(crate) fn bound(fd: BorrowedFd<'_>) -> SocketAddr {
    let local = getsockname(fd).ok().and_then(|local: SocketAddrAny| SocketAddr::try_from(local).ok());
    local.filter(|local| local.port() != 0).unwrap_or(NO_ADDR)
}

/// The socket for a message to `to`: one of pantala, or one of the kernel that becomes pantala's by this. `None`: the message is
/// the kernel's.
pub(crate) fn sends(fd: BorrowedFd<'_>, to: Option<SocketAddr>) -> stream::Taken<Name> {
    if let Some(name) = name(fd) {
        return Some(Ok(name));
    }
    let to = to.filter(|to| may_be_ours(*to) && !to.ip().is_unspecified())?;
    let is_free =
        || matches!(getpeername(fd), Ok(None) | Err(Errno::NOTCONN)) && bound(fd).ip().is_unspecified();
    if stream::transport(fd) != Some(Transport::Udp) || !is_free() {
        return None;
    }
    ask(&Request::Route(to.ip())).ok()?;
    let domain = rustix::net::sockopt::socket_domain(fd).ok()?;
    let port = bound(fd).port();
    let is_v6 = domain == rustix::net::AddressFamily::INET6;
    let addr: SocketAddr = if is_v6 { ([0_u16; 8], port).into() } else { ([0; 4], port).into() };
    let only_v6 = is_v6 && rustix::net::sockopt::ipv6_v6only(fd).unwrap_or(false);
    match ask(&Request::Bind { transport: Transport::Udp, addr, is_shared: false, only_v6 }) {
        Ok((_, new)) => {
            let placed = new.ok_or(Errno::MFILE).and_then(|new| stream::put_in_place(fd, new));
            Some(placed.and_then(|()| name(fd).ok_or(Errno::NETDOWN)))
        }
        Err(why) => Some(Err(why)),
    }
}

/// Gives back what waits to be received at a socket without a peer, which is about to get one.
pub(crate) fn give_back(fd: BorrowedFd<'_>, name: &Name) {
    let mut bytes = if is_addressed(name) { vec![0; MESSAGE_MAX] } else { return };
    while let Ok((_, count)) = recv(fd, &mut bytes[..], RecvFlags::DONTWAIT)
        && count > 0
    {
        let message = bytes.get_mut(..count).unwrap_or_default();
        mark_returned(message);
        if rustix::net::send(fd, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
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
    let no_peer = |why: Errno| sys::fail(why) as isize;
    let mut plain = *message;
    (plain.msg_name, plain.msg_namelen) = (core::ptr::null_mut(), 0);
    (plain.msg_control, plain.msg_controllen) = (core::ptr::null_mut(), 0);
    if !is_addressed(name) {
        if to.is_some_and(|to| to != name.remote) {
            return no_peer(Errno::ISCONN);
        }
        return call(libc::SYS_sendmsg, fd, &raw const plain, flags);
    }
    let Some(to) = to else { return no_peer(Errno::DESTADDRREQ) };
    let header = emit_addr(to);
    // SAFETY: the caller's promise; the header outlives the call.
    let sent = unsafe {
        behind(&mut plain, header.as_ptr().cast_mut(), |message| call(libc::SYS_sendmsg, fd, message, flags))
    };
    without_header(sent)
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
    let mut plain = *message;
    (plain.msg_name, plain.msg_namelen) = (core::ptr::null_mut(), 0);
    let mut header = [0; ADDR_LEN];
    let (got, from) = if is_addressed(name) {
        // SAFETY: the caller's promise; the header outlives the call.
        let got = unsafe {
            behind(&mut plain, header.as_mut_ptr(), |message| call(libc::SYS_recvmsg, fd, message, flags))
        };
        (without_header(got), parse_addr(&header))
    } else {
        (call(libc::SYS_recvmsg, fd, &raw const plain, flags), Some(name.remote))
    };
    (message.msg_flags, message.msg_controllen) = (plain.msg_flags, 0);
    let is_over = got == 0 && (is_addressed(name) && from.is_none() || has_hung_up(fd));
    if is_over || got < 0 && sys::errno() == libc::ECONNRESET {
        return (sys::fail(Errno::NETDOWN) as isize, None);
    }
    (got, from)
}

/// Whether the daemon is gone.
fn has_hung_up(fd: BorrowedFd<'_>) -> bool {
    stream::is_ready(fd, rustix::event::PollFlags::empty(), Some(core::time::Duration::ZERO)).unwrap_or(true)
}

/// Bytes of the program's own in what was sent or received.
fn without_header(count: isize) -> isize {
    if count > 0 { (count - ADDR_LEN.cast_signed()).max(0) } else { count }
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
/// The buffers of `message` are as `sendmsg(2)` needs them, and `header` has [`ADDR_LEN`] bytes.
unsafe fn behind(message: &mut msghdr, header: *mut u8, call: impl FnOnce(*const msghdr) -> isize) -> isize {
    let count = message.msg_iovlen;
    if count >= BUFFERS_MAX {
        return sys::fail(Errno::MSGSIZE) as isize;
    }
    if count > 0 && message.msg_iov.is_null() {
        return sys::fail(Errno::FAULT) as isize;
    }
    let first = iovec { iov_base: header.cast::<c_void>(), iov_len: ADDR_LEN };
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
