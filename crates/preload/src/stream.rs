//! What calls do with sockets of pantala.

use core::ffi::c_int;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, FdFlags, fcntl_getfd};
use rustix::net::ipproto;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrAny, SocketAddrUnix, SocketType, getpeername};
use wire::program::{ADDR_LEN, NO_ADDR, Name, Options, Request, Role, Transport, parse_addr};

use crate::daemon::{ask, may_be_ours, receive};
use crate::{datagram, options};

/// Duration of an `accept` whose daemon is gone: a server that goes on to accept would keep a processor busy.
const PAUSE_WITHOUT_DAEMON: Duration = Duration::from_millis(10);

/// What became of a call about a socket that may be pantala's.
pub(crate) type Taken<T> = Option<Result<T, Errno>>;

/// The identity of a socket; `None` if it is not pantala's.
pub(crate) fn name(fd: BorrowedFd<'_>) -> Option<Name> {
    let peer: SocketAddrAny = getpeername(fd).ok()??;
    let peer = SocketAddrUnix::try_from(peer).ok()?;
    Name::parse(peer.abstract_name()?)
}

/// Binds a socket to an address of pantala; `None`: the address or the socket is the kernel's.
pub(crate) fn bind(fd: BorrowedFd<'_>, addr: SocketAddr) -> Taken<()> {
    if !may_be_ours(addr) {
        return None;
    }
    let Some(transport) = transport(fd) else { return name(fd).map(|_| Err(Errno::INVAL)) };
    // Which port it is, and whether it is pantala's, is decided when it sends.
    if transport == Transport::Udp && addr.port() == 0 && addr.ip().is_unspecified() {
        return None;
    }
    let options = options(fd, transport);
    match ask(&Request::Bind { transport, addr, options }) {
        Err(Errno::ADDRNOTAVAIL) => None,
        Err(why) => Some(Err(why)),
        Ok(answer) => Some(answer.descriptor.ok_or(Errno::MFILE).and_then(|new| put_in_place(fd, new))),
    }
}

/// Connects a socket; `None`: there is no route by pantala, or the socket is the kernel's.
pub(crate) fn connect(fd: BorrowedFd<'_>, remote: SocketAddr) -> Taken<()> {
    let (transport, id) = match name(fd) {
        Some(Name { role: Role::Listener, id, .. }) => (Transport::Tcp, id),
        Some(name) if name.role == Role::Datagram => {
            datagram::give_back(fd, &name);
            (Transport::Udp, name.id)
        }
        Some(_) => return Some(connect_again(fd)),
        None if may_be_ours(remote) && !remote.ip().is_unspecified() => (transport(fd)?, 0),
        None => return None,
    };
    let local = if transport == Transport::Udp && id == 0 { datagram::bound(fd) } else { NO_ADDR };
    // One that is bound to an address of the kernel stays there.
    if !local.ip().is_unspecified() {
        return None;
    }
    let options = if id == 0 { options(fd, transport) } else { Options::default() };
    match ask(&Request::Connect { transport, id, local, remote, options }) {
        Err(Errno::NETUNREACH) if id == 0 => None,
        Err(why) => Some(Err(why)),
        Ok(answer) => {
            let placed = answer.descriptor.ok_or(Errno::MFILE).and_then(|new| put_in_place(fd, new));
            Some(match transport {
                Transport::Tcp => placed.and_then(|()| wait(fd)),
                Transport::Udp => placed,
            })
        }
    }
}

/// Removes the peer of a socket of datagrams; `None`: the socket is the kernel's.
pub(crate) fn disconnect(fd: BorrowedFd<'_>) -> Taken<()> {
    let name = name(fd)?;
    if name.role != Role::Datagram {
        return Some(Err(Errno::AFNOSUPPORT));
    }
    if datagram::is_addressed(&name) {
        return Some(Ok(()));
    }
    let answer = match ask(&Request::Disconnect(name.id)) {
        Ok(answer) => answer,
        Err(why) => return Some(Err(why)),
    };
    Some(answer.descriptor.ok_or(Errno::MFILE).and_then(|new| put_in_place(fd, new)))
}

/// A socket accepts connections; `None`: it is the kernel's.
pub(crate) fn listen(fd: BorrowedFd<'_>, backlog: c_int) -> Taken<()> {
    let name = name(fd)?;
    Some(match name.role {
        // A negative number is a large one.
        Role::Listener => {
            let backlog = u32::try_from(backlog).unwrap_or(u32::MAX);
            ask(&Request::Listen { id: name.id, backlog }).map(drop)
        }
        Role::Stream => Err(Errno::INVAL),
        Role::Datagram => Err(Errno::OPNOTSUPP),
    })
}

/// The options of a socket of the kernel that were set.
pub(crate) fn options(fd: BorrowedFd<'_>, transport: Transport) -> Options {
    let is_v6 = sockopt::socket_domain(fd).is_ok_and(|domain| domain == AddressFamily::INET6);
    options::set_before(fd, transport, is_v6)
}

/// Waits until a connection stands, if its socket blocks.
fn wait(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    if fcntl_getfl(fd)?.contains(OFlags::NONBLOCK) {
        return Err(Errno::INPROGRESS);
    }
    let within = sockopt::socket_timeout(fd, Timeout::Send).ok().flatten().filter(|within| !within.is_zero());
    if !is_ready(fd, PollFlags::OUT, within)? {
        return Err(Errno::INPROGRESS);
    }
    outcome(fd).map_or(Ok(()), Err)
}

/// Answers a program that connects what is connected, or will be.
fn connect_again(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    match is_ready(fd, PollFlags::OUT, Some(Duration::ZERO))? {
        false => Err(Errno::ALREADY),
        true => Err(outcome(fd).unwrap_or(Errno::ISCONN)),
    }
}

pub(crate) fn is_ready(fd: BorrowedFd<'_>, what: PollFlags, within: Option<Duration>) -> Result<bool, Errno> {
    let within = within.map(|within| Timespec {
        tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: within.subsec_nanos().into(),
    });
    Ok(poll(&mut [PollFd::new(&fd, what)], within.as_ref())? > 0)
}

/// The error with which a connection has ended; `None` if it has not, or in order.
pub(crate) fn outcome(fd: BorrowedFd<'_>) -> Option<Errno> {
    let Name { role: Role::Stream, id, .. } = name(fd)? else { return None };
    // `poll` reports a hang-up unasked.
    if !is_ready(fd, PollFlags::empty(), Some(Duration::ZERO)).unwrap_or(false) {
        return None;
    }
    match ask(&Request::Outcome(id)) {
        Ok(_) => None,
        // The daemon is gone, and the connection with it.
        Err(Errno::NETDOWN) => Some(Errno::CONNRESET),
        Err(why) => Some(why),
    }
}

/// Accepts a connection, and where it comes from; `None`: the listener is the kernel's.
pub(crate) fn accept(fd: BorrowedFd<'_>, flags: c_int) -> Taken<(OwnedFd, SocketAddr)> {
    match name(fd)?.role {
        Role::Listener => Some(accept_here(fd, flags)),
        Role::Stream => Some(Err(Errno::INVAL)),
        Role::Datagram => Some(Err(Errno::OPNOTSUPP)),
    }
}

fn accept_here(fd: BorrowedFd<'_>, flags: c_int) -> Result<(OwnedFd, SocketAddr), Errno> {
    if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
        return Err(Errno::INVAL);
    }
    let mut bytes = [0; ADDR_LEN];
    let cloexec = flags & libc::SOCK_CLOEXEC != 0;
    let how = if cloexec { RecvFlags::CMSG_CLOEXEC } else { RecvFlags::empty() };
    let (count, new) = receive(fd, &mut bytes, how)?;
    if count == 0 {
        std::thread::sleep(PAUSE_WITHOUT_DAEMON);
        return Err(Errno::NETDOWN);
    }
    // Without room for the descriptor the kernel has closed it.
    let new = new.ok_or(Errno::MFILE)?;
    if flags & libc::SOCK_NONBLOCK != 0 {
        rustix::io::ioctl_fionbio(&new, true)?;
    }
    Ok((new, parse_addr(&bytes).unwrap_or(NO_ADDR)))
}

/// Returns the local address; `None`: the socket is the kernel's.
pub(crate) fn local(fd: BorrowedFd<'_>) -> Option<SocketAddr> {
    let name = name(fd)?;
    if name.role != Role::Stream || name.local != NO_ADDR {
        return Some(name.local);
    }
    let none = match name.remote {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let found = ask(&Request::Local(name.id)).map_or(none, |answer| answer.addr);
    Some(like(found, name.remote))
}

/// An IPv4 address as an IPv6 socket has it, if `other` is IPv6.
fn like(addr: SocketAddr, other: SocketAddr) -> SocketAddr {
    match (addr, other) {
        (SocketAddr::V4(at), SocketAddr::V6(_)) => (at.ip().to_ipv6_mapped(), at.port()).into(),
        _ => addr,
    }
}

/// The transport protocol of a socket of the kernel; `None`: it is neither TCP's nor UDP's.
pub(crate) fn transport(fd: BorrowedFd<'_>) -> Option<Transport> {
    let is_ip = sockopt::socket_domain(fd)
        .is_ok_and(|domain| matches!(domain, AddressFamily::INET | AddressFamily::INET6));
    let is_ours = is_ip && !options::is_on_device(fd);
    let protocol = sockopt::socket_protocol(fd).ok().flatten().filter(|_| is_ours)?;
    match (sockopt::socket_type(fd).ok()?, protocol) {
        (SocketType::STREAM, ipproto::TCP) => Some(Transport::Tcp),
        (SocketType::DGRAM, ipproto::UDP) => Some(Transport::Udp),
        _ => None,
    }
}

/// Puts a socket in the place of the program's own, which has the same number then, and is as that was.
pub(crate) fn put_in_place(fd: BorrowedFd<'_>, new: OwnedFd) -> Result<(), Errno> {
    let blocks = fcntl_getfl(fd)? & OFlags::NONBLOCK;
    fcntl_setfl(&new, fcntl_getfl(&new)? | blocks)?;
    copy_options(fd, new.as_fd());
    // From now on calls that receive ask whether a socket is one of datagrams.
    let _ = datagram::name(new.as_fd());
    let cloexec = fcntl_getfd(fd)?.contains(FdFlags::CLOEXEC);
    let flags = if cloexec { libc::O_CLOEXEC } else { 0 };
    let numbers = [new.as_raw_fd(), fd.as_raw_fd(), flags];
    let [new, old, flags] = numbers.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    match crate::sys::call(libc::SYS_dup3, [new, old, flags, 0, 0, 0]) {
        -1 => Err(Errno::from_raw_os_error(crate::sys::errno())),
        _ => Ok(()),
    }
}

/// Options that the kernel keeps for any kind of socket.
fn copy_options(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    for which in [Timeout::Recv, Timeout::Send] {
        if let Ok(within) = sockopt::socket_timeout(from, which) {
            let _ = sockopt::set_socket_timeout(to, which, within);
        }
    }
    if let Ok(reuse) = sockopt::socket_reuseaddr(from) {
        let _ = sockopt::set_socket_reuseaddr(to, reuse);
    }
}
