//! Questions about the way back to a packet's source.
//!
//! They are asked on the way in. A packet on the way out, and one of our own making, passes: ipfw has it so.

use core::net::IpAddr;

use super::program::Asked;
use crate::fib::{Hop, To};
use crate::firewall::pkt_info::PktInfo;

/// `verrevpath`: a route back leaves by the interface that the packet came in by.
pub(super) fn leads_back(asked: &Asked<'_>) -> bool {
    is_not_asked(asked.info) || hops(asked).any(|hop| leads_by(hop, asked.info))
}

/// `versrcreach`: there is a route back, other than the default one.
pub(super) fn reaches_back(asked: &Asked<'_>) -> bool {
    let has_route = || hops(asked).any(|hop| hop.to.ifindex().is_some());
    is_not_asked(asked.info)
        || asked.tables.fib_for(asked.pkt).prefix_len(asked.info.src_addr()) > 0 && has_route()
}

/// `antispoof`: if the source is on one of our links, or our own, the packet came in there.
pub(super) fn is_no_spoof(asked: &Asked<'_>) -> bool {
    let info = asked.info;
    let is_spoof = |hop: Hop| match hop.to {
        To::Local { .. } => true,
        To::OnLink { ifindex } | To::Broadcast { ifindex } => ifindex != info.recv,
        _ => false,
    };
    is_not_asked(info) || !hops(asked).any(is_spoof)
}

/// Link-local sources are on the link that they came from, whichever that is.
fn is_not_asked(info: &PktInfo) -> bool {
    use ipfw::rule::Hook::{Egress, LocalOut};
    let is_link_local = matches!(info.src_addr(), IpAddr::V6(addr) if addr.is_unicast_link_local());
    matches!(info.hook, Egress | LocalOut) || info.recv == 0 || is_link_local
}

fn hops<'a>(asked: &'a Asked<'_>) -> impl Iterator<Item = Hop> + 'a {
    let tables = asked.tables;
    tables.hops.each(tables.fib_for(asked.pkt).lookup(asked.info.src_addr()))
}

fn leads_by(hop: Hop, info: &PktInfo) -> bool {
    !matches!(hop.to, To::Local { .. }) && hop.to.ifindex() == Some(info.recv)
}
