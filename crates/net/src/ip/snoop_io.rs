//! IGMP and MLD snooping: a bridge sends multicast packets to the ports with listeners, and to those with routers.
//!
//! One CPU *owns* the memberships of a bridge, as it does its learnt addresses. The CPUs that forward reports and queries tell
//! it of them; it tells all CPUs which ports have listeners, so that a frame needs no lock. Packets to a group without a
//! report are flooded. All are while memberships are not known: after a start or a change of ports until the listeners have
//! been asked, and while there are more memberships than the bridge may remember.
//!
//! Without a router that asks, the bridge asks itself.
//!
//! # Spec
//! RFC 4541 §2, §3; RFC 3376 §6, §8; RFC 3810 §7, §9.

mod querier;
mod table;

use core::net::IpAddr;

use pkt::Pkt;
use wire::addr::ALL_NODES;
use wire::checksum::Sum;
use wire::ether::{EtherType, HEADER_LEN};
use wire::membership::{Kind, Record};
use wire::{Protocol, igmp, ip4, ip6, mld};

pub use self::table::{MEMBERSHIPS_MAX, Msg};
pub(crate) use self::table::{Snooping, message, tables_changed, timer, topology_changed};
use crate::base::count::Count;
use crate::ip::ip6::headers;
use crate::link::logical::Kind as Lower;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// Messages about memberships that a CPU sends in one turn.
pub const TELL_MAX: u16 = 64;

/// A group on the ports of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// The bridge.
    pub bridge: IfIndex,
    /// Address of the group.
    pub addr: IpAddr,
}

/// Looks at a multicast frame, and hears what it says of groups. `None`: it leaves by all ports. `from` is the port that has
/// received it, if one has.
pub(crate) fn look(cpu: &mut Cpu, pkt: &Pkt, bridge: IfIndex, from: Option<IfIndex>) -> Option<To> {
    let is_snooped = |kind| matches!(kind, Lower::Bridge(of) if of.snooping);
    if !cpu.tables.ifnet(bridge).is_some_and(|ifnet| is_snooped(ifnet.kind)) {
        return None;
    }
    let ip = pkt.head().get(HEADER_LEN..)?;
    let [.., hi, lo] = *pkt.window(0).first_chunk::<HEADER_LEN>()?;
    match EtherType(u16::from_be_bytes([hi, lo])) {
        EtherType::IPV4 => heard4(cpu, ip, bridge, from),
        EtherType::IPV6 => heard6(cpu, ip, bridge, from),
        _ => None,
    }
}

/// Whether a multicast frame leaves by a port of a bridge.
pub(crate) fn reaches(cpu: &Cpu, bridge: IfIndex, to: To, port: IfIndex) -> bool {
    cpu.snooping.as_ref().is_none_or(|snooping| snooping.reaches(bridge, to, port))
}

/// Destination of a packet: the listeners of a group, or routers alone.
#[derive(Clone, Copy)]
pub(crate) enum To {
    Group(IpAddr),
    /// Reports, of this family.
    Routers {
        is_ip4: bool,
    },
}

/// Looks at an IPv4 packet, and hears what it says of groups. `None`: it goes to all.
fn heard4(cpu: &mut Cpu, ip: &[u8], bridge: IfIndex, from: Option<IfIndex>) -> Option<To> {
    let header = ip.first_chunk::<{ ip4::HEADER_LEN }>().filter(|header| header[0] >> 4 == 4)?;
    let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
    let (src, dst) = (IpAddr::from([s0, s1, s2, s3]), IpAddr::from([d0, d1, d2, d3]));
    if header[9] == PIM {
        hears_router(cpu, bridge, from, src);
    }
    if header[9] != Protocol::IGMP.0 {
        //= https://www.rfc-editor.org/rfc/rfc4541#section-2.1.2
        //# Packets with a destination IP (DIP) address in the 224.0.0.X range
        //# which are not IGMP must be forwarded on all ports.
        return (d0 >= 224 && [d0, d1, d2] != [224, 0, 0]).then_some(To::Group(dst));
    }
    let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let message = ip.get(usize::from(header[0] & 15) * 4..len)?;
    match igmp::Message::parse(message)? {
        igmp::Message::Query(_) => {
            is_asked(cpu, bridge, from, src);
            return None;
        }
        igmp::Message::Report(group) => tell(cpu, bridge, from, group.into(), true),
        igmp::Message::Leave(group) => tell(cpu, bridge, from, group.into(), false),
        igmp::Message::Report3(records) => {
            records.for_each(|record| record_says(cpu, bridge, from, &record));
        }
    }
    Some(To::Routers { is_ip4: true })
}

/// [`heard4`] for an IPv6 packet.
fn heard6(cpu: &mut Cpu, ip: &[u8], bridge: IfIndex, from: Option<IfIndex>) -> Option<To> {
    let header = ip.first_chunk::<{ ip6::HEADER_LEN }>().filter(|header| header[0] >> 4 == 6)?;
    let src: [u8; 16] = *header[8..].first_chunk()?;
    let dst: [u8; 16] = *header[24..].first_chunk()?;
    let (src6, dst6) = (core::net::Ipv6Addr::from(src), core::net::Ipv6Addr::from(dst));
    let upper = headers::upper(ip)?;
    if upper.protocol.0 == PIM {
        hears_router(cpu, bridge, from, src.into());
    }
    let end = ip6::HEADER_LEN + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let message = ip.get(upper.at..end).filter(|_| upper.protocol == Protocol::ICMP6);
    let said = message.and_then(|message| {
        let len = u32::try_from(message.len()).ok()?;
        let is_intact = Sum::pseudo_v6(src6, dst6, Protocol::ICMP6, len).bytes(message).is_intact();
        mld::Message::parse(message).filter(|_| is_intact && header[7] == mld::HOP_LIMIT)
    });
    match said {
        //= https://www.rfc-editor.org/rfc/rfc4541#section-3
        None => return (dst6 != ALL_NODES && dst6.is_multicast()).then_some(To::Group(dst.into())),
        Some(mld::Message::Query(_)) => {
            is_asked(cpu, bridge, from, src.into());
            return None;
        }
        Some(mld::Message::Report(group)) => tell(cpu, bridge, from, group.into(), true),
        Some(mld::Message::Done(group)) => tell(cpu, bridge, from, group.into(), false),
        Some(mld::Message::Report2(records)) => {
            records.for_each(|record| record_says(cpu, bridge, from, &record));
        }
    }
    Some(To::Routers { is_ip4: false })
}

/// Protocol independent multicast, which only routers speak.
const PIM: u8 = 103;

/// Hears a record of a report: whether there are any senders that a port listens to.
fn record_says(cpu: &mut Cpu, bridge: IfIndex, from: Option<IfIndex>, record: &Record<'_>) {
    let has_sources = record.sources.clone().next().is_some();
    match record.kind {
        Kind::IsExclude | Kind::ToExclude => tell(cpu, bridge, from, record.group, true),
        Kind::IsInclude | Kind::Allow if has_sources => tell(cpu, bridge, from, record.group, true),
        Kind::ToInclude => tell(cpu, bridge, from, record.group, has_sources),
        _ => {}
    }
}

/// Hears a query: a router is behind the port, unless it has no address.
fn is_asked(cpu: &mut Cpu, bridge: IfIndex, from: Option<IfIndex>, src: IpAddr) {
    if !src.is_unspecified() {
        hears_router(cpu, bridge, from, src);
        if let Some(port) = from {
            table::tell_owner(cpu, bridge, Msg::Querier { port, addr: src });
        }
    }
}

fn hears_router(cpu: &mut Cpu, bridge: IfIndex, from: Option<IfIndex>, src: IpAddr) {
    let Some(port) = from else { return };
    if cpu.snooping.as_mut().is_some_and(|snooping| snooping.may_tell(cpu.now)) {
        table::tell_owner(cpu, bridge, Msg::Router { port, is_ip4: src.is_ipv4() });
    } else {
        cpu.count(Count::SnoopDeferred);
    }
}

/// Tells the owner that a port listens to a group, or has left it.
fn tell(cpu: &mut Cpu, bridge: IfIndex, from: Option<IfIndex>, addr: IpAddr, joins: bool) {
    let Some(port) = from else { return };
    let is_never_snooped = match addr {
        IpAddr::V4(addr) => addr.octets()[..3] == [224, 0, 0],
        IpAddr::V6(addr) => !mld::is_reported(addr),
    };
    if is_never_snooped {
        return;
    }
    if !cpu.snooping.as_mut().is_some_and(|snooping| snooping.may_tell(cpu.now)) {
        return cpu.count(Count::SnoopDeferred);
    }
    let group = Group { bridge, addr };
    table::tell_owner(cpu, bridge, Msg::Heard { group, port, joins });
}

#[cfg(test)]
mod tests;
