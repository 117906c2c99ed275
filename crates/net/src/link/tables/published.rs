//! Addresses of other hosts that an interface answers for: proxy ARP and neighbour discovery.

use core::net::IpAddr;

use wire::ether::Mac;

/// Addresses that one interface answers for at the most. A configuration with more is refused.
pub const PUBLISHED_MAX: usize = 1024;

/// An address that an interface answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Publication {
    /// The address of another host.
    pub addr: IpAddr,
    /// The link address in answers; that of the interface if `None`.
    pub mac: Option<Mac>,
}

/// The addresses of others that an interface answers for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// By address; at most [`PUBLISHED_MAX`].
    list: Vec<Publication>,
    /// Whether ARP requests are answered for each address that is routed by another interface (RFC 1027).
    is_proxy: bool,
}

impl Published {
    /// `list` in any order: of two publications of one address the first counts, and of too many the first.
    #[must_use]
    pub fn new(mut list: Vec<Publication>, is_proxy: bool) -> Self {
        list.truncate(PUBLISHED_MAX);
        list.sort_by_key(|own| own.addr);
        list.dedup_by_key(|own| own.addr);
        Self { list, is_proxy }
    }

    /// The publication of `addr`.
    #[must_use]
    pub fn get(&self, addr: IpAddr) -> Option<&Publication> {
        let at = self.list.binary_search_by_key(&addr, |own| own.addr).ok()?;
        self.list.get(at)
    }

    /// Whether there are IPv6 addresses among them.
    #[must_use]
    pub fn has_v6(&self) -> bool {
        self.list.iter().any(|own| own.addr.is_ipv6())
    }

    /// All of them, by address.
    pub fn iter(&self) -> impl Iterator<Item = &Publication> {
        self.list.iter()
    }

    /// Whether ARP requests are answered for each address that is routed by another interface.
    #[must_use]
    pub const fn is_proxy(&self) -> bool {
        self.is_proxy
    }
}
