//! `route`.

mod shown;

use core::net::IpAddr;
use core::ops::RangeInclusive;
use std::collections::HashMap;

use ipnet::IpNet;
use net::fib::{self, FibIndex, MEMBERS_MAX, Metrics};

use super::super::control::Control;
use super::super::routing::{Edits, RouteKey, StaticRoute};
use super::super::tables::{Attached, is_link_local, is_usable};
use crate::api::{Error, ErrorKind, Family, RouteEdit, RouteMetrics, RouteRequest};
use crate::config::{self, RouteTarget, limits};

impl Control {
    pub(in super::super) fn change_routes(
        &mut self,
        edits: &[RouteEdit],
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let mut changes = Edits::default();
        let mut answers: Vec<_> = edits.iter().map(|edit| self.change_route(edit, &mut changes)).collect();
        let refused: HashMap<RouteKey, fib::Error> =
            self.publish_routes(&changes)?.iter().filter_map(net_of).collect();
        for (answer, edit) in answers.iter_mut().zip(edits).filter(|_| !refused.is_empty()) {
            if let (Ok(()), Some(why)) = (&answer, refused.get(&destination(edit))) {
                *answer =
                    Err(Error::new(ErrorKind::Busy, format!("route to {}: {why}", destination(edit).1)));
            }
        }
        Ok(answers)
    }

    fn change_route(&mut self, edit: &RouteEdit, changes: &mut Edits) -> Result<(), Error> {
        let to = destination(edit);
        self.check_fib(to.0)?;
        let route = match edit {
            RouteEdit::Add(request) => Some(self.new_way(to, request)?),
            RouteEdit::Change(request) => Some(self.changed_way(to, request)?),
            RouteEdit::Delete { via, .. } => self.way_without(to, *via)?,
        };
        self.routing.set(to, route, &self.attached, changes);
        Ok(())
    }

    /// Checks that a routing table exists.
    pub(in super::super) fn check_fib(&self, fib: FibIndex) -> Result<(), Error> {
        let fibs = self.routing.rib.tables();
        if fib < fibs {
            return Ok(());
        }
        let error = format!("there is no routing table {fib}: the last one is {}", fibs.saturating_sub(1));
        Err(Error::new(ErrorKind::NotFound, error)
            .hint("`fibs` in the configuration says how many there are"))
    }

    fn new_way(&self, to: RouteKey, request: &RouteRequest) -> Result<StaticRoute, Error> {
        if self.routing.get(to).is_some() || self.is_connected(to) {
            return Err(Error::new(ErrorKind::Exists, format!("there is a route to {} already", to.1))
                .hint("use `route change`, or delete it first"));
        }
        Ok(StaticRoute {
            target: self.target(request)?,
            metrics: metrics(&request.metrics, Metrics::default())?,
        })
    }

    fn changed_way(&self, to: RouteKey, request: &RouteRequest) -> Result<StaticRoute, Error> {
        let old = self.static_way(to)?;
        let is_led_elsewhere =
            !request.via.is_empty() || request.dev.is_some() || request.reject || request.blackhole;
        let target = if is_led_elsewhere { self.target(request)? } else { old.target.clone() };
        Ok(StaticRoute { target, metrics: metrics(&request.metrics, old.metrics)? })
    }

    fn way_without(&self, to: RouteKey, via: Option<IpAddr>) -> Result<Option<StaticRoute>, Error> {
        let mut route = self.static_way(to)?.clone();
        let Some(via) = via else { return Ok(None) };
        remove_gateway(to.1, &mut route.target, via)?;
        Ok(Some(route).filter(|route| route.target != RouteTarget::Via(Vec::new())))
    }

    fn static_way(&self, key: RouteKey) -> Result<&StaticRoute, Error> {
        let to = key.1;
        self.routing.get(key).ok_or_else(|| {
            if self.is_connected(key) {
                let error =
                    Error::new(ErrorKind::Invalid, format!("the route to {to} follows from an address"));
                error.hint("it goes with the address")
            } else {
                no_route(format!("there is no route to {to}"))
            }
        })
    }

    fn is_connected(&self, (fib, to): RouteKey) -> bool {
        let is_in = |interface: &&Attached| self.config.add_addr_all_fibs || interface.config.fib == fib;
        let up = self.attached.iter().filter(|interface| is_usable(interface, &self.attached)).filter(is_in);
        let mut own = up.flat_map(|interface| interface.addresses());
        own.any(|own| {
            let prefix = IpNet::new(own.addr, own.prefix_len).map(|net| net.trunc());
            prefix == Ok(to) || IpNet::from(own.addr) == to
        })
    }

    pub(super) fn remove_all_routes(&mut self, fib: FibIndex, family: Option<Family>) -> Result<u64, Error> {
        self.check_fib(fib)?;
        let wanted = |to: &IpNet| family.is_none_or(|family| family == Family::of(to.addr()));
        let gone: Vec<IpNet> = self.routing.after(fib, None).map(|(to, _)| to).filter(wanted).collect();
        let mut edits = Edits::default();
        for to in &gone {
            self.routing.set((fib, *to), None, &self.attached, &mut edits);
        }
        self.publish_routes(&edits)?;
        Ok(gone.len() as u64)
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
        if request.via.len() > MEMBERS_MAX {
            let text = format!("a route has at most {MEMBERS_MAX} gateways");
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        let hops = request.via.iter().map(|gateway| self.hop((request.fib, request.to), *gateway, dev));
        Ok(RouteTarget::Via(hops.collect::<Result<_, _>>()?))
    }

    fn hop(
        &self,
        (fib, to): RouteKey,
        gateway: IpAddr,
        dev: Option<&Attached>,
    ) -> Result<config::NextHop, Error> {
        let invalid = |text: String| Err(Error::new(ErrorKind::Invalid, text));
        if gateway.is_ipv4() != to.addr().is_ipv4() {
            return invalid(format!("the gateway {gateway} is not of the family of {to}"));
        }
        if self.tables.is_ours(gateway) {
            return invalid(format!("{gateway} is an address of this host"));
        }
        let interface = if is_link_local(gateway) { dev } else { self.link_of(fib, gateway, dev) };
        match interface {
            Some(interface) => Ok(config::NextHop { gateway, interface: interface.config.name.clone() }),
            None if is_link_local(gateway) => {
                invalid(format!("the link-local gateway {gateway} needs its interface"))
            }
            None => invalid(format!("the gateway {gateway} is not on the link of any interface")),
        }
    }

    /// The interface with the longest prefix around an address; of several, one of the table.
    pub(super) fn link_of<'c>(
        &'c self,
        fib: FibIndex,
        address: IpAddr,
        dev: Option<&'c Attached>,
    ) -> Option<&'c Attached> {
        let candidates = dev.map_or(self.attached.as_slice(), core::slice::from_ref).iter();
        let prefixes = candidates.flat_map(|i| i.addresses().into_iter().map(move |own| (i, own)));
        let on_link = prefixes.filter(|(_, own)| own.covers(address) && !is_link_local(own.addr));
        on_link
            .max_by_key(|(interface, own)| (interface.config.fib == fib, own.prefix_len))
            .map(|(interface, _)| interface)
    }
}

/// Returns the table and the destination of an edit.
fn destination(edit: &RouteEdit) -> RouteKey {
    match edit {
        RouteEdit::Add(route) | RouteEdit::Change(route) => (route.fib, route.to.trunc()),
        RouteEdit::Delete { fib, to, .. } => (*fib, to.trunc()),
    }
}

fn net_of(refused: &fib::Refused) -> Option<(RouteKey, fib::Error)> {
    let to = IpNet::new(refused.to.addr(), refused.to.prefix_len()).ok()?;
    Some(((refused.fib, to), refused.error))
}

/// The order of the table: IPv4 first, by address, then the shorter prefix.
fn order(net: IpNet) -> (IpAddr, u8) {
    (net.addr(), net.prefix_len())
}

/// Returns the metrics of a request over those before.
fn metrics(request: &RouteMetrics, before: Metrics) -> Result<Metrics, Error> {
    let check = |what, value: Option<u32>, range: RangeInclusive<u32>, before| match value {
        Some(value) if !range.contains(&value) => {
            let text = format!("{what} {value} is not between {} and {}", range.start(), range.end());
            Err(Error::new(ErrorKind::Invalid, text))
        }
        value => Ok(value.unwrap_or(before)),
    };
    let window = request.initial_window.map(u32::from);
    let window = check("initial window", window, limits::INITIAL_WINDOW, before.initial_window.into())?;
    Ok(Metrics {
        mtu: check("mtu", request.mtu, limits::MTU, before.mtu)?,
        msl_ms: check("msl", request.msl_ms, limits::MSL_MS, before.msl_ms)?,
        initial_window: u16::try_from(window).unwrap_or(u16::MAX),
    })
}

fn remove_gateway(to: IpNet, target: &mut RouteTarget, via: IpAddr) -> Result<(), Error> {
    let RouteTarget::Via(hops) = target else {
        return Err(no_route(format!("the route to {to} has no gateway")));
    };
    let before = hops.len();
    hops.retain(|hop| hop.gateway != via);
    if hops.len() == before {
        return Err(no_route(format!("the route to {to} does not lead over {via}")));
    }
    Ok(())
}

fn no_route(text: String) -> Error {
    Error::new(ErrorKind::NotFound, text)
}
