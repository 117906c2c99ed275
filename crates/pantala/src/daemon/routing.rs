//! The routes: those that were configured or made by hand, those that follow from addresses, and the tables in
//! which the netisrs find what is in force.

use core::ops::Bound;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ipnet::IpNet;
use net::fib::{Bounds, Change, Epoch, FibIndex, Hop, Metrics, Origin, Prefix, Refused, Rib, To};
use net::tables::{Ifnet, derived};

use super::tables::{Attached, up};
use crate::config::{Route, RouteTarget};

/// All routes of the stack. The control thread has them.
pub(crate) struct Routing {
    pub(crate) rib: Rib,
    /// Whether the routes that follow from addresses are in all tables.
    addr_all_fibs: bool,
    /// Configured and manual routes, by table and destination.
    statics: Statics,
    /// Where ways lead with the interfaces that are up: nowhere, if none of theirs is. Many routes share few ways.
    by_route: HashMap<Arc<StaticRoute>, Vec<Hop>>,
    /// Connected routes: they follow from the addresses of interfaces that are up.
    derived: Derived,
}

/// The table and the destination of a route.
pub(crate) type RouteKey = (FibIndex, IpNet);

/// Static routes, by table and destination.
pub(crate) type Statics = BTreeMap<RouteKey, Arc<StaticRoute>>;

/// Routes that follow from addresses: by table, destination and origin, where they lead.
type Derived = BTreeMap<(FibIndex, Prefix, Origin), [Hop; 1]>;

/// A static route: target and metrics.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct StaticRoute {
    pub(crate) target: RouteTarget,
    pub(crate) metrics: Metrics,
}

/// Changes of the table. [`Routing::prepare`] makes it of a request.
#[derive(Default)]
pub(crate) struct Edits {
    list: Vec<(FibIndex, Prefix, Origin, Arc<[Hop]>)>,
}

/// Tells whether a static route of a table that is no default route leads all of a prefix to something else than this interface, or
/// would if its interface were up.
pub(crate) fn is_led_elsewhere(statics: &Statics, fib: FibIndex, prefix: Prefix, interface: &str) -> bool {
    let around = (1..=prefix.prefix_len()).filter_map(|len| IpNet::new(prefix.addr(), len).ok());
    let mut by_route = around.filter_map(|net| statics.get(&(fib, net.trunc())));
    by_route.any(|route| route.leads_elsewhere(interface))
}

impl Routing {
    /// Makes `count` tables without routes, with room for a full table of the Internet in each.
    pub(crate) fn new(fibs: FibIndex, addr_all_fibs: bool) -> std::io::Result<Self> {
        let rib = Rib::with_tables(Bounds::INTERNET, fibs)?;
        Ok(Self {
            rib,
            addr_all_fibs,
            statics: BTreeMap::new(),
            by_route: HashMap::new(),
            derived: BTreeMap::new(),
        })
    }

    /// Returns the static routes without `gone` and with `new`, as another configuration has them.
    pub(crate) fn statics_of(&self, (gone, new): (&[Route], &[Route])) -> Statics {
        let mut statics = self.statics.clone();
        gone.iter().for_each(|route| drop(statics.remove(&(route.fib, route.to))));
        statics.extend(new.iter().map(|route| ((route.fib, route.to), Arc::new(StaticRoute::of(route)))));
        statics
    }

    /// Returns the routes as another configuration has them, in a table of their own that no CPU reads yet, and those that it
    /// refused. `None` if they stay as they are.
    pub(crate) fn next(
        &self,
        attached: &[Attached],
        ifs: &[Ifnet],
        statics: Statics,
    ) -> std::io::Result<Option<(Self, Vec<Refused>)>> {
        let is_same_way = |(route, hops): (&Arc<StaticRoute>, &Vec<Hop>)| route.hops(attached) == *hops;
        let is_same = statics == self.statics && self.by_route.iter().all(is_same_way);
        if is_same && self.of_addresses(ifs) == self.derived {
            return Ok(None);
        }
        let (mut next, mut edits) = (Self::new(self.rib.tables(), self.addr_all_fibs)?, Edits::default());
        for (key, route) in statics {
            next.set(key, Some((*route).clone()), attached, &mut edits);
        }
        next.addresses_changed(ifs, &mut edits);
        let refused = next.rib.load(&edits.changes());
        refused.iter().for_each(|refused| next.refuse(refused));
        Ok(Some((next, refused)))
    }

    /// Gives a table that no CPU reads yet further routes; those that it refuses are not in it.
    pub(crate) fn load(&mut self, edits: &Edits) {
        let _ = self.rib.load(&edits.changes());
    }

    /// Where a static route leads.
    pub(crate) fn get(&self, key: RouteKey) -> Option<&StaticRoute> {
        self.statics.get(&key).map(|route| &**route)
    }

    /// The static routes of a table to prefixes behind `after`, in their order.
    pub(crate) fn after(
        &self,
        fib: FibIndex,
        after: Option<IpNet>,
    ) -> impl Iterator<Item = (IpNet, &StaticRoute)> {
        // The default route of IPv4 is the least of all.
        let first = Bound::Included((fib, IpNet::default()));
        let begin = after.map_or(first, |after| Bound::Excluded((fib, after)));
        let behind = self.statics.range((begin, Bound::Unbounded));
        behind.take_while(move |((of, _), _)| *of == fib).map(|((_, to), route)| (*to, &**route))
    }

    /// Returns the static routes.
    pub(crate) const fn statics(&self) -> &Statics {
        &self.statics
    }

    /// Makes a static route, or leads it elsewhere; or ends it.
    pub(crate) fn set(
        &mut self,
        (fib, to): RouteKey,
        route: Option<StaticRoute>,
        attached: &[Attached],
        edits: &mut Edits,
    ) {
        let route = route.map(|route| self.intern(route, attached));
        let hops = route.as_ref().and_then(|route| self.by_route.get(route)).cloned().unwrap_or_default();
        let before = match route {
            Some(route) => self.statics.insert((fib, to), route),
            None => self.statics.remove(&(fib, to)),
        };
        let was_in_force =
            before.as_ref().and_then(|route| self.by_route.get(route)).is_some_and(|hops| !hops.is_empty());
        if let Some(prefix) = prefix(to).filter(|_| was_in_force || !hops.is_empty()) {
            edits.list.push((fib, prefix, Origin::Static, hops.into()));
        }
        before.into_iter().for_each(|route| self.forget(&route));
    }

    /// Takes a route that the table refused out again.
    pub(crate) fn refuse(&mut self, refused: &Refused) {
        let net = IpNet::new(refused.to.addr(), refused.to.prefix_len()).ok();
        let route = net
            .filter(|_| refused.origin == Origin::Static)
            .and_then(|net| self.statics.remove(&(refused.fib, net)));
        route.into_iter().for_each(|route| self.forget(&route));
    }

    fn intern(&mut self, route: StaticRoute, attached: &[Attached]) -> Arc<StaticRoute> {
        if let Some((known, _)) = self.by_route.get_key_value(&route) {
            return Arc::clone(known);
        }
        let (route, hops) = (Arc::new(route.clone()), route.hops(attached));
        self.by_route.insert(Arc::clone(&route), hops);
        route
    }

    /// The way goes with its last route.
    fn forget(&mut self, route: &Arc<StaticRoute>) {
        const HERE_AND_AMONG_THE_WAYS: usize = 2;
        if Arc::strong_count(route) <= HERE_AND_AMONG_THE_WAYS {
            self.by_route.remove(route);
        }
    }

    /// Works out what follows from interfaces that came, went or changed.
    pub(crate) fn interfaces_changed(&mut self, attached: &[Attached], ifs: &[Ifnet], edits: &mut Edits) {
        self.addresses_changed(ifs, edits);
        let mut changed = Vec::new();
        for (route, hops) in &mut self.by_route {
            let new = route.hops(attached);
            if *hops != new {
                *hops = new;
                changed.push(Arc::clone(route));
            }
        }
        if changed.is_empty() {
            return;
        }
        for ((fib, to), route) in self.statics.iter().filter(|(_, route)| changed.contains(route)) {
            let hops = self.by_route.get(route).cloned().unwrap_or_default();
            edits.list.extend(prefix(*to).map(|prefix| (*fib, prefix, Origin::Static, hops.into())));
        }
    }

    fn addresses_changed(&mut self, ifs: &[Ifnet], edits: &mut Edits) {
        let new = self.of_addresses(ifs);
        let gone = self.derived.keys().filter(|key| !new.contains_key(key));
        edits.list.extend(gone.map(|(fib, to, origin)| (*fib, *to, *origin, Arc::default())));
        let differs =
            |(key, hop): &(&(FibIndex, Prefix, Origin), &[Hop; 1])| self.derived.get(key) != Some(hop);
        let came = new.iter().filter(differs);
        edits.list.extend(came.map(|((fib, to, origin), hop)| (*fib, *to, *origin, Arc::from(*hop))));
        self.derived = new;
    }

    fn of_addresses(&self, ifs: &[Ifnet]) -> Derived {
        let all = self.addr_all_fibs.then_some(self.rib.tables());
        derived(ifs, all).into_iter().map(|own| ((own.fib, own.to, own.origin), own.hop)).collect()
    }

    /// First phase of a change: whether there are new hops, which all CPUs must know before the second.
    pub(crate) fn prepare(&mut self, edits: &Edits) -> (bool, Vec<Refused>) {
        let prepared = self.rib.prepare(&edits.changes());
        (prepared.hops.is_some(), prepared.refused)
    }

    /// Second phase: the table changes.
    pub(crate) fn commit(&mut self) -> (Epoch, Vec<Refused>) {
        let committed = self.rib.commit();
        // To end what never was in force is what was wanted.
        let refused = committed.refused.into_iter().filter(|no| no.error != net::fib::Error::NoSuchRoute);
        (committed.epoch, refused.collect())
    }
}

impl Edits {
    /// Adds a change: where a route leads from now on, or that it ends.
    pub(crate) fn push(&mut self, fib: FibIndex, to: Prefix, origin: Origin, hops: &Arc<[Hop]>) {
        self.list.push((fib, to, origin, Arc::clone(hops)));
    }

    /// Tables and destinations of the changes.
    pub(crate) fn destinations(&self) -> impl Iterator<Item = (FibIndex, Prefix)> + '_ {
        self.list.iter().map(|(fib, to, ..)| (*fib, *to))
    }

    /// Changes in it.
    pub(crate) const fn len(&self) -> usize {
        self.list.len()
    }

    fn changes(&self) -> Vec<Change<'_>> {
        let list = self.list.iter();
        list.map(|(fib, to, origin, hops)| Change { fib: *fib, to: *to, origin: *origin, hops }).collect()
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl StaticRoute {
    /// Makes it from a line of the configuration.
    pub(crate) fn of(route: &Route) -> Self {
        Self { target: route.target.clone(), metrics: route.metrics }
    }

    /// Whether any of it leads to something else than this interface.
    fn leads_elsewhere(&self, interface: &str) -> bool {
        match &self.target {
            RouteTarget::Via(hops) => hops.iter().any(|next| next.interface != interface),
            RouteTarget::Dev(name) => name != interface,
            RouteTarget::Reject | RouteTarget::Blackhole => true,
        }
    }

    /// The line of a configuration that says this.
    pub(crate) fn to(&self, (fib, to): RouteKey) -> Route {
        Route { fib, to, target: self.target.clone(), metrics: self.metrics }
    }

    /// Where this leads with the interfaces that are up.
    fn hops(&self, attached: &[Attached]) -> Vec<Hop> {
        let hop = |to| Hop { to, metrics: self.metrics };
        match &self.target {
            RouteTarget::Via(hops) => {
                let usable =
                    hops.iter().filter_map(|next| Some((up(&next.interface, attached)?, next.gateway)));
                usable.map(|(ifindex, via)| hop(To::Gateway { ifindex, via })).collect()
            }
            RouteTarget::Dev(name) => {
                up(name, attached).map(|ifindex| hop(To::OnLink { ifindex })).into_iter().collect()
            }
            RouteTarget::Reject => vec![hop(To::Reject)],
            RouteTarget::Blackhole => vec![hop(To::Blackhole)],
        }
    }
}

/// A destination as the table has it.
pub(crate) fn prefix(net: IpNet) -> Option<Prefix> {
    Prefix::new(net.addr(), net.prefix_len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_a_table_begins_behind_the_last_and_ends_with_the_table() {
        let mut routing = Routing::new(3, false).unwrap();
        let nets =
            ["0.0.0.0/0", "10.0.0.0/8", "::/0", "2001:db8::/32"].map(|net| net.parse::<IpNet>().unwrap());
        for fib in 0..3 {
            for to in nets {
                let route = StaticRoute { target: RouteTarget::Blackhole, metrics: Default::default() };
                routing.set((fib, to), Some(route), &[], &mut Edits::default());
            }
        }
        let page = |after| routing.after(1, after).map(|(to, _)| to).collect::<Vec<_>>();
        assert_eq!(page(None), nets);
        for (at, to) in nets.iter().enumerate() {
            assert_eq!(page(Some(*to)), nets[at + 1..]);
        }
    }
}
