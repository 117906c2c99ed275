//! Listings of the table.

use core::net::IpAddr;
use core::ops::Bound;

use super::{Half, Origin, Rib, Routes, Write};
use crate::fib::prefix::{Key, covering};
use crate::fib::{HopId, Prefix};

/// The routes to one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The prefix.
    pub to: Prefix,
    routes: Routes,
}

impl Listed {
    /// The route that is in force: whose it is, and where it leads.
    #[must_use]
    pub fn in_force(&self) -> (Origin, HopId) {
        self.all().next().unwrap_or((Origin::Learned, HopId::NO_ROUTE))
    }

    /// All routes to the prefix, the strongest first.
    pub fn all(&self) -> impl Iterator<Item = (Origin, HopId)> + '_ {
        self.routes.all().iter().copied()
    }

    /// Where the route of this origin leads, if there is one.
    #[must_use]
    pub fn of(&self, origin: Origin) -> Option<HopId> {
        self.all().find(|(of, _)| *of == origin).map(|(_, hop)| hop)
    }
}

impl Rib {
    /// The routes to exactly this prefix.
    #[must_use]
    pub fn get(&self, to: Prefix) -> Option<Listed> {
        let routes = match to.addr() {
            IpAddr::V4(addr) => self.v4.routes.get(&(addr.to_bits(), to.prefix_len())),
            IpAddr::V6(addr) => self.v6.routes.get(&(addr.to_bits(), to.prefix_len())),
        };
        routes.map(|routes| Listed { to, routes: routes.clone() })
    }

    /// The routes to the longest prefix that covers this address.
    #[must_use]
    pub fn lookup(&self, addr: IpAddr) -> Option<Listed> {
        match addr {
            IpAddr::V4(addr) => self.v4.lookup(addr.to_bits()),
            IpAddr::V6(addr) => self.v6.lookup(addr.to_bits()),
        }
    }

    /// All prefixes with their routes, in order, IPv4 first; those behind `after`, so that a long table can be listed
    /// in steps while it changes.
    pub fn after(&self, after: Option<Prefix>) -> impl Iterator<Item = Listed> + '_ {
        let (v4, v6) = match after.map(|after| (after.addr(), after.prefix_len())) {
            None => (Bound::Unbounded, Bound::Unbounded),
            Some((IpAddr::V4(addr), len)) => (Bound::Excluded((addr.to_bits(), len)), Bound::Unbounded),
            Some((IpAddr::V6(addr), len)) => {
                (Bound::Excluded((u32::MAX, u8::MAX)), Bound::Excluded((addr.to_bits(), len)))
            }
        };
        self.v4.list(v4).chain(self.v6.list(v6))
    }
}

impl<K: Key, W: Write<K>> Half<K, W> {
    fn lookup(&self, key: K) -> Option<Listed> {
        let ((key, len), routes) = covering(&self.routes, key, Bound::Included((key, K::BITS_U8)))?;
        Some(Listed { to: Prefix::of_key(key, len), routes: routes.clone() })
    }

    fn list(&self, after: Bound<(K, u8)>) -> impl Iterator<Item = Listed> + '_ {
        let routes = self.routes.range((after, Bound::Unbounded));
        routes.map(|((key, len), routes)| Listed { to: Prefix::of_key(*key, *len), routes: routes.clone() })
    }
}
