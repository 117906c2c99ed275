//! The flow cache: what was decided about a flow's packets, found again by one look.
//!
//! *Normal* forwarding looks the destination up, takes the next hop's [adjacency](crate::adj) and, on a link, the
//! neighbour's address. *Fast* forwarding finds all of that in one entry, which each CPU keeps for the flows it owns.
//! As long as only routes are saved, the lookup costs less than the cache (`docs/PERFORMANCE.md`): it is off unless
//! the configuration says otherwise, and meant for what a firewall will decide.
//!
//! An entry is a copy of the adjacency by which the flow's last packet went, the link address filled in, and holds for
//! as long as nothing has changed that it was made of: any change of tables, routes or neighbours in use makes all
//! entries stale at once. What the packet itself decides (time to live, size, being a super-packet) is looked at each
//! time, and what does not pass goes the normal way.

mod key;
mod table;

use core::hash::BuildHasher;

use pkt::{Pkt, PktVec, VEC_MAX};

use crate::adj::Adj;
use crate::count::Count;
use crate::cpu::Cpu;
use crate::fib::{Fib, HopId, flow_hash};
use crate::forward::{self, Family};
use crate::ip4::{self, Ip4};
use crate::ip6::{self, Ip6};
use crate::neigh::LINK_ADDRS;
use crate::next::Next;
use crate::secret::Secret;

pub use key::{Key, Key4, Key6};
use table::{At, Learnt, Table};

/// Flows of each family that one CPU remembers unless told otherwise: 4 MiB of entries for IPv4, 8 for IPv6, and half
/// as much again of IPv4's for the buckets of each.
pub const FLOWS_DEFAULT: usize = 1 << 16;
/// Flows of each family that one CPU may be told to remember.
pub const FLOWS_MAX: usize = 1 << 22;

/// One CPU's flow cache.
pub struct Flows {
    v4: Cache<Key4, u32>,
    v6: Cache<Key6, u128>,
}

/// One family's flows, and the facts about the vector in hand, by position.
pub struct Cache<K, A> {
    table: Table<K, Adj>,
    keys: [K; VEC_MAX],
    found: [Option<At>; VEC_MAX],
    /// Positions of those whose flow is not known …
    missed: Vec<usize>,
    /// … and, in this order, their destinations, and where the routes to them lead.
    addrs: Vec<A>,
    hops: [HopId; VEC_MAX],
}

/// A family whose flows are remembered.
pub trait Cached: Family {
    /// What names a flow.
    type Key: Key;
    /// A destination, as it is looked up.
    type Addr: Copy;

    /// The family's part of the cache.
    fn cache(flows: &mut Flows) -> &mut Cache<Self::Key, Self::Addr>;
    /// The destination of a packet.
    fn addr(pkt: &Pkt) -> Self::Addr;
    /// Looks destinations up.
    fn lookup(fib: &Fib, addrs: &[Self::Addr], hops: &mut [HopId]);
}

impl Flows {
    /// An empty cache for about `flows` flows of each family, at most [`FLOWS_MAX`]. Its memory is taken now.
    #[must_use]
    pub fn new(flows: usize, secret: &Secret) -> Self {
        Self { v4: Cache::new(flows, secret), v6: Cache::new(flows, secret) }
    }

    /// Flows of both families that would be found now, and how many there is room for.
    #[must_use]
    pub fn usage(&self, cpu: &Cpu) -> (usize, usize) {
        let generation = generation(cpu);
        let live = self.v4.table.live(generation, cpu.now) + self.v6.table.live(generation, cpu.now);
        (live, self.v4.table.capacity() + self.v6.table.capacity())
    }
}

impl<K: Key, A> Cache<K, A> {
    fn new(flows: usize, secret: &Secret) -> Self {
        let key = |n: usize| secret.hash_one(("flow", n));
        Self {
            table: Table::new(flows.min(FLOWS_MAX), core::array::from_fn(key)),
            keys: [K::NONE; VEC_MAX],
            found: [None; VEC_MAX],
            missed: Vec::with_capacity(VEC_MAX),
            addrs: Vec::with_capacity(VEC_MAX),
            hops: [HopId::NO_ROUTE; VEC_MAX],
        }
    }
}

/// Fast forwarding of a vector: where each of its packets goes. Those whose flow is not known, or that do not pass as
/// they are, go the normal way, and their flows are learnt.
///
/// Reads  `cpu.tables`, `cpu.adjs`, the headers that input has checked.
/// Writes, next, drops: as [`forward::forward`].
pub(crate) fn forward<F: Cached>(cpu: &mut Cpu, flows: &mut Flows, lane: &mut PktVec, next: &mut [Next]) {
    let Cache { table, keys, found, missed, .. } = F::cache(flows);
    for (key, pkt) in keys.iter_mut().zip(lane.iter()) {
        *key = F::Key::of(pkt).unwrap_or(F::Key::NONE);
    }
    table.probe(&keys[..lane.len()], generation(cpu), cpu.now, found);
    missed.clear();
    for (at, (pkt, next)) in lane.iter_mut().zip(&mut *next).enumerate() {
        match found[at].and_then(|at| table.get(at)).filter(|adj| forward::passes::<F>(pkt, adj)) {
            Some(adj) => *next = forward::go_by::<F>(pkt, adj),
            None => missed.push(at),
        }
    }
    let hits = (lane.len() - missed.len()) as u64;
    let mut forwarded = hits;
    if hits < lane.len() as u64 {
        forwarded += forward_missed::<F>(cpu, F::cache(flows), lane.iter_mut().into_slice(), next);
    }
    cpu.counters.add(Count::FlowHits, hits);
    cpu.counters.add(F::FORWARDED, forwarded);
}

/// Normal forwarding of those that fast forwarding left; all their destinations are looked up together. Answers how many
/// were sent on.
fn forward_missed<F: Cached>(
    cpu: &mut Cpu,
    cache: &mut Cache<F::Key, F::Addr>,
    pkts: &mut [Pkt],
    next: &mut [Next],
) -> u64 {
    cpu.counters.add(Count::FlowMisses, cache.missed.len() as u64);
    cache.addrs.clear();
    cache.addrs.extend(cache.missed.iter().map(|at| F::addr(&pkts[*at])));
    F::lookup(&cpu.tables.fib, &cache.addrs, &mut cache.hops[..cache.addrs.len()]);
    let mut forwarded = 0;
    for n in 0..cache.missed.len() {
        let at = cache.missed[n];
        let member = cpu.tables.hops.member(cache.hops[n], || flow_hash(&pkts[at]));
        next[at] = forward::forward::<F>(cpu, &mut pkts[at], member, &mut forwarded);
        if next[at] == Next::Output {
            learn(cpu, &mut cache.table, cache.keys[at], member, &pkts[at]);
        }
    }
    forwarded
}

/// Remembers by which adjacency, and behind which link header, a flow's packet has just gone.
fn learn<K: Key>(cpu: &mut Cpu, table: &mut Table<K, Adj>, flow: K, member: HopId, pkt: &Pkt) {
    let (Some(adj), Some(addrs)) = (cpu.adjs.get(member), pkt.window(0).first_chunk::<LINK_ADDRS>()) else {
        return;
    };
    if flow == K::NONE {
        return;
    }
    let adj = adj.to_neighbour(*addrs);
    match table.learn(flow, generation(cpu), cpu.now, adj) {
        Learnt::Yes => cpu.count(Count::FlowLearnt),
        Learnt::Full => cpu.count(Count::FlowFull),
        Learnt::Later => {}
    }
}

/// Grows with any change of what entries are made of: tables and neighbours, and routes.
fn generation(cpu: &Cpu) -> u64 {
    cpu.adjs.generation() + cpu.tables.fib.generation()
}

impl Cached for Ip4 {
    type Key = Key4;
    type Addr = u32;

    fn cache(flows: &mut Flows) -> &mut Cache<Key4, u32> {
        &mut flows.v4
    }

    fn addr(pkt: &Pkt) -> u32 {
        ip4::dst(pkt).to_bits()
    }

    fn lookup(fib: &Fib, addrs: &[u32], hops: &mut [HopId]) {
        fib.lookup4(addrs, hops);
    }
}

impl Cached for Ip6 {
    type Key = Key6;
    type Addr = u128;

    fn cache(flows: &mut Flows) -> &mut Cache<Key6, u128> {
        &mut flows.v6
    }

    fn addr(pkt: &Pkt) -> u128 {
        ip6::dst(pkt).to_bits()
    }

    fn lookup(fib: &Fib, addrs: &[u128], hops: &mut [HopId]) {
        fib.lookup6(addrs, hops);
    }
}

#[cfg(test)]
mod tests;
