//! ICMPv6 (RFC 4443). Neighbour discovery is in [`crate::nd`].

use crate::checksum::Sum;
use crate::{NoRoom, Protocol, build, ip6};
use core::fmt;
use core::net::Ipv6Addr;

/// Length of the header of errors and echoes, in bytes.
pub const HEADER_LEN: usize = 8;

/// Types that are not a variant of [`Message`].
pub mod kind {
    /// Multicast listener query (RFC 2710).
    pub const MLD_QUERY: u8 = 130;
    /// Multicast listener report, version 1 (RFC 2710).
    pub const MLD_REPORT: u8 = 131;
    /// Multicast listener done (RFC 2710).
    pub const MLD_DONE: u8 = 132;
    /// Router solicitation (RFC 4861).
    pub const ROUTER_SOLICIT: u8 = 133;
    /// Router advertisement.
    pub const ROUTER_ADVERT: u8 = 134;
    /// Neighbour solicitation.
    pub const NEIGHBOR_SOLICIT: u8 = 135;
    /// Neighbour advertisement.
    pub const NEIGHBOR_ADVERT: u8 = 136;
    /// Redirect.
    pub const REDIRECT: u8 = 137;
    /// Multicast listener report, version 2 (RFC 3810).
    pub const MLD2_REPORT: u8 = 143;
}

/// Codes of [`Message::Unreachable`].
pub mod unreachable {
    /// No route.
    pub const NO_ROUTE: u8 = 0;
    /// A filter forbids it.
    pub const ADMIN_PROHIBITED: u8 = 1;
    /// The destination lies beyond the scope of the source address.
    pub const BEYOND_SCOPE: u8 = 2;
    /// No answer from the address.
    pub const ADDRESS: u8 = 3;
    /// Port unreachable.
    pub const PORT: u8 = 4;
    /// The source address failed ingress filtering.
    pub const SOURCE_POLICY: u8 = 5;
    /// The route says reject.
    pub const REJECT_ROUTE: u8 = 6;
}

/// Codes of [`Message::TimeExceeded`].
pub mod time_exceeded {
    /// The hop limit ran out on the way.
    pub const IN_TRANSIT: u8 = 0;
    /// Not all fragments came in time.
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of [`Message::ParameterProblem`].
pub mod parameter_problem {
    /// A header field is wrong.
    pub const ERRONEOUS_FIELD: u8 = 0;
    /// Unknown next header.
    pub const UNKNOWN_NEXT_HEADER: u8 = 1;
    /// Unknown option.
    pub const UNKNOWN_OPTION: u8 = 2;
    /// The first fragment does not have all headers (RFC 7112 §6).
    pub const INCOMPLETE_CHAIN: u8 = 3;
}

/// An ICMPv6 header as a value: type, code, and the four bytes whose meaning depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Message {
    /// Type 1; the payload quotes the packet.
    Unreachable {
        /// One of [`mod@unreachable`].
        code: u8,
    },
    /// Type 2; the payload quotes the packet.
    PacketTooBig {
        /// MTU of the next hop.
        mtu: u32,
    },
    /// Type 3; the payload quotes the packet.
    TimeExceeded {
        /// One of [`time_exceeded`].
        code: u8,
    },
    /// Type 4; the payload quotes the packet.
    ParameterProblem {
        /// One of [`parameter_problem`].
        code: u8,
        /// Offset of the byte that was wrong.
        pointer: u32,
    },
    /// Type 128.
    EchoRequest {
        /// Identifier.
        id: u16,
        /// Sequence number.
        seq: u16,
    },
    /// Type 129; the payload is the request's.
    EchoReply {
        /// Identifier.
        id: u16,
        /// Sequence number.
        seq: u16,
    },
    /// Any other; neighbour discovery among them.
    Other {
        /// ICMPv6 type.
        kind: u8,
        /// ICMPv6 code.
        code: u8,
        /// The bytes behind the checksum.
        rest: [u8; 4],
    },
}

impl Message {
    /// Reads the header of an ICMPv6 message, which is all of the packet's upper layer, and verifies the checksum.
    /// Answers the message and what follows its header: echo data, or the quoted packet
    /// ([`ip6::View::new_quoted`]).
    ///
    /// # Errors
    /// All of [`Error`].
    pub fn parse(src: Ipv6Addr, dst: Ipv6Addr, bytes: &[u8]) -> Result<(Self, &[u8]), Error> {
        let (header, payload) = split(bytes)?;
        if !verify(src, dst, bytes) {
            return Err(Error::Checksum { found: u16::from_be_bytes([header[2], header[3]]) });
        }
        Ok((Self::from_bytes(header), payload))
    }

    /// Parses a message quoted in an ICMPv6 error, without its checksum.
    ///
    /// # Errors
    /// [`Error::Short`].
    pub fn parse_quoted(bytes: &[u8]) -> Result<(Self, &[u8]), Error> {
        split(bytes).map(|(header, payload)| (Self::from_bytes(header), payload))
    }

    const fn from_bytes(&[kind, code, _, _, a, b, c, d]: &[u8; HEADER_LEN]) -> Self {
        let (first, second) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let both = u32::from_be_bytes([a, b, c, d]);
        match (kind, code) {
            (1, _) => Self::Unreachable { code },
            //= https://www.rfc-editor.org/rfc/rfc4443#section-3.2
            //# Set to 0 (zero) by the originator and ignored by the
            //# receiver.
            (2, _) => Self::PacketTooBig { mtu: both },
            (3, _) => Self::TimeExceeded { code },
            (4, _) => Self::ParameterProblem { code, pointer: both },
            (128, 0) => Self::EchoRequest { id: first, seq: second },
            (129, 0) => Self::EchoReply { id: first, seq: second },
            _ => Self::Other { kind, code, rest: [a, b, c, d] },
        }
    }

    /// ICMPv6 type.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match *self {
            Self::Unreachable { .. } => 1,
            Self::PacketTooBig { .. } => 2,
            Self::TimeExceeded { .. } => 3,
            Self::ParameterProblem { .. } => 4,
            Self::EchoRequest { .. } => 128,
            Self::EchoReply { .. } => 129,
            Self::Other { kind, .. } => kind,
        }
    }

    /// ICMPv6 code.
    #[must_use]
    pub const fn code(&self) -> u8 {
        match *self {
            Self::PacketTooBig { .. } | Self::EchoReply { .. } | Self::EchoRequest { .. } => 0,
            Self::Unreachable { code }
            | Self::TimeExceeded { code }
            | Self::ParameterProblem { code, .. }
            | Self::Other { code, .. } => code,
        }
    }

    /// Whether it tells of an error and quotes the packet that caused it. No error is sent about one of these.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        is_error(self.kind())
    }

    /// The header with the checksum it has in front of `payload`.
    #[must_use]
    pub fn to_bytes(&self, src: Ipv6Addr, dst: Ipv6Addr, payload: &[u8]) -> [u8; HEADER_LEN] {
        let [a, b, c, d] = self.rest();
        let (kind, code) = (self.kind(), self.code());
        let len = u32::try_from(HEADER_LEN + payload.len()).unwrap_or(u32::MAX);
        let pseudo = Sum::pseudo_v6(src, dst, Protocol::ICMP6, len);
        let sum = pseudo.bytes(&[kind, code, 0, 0, a, b, c, d]).bytes(payload);
        let [s0, s1] = sum.checksum().to_be_bytes();
        [kind, code, s0, s1, a, b, c, d]
    }

    /// Writes the header in front of `payload` and answers its length; the payload is not written.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is shorter than [`HEADER_LEN`].
    pub fn emit(
        &self,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        payload: &[u8],
        out: &mut [u8],
    ) -> Result<usize, NoRoom> {
        build::put(out, &self.to_bytes(src, dst, payload))
    }

    const fn rest(&self) -> [u8; 4] {
        match *self {
            Self::Unreachable { .. } | Self::TimeExceeded { .. } => [0; 4],
            Self::PacketTooBig { mtu } => mtu.to_be_bytes(),
            Self::ParameterProblem { pointer, .. } => pointer.to_be_bytes(),
            Self::EchoRequest { id, seq } | Self::EchoReply { id, seq } => {
                let ([a, b], [c, d]) = (id.to_be_bytes(), seq.to_be_bytes());
                [a, b, c, d]
            }
            Self::Other { rest, .. } => rest,
        }
    }
}

/// Whether messages of this type are errors, the unknown ones among them.
//= https://www.rfc-editor.org/rfc/rfc4443#section-2.1
//# Thus, error
//# messages have message types from 0 to 127; informational messages
//# have message types from 128 to 255.
#[must_use]
pub const fn is_error(kind: u8) -> bool {
    kind < 128
}

/// Whether a message (all of the upper layer) is intact.
#[must_use]
pub fn verify(src: Ipv6Addr, dst: Ipv6Addr, bytes: &[u8]) -> bool {
    let len = u32::try_from(bytes.len());
    len.is_ok_and(|len| Sum::pseudo_v6(src, dst, Protocol::ICMP6, len).bytes(bytes).is_intact())
}

/// Returns the number of bytes of a packet of `len` that an ICMPv6 error quotes.
//= https://www.rfc-editor.org/rfc/rfc4443#section-2.4
//# Every ICMPv6 error message (type < 128) MUST include as much of
//# the IPv6 offending (invoking) packet (the packet that caused the
//# error) as possible without making the error message packet exceed
//# the minimum IPv6 MTU
#[must_use]
pub const fn quote_len(len: usize) -> usize {
    const ROOM: usize = ip6::MIN_MTU as usize - ip6::HEADER_LEN - HEADER_LEN;
    if len < ROOM { len } else { ROOM }
}

fn split(bytes: &[u8]) -> Result<(&[u8; HEADER_LEN], &[u8]), Error> {
    bytes.split_first_chunk().ok_or(Error::Short { have: bytes.len() })
}

/// An error in an ICMPv6 message.
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
            Self::Short { have } => write!(f, "the message has {have} bytes, an ICMPv6 header takes 8"),
            Self::Checksum { found } => write!(f, "the ICMPv6 checksum {found:#06x} is wrong"),
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests;
