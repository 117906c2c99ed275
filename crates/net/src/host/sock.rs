//! Errors of socket calls.

use crate::turn::cpu::CpuId;

/// The error of a socket call: most have the meaning of an `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No such socket on this CPU (EBADF).
    NotFound,
    /// The operation would block (EWOULDBLOCK).
    WouldBlock,
    /// The address and port are in use (EADDRINUSE).
    AddrInUse,
    /// The address is not an address of this host, or cannot be used yet; or no local port is free (EADDRNOTAVAIL).
    AddrNotAvailable,
    /// Invalid destination address, or addresses of different families (EINVAL).
    BadAddress,
    /// No route to the destination, or no source address in its scope (ENETUNREACH).
    NetworkUnreachable,
    /// The next hop does not answer, or a router reports the destination as unreachable (EHOSTUNREACH).
    HostUnreachable,
    /// Permission denied: broadcast without leave for it (EACCES).
    NotPermitted,
    /// The message is longer than a packet can be (EMSGSIZE).
    TooLong,
    /// The packet must not be fragmented and exceeds the path MTU (EMSGSIZE).
    TooBig {
        /// The path MTU in bytes; 0 if unknown.
        mtu: u32,
    },
    /// No buffer space available (ENOBUFS).
    NoBuffer,
    /// The peer's packets arrive at another CPU, where the call must be made (EADDRNOTAVAIL).
    Elsewhere(CpuId),
    /// Not connected (ENOTCONN).
    NotConnected,
    /// Broken pipe: this direction of the stream is closed (EPIPE).
    Closed,
    /// Connection refused (ECONNREFUSED).
    Refused,
    /// Connection reset by peer (ECONNRESET).
    Reset,
    /// Connection timed out (ETIMEDOUT).
    TimedOut,
    /// Connection aborted on this host (ECONNABORTED).
    Aborted,
    /// No urgent data to read out of line (EINVAL).
    NothingUrgent,
    /// An ICMP message that is too short (EINVAL).
    BadMessage,
    /// A frame without an Ethernet header (EINVAL).
    BadFrame,
    /// No such interface, or none with frames of its own (ENODEV).
    NoInterface,
    /// The interface is down (ENETDOWN).
    InterfaceDown,
    /// A TCP-MD5 key that is empty or too long (EINVAL).
    BadKey,
    /// There is no such routing table (EINVAL).
    NoTable,
    /// A limit is reached: sockets, listeners, groups or connections (ENOBUFS).
    TooMany,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Elsewhere(cpu) => {
                return write!(f, "address not available on this CPU: replies arrive at CPU {cpu}");
            }
            Self::TooBig { mtu: 0 } => "message too long: exceeds the path MTU",
            Self::TooBig { mtu } => {
                return write!(f, "message too long: exceeds the path MTU of {mtu} bytes");
            }
            Self::NotPermitted => "permission denied: broadcast needs `set_broadcast(true)`",
            Self::TooLong => "message too long: a packet has at most 65535 bytes",
            Self::NoBuffer => "no buffer space available",
            Self::NotFound => "no such socket",
            Self::WouldBlock => "operation would block",
            Self::AddrInUse => "address in use",
            Self::AddrNotAvailable => "address not available",
            Self::BadAddress => "invalid destination address",
            Self::NetworkUnreachable => "network unreachable: no route, or no source address in scope",
            Self::HostUnreachable => "host unreachable",
            Self::NotConnected => "not connected",
            Self::Closed => "broken pipe: this direction of the connection is closed",
            Self::Refused => "connection refused",
            Self::Reset => "connection reset by peer",
            Self::TimedOut => "connection timed out",
            Self::Aborted => "connection aborted",
            Self::NothingUrgent => "invalid argument: no urgent data to read out of line",
            Self::BadMessage => "invalid argument: an ICMP message has a type, a code and a checksum",
            Self::BadFrame => "invalid argument: a frame begins with 14 bytes of Ethernet header",
            Self::NoInterface => "no such interface, or none with frames of its own",
            Self::InterfaceDown => "the interface is down",
            Self::BadKey => "invalid argument: a TCP-MD5 key has 1 to 80 bytes",
            Self::NoTable => "invalid argument: there is no such routing table",
            Self::TooMany => "limit reached",
        })
    }
}

impl core::error::Error for Error {}
