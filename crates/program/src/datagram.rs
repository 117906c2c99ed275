//! What differs for sockets of datagrams. A message on the pair of one without a peer begins with a header ([`Head`]) if the library
//! is in the program. If a supervisor is beside it, calls that it does not meet have to find the datagram alone: then the header is in
//! a file whose descriptor comes with the message. What the program sends begins with its header in either case.

use core::mem::MaybeUninit;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrAny, getpeername, getsockname, recvmsg, sendmsg, sockopt,
};
use wire::program::{HEAD_LEN, Head, INTERFACE_BASE, NO_ADDR, Name, Request, Transport};

/// Flags of calls about messages.
pub use libc::{MSG_CTRUNC, MSG_DONTWAIT, MSG_ERRQUEUE, MSG_PEEK, MSG_TRUNC};

use crate::daemon::{Undelivered, ask, ask_report, may_be_ours};
use crate::stream::{self, Taken};
use crate::{Socket, interfaces, options};

/// Bytes of a message on a pair at the most.
const MESSAGE_MAX: usize = (64 << 10) + HEAD_LEN;
/// Bytes behind the header of UDP at the most, and those of an IPv4 header, which is a part of its packet.
const PAYLOAD_MAX: usize = 65_535 - 8;
const V4_HEADER: usize = 20;

/// Whether messages of a socket begin with an address.
#[must_use]
pub fn is_addressed(name: &Name) -> bool {
    name.remote == NO_ADDR
}

/// Returns the local address of a socket of the kernel that is bound; else [`NO_ADDR`].
#[must_use]
pub fn bound(fd: BorrowedFd<'_>) -> SocketAddr {
    let local = getsockname(fd).ok().and_then(|local: SocketAddrAny| SocketAddr::try_from(local).ok());
    local.filter(|local| local.port() != 0).unwrap_or(NO_ADDR)
}

/// Checks a datagram of so many bytes that a socket is to send to `to`, as the kernel does before it sends it.
///
/// # Errors
/// `EMSGSIZE`, `EINVAL` of a port 0, `EAFNOSUPPORT`, `EACCES` of a broadcast that the program has not asked for.
pub fn check(fd: BorrowedFd<'_>, name: &Name, to: SocketAddr, len: usize) -> Result<(), Errno> {
    let is_v4 = to.ip().to_canonical().is_ipv4();
    if len > if is_v4 { PAYLOAD_MAX - V4_HEADER } else { PAYLOAD_MAX } {
        // As of Linux, which says nothing of the MTU for IPv4.
        if !is_v4 {
            // The call fails all the same.
            let _ = ask(&Request::TooLong { id: name.id, to });
        }
        return Err(Errno::MSGSIZE);
    }
    if name.local.is_ipv4() && to.is_ipv6() {
        return Err(Errno::AFNOSUPPORT);
    }
    if to.port() == 0 {
        return Err(Errno::INVAL);
    }
    let is_broadcast = to.ip() == IpAddr::V4(Ipv4Addr::BROADCAST);
    if is_broadcast && !sockopt::socket_broadcast(fd).unwrap_or(false) {
        return Err(Errno::ACCESS);
    }
    Ok(())
}

/// Makes a socket of the kernel pantala's, which sends to `to`; `None`: it stays the kernel's, and so does the datagram.
pub fn begin<S: Socket>(socket: &S, to: SocketAddr) -> Taken<()> {
    let fd = socket.fd();
    if !may_be_ours(to) || to.ip().is_unspecified() {
        return None;
    }
    let is_free =
        || matches!(getpeername(fd), Ok(None) | Err(Errno::NOTCONN)) && bound(fd).ip().is_unspecified();
    if stream::transport(socket) != Some(Transport::Udp) || !is_free() {
        return None;
    }
    if !options::is_on_our_device::<S>(fd) && !has_route(to) {
        return None;
    }
    let port = bound(fd).port();
    let is_v6 = sockopt::socket_domain(fd).ok()? == AddressFamily::INET6;
    let addr: SocketAddr = if is_v6 { ([0_u16; 8], port).into() } else { ([0; 4], port).into() };
    let options = options::set_before(socket, Transport::Udp, is_v6);
    let bound = ask(&Request::Bind { transport: Transport::Udp, addr, options });
    Some(bound.and_then(|answer| stream::placed(socket, answer)))
}

/// Makes a socket of the kernel, which is not bound, pantala's before it is: `None`, if it stays the kernel's.
pub(crate) fn begin_unbound<S: Socket>(socket: &S) -> Taken<()> {
    let fd = socket.fd();
    if stream::transport(socket) != Some(Transport::Udp) || bound(fd).port() != 0 {
        return None;
    }
    let is_v6 = sockopt::socket_domain(fd).ok()? == AddressFamily::INET6;
    let addr: SocketAddr = if is_v6 { ([0_u16; 8], 0).into() } else { ([0; 4], 0).into() };
    let options = options::set_before(socket, Transport::Udp, is_v6);
    match ask(&Request::Rebind { id: 0, addr, options }) {
        Err(Errno::NETDOWN) => None,
        begun => Some(begun.and_then(|answer| stream::placed(socket, answer))),
    }
}

/// Whether pantala reaches an address: by a route, or by the interface that its scope names.
fn has_route(to: SocketAddr) -> bool {
    match to {
        SocketAddr::V6(to) if to.scope_id() & INTERFACE_BASE != 0 => {
            interfaces::numbered(to.scope_id()).is_some()
        }
        _ => ask(&Request::Route(to.ip())).is_ok(),
    }
}

/// Receives a datagram of a socket whose headers come with descriptors, and its length; it never waits.
///
/// # Errors
/// `ENETDOWN` without a daemon, the error of an earlier datagram, `EAGAIN`, and those of `recvmsg(2)`.
pub fn receive(
    fd: BorrowedFd<'_>,
    name: &Name,
    bytes: &mut [u8],
    peeks: bool,
) -> Result<(usize, Head), Errno> {
    let flags = if peeks { RecvFlags::PEEK } else { RecvFlags::empty() };
    loop {
        let (len, head) = match receive_any(fd, bytes, flags) {
            Err(Errno::CONNRESET) => return Err(Errno::NETDOWN),
            Ok(got) => (got.len, got.head),
            Err(why) => return Err(why),
        };
        let Some(head) = head else {
            if len == 0 && (is_addressed(name) || stream::is_ready(fd, PollFlags::empty(), NOW)?) {
                return Err(Errno::NETDOWN);
            }
            return Ok((len, Head::of(name.remote)));
        };
        if head.error == 0 {
            return Ok((len, head));
        }
        if peeks {
            // An error is reported once.
            let _ = receive_any(fd, bytes, RecvFlags::empty());
        }
        if let Some(why) = error_of(name, &head) {
            return Err(why);
        }
    }
}

/// Returns the error of a socket whose message about one was received; `None` if another call has told it meanwhile.
#[must_use]
pub fn error_of(name: &Name, head: &Head) -> Option<Errno> {
    let number = match ask(&Request::Failure { id: name.id, receives: true }) {
        Ok(answer) => answer.value,
        Err(_) => head.error,
    };
    (number != 0).then(|| Errno::from_raw_os_error(number))
}

/// Takes the error of a socket (`SO_ERROR`).
#[must_use]
pub fn take_error(fd: BorrowedFd<'_>, name: &Name) -> Option<Errno> {
    drop_errors(fd, name);
    let number = ask(&Request::Failure { id: name.id, receives: false }).ok()?.value;
    (number != 0).then(|| Errno::from_raw_os_error(number))
}

/// Takes the first of a socket's queue of errors (`MSG_ERRQUEUE`).
///
/// # Errors
/// `EAGAIN` if there is none.
pub fn take_report(fd: BorrowedFd<'_>, name: &Name) -> Result<Undelivered, Errno> {
    drop_errors(fd, name);
    ask_report(name.id)
}

/// Drops the messages about errors that are received next. The daemon sends another one if there is more to say.
fn drop_errors(fd: BorrowedFd<'_>, name: &Name) {
    while is_error_next(fd, name) && receive_any(fd, &mut [0; HEAD_LEN], RecvFlags::empty()).is_ok() {}
}

/// Whether the message that is received next is about an error.
#[must_use]
pub fn is_error_next(fd: BorrowedFd<'_>, name: &Name) -> bool {
    let mut bytes = [0; HEAD_LEN];
    let Ok(got) = receive_any(fd, &mut bytes, RecvFlags::PEEK) else { return false };
    let has_header = is_addressed(name) || got.is_marked;
    let header = || bytes.get(..got.len).filter(|_| has_header).and_then(Head::parse);
    got.head.or_else(header).is_some_and(|head| head.error != 0)
}

const NOW: Option<core::time::Duration> = Some(core::time::Duration::ZERO);

/// A message of a pair.
struct Got {
    len: usize,
    /// The header that came in a file.
    head: Option<Head>,
    /// A descriptor came with it.
    is_marked: bool,
}

fn receive_any(fd: BorrowedFd<'_>, bytes: &mut [u8], flags: RecvFlags) -> Result<Got, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(fd, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let (mut head, mut is_marked) = (None, false);
    for message in control.drain() {
        let RecvAncillaryMessage::ScmRights(files) = message else { continue };
        is_marked = true;
        head = files.filter_map(|file| read_head(&file)).last().or(head);
    }
    Ok(Got { len: got.bytes, head, is_marked })
}

fn read_head(file: &OwnedFd) -> Option<Head> {
    let mut bytes = [0; HEAD_LEN];
    let count = rustix::io::pread(file, &mut bytes, 0).ok()?;
    Head::parse(bytes.get(..count)?)
}

/// Sends a datagram by a socket whose headers come with descriptors; it never waits. `head` names the receiver, or [`NO_ADDR`].
///
/// # Errors
/// `EDESTADDRREQ` without a receiver, `EAGAIN`, and those of `sendmsg(2)`.
pub fn send(fd: BorrowedFd<'_>, name: &Name, head: &Head, bytes: &[u8]) -> Result<usize, Errno> {
    let to = if head.peer == NO_ADDR { name.remote } else { head.peer };
    if to != NO_ADDR {
        check(fd, name, to, bytes.len())?;
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let is_named = head.peer != NO_ADDR;
    if !is_addressed(name) && (!is_named || head.peer == name.remote) && !head.details.any() {
        return rustix::net::send(fd, bytes, flags);
    }
    if is_addressed(name) && !is_named {
        return Err(Errno::DESTADDRREQ);
    }
    let header = head.emit();
    let sent = send_marked(fd, &[IoSlice::new(&header), IoSlice::new(bytes)])?;
    Ok(sent.saturating_sub(HEAD_LEN))
}

fn send_marked(fd: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
    static MARK: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let mark = MARK.get_or_init(|| eventfd(0, EventfdFlags::CLOEXEC).ok()).as_ref().ok_or(Errno::NOBUFS)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [mark.as_fd()];
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(Errno::NOBUFS);
    }
    sendmsg(fd, parts, &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
}

/// Gives back what waits to be received at a socket without a peer, which is about to get one.
pub(super) fn give_back(fd: BorrowedFd<'_>, name: &Name) {
    let mut bytes = if is_addressed(name) { vec![0; MESSAGE_MAX] } else { return };
    while let Ok(Got { len: count, head: told, .. }) = receive_any(fd, &mut bytes, RecvFlags::empty())
        && (count > 0 || told.is_some())
    {
        let message = bytes.get(..count).unwrap_or_default();
        let (head, rest) = match (told, message.split_at_checked(HEAD_LEN)) {
            (Some(head), _) => (head, message),
            (None, Some((header, rest))) => {
                let Some(head) = Head::parse(header) else { continue };
                (head, rest)
            }
            (None, None) => continue,
        };
        // The daemon knows it.
        if head.error != 0 {
            continue;
        }
        let header = Head { is_returned: true, ..head }.emit();
        let parts = [IoSlice::new(&header), IoSlice::new(rest)];
        // A mark where the message came with one.
        let sent = match told {
            Some(_) => send_marked(fd, &parts),
            None => {
                let mut none = SendAncillaryBuffer::new(&mut []);
                sendmsg(fd, &parts, &mut none, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            }
        };
        if sent.is_err() {
            return;
        }
    }
}
