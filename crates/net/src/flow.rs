//! The flow cache: what was decided about a flow's packets, found again by one look.
//!
//! *Normal* forwarding asks the firewall's rules, looks the destination up, takes the next hop's
//! [adjacency](crate::ip::adj) and, on a link, the neighbour's address. *Fast* forwarding finds all of that in one entry,
//! which each CPU keeps for the flows it owns. As long as only routes are saved, the lookup costs less than the cache
//! (`docs/evidence/MEASUREMENTS.md`): it is meant for firewalls, and by default off where there is none.
//!
//! An entry is how the flow's last packet went, and holds for as long as nothing has changed that it was made of: any
//! change of rules, of their tables, of interfaces, routes or neighbours in use makes all entries stale at once. What
//! the packet itself decides (time to live, size, being a super-packet) is looked at each time, and what does not pass
//! goes the normal way.
//!
//! Of rules an entry says which of them the packets match, all of which let them pass; so they are counted as if they
//! had been asked ([`verdict`]). That is known where the answers depend on nothing but what the flow's packets share.
//! If a state was among the answers, the entry has its number: the packet refreshes that state, and one that is not
//! within the connection's windows is asked about. In the same way an entry has the number of a binding of NAT, by which
//! the packet is translated. It has room for both; not for two states of one packet, which rules on both sides of a
//! translation make, nor for two translations: such a flow is asked about packet by packet.

mod key;
pub mod offload;
pub mod offloader;
mod table;
mod verdict;

use core::hash::BuildHasher;
use core::net::{Ipv4Addr, Ipv6Addr};

use pkt::{Flags, Pkt, WINDOW};

use crate::base::count::Count;
use crate::base::secret::Secret;
use crate::fib::{Fib, HopId};
use crate::firewall::{Firewall, Known, Lookups, Trace};
use crate::ip::adj::Adj;
use crate::ip::forward::Family;
use crate::ip::ip4::{self, Ip4};
use crate::ip::ip6::{self, Ip6};
use crate::ip::neigh::{LINK_ADDRS, LinkAddrs};
use crate::link::ether;
use crate::link::tables::{IfIndex, Tables};
use crate::turn::cpu::Cpu;
use crate::turn::netisr::{CHUNK, bits};
use crate::turn::next::Next;

pub use key::{Key, Key4, Key6};
use offload::Ends;
use offloader::Offloader;
use table::{At, Learnt, Table};
use verdict::Verdict;
pub use verdict::Verdicts;

/// Flows of each family that one CPU remembers unless told otherwise: 4 MiB of entries for IPv4, 8 for IPv6, half as
/// much again of IPv4's for the buckets of each, and 256 KiB for the flows that were seen once.
pub const FLOWS_DEFAULT: usize = 1 << 16;
/// Flows of each family that one CPU may be told to remember.
pub const FLOWS_MAX: usize = 1 << 22;

/// One CPU's flow cache.
pub struct Flows {
    v4: Cache<Key4, u32>,
    v6: Cache<Key6, u128>,
    verdicts: Verdicts,
    /// Generation of the entries that are valid now, and the number of changes.
    basis: Basis,
    generation: u32,
    /// Flows that drivers forward, if any may.
    offloader: Option<Box<Offloader>>,
}

/// Numbers of which one is another after any change of tables and neighbours, routes, and the firewall.
type Basis = (u64, u64, [u64; 4]);

/// One family's flows, and the facts about the vector in hand, by position.
pub struct Cache<K, A> {
    table: Table<K, CachedPath>,
    keys: [K; CHUNK],
    found: [Option<At>; CHUNK],
    /// Destinations of those whose flow is not known, and where the routes to them lead.
    addrs: Vec<A>,
    hops: [HopId; CHUNK],
}

/// A family whose flows are remembered.
pub trait Cached: Family {
    /// Key of a flow.
    type Key: Key;
    /// A destination, as it is looked up.
    type Addr: Copy;

    /// The family's part of the cache, and what both share.
    fn cache(flows: &mut Flows) -> (&mut Cache<Self::Key, Self::Addr>, &mut Verdicts);
    /// The destination of a packet.
    fn addr(pkt: &Pkt) -> Self::Addr;
    /// Looks destinations up.
    fn lookup(fib: &Fib, addrs: &[Self::Addr], hops: &mut [HopId]);
    /// The addresses and ports of a packet of TCP or UDP that begins so.
    fn ends(header: &[u8; WINDOW]) -> Ends;
    /// Returns the addresses and ports that a key was made of; protocol, traffic class and interface.
    fn parts(key: &Self::Key) -> (Ends, u8, u8, IfIndex);
}

impl Flows {
    /// An empty cache for about `flows` flows of each family, at most [`FLOWS_MAX`]. Its memory is taken now.
    #[must_use]
    pub fn new(flows: usize, secret: &Secret) -> Self {
        let (v4, v6) = (Cache::new(flows, secret), Cache::new(flows, secret));
        let verdicts = Verdicts::new(secret);
        Self { v4, v6, verdicts, basis: Basis::default(), generation: 1, offloader: None }
    }

    /// Flows of both families that would be found now, and how many there is room for.
    #[must_use]
    pub fn usage(&self, cpu: &Cpu) -> (usize, usize) {
        let generation = self.generation.wrapping_add((self.basis != basis(cpu)).into());
        let live = self.v4.table.live(generation, cpu.now) + self.v6.table.live(generation, cpu.now);
        (live, self.v4.table.capacity() + self.v6.table.capacity())
    }

    /// That of entries that hold now.
    fn generation(&mut self, cpu: &Cpu) -> u32 {
        let now = basis(cpu);
        if self.basis != now {
            self.basis = now;
            self.generation = self.generation.checked_add(1).unwrap_or_else(|| self.begin_again());
            // Nothing is left that knows their numbers.
            self.verdicts.forget_all();
        }
        self.generation
    }

    /// After four thousand million changes generations would repeat themselves: no entry lives that long. Answers the first
    /// generation.
    #[cold]
    fn begin_again(&mut self) -> u32 {
        self.v4.table.forget_all();
        self.v6.table.forget_all();
        1
    }
}

fn basis(cpu: &Cpu) -> Basis {
    let firewall = cpu.firewall.as_ref().map(|firewall| firewall.basis()).unwrap_or_default();
    (cpu.adjs.generation(), cpu.tables.fib.generation(), firewall)
}

impl<K: Key, A> Cache<K, A> {
    fn new(flows: usize, secret: &Secret) -> Self {
        let key = |n: usize| secret.hash_one(("flow", n));
        Self {
            table: Table::new(flows.min(FLOWS_MAX), core::array::from_fn(key)),
            keys: [K::NONE; CHUNK],
            found: [None; CHUNK],
            addrs: Vec::with_capacity(CHUNK),
            hops: [HopId::NO_ROUTE; CHUNK],
        }
    }
}

/// The cached path of a flow's packets.
#[derive(Clone, Copy, Debug, Default)]
struct CachedPath {
    /// The state that they hit at the hooks of the firewall, and the binding by which they are translated.
    known: Known,
    how: Lookups,
    /// Bytes of the largest; no packet is longer than this can say.
    mtu: u16,
    /// By which interface.
    outif: IfIndex,
    /// Further results at those hooks.
    verdict: Verdict,
    /// Link addresses.
    addrs: LinkAddrs,
    /// Packets since it was last tried to offload the flow, while any are offloaded.
    tries: u8,
}

const _: () = assert!(size_of::<CachedPath>() <= 36, "with a key of IPv4 an entry is one line");
// docs/reference/LIMITS.md says so.
const _: () = assert!(table::entry_bytes::<Key4, CachedPath>() == 64);
const _: () = assert!(table::entry_bytes::<Key6, CachedPath>() == 128);

/// Packets with one of these flags are not looked up with others of their flow, or not by all.
const UNUSUAL: Flags = Flags::ODD.with(Flags::GENERATED).with(Flags::LOCAL).with(Flags::ASKED);

/// Fast forwarding of a chunk: where those of its packets go whose flow is known, and that pass as they are. Answers
/// which are left.
///
/// Reads  `cpu.tables`, `cpu.adjs`, the headers that input has checked.
/// Next   [`Next::Output`].
pub(crate) fn forward<F: Cached>(
    cpu: &mut Cpu,
    flows: &mut Flows,
    pkts: &mut [Pkt],
    next: &mut [Next; CHUNK],
) -> u64 {
    let generation = flows.generation(cpu);
    let mut firewall = cpu.firewall.take();
    let (cache, verdicts) = F::cache(flows);
    let Cache { table, keys, found, .. } = cache;
    for (key, pkt) in keys.iter_mut().zip(pkts.iter()) {
        *key = if pkt.flags.any(UNUSUAL) { F::Key::NONE } else { F::Key::of(pkt).unwrap_or(F::Key::NONE) };
    }
    table.probe(&keys[..pkts.len()], generation, cpu.now, found);
    let (mut missed, mut ended, mut over, mut hits) = (0, 0_u64, 0_u64, 0);
    for (at, (pkt, next)) in pkts.iter_mut().zip(next).enumerate() {
        // Not copied: that is done field by field, and reading the copy waits for all of them.
        let way = found[at].and_then(|place| table.get(place, generation));
        let way = way.filter(|way| pkt.len() <= usize::from(way.mtu) && F::ttl(pkt) > 1);
        let Some(way) = way else {
            missed |= 1 << at;
            continue;
        };
        let again = |firewall: &mut Box<Firewall>| {
            let (now, known, how) = (cpu.now, &way.known, way.how);
            if !how.is_translated() {
                return firewall.hits_again(pkt, known, how, now);
            }
            let met = verdicts.met(way.verdict)?;
            firewall.translate_again(&mut cpu.counters, now, pkt, met, known, how).then_some(false)
        };
        if !way.how.is_nothing() {
            let Some(is_over) = firewall.as_mut().and_then(again) else {
                // The others of the flow come behind this one.
                found[at].iter().for_each(|place| table.forget(*place));
                missed |= 1 << at;
                ended |= 1 << at;
                continue;
            };
            over |= u64::from(is_over) << at;
        }
        verdicts.count(way.verdict, pkt.len());
        F::take_hop(pkt);
        pkt.outif = way.outif;
        *next = ether::encapsulate(pkt, &way.addrs, F::ETHERTYPE);
        hits += 1;
    }
    // Few packets follow, if any: other flows may have the places now.
    bits(over).filter_map(|at| found[at]).for_each(|place| table.release(place, cpu.now));
    if let Some(firewall) = &mut firewall {
        verdicts.settle(firewall, cpu.now);
    }
    cpu.firewall = firewall;
    cpu.counters.add(Count::FlowHits, hits);
    cpu.counters.add(F::FORWARDED, hits);
    if flows.offloader.is_some() {
        offloader::consider::<F>(cpu, flows, pkts, !missed, generation);
    }
    let Cache { table, keys, found, .. } = F::cache(flows).0;
    if missed != 0 {
        let is_known = |at: usize| found[at].is_some_and(|place| table.get(place, generation).is_some());
        count_misses(cpu, missed, |at| match () {
            () if ended & 1 << at != 0 => Count::FlowMissEnded,
            () if keys[at] == F::Key::NONE => Count::FlowMissUnfit,
            () if is_known(at) => Count::FlowMissLimits,
            () => Count::FlowMissUnknown,
        });
    }
    missed
}

/// Counts why packets went the normal way.
#[inline(never)]
fn count_misses(cpu: &mut Cpu, missed: u64, reason: impl Fn(usize) -> Count) {
    for at in bits(missed) {
        cpu.count(Count::FlowMisses);
        cpu.count(reason(at));
    }
}

/// Looks up the destinations of those packets of a chunk that have a bit in `which`.
pub(crate) fn lookup<F: Cached>(
    tables: &Tables,
    flows: &mut Flows,
    pkts: &[Pkt],
    hops: &mut [HopId; CHUNK],
    which: u64,
) {
    let (cache, _) = F::cache(flows);
    cache.addrs.clear();
    cache.addrs.extend(bits(which).map(|at| F::addr(&pkts[at])));
    F::lookup(&tables.fib, &cache.addrs, &mut cache.hops[..cache.addrs.len()]);
    for (at, hop) in bits(which).zip(&cache.hops) {
        hops[at % CHUNK] = *hop;
    }
    if !tables.fib.is_alone() {
        for at in bits(which) {
            hops[at % CHUNK] = tables.fib_for(&pkts[at]).lookup(F::dst(&pkts[at]));
        }
    }
}

/// Remembers by which adjacency, and behind which link header, the packet at this position of the chunk has just gone,
/// and what it has met, if that holds for its flow.
pub(crate) fn learn<F: Cached>(cpu: &mut Cpu, flows: &mut Flows, at: usize, pkt: &Pkt, member: HopId) {
    let (Some(adj), Some(addrs)) = (cpu.adjs.get(member), pkt.window(0).first_chunk::<LINK_ADDRS>()) else {
        return;
    };
    let Adj { mtu, outif, .. } = *adj;
    let nothing = Trace::default();
    let trace = cpu.firewall.as_ref().map_or(&nothing, |firewall| firewall.trace_of(at));
    let generation = flows.generation;
    let (Cache { table, keys, .. }, verdicts) = F::cache(flows);
    let key = keys[at];
    if key == F::Key::NONE {
        return;
    }
    if !trace.holds {
        return cpu.count(Count::FlowByPacket);
    }
    let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
    let decide = || {
        let verdict = verdicts.of(trace.met)?;
        Some(CachedPath { known: trace.known, how: trace.how, mtu, outif, verdict, addrs: *addrs, tries: 0 })
    };
    match table.learn_from(key, generation, cpu.now, decide) {
        Learnt::Yes => cpu.count(Count::FlowLearnt),
        Learnt::Full => cpu.count(Count::FlowFull),
        Learnt::Later => {}
    }
}

impl Cached for Ip4 {
    type Key = Key4;
    type Addr = u32;

    fn cache(flows: &mut Flows) -> (&mut Cache<Key4, u32>, &mut Verdicts) {
        (&mut flows.v4, &mut flows.verdicts)
    }

    fn addr(pkt: &Pkt) -> u32 {
        ip4::dst(pkt).to_bits()
    }

    fn lookup(fib: &Fib, addrs: &[u32], hops: &mut [HopId]) {
        fib.lookup4(addrs, hops);
    }

    fn ends(header: &[u8; WINDOW]) -> Ends {
        let addr = |at: usize| Ipv4Addr::from(bytes(header, at)).into();
        let port = |at: usize| u16::from_be_bytes(bytes(header, at));
        Ends { src: addr(12), dst: addr(16), src_port: port(20), dst_port: port(22) }
    }

    fn parts(key: &Key4) -> (Ends, u8, u8, IfIndex) {
        key.parts()
    }
}

impl Cached for Ip6 {
    type Key = Key6;
    type Addr = u128;

    fn cache(flows: &mut Flows) -> (&mut Cache<Key6, u128>, &mut Verdicts) {
        (&mut flows.v6, &mut flows.verdicts)
    }

    fn addr(pkt: &Pkt) -> u128 {
        ip6::dst(pkt).to_bits()
    }

    fn lookup(fib: &Fib, addrs: &[u128], hops: &mut [HopId]) {
        fib.lookup6(addrs, hops);
    }

    fn ends(header: &[u8; WINDOW]) -> Ends {
        let addr = |at: usize| Ipv6Addr::from(bytes(header, at)).into();
        let port = |at: usize| u16::from_be_bytes(bytes(header, at));
        Ends { src: addr(8), dst: addr(24), src_port: port(40), dst_port: port(42) }
    }

    fn parts(key: &Key6) -> (Ends, u8, u8, IfIndex) {
        key.parts()
    }
}

/// Bytes of a header at a place; zeroes beyond its end.
fn bytes<const N: usize>(header: &[u8; WINDOW], at: usize) -> [u8; N] {
    header.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests;
