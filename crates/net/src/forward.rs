//! Forwarding: what the route says, done to the packet. One body for both families.

use core::net::IpAddr;

use pkt::{Flags, Gso, Pkt};

use crate::count::Count;
use crate::cpu::Cpu;
use crate::drop::DropReason;
use crate::fib::{Hop, HopId};
use crate::icmp::Problem;
use crate::neigh;
use crate::next::Next;
use crate::tables::IfIndex;

/// The frame was for many.
pub const LINK_GROUP: Flags = Flags::BROADCAST.with(Flags::MULTICAST);

/// What differs between IPv4 and IPv6 on the way through.
pub trait Family {
    /// Where packets for this host go.
    const LOCAL: Next;
    /// Counts what was forwarded.
    const FORWARDED: Count;

    /// Time to live, or hop limit.
    fn ttl(pkt: &Pkt) -> u8;
    /// Takes one from it, and keeps the header valid.
    fn decrement_ttl(pkt: &mut Pkt);
    /// The destination.
    fn dst(pkt: &Pkt) -> IpAddr;
    /// Whether packets from and to these addresses may leave the link they were sent on.
    fn confined(pkt: &Pkt) -> Option<Next>;
    /// What becomes of a packet that is bigger than `mtu`.
    fn too_big(pkt: &Pkt, mtu: u32) -> Next;
}

/// Sends a packet where its route leads: up, to the next hop, or to its grave.
///
/// Reads  `cpu.tables`, `cpu.neigh`.   Writes `pkt.outif`, the TTL, the link header.
/// Next   [`Next::Output`], [`Next::Local4`], [`Next::Local6`], [`Next::Resolve`], [`Next::Fragment`],
///        [`Next::Answer`].
/// Drops  [`DropReason::BlackholeRoute`], [`DropReason::ForwardingOff`], [`DropReason::ForwardLinkBroadcast`],
///        [`DropReason::ForwardBroadcast`], [`DropReason::InterfaceGone`].
///
/// # Spec
/// RFC 1812 §5.2; RFC 8200 §3.
#[inline]
pub fn forward<F: Family>(cpu: &mut Cpu, pkt: &mut Pkt, hop: HopId) -> Next {
    match cpu.tables.fib.hop(hop) {
        Hop::OnLink { ifindex } => transit::<F>(cpu, pkt, ifindex, None),
        Hop::Gateway { ifindex, via } => transit::<F>(cpu, pkt, ifindex, Some(via)),
        Hop::Local { .. } => F::LOCAL,
        Hop::Broadcast { ifindex } if ifindex == pkt.rcvif => F::LOCAL,
        // RFC 2644 §2: a router does not forward directed broadcasts by default.
        Hop::Broadcast { .. } => Next::Drop(DropReason::ForwardBroadcast),
        _ if !cpu.tables.forwarding => Next::Drop(DropReason::ForwardingOff),
        Hop::NoRoute => Next::Answer(Problem::NoRoute),
        Hop::Reject => Next::Answer(Problem::Rejected),
        Hop::Blackhole => Next::Drop(DropReason::BlackholeRoute),
    }
}

#[inline]
fn transit<F: Family>(cpu: &mut Cpu, pkt: &mut Pkt, ifindex: IfIndex, via: Option<IpAddr>) -> Next {
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
    if !fits(pkt, ifnet.mtu) {
        return F::too_big(pkt, ifnet.mtu);
    }
    F::decrement_ttl(pkt);
    cpu.count(F::FORWARDED);
    neigh::link(cpu, pkt, via.unwrap_or_else(|| F::dst(pkt)))
}

/// Whether the packet, or each segment that a super-packet will become, is at most `mtu` bytes long.
#[inline]
#[must_use]
pub fn fits(pkt: &Pkt, mtu: u32) -> bool {
    let len = if pkt.gso == Gso::None { pkt.len() } else { crate::offload::segment_len(pkt) };
    len <= mtu as usize
}

#[cfg(test)]
mod tests;
