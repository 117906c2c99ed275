//! Links as router advertisements describe them.

use core::net::Ipv6Addr;

use ipnet::Ipv6Net;
use serde::{Deserialize, Serialize};

/// A kind of entries that router advertisements have brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Learned {
    /// Default routers.
    Routers,
    /// Prefixes, and our addresses in them.
    Prefixes,
}

impl core::fmt::Display for Learned {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Routers => "routers",
            Self::Prefixes => "prefixes",
        })
    }
}

/// The link of an interface that takes addresses and routers from router advertisements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct LearnedLink {
    /// The interface.
    pub interface: String,
    /// Its default routers, in the order in which they are tried.
    pub routers: Vec<DefaultRouter>,
    /// The prefixes that are on it, and those that routers say are and that are refused.
    pub prefixes: Vec<OnLinkPrefix>,
    /// Bytes of the largest IPv6 packet, if routers say so.
    pub mtu: Option<u32>,
    /// The hop limit of what is sent, if routers say so.
    pub hop_limit: Option<u8>,
    /// Reachable time of neighbours, in milliseconds.
    pub reachable_ms: u64,
    /// Time between two questions for a neighbour, in milliseconds.
    pub retrans_ms: u64,
}

/// A default router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct DefaultRouter {
    /// Its link-local address.
    pub address: Ipv6Addr,
    /// Router preference (RFC 4191).
    pub preference: Preference,
    /// Seconds until it is none any more.
    pub expires_s: u64,
    /// Whether it answers, or was not asked yet.
    pub reachable: bool,
    /// Whether it is the one that packets go by.
    pub chosen: bool,
}

/// The preference of a default router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Preference {
    /// Rather not.
    Low,
    /// As any.
    Medium,
    /// Rather than others.
    High,
}

/// A prefix whose addresses are neighbours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct OnLinkPrefix {
    /// Which one.
    #[cfg_attr(feature = "admin", schemars(with = "String"))]
    pub prefix: Ipv6Net,
    /// Seconds until it is not on the link any more; `None` if for ever.
    pub expires_s: Option<u64>,
    /// It is not believed, because it overlaps what was configured for another interface: packets do not go by it.
    #[serde(default)]
    pub refused: bool,
}
