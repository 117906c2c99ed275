//! Frames into VXLANs and out of them.
//!
//! A frame that comes out is one of the VXLAN interface and begins again with its Ethernet header, on the CPU that owns the
//! inner flow. One that goes in becomes the payload of a datagram that is made here, whose source port tells routers
//! which inner flow it is of. Headers are counted as those of [`tunnel_io`] are.
//!
//! # Spec
//! RFC 7348 §4, §5; RFC 6040; RFC 6935; RFC 6936.

use core::net::IpAddr;

use pkt::{Flags, Gso, Pkt};
use wire::ether::{EtherType, HEADER_LEN, Mac};
use wire::{Protocol, ip4, ip6, udp};

use crate::base::count::{Count, IfCount};
use crate::base::drop::DropReason;
use crate::base::four_tuple::FourTuple;
use crate::ip::icmp::Problem;
use crate::ip::icmp::Quoted;
use crate::ip::ip_tx::{self, IpTxParams};
use crate::ip::output::{self, Route};
use crate::ip::tunnel_io::{self, HOPS, nesting};
use crate::ip::{l4, pmtu};
use crate::link::fdb::{self, Behind, Static};
use crate::link::tables::{IfIndex, Ifnet, Rxcsum};
use crate::link::tunnel::NESTING_MAX;
use crate::link::vxlan::{self, Vxlan};
use crate::out::offload;
use crate::turn::capture;
use crate::turn::cpu::Cpu;
use crate::turn::netisr::dispatch;
use crate::turn::next::Next;
use crate::turn::rss;

/// Bytes between the outer network header and the frame.
const ENCAP_LEN: usize = udp::HEADER_LEN + vxlan::HEADER_LEN;
/// Source ports are from here to the end.
//= https://www.rfc-editor.org/rfc/rfc7348#section-5
//# it is RECOMMENDED that the value be in the dynamic/private port range 49152-65535
const FIRST_PORT: u16 = 49152;

/// Takes the frame in a datagram for this host out, if a VXLAN has its port; else gives the packet back.
///
/// Reads  all headers, `pkt.l4`, `cpu.tables`.
/// Writes the inner header's congestion bits; all that is known of the packet.
/// Next   [`Next::Ip4`], [`Next::Ip6`], [`Next::Arp`], [`Next::HandOff`].
/// Drops  [`DropReason::VxlanNoVni`], [`DropReason::VxlanUnknown`], [`DropReason::TunnelMalformed`],
///        [`DropReason::TunnelCongested`], [`DropReason::TunnelNested`], [`DropReason::InterfaceDown`],
///        [`DropReason::Monitor`], and those of [`tunnel_io::begin_frame`].
///
/// # Spec
/// RFC 7348 §4.1, §5; RFC 6040 §4.2.
pub(crate) fn input(cpu: &mut Cpu, mut pkt: Pkt) -> Result<(), Pkt> {
    let [_, _, port_hi, port_lo, ..] = *pkt.window(usize::from(pkt.l4));
    let port = u16::from_be_bytes([port_hi, port_lo]);
    if !cpu.tables.logical.vxlans.has_port(port) {
        return Err(pkt);
    }
    cpu.count(Count::VxlanIn);
    match decapsulate(cpu, &mut pkt, port) {
        Ok(()) => {
            if cpu.watched {
                capture::frame_decapsulated(cpu, &pkt);
            }
            tunnel_io::begin_frame(cpu, pkt);
        }
        Err(reason) => cpu.drop_pkt(pkt, reason),
    }
    Ok(())
}

/// Whether a datagram to this port may have no checksum over IPv6.
//= https://www.rfc-editor.org/rfc/rfc6935#section-5
pub(crate) fn needs_no_checksum(cpu: &Cpu, port: u16) -> bool {
    cpu.tables.logical.vxlans.has_port(port)
}

/// Whether a datagram to this port is taken though its checksum is wrong: one of a link that delivers partial checksums. The sender
/// has then worked the outer checksum out as if the inner one were complete already (local checksum offload).
//= https://www.rfc-editor.org/rfc/rfc7348#section-5
pub(crate) fn may_go_unverified(cpu: &Cpu, pkt: &Pkt, port: u16) -> bool {
    let is_partial = |ifnet: &Ifnet| ifnet.rxcsum == Rxcsum::Complete;
    cpu.tables.logical.vxlans.has_port(port) && cpu.tables.ifnet(pkt.rcvif).is_some_and(is_partial)
}

/// Takes everything in front of the frame off.
fn decapsulate(cpu: &mut Cpu, pkt: &mut Pkt, port: u16) -> Result<(), DropReason> {
    let (from, to) = l4::ends(pkt);
    let at = usize::from(pkt.l4);
    let header = pkt.head().get(at + udp::HEADER_LEN..).and_then(<[u8]>::first_chunk);
    let vni = vxlan::vni(header.ok_or(DropReason::TunnelMalformed)?).ok_or(DropReason::VxlanNoVni)?;
    let found = cpu.tables.logical.vxlans.find(to, port, vni);
    let (ifindex, frame) = (found.ok_or(DropReason::VxlanUnknown)?, at + ENCAP_LEN);
    cut_behind_datagram(cpu, pkt, at);
    if pkt.head_len() < frame + HEADER_LEN || pkt.gso != Gso::None {
        return Err(DropReason::TunnelMalformed);
    }
    let depth = nesting(pkt, Flags::NONE) + 1;
    if depth > NESTING_MAX {
        return Err(DropReason::TunnelNested);
    }
    received(cpu, ifindex, pkt.len() - frame)?;
    let combined = tunnel_io::combined_ecn(pkt, inner_ip(pkt, frame))?;
    let [_, _, _, _, _, _, src @ ..] = *pkt.window(frame).first_chunk::<12>().unwrap_or(&[0; 12]);
    tunnel_io::become_inner(pkt, frame);
    if let Some(ecn) = combined {
        tunnel_io::set_ecn(pkt, HEADER_LEN, ecn);
    }
    (pkt.rcvif, pkt.vlan) = (ifindex, depth);
    cpu.count(Count::TunnelIn);
    if !Mac(src).is_multicast() {
        fdb::heard(cpu, fdb::Key { ifindex, mac: Mac(src) }, Behind::Vtep(from));
    }
    Ok(())
}

/// Cuts off what the datagram at `at` says is not its own.
fn cut_behind_datagram(cpu: &mut Cpu, pkt: &mut Pkt, at: usize) {
    let [_, _, _, _, len_hi, len_lo, ..] = *pkt.window(at);
    let end = at + usize::from(u16::from_be_bytes([len_hi, len_lo]));
    if end < pkt.len()
        && let Some(cut_off) = pkt.truncate(end)
    {
        cpu.pool.give(cut_off);
    }
}

/// Counts a frame, and tells why it is not taken.
fn received(cpu: &mut Cpu, ifindex: IfIndex, len: usize) -> Result<(), DropReason> {
    let Some(Ifnet { up: true, monitor, .. }) = cpu.tables.ifnet(ifindex) else {
        return Err(DropReason::InterfaceDown);
    };
    cpu.counters.add_if(ifindex, IfCount::RxPackets, 1);
    cpu.counters.add_if(ifindex, IfCount::RxBytes, len as u64);
    if *monitor { Err(DropReason::Monitor) } else { Ok(()) }
}

/// Where the network header in a frame begins that starts `frame` bytes into a packet, if it is of IP and all there.
fn inner_ip(pkt: &Pkt, frame: usize) -> Option<usize> {
    let [.., type_hi, type_lo] = *pkt.window(frame).first_chunk::<HEADER_LEN>()?;
    let (version, header) = match EtherType(u16::from_be_bytes([type_hi, type_lo])) {
        EtherType::IPV4 => (4, ip4::HEADER_LEN),
        EtherType::IPV6 => (6, ip6::HEADER_LEN),
        _ => return None,
    };
    let at = frame + HEADER_LEN;
    (pkt.head_len() >= at + header && pkt.window(at)[0] >> 4 == version).then_some(at)
}

/// Sends a frame to the remote end that its destination is behind, or to all that there may be.
///
/// Reads  the frame's headers, `cpu.fdb`, the path MTU of the remote end.
/// Next   [`Next::Send`], [`Next::Answer`].
/// Drops  [`DropReason::VxlanNoRemote`], [`DropReason::TunnelNested`], [`DropReason::TunnelNoSource`],
///        [`DropReason::TunnelLoop`], [`DropReason::TunnelTooBig`], [`DropReason::NoBuffer`].
///
/// # Spec
/// RFC 7348 §4.1, §4.2, §4.3; RFC 6040 §4.1.
pub(super) fn output(cpu: &mut Cpu, pkt: Pkt, vxlan: &Vxlan) {
    let ifindex = pkt.outif;
    let mac = Mac(*pkt.window(0).first_chunk().unwrap_or(&[0; 6]));
    let known = if mac.is_multicast() { None } else { fdb::find(cpu, &fdb::Key { ifindex, mac }) };
    match known {
        Some(Behind::Vtep(remote)) => send(cpu, pkt, vxlan, remote),
        _ => flood(cpu, pkt, vxlan),
    }
}

/// Sends a frame to all remote ends: the configured one, or group, and those of static entries for all addresses.
fn flood(cpu: &mut Cpu, pkt: Pkt, vxlan: &Vxlan) {
    let statics = cpu.tables.ifnet(pkt.outif).map(|ifnet| ifnet.fdb.statics.clone());
    let statics = statics.iter().flat_map(|all| all.iter()).filter(|entry| entry.mac == Mac::default());
    let end = |entry: &Static| match entry.behind {
        Behind::Vtep(end) => Some(end),
        Behind::Port(_) => None,
    };
    let mut ends: Vec<IpAddr> = statics.filter_map(end).collect();
    ends.extend(vxlan.remote);
    let Some(last) = ends.pop() else { return cpu.drop_pkt(pkt, DropReason::VxlanNoRemote) };
    cpu.count(Count::VxlanFlooded);
    for end in ends {
        match offload::copy(cpu, &pkt, &[], 0, pkt.len()) {
            Some(mut copy) => {
                cpu.count(Count::FloodCopied);
                copy.rcvif = pkt.rcvif;
                send(cpu, copy, vxlan, end);
            }
            None => cpu.count(Count::CopiesNoBuffer),
        }
    }
    send(cpu, pkt, vxlan, last);
}

fn send(cpu: &mut Cpu, mut pkt: Pkt, vxlan: &Vxlan, remote: IpAddr) {
    let zone = if remote.is_multicast() { cpu.tables.logical.vxlans.link(pkt.outif) } else { 0 };
    let ends = FourTuple::new((vxlan.local, source_port(&pkt)).into(), (remote, vxlan.port).into(), zone);
    match fit(cpu, &pkt, vxlan, &ends) {
        Ok(()) => encapsulate(cpu, pkt, vxlan, &ends),
        Err(Next::Drop(reason)) => cpu.drop_pkt(pkt, reason),
        Err(next) => {
            pkt.trim_front(HEADER_LEN);
            dispatch(cpu, pkt, next);
        }
    }
}

/// The source port of datagrams of a frame's flow.
fn source_port(frame: &Pkt) -> u16 {
    let hash = match inner_ip(frame, 0) {
        Some(at) if frame.window(at)[0] >> 4 == 4 => rss::hash4(frame.window(at)),
        Some(at) => rss::hash6(frame.window(at)),
        None => {
            let macs = frame.window(0).first_chunk::<12>().unwrap_or(&[0; 12]);
            let pairs = macs.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            pairs.fold(0, |all, pair| all ^ pair)
        }
    };
    FIRST_PORT | hash
}

/// Whether a frame fits into a datagram that is not fragmented; else its next node.
//= https://www.rfc-editor.org/rfc/rfc7348#section-4.3
//# VTEPs MUST NOT fragment VXLAN packets.
fn fit(cpu: &Cpu, pkt: &Pkt, vxlan: &Vxlan, ends: &FourTuple) -> Result<(), Next> {
    if nesting(pkt, Flags::LOCAL) >= NESTING_MAX {
        return Err(Next::Drop(DropReason::TunnelNested));
    }
    if !cpu.tables.is_ours(vxlan.local) {
        return Err(Next::Drop(DropReason::TunnelNoSource));
    }
    let header = u32::try_from(vxlan.header_len() + HEADER_LEN).unwrap_or(u32::MAX);
    let mtu = path_mtu(cpu, ends, pkt.outif)?.saturating_sub(header);
    if pkt.len() <= mtu as usize + HEADER_LEN {
        return Ok(());
    }
    // The sender of a frame that a bridge sends on speaks to another router, or to none.
    let is_bridged =
        !pkt.flags.has(Flags::LOCAL) && cpu.tables.ifnet(pkt.rcvif).is_some_and(|ifnet| ifnet.port.is_some());
    let is_told = !is_bridged
        && inner_ip(pkt, 0).is_some_and(|at| match pkt.window(at)[0] >> 4 {
            4 => pkt.window(at)[6] & 0x40 != 0,
            _ => mtu >= u32::from(ip6::MIN_MTU),
        });
    Err(if is_told { Next::Answer(Problem::TooBig { mtu }) } else { Next::Drop(DropReason::TunnelTooBig) })
}

/// Bytes of the largest outer packet of a flow that gets to the other end, as far as is known.
fn path_mtu(cpu: &Cpu, ends: &FourTuple, ifindex: IfIndex) -> Result<u32, Next> {
    match output::path(cpu, 0, ends.remote, ends.zone, || 0) {
        Ok(Route::Link { ifindex: outif, .. }) if outif == ifindex => Err(Next::Drop(DropReason::TunnelLoop)),
        Ok(Route::Link { ifindex: outif, metrics, .. }) => {
            let is_known = !cpu.paths.is_empty();
            let metrics =
                if is_known { pmtu::of_flow(cpu, &pmtu::Flow::udp(*ends), metrics) } else { metrics };
            Ok(cpu.tables.ifnet(outif).map_or(u32::MAX, |ifnet| metrics.mtu_over(ifnet.mtu)))
        }
        Ok(Route::Local) => Err(Next::Drop(DropReason::TunnelLoop)),
        Err(reason) => Err(Next::Drop(reason)),
    }
}

fn encapsulate(cpu: &mut Cpu, mut pkt: Pkt, vxlan: &Vxlan, ends: &FourTuple) {
    let (ifindex, frame_len) = (pkt.outif, pkt.len());
    let class = inner_ip(&pkt, 0).map_or(0, |at| tunnel_io::ecn_of(&pkt, at));
    let depth = nesting(&pkt, Flags::LOCAL) + 1;
    pkt.forget();
    if put_headers(&mut pkt, vxlan, ends, IpTxParams { hops: HOPS, class, fib: 0 }).is_none() {
        return cpu.drop_pkt(pkt, DropReason::NoBuffer);
    }
    (pkt.vlan, pkt.proto, pkt.moved) = (depth, Protocol::UDP.0, true);
    pkt.l4 = u16::try_from(vxlan.header_len() - ENCAP_LEN).unwrap_or(u16::MAX);
    cpu.count(Count::TunnelOut);
    cpu.counters.add_if(ifindex, IfCount::TxPackets, 1);
    cpu.counters.add_if(ifindex, IfCount::TxBytes, frame_len as u64);
    ip_tx::output(cpu, pkt);
}

/// Writes the headers in front of a frame. Over IPv4 the datagram has no checksum; over IPv6 it has one, because receivers
/// need not take it without.
//= https://www.rfc-editor.org/rfc/rfc7348#section-5
//= https://www.rfc-editor.org/rfc/rfc6936#section-4
fn put_headers(pkt: &mut Pkt, vxlan: &Vxlan, ends: &FourTuple, params: IpTxParams) -> Option<()> {
    const CHECKSUM_AT: usize = 6;
    pkt.prepend_array(&vxlan.header()).ok()?;
    let len = u16::try_from(pkt.len() + udp::HEADER_LEN).ok()?;
    let header = udp::Header { src_port: ends.local_port, dst_port: ends.remote_port, len, checksum: 0 };
    pkt.prepend_array(&header.to_bytes()).ok()?;
    match vxlan.local {
        IpAddr::V4(_) => ip_tx::put_ip(pkt, Protocol::UDP, ends, params, true).map(|_| ()),
        IpAddr::V6(_) => ip_tx::put_network(pkt, (Protocol::UDP, CHECKSUM_AT), ends, params, true),
    }
}

/// Whether the packet that an error quotes was sent by a VXLAN.
pub(super) fn has_sent(cpu: &Cpu, quoted: &Quoted) -> bool {
    let vxlans = &cpu.tables.logical.vxlans;
    let [_, _, port_hi, port_lo, ..] = quoted.upper;
    quoted.protocol == Protocol::UDP
        && !vxlans.is_empty()
        && vxlans.takes(quoted.local, u16::from_be_bytes([port_hi, port_lo]))
}

#[cfg(test)]
mod tests;
