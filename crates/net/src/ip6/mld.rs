//! Multicast listener discovery: tells switches which groups we are in, so that they let neighbour solicitations
//! through to us.
//!
//! We listen to whole groups, and only to those that follow from our addresses, so there is nothing to keep but when to
//! answer.
//!
//! # Spec
//! RFC 3810 §6; RFC 2710 §4; RFC 3590.

use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;

use pkt::{Flags, Pkt};
use wire::addr::{ALL_ROUTERS, solicited_node_multicast};
use wire::mld::{
    ALL_MLD2_ROUTERS, HOP_LIMIT, Query, ROUTER_ALERT, Version, Why, emit_report1, emit_report2, is_reported,
};
use wire::{Protocol, ip6, ip6_ext};

use crate::count::Count;
use crate::cpu::Cpu;
use crate::drop::DropReason;
use crate::tables::{IfIndex, Ifnet};
use crate::time::Instant;
use crate::timers::Timer;
use crate::{addr, neigh, netisr};

/// Groups that one report names: those of more would not fit a packet of 1280 bytes.
const GROUPS_MAX: usize = 60;
/// Room for a report.
const REPORT_MAX: usize = 8 + GROUPS_MAX * 20;

/// Answers that are due, one per interface.
#[derive(Default)]
pub(crate) struct Mld {
    due: Vec<Due>,
}

#[derive(Clone, Copy)]
struct Due {
    ifindex: IfIndex,
    at: Instant,
    query: Query,
}

/// Takes a query in; `pkt` starts with its IPv6 header, `pkt.l4` is where ICMPv6 starts; its checksum is right.
///
/// Drops  [`DropReason::MldMalformed`], [`DropReason::IcmpDone`].
pub fn input(cpu: &mut Cpu, pkt: Pkt) {
    let query = pkt.head().get(usize::from(pkt.l4)..).and_then(Query::parse).filter(|_| is_from_link(&pkt));
    let Some(query) = query else { return cpu.bury(pkt, DropReason::MldMalformed) };
    cpu.count(Count::MldQueriesIn);
    schedule(cpu, pkt.rcvif, query);
    cpu.bury(pkt, DropReason::IcmpDone);
}

/// Sends the answers that are due.
pub fn timer(cpu: &mut Cpu, ifindex: IfIndex) {
    let now = cpu.now;
    let Some(at) = cpu.addrs.mld.due.iter().position(|due| due.ifindex == ifindex && due.at <= now) else {
        return;
    };
    let Due { query, .. } = cpu.addrs.mld.due.swap_remove(at);
    answer(cpu, ifindex, query);
}

/// Reports that we listen to the solicited-node group of a new address of ours: before it is asked for, and once more
/// when that is done (`[Robustness Variable]` is 2).
//= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.2
//# Before sending a Neighbor Solicitation, an interface MUST join the all-nodes multicast address and the solicited-node multicast address of the tentative address.
pub(crate) fn joined(cpu: &mut Cpu, ifindex: IfIndex, addr: Ipv6Addr) {
    report2(cpu, ifindex, Why::Joined, &[solicited_node_multicast(addr)]);
}

/// Whether it has what a query must have: a link-local source, a hop limit of 1, the router alert option.
//= https://www.rfc-editor.org/rfc/rfc3810#section-6.2
fn is_from_link(pkt: &Pkt) -> bool {
    let chain =
        ip6::View::new(pkt.head()).ok().and_then(|view| ip6_ext::walk(&view, ip6_ext::Role::Host).ok());
    super::src(pkt).is_unicast_link_local()
        && pkt.window(0)[7] == HOP_LIMIT
        && chain.is_some_and(|chain| chain.router_alert.is_some())
}

/// Answers after a random time, as many hosts are asked at once. A query that comes meanwhile makes the answer one for
/// all groups: that is always a right answer.
fn schedule(cpu: &mut Cpu, ifindex: IfIndex, query: Query) {
    let delay = Duration::from_millis(cpu.secret.below(u64::from(query.max_delay_ms).max(1)));
    let at = cpu.now + delay;
    if let Some(due) = cpu.addrs.mld.due.iter_mut().find(|due| due.ifindex == ifindex) {
        due.query.version = due.query.version.min(query.version);
        due.query.group = due.query.group.filter(|group| Some(*group) == query.group);
        return;
    }
    cpu.addrs.mld.due.push(Due { ifindex, at, query });
    cpu.timers.set(at, Timer::Mld(ifindex));
}

fn answer(cpu: &mut Cpu, ifindex: IfIndex, query: Query) {
    let Some(ifnet) = cpu.tables.ifnet(ifindex) else { return };
    let mut groups = groups(ifnet, cpu.tables.forwarding);
    groups.retain(|group| query.group.is_none_or(|asked| asked == *group));
    match query.version {
        Version::V1 => groups.iter().for_each(|group| report1(cpu, ifindex, *group)),
        Version::V2 => groups.chunks(GROUPS_MAX).for_each(|some| report2(cpu, ifindex, Why::Asked, some)),
    }
}

/// The groups that follow from our addresses and our being a router: see [`addr::in_group`].
fn groups(ifnet: &Ifnet, forwarding: bool) -> Vec<Ipv6Addr> {
    let routers = forwarding.then_some(ALL_ROUTERS);
    let all = ifnet.addrs6().map(|(addr, _)| solicited_node_multicast(addr)).chain(routers);
    let mut groups: Vec<_> = all.filter(|group| is_reported(*group)).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

fn report1(cpu: &mut Cpu, ifindex: IfIndex, group: Ipv6Addr) {
    let mut report = [0; REPORT_MAX];
    let src = speaker(cpu, ifindex);
    if let Ok(len) = emit_report1(src, group, &mut report) {
        send(cpu, ifindex, src, group, &report[..len]);
    }
}

fn report2(cpu: &mut Cpu, ifindex: IfIndex, why: Why, groups: &[Ipv6Addr]) {
    let mut report = [0; REPORT_MAX];
    let src = speaker(cpu, ifindex);
    if let Ok(len) = emit_report2(src, why, groups, &mut report) {
        send(cpu, ifindex, src, ALL_MLD2_ROUTERS, &report[..len]);
    }
}

/// The address to report with: link-local or, as long as there is none, nobody's (RFC 3590 §4).
fn speaker(cpu: &Cpu, ifindex: IfIndex) -> Ipv6Addr {
    let sure = |own: &Ipv6Addr| {
        let key = addr::Key { ifindex, addr: IpAddr::V6(*own) };
        own.is_unicast_link_local() && cpu.addrs.state(&key) == Some(addr::State::Preferred)
    };
    let ifnet = cpu.tables.ifnet(ifindex);
    let own = ifnet.and_then(|ifnet| ifnet.addrs6().map(|(own, _)| own).find(sure));
    own.unwrap_or(Ipv6Addr::UNSPECIFIED)
}

fn send(cpu: &mut Cpu, ifindex: IfIndex, src: Ipv6Addr, dst: Ipv6Addr, report: &[u8]) {
    let Some(mut pkt) = cpu.pool.take() else { return };
    pkt.outif = ifindex;
    pkt.flags.set(Flags::LOCAL.with(Flags::PRIORITY));
    if write(&mut pkt, src, dst, report).is_err() {
        return cpu.bury(pkt, DropReason::NoBuffer);
    }
    cpu.count(Count::MldReportsSent);
    let next = neigh::link(cpu, &mut pkt, dst.into());
    netisr::dispatch(cpu, pkt, next);
}

fn write(pkt: &mut Pkt, src: Ipv6Addr, dst: Ipv6Addr, report: &[u8]) -> Result<(), pkt::NoRoom> {
    let len = u16::try_from(ROUTER_ALERT.len() + report.len()).unwrap_or_default();
    let header = ip6::Header::new(src, dst, Protocol::HOP_BY_HOP, len);
    let header = ip6::Header { hop_limit: HOP_LIMIT, ..header }.to_bytes();
    for part in [&header[..], &ROUTER_ALERT, report] {
        pkt.append(part.len())?.copy_from_slice(part);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
