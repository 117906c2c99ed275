//! ARP: what its packets mean for [`crate::ip::neigh`] and [`crate::ip::addr`].

use core::net::IpAddr;

use pkt::{Flags, Pkt};
use wire::arp::{Operation, PACKET_LEN, Packet};
use wire::ether::{EtherType, Header, Mac};

use crate::base::count::Count;
use crate::base::drop::{DropReason, Fate};
use crate::fib::To;
use crate::ip::addr;
use crate::ip::neigh::{self, NeighMessage};
use crate::ip::punt;
use crate::link::tables::{IfIndex, Ifnet, Tables};
use crate::out::ifq;
use crate::turn::cpu::Cpu;
use crate::turn::netisr;
use crate::turn::next::{Next, Resume};

/// Takes an ARP packet in, on the CPU that owns the address it is about.
///
/// Reads  `cpu.tables`, `cpu.addrs`.   Writes `cpu.neigh`, `cpu.addrs`.
/// Drops  [`DropReason::ArpMalformed`], [`DropReason::ArpNotCredible`], [`DropReason::ArpNotForUs`],
///        [`DropReason::InterfaceGone`].
///
/// # Spec
/// RFC 826; RFC 1027; RFC 5227.
pub fn input(cpu: &mut Cpu, mut pkt: Pkt) {
    let Ok(arp) = Packet::parse(pkt.head()) else { return cpu.drop_pkt(pkt, DropReason::ArpMalformed) };
    let subject = if arp.sender_ip.is_unspecified() { arp.target_ip } else { arp.sender_ip };
    let owner = cpu.placement.owner_of(subject.into());
    if owner != cpu.id {
        // A device's own hash does not know whose an ARP packet is.
        pkt.resume = Resume::Arp as u8;
        return netisr::dispatch(cpu, pkt, Next::HandOff(owner));
    }
    let fate = heard(cpu, &pkt, &arp);
    cpu.finish(pkt, fate);
}

/// Sends an ARP packet to a link address.
pub(crate) fn output(cpu: &mut Cpu, ifindex: IfIndex, to: Mac, arp: &Packet) {
    let Some(ifnet) = cpu.tables.ifnet(ifindex) else { return };
    let header = Header { dst: to, src: ifnet.mac, ethertype: EtherType::ARP }.to_bytes();
    let Some(mut pkt) = cpu.pool.take() else { return cpu.count(Count::NeighNoBuffer) };
    cpu.count(match arp.operation {
        Operation::Request => Count::ArpRequestsSent,
        Operation::Reply => Count::ArpRepliesSent,
    });
    pkt.outif = ifindex;
    pkt.flags.set(Flags::LOCAL.with(Flags::PRIORITY));
    let written = pkt.append(PACKET_LEN).map(|bytes| bytes.copy_from_slice(&arp.to_bytes()));
    if written.and_then(|()| pkt.prepend_array(&header)).is_err() {
        return cpu.drop_pkt(pkt, DropReason::NoBuffer);
    }
    ifq::output(cpu, pkt);
}

fn heard(cpu: &mut Cpu, pkt: &Pkt, arp: &Packet) -> Fate {
    cpu.count(match arp.operation {
        Operation::Request => Count::ArpRequestsIn,
        Operation::Reply => Count::ArpRepliesIn,
    });
    let tables = cpu.tables.clone();
    let Some(ifnet) = tables.ifnet(pkt.rcvif) else { return Err(DropReason::InterfaceGone) };
    if arp.sender_mac == ifnet.mac {
        // What we sent ourselves, from a hub or a loop.
        return Ok(Count::ArpConsumed);
    }
    if !is_credible(ifnet, arp) {
        return Err(DropReason::ArpNotCredible);
    }
    if ifnet.has(arp.sender_ip.into()) {
        addr::claimed(
            cpu,
            addr::Key { ifindex: ifnet.index, addr: arp.sender_ip.into() },
            Some(arp.sender_mac),
        );
        return Ok(Count::ArpConsumed);
    }
    // Requests are answered here; replies are for both.
    if arp.operation == Operation::Reply || arp.is_announcement() {
        punt::copy(cpu, pkt, EtherType::ARP);
    }
    let is_for_us = is_ours(cpu, ifnet, arp);
    let proxy = if is_for_us { None } else { published(&tables, ifnet, arp) };
    learn(cpu, ifnet, pkt, arp, is_for_us || proxy.is_some());
    match arp.operation {
        Operation::Request if is_for_us => output(cpu, ifnet.index, arp.sender_mac, &arp.reply(ifnet.mac)),
        Operation::Request if let Some(mac) = proxy => {
            cpu.count(Count::ArpProxied);
            output(cpu, ifnet.index, arp.sender_mac, &arp.reply(mac));
        }
        Operation::Request if !arp.is_announcement() => return Err(DropReason::ArpNotForUs),
        _ => {}
    }
    Ok(Count::ArpConsumed)
}

/// Tells whether the sender's link and network address can be those of one host.
fn is_credible(ifnet: &Ifnet, arp: &Packet) -> bool {
    let may_be_a_host = !wire::addr::is_martian_source_v4(arp.sender_ip)
        && ifnet.broadcasts().all(|addr| addr != arp.sender_ip);
    arp.is_sender_credible() && (arp.is_probe() || may_be_a_host)
}

/// Whether the packet is about an address of ours that we may speak for. A probe for one that we are only probing for
/// ourselves means that two hosts want it.
fn is_ours(cpu: &mut Cpu, ifnet: &Ifnet, arp: &Packet) -> bool {
    let key = addr::Key { ifindex: ifnet.index, addr: arp.target_ip.into() };
    if !ifnet.has(key.addr) {
        return false;
    }
    if arp.is_probe() {
        addr::probed(cpu, key, Some(arp.sender_mac));
    }
    cpu.addrs.usable(key.ifindex, key.addr)
}

/// Returns the link address to answer with for a host elsewhere: one that is published on this link, or one that is routed by
/// another interface of a proxy. A probe is answered for a published address only: that one is known to be in use.
//= https://www.rfc-editor.org/rfc/rfc1027#section-2.1
fn published(tables: &Tables, ifnet: &Ifnet, arp: &Packet) -> Option<Mac> {
    let target = IpAddr::V4(arp.target_ip);
    if arp.operation != Operation::Request || arp.is_announcement() || tables.is_ours(target) {
        return None;
    }
    if let Some(own) = ifnet.published.get(target) {
        return Some(own.mac.unwrap_or(ifnet.mac));
    }
    let is_elsewhere = |ifindex: IfIndex| ifindex != ifnet.index;
    let is_routed = || match tables.hop(ifnet.fib, target, || 0).to {
        To::OnLink { ifindex } | To::Gateway { ifindex, .. } => is_elsewhere(ifindex),
        _ => false,
    };
    let is_proxied = ifnet.published.is_proxy() && tables.forwarding && !arp.is_probe() && is_routed();
    is_proxied.then_some(ifnet.mac)
}

/// Learns the sender only if it asks for one of our addresses, and is on this link.
fn learn(cpu: &mut Cpu, ifnet: &Ifnet, pkt: &Pkt, arp: &Packet, is_for_us: bool) {
    let key = neigh::Key { ifindex: ifnet.index, addr: arp.sender_ip.into() };
    if arp.sender_ip.is_unspecified() || !neigh::is_on_link(&cpu.tables, &key) {
        return;
    }
    let is_reply = arp.operation == Operation::Reply;
    let to_us_alone = !pkt.flags.any(Flags::BROADCAST.with(Flags::MULTICAST));
    let what = NeighMessage::Arp {
        mac: arp.sender_mac,
        solicited: is_reply && is_for_us && to_us_alone,
        asked_us: !is_reply && is_for_us,
    };
    neigh::heard(cpu, key, what);
}

#[cfg(test)]
mod tests;
