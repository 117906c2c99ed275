//! `netstat -r` and `route get`: the table that the netisrs look up, and static routes that lead nowhere just now.

use core::net::IpAddr;

use ipnet::IpNet;
use net::fib::{FibIndex, Hop, Listed, Metrics, Origin, Prefix, To};
use net::ip6::autoconf::Status;
use net::tables::{IfAddr, Ifnet};
use net::time::Instant;

use super::super::super::control::Control;
use super::super::super::route_sources;
use super::super::super::routing::{self, StaticRoute};
use super::super::super::tables::is_link_local;
use super::super::links::left;
use super::{no_route, order};
use crate::api::{
    Error, Family, NextHop, Route, RouteAction, RouteAnswer, RouteMetrics, RouteOrigin, RoutePage,
};
use crate::config::{self, RouteTarget};
use crate::routes::protocol;

impl Control {
    /// IPv4 first, in the order of their prefixes.
    pub(in super::super) fn list_routes(&self, page: &RoutePage) -> Result<Vec<Route>, Error> {
        let wanted = |to: IpNet| page.family.is_none_or(|family| family == Family::of(to.addr()));
        let limit = page.limit.unwrap_or(usize::MAX);
        self.check_fib(page.fib)?;
        let links = self.advertised()?;
        let table = self.routing.rib.after(page.fib, page.after.and_then(routing::prefix));
        let used = table.filter_map(|listed| self.used(&listed, &links)).filter(|route| wanted(route.to));
        let mut routes: Vec<Route> = used.take(limit).collect();
        let last = routes.last().filter(|_| routes.len() >= limit).map(|last| order(last.to));
        let is_listed = |to: IpNet| last.is_none_or(|last| order(to) <= last);
        let statics = self.routing.after(page.fib, page.after).take_while(|(to, _)| is_listed(*to));
        let idle = statics.filter(|(to, _)| wanted(*to) && self.is_idle(page.fib, *to));
        routes.extend(idle.map(|(to, route)| idle_route(page.fib, to, route)));
        let is_behind = |to: IpNet| page.after.is_none_or(|after| order(to) > order(after));
        let scoped = self.scoped_routes(page.fib).filter(|route| is_behind(route.to) && wanted(route.to));
        routes.extend(scoped);
        routes.sort_by_key(|route| order(route.to));
        if let Some(last) =
            page.limit.and_then(|limit| routes.get(limit.saturating_sub(1))).map(|last| last.to)
        {
            routes.retain(|route| order(route.to) <= order(last));
        }
        Ok(routes)
    }

    pub(in super::super) fn way_to(&self, fib: FibIndex, to: IpAddr) -> Result<RouteAnswer, Error> {
        self.check_fib(fib)?;
        let links = self.advertised()?;
        let used = || self.routing.rib.lookup(fib, to).and_then(|listed| self.route(&listed, &links));
        let route = if is_link_local(to) {
            self.scoped_routes(fib)
                .filter(|route| route.to.contains(&to))
                .max_by_key(|route| route.to.prefix_len())
        } else {
            used()
        };
        let route = route.ok_or_else(|| no_route(format!("no route leads to {to}")))?;
        let hop = route.next_hops.first();
        let interface = hop.and_then(|hop| self.interface(&hop.interface));
        let peer = hop.and_then(|hop| hop.gateway).unwrap_or(to);
        let ifnet = interface.and_then(|interface| self.tables.ifnet(interface.index));
        let source = ifnet.and_then(|ifnet| ifnet.source_for(peer));
        let mtu = interface.map(|interface| interface.mtu().min(route.metrics.mtu.unwrap_or(u32::MAX)));
        Ok(RouteAnswer { to, route, source, mtu })
    }

    /// Asks what is known of links, if any interface listens to routers.
    fn advertised(&self) -> Result<Vec<Status>, Error> {
        let is_any = self.attached.iter().any(|interface| interface.config.autoconf.is_some());
        if is_any { self.learned() } else { Ok(Vec::new()) }
    }

    /// The route to a prefix that is in force, as a reader of changes is told it: without what passes with time.
    pub(in super::super) fn route_in_force(&self, fib: FibIndex, to: Prefix) -> Option<Route> {
        let route = self.used(&self.routing.rib.get(fib, to)?, &[])?;
        Some(Route { expires_s: None, age_s: None, ..route })
    }

    /// The route to a prefix that is in force. Broadcast addresses go with their prefixes, and are not listed.
    fn used(&self, listed: &Listed, links: &[Status]) -> Option<Route> {
        self.route(listed, links).filter(|_| listed.in_force().0 != Origin::Broadcast)
    }

    fn route(&self, listed: &Listed, links: &[Status]) -> Option<Route> {
        let (origin, id) = listed.in_force();
        let hops: Vec<Hop> = self.tables.hops.each(id).collect();
        let first = hops.first()?;
        let origin = match origin {
            Origin::Own | Origin::Broadcast | Origin::Connected => RouteOrigin::Connected,
            Origin::Static => RouteOrigin::Static,
            Origin::Dynamic(_) => RouteOrigin::Dynamic,
            Origin::Learned => RouteOrigin::Advertised,
        };
        let (protocol, distance, age_s) = self.announced(listed.fib, listed.to, listed.in_force().0);
        Some(Route {
            fib: listed.fib,
            to: IpNet::new(listed.to.addr(), listed.to.prefix_len()).ok()?,
            action: match first.to {
                To::Local { .. } => RouteAction::Local,
                To::Reject => RouteAction::Reject,
                To::Blackhole => RouteAction::Blackhole,
                _ => RouteAction::Forward,
            },
            next_hops: self.next_hops(&hops),
            metrics: shown_metrics(first.metrics),
            origin,
            in_force: true,
            expires_s: match origin {
                RouteOrigin::Advertised => expires(listed.to, first.to, links, self.cpus.clock.now()),
                _ => None,
            },
            protocol,
            distance,
            age_s,
        })
    }

    /// Protocol, distance and age of a route, if a protocol has announced it.
    fn announced(
        &self,
        fib: FibIndex,
        to: Prefix,
        origin: Origin,
    ) -> (Option<String>, Option<u8>, Option<u64>) {
        let Origin::Dynamic(protocol) = origin else { return (None, None, None) };
        let since = self.route_sources.since(fib, to, protocol);
        let age = since.map(|since| u64::from(route_sources::now().saturating_sub(since)));
        (Some(protocol::name(protocol.number)), Some(protocol.distance), age)
    }

    /// The next hops of a route; one that is named several times has as many shares.
    fn next_hops(&self, hops: &[Hop]) -> Vec<NextHop> {
        let mut found: Vec<NextHop> = Vec::new();
        for hop in hops.iter().filter_map(|hop| self.next_hop(hop.to)) {
            match found.last_mut() {
                Some(last) if (last.gateway, &last.interface) == (hop.gateway, &hop.interface) => {
                    last.weight += 1
                }
                _ => found.push(hop),
            }
        }
        found
    }

    fn next_hop(&self, to: To) -> Option<NextHop> {
        let interface = self.interface_by_index(to.ifindex()?)?.config.name.clone();
        let gateway = if let To::Gateway { via, .. } = to { Some(via) } else { None };
        Some(NextHop { gateway, interface, weight: 1 })
    }

    /// Whether a static route has no interface that is up.
    fn is_idle(&self, fib: FibIndex, to: IpNet) -> bool {
        let listed = routing::prefix(to).and_then(|prefix| self.routing.rib.get(fib, prefix));
        listed.is_none_or(|listed| listed.of(Origin::Static).is_none())
    }

    /// Link-local prefixes and addresses of interfaces that are up. They stand in no table: the sender names the link.
    fn scoped_routes(&self, fib: FibIndex) -> impl Iterator<Item = Route> + '_ {
        let up = self.tables.ifnets().filter(move |ifnet| ifnet.up && ifnet.fib == fib);
        up.flat_map(|ifnet| {
            let own = ifnet.addrs.iter().filter(|own| is_link_local(own.addr));
            own.flat_map(|own| [on_link(*own, ifnet), local(*own, ifnet)]).flatten()
        })
    }
}

/// Seconds until a route goes that a router has advertised.
fn expires(to: Prefix, route: To, links: &[Status], now: Instant) -> Option<u64> {
    let link = links.iter().find(|link| Some(link.ifindex) == route.ifindex())?;
    let at = match route {
        To::Gateway { via, .. } => {
            link.routers.iter().find(|router| IpAddr::V6(router.addr) == via).map(|router| router.expires)
        }
        _ => link.prefixes.iter().find(|prefix| prefix.prefix == to).map(|prefix| prefix.expires),
    };
    left(at?, now)
}

/// A static route whose interfaces are all down.
fn idle_route(fib: FibIndex, to: IpNet, route: &StaticRoute) -> Route {
    let on_link = |name: &String| vec![NextHop { gateway: None, interface: name.clone(), weight: 1 }];
    let (action, next_hops) = match &route.target {
        RouteTarget::Via(hops) => {
            let hop = |hop: &config::NextHop| NextHop {
                gateway: Some(hop.gateway),
                interface: hop.interface.clone(),
                weight: 1,
            };
            (RouteAction::Forward, hops.iter().map(hop).collect())
        }
        RouteTarget::Dev(name) => (RouteAction::Forward, on_link(name)),
        RouteTarget::Reject => (RouteAction::Reject, Vec::new()),
        RouteTarget::Blackhole => (RouteAction::Blackhole, Vec::new()),
    };
    let (metrics, origin) = (shown_metrics(route.metrics), RouteOrigin::Static);
    Route {
        fib,
        to,
        action,
        next_hops,
        metrics,
        origin,
        in_force: false,
        expires_s: None,
        protocol: None,
        distance: None,
        age_s: None,
    }
}

fn shown_metrics(metrics: Metrics) -> RouteMetrics {
    let Metrics { mtu, msl_ms, initial_window } = metrics;
    RouteMetrics {
        mtu: Some(mtu).filter(|mtu| *mtu > 0),
        msl_ms: Some(msl_ms).filter(|msl| *msl > 0),
        initial_window: Some(initial_window).filter(|window| *window > 0),
    }
}

/// The prefix of an address; an address whose prefix is itself alone has no other neighbours.
fn on_link(own: IfAddr, ifnet: &Ifnet) -> Option<Route> {
    let prefix = IpNet::new(own.addr, own.prefix_len).ok()?.trunc();
    (prefix.prefix_len() < prefix.max_prefix_len()).then(|| connected(prefix, RouteAction::Forward, ifnet))
}

/// The address itself.
fn local(own: IfAddr, ifnet: &Ifnet) -> Option<Route> {
    Some(connected(IpNet::from(own.addr), RouteAction::Local, ifnet))
}

fn connected(to: IpNet, action: RouteAction, ifnet: &Ifnet) -> Route {
    Route {
        fib: ifnet.fib,
        to,
        action,
        next_hops: vec![NextHop { gateway: None, interface: ifnet.name.clone(), weight: 1 }],
        metrics: RouteMetrics::default(),
        origin: RouteOrigin::Connected,
        in_force: true,
        expires_s: None,
        protocol: None,
        distance: None,
        age_s: None,
    }
}
