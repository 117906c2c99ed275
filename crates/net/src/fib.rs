//! The forwarding information base: which way leads to an address, by longest prefix.
//!
//! [`Fib`] is what all CPUs read: for each family a trie of atomic words, looked up a vector at a time. [`Rib`] is its
//! one writer: it knows all routes, decides which is in force, and changes the words of the trie in place, while the
//! CPUs go on reading. [`Hops`] says where routes lead.

use core::net::IpAddr;
use core::sync::atomic::Ordering;

use pkt::shared::AtomicU64;

mod flow;
mod hops;
mod free_list;
mod prefix;
mod rib;
mod trie;
mod v4;
mod v6;
mod word;

pub use flow::flow_hash;
pub use free_list::Epoch;
pub use hops::{Group, GroupId, Hop, HopId, Hops, MEMBERS_MAX, Metrics, To};
pub use prefix::Prefix;
pub use rib::{
    Bounds, Change, Committed, Error, Listed, Origin, Prepared, Protocol, Refused, Rib, SOURCES_MAX, Usage,
};
pub(crate) use trie::{Trie, TrieWriter, VALUE_MAX};

/// Both families' routes: for each destination the [`HopId`] it is reached by.
///
/// Shared by all CPUs and changed while they read. A lookup during a change returns the route of before or
/// after, for each destination, and never another.
#[derive(Debug)]
pub struct Fib {
    v4: v4::Table,
    v6: v6::Table,
    generation: AtomicU64,
    /// Tables 1 and up, of table 0.
    others: Box<[Self]>,
}

/// Number of a routing table.
pub type FibIndex = u8;

/// Routing tables that there may be.
pub const FIBS_MAX: FibIndex = 16;
const _: () = assert!(FIBS_MAX == ipfw::limit::FIB_MAX + 1, "rules name all tables");

/// The note in a packet that it is routed by table `fib`, whatever interface it came in by.
#[inline]
#[must_use]
pub const fn mark(fib: FibIndex) -> u8 {
    fib.saturating_add(1)
}

/// There is no memory left for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// A route: destinations, and where they are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its table.
    pub fib: FibIndex,
    /// The destinations.
    pub to: Prefix,
    /// Where they are reached: one hop, or several that are equally good.
    pub hops: Vec<Hop>,
}

impl Route {
    /// A route of table 0 with one hop.
    #[must_use]
    pub fn new(to: Prefix, hop: impl Into<Hop>) -> Self {
        Self { fib: 0, to, hops: vec![hop.into()] }
    }
}

impl Fib {
    /// Whether there is no table besides this one.
    #[inline]
    #[must_use]
    pub const fn is_alone(&self) -> bool {
        self.others.is_empty()
    }

    /// Number of tables.
    #[must_use]
    pub fn tables(&self) -> FibIndex {
        FibIndex::try_from(self.others.len()).map_or(FIBS_MAX, mark)
    }

    /// Table `fib`, of table 0; table 0 itself if there is no such table.
    #[inline]
    #[must_use]
    pub fn table(&self, fib: FibIndex) -> &Self {
        match usize::from(fib).checked_sub(1) {
            Some(at) => self.others.get(at).unwrap_or(self),
            None => self,
        }
    }

    /// Looks a vector of IPv4 destinations up, position by position.
    #[inline]
    pub fn lookup4(&self, keys: &[u32], hops: &mut [HopId]) {
        self.v4.lookup(keys, hops);
    }

    /// Looks a vector of IPv6 destinations up, position by position.
    #[inline]
    pub fn lookup6(&self, keys: &[u128], hops: &mut [HopId]) {
        self.v6.lookup(keys, hops);
    }

    /// Looks one destination up: for locally originated packets, and for users.
    #[must_use]
    pub fn lookup(&self, addr: IpAddr) -> HopId {
        word::hop(self.leaf(addr))
    }

    /// Length of the longest prefix that covers an address and has a route, bits; 0 if there is none, or none but the
    /// default route.
    #[must_use]
    pub fn prefix_len(&self, addr: IpAddr) -> u8 {
        word::len(self.leaf(addr))
    }

    /// Bits of an address that decide about it: all that have these bits in common are looked up alike.
    #[must_use]
    pub fn block_len(&self, addr: IpAddr) -> u8 {
        match addr {
            IpAddr::V4(addr) => self.v4.block_len(addr.to_bits()),
            IpAddr::V6(addr) => self.v6.block_len(addr.to_bits()),
        }
    }

    fn leaf(&self, addr: IpAddr) -> u32 {
        match addr {
            IpAddr::V4(addr) => self.v4.find(addr.to_bits()),
            IpAddr::V6(addr) => self.v6.find(addr.to_bits()),
        }
    }

    /// Grows by one with each batch of changes: whatever was derived from an older one is stale.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests;
