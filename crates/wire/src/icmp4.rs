//! ICMP for IPv4 (RFC 792).

use crate::checksum::Sum;
use crate::{NoRoom, build, ip4};
use core::fmt;
use core::net::Ipv4Addr;

/// Length of every ICMP header, in bytes.
pub const HEADER_LEN: usize = 8;

/// Codes of [`Message::Unreachable`].
pub mod unreachable {
    /// No route to the network.
    pub const NET: u8 = 0;
    /// No answer from the host.
    pub const HOST: u8 = 1;
    /// Protocol unreachable.
    pub const PROTOCOL: u8 = 2;
    /// Port unreachable.
    pub const PORT: u8 = 3;
    /// Fragmentation needed, but forbidden.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// The source route failed.
    pub const SOURCE_ROUTE_FAILED: u8 = 5;
    /// A filter forbids the network.
    pub const NET_PROHIBITED: u8 = 9;
    /// A filter forbids the host.
    pub const HOST_PROHIBITED: u8 = 10;
    /// A filter forbids it (RFC 1812 §5.2.7.1).
    pub const ADMIN_PROHIBITED: u8 = 13;
}

/// Codes of [`Message::TimeExceeded`].
pub mod time_exceeded {
    /// The time to live ran out on the way.
    pub const IN_TRANSIT: u8 = 0;
    /// Not all fragments came in time.
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of [`Message::Redirect`].
pub mod redirect {
    /// For the network; routers no longer send this (RFC 1812 §5.2.7.2).
    pub const NET: u8 = 0;
    /// For the host.
    pub const HOST: u8 = 1;
}

/// An ICMP header as a value: type, code, and the four bytes whose meaning depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Message {
    /// Type 0; the payload is the request's.
    EchoReply {
        /// Identifier.
        id: u16,
        /// Sequence number.
        seq: u16,
    },
    /// Type 3; the payload quotes the datagram.
    Unreachable {
        /// One of [`mod@unreachable`].
        code: u8,
        /// MTU of the next hop if the code is [`unreachable::FRAGMENTATION_NEEDED`] (RFC 1191 §4); 0 if not known.
        mtu: u16,
    },
    /// Type 5; the payload quotes the datagram.
    Redirect {
        /// One of [`redirect`].
        code: u8,
        /// The better router.
        gateway: Ipv4Addr,
    },
    /// Type 8.
    EchoRequest {
        /// Identifier.
        id: u16,
        /// Sequence number.
        seq: u16,
    },
    /// Type 11; the payload quotes the datagram.
    TimeExceeded {
        /// One of [`time_exceeded`].
        code: u8,
    },
    /// Type 12; the payload quotes the datagram.
    ParameterProblem {
        /// 0: see the pointer. 1: an option is missing.
        code: u8,
        /// Offset of the byte that was wrong.
        pointer: u8,
    },
    /// Any other.
    Other {
        /// ICMP type.
        kind: u8,
        /// ICMP code.
        code: u8,
        /// The bytes behind the checksum.
        rest: [u8; 4],
    },
}

impl Message {
    /// Reads the header of an ICMP message, which is all of the datagram's payload, and verifies the checksum.
    /// Answers the message and what follows its header: echo data, or the quoted datagram
    /// ([`ip4::View::new_quoted`]).
    ///
    /// # Errors
    /// All of [`Error`].
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Error> {
        let (header, payload) = split(bytes)?;
        if !Sum::new().bytes(bytes).is_intact() {
            return Err(Error::Checksum { found: u16::from_be_bytes([header[2], header[3]]) });
        }
        Ok((Self::from_bytes(header), payload))
    }

    /// Parses a message quoted in an ICMP error, without its checksum.
    ///
    /// # Errors
    /// [`Error::Short`].
    pub fn parse_quoted(bytes: &[u8]) -> Result<(Self, &[u8]), Error> {
        split(bytes).map(|(header, payload)| (Self::from_bytes(header), payload))
    }

    const fn from_bytes(&[kind, code, _, _, a, b, c, d]: &[u8; HEADER_LEN]) -> Self {
        let (first, second) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        match (kind, code) {
            (0, 0) => Self::EchoReply { id: first, seq: second },
            (3, _) => Self::Unreachable { code, mtu: second },
            (5, _) => Self::Redirect { code, gateway: Ipv4Addr::new(a, b, c, d) },
            (8, 0) => Self::EchoRequest { id: first, seq: second },
            (11, _) => Self::TimeExceeded { code },
            (12, _) => Self::ParameterProblem { code, pointer: a },
            _ => Self::Other { kind, code, rest: [a, b, c, d] },
        }
    }

    /// ICMP type.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match *self {
            Self::EchoReply { .. } => 0,
            Self::Unreachable { .. } => 3,
            Self::Redirect { .. } => 5,
            Self::EchoRequest { .. } => 8,
            Self::TimeExceeded { .. } => 11,
            Self::ParameterProblem { .. } => 12,
            Self::Other { kind, .. } => kind,
        }
    }

    /// ICMP code.
    #[must_use]
    pub const fn code(&self) -> u8 {
        match *self {
            Self::EchoReply { .. } | Self::EchoRequest { .. } => 0,
            Self::Unreachable { code, .. }
            | Self::Redirect { code, .. }
            | Self::TimeExceeded { code }
            | Self::ParameterProblem { code, .. }
            | Self::Other { code, .. } => code,
        }
    }

    /// Whether it tells of an error and quotes the datagram that caused it. No error is sent about one of these, and
    /// none about an unknown type.
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.2
    #[must_use]
    pub const fn is_error(&self) -> bool {
        is_error(self.kind())
    }

    /// The header with the checksum it has in front of `payload`.
    #[must_use]
    pub fn to_bytes(&self, payload: &[u8]) -> [u8; HEADER_LEN] {
        let [a, b, c, d] = self.rest();
        let (kind, code) = (self.kind(), self.code());
        let sum = Sum::new().bytes(&[kind, code, 0, 0, a, b, c, d]).bytes(payload);
        let [s0, s1] = sum.checksum().to_be_bytes();
        [kind, code, s0, s1, a, b, c, d]
    }

    /// Writes the header in front of `payload` and answers its length; the payload is not written.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is shorter than [`HEADER_LEN`].
    pub fn emit(&self, payload: &[u8], out: &mut [u8]) -> Result<usize, NoRoom> {
        build::put(out, &self.to_bytes(payload))
    }

    const fn rest(&self) -> [u8; 4] {
        match *self {
            Self::EchoReply { id, seq } | Self::EchoRequest { id, seq } => {
                let ([a, b], [c, d]) = (id.to_be_bytes(), seq.to_be_bytes());
                [a, b, c, d]
            }
            Self::Unreachable { mtu, .. } => {
                let [c, d] = mtu.to_be_bytes();
                [0, 0, c, d]
            }
            Self::Redirect { gateway, .. } => gateway.octets(),
            Self::TimeExceeded { .. } => [0; 4],
            Self::ParameterProblem { pointer, .. } => [pointer, 0, 0, 0],
            Self::Other { rest, .. } => rest,
        }
    }
}

/// Whether messages of this type quote a datagram: unreachable, source quench, redirect, time exceeded, parameter
/// problem.
#[must_use]
pub const fn is_error(kind: u8) -> bool {
    matches!(kind, 3 | 4 | 5 | 11 | 12)
}

/// Returns the number of bytes of a datagram of `len` that an ICMP error quotes.
//= https://www.rfc-editor.org/rfc/rfc1812#section-4.3.2.3
//# The ICMP datagram SHOULD contain as
//# much of the original datagram as possible without the length of the
//# ICMP datagram exceeding 576 bytes.
#[must_use]
pub const fn quote_len(len: usize) -> usize {
    const ROOM: usize = ip4::MIN_REASSEMBLY_LEN - ip4::HEADER_LEN - HEADER_LEN;
    if len < ROOM { len } else { ROOM }
}

fn split(bytes: &[u8]) -> Result<(&[u8; HEADER_LEN], &[u8]), Error> {
    bytes.split_first_chunk().ok_or(Error::Short { have: bytes.len() })
}

/// An error in an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Fewer than 8 bytes.
    Short {
        /// Bytes there were.
        have: usize,
    },
    /// The checksum does not match.
    Checksum {
        /// The field.
        found: u16,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { have } => write!(f, "the message has {have} bytes, an ICMP header takes 8"),
            Self::Checksum { found } => write!(f, "the ICMP checksum {found:#06x} is wrong"),
        }
    }
}

impl core::error::Error for Error {}
