//! `netstat -rn` and `route get`.

use core::fmt::Write;
use std::collections::HashMap;

use ipnet::IpNet;

use super::neighbours::duration;
use super::table::Table;
use crate::api::{
    Interface, NextHop, Route, RouteAction, RouteAnswer, RouteMetrics, RouteOrigin, RouteSource,
    RouteSourceState,
};

/// The routing tables, one for each family that has routes.
pub(crate) fn routes(routes: &[Route], fib: u8, interfaces: &[Interface]) -> String {
    let numbers: HashMap<&str, u32> = interfaces.iter().map(|i| (i.name.as_str(), i.index)).collect();
    // As FreeBSD's netstat says it.
    let mut text =
        if fib == 0 { "Routing tables\n".to_owned() } else { format!("Routing tables (fib: {fib})\n") };
    for (title, v4) in [("Internet", true), ("Internet6", false)] {
        let family: Vec<&Route> = routes.iter().filter(|route| route.to.addr().is_ipv4() == v4).collect();
        if !family.is_empty() {
            let _ = write!(text, "\n{title}:\n{}", family_table(&family, &numbers));
        }
    }
    text
}

fn family_table(routes: &[&Route], numbers: &HashMap<&str, u32>) -> String {
    const ANNOUNCED: [&str; 8] =
        ["Destination", "Gateway", "Flags", "Netif", "Expire", "Protocol", "Distance", "Age"];
    // What no protocol has announced has none of the last ones.
    let is_any = routes.iter().any(|route| route.protocol.is_some());
    let columns = if is_any { &ANNOUNCED[..] } else { &ANNOUNCED[..5] };
    let mut table = Table::new(columns, &[3, 4]);
    for route in routes {
        let expires = route.expires_s.map(|s| s.to_string()).unwrap_or_default();
        let mut row = |gateway: String, netif: &str| {
            let mut cells =
                vec![destination(route.to), gateway, flags(route), netif.to_owned(), expires.clone()];
            if is_any {
                cells.push(protocol(route));
                cells.push(route.distance.map(|distance| distance.to_string()).unwrap_or_default());
                cells.push(route.age_s.map(duration).unwrap_or_default());
            }
            table.row(cells);
        };
        if route.next_hops.is_empty() {
            row("-".to_owned(), "-");
        }
        for hop in &route.next_hops {
            let weight = if hop.weight > 1 { format!(" x{}", hop.weight) } else { String::new() };
            row(gateway(hop, numbers) + &weight, &hop.interface);
        }
    }
    table.text()
}

/// Why a route is there.
fn protocol(route: &Route) -> String {
    match (&route.protocol, route.origin) {
        (Some(protocol), _) => protocol.clone(),
        (None, RouteOrigin::Connected) => "connected".to_owned(),
        (None, RouteOrigin::Static) => "static".to_owned(),
        (None, RouteOrigin::Advertised) => "advertised".to_owned(),
        (None, RouteOrigin::Dynamic) => "dynamic".to_owned(),
    }
}

/// `route sources`.
pub(crate) fn route_sources(sources: &[RouteSource]) -> String {
    if sources.is_empty() {
        return "no sources; `[routes.fpm]` and `[routes.kernel]` in the configuration make some\n"
            .to_owned();
    }
    let mut text = String::new();
    for source in sources {
        let RouteSource { name, at, routes, stale, idle, targets, next_hops, .. } = source;
        let state = match source.state {
            RouteSourceState::Waiting => "waiting".to_owned(),
            RouteSourceState::Connected => {
                format!("connected to {}", source.peer.as_deref().unwrap_or("a peer"))
            }
            RouteSourceState::Reading => "reading".to_owned(),
            RouteSourceState::Following => "following".to_owned(),
            RouteSourceState::Failed => "failed".to_owned(),
        };
        let _ = writeln!(text, "{name}: {at}, {state} for {}", duration(source.since_s));
        let _ = writeln!(
            text,
            "\troutes {routes}, stale {stale}, idle prefixes {idle}, targets {targets}, next hops {next_hops}"
        );
        let RouteSource { messages, malformed, ignored, refused, swept, resyncs, overruns, .. } = source;
        let _ = writeln!(
            text,
            "\tmessages {messages}, malformed {malformed}, ignored {ignored}, refused {refused}, swept {swept}, resyncs {resyncs}, overruns {overruns}"
        );
    }
    text
}

/// `default`, a host without its length, or a prefix.
pub(crate) fn destination(net: IpNet) -> String {
    if net.prefix_len() == 0 {
        return "default".to_owned();
    }
    if net.prefix_len() == net.max_prefix_len() { net.addr().to_string() } else { net.to_string() }
}

/// A router's address, or the link itself by BSD's name.
fn gateway(hop: &NextHop, numbers: &HashMap<&str, u32>) -> String {
    match (hop.gateway, numbers.get(hop.interface.as_str())) {
        (Some(address), _) => address.to_string(),
        (None, Some(index)) => format!("link#{index}"),
        (None, None) => hop.interface.clone(),
    }
}

/// BSD's letters.
fn flags(route: &Route) -> String {
    let has = |yes: bool, letter: &'static str| if yes { letter } else { "" };
    [
        has(route.in_force, "U"),
        has(route.next_hops.iter().any(|hop| hop.gateway.is_some()), "G"),
        has(route.to.prefix_len() == route.to.max_prefix_len(), "H"),
        has(route.action == RouteAction::Reject, "R"),
        has(route.origin == RouteOrigin::Static, "S"),
        has(route.origin == RouteOrigin::Dynamic, "1"),
        has(route.action == RouteAction::Blackhole, "B"),
        has(route.action == RouteAction::Local, "l"),
    ]
    .concat()
}

/// The answer of `route get`.
pub(crate) fn route_answer(answer: &RouteAnswer) -> String {
    let route = &answer.route;
    let mut text = format!("   route to: {}\ndestination: {}\n", answer.to, destination(route.to));
    if route.fib != 0 {
        let _ = writeln!(text, "        fib: {}", route.fib);
    }
    if route.to.prefix_len() != route.to.max_prefix_len() {
        let _ = writeln!(text, "       mask: {}", route.to.netmask());
    }
    for hop in &route.next_hops {
        if let Some(gateway) = hop.gateway {
            let _ = writeln!(text, "    gateway: {gateway}");
        }
        let _ = writeln!(text, "  interface: {}", hop.interface);
    }
    let _ = writeln!(text, "      flags: <{}>", words(route));
    if let (Some(protocol), Some(distance)) = (&route.protocol, route.distance) {
        let _ = writeln!(text, "   protocol: {protocol}, distance {distance}");
    }
    if let Some(age) = route.age_s {
        let _ = writeln!(text, "        age: {}", duration(age));
    }
    let RouteMetrics { msl_ms, initial_window, .. } = route.metrics;
    if let Some(msl) = msl_ms {
        let _ = writeln!(text, "        msl: {msl} ms");
    }
    if let Some(window) = initial_window {
        let _ = writeln!(text, "         iw: {window} segments");
    }
    if let Some(source) = answer.source {
        let _ = writeln!(text, "     source: {source}");
    }
    if let Some(mtu) = answer.mtu {
        let _ = writeln!(text, "        mtu: {mtu}");
    }
    text
}

fn words(route: &Route) -> String {
    let pairs = [
        ('U', "UP"),
        ('G', "GATEWAY"),
        ('H', "HOST"),
        ('R', "REJECT"),
        ('S', "STATIC"),
        ('B', "BLACKHOLE"),
        ('l', "LOCAL"),
    ];
    let flags = flags(route);
    pairs
        .iter()
        .filter(|(letter, _)| flags.contains(*letter))
        .map(|&(_, word)| word)
        .collect::<Vec<_>>()
        .join(",")
}
