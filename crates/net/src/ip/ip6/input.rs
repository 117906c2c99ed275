//! The way in for IPv6 packets.

use core::net::Ipv6Addr;

use pkt::{Flags, Gso, Pkt};
use wire::addr::{Scope, is_martian_destination, is_martian_source_v6, multicast_scope};
use wire::ip6::{HEADER_LEN, View};
use wire::ip6_ext::{self, Role};
use wire::{Protocol, checksum, icmp6, nd};

use super::{dst, refuse, src};
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::ip::forward::LINK_GROUP;
use crate::ip::group::{self, is_joined};
use crate::ip::punt;
use crate::link::tables::Own;
use crate::out::offload;
use crate::turn::cpu::Cpu;
use crate::turn::next::Next;

/// Length of the header, as packets note offsets.
const L4: u16 = 40;
const _: () = assert!(L4 as usize == HEADER_LEN);

/// Next header and hop limit of messages of neighbour discovery.
const DISCOVERY: [u8; 2] = [Protocol::ICMP6.0, nd::HOP_LIMIT];

/// Validates an IPv6 packet, and cuts off what follows it in its frame.
///
/// Reads  `pkt`, `cpu.tables`.
/// Writes `pkt.l4`, `pkt.proto`, the packet's length, what is known of its checksum; `key`, where it is to be routed to.
/// Next   [`Next::Route6`], [`Next::Local6`], [`Next::Answer`].
/// Drops  [`DropReason::Ip6Short`], [`DropReason::Ip6BadVersion`], [`DropReason::Ip6BadPayloadLen`],
///        [`DropReason::Ip6MartianSource`], [`DropReason::Ip6MartianDestination`], [`DropReason::Ip6OwnSource`],
///        [`DropReason::Ip6ScopeExceeded`], [`DropReason::UnicastInBroadcast`], [`DropReason::GroupNotJoined`],
///        [`DropReason::ForwardMulticast`], and what [`refuse`] says of hop-by-hop options.
///
/// # Spec
/// RFC 8200 §3, §4.3; RFC 4291 §2.5, §2.7.
#[cold]
pub fn input(cpu: &mut Cpu, pkt: &mut Pkt, key: &mut u128) -> Next {
    let next = step_by_step(cpu, pkt, key);
    cpu.counters.add(Count::Ip6In, u64::from(next != Next::Route6));
    next
}

/// [`input`] for a packet that needs no closer look (nearly all are such), whose header begins `at` bytes into it; what
/// stands before it is taken off. `None` for any other, to which nothing has happened then.
///
/// Only [`recognise_checksum`] is left to be done.
#[inline(always)]
#[must_use]
pub fn plain(pkt: &mut Pkt, at: u16, own: &Own) -> Option<u128> {
    plain_but(pkt, at, own, LINK_GROUP.with(Flags::CSUM_PARTIAL))
}

/// [`plain`] for a packet that is not, if that is for its partial checksum alone, which is left to be counted.
#[inline(never)]
#[must_use]
pub fn plain_but_partial(pkt: &mut Pkt, at: u16, own: &Own) -> Option<u128> {
    if !pkt.flags.has(Flags::CSUM_PARTIAL) {
        return None;
    }
    let key = plain_but(pkt, at, own, LINK_GROUP)?;
    pkt.csum_start = pkt.csum_start.wrapping_sub(at);
    Some(key)
}

/// [`plain`], if the packet has none of these flags.
#[inline(always)]
fn plain_but(pkt: &mut Pkt, at: u16, own: &Own, flags: Flags) -> Option<u128> {
    let ip = pkt.window(0).get(usize::from(at)..)?.first_chunk::<HEADER_LEN>()?;
    let (addrs, _) = ip[8..].as_chunks::<16>();
    let &[src, dst] = addrs else { return None };
    let (payload_len, next_header) = (u16::from_be_bytes([ip[4], ip[5]]), ip[6]);
    // First what a packet from a device that computes checksums fails by: it is looked at twice.
    let is_plain = !pkt.flags.any(flags)
        && ip[0] >> 4 == 6
        && next_header != Protocol::HOP_BY_HOP.0
        && begins_usual(src[0])
        && begins_usual(dst[0])
        && !own.may_have6(Ipv6Addr::from(src))
        && pkt.gso == Gso::None;
    if !is_plain || !pkt.narrow(at, L4.saturating_add(payload_len)) {
        return None;
    }
    (pkt.l4, pkt.proto) = (L4, next_header);
    Some(u128::from_be_bytes(dst))
}

/// Checks an IPv6 header, cuts off what follows the packet in its frame, and notes the next header, which it returns.
pub(crate) fn fit(cpu: &mut Cpu, pkt: &mut Pkt) -> Result<u8, DropReason> {
    if pkt.head_len() < HEADER_LEN {
        return Err(DropReason::Ip6Short);
    }
    let ip = pkt.window(0);
    if ip[0] >> 4 != 6 {
        return Err(DropReason::Ip6BadVersion);
    }
    let next_header = ip[6];
    let total_len = HEADER_LEN + usize::from(u16::from_be_bytes([ip[4], ip[5]]));
    if total_len != pkt.len() {
        cut_padding(cpu, pkt, total_len)?;
    }
    (pkt.l4, pkt.proto) = (L4, next_header);
    Ok(next_header)
}

fn step_by_step(cpu: &mut Cpu, pkt: &mut Pkt, key: &mut u128) -> Next {
    let next_header = match fit(cpu, pkt) {
        Ok(next_header) => next_header,
        Err(reason) => return Next::Drop(reason),
    };
    recognise_checksum(cpu, pkt);
    let (src, dst) = (src(pkt), dst(pkt));
    let is_odd = next_header == Protocol::HOP_BY_HOP.0 || !is_usual(src) || !is_usual(dst);
    if is_odd || pkt.flags.any(LINK_GROUP) || pkt.gso != Gso::None || pkt.is_chained() {
        pkt.flags.set(Flags::ODD);
    }
    *key = dst.to_bits();
    unusual(cpu, pkt).unwrap_or(Next::Route6)
}

/// A frame may be longer than its packet, and must not be shorter. A payload length of 0 is one of 0: what a jumbo
/// payload option says instead is not believed, and its hop-by-hop header is then found to be missing.
fn cut_padding(cpu: &mut Cpu, pkt: &mut Pkt, total_len: usize) -> Result<(), DropReason> {
    if total_len > pkt.len() {
        return Err(DropReason::Ip6BadPayloadLen);
    }
    if let Some(cut_off) = pkt.truncate(total_len) {
        cpu.pool.give(cut_off);
    }
    Ok(())
}

fn is_usual(addr: Ipv6Addr) -> bool {
    begins_usual(addr.octets()[0])
}

/// 20 to fd: between the special addresses below and link-local and multicast ones above.
#[inline]
pub(crate) const fn begins_usual(first: u8) -> bool {
    first.wrapping_sub(0x20) < 0xde
}

/// Looks closer at a packet with hop-by-hop options, or with an address or a frame that is not of the usual kind.
/// `None` if it goes the usual way all the same.
fn unusual(cpu: &Cpu, pkt: &Pkt) -> Option<Next> {
    if let Some(drop) = judge_source(cpu, pkt) {
        return Some(drop);
    }
    match judge_destination(cpu, pkt) {
        Some(Next::Drop(reason)) => Some(Next::Drop(reason)),
        place => judge_options(pkt).or(place),
    }
}

/// The unspecified source is allowed only for packets on the link: duplicate address detection, and router solicitation.
//= https://www.rfc-editor.org/rfc/rfc4291#section-2.5.2
//# An IPv6 packet with a source address of unspecified must never be
//# forwarded by an IPv6 router.
fn judge_source(cpu: &Cpu, pkt: &Pkt) -> Option<Next> {
    let src = src(pkt);
    if src.is_unspecified() && dst(pkt).is_multicast() {
        return None;
    }
    if is_martian_source_v6(src) {
        return Some(Next::Drop(DropReason::Ip6MartianSource));
    }
    let is_forged = is_own(cpu, pkt, src) && !pkt.flags.has(Flags::LOCAL) && !is_rival(cpu, pkt);
    is_forged.then_some(Next::Drop(DropReason::Ip6OwnSource))
}

/// Whether the packet is another host's claim to our address: from it, from our link, of discovery, and to us.
//= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.4
fn is_rival(cpu: &Cpu, pkt: &Pkt) -> bool {
    let (ip, dst) = (pkt.window(0), dst(pkt));
    let kinds = icmp6::kind::NEIGHBOR_SOLICIT..=icmp6::kind::NEIGHBOR_ADVERT;
    let is_discovery =
        ip[6] == Protocol::ICMP6.0 && ip[7] == nd::HOP_LIMIT && kinds.contains(&ip[HEADER_LEN]);
    is_discovery && (dst.is_multicast() || is_own(cpu, pkt, dst))
}

/// Link-local addresses mean something only together with their link.
fn is_own(cpu: &Cpu, pkt: &Pkt, addr: Ipv6Addr) -> bool {
    if addr.is_unicast_link_local() {
        return cpu.tables.ifnet(pkt.rcvif).is_some_and(|ifnet| ifnet.has(addr.into()));
    }
    cpu.tables.own.has(addr.into())
}

fn judge_destination(cpu: &Cpu, pkt: &Pkt) -> Option<Next> {
    let dst = dst(pkt);
    if is_martian_destination(dst.into()) {
        return Some(Next::Drop(DropReason::Ip6MartianDestination));
    }
    if dst.is_multicast() {
        return Some(group(cpu, pkt, dst));
    }
    // As in IPv4. RFC 6085 allows the reverse, a group in a frame for one host.
    if pkt.flags.any(LINK_GROUP) {
        return Some(Next::Drop(DropReason::UnicastInBroadcast));
    }
    if dst.is_unicast_link_local() {
        let ours = is_own(cpu, pkt, dst);
        return Some(if ours { Next::Local6 } else { Next::Drop(DropReason::Ip6ScopeExceeded) });
    }
    is_for_proxy(cpu, pkt, dst).then_some(Next::Local6)
}

/// Whether the packet asks a host that we answer for whether it is still reachable. Forwarded, the question would arrive with a
/// smaller hop limit, and be ignored.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.1.1
//# The IP Hop Limit field has a value of 255, i.e., the packet
//# could not possibly have been forwarded by a router.
pub fn is_for_proxy(cpu: &Cpu, pkt: &Pkt, dst: Ipv6Addr) -> bool {
    let ip = pkt.window(0);
    [ip[6], ip[7]] == DISCOVERY
        && ip[HEADER_LEN] == icmp6::kind::NEIGHBOR_SOLICIT
        && cpu.tables.ifnet(pkt.rcvif).is_some_and(|ifnet| ifnet.published.get(dst.into()).is_some())
}

fn group(cpu: &Cpu, pkt: &Pkt, group: Ipv6Addr) -> Next {
    if is_joined(cpu, group::Key { ifindex: pkt.rcvif, group: group.into() }) || punt::has_twin(cpu, pkt) {
        return Next::Local6;
    }
    let link_only = multicast_scope(group).is_none_or(|scope| scope <= Scope::LINK_LOCAL);
    let stays = link_only || !cpu.tables.forwarding || src(pkt).is_unspecified();
    Next::Drop(if stays { DropReason::GroupNotJoined } else { DropReason::ForwardMulticast })
}

/// Only hop-by-hop options concern a router; what stands behind them is the destination's to judge.
//= https://www.rfc-editor.org/rfc/rfc8200#section-4
//# Extension headers (except for the Hop-by-Hop Options header) are not
//# processed, inserted, or deleted by any node along a packet's delivery
//# path, until the packet reaches the node (or each of the set of nodes,
//# in the case of multicast) identified in the Destination Address field
//# of the IPv6 header.
fn judge_options(pkt: &Pkt) -> Option<Next> {
    if pkt.window(0)[6] != Protocol::HOP_BY_HOP.0 {
        return None;
    }
    let view = View::new_quoted(pkt.head()).ok()?;
    let error = ip6_ext::walk(&view, Role::Router).err()?;
    let is_hop_by_hop = match error {
        ip6_ext::Error::UnknownOption { .. }
        | ip6_ext::Error::OptionOverruns { .. }
        | ip6_ext::Error::TooManyOptionBytes { .. } => true,
        ip6_ext::Error::Truncated { pointer, .. } => pointer as usize == HEADER_LEN,
        _ => false,
    };
    is_hop_by_hop.then(|| refuse(&error, dst(pkt)))
}

/// Notes what the interface's configuration lets us know about the transport checksum.
#[inline(never)]
pub fn recognise_checksum(cpu: &mut Cpu, pkt: &mut Pkt) {
    if !offload::may_be_partial(cpu, pkt) {
        return;
    }
    let len = u32::try_from(pkt.len() - HEADER_LEN).unwrap_or(u32::MAX);
    let partial = checksum::partial_v6(src(pkt), dst(pkt), Protocol(pkt.proto), len);
    offload::recognise(cpu, pkt, partial);
}

#[cfg(test)]
mod tests;
