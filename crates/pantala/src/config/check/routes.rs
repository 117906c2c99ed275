//! Routes: one target each, and gateways that can be reached.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::HashMap;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use net::fib::FibIndex;

use super::fib;
use super::interfaces::Link;
use crate::config::draft::{Destination, DraftRoute};
use crate::config::problem::{At, Report};
use crate::config::{NextHop, Route, RouteTarget};
use diagnostic::did_you_mean;

const MOST_GATEWAYS: usize = 16;

pub(crate) fn check(
    drafts: &[DraftRoute],
    links: &[Link],
    fibs: FibIndex,
    report: &mut Report<'_>,
) -> Vec<Route> {
    let mut routes = Vec::new();
    let mut lines: HashMap<(FibIndex, IpNet), usize> = HashMap::new();
    for draft in drafts {
        let fib = fib(draft.fib.as_ref(), fibs, report);
        // Its gateways are on links of its table, or else on those of others.
        let mut links: Vec<&Link> = links.iter().collect();
        links.sort_by_key(|link| link.fib != fib);
        let target = target(draft, &links, report);
        let to = draft.to.as_ref().and_then(|to| prefix(to, draft, report));
        let (Some(to), Some(target)) = (to, target) else { continue };
        if let Some(line) = lines.insert((fib, to), report.line(&draft.span)) {
            let message = format!("the route to {to} is already given in line {line}");
            let help = "for several gateways write via = [\"…\", \"…\"] in one [[route]]";
            report.add(draft.to.as_ref().map_or(&draft.span, |at| &at.span), message, help);
        }
        routes.push(Route { fib, to, target, metrics: draft.metrics });
    }
    routes
}

/// The destination as a prefix; `default` takes its family from the gateways.
fn prefix(to: &At<Destination>, draft: &DraftRoute, report: &mut Report<'_>) -> Option<IpNet> {
    let family = draft.via.first().map(|at| at.value);
    let net = match (to.value, family) {
        (Destination::Prefix(net), _) => net,
        (Destination::Default, Some(IpAddr::V4(_))) => Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0).into(),
        (Destination::Default, Some(IpAddr::V6(_))) => Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0).into(),
        (Destination::Default, None) => {
            let decided = draft.dev.is_some() || draft.reject || draft.blackhole;
            if decided && !draft.has_via {
                let help = "without a gateway write \"0.0.0.0/0\" or \"::/0\"";
                report.add(&to.span, "`default` could mean IPv4 or IPv6 here", help);
            }
            return None;
        }
    };
    families(&net, draft, report);
    Some(net)
}

fn families(net: &IpNet, draft: &DraftRoute, report: &mut Report<'_>) {
    for gateway in draft.via.iter().filter(|at| at.value.is_ipv4() != net.addr().is_ipv4()) {
        let message = format!("the gateway {} is not of the family of {net}", gateway.value);
        report.add(&gateway.span, message, "write one [[route]] for IPv4 and one for IPv6");
    }
}

fn target(draft: &DraftRoute, links: &[&Link], report: &mut Report<'_>) -> Option<RouteTarget> {
    let dev = match &draft.dev {
        Some(dev) => Some(known_interface(dev, links, report)?),
        None => None,
    };
    match (draft.has_via, dev, draft.reject, draft.blackhole) {
        (true, dev, false, false) => gateways(draft, dev, links, report),
        (false, Some(dev), false, false) => Some(RouteTarget::Dev(dev.name.clone())),
        (false, None, true, false) => Some(RouteTarget::Reject),
        (false, None, false, true) => Some(RouteTarget::Blackhole),
        (false, None, false, false) => {
            let help = "add via = [\"192.0.2.254\"], dev = \"lan\", reject = true or blackhole = true";
            report.add(&draft.span, "this route does not say what to do with its packets", help);
            None
        }
        _ => {
            let help = "keep one: via (dev may name its link), dev, reject or blackhole";
            report.add(&draft.span, "this route says several things at once", help);
            None
        }
    }
}

fn known_interface<'i>(dev: &At<String>, links: &[&'i Link], report: &mut Report<'_>) -> Option<&'i Link> {
    let found = links.iter().find(|link| link.name == dev.value).copied();
    if found.is_none() {
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        report.add(
            &dev.span,
            format!("there is no interface `{}`", dev.value),
            did_you_mean(&dev.value, &names),
        );
    }
    found
}

fn gateways(
    draft: &DraftRoute,
    dev: Option<&Link>,
    links: &[&Link],
    report: &mut Report<'_>,
) -> Option<RouteTarget> {
    if draft.via.is_empty() {
        return None;
    }
    if let Some(extra) = draft.via.get(MOST_GATEWAYS) {
        report.add(&extra.span, "too many gateways", format!("a route has at most {MOST_GATEWAYS}"));
    }
    let hops: Vec<_> = draft.via.iter().filter_map(|at| next_hop(at, dev, links, report)).collect();
    twins(&draft.via, report);
    Some(RouteTarget::Via(hops))
}

fn twins(via: &[At<IpAddr>], report: &mut Report<'_>) {
    for (n, gateway) in via.iter().enumerate() {
        if via.iter().take(n).any(|other| other.value == gateway.value) {
            report.add(
                &gateway.span,
                format!("the gateway {} is named twice", gateway.value),
                "name it once",
            );
        }
    }
}

fn next_hop(
    gateway: &At<IpAddr>,
    dev: Option<&Link>,
    links: &[&Link],
    report: &mut Report<'_>,
) -> Option<NextHop> {
    let address = gateway.value;
    if links.iter().any(|link| link.addresses.iter().any(|net| net.addr() == address)) {
        report.add(
            &gateway.span,
            format!("{address} is an address of this host"),
            "name the neighbouring router",
        );
        return None;
    }
    let link = if link_local(address) { dev } else { on_link(address, dev, links) };
    let Some(link) = link else {
        if links.iter().any(|link| link.doubtful) {
            return None;
        }
        report.add(&gateway.span, off_link(address, dev), off_link_help(address, links));
        return None;
    };
    Some(NextHop { gateway: address, interface: link.name.clone() })
}

/// The interface with the longest prefix around the gateway; the first of several.
fn on_link<'i>(address: IpAddr, dev: Option<&'i Link>, links: &[&'i Link]) -> Option<&'i Link> {
    let is_candidate = |link: &&&'i Link| dev.is_none_or(|dev| dev.name == link.name);
    let candidates = links.iter().copied().rev().filter(|link| is_candidate(&link));
    let prefixes = candidates.flat_map(|link| link.addresses.iter().map(move |net| (link, net)));
    prefixes.filter(|(_, net)| net.contains(&address)).max_by_key(|(_, net)| net.prefix_len()).map(|(i, _)| i)
}

fn off_link(address: IpAddr, dev: Option<&Link>) -> String {
    match dev {
        _ if link_local(address) => format!("the link-local gateway {address} needs its interface"),
        Some(dev) => format!("the gateway {address} is not on the link of `{}`", dev.name),
        None => format!("the gateway {address} is not on the link of any interface"),
    }
}

fn off_link_help(address: IpAddr, links: &[&Link]) -> String {
    if link_local(address) {
        return "add dev = \"NAME\"".to_owned();
    }
    let family = |net: &&IpNet| net.addr().is_ipv4() == address.is_ipv4();
    let links: Vec<String> = links
        .iter()
        .flat_map(|i| {
            i.addresses.iter().filter(family).map(move |net| format!("{} ({})", net.trunc(), i.name))
        })
        .collect();
    if links.is_empty() {
        "no interface has an address of this family".to_owned()
    } else {
        format!("on-link are {}", links.join(", "))
    }
}

fn link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}
