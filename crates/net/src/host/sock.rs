//! Errors of socket calls.

use crate::turn::cpu::CpuId;

/// Why not. Programs know most of them as an `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No such socket is on this CPU (EBADF).
    NotFound,
    /// Not now; later perhaps (EWOULDBLOCK).
    WouldBlock,
    /// The address, or the port on it, is in use (EADDRINUSE).
    AddrInUse,
    /// The address is not ours (EADDRNOTAVAIL).
    AddrNotAvailable,
    /// Invalid destination address, or two of different families (EINVAL).
    BadAddress,
    /// No route leads there, or no address of ours reaches so far (EHOSTUNREACH).
    Unreachable,
    /// It needs leave that was not given (EACCES).
    NotPermitted,
    /// Longer than a packet can be (EMSGSIZE).
    TooLong,
    /// It must not be cut, and does not fit a link on the way (EMSGSIZE).
    TooBig {
        /// Bytes of a packet that fits; 0 if unknown.
        mtu: u32,
    },
    /// No free buffer was left (ENOBUFS).
    NoBuffer,
    /// The conversation belongs to another CPU: ask there.
    Elsewhere(CpuId),
    /// It does not stand (ENOTCONN).
    NotConnected,
    /// The program has said that it sends no more, or the other end takes no more (EPIPE).
    Closed,
    /// The other end does not want it (ECONNREFUSED).
    Refused,
    /// The other end has reset it (ECONNRESET).
    Reset,
    /// Nothing was heard for too long (ETIMEDOUT).
    TimedOut,
    /// It was given up here (ECONNABORTED).
    Aborted,
    /// Nothing is urgent, or it was read, or is read with all else (EINVAL).
    NothingUrgent,
    /// Too short to be a message (EINVAL).
    BadMessage,
    /// A key that is empty, or too long (EINVAL).
    BadKey,
    /// Limit reached (ENOBUFS).
    TooMany,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Elsewhere(cpu) => return write!(f, "the conversation belongs to CPU {cpu}"),
            Self::TooBig { mtu: 0 } => {
                return f.write_str("the packet is longer than a link on the way takes");
            }
            Self::TooBig { mtu } => {
                return write!(f, "the packet is longer than the {mtu} bytes that a link on the way takes");
            }
            Self::NotPermitted => "to send to everybody on a link needs leave: set `may_broadcast`",
            Self::TooLong => "a packet is not longer than 65535 bytes",
            Self::NoBuffer => "no free buffer is left",
            Self::NotFound => "no such socket",
            Self::WouldBlock => "not now; later perhaps",
            Self::AddrInUse => "the address and port are in use",
            Self::AddrNotAvailable => "the address is not one of ours",
            Self::BadAddress => "nobody can be spoken to at such an address",
            Self::Unreachable => "no route leads there, or no own address reaches so far",
            Self::NotConnected => "the connection does not stand",
            Self::Closed => "the stream has ended in this direction",
            Self::Refused => "the other end does not want it",
            Self::Reset => "the other end has reset the connection",
            Self::TimedOut => "nothing was heard for too long",
            Self::Aborted => "the connection was given up",
            Self::NothingUrgent => "nothing is urgent that is read by itself",
            Self::BadMessage => "a message of ICMP has a type, a code and a checksum",
            Self::BadKey => "a key has 1 to 80 bytes",
            Self::TooMany => "there are as many as there may be",
        })
    }
}

impl core::error::Error for Error {}
