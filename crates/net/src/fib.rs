//! The forwarding information base: which way leads to an address, by longest prefix.
//!
//! Built whole from a list of routes and never changed. A lookup is a binary search in the sorted starts of the
//! ranges into which all prefixes together cut the address space.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hashbrown::HashMap;

use crate::tables::IfIndex;

/// Both families' routes and the hops they lead to.
#[derive(Debug)]
pub struct Fib {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    hops: Vec<Hop>,
}

/// A small index of a [`Hop`] in its [`Fib`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HopId(u32);

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hop {
    /// Nowhere: nothing is known of that destination.
    NoRoute,
    /// To this host: the destination is an own address.
    Local {
        /// The interface that has the address.
        ifindex: IfIndex,
    },
    /// To every host of a link: the destination is its IPv4 broadcast address.
    Broadcast {
        /// The link's interface.
        ifindex: IfIndex,
    },
    /// To a host on a link: the destination itself is the neighbour.
    OnLink {
        /// The link's interface.
        ifindex: IfIndex,
    },
    /// To another router.
    Gateway {
        /// The interface of the link that the router is on.
        ifindex: IfIndex,
        /// The router's address on that link.
        via: IpAddr,
    },
    /// To a refusal that the sender is told of.
    Reject,
    /// To a refusal that nobody is told of.
    Blackhole,
}

/// A route: destinations, and where they are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The destinations.
    pub to: Prefix,
    /// Where they are reached.
    pub hop: Hop,
}

/// An address prefix whose host bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    addr: IpAddr,
    len: u8,
}

impl Default for Fib {
    fn default() -> Self {
        Self::build(&[])
    }
}

impl Fib {
    /// Builds the table of `routes`. Of two routes to one prefix the later one counts.
    #[must_use]
    pub fn build(routes: &[Route]) -> Self {
        let mut hops = vec![Hop::NoRoute];
        let mut ids: HashMap<_, _> = HashMap::from([(Hop::NoRoute, HopId(0))]);
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for route in routes {
            let id = *ids.entry(route.hop).or_insert_with(|| {
                hops.push(route.hop);
                HopId(u32::try_from(hops.len() - 1).unwrap_or_default())
            });
            match route.to.addr {
                IpAddr::V4(addr) => v4.push((addr.to_bits(), route.to.len, id)),
                IpAddr::V6(addr) => v6.push((addr.to_bits(), route.to.len, id)),
            }
        }
        Self { v4: Ranges::build(v4), v6: Ranges::build(v6), hops }
    }

    /// Looks a vector of IPv4 destinations up, position by position.
    pub fn lookup4(&self, keys: &[u32], hops: &mut [HopId]) {
        self.v4.lookup(keys, hops);
    }

    /// Looks a vector of IPv6 destinations up, position by position.
    pub fn lookup6(&self, keys: &[u128], hops: &mut [HopId]) {
        self.v6.lookup(keys, hops);
    }

    /// Looks one destination up: for what is sent from here, and for people who ask.
    #[must_use]
    pub fn lookup(&self, addr: IpAddr) -> HopId {
        match addr {
            IpAddr::V4(addr) => self.v4.find(addr.to_bits()),
            IpAddr::V6(addr) => self.v6.find(addr.to_bits()),
        }
    }

    /// Where the hop leads.
    #[inline]
    #[must_use]
    pub fn hop(&self, id: HopId) -> Hop {
        self.hops.get(id.0 as usize).copied().unwrap_or(Hop::NoRoute)
    }
}

/// Sorted ranges that cover a whole address space: range `i` begins at `starts[i]` and leads to `hops[i]`.
#[derive(Debug)]
struct Ranges<K> {
    starts: Vec<K>,
    hops: Vec<HopId>,
}

/// An address as a number.
trait Key: Copy + Ord {
    const BITS: u8;
    const ZERO: Self;
    /// The last address of the prefix that starts here.
    fn last(self, len: u8) -> Self;
    fn next(self) -> Option<Self>;
}

impl<K: Key> Ranges<K> {
    /// Sweeps over the prefixes in order of their starts, with a stack of those that are open: prefixes nest or are
    /// disjoint, so the innermost open one is always on top.
    fn build(mut prefixes: Vec<(K, u8, HopId)>) -> Self {
        prefixes.sort_by_key(|&(start, len, _)| (start, len));
        let mut ranges = Self { starts: vec![K::ZERO], hops: vec![HopId::default()] };
        let mut open: Vec<(K, HopId)> = Vec::new();
        for (start, len, hop) in prefixes {
            ranges.close(&mut open, Some(start));
            ranges.begin(start, hop);
            open.push((start.last(len), hop));
        }
        ranges.close(&mut open, None);
        ranges
    }

    /// Ends the open prefixes that lie before `until`; what encloses them goes on.
    fn close(&mut self, open: &mut Vec<(K, HopId)>, until: Option<K>) {
        while let Some(&(last, _)) = open.last().filter(|(last, _)| until.is_none_or(|start| *last < start)) {
            open.pop();
            let enclosing = open.last().map_or_else(HopId::default, |&(_, hop)| hop);
            if let Some(after) = last.next() {
                self.begin(after, enclosing);
            }
        }
    }

    fn begin(&mut self, start: K, hop: HopId) {
        if self.starts.last() == Some(&start) {
            self.hops.pop();
            self.starts.pop();
        }
        self.starts.push(start);
        self.hops.push(hop);
    }

    fn lookup(&self, keys: &[K], hops: &mut [HopId]) {
        for (hop, key) in hops.iter_mut().zip(keys) {
            *hop = self.find(*key);
        }
    }

    fn find(&self, key: K) -> HopId {
        let after = self.starts.partition_point(|start| *start <= key);
        self.hops.get(after.wrapping_sub(1)).copied().unwrap_or_default()
    }
}

macro_rules! key {
    ($int:ty, $bits:literal) => {
        impl Key for $int {
            const BITS: u8 = $bits;
            const ZERO: Self = 0;

            fn last(self, len: u8) -> Self {
                self | Self::MAX.checked_shr(u32::from(len)).unwrap_or(0)
            }

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    };
}

key!(u32, 32);
key!(u128, 128);

impl Prefix {
    /// The prefix of `len` bits that `addr` lies in; its host bits are cleared. `None` if it has not so many bits.
    #[must_use]
    pub fn new(addr: IpAddr, len: u8) -> Option<Self> {
        let addr = match addr {
            IpAddr::V4(_) if len > <u32 as Key>::BITS => return None,
            IpAddr::V6(_) if len > <u128 as Key>::BITS => return None,
            IpAddr::V4(addr) => Ipv4Addr::from_bits(addr.to_bits() & !0u32.last(len)).into(),
            IpAddr::V6(addr) => Ipv6Addr::from_bits(addr.to_bits() & !0u128.last(len)).into(),
        };
        Some(Self { addr, len })
    }

    /// The prefix that holds one address.
    #[must_use]
    pub const fn host(addr: IpAddr) -> Self {
        let len = if addr.is_ipv4() { 32 } else { 128 };
        Self { addr, len }
    }

    /// Its first address.
    #[must_use]
    pub const fn addr(self) -> IpAddr {
        self.addr
    }

    /// Its length, bits.
    #[must_use]
    pub const fn prefix_len(self) -> u8 {
        self.len
    }

    /// Whether `addr` lies in it.
    #[must_use]
    pub fn covers(self, addr: IpAddr) -> bool {
        self.addr.is_ipv4() == addr.is_ipv4() && Self::new(addr, self.len) == Some(self)
    }
}

impl core::fmt::Display for Prefix {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl Hop {
    /// The interface that the hop leads out by, or that has the address.
    #[must_use]
    pub const fn ifindex(self) -> Option<IfIndex> {
        match self {
            Self::Local { ifindex }
            | Self::Broadcast { ifindex }
            | Self::OnLink { ifindex }
            | Self::Gateway { ifindex, .. } => Some(ifindex),
            Self::NoRoute | Self::Reject | Self::Blackhole => None,
        }
    }
}

#[cfg(test)]
mod tests;
