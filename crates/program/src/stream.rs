//! What calls do with sockets of pantala.

use core::ffi::c_int;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::ipproto;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrAny, SocketAddrUnix, SocketType, getpeername};
use wire::program::{ADDR_LEN, INTERFACE_BASE, NO_ADDR, Name, Options, Request, Role, Transport, parse_addr};

use crate::daemon::{Answer, ask, may_be_ours, receive};
use crate::{Socket, datagram, options};

/// Duration of an `accept` whose daemon is gone: a server that goes on to accept would keep a processor busy.
const PAUSE_WITHOUT_DAEMON: Duration = Duration::from_millis(10);

/// What became of a call about a socket that may be pantala's.
pub type Taken<T> = Option<Result<T, Errno>>;

/// The identity of a socket; `None` if it is not pantala's.
pub fn name(fd: BorrowedFd<'_>) -> Option<Name> {
    let peer: SocketAddrAny = getpeername(fd).ok()??;
    let peer = SocketAddrUnix::try_from(peer).ok()?;
    Name::parse(peer.abstract_name()?)
}

/// Binds a socket to an address of pantala; `None`: the address or the socket is the kernel's.
pub fn bind<S: Socket>(socket: &S, addr: SocketAddr) -> Taken<()> {
    if !may_be_ours(addr) {
        return None;
    }
    let Some(transport) = transport(socket) else {
        return name(socket.fd()).map(|name| bind_again(socket, &name, addr));
    };
    // Which port it is, and whether it is pantala's, is decided when it sends.
    let is_on_device = options::is_on_our_device::<S>(socket.fd());
    if transport == Transport::Udp && addr.port() == 0 && addr.ip().is_unspecified() && !is_on_device {
        return None;
    }
    let options = options(socket, transport);
    match ask(&Request::Bind { transport, addr, options }) {
        Err(Errno::ADDRNOTAVAIL) if !is_on_device => None,
        Err(why) => Some(Err(why)),
        Ok(answer) => Some(placed(socket, answer)),
    }
}

/// Binds a socket of pantala, if that is one of datagrams that is not bound yet.
fn bind_again<S: Socket>(socket: &S, name: &Name, addr: SocketAddr) -> Result<(), Errno> {
    if name.role != Role::Datagram {
        return Err(Errno::INVAL);
    }
    let request = Request::Rebind { id: name.id, addr, options: Options::default() };
    ask(&request).and_then(|answer| placed(socket, answer))
}

/// The result of a call that connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connected {
    /// It is connected.
    Yes,
    /// The connection begins: the socket is writable when it stands, and [`outcome`] tells why if it does not.
    Begins,
}

/// Connects a socket; `None`: there is no route by pantala, or the socket is the kernel's.
pub fn connect<S: Socket>(socket: &S, remote: SocketAddr) -> Taken<Connected> {
    let fd = socket.fd();
    let (transport, id) = match name(fd) {
        Some(Name { role: Role::Listener, id, .. }) => (Transport::Tcp, id),
        Some(name) if name.role == Role::Datagram => {
            datagram::give_back(fd, &name);
            (Transport::Udp, name.id)
        }
        Some(_) => return Some(connect_again(fd)),
        None if may_be_ours(remote) && !remote.ip().is_unspecified() => (transport(socket)?, 0),
        None => return None,
    };
    let local = if transport == Transport::Udp && id == 0 { datagram::bound(fd) } else { NO_ADDR };
    // One that is bound to an address of the kernel stays there.
    if !local.ip().is_unspecified() {
        return None;
    }
    let options = if id == 0 { options(socket, transport) } else { Options::default() };
    match ask(&Request::Connect { transport, id, local, remote, options }) {
        Err(Errno::NETUNREACH) if id == 0 && !options::is_on_our_device::<S>(fd) => None,
        Err(why) => Some(Err(why)),
        Ok(answer) => Some(connected(socket, answer, transport)),
    }
}

/// Puts a socket that connects in place.
fn connected<S: Socket>(socket: &S, answer: Answer, transport: Transport) -> Result<Connected, Errno> {
    // Of TCP with `TCP_FASTOPEN_CONNECT` as well: its first bytes go with the SYN.
    let is_at_once = answer.value != 0 || transport == Transport::Udp;
    placed(socket, answer)?;
    Ok(if is_at_once { Connected::Yes } else { Connected::Begins })
}

pub(crate) fn placed<S: Socket>(socket: &S, answer: Answer) -> Result<(), Errno> {
    answer.descriptor.ok_or(Errno::MFILE).and_then(|new| socket.put_in_place(new))
}

/// Removes the peer of a socket of datagrams; `None`: the socket is the kernel's.
pub fn disconnect<S: Socket>(socket: &S) -> Taken<()> {
    let name = name(socket.fd())?;
    if name.role != Role::Datagram {
        return Some(Err(Errno::AFNOSUPPORT));
    }
    if datagram::is_addressed(&name) {
        return Some(Ok(()));
    }
    Some(ask(&Request::Disconnect(name.id)).and_then(|answer| placed(socket, answer)))
}

/// A socket accepts connections; `None`: it is the kernel's.
pub fn listen(fd: BorrowedFd<'_>, backlog: c_int) -> Taken<()> {
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
pub fn options<S: Socket>(socket: &S, transport: Transport) -> Options {
    let is_v6 = sockopt::socket_domain(socket.fd()).is_ok_and(|domain| domain == AddressFamily::INET6);
    options::set_before(socket, transport, is_v6)
}

/// Waits until a connection stands, if its socket blocks.
///
/// # Errors
/// The errors of `connect(2)`.
pub fn wait(fd: BorrowedFd<'_>) -> Result<(), Errno> {
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
fn connect_again(fd: BorrowedFd<'_>) -> Result<Connected, Errno> {
    match is_ready(fd, PollFlags::OUT, Some(Duration::ZERO))? {
        false => Err(Errno::ALREADY),
        true => Err(outcome(fd).unwrap_or(Errno::ISCONN)),
    }
}

/// Whether a descriptor is ready, within a time.
///
/// # Errors
/// The errors of `poll(2)`.
pub fn is_ready(fd: BorrowedFd<'_>, what: PollFlags, within: Option<Duration>) -> Result<bool, Errno> {
    let within = within.map(|within| Timespec {
        tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: within.subsec_nanos().into(),
    });
    Ok(poll(&mut [PollFd::new(&fd, what)], within.as_ref())? > 0)
}

/// Whether the daemon has ended a connection.
pub fn has_ended(fd: BorrowedFd<'_>) -> bool {
    // `poll` reports a hang-up unasked.
    is_ready(fd, PollFlags::empty(), Some(Duration::ZERO)).unwrap_or(false)
}

/// The error with which a connection has ended, which is told once; `None` if it has not, or in order.
pub fn outcome(fd: BorrowedFd<'_>) -> Option<Errno> {
    let Name { role: Role::Stream, id, .. } = name(fd)? else { return None };
    if !has_ended(fd) {
        return None;
    }
    match ask(&Request::Outcome(id)) {
        Ok(_) => None,
        // The daemon is gone, and the connection with it.
        Err(Errno::NETDOWN) => Some(Errno::CONNRESET),
        Err(why) => Some(why),
    }
}

/// Accepts a connection, and where it comes from; `None`: the listener is the kernel's. Whether it waits, say the socket and `how`.
pub fn accept(fd: BorrowedFd<'_>, flags: c_int, how: RecvFlags) -> Taken<(OwnedFd, SocketAddr)> {
    match name(fd)?.role {
        Role::Listener => Some(accept_here(fd, flags, how)),
        Role::Stream => Some(Err(Errno::INVAL)),
        Role::Datagram => Some(Err(Errno::OPNOTSUPP)),
    }
}

fn accept_here(fd: BorrowedFd<'_>, flags: c_int, how: RecvFlags) -> Result<(OwnedFd, SocketAddr), Errno> {
    if flags & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != 0 {
        return Err(Errno::INVAL);
    }
    let mut bytes = [0; ADDR_LEN];
    let cloexec = flags & libc::SOCK_CLOEXEC != 0;
    let how = how | if cloexec { RecvFlags::CMSG_CLOEXEC } else { RecvFlags::empty() };
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
pub fn local(fd: BorrowedFd<'_>) -> Option<SocketAddr> {
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
pub fn transport<S: Socket>(socket: &S) -> Option<Transport> {
    let fd = socket.fd();
    let is_ip = sockopt::socket_domain(fd)
        .is_ok_and(|domain| matches!(domain, AddressFamily::INET | AddressFamily::INET6));
    let device = if is_ip { options::device::<S>(fd) } else { 0 };
    let is_ours = is_ip && (device == 0 || device & INTERFACE_BASE != 0);
    let protocol = sockopt::socket_protocol(fd).ok().flatten().filter(|_| is_ours)?;
    match (sockopt::socket_type(fd).ok()?, protocol) {
        // A connection of MPTCP whose peer has none is one of TCP.
        (SocketType::STREAM, ipproto::TCP | ipproto::MPTCP) => Some(Transport::Tcp),
        (SocketType::DGRAM, ipproto::UDP) => Some(Transport::Udp),
        _ => None,
    }
}

/// Prepares a socket that comes in the place of `old`: it blocks or does not, and has the time limits and what the kernel keeps for any
/// kind of socket, as that.
///
/// # Errors
/// `old` is gone.
pub fn prepare(old: BorrowedFd<'_>, new: BorrowedFd<'_>) -> Result<(), Errno> {
    let blocks = fcntl_getfl(old)? & OFlags::NONBLOCK;
    fcntl_setfl(new, fcntl_getfl(new)? | blocks)?;
    copy_options(old, new);
    Ok(())
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
