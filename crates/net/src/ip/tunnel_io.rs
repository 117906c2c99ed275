//! Packets into tunnels and out of them.
//!
//! A packet that comes out of a tunnel is one of the tunnel's interface and begins again on the CPU that owns the inner
//! flow: handed over at the most once, or with the next chunk of this CPU. One that goes in is a packet that is made here,
//! with a route lookup of its own.
//!
//! Each outer header that a packet gets here, and each that it loses, is counted in `pkt.vlan`, which packets without a
//! tag do not use.
//!
//! # Spec
//! RFC 2003; RFC 2473; RFC 2784; RFC 2890; RFC 4213 §3; RFC 4459; RFC 6040.

mod ecn;
mod errors;

use pkt::{Flags, Gso, Pkt};
use wire::checksum::Sum;
use wire::ether::{EtherType, HEADER_LEN};
use wire::{Protocol, gre, ip4, ip6};

pub(crate) use self::errors::{is_of_tunnel, report};
use crate::base::count::{Count, IfCount};
use crate::base::drop::DropReason;
use crate::base::four_tuple::FourTuple;
use crate::fib::Metrics;
use crate::ip::icmp::Problem;
use crate::ip::ip_tx::{self, IpTxParams};
use crate::ip::output::{self, Route};
use crate::ip::{bridge_io, l4, pmtu, vxlan_io};
use crate::link::ether;
use crate::link::logical::Kind;
use crate::link::pppoe;
use crate::link::tables::{IfIndex, Ifnet};
pub(super) use crate::link::tunnel::become_inner;
use crate::link::tunnel::{Encap, NESTING_MAX, Tunnel};
use crate::turn::capture;
use crate::turn::cpu::Cpu;
use crate::turn::netisr::dispatch;
use crate::turn::next::{Next, Resume};
use crate::turn::rss;

/// TTL, or hop limit, of outer headers (RFC 1700).
pub(super) const HOPS: u8 = 64;

/// Takes a packet for this host out of its tunnel. Gives it back if it is of no tunnel's protocol, or there is no tunnel.
///
/// Reads  both headers, `pkt.l4`, `pkt.proto`, `cpu.tables`.
/// Writes the inner header's congestion bits; all that is known of the packet.
/// Next   [`Next::Ip4`], [`Next::Ip6`], [`Next::HandOff`].
/// Drops  [`DropReason::TunnelUnknown`], [`DropReason::TunnelMalformed`], [`DropReason::TunnelBadChecksum`],
///        [`DropReason::TunnelNotIp`], [`DropReason::TunnelCongested`], [`DropReason::TunnelNested`],
///        [`DropReason::InterfaceDown`], [`DropReason::Monitor`].
///
/// # Spec
/// RFC 2003 §3.1; RFC 2473 §3.3; RFC 4213 §3.6; RFC 6040 §4.2.
pub(crate) fn input(cpu: &mut Cpu, mut pkt: Pkt) -> Result<(), Pkt> {
    if cpu.tables.logical.tunnels.is_empty() || !is_tunnelled(Protocol(pkt.proto)) {
        return Err(pkt);
    }
    match decapsulate(cpu, &mut pkt) {
        Ok(place) => {
            if cpu.watched {
                let kind = if place == Next::Ip4 { EtherType::IPV4 } else { EtherType::IPV6 };
                capture::decapsulated(cpu, &pkt, kind);
            }
            again(cpu, pkt, place);
        }
        Err(reason) => cpu.drop_pkt(pkt, reason),
    }
    Ok(())
}

/// Whether tunnels use this protocol.
const fn is_tunnelled(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::IPIP | Protocol::IPV6 | Protocol::GRE)
}

/// Takes the outer headers off; returns where the inner packet begins again.
fn decapsulate(cpu: &mut Cpu, pkt: &mut Pkt) -> Result<Next, DropReason> {
    let (remote, local) = l4::ends(pkt);
    let Payload { encap, kind, at } = payload(pkt)?;
    //= https://www.rfc-editor.org/rfc/rfc4213#section-3.6
    let ends = Tunnel::between(local, remote, encap);
    let Some(ifindex) = cpu.tables.logical.tunnels.find(&ends) else { return Err(DropReason::TunnelUnknown) };
    let place = inner(pkt, kind, at)?;
    let depth = nesting(pkt, Flags::NONE) + 1;
    if depth > NESTING_MAX {
        return Err(DropReason::TunnelNested);
    }
    match cpu.tables.ifnet(ifindex) {
        Some(Ifnet { up: true, monitor, .. }) => {
            let len = (pkt.len() - at) as u64;
            cpu.counters.add_if(ifindex, IfCount::RxPackets, 1);
            cpu.counters.add_if(ifindex, IfCount::RxBytes, len);
            if *monitor {
                return Err(DropReason::Monitor);
            }
        }
        _ => return Err(DropReason::InterfaceDown),
    }
    let combined = combined_ecn(pkt, Some(at))?;
    become_inner(pkt, at);
    combined.into_iter().for_each(|ecn| set_ecn(pkt, 0, ecn));
    (pkt.rcvif, pkt.vlan) = (ifindex, depth);
    cpu.count(Count::TunnelIn);
    Ok(place)
}

/// The inner packet, as the outer headers describe it.
struct Payload {
    encap: Encap,
    /// The type of the inner packet.
    kind: EtherType,
    /// Where that begins.
    at: usize,
}

/// Reads what the outer header says of the inner packet, and a GRE header. Sequence numbers are not looked at.
//= https://www.rfc-editor.org/rfc/rfc2784#section-2.5
fn payload(pkt: &Pkt) -> Result<Payload, DropReason> {
    let at = usize::from(pkt.l4);
    let kind = match Protocol(pkt.proto) {
        Protocol::IPIP => EtherType::IPV4,
        Protocol::IPV6 => EtherType::IPV6,
        _ => return gre_payload(pkt, at),
    };
    Ok(Payload { encap: Encap::Ip, kind, at })
}

fn gre_payload(pkt: &Pkt, at: usize) -> Result<Payload, DropReason> {
    let bytes = pkt.head().get(at..).unwrap_or_default();
    let header = gre::Header::parse(bytes).map_err(|_| DropReason::TunnelMalformed)?;
    if header.has_checksum && !l4::sum(Sum::default(), pkt, at..pkt.len()).is_intact() {
        return Err(DropReason::TunnelBadChecksum);
    }
    match header.protocol {
        kind @ (EtherType::IPV4 | EtherType::IPV6) => {
            Ok(Payload { encap: Encap::Gre { key: header.key }, kind, at: at + header.len() })
        }
        _ => Err(DropReason::TunnelNotIp),
    }
}

/// Where the inner packet goes on, if it can be one. Its own lengths are looked at there.
fn inner(pkt: &Pkt, kind: EtherType, at: usize) -> Result<Next, DropReason> {
    let version = pkt.head().get(at).map(|first| first >> 4);
    let (place, header) = match (kind, version) {
        (EtherType::IPV4, Some(4)) => (Next::Ip4, ip4::HEADER_LEN),
        (EtherType::IPV6, Some(6)) => (Next::Ip6, ip6::HEADER_LEN),
        _ => return Err(DropReason::TunnelMalformed),
    };
    let is_here = pkt.head_len() >= at + header && pkt.gso == Gso::None;
    if is_here { Ok(place) } else { Err(DropReason::TunnelMalformed) }
}

/// Returns the congestion bits of an inner IP header at `inner`, if there is one, that comes out of a packet.
//= https://www.rfc-editor.org/rfc/rfc6040#section-4.2
pub(super) fn combined_ecn(pkt: &Pkt, inner: Option<usize>) -> Result<Option<u8>, DropReason> {
    let Some(at) = inner else { return Ok(None) };
    let combined = ecn::decapsulated(ecn_of(pkt, at), ecn_of(pkt, 0));
    combined.map(Some).ok_or(DropReason::TunnelCongested)
}

/// Returns the congestion bits of the IP header `at` bytes into a packet.
pub(super) fn ecn_of(pkt: &Pkt, at: usize) -> u8 {
    ecn::of(pkt.window(at))
}

/// Sets the congestion bits of the IP header `at` bytes into a packet.
pub(super) fn set_ecn(pkt: &mut Pkt, at: usize, ecn: u8) {
    ecn::set(pkt.window_mut(at), ecn);
}

/// Outer headers that a packet with all of `flags` has got, or lost, here.
pub(super) fn nesting(pkt: &Pkt, flags: Flags) -> u16 {
    if pkt.flags.has(Flags::VLAN) || !pkt.flags.has(flags) { 0 } else { pkt.vlan }
}

/// Lets an inner packet begin, on the CPU that owns it.
fn again(cpu: &mut Cpu, mut pkt: Pkt, place: Next) {
    match rss::place(cpu, &mut pkt, place) {
        Next::HandOff(owner) => dispatch(cpu, pkt, Next::HandOff(owner)),
        _ => {
            pkt.resume = cpu.stamp.on(Resume::at(place) as u8);
            cpu.decapsulated.push(pkt);
        }
    }
}

/// Lets a frame of a bridge or VXLAN begin as one of that interface, and its packet on the CPU that owns it.
///
/// Next   [`Next::Ip4`], [`Next::Ip6`], [`Next::Arp`], [`Next::HandOff`].
/// Drops  those of [`ether::input`].
pub(super) fn begin_frame(cpu: &mut Cpu, mut pkt: Pkt) {
    let next = match ether::input(cpu, &mut pkt) {
        here @ (Next::Ip4 | Next::Ip6 | Next::Arp) => rss::place(cpu, &mut pkt, here),
        other => other,
    };
    match next {
        place @ (Next::Ip4 | Next::Ip6 | Next::Arp) => {
            pkt.resume = cpu.stamp.on(Resume::at(place) as u8);
            cpu.decapsulated.push(pkt);
        }
        other => dispatch(cpu, pkt, other),
    }
}

/// Puts the outer header of the tunnel `pkt.outif` in place of the link header, and sends.
///
/// Reads  `pkt.outif`, `cpu.tables`, the path MTU of the tunnel.
/// Next   [`Next::Send`], [`Next::Answer`].
/// Drops  [`DropReason::InterfaceGone`], [`DropReason::TunnelNotIp`], [`DropReason::TunnelNested`],
///        [`DropReason::TunnelNoSource`], [`DropReason::TunnelLoop`], [`DropReason::NoBuffer`].
///
/// # Spec
/// RFC 2003 §3.1, §5.1; RFC 2473 §6, §7; RFC 4213 §3.2; RFC 6040 §4.1.
pub(crate) fn output(cpu: &mut Cpu, mut pkt: Pkt) {
    let ifindex = pkt.outif;
    if cpu.watched {
        capture::encapsulating(cpu, &pkt);
    }
    let tunnel = match cpu.tables.ifnet(ifindex).map(|ifnet| ifnet.kind) {
        Some(Kind::Tunnel(tunnel)) => tunnel,
        Some(Kind::Vxlan(vxlan)) => return vxlan_io::output(cpu, pkt, &vxlan),
        Some(Kind::Bridge(_)) => return bridge_io::output(cpu, pkt),
        Some(Kind::Pppoe(pppoe)) => return pppoe::output(cpu, pkt, &pppoe),
        Some(Kind::Loopback) => {
            // Behind it is no host but this one, which has not this address.
            pkt.trim_front(HEADER_LEN);
            return dispatch(cpu, pkt, Next::Answer(Problem::NoRoute));
        }
        _ => return cpu.drop_pkt(pkt, DropReason::InterfaceGone),
    };
    let [.., type_hi, type_lo] = *pkt.window(0).first_chunk::<HEADER_LEN>().unwrap_or(&[0; HEADER_LEN]);
    pkt.trim_front(HEADER_LEN);
    let kind = EtherType(u16::from_be_bytes([type_hi, type_lo]));
    if !matches!(kind, EtherType::IPV4 | EtherType::IPV6) {
        return cpu.drop_pkt(pkt, DropReason::TunnelNotIp);
    }
    match fit(cpu, &pkt, &tunnel, ifindex) {
        Ok(dont_fragment) => encapsulate(cpu, pkt, &tunnel, kind, dont_fragment),
        Err(next) => dispatch(cpu, pkt, next),
    }
}

/// Whether routers may cut the outer packet; or what becomes of the inner one instead.
///
/// A packet that its sender has allowed to be cut, and one of IPv6 that every link carries, is sent even if the outer one
/// has to be cut. Of any other the sender is told what fits.
//= https://www.rfc-editor.org/rfc/rfc4213#section-3.2.2
//= https://www.rfc-editor.org/rfc/rfc2473#section-7.1
//= https://www.rfc-editor.org/rfc/rfc2003#section-5.1
fn fit(cpu: &Cpu, pkt: &Pkt, tunnel: &Tunnel, ifindex: IfIndex) -> Result<bool, Next> {
    if nesting(pkt, Flags::LOCAL) >= NESTING_MAX {
        return Err(Next::Drop(DropReason::TunnelNested));
    }
    // One for several other ends only takes packets: there is no telling to which of them one should go.
    if !tunnel.has_one_end() {
        return Err(Next::Answer(Problem::NoRoute));
    }
    if !cpu.tables.is_ours(tunnel.local) {
        return Err(Next::Drop(DropReason::TunnelNoSource));
    }
    let header = u32::try_from(tunnel.header_len()).unwrap_or(u32::MAX);
    let room = path_mtu(cpu, tunnel, ifindex)?.saturating_sub(header);
    let (least, may_be_cut) = if l4::is_ip4(pkt) {
        (u32::from(ip4::MIN_MTU), pkt.window(0)[6] & 0x40 == 0)
    } else {
        (u32::from(ip6::MIN_MTU), room <= u32::from(ip6::MIN_MTU))
    };
    let mtu = room.max(least);
    let is_short = pkt.len() <= mtu as usize;
    match is_short || l4::is_ip4(pkt) && may_be_cut {
        true => Ok(!may_be_cut),
        false => Err(Next::Answer(Problem::TooBig { mtu })),
    }
}

/// Bytes of the largest outer packet that gets to the other end, as far as is known.
fn path_mtu(cpu: &Cpu, tunnel: &Tunnel, ifindex: IfIndex) -> Result<u32, Next> {
    match output::path(cpu, 0, tunnel.remote, 0, || 0) {
        Ok(Route::Link { ifindex: outif, .. }) if outif == ifindex => Err(Next::Drop(DropReason::TunnelLoop)),
        Ok(Route::Link { ifindex: outif, metrics, .. }) => {
            let metrics = learnt(cpu, tunnel, metrics);
            Ok(cpu.tables.ifnet(outif).map_or(u32::MAX, |ifnet| metrics.mtu_over(ifnet.mtu)))
        }
        Ok(Route::Local) => Err(Next::Drop(DropReason::TunnelLoop)),
        Err(DropReason::NoRoute) => Err(Next::Answer(Problem::NoRoute)),
        Err(DropReason::RejectRoute) => Err(Next::Answer(Problem::Rejected)),
        Err(reason) => Err(Next::Drop(reason)),
    }
}

/// The metrics of the route to the other end, and what routers on the path have said.
fn learnt(cpu: &Cpu, tunnel: &Tunnel, metrics: Metrics) -> Metrics {
    if cpu.paths.is_empty() {
        return metrics;
    }
    let flow = |protocol| pmtu::Flow::tunnel(tunnel.local, tunnel.remote, protocol);
    tunnel.protocols().iter().fold(metrics, |metrics, protocol| pmtu::of_flow(cpu, &flow(*protocol), metrics))
}

/// Writes what stands between the outer network header and a packet; returns the protocol of the former.
fn put_encap(pkt: &mut Pkt, encap: Encap, kind: EtherType) -> Option<Protocol> {
    match (encap, kind) {
        (Encap::Ip, EtherType::IPV4) => Some(Protocol::IPIP),
        (Encap::Ip, _) => Some(Protocol::IPV6),
        (Encap::Gre { key }, _) => {
            let header = gre::Header::new(kind, key);
            header.emit(pkt.prepend(header.len()).ok()?).ok()?;
            Some(Protocol::GRE)
        }
    }
}

fn encapsulate(cpu: &mut Cpu, mut pkt: Pkt, tunnel: &Tunnel, kind: EtherType, dont_fragment: bool) {
    let (class, len) = (l4::tx_params(&pkt).class, pkt.len() as u64);
    let (ifindex, depth) = (pkt.outif, nesting(&pkt, Flags::LOCAL) + 1);
    pkt.forget();
    let params = IpTxParams { hops: HOPS, class, fib: 0 };
    let ends = FourTuple::new((tunnel.local, 0).into(), (tunnel.remote, 0).into(), 0);
    let Some(protocol) = put_encap(&mut pkt, tunnel.encap, kind) else {
        return cpu.drop_pkt(pkt, DropReason::NoBuffer);
    };
    if ip_tx::put_ip(&mut pkt, protocol, &ends, params, dont_fragment).is_none() {
        return cpu.drop_pkt(pkt, DropReason::NoBuffer);
    }
    (pkt.vlan, pkt.proto, pkt.moved) = (depth, protocol.0, true);
    pkt.l4 = u16::try_from(tunnel.network_len()).unwrap_or(u16::MAX);
    cpu.count(Count::TunnelOut);
    cpu.counters.add_if(ifindex, IfCount::TxPackets, 1);
    cpu.counters.add_if(ifindex, IfCount::TxBytes, len);
    ip_tx::output(cpu, pkt);
}

#[cfg(test)]
mod tests;
