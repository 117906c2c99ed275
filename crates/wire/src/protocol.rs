//! Protocol numbers of IPv4's Protocol and IPv6's Next Header field.

use core::fmt;

/// A protocol number: IPv4's Protocol, IPv6's Next Header (IANA "Protocol Numbers").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// IPv6 Hop-by-Hop Options header (RFC 8200 §4.3).
    pub const HOP_BY_HOP: Self = Self(0);
    /// ICMP for IPv4.
    pub const ICMP: Self = Self(1);
    /// IGMP.
    pub const IGMP: Self = Self(2);
    /// IPv4 in IP (RFC 2003).
    pub const IPIP: Self = Self(4);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// IPv6 in IP (RFC 2473, RFC 4213).
    pub const IPV6: Self = Self(41);
    /// IPv6 Routing header (RFC 8200 §4.4).
    pub const ROUTING: Self = Self(43);
    /// IPv6 Fragment header (RFC 8200 §4.5).
    pub const FRAGMENT: Self = Self(44);
    /// GRE (RFC 2784).
    pub const GRE: Self = Self(47);
    /// Encapsulating Security Payload (RFC 4303).
    pub const ESP: Self = Self(50);
    /// Authentication Header (RFC 4302).
    pub const AH: Self = Self(51);
    /// ICMPv6.
    pub const ICMP6: Self = Self(58);
    /// IPv6 No Next Header (RFC 8200 §4.7).
    pub const NO_NEXT: Self = Self(59);
    /// IPv6 Destination Options header (RFC 8200 §4.6).
    pub const DESTINATION_OPTIONS: Self = Self(60);
    /// SCTP.
    pub const SCTP: Self = Self(132);

    /// Whether the field names one of the IPv6 headers that [`crate::ip6_ext::walk`] walks over.
    #[must_use]
    pub const fn is_ip6_extension(self) -> bool {
        matches!(
            self,
            Self::HOP_BY_HOP | Self::ROUTING | Self::FRAGMENT | Self::AH | Self::DESTINATION_OPTIONS
        )
    }

    const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::HOP_BY_HOP => "hopopt",
            Self::ICMP => "icmp",
            Self::IGMP => "igmp",
            Self::IPIP => "ipip",
            Self::TCP => "tcp",
            Self::UDP => "udp",
            Self::IPV6 => "ipv6",
            Self::ROUTING => "ipv6-route",
            Self::FRAGMENT => "ipv6-frag",
            Self::GRE => "gre",
            Self::ESP => "esp",
            Self::AH => "ah",
            Self::ICMP6 => "ipv6-icmp",
            Self::NO_NEXT => "ipv6-nonxt",
            Self::DESTINATION_OPTIONS => "ipv6-opts",
            Self::SCTP => "sctp",
            _ => return None,
        })
    }
}

/// The name as in `/etc/protocols`, or the number.
impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => fmt::Display::fmt(&self.0, f),
        }
    }
}
