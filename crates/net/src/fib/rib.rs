//! The routing information base: all routes, and the one hand that changes the [`Fib`].
//!
//! A change has three phases, because the CPUs read meanwhile:
//!
//! 1. [`Rib::prepare`] gives hops their numbers. If one is new, there is a new snapshot of [`Hops`], and it must have
//!    visited all CPUs before the next phase.
//! 2. [`Rib::commit`] changes the table. From now on lookups give the new answers.
//! 3. [`Rib::retire`], when another message has visited all CPUs: none is in a lookup that began before the commit, so
//!    the memory and the numbers that became free may be used again.
//!
//! Until then they are not: a CPU that is late finds what it was led to.

use core::net::IpAddr;
use core::ops::Bound;
use core::sync::atomic::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use super::free_list::Epoch;
use super::prefix::{Key, covering};
use super::word::Edit;
use super::{FIBS_MAX, Fib, FibIndex, Full, Hop, HopId, Hops, Prefix, v4, v6};

mod list;
mod numbers;
mod routes;

pub use list::Listed;
use numbers::Numbers;
use routes::Routes;

/// All routes. One thread has it.
#[derive(Debug)]
pub struct Rib {
    fib: Arc<Fib>,
    /// The routes of each table.
    tables: Vec<Halves>,
    numbers: Numbers,
    pending: VecDeque<Pending>,
    epoch: Epoch,
}

/// The source of a route. Of several routes to one prefix, the first in this order is in force; when it ends, the next is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// The destination is one of our addresses.
    Own,
    /// The destination is the broadcast address of one of our links.
    Broadcast,
    /// The destinations are on one of our links.
    Connected,
    /// Configured or set by hand.
    Static,
    /// A routing protocol announced it.
    Dynamic(Protocol),
    /// A router advertised it.
    Learned,
}

/// A routing protocol, by its administrative distance: the route of the smaller one is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Protocol {
    /// Administrative distance, as routing daemons have it: 20 for BGP with other systems, 110 for OSPF.
    pub distance: u8,
    /// Number of the protocol, as rtnetlink has it: 186 for BGP.
    pub number: u8,
    /// Which of several that speak for the protocol.
    pub source: u8,
}

/// Routes of different sources to one prefix.
pub const SOURCES_MAX: usize = 8;

/// The limits of a table. Memory is reserved for it, and used when it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Nodes of the IPv4 table, 1 KiB each.
    pub nodes4: usize,
    /// Cache lines of the IPv6 table's nodes, 64 bytes each.
    pub lines6: usize,
    /// Routes of each family.
    pub routes: usize,
    /// Next hops, groups among them; 65536 at the most.
    pub hops: usize,
    /// Groups, 4 KiB each.
    pub groups: usize,
}

/// A route to be made, replaced or ended.
#[derive(Clone, Copy, Debug)]
pub struct Change<'h> {
    /// Its table.
    pub fib: FibIndex,
    /// Its destinations.
    pub to: Prefix,
    /// Origin of the route; routes of other origins to the same destinations stay.
    pub origin: Origin,
    /// Where it leads from now on: one hop, or several. One that is named several times gets as many shares of the flows. None:
    /// the route ends.
    pub hops: &'h [Hop],
}

/// The result of the first phase of a change.
#[derive(Clone, Debug, Default)]
#[must_use = "new hops must visit all CPUs before the commit"]
pub struct Prepared {
    /// The new snapshot, if there are new hops.
    pub hops: Option<Arc<Hops>>,
    /// Changes that will not be made.
    pub refused: Vec<Refused>,
}

/// The result of the second phase of a change.
#[derive(Clone, Debug, Default)]
#[must_use = "what became free is used again when its epoch is retired"]
pub struct Committed {
    /// Epoch to [`retire`](Rib::retire) after a visit to all CPUs.
    pub epoch: Epoch,
    /// Changes that were made.
    pub changed: usize,
    /// Changes that were not made.
    pub refused: Vec<Refused>,
}

/// A change that is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its table.
    pub fib: FibIndex,
    /// Its destinations.
    pub to: Prefix,
    /// Origin of the route.
    pub origin: Origin,
    /// Why.
    pub error: Error,
}

/// Why a route is refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// There is no such route, so it cannot end.
    NoSuchRoute,
    /// The table has as many routes as it may, or no memory for one more.
    TableFull,
    /// There are as many next hops, or groups of them, as there may be.
    HopsFull,
    /// It has more next hops than a group may.
    TooManyMembers,
    /// The prefix has routes of [`SOURCES_MAX`] sources already.
    TooManySources,
    /// It leads nowhere: only a gateway, a link, ourselves or a refusal can be a next hop.
    NoTarget,
    /// There is no such table.
    NoSuchTable,
}

/// The memory in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// IPv4 prefixes that have routes.
    pub routes4: usize,
    /// IPv6 prefixes that have routes.
    pub routes6: usize,
    /// Nodes of the IPv4 table, and how many it may have.
    pub nodes4: (usize, usize),
    /// Lines of the IPv6 table, and how many it may have.
    pub lines6: (usize, usize),
    /// Bytes that lookups in the IPv4 table may touch.
    pub bytes4: usize,
    /// Bytes that lookups in the IPv6 table may touch.
    pub bytes6: usize,
    /// Next hops, and how many there may be.
    pub hops: (usize, usize),
}

/// Changes after which [`Rib::load`] uses again what they freed, so that a table stays as small as it can be.
const LOAD_STEP: usize = 4096;

/// A change whose hop has its number.
#[derive(Clone, Copy, Debug)]
struct Pending {
    fib: FibIndex,
    to: Prefix,
    origin: Origin,
    /// [`HopId::NO_ROUTE`] ends the route.
    hop: HopId,
}

/// Both families' routes of a table.
#[derive(Debug)]
struct Halves {
    v4: Half<u32, v4::Writer>,
    v6: Half<u128, v6::Writer>,
}

/// One family's routes, and the writer of its table.
#[derive(Debug)]
struct Half<K, W> {
    routes: BTreeMap<(K, u8), Routes>,
    routes_max: usize,
    writer: W,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<((u32, u8), Routes)>() <= 24 && size_of::<((u128, u8), Routes)>() <= 48);

/// The writer of a family's table.
trait Write<K> {
    fn edit(&mut self, fib: &Fib, prefix: (K, u8), edit: Edit, epoch: Epoch) -> Result<(), Full>;
}

impl Bounds {
    /// Full tables of today's Internet, and as much again.
    pub const INTERNET: Self =
        Self { nodes4: 1 << 18, lines6: 1 << 21, routes: 1 << 22, hops: 1 << 16, groups: 1 << 10 };
    /// The size of a configuration file: for tests, and for the many hosts of a simulation.
    pub const SMALL: Self =
        Self { nodes4: 1 << 12, lines6: 1 << 14, routes: 1 << 16, hops: 1 << 12, groups: 1 << 6 };
}

impl Rib {
    /// No routes, and room for as many as `bounds` says.
    ///
    /// # Errors
    ///
    /// When the system has not so much address space for us, or the bounds exceed what an index can name.
    pub fn new(bounds: Bounds) -> io::Result<Self> {
        Self::with_tables(bounds, 1)
    }

    /// Makes `count` tables without routes, one at least and [`FIBS_MAX`] at the most: each with room for as many as `bounds` says,
    /// and all with that many next hops together.
    ///
    /// # Errors
    ///
    /// When the system has not so much address space for us, or the bounds exceed what an index can name.
    pub fn with_tables(bounds: Bounds, count: FibIndex) -> io::Result<Self> {
        let (mut first, halves) = table(bounds)?;
        let others = (1..count.min(FIBS_MAX)).map(|_| table(bounds)).collect::<io::Result<Vec<_>>>()?;
        let (others, other_halves): (Vec<_>, Vec<_>) = others.into_iter().unzip();
        first.others = others.into_boxed_slice();
        Ok(Self {
            fib: Arc::new(first),
            tables: core::iter::once(halves).chain(other_halves).collect(),
            numbers: Numbers::new(bounds.hops, bounds.groups),
            pending: VecDeque::new(),
            epoch: Epoch::default(),
        })
    }

    /// Number of tables.
    #[must_use]
    pub fn tables(&self) -> FibIndex {
        self.fib.tables()
    }

    /// The tables, for readers: table 0, which has the others.
    #[must_use]
    pub fn fib(&self) -> Arc<Fib> {
        Arc::clone(&self.fib)
    }

    /// All hops that there are: what readers of the table need.
    #[must_use]
    pub fn hops(&self) -> Arc<Hops> {
        self.numbers.published()
    }

    /// First phase: gives hops their numbers. The changes wait for [`commit`](Self::commit), behind those that wait
    /// already.
    pub fn prepare(&mut self, changes: &[Change<'_>]) -> Prepared {
        let mut refused = Vec::new();
        for &Change { fib, to, origin, hops } in changes {
            let is_there = fib < self.tables();
            match if is_there { self.numbers.number(hops) } else { Err(Error::NoSuchTable) } {
                Ok(hop) => self.pending.push_back(Pending { fib, to, origin, hop }),
                Err(error) => refused.push(Refused { fib, to, origin, error }),
            }
        }
        Prepared { hops: self.numbers.publish(), refused }
    }

    /// Second phase: changes the table, one route after the other, those to one prefix in the order in which they were
    /// prepared.
    pub fn commit(&mut self) -> Committed {
        self.sort();
        self.commit_some(usize::MAX)
    }

    /// Neighbours are near each other in memory. Changes of one route keep their order.
    fn sort(&mut self) {
        self.pending.make_contiguous().sort_by_key(|change| (change.fib, change.to));
    }

    fn commit_some(&mut self, count: usize) -> Committed {
        self.epoch.0 += 1;
        let mut committed = Committed { epoch: self.epoch, ..Committed::default() };
        for _ in 0..count {
            let Some(change) = self.pending.pop_front() else { break };
            match self.apply(change) {
                Ok(()) => committed.changed += 1,
                Err(error) => {
                    self.numbers.release(change.hop, self.epoch);
                    let Pending { fib, to, origin, .. } = change;
                    committed.refused.push(Refused { fib, to, origin, error });
                }
            }
        }
        self.fib.generation.fetch_add(1, Ordering::Release);
        committed
    }

    /// Third phase: all CPUs were visited since the commit of `epoch`, so what it took out is free.
    pub fn retire(&mut self, epoch: Epoch) {
        for table in &mut self.tables {
            table.v4.writer.retire(epoch);
            table.v6.writer.retire(epoch);
        }
        self.numbers.retire(epoch);
    }

    /// Does all phases at once, before the table has readers. Returns the refused changes.
    pub fn load(&mut self, changes: &[Change<'_>]) -> Vec<Refused> {
        let mut refused = self.prepare(changes).refused;
        self.sort();
        while !self.pending.is_empty() {
            let committed = self.commit_some(LOAD_STEP);
            self.retire(committed.epoch);
            refused.extend(committed.refused);
        }
        refused
    }

    fn apply(&mut self, change: Pending) -> Result<(), Error> {
        let Self { fib, tables, epoch, numbers, .. } = self;
        let Some(Halves { v4, v6 }) = tables.get_mut(usize::from(change.fib)) else {
            return Err(Error::NoSuchTable);
        };
        let fib = fib.table(change.fib);
        let len = change.to.prefix_len();
        let replaced = match change.to.addr() {
            IpAddr::V4(addr) => v4.apply(fib, (addr.to_bits(), len), change, *epoch),
            IpAddr::V6(addr) => v6.apply(fib, (addr.to_bits(), len), change, *epoch),
        };
        numbers.release(replaced?, *epoch);
        Ok(())
    }

    /// Returns the memory in use.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let none = Usage { hops: self.numbers.usage(), ..Usage::default() };
        self.tables.iter().fold(none, |sum, Halves { v4, v6 }| {
            let both = |(used, of): (usize, usize), (more, most): (usize, usize)| (used + more, of + most);
            Usage {
                routes4: sum.routes4 + v4.routes.len(),
                routes6: sum.routes6 + v6.routes.len(),
                nodes4: both(sum.nodes4, v4.writer.usage()),
                lines6: both(sum.lines6, v6.writer.usage()),
                bytes4: sum.bytes4 + v4.writer.bytes(),
                bytes6: sum.bytes6 + v6.writer.bytes(),
                ..sum
            }
        })
    }
}

/// An empty table, and its writers.
fn table(bounds: Bounds) -> io::Result<(Fib, Halves)> {
    let (v4, writer4) = v4::Table::new(bounds.nodes4)?;
    let (v6, writer6) = v6::Table::new(bounds.lines6)?;
    let halves = Halves { v4: Half::new(writer4, bounds.routes), v6: Half::new(writer6, bounds.routes) };
    Ok((Fib { v4, v6, generation: Default::default(), others: Box::default() }, halves))
}

impl<K: Key, W: Write<K>> Half<K, W> {
    const fn new(writer: W, routes_max: usize) -> Self {
        Self { routes: BTreeMap::new(), routes_max, writer }
    }

    /// Makes a change, and answers the hop that is not needed for it any more.
    fn apply(&mut self, fib: &Fib, at: (K, u8), change: Pending, epoch: Epoch) -> Result<HopId, Error> {
        let before = self.routes.get(&at).cloned().unwrap_or_default();
        let mut after = before.clone();
        let replaced = after.set(change.origin, change.hop);
        if change.hop == HopId::NO_ROUTE && replaced == HopId::NO_ROUTE {
            return Err(Error::NoSuchRoute);
        }
        if after.len() > SOURCES_MAX {
            return Err(Error::TooManySources);
        }
        if before.len() == 0 && self.routes.len() >= self.routes_max {
            return Err(Error::TableFull);
        }
        if before.in_force() != after.in_force() {
            let edit = self.edit(at, after.in_force());
            self.writer.edit(fib, at, edit, epoch).map_err(|Full| Error::TableFull)?;
        }
        if after.len() == 0 {
            self.routes.remove(&at)
        } else {
            self.routes.insert(at, after)
        };
        Ok(replaced)
    }

    fn edit(&self, at: (K, u8), in_force: HopId) -> Edit {
        if in_force == HopId::NO_ROUTE {
            let covering = covering(&self.routes, at.0, Bound::Excluded(at));
            let covering =
                covering.map_or((0, HopId::NO_ROUTE), |((_, len), routes)| (len, routes.in_force()));
            Edit::end(at.1, (covering.0, covering.1.bits().into()))
        } else {
            Edit::put(at.1, in_force.bits().into())
        }
    }
}

impl Write<u32> for v4::Writer {
    fn edit(&mut self, fib: &Fib, prefix: (u32, u8), edit: Edit, epoch: Epoch) -> Result<(), Full> {
        self.edit(&fib.v4, prefix, edit, epoch)
    }
}

impl Write<u128> for v6::Writer {
    fn edit(&mut self, fib: &Fib, prefix: (u128, u8), edit: Edit, epoch: Epoch) -> Result<(), Full> {
        self.edit(&fib.v6, prefix, edit, epoch)
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NoSuchRoute => "there is no such route",
            Self::TableFull => "the routing table is full",
            Self::HopsFull => "there are too many different next hops",
            Self::TooManyMembers => "the route has too many next hops",
            Self::TooManySources => "too many sources have a route to the prefix",
            Self::NoTarget => "the route leads nowhere",
            Self::NoSuchTable => "there is no such routing table",
        })
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests;
