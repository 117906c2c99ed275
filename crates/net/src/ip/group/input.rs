//! Messages about groups: queries of routers, and reports of hosts.

use pkt::Pkt;
use wire::ether::EtherType;
use wire::ip4::{HEADER_LEN, OptionIter};
use wire::membership::{Query, Version};
use wire::{igmp, ip6, ip6_ext, mld};

use super::change;
use super::link::Asked;
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::ip::ip6::autoconf::owner;
use crate::ip::{ip4, ip6 as inet6, l4, punt};
use crate::turn::cpu::Cpu;
use crate::turn::deliver;
use crate::turn::netisr::dispatch;
use crate::turn::next::Next;

/// Takes a message of IGMP, or of listener discovery whose checksum is right, in. `pkt` starts with its network header,
/// `pkt.l4` is where the message starts. It belongs to the CPU that speaks for the link.
///
/// Drops  [`DropReason::IgmpMalformed`], [`DropReason::MldMalformed`].
///
/// # Spec
/// RFC 3376 §4.1, §9.1; RFC 3810 §6.2.
pub fn input(cpu: &mut Cpu, mut pkt: Pkt) {
    let owner = owner(cpu.placement, pkt.rcvif);
    if owner != cpu.id {
        pkt.resume = l4::resume(&pkt) as u8;
        return dispatch(cpu, pkt, Next::HandOff(owner));
    }
    let is_ip4 = l4::is_ip4(&pkt);
    // Each tells routers of its own groups.
    punt::copy(cpu, &pkt, if is_ip4 { EtherType::IPV4 } else { EtherType::IPV6 });
    if !is_ip4 {
        deliver::raw(cpu, &pkt);
    }
    let understood = if is_ip4 { input4(cpu, &pkt) } else { input6(cpu, &pkt) };
    let consumed = if is_ip4 { Count::IgmpConsumed } else { Count::MldConsumed };
    let malformed = if is_ip4 { DropReason::IgmpMalformed } else { DropReason::MldMalformed };
    cpu.finish(pkt, understood.map(|()| consumed).ok_or(malformed));
}

fn input4(cpu: &mut Cpu, pkt: &Pkt) -> Option<()> {
    let message = igmp::Message::parse(pkt.head().get(l4::range(pkt))?)?;
    let is_from_link = ip4::header(pkt)[8] == igmp::TTL;
    match message {
        // A version 1 querier knows no router alert option.
        igmp::Message::Query(query) if is_from_link && (query.version == Version::V1 || is_alert4(pkt)) => {
            cpu.count(Count::IgmpQueriesIn);
            asked(cpu, pkt, &query);
        }
        igmp::Message::Query(_) => return None,
        igmp::Message::Report(group) => {
            change(cpu, pkt.rcvif, |link, cpu| link.reported(cpu.now, group.into()));
        }
        igmp::Message::Leave(_) | igmp::Message::Report3(_) => {}
    }
    Some(())
}

fn input6(cpu: &mut Cpu, pkt: &Pkt) -> Option<()> {
    let message = mld::Message::parse(pkt.head().get(l4::range(pkt))?)?;
    match message {
        mld::Message::Query(query) => {
            if !is_router_of_link(pkt) {
                return None;
            }
            cpu.count(Count::MldQueriesIn);
            asked(cpu, pkt, &query);
        }
        mld::Message::Report(group) => {
            change(cpu, pkt.rcvif, |link, cpu| link.reported(cpu.now, group.into()));
        }
        mld::Message::Done(_) | mld::Message::Report2(_) => {}
    }
    Some(())
}

//= https://www.rfc-editor.org/rfc/rfc3376#section-9.1
fn is_alert4(pkt: &Pkt) -> bool {
    let options = pkt.head().get(HEADER_LEN..usize::from(pkt.l4)).unwrap_or_default();
    OptionIter::new(options).summary().is_ok_and(|summary| summary.router_alert.is_some())
}

/// Whether it has what a query must have: a link-local source, a hop limit of 1, the router alert option.
//= https://www.rfc-editor.org/rfc/rfc3810#section-6.2
fn is_router_of_link(pkt: &Pkt) -> bool {
    let chain =
        ip6::View::new(pkt.head()).ok().and_then(|view| ip6_ext::walk(&view, ip6_ext::Role::Host).ok());
    inet6::src(pkt).is_unicast_link_local()
        && pkt.window(0)[7] == mld::HOP_LIMIT
        && chain.is_some_and(|chain| chain.router_alert.is_some())
}

fn asked(cpu: &mut Cpu, pkt: &Pkt, query: &Query<'_>) {
    let asked = Asked {
        is_v6: !l4::is_ip4(pkt),
        version: query.version,
        max_delay_ms: query.max_delay_ms,
        robustness: query.robustness,
        interval_s: query.interval_s,
        group: query.group,
        sources: query.sources.collect(),
    };
    change(cpu, pkt.rcvif, |link, cpu| link.asked(cpu.now, &asked, &mut cpu.secret));
}
