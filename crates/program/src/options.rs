//! Options of sockets, as Linux numbers them and as requests name them.

use core::ffi::c_int;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use wire::program::{INTERFACE_BASE, Options, SockOpt, Transport, own_number};

use crate::Socket;
use crate::daemon::first_options;

/// Bytes of a value at the most that are looked at: the name of an algorithm or a device.
pub const VALUE_MAX: usize = 16;
/// Limits of Linux.
const KEEP_S_MAX: c_int = 32_767;
const KEEP_COUNT_MAX: c_int = 127;
const SEGMENT_MIN: c_int = 88;
const SEGMENT_MAX: c_int = 32_767;
/// The last way of `IP_MTU_DISCOVER`, which libc does not have.
const IP_PMTUDISC_OMIT: c_int = 5;

/// Binds a socket to the interface of a number, which there need not be (Linux 5.0).
pub const SO_BINDTOIFINDEX: c_int = 62;

type Table = &'static [(c_int, c_int, SockOpt)];

/// Options of all sockets.
const SOCKET: Table = &[
    (libc::SOL_SOCKET, libc::SO_REUSEPORT, SockOpt::ReusePort),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, SockOpt::KeepAlive),
    (libc::SOL_SOCKET, libc::SO_LINGER, SockOpt::Linger),
    (libc::SOL_SOCKET, libc::SO_SNDBUF, SockOpt::SendBuffer),
    (libc::SOL_SOCKET, libc::SO_RCVBUF, SockOpt::ReceiveBuffer),
    (libc::SOL_SOCKET, libc::SO_BROADCAST, SockOpt::Broadcast),
    (libc::SOL_SOCKET, SO_BINDTOIFINDEX, SockOpt::Device),
];

const TCP: Table = &[
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, SockOpt::KeepIdle),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, SockOpt::KeepInterval),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, SockOpt::KeepCount),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, SockOpt::UserTimeout),
    (libc::IPPROTO_TCP, libc::TCP_MAXSEG, SockOpt::MaxSegment),
    (libc::IPPROTO_TCP, libc::TCP_CONGESTION, SockOpt::Congestion),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN, SockOpt::FastOpen),
    (libc::IPPROTO_TCP, libc::TCP_CORK, SockOpt::Cork),
    (libc::IPPROTO_TCP, libc::TCP_QUICKACK, SockOpt::QuickAck),
    (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, SockOpt::FastOpenConnect),
];

const V4: Table = &[
    (libc::IPPROTO_IP, libc::IP_TTL, SockOpt::Hops),
    (libc::IPPROTO_IP, libc::IP_TOS, SockOpt::Class),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, SockOpt::GroupHops),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, SockOpt::GroupLoop),
    (libc::IPPROTO_IP, libc::IP_PKTINFO, SockOpt::PktInfo),
    (libc::IPPROTO_IP, libc::IP_RECVTTL, SockOpt::RecvHops),
    (libc::IPPROTO_IP, libc::IP_RECVTOS, SockOpt::RecvClass),
    (libc::IPPROTO_IP, libc::IP_RECVERR, SockOpt::RecvErr),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, SockOpt::MtuDiscover),
];

const V6: Table = &[
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, SockOpt::OnlyV6),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, SockOpt::Hops),
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, SockOpt::Class),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, SockOpt::GroupHops),
    (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, SockOpt::GroupLoop),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, SockOpt::PktInfo),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, SockOpt::RecvHops),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, SockOpt::RecvClass),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, SockOpt::RecvErr),
    (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, SockOpt::MtuDiscover),
    (libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, SockOpt::DontFragment),
];

/// Options of which the kernel keeps a socket's value for any kind of socket.
pub const fn is_kept(option: SockOpt) -> bool {
    matches!(
        option,
        SockOpt::KeepAlive
            | SockOpt::Linger
            | SockOpt::SendBuffer
            | SockOpt::ReceiveBuffer
            | SockOpt::Broadcast
    )
}

/// Returns the option of these numbers of Linux; `None`: the stack has none.
pub fn known(level: c_int, option: c_int) -> Option<SockOpt> {
    let own = [
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, SockOpt::NoDelay),
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN, SockOpt::AcceptConn),
    ];
    let all = [SOCKET, TCP, V4, V6, &own].into_iter().flatten();
    all.copied().find(|(of, number, _)| (*of, *number) == (level, option)).map(|(.., option)| option)
}

/// Reads a value that a program sets.
///
/// # Errors
/// The errors of `setsockopt(2)`.
pub fn value(level: c_int, option: SockOpt, bytes: &[u8]) -> Result<i32, Errno> {
    if option == SockOpt::Congestion {
        return algorithm(bytes).ok_or(Errno::NOENT);
    }
    let number = match (bytes.first_chunk(), bytes.first()) {
        (Some(number), _) => i32::from_ne_bytes(*number),
        // IP takes a byte, too.
        (None, Some(byte)) if level == libc::IPPROTO_IP => i32::from(*byte),
        _ => return Err(Errno::INVAL),
    };
    let is_v4 = level == libc::IPPROTO_IP;
    let (least, most) = match option {
        SockOpt::Linger => return linger(bytes).ok_or(Errno::INVAL),
        SockOpt::KeepIdle | SockOpt::KeepInterval => (1, KEEP_S_MAX),
        SockOpt::KeepCount => (1, KEEP_COUNT_MAX),
        SockOpt::UserTimeout | SockOpt::FastOpen | SockOpt::Device => (0, i32::MAX),
        SockOpt::MaxSegment if number != 0 => (SEGMENT_MIN, SEGMENT_MAX),
        SockOpt::Hops | SockOpt::GroupHops if number == -1 => return Ok(default_hops(option)),
        SockOpt::Hops if is_v4 => (1, 255),
        SockOpt::Hops | SockOpt::GroupHops => (0, 255),
        SockOpt::Class if number == -1 => return Ok(0),
        SockOpt::Class => return Ok(number & 0xff),
        SockOpt::AcceptConn => return Err(Errno::NOPROTOOPT),
        SockOpt::MtuDiscover => (libc::IP_PMTUDISC_DONT, IP_PMTUDISC_OMIT),
        _ => (i32::MIN, i32::MAX),
    };
    if (least..=most).contains(&number) { Ok(number) } else { Err(Errno::INVAL) }
}

const fn default_hops(option: SockOpt) -> i32 {
    if matches!(option, SockOpt::GroupHops) { 1 } else { 64 }
}

/// Reads `struct linger`: -1 if it is off.
fn linger(bytes: &[u8]) -> Option<i32> {
    let (is_on, rest) = bytes.split_first_chunk::<4>()?;
    let seconds = i32::from_ne_bytes(*rest.first_chunk()?);
    Some(if i32::from_ne_bytes(*is_on) == 0 { -1 } else { seconds.max(0) })
}

/// The number of an algorithm that the stack has.
fn algorithm(bytes: &[u8]) -> Option<i32> {
    let name = bytes.split(|byte| *byte == 0).next()?;
    match name {
        b"cubic" => Some(0),
        b"reno" | b"newreno" => Some(1),
        _ => None,
    }
}

/// The name of an algorithm.
pub const fn algorithm_name(number: i32) -> &'static [u8; VALUE_MAX] {
    match number {
        0 => b"cubic\0\0\0\0\0\0\0\0\0\0\0",
        _ => b"reno\0\0\0\0\0\0\0\0\0\0\0\0",
    }
}

/// Returns the options of a socket of the kernel that a program has set: those that a new one has not.
pub(crate) fn set_before<S: Socket>(socket: &S, transport: Transport, is_v6: bool) -> Options {
    let mut options = first_options();
    for ((level, number, option), fresh) in table(transport, is_v6).zip(fresh::<S>(transport, is_v6)) {
        let now = read::<S>(socket.fd(), level, number, option);
        if let Some(value) = now.filter(|_| now != *fresh) {
            options.set(option, value);
        }
    }
    options
}

fn table(transport: Transport, is_v6: bool) -> impl Iterator<Item = (c_int, c_int, SockOpt)> {
    let of_tcp: Table = if transport == Transport::Tcp { TCP } else { &[] };
    let of_v6: Table = if is_v6 { V6 } else { &[] };
    // An IPv6 socket has those of IPv4, too; its own come behind and prevail.
    [SOCKET, of_tcp, V4, of_v6].into_iter().flatten().copied()
}

/// The values of a new socket, which sysctls of the kernel decide.
fn fresh<S: Socket>(transport: Transport, is_v6: bool) -> &'static [Option<i32>] {
    static KNOWN: [OnceLock<Vec<Option<i32>>>; 4] = [const { OnceLock::new() }; 4];
    let at = usize::from(transport == Transport::Udp) * 2 + usize::from(is_v6);
    KNOWN.get(at).map_or(&[], |known| known.get_or_init(|| read_fresh::<S>(transport, is_v6)))
}

fn read_fresh<S: Socket>(transport: Transport, is_v6: bool) -> Vec<Option<i32>> {
    let domain = if is_v6 { AddressFamily::INET6 } else { AddressFamily::INET };
    let kind = if transport == Transport::Tcp { SocketType::STREAM } else { SocketType::DGRAM };
    let socket = socket_with(domain, kind, SocketFlags::CLOEXEC, None).ok();
    let value = |(level, number, option)| read::<S>(socket.as_ref()?.as_fd(), level, number, option);
    table(transport, is_v6).map(value).collect()
}

/// Returns the number of the interface that a socket of the kernel is bound to; 0: none. One that was bound to an interface of pantala
/// before it is pantala's has its number, as programs see it, which is none of the kernel's.
#[must_use]
pub fn device<S: Socket>(fd: BorrowedFd<'_>) -> u32 {
    let number = S::option(fd, libc::SOL_SOCKET, SO_BINDTOIFINDEX);
    number.and_then(|number| Some(u32::from_ne_bytes(*number.first_chunk()?))).unwrap_or(0)
}

/// Whether a socket of the kernel is bound to an interface of pantala.
pub(crate) fn is_on_our_device<S: Socket>(fd: BorrowedFd<'_>) -> bool {
    device::<S>(fd) & INTERFACE_BASE != 0
}

/// Reads an option of a socket of the kernel.
fn read<S: Socket>(fd: BorrowedFd<'_>, level: c_int, number: c_int, option: SockOpt) -> Option<i32> {
    let bytes = S::option(fd, level, number)?;
    match option {
        SockOpt::Linger => linger(&bytes),
        SockOpt::Congestion => algorithm(&bytes),
        // The kernel doubles what was set.
        SockOpt::SendBuffer | SockOpt::ReceiveBuffer => Some(i32::from_ne_bytes(*bytes.first_chunk()?) / 2),
        SockOpt::Device => Some(own_number(u32::from_ne_bytes(*bytes.first_chunk()?)).cast_signed()),
        _ => Some(i32::from_ne_bytes(*bytes.first_chunk()?)),
    }
}
