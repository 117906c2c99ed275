//! The parts of a packet that translation reads: its ends, and their offsets.

use wire::Protocol;
use wire::{icmp4, icmp6, ip4, ip6};

use crate::ip::ip6::headers;

/// One end of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct End {
    /// The address; one of IPv4 in the lower 32 bits.
    pub addr: u128,
    /// The port of TCP and UDP; the identifier of an ICMP query, which both ends have; else 0.
    pub port: u16,
}

/// Which of a packet's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Where it comes from.
    Src,
    /// Where it goes.
    Dst,
}

impl Side {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Src => Self::Dst,
            Self::Dst => Self::Src,
        }
    }
}

/// The kind of packet to translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP, with its flags.
    Tcp(u8),
    /// UDP.
    Udp,
    /// ICMP with an identifier by which its answer is known: an echo, in IPv4 also a timestamp.
    Query,
    /// An ICMP error, which quotes a packet of the other direction.
    Error,
    /// Nothing with ports; or too little of it.
    Other,
    /// A fragment other than the first: data.
    Later,
}

/// A packet, or one that an ICMP error quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Whether it is IPv4's; else it is IPv6's.
    pub is_ip4: bool,
    /// Its kind.
    pub kind: Kind,
    /// Whether it is all of its datagram.
    pub is_whole: bool,
    /// The upper layer.
    pub protocol: Protocol,
    /// Where it begins, bytes from the start of what was read.
    pub at: u16,
    /// Where its upper layer begins, from there as well.
    pub l4: u16,
    /// Where it comes from.
    pub src: End,
    /// Where it goes.
    pub dst: End,
}

/// Bytes of an ICMP error in front of what it quotes, in both families.
const QUOTE_AT: u16 = 8;

impl Shape {
    /// Reads a packet that input let pass. `None` if its headers are not all in `bytes`, or it has too little of an upper
    /// layer that translation must know (RFC 1858 §3: such a first fragment is an attack).
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let shape = Self::at(bytes, 0)?;
        let is_known = match shape.protocol {
            Protocol::TCP | Protocol::UDP => shape.kind != Kind::Other,
            Protocol::ICMP | Protocol::ICMP6 => {
                shape.kind != Kind::Other || bytes.len() >= usize::from(shape.l4) + icmp4::HEADER_LEN
            }
            _ => true,
        };
        is_known.then_some(shape)
    }

    /// Reads the packet that this one, an ICMP error, quotes: perhaps cut off. `None` if its addresses are not there.
    #[must_use]
    pub fn quote(&self, bytes: &[u8]) -> Option<Self> {
        let quote = Self::at(bytes, self.l4.checked_add(QUOTE_AT)?)?;
        // No error quotes the other family, nor another error.
        (quote.is_ip4 == self.is_ip4 && quote.kind != Kind::Error).then_some(quote)
    }

    /// One of its ends.
    #[must_use]
    pub const fn end(&self, side: Side) -> End {
        match side {
            Side::Src => self.src,
            Side::Dst => self.dst,
        }
    }

    /// Returns one of its ends as the remote end of a flow.
    #[must_use]
    pub fn remote(&self, side: Side) -> End {
        self.as_remote(self.end(side))
    }

    /// Returns an end as the remote end of such a flow: the identifier of a query is the client's alone.
    #[must_use]
    pub fn as_remote(&self, end: End) -> End {
        if self.kind == Kind::Query { End { port: 0, ..end } } else { end }
    }

    /// An end beside another: the identifier of a query is the same at both.
    #[must_use]
    pub fn beside(&self, end: End, other: End) -> End {
        if self.kind == Kind::Query { End { port: other.port, ..end } } else { end }
    }

    fn at(bytes: &[u8], at: u16) -> Option<Self> {
        let packet = bytes.get(usize::from(at)..)?;
        match packet.first()? >> 4 {
            4 => Self::ip4(packet, at),
            6 => Self::ip6(packet, at),
            _ => None,
        }
    }

    fn ip4(packet: &[u8], at: u16) -> Option<Self> {
        let view = ip4::View::new_quoted(packet).ok()?;
        let offset = view.fragment_offset();
        let ends = [view.src(), view.dst()].map(|addr| u128::from(addr.to_bits()));
        let upper = Upper { protocol: view.protocol(), at: view.header_len(), is_later: offset != 0 };
        let is_whole = offset == 0 && !view.more_fragments();
        Self::with_upper(packet, at, ends, &upper).map(|shape| Self { is_ip4: true, is_whole, ..shape })
    }

    fn ip6(packet: &[u8], at: u16) -> Option<Self> {
        let view = ip6::View::new_quoted(packet).ok()?;
        let ends = [view.src(), view.dst()].map(|addr| addr.to_bits());
        let found = headers::upper(packet)?;
        let is_later = found.fragment_offset.unwrap_or(0) != 0;
        let upper = Upper { protocol: found.protocol, at: found.at, is_later };
        let is_whole = found.fragment_offset.is_none();
        Self::with_upper(packet, at, ends, &upper).map(|shape| Self { is_ip4: false, is_whole, ..shape })
    }

    fn with_upper(packet: &[u8], at: u16, [src, dst]: [u128; 2], upper: &Upper) -> Option<Self> {
        let l4 = at.checked_add(u16::try_from(upper.at).ok()?)?;
        let (kind, [src_port, dst_port]) = upper.kind(packet.get(upper.at..).unwrap_or_default());
        let (src, dst) = (End { addr: src, port: src_port }, End { addr: dst, port: dst_port });
        Some(Self { is_ip4: true, kind, is_whole: true, protocol: upper.protocol, at, l4, src, dst })
    }
}

/// An upper layer.
struct Upper {
    protocol: Protocol,
    at: usize,
    is_later: bool,
}

impl Upper {
    /// Classifies a transport header that begins with `bytes`, and returns its ports.
    fn kind(&self, bytes: &[u8]) -> (Kind, [u16; 2]) {
        if self.is_later {
            return (Kind::Later, [0; 2]);
        }
        match (self.protocol, bytes) {
            (Protocol::TCP, &[a, b, c, d, ..]) => {
                (Kind::Tcp(bytes.get(13).copied().unwrap_or(0)), [word(a, b), word(c, d)])
            }
            (Protocol::UDP, &[a, b, c, d, ..]) => (Kind::Udp, [word(a, b), word(c, d)]),
            (Protocol::ICMP, &[ECHO_REPLY | ECHO | TIMESTAMP | TIMESTAMP_REPLY, _, _, _, a, b, _, _, ..])
            | (Protocol::ICMP6, &[ECHO6 | ECHO6_REPLY, _, _, _, a, b, _, _, ..]) => {
                (Kind::Query, [word(a, b); 2])
            }
            (Protocol::ICMP, &[kind, _, _, _, _, _, _, _, ..]) if icmp4::is_error(kind) => {
                (Kind::Error, [0; 2])
            }
            (Protocol::ICMP6, &[kind, _, _, _, _, _, _, _, ..]) if icmp6::is_error(kind) => {
                (Kind::Error, [0; 2])
            }
            _ => (Kind::Other, [0; 2]),
        }
    }
}

const ECHO_REPLY: u8 = 0;
const ECHO: u8 = 8;
const TIMESTAMP: u8 = 13;
const TIMESTAMP_REPLY: u8 = 14;
const ECHO6: u8 = 128;
const ECHO6_REPLY: u8 = 129;

const fn word(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high, low])
}
