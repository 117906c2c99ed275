//! Why packets cannot go on, in the words of neither family.

use crate::base::drop::DropReason;

/// Why a packet cannot go on, when its sender may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The TTL, or hop limit, ran out here.
    TimeExceeded,
    /// Fragments did not all come in time.
    ReassemblyTimeExceeded,
    /// No route leads there.
    NoRoute,
    /// The route says to reject it.
    Rejected,
    /// The last hop's link address cannot be found.
    HostUnreachable,
    /// Port unreachable.
    PortUnreachable,
    /// Protocol unreachable: IPv4 protocol unreachable, IPv6 unknown next header.
    ProtocolUnreachable {
        /// Where the number stands, bytes from the start of the packet.
        pointer: u32,
    },
    /// Bigger than the next link takes, and not to be fragmented.
    TooBig {
        /// Bytes that it takes.
        mtu: u32,
    },
    /// A header field is wrong.
    Parameter {
        /// Where, bytes from the start of the packet.
        pointer: u32,
    },
    /// An IPv6 option is unknown and says to tell.
    UnknownOption {
        /// Where, bytes from the start of the packet.
        pointer: u32,
    },
    /// The first fragment lacks part of the header chain (RFC 7112).
    IncompleteChain,
    /// A source route that is not obeyed.
    SourceRouteFailed,
    /// A link-local packet would have left its link.
    BeyondScope,
    /// A rule of the firewall says so, or cannot be obeyed.
    Refused(RejectCode),
}

/// The ICMP error or reset of a `reject` rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejectCode {
    /// Code of ICMP's destination unreachable.
    pub code4: u8,
    /// Code of ICMPv6's.
    pub code6: u8,
    /// With ICMP's code 4, and for IPv6 then packet too big: the MTU.
    pub mtu: u16,
    /// Drop reason of the packet itself.
    pub reason: DropReason,
}

impl Problem {
    /// Returns the drop reason of the packet itself.
    #[must_use]
    pub const fn reason(self) -> DropReason {
        match self {
            Self::TimeExceeded => DropReason::TtlExceeded,
            Self::ReassemblyTimeExceeded => DropReason::ReassTimeout,
            Self::NoRoute => DropReason::NoRoute,
            Self::Rejected => DropReason::RejectRoute,
            Self::HostUnreachable => DropReason::NeighUnreachable,
            Self::PortUnreachable => DropReason::NoPort,
            Self::ProtocolUnreachable { .. } => DropReason::NoProtocol,
            Self::TooBig { .. } => DropReason::TooBig,
            Self::Parameter { .. } => DropReason::Ip4BadOption,
            Self::UnknownOption { .. } => DropReason::Ip6UnknownOption,
            Self::IncompleteChain => DropReason::ReassFirstTooShort,
            Self::SourceRouteFailed => DropReason::Ip4SourceRoute,
            Self::BeyondScope => DropReason::Ip6ScopeExceeded,
            Self::Refused(RejectCode { reason, .. }) => reason,
        }
    }
}
