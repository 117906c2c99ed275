//! Packets: what is given to the stack, and what it must send.
//!
//! In a packet that the stack sends, every field that is there is demanded. What may be anything says so.

use crate::script::{At, Pos};

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where its direction stands.
    pub pos: Pos,
    /// Whence it comes.
    pub direction: Direction,
    /// Fields of its IP header.
    pub ip: Ip,
    /// Its ports; else those of the script's connection.
    pub ports: Option<At<Ports>>,
    /// Its payload.
    pub payload: Payload,
}

/// Whence a packet comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `<`: the script gives it to the stack.
    Inbound,
    /// `>`: the stack must send it.
    Outbound,
}

/// Fields of an IP header. Those that are not there are 0 in a packet to the stack, and anything in one from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ip {
    /// The differentiated services codepoint (RFC 2474), 6 bits.
    pub dscp: Option<At<u8>>,
    /// The ECN field (RFC 3168 §5).
    pub ecn: Option<At<Ecn>>,
    /// Time to live, or hop limit.
    pub ttl: Option<At<u8>>,
    /// IPv6's flow label (RFC 6437), 20 bits.
    pub flow_label: Option<At<u32>>,
}

/// A value of the ECN field (RFC 3168 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// `noecn`: Not-ECT.
    NotEct,
    /// `ect0`: ECT(0).
    Ect0,
    /// `ect1`: ECT(1).
    Ect1,
    /// `ce`: congestion experienced.
    Ce,
    /// `ect01`: ECT(0) or ECT(1); in packets from the stack.
    Ect01,
}

impl Ecn {
    /// All, with their names.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("noecn", Self::NotEct),
        ("ect0", Self::Ect0),
        ("ect1", Self::Ect1),
        ("ce", Self::Ce),
        ("ect01", Self::Ect01),
    ];

    /// The two bits; `None` if there are two values.
    #[must_use]
    pub const fn bits(self) -> Option<u8> {
        match self {
            Self::NotEct => Some(0),
            Self::Ect1 => Some(1),
            Self::Ect0 => Some(2),
            Self::Ce => Some(3),
            Self::Ect01 => None,
        }
    }
}

/// Source and destination port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The sender's.
    pub src: u16,
    /// The receiver's.
    pub dst: u16,
}

/// The payload of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A TCP segment.
    Tcp(Tcp),
    /// A UDP datagram with so many bytes of data.
    Udp(At<u16>),
    /// An ICMP or ICMPv6 message.
    Icmp(Icmp),
}

/// A TCP segment. Sequence numbers are relative to the connection's initial ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// The flags.
    pub flags: At<Flags>,
    /// Sequence number and length.
    pub seq: At<Seq>,
    /// The acknowledgment number.
    pub ack: Option<At<u32>>,
    /// The window as it stands in the header, without scale.
    pub window: Option<At<u16>>,
    /// The urgent pointer.
    pub urgent: Option<At<u16>>,
    /// The options.
    pub options: At<TcpOptions>,
}

/// Flags of a TCP segment, as the header has them (RFC 9293 §3.1; AE is RFC 9768).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x001);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(0x002);
    /// Reset.
    pub const RST: Self = Self(0x004);
    /// Push.
    pub const PSH: Self = Self(0x008);
    /// The acknowledgment number counts.
    pub const ACK: Self = Self(0x010);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x020);
    /// ECN echo.
    pub const ECE: Self = Self(0x040);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x080);
    /// Accurate ECN, once the nonce sum.
    pub const AE: Self = Self(0x100);

    /// Each with its letter, in the order in which they are printed.
    pub const LETTERS: [(char, Self); 9] = [
        ('S', Self::SYN),
        ('F', Self::FIN),
        ('R', Self::RST),
        ('U', Self::URG),
        ('E', Self::ECE),
        ('W', Self::CWR),
        ('A', Self::AE),
        ('P', Self::PSH),
        ('.', Self::ACK),
    ];

    /// Whether all of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With those of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// With those of `other` turned over.
    #[must_use]
    pub const fn toggle(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    /// With the three bits AE, CWR and ECE as a number, the ACE field (RFC 9768 §3.2.1).
    #[must_use]
    pub const fn with_ace(self, ace: u16) -> Self {
        Self(self.0 | ((ace & 7) << 6))
    }
}

/// Sequence number and length of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seq {
    /// The first byte's.
    pub start: SeqStart,
    /// Bytes of data; SYN and FIN do not count.
    pub len: u16,
}

/// The number of a segment's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeqStart {
    /// Relative to the initial sequence number of its direction.
    Relative(u32),
    /// `!`: as it stands in the header.
    Absolute(u32),
    /// `...`: anything; in packets from the stack.
    Any,
}

/// The options of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOptions {
    /// These, in this order, and no others.
    List(Vec<At<TcpOption>>),
    /// `<...>`: any; in packets from the stack.
    Any,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

/// In the field of a user timeout: it counts minutes, not seconds (RFC 5482 §3.3).
pub(crate) const UTO_MINUTES: u16 = 0x8000;

/// A TCP option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// `nop`.
    Nop,
    /// `eol`.
    Eol,
    /// `mss 1460`.
    Mss(u16),
    /// `wscale 6`; `wscale *`, which is `None`, in packets from the stack.
    WindowScale(Option<u8>),
    /// `sackOK`.
    SackPermitted,
    /// `sack 1:2 3:4`.
    Sack(Vec<SackBlock>),
    /// `TS val 100 ecr 0`.
    Timestamps {
        /// `None` is `...`, in packets from the stack.
        val: Option<u32>,
        /// The echo reply.
        ecr: u32,
        /// `ecr 5!`: the echo is as it stands in the header, not relative to what the stack has sent.
        ecr_absolute: bool,
    },
    /// `FO`: TCP Fast Open (RFC 7413).
    FastOpen(Cookie),
    /// `FOEXP`: TCP Fast Open as an experimental option (RFC 6994).
    FastOpenExp(Cookie),
    /// `md5`: a signature (RFC 2385).
    Md5(Md5),
    /// `uto 120`, in seconds, or `uto 5 min`, in minutes (RFC 5482): what stands behind kind and length.
    UserTimeout(u16),
    /// `ECN`: counters of bytes (RFC 9768 §3.2.3), in the order of the option, which its first tells.
    AccEcn(Vec<(EcnCounter, u32)>),
}

impl TcpOption {
    /// Bytes in the header; `None` for a cookie that is only a name.
    #[must_use]
    pub fn len(&self) -> Option<usize> {
        Some(match self {
            Self::Nop | Self::Eol => 1,
            Self::SackPermitted => 2,
            Self::WindowScale(_) => 3,
            Self::Mss(_) | Self::UserTimeout(_) => 4,
            Self::Sack(blocks) => 2 + 8 * blocks.len(),
            Self::Timestamps { .. } => 10,
            Self::FastOpen(Cookie::Bytes(bytes)) => 2 + bytes.len(),
            Self::FastOpenExp(Cookie::Bytes(bytes)) => 4 + bytes.len(),
            Self::FastOpen(Cookie::Name(_)) | Self::FastOpenExp(Cookie::Name(_)) => return None,
            Self::Md5(_) => 18,
            Self::AccEcn(counters) => 2 + 3 * counters.len(),
        })
    }

    /// Never: each has at least its kind.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }
}

/// A block of a SACK option: the first byte, and the one behind the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackBlock {
    /// The left edge.
    pub left: u32,
    /// The right edge.
    pub right: u32,
}

/// A cookie of TCP Fast Open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// These bytes; none asks for a cookie.
    Bytes(Vec<u8>),
    /// The definition of this name.
    Name(String),
}

/// A signature of RFC 2385.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Md5 {
    /// The right one.
    Valid,
    /// A wrong one.
    Invalid,
    /// This one.
    Digest([u8; 16]),
}

/// A counter of the AccECN option (RFC 9768 §3.2.3), 24 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnCounter {
    /// `e0b`: bytes with ECT(0).
    E0b,
    /// `ceb`: bytes with CE.
    Ceb,
    /// `e1b`: bytes with ECT(1).
    E1b,
}

impl EcnCounter {
    /// All, with their names.
    pub const NAMES: [(&'static str, Self); 3] = [("e0b", Self::E0b), ("ceb", Self::Ceb), ("e1b", Self::E1b)];
}

/// An ICMP or ICMPv6 message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// The type.
    pub kind: At<IcmpKind>,
    /// The code; none is 0.
    pub code: Option<At<IcmpCode>>,
    /// The MTU of the next hop.
    pub mtu: Option<At<u32>>,
    /// The identifier of an echo.
    pub id: Option<At<u16>>,
    /// The quoted packet; by default the last one of the connection.
    pub quote: Option<At<Quote>>,
}

/// The type of an ICMP message. What a name means depends on the version of IP: [`IcmpKind::number`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpKind {
    /// A name.
    Named(&'static str),
    /// `type_3`.
    Number(u8),
}

/// The code of an ICMP message. What a name means depends on type and version: [`IcmpCode::number`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpCode {
    /// A name.
    Named(&'static str),
    /// `code_1`.
    Number(u8),
}

/// The quote of an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quote {
    /// A TCP segment.
    Tcp(Seq),
    /// A UDP datagram with so many bytes of data.
    Udp(u16),
    /// A packet of another protocol with so many bytes behind the IP header.
    Raw(u16),
}

impl IcmpKind {
    /// The number: for IPv4 (IANA ICMP parameters), or for IPv6.
    #[must_use]
    pub fn number(self, ipv6: bool) -> Option<u8> {
        match self {
            Self::Number(number) => Some(number),
            Self::Named(name) => {
                let types = if ipv6 { ICMP6_TYPES } else { ICMP4_TYPES };
                types.iter().find(|(known, ..)| *known == name).map(|(_, number, _)| *number)
            }
        }
    }
}

impl IcmpCode {
    /// The number under this type: for IPv4, or for IPv6.
    #[must_use]
    pub fn number(self, kind: IcmpKind, ipv6: bool) -> Option<u8> {
        match self {
            Self::Number(number) => Some(number),
            Self::Named(name) => {
                let types = if ipv6 { ICMP6_TYPES } else { ICMP4_TYPES };
                let number = kind.number(ipv6)?;
                let (.., codes) = types.iter().find(|(_, known, _)| *known == number)?;
                codes.iter().find(|(known, _)| *known == name).map(|(_, code)| *code)
            }
        }
    }
}

/// A type's name and number, and its codes' names and numbers.
pub(crate) type IcmpType = (&'static str, u8, &'static [(&'static str, u8)]);

/// Types of ICMP with their codes (RFC 792, RFC 1122 §3.2.2.1, RFC 1812 §5.2.7.1), under the names of scripts.
pub(crate) const ICMP4_TYPES: &[IcmpType] = &[
    ("echo_reply", 0, &[]),
    (
        "unreachable",
        3,
        &[
            ("net_unreachable", 0),
            ("host_unreachable", 1),
            ("protocol_unreachable", 2),
            ("port_unreachable", 3),
            ("frag_needed", 4),
            ("source_route_failed", 5),
            ("net_unknown", 6),
            ("host_unknown", 7),
            ("source_host_isolated", 8),
            ("net_prohibited", 9),
            ("host_prohibited", 10),
            ("net_unreachable_for_tos", 11),
            ("host_unreachable_for_tos", 12),
            ("packet_filtered", 13),
            ("precedence_violation", 14),
            ("precedence_cutoff", 15),
        ],
    ),
    ("source_quench", 4, &[]),
    ("redirect", 5, &[]),
    ("echo_request", 8, &[]),
    ("time_exceeded", 11, &[("ttl_exceeded_in_transit", 0), ("frag_reass_exceeded", 1)]),
    ("parameter_problem", 12, &[]),
    ("timestamp_request", 13, &[]),
    ("timestamp_reply", 14, &[]),
    ("information_request", 15, &[]),
    ("information_reply", 16, &[]),
    ("address_mask_request", 17, &[]),
    ("address_mask_reply", 18, &[]),
];

/// Types of ICMPv6 with their codes (RFC 4443), under the names of scripts.
pub(crate) const ICMP6_TYPES: &[IcmpType] = &[
    (
        "unreachable",
        1,
        &[
            ("no_route", 0),
            ("admin_prohibited", 1),
            ("not_neighbour", 2),
            ("address_unreachable", 3),
            ("port_unreachable", 4),
        ],
    ),
    ("packet_too_big", 2, &[]),
    ("time_exceeded", 3, &[("exceeded_hop_limit", 0), ("exceeded_frag_time", 1)]),
    ("parameter_problem", 4, &[("header_field", 0), ("unknown_next_header", 1), ("unknown_option", 2)]),
    ("echo_request", 128, &[]),
    ("echo_reply", 129, &[]),
];
