//! `getsockopt(2)` and `setsockopt(2)` of sockets of pantala.

use core::ffi::c_int;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use wire::program::{INTERFACE_BASE, Name, Request, Role, SockOpt, own_number, seen_number};

use crate::daemon::{ask, ask_info, tell};
use crate::{Socket, addr, datagram, filter, interfaces, options, stream};

/// Where `struct tcp_info` has `tcpi_pmtu`.
const PMTU: usize = 60;
/// States of `struct tcp_info`.
const SYN_SENT: u8 = 2;
const CLOSE: u8 = 7;
const LISTEN: u8 = 10;
/// Bytes of a value at the most that are looked at.
pub const VALUE_MAX: usize = filter::VALUE_MAX;

/// Options of the system that say when segments leave or how buffers are used, and have no effect: segments leave as they are
/// written.
const HINTS: &[(c_int, c_int)] = &[
    (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
    (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT),
    (libc::IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS),
    (libc::IPPROTO_TCP, libc::TCP_THIN_DUPACK),
    (libc::IPPROTO_IP, libc::IP_FREEBIND),
];

/// Options about one sender of a group, which libc does not have.
const MCAST_BLOCK_SOURCE: c_int = 43;
const MCAST_UNBLOCK_SOURCE: c_int = 44;
const MCAST_JOIN_SOURCE_GROUP: c_int = 46;
const MCAST_LEAVE_SOURCE_GROUP: c_int = 47;

/// The program has turned `TCP_NODELAY` off at a socket: until then it is on at all, and need not be turned on.
static WAS_DELAYED: AtomicBool = AtomicBool::new(false);

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An `int`.
    Number(c_int),
    /// A structure, or a name.
    Bytes(Vec<u8>),
}

/// Returns the value of an option of a socket of pantala, whose place has what is `given`; `None`: the kernel keeps it.
///
/// # Errors
/// The errors of `getsockopt(2)`.
pub fn get(
    fd: BorrowedFd<'_>,
    name: &Name,
    (level, option): (c_int, c_int),
    given: &[u8],
) -> Result<Option<Value>, Errno> {
    if filter::is_whole((level, option)) {
        return filter::get(name, option, given).map(|value| Some(Value::Bytes(value)));
    }
    let is_datagram = name.role == Role::Datagram;
    let number = match (level, option) {
        (libc::SOL_SOCKET, libc::SO_TYPE) if is_datagram => libc::SOCK_DGRAM,
        (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) if is_datagram => libc::IPPROTO_UDP,
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_TCP,
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => family(name),
        (libc::SOL_SOCKET, libc::SO_ERROR) if is_datagram => {
            datagram::take_error(fd, name).map_or(0, Errno::raw_os_error)
        }
        (libc::SOL_SOCKET, libc::SO_ERROR) => stream::outcome(fd).map_or(0, Errno::raw_os_error),
        (libc::IPPROTO_TCP, _) if is_datagram => return Err(Errno::NOPROTOOPT),
        (libc::IPPROTO_TCP, libc::TCP_INFO) => return info(fd, name).map(|info| Some(Value::Bytes(info))),
        (libc::IPPROTO_IP, libc::IP_MTU) | (libc::IPPROTO_IPV6, libc::IPV6_MTU) => {
            let info = ask_info(name.id).map_err(|_| Errno::NOTCONN)?;
            info[PMTU..].first_chunk().map_or(0, |mtu| c_int::from_ne_bytes(*mtu))
        }
        (libc::SOL_SOCKET, libc::SO_BINDTODEVICE) => {
            return Ok(Some(Value::Bytes(device_name(device(name)?))));
        }
        (libc::SOL_SOCKET, options::SO_BINDTOIFINDEX) => device(name)?.cast_signed(),
        hint if HINTS.contains(&hint) => 0,
        _ => match options::known(level, option) {
            Some(option) if options::is_kept(option) => return Ok(None),
            Some(option) => {
                let value = ask(&Request::Get { id: name.id, option })?.value;
                if option == SockOpt::Congestion {
                    return Ok(Some(Value::Bytes(options::algorithm_name(value).to_vec())));
                }
                value
            }
            None if level == libc::SOL_SOCKET => return Ok(None),
            None => return Err(Errno::NOPROTOOPT),
        },
    };
    Ok(Some(Value::Number(number)))
}

/// `TCP_INFO`; of a socket without a connection it has its state alone.
fn info(fd: BorrowedFd<'_>, name: &Name) -> Result<Vec<u8>, Errno> {
    if let Ok(info) = ask_info(name.id) {
        return Ok(info.to_vec());
    }
    let state = match name.role {
        Role::Listener if ask(&Request::Get { id: name.id, option: SockOpt::AcceptConn })?.value != 0 => {
            LISTEN
        }
        // Its error is not asked for: it is told once.
        Role::Stream if !stream::has_ended(fd) => SYN_SENT,
        _ => CLOSE,
    };
    let mut bytes = vec![0; wire::program::INFO_LEN];
    bytes[0] = state;
    Ok(bytes)
}

/// Sets an option of a socket of pantala; `None`: the kernel keeps it. What the kernel keeps as well, `keep` sets there, which checks it.
///
/// # Errors
/// The errors of `setsockopt(2)`.
pub fn set(
    name: &Name,
    (level, number): (c_int, c_int),
    bytes: &[u8],
    keep: impl FnOnce() -> Result<(), Errno>,
) -> Result<Option<()>, Errno> {
    if (level, number) == (libc::SOL_SOCKET, options::SO_BINDTOIFINDEX) {
        let number = bytes.first_chunk().map(|number| u32::from_ne_bytes(*number)).ok_or(Errno::INVAL)?;
        if number != 0 && interfaces::numbered(seen_number(own_number(number))).is_none() {
            return Err(Errno::NODEV);
        }
        return bind_to(name, number).map(Some);
    }
    if let Some(option) = options::known(level, number) {
        if options::is_kept(option) {
            keep()?;
        }
        return set_known(name, level, option, bytes).map(Some);
    }
    match (level, number) {
        hint if HINTS.contains(&hint) => Ok(Some(())),
        (libc::SOL_SOCKET, libc::SO_BINDTODEVICE) => match interfaces::trimmed(bytes) {
            // None is meant.
            [] => bind_to(name, 0).map(Some),
            wanted => bind_to(name, interfaces::named(wanted).ok_or(Errno::NODEV)?.number).map(Some),
        },
        (libc::SOL_SOCKET, _) => Ok(None),
        option => group(name, option, bytes).unwrap_or(Err(Errno::NOPROTOOPT)).map(Some),
    }
}

/// Returns the number of the interface that a socket of pantala is bound to, as programs see it; 0: none.
fn device(name: &Name) -> Result<u32, Errno> {
    let own = ask(&Request::Get { id: name.id, option: SockOpt::Device })?.value.cast_unsigned();
    Ok(if own == 0 { 0 } else { seen_number(own) })
}

/// The value of `SO_BINDTODEVICE`: a name and a zero, or nothing.
fn device_name(number: u32) -> Vec<u8> {
    let own = interfaces::numbered(number);
    own.map(|own| [own.name(), &[0]].concat()).unwrap_or_default()
}

/// Binds a socket of pantala to an interface, or to none. That of a socket with a peer stays: its route and its addresses follow from it.
fn bind_to(name: &Name, number: u32) -> Result<(), Errno> {
    let has_peer = match name.role {
        Role::Listener => false,
        Role::Stream => true,
        Role::Datagram => !datagram::is_addressed(name),
    };
    let value = own_number(number).cast_signed();
    if has_peer {
        return if own_number(device(name)?).cast_signed() == value { Ok(()) } else { Err(Errno::INVAL) };
    }
    ask(&Request::Set { id: name.id, option: SockOpt::Device, value }).map(drop)
}

/// Returns the number of the interface of pantala that a program names in `SO_BINDTODEVICE` of a socket that is the kernel's yet; `None`: the
/// kernel does what was asked. The kernel keeps the number (`SO_BINDTOIFINDEX`) until the socket becomes pantala's.
pub fn device_before<S: Socket>(socket: &S, option: (c_int, c_int), bytes: &[u8]) -> Option<u32> {
    if option != (libc::SOL_SOCKET, libc::SO_BINDTODEVICE) || stream::transport(socket).is_none() {
        return None;
    }
    interfaces::named(interfaces::trimmed(bytes)).map(|own| own.number)
}

/// Returns the value of `SO_BINDTODEVICE` of a socket that is the kernel's yet; `None`: the kernel answers.
pub fn bound_before<S: Socket>(fd: BorrowedFd<'_>, option: (c_int, c_int)) -> Option<Vec<u8>> {
    let asked = option == (libc::SOL_SOCKET, libc::SO_BINDTODEVICE);
    let number = if asked { options::device::<S>(fd) } else { 0 };
    (number & INTERFACE_BASE != 0).then(|| device_name(number))
}

fn set_known(name: &Name, level: c_int, option: SockOpt, bytes: &[u8]) -> Result<(), Errno> {
    if level == libc::IPPROTO_TCP && name.role == Role::Datagram {
        return Err(Errno::NOPROTOOPT);
    }
    let value = options::value(level, option, bytes)?;
    // It is for what is not connected yet.
    if option == SockOpt::FastOpenConnect && name.role == Role::Stream {
        return Err(Errno::INVAL);
    }
    if option == SockOpt::NoDelay {
        if value != 0 && !WAS_DELAYED.load(Ordering::Relaxed) {
            return Ok(());
        }
        WAS_DELAYED.store(true, Ordering::Relaxed);
    }
    let request = Request::Set { id: name.id, option, value };
    // A value that is right is set, unless the connection has ended. What is written behind a cork must not overtake it.
    let may_follow = name.role == Role::Stream && option != SockOpt::Cork;
    if may_follow { tell(&request) } else { ask(&request).map(drop) }
}

/// Makes a socket of the kernel that is not bound pantala's, if a program names a group or an interface of groups that is pantala's; `None`: the
/// option is the kernel's. What is joined without an interface is pantala's, as is what is bound without an address.
pub fn begin_for_group<S: Socket>(socket: &S, option: (c_int, c_int), bytes: &[u8]) -> stream::Taken<()> {
    let (addr, number, joins) = interface_of_groups(option, bytes)?;
    let is_named = addr.is_some_and(|addr| !addr.is_unspecified()) || number != 0;
    let is_ours = match addr.filter(|addr| !addr.is_unspecified()) {
        Some(addr) => interfaces::list()?.iter().any(|own| own.addrs.iter().any(|(ip, _)| *ip == addr)),
        None if is_named => number & INTERFACE_BASE != 0,
        None => joins,
    };
    if is_ours { datagram::begin_unbound(socket) } else { None }
}

/// Returns the interface that an option of groups names, by its address or else its number, and whether it is about a group.
fn interface_of_groups(option: (c_int, c_int), bytes: &[u8]) -> Option<(Option<IpAddr>, u32, bool)> {
    let v4 = |at: usize| Some(IpAddr::from(*bytes.get(at..)?.first_chunk::<4>()?));
    let number = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk::<4>()?));
    Some(match option {
        (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP) => (v4(4), number(8).unwrap_or(0), true),
        (libc::IPPROTO_IP, libc::IP_ADD_SOURCE_MEMBERSHIP) => (v4(4), 0, true),
        (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP) => (None, number(16)?, true),
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, libc::MCAST_JOIN_GROUP | MCAST_JOIN_SOURCE_GROUP) => {
            (None, number(0)?, true)
        }
        (libc::IPPROTO_IP, libc::IP_MULTICAST_IF) => {
            (v4(if bytes.len() >= 8 { 4 } else { 0 }), number(8).unwrap_or(0), false)
        }
        (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF) => (None, number(0)?, false),
        _ => return None,
    })
}

/// Joins or leaves a group, or chooses the interface of groups; `None`: the option is another.
fn group(name: &Name, option: (c_int, c_int), bytes: &[u8]) -> Option<Result<(), Errno>> {
    let none = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let v4 = |at: usize| Some(Ipv4Addr::from(*bytes.get(at..)?.first_chunk::<4>()?));
    let number = |at: usize| Some(own_number(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk::<4>()?)));
    if filter::is_whole(option) {
        return Some(filter::set(name, option.1, bytes));
    }
    if let Some(change) = sender_change(option) {
        return Some(of_sender(name, option.1, change, bytes));
    }
    let (group, addr, interface, joins) = match option {
        (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP | libc::IP_DROP_MEMBERSHIP) => {
            let joins = option.1 == libc::IP_ADD_MEMBERSHIP;
            // `struct ip_mreqn` names an interface by its number, too.
            (v4(0).map(IpAddr::V4), v4(4).map(IpAddr::V4), number(8).or(Some(0)), joins)
        }
        (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP | libc::IPV6_DROP_MEMBERSHIP) => {
            let group = bytes.first_chunk::<16>().map(|ip| IpAddr::from(Ipv6Addr::from(*ip)));
            (group, Some(none), number(16), option.1 == libc::IPV6_ADD_MEMBERSHIP)
        }
        (libc::IPPROTO_IP | libc::IPPROTO_IPV6, libc::MCAST_JOIN_GROUP | libc::MCAST_LEAVE_GROUP) => {
            // `struct group_req`: the address stands at a multiple of eight.
            let group = bytes.get(8..).and_then(addr::parse);
            let group = group.map(|at| at.ip());
            (group, Some(none), number(0), option.1 == libc::MCAST_JOIN_GROUP)
        }
        (libc::IPPROTO_IP, libc::IP_MULTICAST_IF) => {
            let long = bytes.len() >= 8;
            let addr = v4(if long { 4 } else { 0 }).map(IpAddr::V4);
            return Some(chosen(name, addr, number(8).or(Some(0))));
        }
        (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF) => return Some(chosen(name, Some(none), number(0))),
        _ => return None,
    };
    let (Some(group), Some(addr), Some(interface)) = (group, addr, interface) else {
        return Some(Err(Errno::INVAL));
    };
    Some(
        ask(&Request::Group { id: name.id, group: Some(group), addr, interface, joins, sender: None })
            .map(drop),
    )
}

/// What an option does with a sender of a group: whether it is added, and whether it is one of those that are blocked.
const fn sender_change(option: (c_int, c_int)) -> Option<(bool, bool)> {
    Some(match option {
        (libc::IPPROTO_IP, libc::IP_ADD_SOURCE_MEMBERSHIP)
        | (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_JOIN_SOURCE_GROUP) => (true, false),
        (libc::IPPROTO_IP, libc::IP_DROP_SOURCE_MEMBERSHIP)
        | (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_LEAVE_SOURCE_GROUP) => (false, false),
        (libc::IPPROTO_IP, libc::IP_BLOCK_SOURCE)
        | (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_BLOCK_SOURCE) => (true, true),
        (libc::IPPROTO_IP, libc::IP_UNBLOCK_SOURCE)
        | (libc::IPPROTO_IP | libc::IPPROTO_IPV6, MCAST_UNBLOCK_SOURCE) => (false, true),
        _ => return None,
    })
}

/// Listens to a sender of a group, or blocks it, or no longer (RFC 3678 §4 and §5).
fn of_sender(
    name: &Name,
    option: c_int,
    (joins, is_blocked): (bool, bool),
    bytes: &[u8],
) -> Result<(), Errno> {
    let v4 = |at: usize| Some(IpAddr::from(*bytes.get(at..)?.first_chunk::<4>()?));
    let addr_at = |at: usize| Some(bytes.get(at..).and_then(addr::parse)?.ip());
    let none = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let parts = match option {
        // `struct group_source_req`: two addresses with room for any, at multiples of eight.
        MCAST_JOIN_SOURCE_GROUP..=MCAST_LEAVE_SOURCE_GROUP | MCAST_BLOCK_SOURCE | MCAST_UNBLOCK_SOURCE => {
            let interface = bytes.first_chunk::<4>().map(|number| own_number(u32::from_ne_bytes(*number)));
            let at = 8 + size_of::<libc::sockaddr_storage>();
            addr_at(8).zip(addr_at(at)).zip(interface.map(|interface| (none, interface)))
        }
        // `struct ip_mreq_source`.
        _ => v4(0).zip(v4(8)).zip(v4(4).map(|addr| (addr, 0))),
    };
    let ((group, sender), (addr, interface)) = parts.ok_or(Errno::INVAL)?;
    let sender = Some((sender, is_blocked));
    ask(&Request::Group { id: name.id, group: Some(group), addr, interface, joins, sender }).map(drop)
}

/// Groups are sent to by an interface.
fn chosen(name: &Name, addr: Option<IpAddr>, interface: Option<u32>) -> Result<(), Errno> {
    let (Some(addr), Some(interface)) = (addr, interface) else { return Err(Errno::INVAL) };
    ask(&Request::Group { id: name.id, group: None, addr, interface, joins: false, sender: None }).map(drop)
}

const fn family(name: &Name) -> c_int {
    let addr = match name.role {
        Role::Listener | Role::Datagram => name.local,
        Role::Stream => name.remote,
    };
    if addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }
}
