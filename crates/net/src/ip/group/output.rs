//! Reports, as packets.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pkt::{Flags, Pkt};
use wire::membership::{Kind, Report, Version};
use wire::{Protocol, addr as addrs, igmp, ip4, ip6, mld};

use super::entry::Short;
use super::filter::SOURCES_MAX;
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::ip::{addr, neigh};
use crate::link::tables::{IfIndex, Ifnet};
use crate::turn::cpu::Cpu;
use crate::turn::netisr;

/// A group record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: Kind,
    pub(super) group: IpAddr,
    pub(super) sources: Vec<IpAddr>,
}

/// Bytes of a packet with a report: what each link of IPv6 takes.
const PACKET_MAX: usize = ip6::MIN_MTU as usize;
/// Bytes of the largest header in front of a report.
const HEADERS: usize = ip6::HEADER_LEN + mld::ROUTER_ALERT.len();
/// Room for a report.
const REPORT_MAX: usize = PACKET_MAX - HEADERS;

/// Sends what is to be said of groups of one family, in few packets. Of more senders than one record may have, as all
/// CPUs together can want, several records are made.
//= https://www.rfc-editor.org/rfc/rfc3376#section-4.2.16
pub(super) fn report(cpu: &mut Cpu, ifindex: IfIndex, is_v6: bool, records: &[Record]) {
    if !has_link(cpu, ifindex) {
        return;
    }
    let room = cpu.tables.ifnet(ifindex).map_or(0, |ifnet| (ifnet.mtu as usize).saturating_sub(HEADERS));
    let from = speaker(cpu, ifindex, is_v6);
    let mut pieces = records.iter().flat_map(pieces).peekable();
    while pieces.peek().is_some() {
        let mut out = [0; REPORT_MAX];
        let Some(mut report) = begin(is_v6, &mut out[..room.min(REPORT_MAX)]) else { return };
        while let Some((kind, group, sources)) = pieces.peek()
            && report.push(*kind, *group, sources).is_ok()
        {
            pieces.next();
        }
        if report.is_empty() {
            return;
        }
        let (to, len) = match from {
            IpAddr::V4(_) => (igmp::ALL_IGMP3_ROUTERS.into(), igmp::finish(report)),
            IpAddr::V6(from) => (mld::ALL_MLD2_ROUTERS.into(), mld::finish(from, report)),
        };
        send(cpu, ifindex, [from, to], &out[..len]);
    }
}

/// Sends a report of one group in an older version.
pub(super) fn short(cpu: &mut Cpu, ifindex: IfIndex, version: Version, group: IpAddr, what: Short) {
    if !has_link(cpu, ifindex) {
        return;
    }
    let from = speaker(cpu, ifindex, group.is_ipv6());
    let mut out = [0; 24];
    let (to, len) = match (from, group, what) {
        (IpAddr::V4(_), IpAddr::V4(group), Short::Joined) => {
            (IpAddr::V4(group), igmp::emit_report(version, group, &mut out))
        }
        (IpAddr::V4(_), IpAddr::V4(group), Short::Left) => {
            (igmp::ALL_ROUTERS.into(), igmp::emit_leave(group, &mut out))
        }
        (IpAddr::V6(from), IpAddr::V6(group), Short::Joined) => {
            (IpAddr::V6(group), mld::emit_report1(from, group, &mut out))
        }
        (IpAddr::V6(from), IpAddr::V6(group), Short::Left) => {
            (addrs::ALL_ROUTERS.into(), mld::emit_done(from, group, &mut out))
        }
        _ => return,
    };
    if let Ok(len) = len {
        send(cpu, ifindex, [from, to], &out[..len]);
    }
}

/// Whether there may be routers to hear it.
fn has_link(cpu: &Cpu, ifindex: IfIndex) -> bool {
    cpu.tables.ifnet(ifindex).is_some_and(|ifnet| !ifnet.kind.is_loopback())
}

/// A record, or several with as many sources as each may have.
fn pieces(record: &Record) -> impl Iterator<Item = (Kind, IpAddr, &[IpAddr])> {
    let whole = record.sources.is_empty().then_some(&[][..]);
    let chunks = whole.into_iter().chain(record.sources.chunks(SOURCES_MAX));
    chunks.map(|sources| (record.kind, record.group, sources))
}

fn begin(is_v6: bool, out: &mut [u8]) -> Option<Report<'_>> {
    if is_v6 { mld::report2(out) } else { igmp::report3(out) }.ok()
}

/// Returns the source address of reports: with IPv6 a link-local one. As long as there is none, the unspecified one.
//= https://www.rfc-editor.org/rfc/rfc3376#section-4.2.13
//= https://www.rfc-editor.org/rfc/rfc3590#section-4
pub(in crate::ip) fn speaker(cpu: &Cpu, ifindex: IfIndex, is_v6: bool) -> IpAddr {
    let is_sure =
        |own: &IpAddr| cpu.addrs.state(&addr::Key { ifindex, addr: *own }) == Some(addr::State::Preferred);
    let is_fit = |own: &IpAddr| match own {
        IpAddr::V4(_) => !is_v6,
        IpAddr::V6(own) => is_v6 && own.is_unicast_link_local(),
    };
    let own = |ifnet: &Ifnet| ifnet.addrs.iter().map(|own| own.addr).find(|own| is_fit(own) && is_sure(own));
    let nobody: IpAddr = if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    cpu.tables.ifnet(ifindex).and_then(own).unwrap_or(nobody)
}

fn send(cpu: &mut Cpu, ifindex: IfIndex, ends: [IpAddr; 2], message: &[u8]) {
    let count = if ends[1].is_ipv4() { Count::IgmpReportsSent } else { Count::MldReportsSent };
    say(cpu, ifindex, ends, message, count);
}

/// Sends a message of IGMP or MLD on the link of an interface, and counts it as `count`.
///
/// Drops  [`DropReason::NoBuffer`], which cannot happen: a message fits a buffer.
pub(in crate::ip) fn say(
    cpu: &mut Cpu,
    ifindex: IfIndex,
    [src, dst]: [IpAddr; 2],
    message: &[u8],
    count: Count,
) {
    let Some(mut pkt) = cpu.pool.take() else { return cpu.count(Count::GroupNoBuffer) };
    pkt.outif = ifindex;
    pkt.flags.set(Flags::LOCAL.with(Flags::PRIORITY));
    cpu.count(count);
    let written = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => write4(&mut pkt, src, dst, message),
        (IpAddr::V6(src), IpAddr::V6(dst)) => write6(&mut pkt, src, dst, message),
        _ => return cpu.drop_pkt(pkt, DropReason::NoBuffer),
    };
    if written.is_err() {
        return cpu.drop_pkt(pkt, DropReason::NoBuffer);
    }
    let next = neigh::link(cpu, &mut pkt, dst);
    netisr::dispatch(cpu, pkt, next);
}

//= https://www.rfc-editor.org/rfc/rfc3376#section-4
//# Every IGMP message described in this document is sent with an IP
//# Time-to-Live of 1, IP Precedence of Internetwork Control (e.g., Type
//# of Service 0xc0), and carries an IP Router Alert option [RFC-2113] in
//# its IP header.
fn write4(pkt: &mut Pkt, src: Ipv4Addr, dst: Ipv4Addr, message: &[u8]) -> Result<(), pkt::NoRoom> {
    let len = u16::try_from(message.len()).unwrap_or_default();
    let header = ip4::Header::new(src, dst, Protocol::IGMP, len);
    let options = ip4::Options::from_bytes(&igmp::ROUTER_ALERT).unwrap_or(ip4::Options::NONE);
    let header = ip4::Header { ttl: igmp::TTL, tos: igmp::TOS, options, ..header };
    let mut bytes = [0; ip4::HEADER_MAX];
    let header_len = header.emit(&mut bytes).unwrap_or_default();
    for part in [&bytes[..header_len], message] {
        pkt.append(part.len())?.copy_from_slice(part);
    }
    Ok(())
}

fn write6(pkt: &mut Pkt, src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> Result<(), pkt::NoRoom> {
    let len = u16::try_from(mld::ROUTER_ALERT.len() + message.len()).unwrap_or_default();
    let header = ip6::Header::new(src, dst, Protocol::HOP_BY_HOP, len);
    let header = ip6::Header { hop_limit: mld::HOP_LIMIT, ..header }.to_bytes();
    for part in [&header[..], &mld::ROUTER_ALERT, message] {
        pkt.append(part.len())?.copy_from_slice(part);
    }
    Ok(())
}
