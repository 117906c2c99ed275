//! The destination cache: what was learned of single destinations of what is sent from here.
//!
//! A router may say that another one is the better first hop (redirects), and that a packet was too big for the way
//! behind it (path MTU). Only packets that are made here go by it; forwarding never does. Each CPU has all of it: what
//! one learns, it tells the others.
//!
//! # Spec
//! RFC 4861 §5.1, §8.3; RFC 8201; RFC 1191.

use core::net::IpAddr;
use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::count::Count;
use crate::cpu::{Cpu, CpuId};
use crate::fib::Metrics;
use crate::neigh;
use crate::output::Way;
use crate::secret::Secret;
use crate::tables::{IfIndex, Tables};
use crate::time::{Duration, Instant};

/// Destinations that are remembered at the most; the one learned first makes room for a new one.
pub const DESTS_MAX: usize = 1024;
/// How long a path MTU is believed: then a bigger packet finds out.
//= https://www.rfc-editor.org/rfc/rfc8201#section-4
//# The recommended setting for this timer is twice its minimum value (10 minutes).
const MTU_KEPT: Duration = Duration::from_secs(10 * 60);
/// A path MTU of IPv4 below this is not believed: it would only make us cut what fits (as in other stacks).
const MTU_MIN_V4: u32 = 552;

/// Names a destination: an address, and its link if the address means something only there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The interface of the link; 0 where the address says all.
    ifindex: IfIndex,
    addr: IpAddr,
}

/// What CPUs tell each other about destinations.
#[derive(Clone, Copy, Debug)]
pub enum Msg {
    /// There is a better first hop.
    Redirect {
        /// To where.
        dest: Key,
        /// Which one.
        next_hop: neigh::Key,
    },
    /// Bigger packets do not get there.
    Mtu {
        /// To where.
        dest: Key,
        /// Bytes of one that does.
        mtu: u32,
    },
    /// A neighbour is no way to anywhere else any more.
    Lost {
        /// Which one.
        next_hop: neigh::Key,
    },
}

/// What one CPU remembers of destinations.
pub struct Dests {
    table: HashMap<Key, Dest, Secret>,
    /// All of the table, as they were learned.
    order: VecDeque<Key>,
}

#[derive(Clone, Copy, Default)]
struct Dest {
    next_hop: Option<neigh::Key>,
    /// Bytes, and until when that is believed.
    mtu: Option<(u32, Instant)>,
}

impl Dests {
    /// Nothing is remembered. `key` keys the table.
    #[must_use]
    pub fn new(key: u128) -> Self {
        Self { table: HashMap::with_hasher(Secret::new(key)), order: VecDeque::new() }
    }

    /// How many destinations something is remembered of.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// What the way that routes say really is.
    pub(crate) fn corrected(&self, dst: IpAddr, way: Way, now: Instant) -> Way {
        let Way::Link { ifindex, next_hop, metrics } = way else { return way };
        let Some(dest) = self.table.get(&Key::new(ifindex, dst)) else { return way };
        let mtu = dest.mtu.filter(|(_, until)| *until > now).map(|(mtu, _)| mtu);
        let metrics = Metrics { mtu: least(metrics.mtu, mtu.unwrap_or(0)), ..metrics };
        match dest.next_hop {
            Some(better) => Way::Link { ifindex: better.ifindex, next_hop: better.addr, metrics },
            None => Way::Link { ifindex, next_hop, metrics },
        }
    }

    fn entry(&mut self, key: Key) -> (&mut Dest, bool) {
        let is_new = !self.table.contains_key(&key);
        let is_full = is_new && self.table.len() >= DESTS_MAX;
        if is_full && let Some(oldest) = self.order.pop_front() {
            self.table.remove(&oldest);
        }
        if is_new {
            self.order.push_back(key);
        }
        (self.table.entry(key).or_default(), is_full)
    }

    fn forget_ways_by(&mut self, next_hop: &neigh::Key) {
        for dest in self.table.values_mut() {
            dest.next_hop.take_if(|by| by == next_hop);
        }
    }
}

impl Key {
    /// The destination `addr` of what leaves by `ifindex`.
    #[must_use]
    pub fn new(ifindex: IfIndex, addr: IpAddr) -> Self {
        let is_of_link = crate::output::is_of_a_link(addr);
        Self { ifindex: if is_of_link { ifindex } else { 0 }, addr }
    }
}

/// Handles a message from another CPU.
pub fn message(cpu: &mut Cpu, msg: Msg) {
    let until = cpu.now + MTU_KEPT;
    let is_full = match msg {
        Msg::Lost { next_hop } => return cpu.dests.forget_ways_by(&next_hop),
        Msg::Redirect { dest, next_hop } => {
            let (dest, is_full) = cpu.dests.entry(dest);
            dest.next_hop = Some(next_hop);
            is_full
        }
        Msg::Mtu { dest, mtu } => {
            let now = cpu.now;
            let (dest, is_full) = cpu.dests.entry(dest);
            let known = dest.mtu.filter(|(_, until)| *until > now);
            // RFC 8201 §4: a node must not increase its estimate because of such a message.
            dest.mtu = known.filter(|(known, _)| *known <= mtu).or(Some((mtu, until)));
            is_full
        }
    };
    cpu.counters.add(Count::DestEvicted, u64::from(is_full));
}

/// Forgets ways over neighbours that are on no link any more.
pub(crate) fn tables_changed(cpu: &mut Cpu) {
    let tables = cpu.tables.clone();
    for dest in cpu.dests.table.values_mut() {
        dest.next_hop.take_if(|by| !neigh::is_on_link(&tables, by));
    }
}

/// A router, heard on `rcvif`, says that bigger packets do not get to `dst`.
pub(crate) fn is_narrow(cpu: &mut Cpu, rcvif: IfIndex, dst: IpAddr, mtu: u32) {
    let Some(ifindex) = crate::output::source_on(cpu, dst, rcvif).map(|(_, ifindex)| ifindex) else { return };
    let mtu = if dst.is_ipv4() { mtu.max(MTU_MIN_V4) } else { mtu };
    if cpu.tables.ifnet(ifindex).is_some_and(|ifnet| mtu < ifnet.mtu) {
        tell_all(cpu, Msg::Mtu { dest: Key::new(ifindex, dst), mtu });
    }
}

/// The first hop to `dst` says that there is a better one.
pub(crate) fn redirect(cpu: &mut Cpu, dst: IpAddr, next_hop: neigh::Key) {
    cpu.count(Count::NdRedirectsIn);
    tell_all(cpu, Msg::Redirect { dest: Key::new(next_hop.ifindex, dst), next_hop });
}

/// A neighbour is no router any more, or does not answer.
pub(crate) fn lost(cpu: &mut Cpu, next_hop: neigh::Key) {
    tell_all(cpu, Msg::Lost { next_hop });
}

/// The first hop to `dst` of what leaves by `ifindex`, if there is one there.
pub(crate) fn first_hop(cpu: &Cpu, tables: &Tables, dst: IpAddr, ifindex: IfIndex) -> Option<IpAddr> {
    let way = crate::output::way(tables, dst, ifindex, || 0).ok()?;
    match cpu.dests.corrected(dst, way, cpu.now) {
        Way::Link { ifindex: by, next_hop, .. } if by == ifindex => Some(next_hop),
        _ => None,
    }
}

/// Bytes of the largest packet that gets to `dst`, as far as is known; `None` if no route leads there.
#[must_use]
pub fn mtu_to(cpu: &Cpu, dst: IpAddr) -> Option<u32> {
    match crate::output::path(cpu, dst, 0, || 0).ok()? {
        Way::Link { ifindex, metrics, .. } => Some(metrics.mtu_over(cpu.tables.ifnet(ifindex)?.mtu)),
        Way::Local => Some(u32::from(u16::MAX)),
    }
}

fn tell_all(cpu: &mut Cpu, msg: Msg) {
    for other in (0..cpu.placement.cpus()).map(CpuId).filter(|other| *other != cpu.id) {
        cpu.peers.send(other, crate::msg::Msg::Dest(msg));
    }
    message(cpu, msg);
}

/// The smaller of two MTUs, of which 0 says nothing.
const fn least(a: u32, b: u32) -> u32 {
    match (a, b) {
        (0, only) | (only, 0) => only,
        _ if a < b => a,
        _ => b,
    }
}
