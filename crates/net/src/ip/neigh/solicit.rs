//! The questions: ARP requests and neighbour solicitations.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::addr::solicited_node_multicast;
use wire::arp::Packet;
use wire::ether::Mac;
use wire::nd::Message;

use super::Key;
use crate::ip::ip6::nd;
use crate::ip::{addr, arp};
use crate::turn::cpu::Cpu;

/// Asks everybody on the link.
pub(super) fn all(cpu: &mut Cpu, key: Key) {
    match key.addr {
        IpAddr::V4(target) => request(cpu, key, target, Mac::BROADCAST),
        IpAddr::V6(target) => solicit(cpu, key, target, solicited_node_multicast(target), None),
    }
}

/// Asks the neighbour itself, by the link address that it had.
//= https://www.rfc-editor.org/rfc/rfc1122#section-2.3.2.1
//# Unicast Poll -- Actively poll the remote host by periodically sending a point-to-point ARP Request to it
pub(super) fn one(cpu: &mut Cpu, key: Key, mac: Mac) {
    match key.addr {
        IpAddr::V4(target) => request(cpu, key, target, mac),
        IpAddr::V6(target) => solicit(cpu, key, target, target, Some(mac)),
    }
}

fn request(cpu: &mut Cpu, key: Key, target: Ipv4Addr, to: Mac) {
    let Some((mac, IpAddr::V4(source))) = speaker(cpu, &key) else { return };
    arp::output(cpu, key.ifindex, to, &Packet::request(mac, source, target));
}

fn solicit(cpu: &mut Cpu, key: Key, target: Ipv6Addr, dst: Ipv6Addr, to: Option<Mac>) {
    let Some((_, IpAddr::V6(src))) = speaker(cpu, &key) else { return };
    nd::solicit(cpu, key.ifindex, nd::NdTxParams { src, dst, mac: to }, Message::NeighborSolicit { target });
}

/// Our own addresses to ask with: the one that speaks to such neighbours or, while that is not certain or not to be
/// used, another. Without one there is no reply to get, and the request is not sent.
fn speaker(cpu: &Cpu, key: &Key) -> Option<(Mac, IpAddr)> {
    let ifnet = cpu.tables.ifnet(key.ifindex)?;
    let others = ifnet.addrs.iter().map(|own| own.addr).filter(|own| own.is_ipv4() == key.addr.is_ipv4());
    let all = || ifnet.source_for(key.addr).into_iter().chain(others.clone());
    let is_certain = |own: &IpAddr| {
        let own = addr::Key { ifindex: key.ifindex, addr: *own };
        cpu.addrs.state(&own) == Some(addr::State::Preferred)
    };
    let certain = all().find(is_certain);
    let source = certain.or_else(|| all().find(|own| cpu.addrs.usable(key.ifindex, *own)))?;
    Some((ifnet.mac, source))
}
