//! Path MTUs of conversations of datagrams and ICMP messages: bytes of the largest packet that routers let pass.
//!
//! Any host may send an error that says that a packet was too big, and quote whatever packet. It is believed only of one
//! that has really left: each that is longer than any path carries is noted on its way out ([`Sent`]). Neither datagrams
//! nor echo messages can find out whether a router has told the truth, so what one conversation has learned no other goes
//! by. TCP notices whether its segments arrive, and remembers for itself ([`crate::host::tcp`]).
//!
//! A conversation's packets leave from the CPU that its answers come to, and errors about them are brought there; what it
//! learns it tells the others. Forwarded packets neither make nor use an entry.
//!
//! # Spec
//! RFC 1191; RFC 8201 §4, §5.2; RFC 5927 §7; RFC 8899 §4.6.

mod flow;
mod sent;

use core::net::IpAddr;
use std::collections::BTreeMap;

use hashbrown::HashMap;
use pkt::Pkt;
use wire::ip4;

use crate::base::count::Count;
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::fib::{FibIndex, Metrics, Prefix};
use crate::ip::icmp::{self, Quoted};
use crate::ip::output::Route;
use crate::link::tables::IfIndex;
use crate::turn::cpu::{Cpu, CpuId};

pub use flow::Flow;
pub use sent::SENT_MAX;
use sent::Sent;

/// Conversations whose path MTU is remembered at the most.
pub const PATHS_MAX: usize = 1024;
/// Entries for one router or one remote host, at the most.
pub const PATHS_OF_ONE_MAX: usize = 64;
/// Lifetime of a learnt path MTU: then a bigger packet finds out.
//= https://www.rfc-editor.org/rfc/rfc8201#section-4
//# The recommended setting for this timer is twice its minimum value (10 minutes).
const KEPT: Duration = Duration::from_secs(10 * 60);
/// A path MTU of IPv4 below this is not believed: it would only make us cut what fits (as in other stacks).
pub(crate) const LEAST_V4: usize = 552;
/// Every path of IPv6 carries as much.
pub(crate) const LEAST_V6: usize = wire::ip6::MIN_MTU as usize;
/// Bytes of IPv6 addresses that a host may choose from.
const SITE_LEN: u8 = 64;

/// MTU plateaus, for routers that do not report one (RFC 1191 §7.1, table 7-1).
const PLATEAUS: [u16; 8] = [32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 508];

/// A path MTU that one CPU has learned and tells the others.
#[derive(Clone, Copy, Debug)]
pub struct Msg {
    flow: Flow,
    mtu: u32,
    /// The router that has said so.
    from: IpAddr,
    /// Only a CPU that has sent such a packet believes it.
    is_doubted: bool,
}

/// The path MTUs that one CPU knows, and what has left it.
pub struct Paths {
    table: HashMap<Flow, Path, Secret>,
    sent: Sent,
}

#[derive(Clone, Copy, Debug)]
struct Path {
    mtu: u32,
    until: Instant,
    /// The router that has said so, and the remote host; of IPv6 their /64.
    from: IpAddr,
    remote: IpAddr,
}

impl Paths {
    /// Makes empty tables, keyed by `key`.
    #[must_use]
    pub fn new(key: u128) -> Self {
        // Other numbers than those that the CPU draws of the same key.
        let mut secret = Secret::new(!key);
        let sent = Sent::new(&mut secret);
        Self { table: HashMap::with_hasher(secret), sent }
    }

    /// Returns the number of conversations whose path MTU is remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether no path MTU is remembered.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Returns the bytes of the largest packet of a conversation, if routers have said.
    #[must_use]
    pub fn mtu(&self, flow: &Flow, now: Instant) -> Option<u32> {
        self.table.get(flow).filter(|path| path.until > now).map(|path| path.mtu)
    }

    /// Remembers a path MTU, if it is less than was known; returns whether another one was forgotten for it.
    //= https://www.rfc-editor.org/rfc/rfc8201#section-4
    fn learn(&mut self, Msg { flow, mtu, from, is_doubted }: Msg, now: Instant) -> bool {
        if is_doubted && !self.sent.has(&flow, mtu, now) {
            return false;
        }
        let new = Path { mtu, until: now + KEPT, from: site(from), remote: site(flow.remote()) };
        if let Some(known) = self.table.get_mut(&flow) {
            if known.until <= now || mtu < known.mtu {
                *known = new;
            }
            return false;
        }
        let victim = self.victim(&new);
        if let Some(victim) = victim {
            self.table.remove(&victim);
        }
        self.table.insert(flow, new);
        victim.is_some()
    }

    /// The one that makes room for `new`: the oldest of the same router, or of the same remote host, if these have as many
    /// as they may; the oldest of the router with most, if there are as many as there may be.
    fn victim(&self, new: &Path) -> Option<Flow> {
        let (mut of_router, mut of_remote) = (Group::default(), Group::default());
        for (flow, path) in &self.table {
            of_router.add(*flow, path, path.from == new.from);
            of_remote.add(*flow, path, path.remote == new.remote);
        }
        let own = [of_router, of_remote].into_iter().find(|group| group.count >= PATHS_OF_ONE_MAX);
        match own {
            Some(group) => group.oldest.map(|(_, flow)| flow),
            None if self.table.len() >= PATHS_MAX => self.oldest_of_most(),
            None => None,
        }
    }

    fn oldest_of_most(&self) -> Option<Flow> {
        let mut routers: BTreeMap<IpAddr, Group> = BTreeMap::new();
        for (flow, path) in &self.table {
            routers.entry(path.from).or_default().add(*flow, path, true);
        }
        let most =
            routers.into_values().max_by_key(|group| (group.count, core::cmp::Reverse(group.until())))?;
        most.oldest.map(|(_, flow)| flow)
    }
}

/// Entries that have something in common.
#[derive(Clone, Copy, Default)]
struct Group {
    count: usize,
    oldest: Option<(Instant, Flow)>,
}

impl Group {
    fn add(&mut self, flow: Flow, path: &Path, is_of_it: bool) {
        if is_of_it {
            self.count += 1;
            if self.oldest.is_none_or(|(until, _)| path.until < until) {
                self.oldest = Some((path.until, flow));
            }
        }
    }

    fn until(&self) -> Option<Instant> {
        self.oldest.map(|(until, _)| until)
    }
}

/// Notes a packet that is made here and longer than any path carries, on its way out.
#[cold]
pub(crate) fn note(cpu: &mut Cpu, pkt: &Pkt) {
    if let Some((flow, len)) = flow::of_packet(pkt) {
        let now = cpu.now;
        cpu.paths.sent.note(flow, len, now);
    }
}

/// Returns the route's metrics for a packet that is made here, limited by the path MTU of its conversation.
#[cold]
pub(crate) fn of_packet(cpu: &Cpu, pkt: &Pkt, metrics: Metrics) -> Metrics {
    match flow::of_packet(pkt).filter(|_| !cpu.paths.is_empty()) {
        Some((flow, _)) => of_flow(cpu, &flow, metrics),
        None => metrics,
    }
}

/// Returns the route's metrics, limited by the path MTU of a conversation.
pub(crate) fn of_flow(cpu: &Cpu, flow: &Flow, metrics: Metrics) -> Metrics {
    let known = cpu.paths.mtu(flow, cpu.now).unwrap_or(0);
    Metrics { mtu: least(metrics.mtu, known), ..metrics }
}

/// Returns the bytes of the largest packet of a conversation that gets to its other end, as far as is known; `None` if no
/// route leads there.
#[must_use]
pub fn of(cpu: &Cpu, fib: FibIndex, flow: &Flow) -> Option<u32> {
    match crate::ip::output::path(cpu, fib, flow.remote(), flow.zone(), || 0).ok()? {
        Route::Link { ifindex, metrics, .. } => {
            Some(of_flow(cpu, flow, metrics).mtu_over(cpu.tables.ifnet(ifindex)?.mtu))
        }
        Route::Local => Some(u32::from(u16::MAX)),
    }
}

/// Returns whether the packet that an error quotes, which came by `rcvif`, can have been dropped because it is longer than
/// `mtu`. TCP knows its segments itself; of the others it is known here which have left.
pub(crate) fn is_credible(cpu: &Cpu, rcvif: IfIndex, quoted: &Quoted, mtu: u32) -> bool {
    let is_longer = u32::from(quoted.len) > mtu;
    let was_sent =
        || flow::of_quote(quoted, rcvif).is_some_and(|flow| cpu.paths.sent.has(&flow, mtu, cpu.now));
    is_longer && (quoted.protocol == wire::Protocol::TCP || quoted.dont_fragment && was_sent())
}

/// Records that the router `from` lets nothing bigger than `mtu` pass of the conversation that is quoted.
pub(crate) fn learn(cpu: &mut Cpu, rcvif: IfIndex, from: IpAddr, quoted: &Quoted, mtu: u32) {
    learn_if(cpu, rcvif, from, quoted, mtu, false);
}

/// [`learn`] of a tunnel, whose packets leave by many CPUs: each believes it that has sent one that was so long. Errors that no
/// packet of this CPU has caused are let through at the rate of errors.
pub(crate) fn learn_of_tunnel(cpu: &mut Cpu, rcvif: IfIndex, from: IpAddr, quoted: &Quoted, mtu: u32) {
    let is_longer = u32::from(quoted.len) > mtu && quoted.dont_fragment;
    if is_longer && icmp::is_in_rate(cpu, from) {
        learn_if(cpu, rcvif, from, quoted, mtu, true);
    }
}

fn learn_if(cpu: &mut Cpu, rcvif: IfIndex, from: IpAddr, quoted: &Quoted, mtu: u32, is_doubted: bool) {
    let Some(flow) = flow::of_quote(quoted, rcvif) else { return };
    let least = if flow.remote().is_ipv4() { LEAST_V4 } else { LEAST_V6 };
    let msg = Msg { flow, mtu: mtu.max(u32::try_from(least).unwrap_or(0)), from, is_doubted };
    let fib = cpu.tables.fib_on(rcvif);
    if of(cpu, fib, &flow).is_none_or(|known| msg.mtu >= known) {
        return;
    }
    for other in (0..cpu.placement.cpus()).map(CpuId).filter(|other| *other != cpu.id) {
        cpu.peers.send(other, crate::turn::msg::Msg::Path(msg));
    }
    message(cpu, msg);
}

/// Handles a message from another CPU.
pub fn message(cpu: &mut Cpu, msg: Msg) {
    let now = cpu.now;
    let is_evicted = cpu.paths.learn(msg, now);
    cpu.counters.add(Count::PathEvicted, u64::from(is_evicted));
}

/// Returns the next length below that of a packet that was too long, for a router that does not say.
//= https://www.rfc-editor.org/rfc/rfc1191#section-5
pub(crate) fn plateau_below(len: u16) -> u16 {
    PLATEAUS.into_iter().find(|plateau| *plateau < len).unwrap_or(ip4::MIN_MTU)
}

/// An address, or the part of it that a host cannot choose.
fn site(addr: IpAddr) -> IpAddr {
    match addr {
        IpAddr::V4(_) => addr,
        IpAddr::V6(_) => Prefix::new(addr, SITE_LEN).map_or(addr, Prefix::addr),
    }
}

/// The smaller of two MTUs, of which 0 says nothing.
const fn least(a: u32, b: u32) -> u32 {
    match (a, b) {
        (0, only) | (only, 0) => only,
        _ if a < b => a,
        _ => b,
    }
}

#[cfg(test)]
mod tests;
