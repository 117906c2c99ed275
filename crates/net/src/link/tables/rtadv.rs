//! Settings of router advertisements that are sent.

use core::net::Ipv6Addr;
use core::time::Duration;

use wire::nd::{Pref64, Preference, Prefix, RouteInfo};

use crate::base::time::Instant;

/// Prefixes that an interface advertises.
pub const RTADV_PREFIXES_MAX: usize = 16;
/// Name servers that an interface advertises.
pub const RTADV_SERVERS_MAX: usize = 4;
/// Routes that an interface advertises.
pub const RTADV_ROUTES_MAX: usize = 8;
/// Bytes of the search list that an interface advertises, as DNS writes names.
pub const RTADV_SEARCH_MAX: usize = 240;

/// When a prefix ends that is not ours for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtadvExpiry {
    /// The first address of the prefix.
    pub addr: Ipv6Addr,
    /// Its length.
    pub len: u8,
    /// When it is not used any more for what is new.
    pub preferred: Instant,
    /// When it is not used any more at all.
    pub valid: Instant,
}

impl RtadvExpiry {
    /// Shortens lifetimes to what is left of the prefix.
    #[must_use]
    pub fn limit(&self, prefix: Prefix, now: Instant) -> Prefix {
        let left = |until: Instant| u32::try_from(until.since(now).as_secs()).unwrap_or(u32::MAX);
        let valid_s = prefix.valid_s.min(left(self.valid));
        let preferred_s = prefix.preferred_s.min(left(self.preferred)).min(valid_s);
        Prefix { valid_s, preferred_s, ..prefix }
    }
}

/// Contents and intervals of an interface's advertisements. The limits above keep an advertisement within 1280 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtadvSettings {
    /// The shortest and the longest time between two unsolicited advertisements (RFC 4861 §6.2.1).
    pub interval: (Duration, Duration),
    /// Lifetime as a default router, seconds; 0 if it is none.
    pub lifetime_s: u16,
    /// Preference as a default router.
    pub preference: Preference,
    /// Hop limit for what hosts send; 0 if it says nothing.
    pub hop_limit: u8,
    /// Addresses are to be had by DHCPv6.
    pub managed: bool,
    /// Other configuration is to be had by DHCPv6.
    pub other: bool,
    /// Reachable time of neighbours, milliseconds; 0 if it says nothing.
    pub reachable_ms: u32,
    /// Time between solicitations, milliseconds; 0 if it says nothing.
    pub retrans_ms: u32,
    /// MTU of the link.
    pub mtu: Option<u32>,
    /// Prefixes.
    pub prefixes: Vec<Prefix>,
    /// Ends of prefixes that were delegated: their lifetimes are no longer than what is left.
    pub expiring: Vec<RtadvExpiry>,
    /// Name servers.
    pub servers: Vec<[u8; 16]>,
    /// Search list of domain names as DNS writes them, filled up with zeros to units of eight bytes.
    pub search: Box<[u8]>,
    /// Lifetime of name servers and search list, seconds.
    pub dns_lifetime_s: u32,
    /// More specific routes.
    pub routes: Vec<RouteInfo>,
    /// The prefix of a NAT64.
    pub nat64: Option<Pref64>,
}

impl Default for RtadvSettings {
    /// The defaults of RFC 4861 §6.2.1 and RFC 8106 §5.1, without a prefix.
    fn default() -> Self {
        Self {
            interval: (Duration::from_secs(200), Duration::from_secs(600)),
            lifetime_s: 1800,
            preference: Preference::Medium,
            hop_limit: 64,
            managed: false,
            other: false,
            reachable_ms: 0,
            retrans_ms: 0,
            mtu: None,
            prefixes: Vec::new(),
            expiring: Vec::new(),
            servers: Vec::new(),
            search: Box::default(),
            dns_lifetime_s: 1800,
            routes: Vec::new(),
            nat64: None,
        }
    }
}
