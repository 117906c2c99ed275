//! Decides how much of what routers say is in force, where it contradicts what was configured.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::autoconf::PREFIX_LEN;
use super::{IfIndex, Ifnet, Learned, LearnedAddr};
use crate::fib::{FibIndex, Prefix, Route};
use crate::link::logical;

/// Lets logical interfaces inherit from those below. Then puts in force what routers have said of each link ([`Ifnet::learned`]), and gives the interfaces their addresses in
/// routers' prefixes. `is_led_elsewhere` says whether a static route other than the default route leads all of a prefix to
/// something else than this interface.
///
/// A prefix that overlaps a configured one of another interface is refused, whether that is up or not, whether it is longer
/// or shorter, and whichever was there first. Of two interfaces whose routers advertise overlapping prefixes the one with
/// the lower index has them on its link; where both advertise the same, both have their addresses.
///
/// Nothing is remembered: the same configuration and the same advertisements amount to the same, in any order.
pub fn settle(ifs: &mut [Ifnet], is_led_elsewhere: impl Fn(Prefix, IfIndex) -> bool) {
    ifs.sort_by_key(|ifnet| ifnet.index);
    logical::inherit(ifs);
    let configured: Vec<_> =
        ifs.iter().flat_map(|ifnet| configured(ifnet).map(|to| (ifnet.index, ifnet.fib, to))).collect();
    // Of the links of one table each prefix is on one.
    let mut learned_before: BTreeMap<FibIndex, Vec<Prefix>> = BTreeMap::new();
    for ifnet in ifs {
        let is_configured = |prefix: Prefix| {
            let is_elsewhere = |index: IfIndex, fib| index != ifnet.index && fib == ifnet.fib;
            let elsewhere = configured.iter().filter(|(index, fib, _)| is_elsewhere(*index, *fib));
            elsewhere.map(|(_, _, other)| other).any(|other| other.overlaps(prefix))
                || is_led_elsewhere(prefix, ifnet.index)
        };
        let learned_before = learned_before.entry(ifnet.fib).or_default();
        let learned = believed(&ifnet.learned, is_configured, learned_before);
        if ifnet.up {
            learned_before.extend(&learned.on_link);
        }
        ifnet.addrs.extend(learned.own());
        if learned != *ifnet.learned {
            ifnet.learned = Arc::new(learned);
        }
    }
}

/// The prefixes of an interface's configured addresses. A link-local one is on every link.
fn configured(ifnet: &Ifnet) -> impl Iterator<Item = Prefix> + '_ {
    let own = ifnet.addrs.iter().filter(|own| !own.addr_is_scoped());
    own.filter_map(super::IfAddr::prefix)
}

fn believed(heard: &Learned, is_configured: impl Fn(Prefix) -> bool, taken: &[Prefix]) -> Learned {
    let mut refused = Vec::new();
    let mut refuse = |prefix: Prefix| {
        if !refused.contains(&prefix) {
            refused.push(prefix);
        }
        false
    };
    let mut on_link = heard.on_link.clone();
    on_link.retain(|prefix| {
        let is_taken = || taken.iter().any(|other| other.overlaps(*prefix));
        !(is_configured(*prefix) || is_taken()) || refuse(*prefix)
    });
    let mut addrs = heard.addrs.clone();
    addrs.retain(|own| {
        let prefix = made_from(own);
        let is_cut = || taken.iter().any(|other| *other != prefix && other.overlaps(prefix));
        !(is_configured(prefix) || is_cut()) || refuse(prefix)
    });
    Learned { addrs, on_link, refused, ..heard.clone() }
}

/// The prefix that a router has advertised for one of our addresses.
fn made_from(own: &LearnedAddr) -> Prefix {
    let addr = IpAddr::V6(own.addr);
    Prefix::new(addr, PREFIX_LEN).unwrap_or_else(|| Prefix::host(addr))
}

/// Whether one of `routes` that is no default route leads all of a prefix to something else than an interface.
pub(super) fn is_led_elsewhere(routes: &[Route], prefix: Prefix, ifindex: IfIndex) -> bool {
    let around = routes.iter().filter(|route| route.to.prefix_len() > 0 && route.to.contains(prefix));
    around.flat_map(|route| &route.hops).any(|hop| hop.to.ifindex() != Some(ifindex))
}

#[cfg(test)]
mod tests;
