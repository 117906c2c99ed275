//! Forwarding: what the route says, done to the packet. One body for both families.

use core::net::IpAddr;

use pkt::{Flags, Gso, Pkt};
use wire::ether::EtherType;

use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::fib::{HopId, Metrics, To, flow_hash};
use crate::ip::adj::{self, Adj};
use crate::ip::icmp::Problem;
use crate::ip::neigh;
use crate::link::ether;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;
use crate::turn::next::Next;
use crate::turn::pfil;

/// The frame was for many.
pub const LINK_GROUP: Flags = Flags::BROADCAST.with(Flags::MULTICAST);

/// The differences between IPv4 and IPv6 in forwarding.
pub trait Family {
    /// Where packets for this host go.
    const LOCAL: Next;
    /// Counts what came in.
    const RECEIVED: Count;
    /// Counts what was forwarded.
    const FORWARDED: Count;

    /// EtherType of its packets.
    const ETHERTYPE: EtherType;

    /// Time to live, or hop limit.
    fn ttl(pkt: &Pkt) -> u8;
    /// Takes one from it, and keeps the header valid. False, and nothing is changed, if none would be left.
    fn take_hop(pkt: &mut Pkt) -> bool;
    /// The destination.
    fn dst(pkt: &Pkt) -> IpAddr;
    /// Whether packets from and to these addresses may leave the link they were sent on.
    fn confined(pkt: &Pkt) -> Option<Next>;
    /// Decides on a packet that is bigger than `mtu`.
    fn too_big(pkt: &Pkt, mtu: u32) -> Next;
}

/// Sends a packet where its route leads: up, to the next hop, or to a drop reason. Adds what it sent on to `forwarded`.
///
/// Reads  `cpu.tables`, `cpu.neigh`.   Writes `pkt.outif`, the TTL, the link header.
/// Next   [`Next::Output`], [`Next::Local4`], [`Next::Local6`], [`Next::Resolve`], [`Next::Fragment`],
///        [`Next::Answer`].
/// Drops  [`DropReason::BlackholeRoute`], [`DropReason::ForwardingOff`], [`DropReason::ForwardLinkBroadcast`],
///        [`DropReason::ForwardBroadcast`], [`DropReason::InterfaceGone`].
///
/// # Spec
/// RFC 1812 §5.2; RFC 8200 §3.
#[inline(always)]
pub fn forward<F: Family>(cpu: &mut Cpu, pkt: &mut Pkt, hop: HopId, forwarded: &mut u64) -> Next {
    let adj = cpu.adjs.towards(&cpu.tables.hops, pkt, hop);
    let Some(adj) = adj.filter(|adj| passes::<F>(pkt, adj)) else {
        return step_by_step::<F>(cpu, pkt, hop);
    };
    *forwarded = forwarded.wrapping_add(1);
    match adj.kind {
        adj::Kind::OnLink => {
            pkt.outif = adj.outif;
            neigh::link(cpu, pkt, F::dst(pkt))
        }
        _ => go_by::<F>(pkt, adj),
    }
}

/// Puts the link header on a packet that has passed by the adjacency of `hop`, which is no group, and has been asked
/// about since.
///
/// Next   [`Next::Output`], [`Next::Resolve`].
pub(crate) fn link<F: Family>(cpu: &mut Cpu, pkt: &mut Pkt, hop: HopId) -> Next {
    if let Some(adj) = cpu.adjs.gateway(hop) {
        return go_by::<F>(pkt, adj);
    }
    let next_hop = match cpu.tables.hops.get(hop).to {
        To::Gateway { via, .. } => via,
        _ => F::dst(pkt),
    };
    neigh::link(cpu, pkt, next_hop)
}

/// Sends a packet that [`passes`] by an adjacency that has its link addresses.
#[inline]
pub(crate) fn go_by<F: Family>(pkt: &mut Pkt, adj: &Adj) -> Next {
    pkt.outif = adj.outif;
    ether::encapsulate(pkt, &adj.addrs, F::ETHERTYPE)
}

/// Whether nothing keeps the packet from going by this adjacency; then it has one hop less.
#[inline]
pub(crate) fn passes<F: Family>(pkt: &mut Pkt, adj: &Adj) -> bool {
    !pkt.flags.has(Flags::ODD) && pkt.len() <= adj.mtu as usize && F::take_hop(pkt)
}

/// [`forward`] without an adjacency, which is then made if it can be.
#[cold]
pub(crate) fn step_by_step<F: Family>(cpu: &mut Cpu, pkt: &mut Pkt, hop: HopId) -> Next {
    let member = cpu.tables.hops.member(hop, || flow_hash(pkt));
    let next = route::<F>(cpu, pkt, member);
    if next == Next::Output {
        adj::learn(cpu, hop, member);
    }
    next
}

fn route<F: Family>(cpu: &mut Cpu, pkt: &mut Pkt, member: HopId) -> Next {
    let hop = cpu.tables.hops.get(member);
    match hop.to {
        To::OnLink { ifindex } => transit::<F>(cpu, pkt, ifindex, None, hop.metrics),
        To::Gateway { ifindex, via } => transit::<F>(cpu, pkt, ifindex, Some(via), hop.metrics),
        To::Local { .. } => F::LOCAL,
        To::Broadcast { ifindex } if ifindex == pkt.rcvif => F::LOCAL,
        // RFC 2644 §2: a router does not forward directed broadcasts by default.
        To::Broadcast { ifindex } if cpu.sysctls.directed_broadcast => {
            transit::<F>(cpu, pkt, ifindex, None, hop.metrics)
        }
        To::Broadcast { .. } => Next::Drop(DropReason::ForwardBroadcast),
        _ if !cpu.tables.forwarding => Next::Drop(DropReason::ForwardingOff),
        To::NoRoute | To::Group(_) => Next::Answer(Problem::NoRoute),
        To::Reject => Next::Answer(Problem::Rejected),
        To::Blackhole => Next::Drop(DropReason::BlackholeRoute),
    }
}

/// Forwards by an interface, to `via` or to its destination itself.
pub(crate) fn transit<F: Family>(
    cpu: &mut Cpu,
    pkt: &mut Pkt,
    ifindex: IfIndex,
    via: Option<IpAddr>,
    metrics: Metrics,
) -> Next {
    if !cpu.tables.forwarding {
        return Next::Drop(DropReason::ForwardingOff);
    }
    // RFC 1812 §5.3.4: a router MUST NOT forward any packet that it received as a link layer broadcast.
    if pkt.flags.any(LINK_GROUP) {
        return Next::Drop(DropReason::ForwardLinkBroadcast);
    }
    if let Some(next) = F::confined(pkt) {
        return next;
    }
    // RFC 1812 §5.3.1: TTL is checked before it is decremented to zero.
    if F::ttl(pkt) <= 1 {
        return Next::Answer(Problem::TimeExceeded);
    }
    let Some(ifnet) = cpu.tables.ifnet(ifindex) else { return Next::Drop(DropReason::InterfaceGone) };
    pkt.outif = ifindex;
    let mtu = metrics.mtu_over(ifnet.mtu);
    if !fits(pkt, mtu) {
        return F::too_big(pkt, mtu);
    }
    F::take_hop(pkt);
    if let Some(next) = pfil::ask_outward(cpu, pkt) {
        return next;
    }
    cpu.count(F::FORWARDED);
    neigh::link(cpu, pkt, via.unwrap_or_else(|| F::dst(pkt)))
}

/// Whether the packet, or each segment that a super-packet will become, is at most `mtu` bytes long.
#[inline]
#[must_use]
pub fn fits(pkt: &Pkt, mtu: u32) -> bool {
    let len = if pkt.gso == Gso::None { pkt.len() } else { crate::out::offload::segment_len(pkt) };
    len <= mtu as usize
}

#[cfg(test)]
mod tests;
