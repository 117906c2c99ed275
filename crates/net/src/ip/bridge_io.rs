//! Frames between the ports of a bridge, to the bridge itself and from it.
//!
//! A frame that a port has received is handed, as it is, to the CPU that owns its flow: by the hash of the IP packet in it, or
//! of its link addresses. There the bridge learns the station that has sent it, and the frame leaves by the port of its
//! destination. A frame for an unknown station, or for a group, leaves by all ports: copies by all but the last.
//!
//! # Spec
//! IEEE 802.1D-2004 §7.5 to §7.8.

use std::sync::Arc;

use pkt::{Flags, Pkt};
use wire::bpdu;
use wire::ether::{EtherType, HEADER_LEN, Header, Mac};
use wire::toeplitz;

use crate::base::count::{Count, IfCount};
use crate::base::drop::DropReason;
use crate::ip::{ip4, ip6, snoop_io, stp_io, tunnel_io};
use crate::link::bridge::{Port, is_reserved};
use crate::link::ether;
use crate::link::fdb::{self, Behind};
use crate::link::logical::Kind;
use crate::link::stp::State;
use crate::link::tables::{IfIndex, Ifnet, Rxcsum};
use crate::out::{ifq, offload};
use crate::turn::capture;
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::netisr::dispatch;
use crate::turn::next::{Next, Resume};
use crate::turn::pfil;
use crate::turn::rss;

/// Takes a frame of a port, whose Ethernet header is still on it.
///
/// Reads  the frame's headers, `pkt.rcvif`, `cpu.tables`, `cpu.fdb`.
/// Next   [`Next::Output`], [`Next::HandOff`], and those of [`ether::input`] for what is for the bridge itself.
/// Drops  [`DropReason::InterfaceGone`], [`DropReason::InterfaceDown`], [`DropReason::Monitor`], [`DropReason::EtherShort`],
///        [`DropReason::EtherMulticastSource`], [`DropReason::BridgeReserved`], [`DropReason::BridgeSpan`],
///        [`DropReason::BridgeBlocked`], [`DropReason::BpduMalformed`], [`DropReason::BpduLimit`],
///        [`DropReason::BridgeLoop`], [`DropReason::BridgeSamePort`], [`DropReason::BridgePrivate`],
///        [`DropReason::BridgeTooBig`], [`DropReason::BridgeStorm`], [`DropReason::BridgeNoPort`], and those of rules.
pub(crate) fn input(cpu: &mut Cpu, mut pkt: Pkt) {
    let Some(port) = cpu.tables.ifnet(pkt.rcvif).and_then(|ifnet| ifnet.port) else {
        return cpu.drop_pkt(pkt, DropReason::InterfaceGone);
    };
    if let Some(owner) = other_owner(cpu, &mut pkt) {
        pkt.resume = Resume::Frame as u8;
        return dispatch(cpu, pkt, Next::HandOff(owner));
    }
    match learn(cpu, &pkt, port) {
        Ok(Header { dst: bpdu::GROUP, .. }) => stp_io::input(cpu, pkt, port),
        Ok(header) => relay(cpu, pkt, port, &header),
        Err(reason) => cpu.drop_pkt(pkt, reason),
    }
}

/// The CPU that owns a frame's flow, if it is another one.
pub(super) fn other_owner(cpu: &Cpu, pkt: &mut Pkt) -> Option<CpuId> {
    if cpu.placement.cpus() == 1 {
        return None;
    }
    if let Some(owner) = pfil::owner_of_error(cpu, pkt) {
        return (owner != cpu.id).then_some(owner);
    }
    if !pkt.flags.has(Flags::HASH) {
        let inner = pkt.window(HEADER_LEN);
        pkt.hash = match ethertype(pkt) {
            EtherType::IPV4 => rss::hash4(inner),
            EtherType::IPV6 => rss::hash6(inner),
            EtherType::ARP => rss::hash_arp(inner),
            _ => hash_macs(pkt),
        };
        pkt.flags.set(Flags::HASH);
    }
    (!cpu.share.has(pkt.hash)).then(|| cpu.placement.owner(pkt.hash))
}

fn ethertype(pkt: &Pkt) -> EtherType {
    let [.., hi, lo] = *pkt.window(0).first_chunk::<HEADER_LEN>().unwrap_or(&[0; HEADER_LEN]);
    EtherType(u16::from_be_bytes([hi, lo]))
}

/// The hash of a frame's link addresses: the same for both directions.
fn hash_macs(pkt: &Pkt) -> u16 {
    let pairs = pkt.window(0)[..12].chunks_exact(2);
    toeplitz::symmetric(pairs.fold(0, |all, pair| all ^ u16::from_be_bytes([pair[0], pair[1]])))
}

/// Checks a frame, counts it as the bridge's, and learns its source. What a blocked port receives goes no further, but for
/// units of the spanning tree.
fn learn(cpu: &mut Cpu, pkt: &Pkt, port: Port) -> Result<Header, DropReason> {
    if pkt.head_len() < HEADER_LEN {
        return Err(DropReason::EtherShort);
    }
    let header = Header::from_bytes(pkt.window(0).first_chunk().unwrap_or(&[0; HEADER_LEN]));
    let (Some(bridge), Some(own)) = (cpu.tables.ifnet(port.bridge), cpu.tables.ifnet(pkt.rcvif)) else {
        return Err(DropReason::InterfaceGone);
    };
    match header {
        _ if !(bridge.up && own.up) => return Err(DropReason::InterfaceDown),
        _ if bridge.monitor || own.monitor => return Err(DropReason::Monitor),
        _ if port.is_span => return Err(DropReason::BridgeSpan),
        Header { src, .. } if src.is_multicast() => return Err(DropReason::EtherMulticastSource),
        Header { src, .. } if src == bridge.mac => return Err(DropReason::BridgeLoop),
        Header { dst, .. } if !dst.is_multicast() => {}
        Header { dst: bpdu::GROUP, .. } if port.stp.is_some() => return Ok(header),
        Header { dst, .. } if is_reserved(dst) => return Err(DropReason::BridgeReserved),
        _ => {}
    }
    cpu.counters.add_if(port.bridge, IfCount::RxPackets, 1);
    cpu.counters.add_if(port.bridge, IfCount::RxBytes, pkt.len() as u64);
    let state = if port.stp.is_some() { stp_io::state(cpu, pkt.rcvif) } else { State::Forwarding };
    if state != State::Discarding {
        fdb::heard(cpu, fdb::Key { ifindex: port.bridge, mac: header.src }, Behind::Port(pkt.rcvif));
    }
    if state == State::Forwarding { Ok(header) } else { Err(DropReason::BridgeBlocked) }
}

/// Gives a frame for the bridge itself to the host, and brings others to where their destination is.
fn relay(cpu: &mut Cpu, mut pkt: Pkt, port: Port, header: &Header) {
    recognise_checksum(cpu, &mut pkt);
    copy_to_spans(cpu, &pkt, port.bridge);
    if cpu.tables.ifnet(port.bridge).is_some_and(|bridge| bridge.mac == header.dst) {
        return deliver(cpu, pkt, port.bridge);
    }
    if header.dst.is_multicast()
        && let Some(copy) = copy(cpu, &pkt)
    {
        deliver(cpu, copy, port.bridge);
    }
    match pfil::ask_frame(cpu, &mut pkt) {
        None => forward(cpu, pkt, port),
        Some(next) => dispatch(cpu, pkt, next),
    }
}

/// Takes a frame on that rules have let pass after a wait. It begins behind its Ethernet header.
///
/// Drops  [`DropReason::InterfaceGone`], and those of [`input`] for frames that are forwarded.
pub(crate) fn resume(cpu: &mut Cpu, mut pkt: Pkt) {
    let port = cpu.tables.ifnet(pkt.rcvif).and_then(|ifnet| ifnet.port);
    let Some(port) = port.filter(|_| pkt.prepend(HEADER_LEN).is_ok()) else {
        return cpu.drop_pkt(pkt, DropReason::InterfaceGone);
    };
    forward(cpu, pkt, port);
}

/// Sends a frame of a port by the port of its destination, or by all.
fn forward(cpu: &mut Cpu, pkt: Pkt, port: Port) {
    let dst = Mac(*pkt.window(0).first_chunk().unwrap_or(&[0; 6]));
    if dst.is_multicast() {
        return flood(cpu, pkt, port.bridge, Some(port));
    }
    match fdb::find(cpu, &fdb::Key { ifindex: port.bridge, mac: dst }) {
        Some(Behind::Port(to)) if to == pkt.rcvif => cpu.drop_pkt(pkt, DropReason::BridgeSamePort),
        Some(Behind::Port(to)) => match refusal(cpu, &pkt, Some(port), to) {
            None => send(cpu, pkt, port.bridge, to),
            Some(reason) => cpu.drop_pkt(pkt, reason),
        },
        _ => flood(cpu, pkt, port.bridge, Some(port)),
    }
}

/// Notes a partial checksum that the port's device does not tell of, as a router does: the next device has to complete it.
fn recognise_checksum(cpu: &mut Cpu, pkt: &mut Pkt) {
    let is_said = |ifnet: &Ifnet| ifnet.rxcsum == Rxcsum::Complete;
    if !cpu.tables.judges_checksums || !cpu.tables.ifnet(pkt.rcvif).is_some_and(is_said) {
        return;
    }
    let kind = ethertype(pkt);
    pkt.trim_front(HEADER_LEN);
    let ip = pkt.window(0);
    match kind {
        EtherType::IPV4 if ip[0] >> 4 == 4 => {
            (pkt.l4, pkt.proto) = (u16::from(ip[0] & 0xf) * 4, ip[9]);
            ip4::input::recognise_checksum(cpu, pkt);
        }
        EtherType::IPV6 if ip[0] >> 4 == 6 => {
            (pkt.l4, pkt.proto) = (40, ip[6]);
            ip6::input::recognise_checksum(cpu, pkt);
        }
        _ => {}
    }
    // It has just been taken off, so that there is room.
    _ = pkt.prepend(HEADER_LEN);
}

/// Takes a frame in as one of the bridge itself. It is on the CPU that owns it.
fn deliver(cpu: &mut Cpu, mut pkt: Pkt, bridge: IfIndex) {
    pkt.rcvif = bridge;
    if cpu.watched {
        capture::frame_decapsulated(cpu, &pkt);
    }
    if !matches!(ethertype(&pkt), EtherType::IPV4 | EtherType::IPV6 | EtherType::ARP) {
        pkt.flags.clear(Flags::HASH);
    }
    tunnel_io::begin_frame(cpu, pkt);
}

/// Sends a frame that was made here, by the port of its destination or by all.
///
/// Next   [`Next::Output`].
/// Drops  those of [`flood`].
pub(super) fn output(cpu: &mut Cpu, pkt: Pkt) {
    let bridge = pkt.outif;
    let dst = Mac(*pkt.window(0).first_chunk().unwrap_or(&[0; 6]));
    copy_to_spans(cpu, &pkt, bridge);
    let known =
        if dst.is_multicast() { None } else { fdb::find(cpu, &fdb::Key { ifindex: bridge, mac: dst }) };
    match known {
        Some(Behind::Port(to)) if refusal(cpu, &pkt, None, to).is_none() => send(cpu, pkt, bridge, to),
        _ => flood(cpu, pkt, bridge, None),
    }
}

/// Why a frame of the port `from`, or of this host, does not leave by `to`.
fn refusal(cpu: &Cpu, pkt: &Pkt, from: Option<Port>, to: IfIndex) -> Option<DropReason> {
    let Some(ifnet) = cpu.tables.ifnet(to).filter(|ifnet| ifnet.up) else {
        return Some(DropReason::InterfaceDown);
    };
    if ifnet.port.is_some_and(|port| port.stp.is_some()) && stp_io::state(cpu, to) != State::Forwarding {
        return Some(DropReason::BridgeBlocked);
    }
    let is_private = from.is_some_and(|from| from.is_private) && ifnet.port.is_some_and(|to| to.is_private);
    let most = ifnet.mtu as usize + HEADER_LEN + ether::TAG_LEN * usize::from(ethertype(pkt).is_tag());
    let is_short = pkt.len() <= most || pkt.gso != pkt::Gso::None;
    match (is_private, is_short) {
        (true, _) => Some(DropReason::BridgePrivate),
        (_, false) => Some(DropReason::BridgeTooBig),
        _ => None,
    }
}

fn send(cpu: &mut Cpu, mut pkt: Pkt, bridge: IfIndex, to: IfIndex) {
    cpu.counters.add_if(bridge, IfCount::TxPackets, 1);
    cpu.counters.add_if(bridge, IfCount::TxBytes, pkt.len() as u64);
    cpu.count(Count::BridgeForwarded);
    pkt.outif = to;
    ifq::output(cpu, pkt);
}

/// Sends a frame by all ports that may have it, except that from which it came.
///
/// Drops  [`DropReason::BridgeStorm`], [`DropReason::BridgeNoPort`].
fn flood(cpu: &mut Cpu, pkt: Pkt, bridge: IfIndex, from: Option<Port>) {
    if from.is_some() && !may_flood(cpu, bridge) {
        return cpu.drop_pkt(pkt, DropReason::BridgeStorm);
    }
    let came_by = if from.is_some() { pkt.rcvif } else { 0 };
    let to = snoop_io::look(cpu, &pkt, bridge, from.map(|_| pkt.rcvif));
    let tables = Arc::clone(&cpu.tables);
    let mut last = None;
    for &(_, port) in tables.logical.bridges.ports(bridge) {
        let has_listeners = to.is_none_or(|to| snoop_io::reaches(cpu, bridge, to, port));
        if port == came_by || !has_listeners || refusal(cpu, &pkt, from, port).is_some() {
            continue;
        }
        if let Some(before) = last.replace(port)
            && let Some(copy) = copy(cpu, &pkt)
        {
            send(cpu, copy, bridge, before);
        }
    }
    match last {
        Some(port) => {
            cpu.count(Count::BridgeFlooded);
            send(cpu, pkt, bridge, port);
        }
        None => cpu.drop_pkt(pkt, DropReason::BridgeNoPort),
    }
}

/// Whether one more frame may be flooded on this CPU.
fn may_flood(cpu: &mut Cpu, bridge: IfIndex) -> bool {
    let Some(Kind::Bridge(of)) = cpu.tables.ifnet(bridge).map(|ifnet| ifnet.kind) else { return false };
    let cpus = u64::from(cpu.placement.cpus());
    let rate = u64::from(of.storm).div_ceil(cpus);
    let now = cpu.now;
    cpu.storms.entry(bridge).or_default().allows(now, rate)
}

/// Sends copies of a frame by the span ports of a bridge.
fn copy_to_spans(cpu: &mut Cpu, pkt: &Pkt, bridge: IfIndex) {
    if cpu.tables.logical.bridges.spans(bridge).is_empty() {
        return;
    }
    let tables = Arc::clone(&cpu.tables);
    for &(_, port) in tables.logical.bridges.spans(bridge) {
        if refusal(cpu, pkt, None, port).is_none()
            && let Some(mut copy) = copy(cpu, pkt)
        {
            copy.outif = port;
            ifq::output(cpu, copy);
        }
    }
}

fn copy(cpu: &mut Cpu, pkt: &Pkt) -> Option<Pkt> {
    let Some(mut copy) = offload::copy(cpu, pkt, &[], 0, pkt.len()) else {
        cpu.count(Count::CopiesNoBuffer);
        return None;
    };
    (copy.gso, copy.gso_size) = (pkt.gso, pkt.gso_size);
    cpu.count(Count::FloodCopied);
    Some(copy)
}

#[cfg(test)]
mod tests;
