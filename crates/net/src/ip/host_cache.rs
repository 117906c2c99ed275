//! The destination cache: what was learned of single destinations of what is sent from here.
//!
//! A router may say that another one is the better first hop (redirects). Only packets that are made here go by it;
//! forwarding never does. It says nothing of another router: when the route leads elsewhere, it is not heeded. Each CPU has
//! all of it: what one learns, it tells the others.
//!
//! # Spec
//! RFC 4861 §5.1, §8.3.

use core::net::IpAddr;
use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::base::count::Count;
use crate::base::secret::Secret;
use crate::ip::neigh;
use crate::ip::output::Route;
use crate::link::tables::{IfIndex, Tables};
use crate::turn::cpu::{Cpu, CpuId};

/// Destinations that are remembered at the most; the one learned first makes room for a new one.
pub const DESTS_MAX: usize = 1024;

/// Names a destination: an address, and its link if the address means something only there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The interface of the link; 0 where the address says all.
    ifindex: IfIndex,
    addr: IpAddr,
}

/// A message between CPUs about destinations.
#[derive(Clone, Copy, Debug)]
pub enum Msg {
    /// There is a better first hop.
    Redirect {
        /// To where.
        dest: Key,
        /// Which one.
        next_hop: neigh::Key,
        /// Than which one, where the route leads.
        than: neigh::Key,
    },
    /// A neighbour is no way to anywhere else any more.
    Lost {
        /// Which one.
        next_hop: neigh::Key,
    },
}

/// The destination cache of one CPU.
pub struct HostCache {
    table: HashMap<Key, HostEntry, Secret>,
    /// All of the table, as they were learned.
    order: VecDeque<Key>,
}

#[derive(Clone, Copy, Default)]
struct HostEntry {
    /// The better first hop, and the one that the route leads to.
    next_hop: Option<(neigh::Key, neigh::Key)>,
}

impl HostCache {
    /// Nothing is remembered. `key` keys the table.
    #[must_use]
    pub fn new(key: u128) -> Self {
        Self { table: HashMap::with_hasher(Secret::new(key)), order: VecDeque::new() }
    }

    /// Returns the number of destinations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Corrects a route by the redirect and path MTU learnt for its destination.
    pub(crate) fn corrected(&self, dst: IpAddr, route: Route) -> Route {
        let Route::Link { ifindex, next_hop, metrics } = route else { return route };
        let Some(dest) = self.table.get(&Key::new(ifindex, dst)) else { return route };
        let routed = neigh::Key { ifindex, addr: next_hop };
        match dest.next_hop.filter(|(_, than)| *than == routed) {
            Some((better, _)) => Route::Link { ifindex: better.ifindex, next_hop: better.addr, metrics },
            None => route,
        }
    }

    fn entry(&mut self, key: Key) -> (&mut HostEntry, bool) {
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
            dest.next_hop.take_if(|(by, _)| by == next_hop);
        }
    }
}

impl Key {
    /// The destination `addr` of what leaves by `ifindex`.
    #[must_use]
    pub fn new(ifindex: IfIndex, addr: IpAddr) -> Self {
        let is_of_link = crate::ip::output::is_of_a_link(addr);
        Self { ifindex: if is_of_link { ifindex } else { 0 }, addr }
    }
}

/// Handles a message from another CPU.
pub fn message(cpu: &mut Cpu, msg: Msg) {
    match msg {
        Msg::Lost { next_hop } => cpu.dests.forget_ways_by(&next_hop),
        Msg::Redirect { dest, next_hop, than } => {
            let (dest, is_full) = cpu.dests.entry(dest);
            dest.next_hop = Some((next_hop, than));
            cpu.counters.add(Count::DestEvicted, u64::from(is_full));
        }
    }
}

/// Forgets ways over neighbours that are on no link any more.
pub(crate) fn tables_changed(cpu: &mut Cpu) {
    let tables = cpu.tables.clone();
    for dest in cpu.dests.table.values_mut() {
        dest.next_hop.take_if(|(by, _)| !neigh::is_on_link(&tables, by));
    }
}

/// The first hop to `dst` says that there is a better one.
pub(crate) fn redirect(cpu: &mut Cpu, dst: IpAddr, next_hop: neigh::Key) {
    let fib = cpu.tables.fib_on(next_hop.ifindex);
    let Ok(Route::Link { ifindex, next_hop: routed, .. }) =
        crate::ip::output::route(&cpu.tables, fib, dst, next_hop.ifindex, || 0)
    else {
        return;
    };
    cpu.count(Count::NdRedirectsIn);
    let (dest, than) = (Key::new(next_hop.ifindex, dst), neigh::Key { ifindex, addr: routed });
    tell_all(cpu, Msg::Redirect { dest, next_hop, than });
}

/// A neighbour is no router any more, or does not answer.
pub(crate) fn lost(cpu: &mut Cpu, next_hop: neigh::Key) {
    tell_all(cpu, Msg::Lost { next_hop });
}

/// The first hop to `dst` of what leaves by `ifindex`, if there is one there.
pub(crate) fn first_hop(cpu: &Cpu, tables: &Tables, dst: IpAddr, ifindex: IfIndex) -> Option<IpAddr> {
    let fib = tables.fib_on(ifindex);
    let route = crate::ip::output::route(tables, fib, dst, ifindex, || 0).ok()?;
    match cpu.dests.corrected(dst, route) {
        Route::Link { ifindex: by, next_hop, .. } if by == ifindex => Some(next_hop),
        _ => None,
    }
}

fn tell_all(cpu: &mut Cpu, msg: Msg) {
    for other in (0..cpu.placement.cpus()).map(CpuId).filter(|other| *other != cpu.id) {
        cpu.peers.send(other, crate::turn::msg::Msg::Dest(msg));
    }
    message(cpu, msg);
}
