//! DHCPv6 servers of interfaces. Prefixes that they delegate are routed to the routers that have them, and are on disk before they are
//! given.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::path::PathBuf;

use ipnet::{IpNet, Ipv6Net};
use net::dhcp::{Arrived, Outgoing};
use net::fib::FibIndex;
use net::tables::IfIndex;
use wire::dhcp6::{Relayed, SERVER};

use super::control::Control;
use super::dhcp6_clients::{link_local, now};
use super::log;
use super::tables::Attached;
use crate::api::{
    Dhcp6Counters, Dhcp6Delegation, Dhcp6Server as Shown, RouteEdit, RouteMetrics, RouteRequest,
};
use crate::config::{Delegate, Dhcp6Client, Resolver};
use crate::dhcp::file;
use crate::dhcp6::delegation::{self, Delegations};
use crate::dhcp6::lease::{Entry, SEARCH_MAX, SERVERS_MAX, hex, names};
use crate::dhcp6::server::{Counts, Server};

/// The server of an interface.
pub(super) struct Running {
    pub(super) interface: String,
    pub(super) index: IfIndex,
    server: Server,
    /// Where delegations are kept.
    path: Option<PathBuf>,
    /// Whether they could not be written the last time.
    is_failing: bool,
    /// Routes of delegated prefixes, in their routing table.
    routes: Vec<(FibIndex, Way)>,
}

/// A route of a delegated prefix: to its router, or nowhere for all of a network that is not delegated.
type Way = (Ipv6Net, Option<Ipv6Addr>);

impl Running {
    fn new(interface: &str, index: IfIndex, server: Server) -> Self {
        let (path, is_failing, routes) = (None, false, Vec::new());
        Self { interface: interface.to_owned(), index, server, path, is_failing, routes }
    }

    /// Writes the delegations to disk; answers whether they are there.
    fn keeps(&mut self) -> bool {
        let (Some(path), Some(all)) = (&self.path, &self.server.delegations) else { return true };
        let written = file::replace(path, &all.write());
        if let Err(why) = &written
            && !self.is_failing
        {
            let (interface, path) = (&self.interface, path.display());
            log::warning(&format!("interface {interface}: no prefixes are delegated: {path}: {why}"));
        }
        self.is_failing = written.is_err();
        !self.is_failing
    }

    /// Routes that are wanted now.
    fn ways(&self, net: Option<Ipv6Net>) -> Vec<Way> {
        let Some(all) = &self.server.delegations else { return Vec::new() };
        let at = now();
        let of = |own| all.parts(own, at).into_iter().map(move |part| (part.net, Some(own.router)));
        // What is not delegated does not go back to where it comes from.
        net.map(|net| (net, None)).into_iter().chain(all.all().iter().flat_map(of)).collect()
    }
}

impl Control {
    /// Begins and ends servers as the configuration in force has them, and has them tell what providers say now.
    pub(super) fn settle_dhcp6_servers(&mut self) {
        let mut before = core::mem::take(&mut self.dhcp6.servers);
        let wanted = self.attached.iter().filter_map(|own| {
            let config = own.config.dhcp6_server.clone()?;
            Some((own.config.name.clone(), own.index, own.facts.mac.octets(), config))
        });
        for (interface, index, mac, config) in wanted.collect::<Vec<_>>() {
            let kept = before.iter().position(|own| own.interface == interface);
            let mut running = kept.map(|at| before.swap_remove(at)).unwrap_or_else(|| {
                log::info(&format!("interface {interface}: DHCPv6 server"));
                let beside = Dhcp6Client::default().path(&interface);
                Running::new(&interface, index, Server::new(self.duid(&beside, mac), now()))
            });
            running.index = index;
            let learnt = config.dns_from.as_deref().map(|from| self.dhcp6.resolver(from)).unwrap_or_default();
            running.server.tell(with(&config.resolver, learnt), config.refresh_s);
            self.settle_delegations(&mut running, config.delegate.as_ref());
            self.dhcp6.servers.push(running);
        }
        for mut gone in before {
            gone.server.delegations = None;
            self.lead_delegated(&mut gone);
        }
    }

    /// Delegates what the configuration, and the provider, have now.
    fn settle_delegations(&mut self, own: &mut Running, config: Option<&Delegate>) {
        let path = config.map(|config| config.path(&own.interface));
        if own.path != path {
            own.server.delegations = None;
            own.path = path;
        }
        if let (Some(config), Some(path)) = (config, &own.path) {
            let all = own.server.delegations.get_or_insert_with(|| {
                let text = std::fs::read_to_string(path).ok();
                let known = text.and_then(|text| delegation::read(&text, config.terms.len));
                Delegations::new(config.terms, known.unwrap_or_default())
            });
            let always = |net| Entry { net, preferred: u64::MAX, valid: u64::MAX };
            let learnt = config.from.as_deref().map(|from| self.dhcp6.delegated(from)).unwrap_or_default();
            let sources = config.net.map(always).into_iter().chain(learnt).collect();
            let addresses = self.attached.iter().flat_map(on_link);
            let links = addresses.filter_map(|net| match net {
                IpNet::V6(net) => Some(net.trunc()),
                IpNet::V4(_) => None,
            });
            all.settle(config.terms, sources, links.collect());
            all.expire(now());
        }
        self.lead_delegated(own);
    }

    /// Brings the routes of delegated prefixes in force.
    //= https://www.rfc-editor.org/rfc/rfc8415#section-6.3
    fn lead_delegated(&mut self, own: &mut Running) {
        let interface = self.attached.iter().find(|other| other.config.name == own.interface);
        let fib = interface.map_or(0, |interface| interface.config.fib);
        let delegate =
            interface.and_then(|interface| interface.config.dhcp6_server.as_ref()?.delegate.as_ref());
        let nets: Vec<IpNet> = interface.map(on_link).unwrap_or_default();
        // What is behind a relay elsewhere is routed by the administrator, as the way to the relay is.
        let is_near = |router: Ipv6Addr| {
            router.is_unicast_link_local() || nets.iter().any(|net| net.contains(&IpAddr::V6(router)))
        };
        let ways = own.ways(delegate.and_then(|config| config.net)).into_iter();
        let wanted: Vec<_> =
            ways.filter(|(_, router)| router.is_none_or(is_near)).map(|way| (fib, way)).collect();
        let before = core::mem::replace(&mut own.routes, wanted.clone());
        let gone = before.iter().filter(|way| !wanted.contains(way));
        let gone =
            gone.map(|(fib, (net, _))| RouteEdit::Delete { fib: *fib, to: IpNet::V6(*net), via: None });
        let come = wanted.iter().filter(|way| !before.contains(way)).map(|(fib, (net, router))| {
            RouteEdit::Add(RouteRequest {
                fib: *fib,
                to: IpNet::V6(*net),
                via: router.map(IpAddr::V6).into_iter().collect(),
                dev: router.map(|_| own.interface.clone()),
                reject: router.is_none(),
                blackhole: false,
                metrics: RouteMetrics::default(),
            })
        });
        let edits: Vec<RouteEdit> = gone.chain(come).collect();
        if !edits.is_empty() {
            self.lead_nowhere(edits, &own.interface);
        }
    }

    pub(super) fn dhcp6_server_arrived(&mut self, arrived: &Arrived) {
        if self.relayed6(arrived) {
            return;
        }
        let ours = match arrived.to.ip() {
            IpAddr::V6(to) if !to.is_multicast() => Some(IpAddr::V6(to)),
            _ => self.interface_by_index(arrived.ifindex).and_then(link_local),
        };
        let Some(at) = self.dhcp6.servers.iter().position(|own| own.index == arrived.ifindex) else { return };
        let (IpAddr::V6(from), Some(ours)) = (arrived.from.ip(), ours) else { return };
        let mut own = self.dhcp6.servers.swap_remove(at);
        let before = own.server.delegations.clone();
        let message = own.server.handle(&arrived.message, from, now());
        let all = |of: &Option<Delegations>| of.as_ref().map(|of| of.all().to_vec());
        let is_changed = all(&before) != all(&own.server.delegations);
        if is_changed && !own.keeps() {
            // No router has what would be forgotten.
            own.server.delegations = before;
            own.server.counts.not_written += 1;
        } else if let Some(message) = message {
            if is_changed {
                self.lead_delegated(&mut own);
                self.dhcp.changed.notify_one();
            }
            //= https://www.rfc-editor.org/rfc/rfc8415#section-7.2
            let is_relayed = Relayed::parse(&arrived.message).is_ok();
            let to = if is_relayed { SocketAddr::new(arrived.from.ip(), SERVER) } else { arrived.from };
            let from = SocketAddr::new(ours, SERVER);
            self.send_dhcp(vec![Outgoing { ifindex: arrived.ifindex, from, to, mac: None, message }]);
        }
        self.dhcp6.servers.push(own);
    }

    /// Ends delegations whose time is over.
    pub(super) fn run_dhcp6_servers(&mut self) {
        let mut all = core::mem::take(&mut self.dhcp6.servers);
        for own in &mut all {
            if own.server.delegations.as_mut().is_some_and(|all| all.expire(now())) {
                // Those that have ended are no loss.
                own.keeps();
                self.lead_delegated(own);
            }
        }
        self.dhcp6.servers = all;
    }

    /// When the next delegation ends.
    pub(super) fn next_of_dhcp6_servers(&self) -> Option<Duration> {
        let next = self.dhcp6.servers.iter().filter_map(|own| own.server.delegations.as_ref()?.next()).min();
        next.map(|at| Duration::from_millis(at.saturating_sub(now())))
    }

    /// The servers, as the admin API shows them.
    pub(super) fn list_dhcp6_servers(&self) -> Vec<Shown> {
        self.dhcp6.servers.iter().map(shown).collect()
    }
}

/// The networks of an interface.
fn on_link(interface: &Attached) -> Vec<IpNet> {
    let leased = interface.config.leased.iter().map(|leased| leased.net);
    interface.config.addresses.iter().copied().chain(leased).collect()
}

fn shown(own: &Running) -> Shown {
    let Counts { received, replies, malformed, ignored, limited, exhausted, not_written } = own.server.counts;
    let at = now();
    let all = own.server.delegations.iter().flat_map(|all| all.all().iter().map(move |own| (all, own)));
    let delegations = all.map(|(all, own)| Dhcp6Delegation {
        duid: hex(&own.duid),
        iaid: own.iaid,
        router: own.router,
        prefixes: all.parts(own, at).into_iter().map(|part| part.net).collect(),
        expires_s: own.expires.saturating_sub(at) / 1000,
    });
    Shown {
        interface: own.interface.clone(),
        dns: own.server.told.dns.clone(),
        search: names(&own.server.told.search),
        sntp: own.server.told.sntp.clone(),
        delegations: delegations.collect(),
        counters: Dhcp6Counters { received, replies, malformed, ignored, limited, exhausted, not_written },
    }
}

/// Appends what the provider says to what is configured, as far as there is room.
fn with(own: &Resolver, learnt: Resolver) -> Resolver {
    let mut told = own.clone();
    told.dns.extend(learnt.dns);
    told.sntp.extend(learnt.sntp);
    if told.search.len() + learnt.search.len() <= SEARCH_MAX {
        told.search.extend(learnt.search);
    }
    told.dns.truncate(SERVERS_MAX);
    told.sntp.truncate(SERVERS_MAX);
    told
}
