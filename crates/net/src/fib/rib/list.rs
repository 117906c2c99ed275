//! Listings of the table.

use core::net::IpAddr;
use core::ops::Bound;

use super::{Half, Halves, Origin, Rib, Routes, Write};
use crate::fib::prefix::{Key, covering};
use crate::fib::{FibIndex, HopId, Prefix};

/// The routes to one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The table.
    pub fib: FibIndex,
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
    /// The routes to exactly this prefix in table `fib`.
    #[must_use]
    pub fn get(&self, fib: FibIndex, to: Prefix) -> Option<Listed> {
        let Halves { v4, v6 } = self.tables.get(usize::from(fib))?;
        let routes = match to.addr() {
            IpAddr::V4(addr) => v4.routes.get(&(addr.to_bits(), to.prefix_len())),
            IpAddr::V6(addr) => v6.routes.get(&(addr.to_bits(), to.prefix_len())),
        };
        routes.map(|routes| Listed { fib, to, routes: routes.clone() })
    }

    /// The routes to the longest prefix that covers this address in table `fib`.
    #[must_use]
    pub fn lookup(&self, fib: FibIndex, addr: IpAddr) -> Option<Listed> {
        let Halves { v4, v6 } = self.tables.get(usize::from(fib))?;
        match addr {
            IpAddr::V4(addr) => v4.lookup(fib, addr.to_bits()),
            IpAddr::V6(addr) => v6.lookup(fib, addr.to_bits()),
        }
    }

    /// All prefixes of table `fib` with their routes, in order, IPv4 first; those behind `after`, so that a long table can be listed
    /// in steps while it changes.
    pub fn after(&self, fib: FibIndex, after: Option<Prefix>) -> impl Iterator<Item = Listed> + '_ {
        let (v4, v6) = match after.map(|after| (after.addr(), after.prefix_len())) {
            None => (Bound::Unbounded, Bound::Unbounded),
            Some((IpAddr::V4(addr), len)) => (Bound::Excluded((addr.to_bits(), len)), Bound::Unbounded),
            Some((IpAddr::V6(addr), len)) => {
                (Bound::Excluded((u32::MAX, u8::MAX)), Bound::Excluded((addr.to_bits(), len)))
            }
        };
        let table = self.tables.get(usize::from(fib));
        table.into_iter().flat_map(move |table| table.v4.list(fib, v4).chain(table.v6.list(fib, v6)))
    }
}

impl<K: Key, W: Write<K>> Half<K, W> {
    fn lookup(&self, fib: FibIndex, key: K) -> Option<Listed> {
        let ((key, len), routes) = covering(&self.routes, key, Bound::Included((key, K::BITS_U8)))?;
        Some(Listed { fib, to: Prefix::of_key(key, len), routes: routes.clone() })
    }

    fn list(&self, fib: FibIndex, after: Bound<(K, u8)>) -> impl Iterator<Item = Listed> + '_ {
        let routes = self.routes.range((after, Bound::Unbounded));
        routes.map(move |((key, len), routes)| Listed {
            fib,
            to: Prefix::of_key(*key, *len),
            routes: routes.clone(),
        })
    }
}
