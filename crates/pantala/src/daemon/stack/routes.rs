//! `route`, and `netstat -r`.

use core::net::IpAddr;

use ipnet::IpNet;
use net::tables::IfAddr;

use super::super::control::{Control, warn_of_gateways};
use super::super::tables::{Attached, is_link_local};
use crate::api::{Error, ErrorKind, NextHop, Route, RouteAction, RouteAnswer, RouteOrigin, RouteRequest};
use crate::config::{self, RouteTarget};

/// Static routes that are taken.
const ROUTES_MAX: usize = 1_250_000;
/// Gateways of one route.
const GATEWAYS_MAX: usize = 16;

impl Control {
    /// IPv4 first, in the order of their prefixes.
    pub(super) fn list_routes(&self) -> Vec<Route> {
        let up = self.attached.iter().filter(|interface| interface.up);
        let connected = up.flat_map(|interface| {
            let addresses = interface.addresses().into_iter();
            addresses
                .flat_map(|own| [on_link(own, interface), local(own, interface)])
                .flatten()
                .collect::<Vec<_>>()
        });
        let mut routes: Vec<Route> = self.routes.iter().map(static_route).collect();
        // Those that follow from addresses are stronger.
        let connected: Vec<Route> = connected.collect();
        routes.retain(|route| connected.iter().all(|other| other.to != route.to));
        routes.extend(connected);
        routes.sort_by_key(|route| (route.to.addr(), route.to.prefix_len()));
        routes.dedup_by(|a, b| a.to == b.to && a.action == b.action && a.next_hops == b.next_hops);
        routes
    }

    pub(super) fn way_to(&self, to: IpAddr) -> Result<RouteAnswer, Error> {
        let routes = self.list_routes().into_iter();
        let matching = routes.filter(|route| route.to.contains(&to) && self.leads_anywhere(route));
        let route = matching.max_by_key(|route| route.to.prefix_len());
        let route = route.ok_or_else(|| no_route(format!("no route leads to {to}")))?;
        let hop = route.next_hops.first();
        let interface = hop.and_then(|hop| self.interface(&hop.interface));
        let peer = hop.and_then(|hop| hop.gateway).unwrap_or(to);
        let ifnet = interface.and_then(|interface| self.tables.ifnet(interface.index));
        let source = ifnet.and_then(|ifnet| ifnet.source_for(peer));
        Ok(RouteAnswer { to, route, source, mtu: interface.map(Attached::mtu) })
    }

    pub(super) fn insert_route(&mut self, request: &RouteRequest) -> Result<(), Error> {
        let to = request.to.trunc();
        if self.list_routes().iter().any(|route| route.to == to) {
            return Err(Error::new(ErrorKind::Exists, format!("there is a route to {to} already"))
                .hint("delete it first, or use `route change`"));
        }
        if self.routes.len() >= ROUTES_MAX {
            return Err(Error::new(
                ErrorKind::Busy,
                format!("the table is full: it has {ROUTES_MAX} routes"),
            ));
        }
        let route = config::Route { to, target: self.target(request)? };
        warn_of_gateways(core::slice::from_ref(&route));
        self.routes.push(route);
        self.publish()
    }

    pub(super) fn remove_route(&mut self, to: IpNet, via: Option<IpAddr>) -> Result<(), Error> {
        let to = to.trunc();
        let Some(at) = self.routes.iter().position(|route| route.to == to) else {
            let connected = self.list_routes().iter().any(|route| route.to == to);
            return Err(if connected {
                let error =
                    Error::new(ErrorKind::Invalid, format!("the route to {to} follows from an address"));
                error.hint("it goes with the address")
            } else {
                no_route(format!("there is no route to {to}"))
            });
        };
        if let Some(via) = via {
            remove_gateway(&mut self.routes[at], via)?;
        }
        if via.is_none() || self.routes[at].target == RouteTarget::Via(Vec::new()) {
            self.routes.remove(at);
        }
        self.publish()
    }

    /// Whether the route is in the netisrs' table: its interface is up.
    fn leads_anywhere(&self, route: &Route) -> bool {
        let up = |hop: &NextHop| self.interface(&hop.interface).is_some_and(|interface| interface.up);
        route.next_hops.is_empty() || route.next_hops.iter().any(up)
    }

    fn target(&self, request: &RouteRequest) -> Result<RouteTarget, Error> {
        let dev =
            request.dev.as_ref().map(|name| self.interface(name).ok_or_else(|| self.no_interface(name)));
        let dev = dev.transpose()?;
        match dev {
            _ if request.reject => Ok(RouteTarget::Reject),
            _ if request.blackhole => Ok(RouteTarget::Blackhole),
            Some(dev) if request.via.is_empty() => Ok(RouteTarget::Dev(dev.config.name.clone())),
            dev => self.gateways(request, dev),
        }
    }

    fn gateways(&self, request: &RouteRequest, dev: Option<&Attached>) -> Result<RouteTarget, Error> {
        if request.via.len() > GATEWAYS_MAX {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("a route has at most {GATEWAYS_MAX} gateways"),
            ));
        }
        let hops = request.via.iter().map(|gateway| self.hop(request.to, *gateway, dev));
        Ok(RouteTarget::Via(hops.collect::<Result<_, _>>()?))
    }

    fn hop(&self, to: IpNet, gateway: IpAddr, dev: Option<&Attached>) -> Result<config::NextHop, Error> {
        let invalid = |text: String| Err(Error::new(ErrorKind::Invalid, text));
        if gateway.is_ipv4() != to.addr().is_ipv4() {
            return invalid(format!("the gateway {gateway} is not of the family of {to}"));
        }
        if self.tables.is_ours(gateway) {
            return invalid(format!("{gateway} is an address of this host"));
        }
        let interface = if is_link_local(gateway) { dev } else { self.link_of(gateway, dev) };
        match interface {
            Some(interface) => Ok(config::NextHop { gateway, interface: interface.config.name.clone() }),
            None if is_link_local(gateway) => {
                invalid(format!("the link-local gateway {gateway} needs its interface"))
            }
            None => invalid(format!("the gateway {gateway} is not on the link of any interface")),
        }
    }

    /// The interface with the longest prefix around an address.
    pub(super) fn link_of<'c>(&'c self, address: IpAddr, dev: Option<&'c Attached>) -> Option<&'c Attached> {
        let candidates = dev.map_or(self.attached.as_slice(), core::slice::from_ref).iter();
        let prefixes = candidates.flat_map(|i| i.addresses().into_iter().map(move |own| (i, own)));
        let on_link = prefixes.filter(|(_, own)| own.covers(address) && !is_link_local(own.addr));
        on_link.max_by_key(|(_, own)| own.prefix_len).map(|(interface, _)| interface)
    }
}

fn remove_gateway(route: &mut config::Route, via: IpAddr) -> Result<(), Error> {
    let RouteTarget::Via(hops) = &mut route.target else {
        return Err(no_route(format!("the route to {} has no gateway", route.to)));
    };
    let before = hops.len();
    hops.retain(|hop| hop.gateway != via);
    if hops.len() == before {
        return Err(no_route(format!("the route to {} does not lead over {via}", route.to)));
    }
    Ok(())
}

fn no_route(text: String) -> Error {
    Error::new(ErrorKind::NotFound, text)
}

fn static_route(route: &config::Route) -> Route {
    let on_link = |name: &String| vec![NextHop { gateway: None, interface: name.clone() }];
    let (action, next_hops) = match &route.target {
        RouteTarget::Via(hops) => {
            let hops = hops.iter();
            let hop = |hop: &config::NextHop| NextHop {
                gateway: Some(hop.gateway),
                interface: hop.interface.clone(),
            };
            (RouteAction::Forward, hops.map(hop).collect())
        }
        RouteTarget::Dev(name) => (RouteAction::Forward, on_link(name)),
        RouteTarget::Reject => (RouteAction::Reject, Vec::new()),
        RouteTarget::Blackhole => (RouteAction::Blackhole, Vec::new()),
    };
    Route { to: route.to, action, next_hops, origin: RouteOrigin::Static, expires_s: None }
}

/// The prefix of an address; an address whose prefix is itself alone has no other neighbours.
fn on_link(own: IfAddr, interface: &Attached) -> Option<Route> {
    let prefix = IpNet::new(own.addr, own.prefix_len).ok()?.trunc();
    (prefix.prefix_len() < prefix.max_prefix_len())
        .then(|| connected(prefix, RouteAction::Forward, interface))
}

/// The address itself.
fn local(own: IfAddr, interface: &Attached) -> Option<Route> {
    Some(connected(IpNet::from(own.addr), RouteAction::Local, interface))
}

fn connected(to: IpNet, action: RouteAction, interface: &Attached) -> Route {
    let hop = NextHop { gateway: None, interface: interface.config.name.clone() };
    Route { to, action, next_hops: vec![hop], origin: RouteOrigin::Connected, expires_s: None }
}
