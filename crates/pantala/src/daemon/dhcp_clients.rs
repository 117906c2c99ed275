//! DHCP clients of interfaces: the address of a lease is one of the interface's, and its router the default route.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ipnet::{IpNet, Ipv4Net};
use net::dhcp::{Arrived, CLIENT, Outgoing};
use net::fib::FibIndex;
use net::tables::IfIndex;

use super::control::Control;
use super::reload::Scope;
use super::{entropy, log};
use crate::api::{AddressState, DhcpClient, RouteEdit, RouteMetrics, RouteRequest};
use crate::config::{Interface, Leased};
use crate::dhcp::client::{Act, Client, Lease, LeasedRoute, State};
use crate::dhcp::file;
use crate::dhcp::message::Message;

/// Time after which an address that is used by another host is known to be, milliseconds.
const VERIFY: u64 = 10_000;

/// The client of an interface.
pub(super) struct Running {
    pub(super) interface: String,
    pub(super) index: IfIndex,
    path: PathBuf,
    client: Client,
    /// The lease whose address the interface has.
    in_use: Option<Lease>,
    /// The routes that follow from it.
    routes: Vec<LeasedRoute>,
    /// When the address is looked at again.
    verify: Option<u64>,
    /// Whether the lease could not be written the last time.
    is_failing: bool,
}

/// A route of a lease, and the client's interface.
pub(super) type Led = (LeasedRoute, String, FibIndex);

impl Control {
    /// The address that an interface has leased.
    pub(super) fn leased_v4(&self, interface: &Interface) -> Option<Leased> {
        let own = self.dhcp.clients.iter().find(|own| own.interface == interface.name)?;
        let lease = own.in_use.as_ref().filter(|_| interface.dhcp.is_some())?;
        Some(Leased { net: IpNet::V4(lease.addr), until: None })
    }

    /// Begins and ends clients as the configuration in force has them.
    pub(super) fn settle_dhcp_clients(&mut self) {
        let mut before = core::mem::take(&mut self.dhcp.clients);
        for own in &self.attached {
            let Interface { name, dhcp: Some(config), .. } = &own.config else { continue };
            let path = config.path(name);
            if let Some(at) =
                before.iter().position(|client| client.interface == *name && client.path == path)
            {
                self.dhcp.clients.push(Running { index: own.index, ..before.swap_remove(at) });
                continue;
            }
            let known = std::fs::read_to_string(&path).ok().and_then(|text| read(&text));
            let seed = entropy::key().map_or(1, |key| u32::try_from(key & u128::from(u32::MAX)).unwrap_or(1));
            let client = Client::new(own.facts.mac, config.hostname.clone(), known, seed, now());
            log::info(&format!("interface {name}: DHCP client"));
            self.dhcp.clients.push(Running {
                interface: name.clone(),
                index: own.index,
                path,
                client,
                in_use: None,
                routes: Vec::new(),
                verify: None,
                is_failing: false,
            });
        }
        self.lead();
        self.dhcp.changed.notify_one();
    }

    pub(super) fn dhcp_client_arrived(&mut self, arrived: &Arrived) {
        let Some(own) = self.dhcp.clients.iter_mut().find(|own| own.index == arrived.ifindex) else { return };
        let Ok((message, kind)) = Message::parse(&arrived.message) else {
            own.client.counts.ignored += 1;
            return;
        };
        let (name, acts) = (own.interface.clone(), own.client.arrived(&message, kind, now()));
        self.perform_for_client(&name, acts);
    }

    /// Does what is due for clients.
    pub(super) fn run_dhcp_clients(&mut self) {
        let names: Vec<String> = self.dhcp.clients.iter().map(|own| own.interface.clone()).collect();
        for name in names {
            self.verify_leased(&name);
            let Some(own) = self.dhcp.clients.iter_mut().find(|own| own.interface == name) else { continue };
            let acts = own.client.due(now());
            self.perform_for_client(&name, acts);
        }
    }

    /// When something is due for a client.
    pub(super) fn next_of_dhcp_clients(&self) -> Option<core::time::Duration> {
        let times = self.dhcp.clients.iter().map(|own| own.client.at.min(own.verify.unwrap_or(u64::MAX)));
        times.min().map(|at| core::time::Duration::from_millis(at.saturating_sub(now())))
    }

    /// Declines an address that another host has turned out to use.
    fn verify_leased(&mut self, name: &str) {
        let Some(own) = self.dhcp.clients.iter_mut().find(|own| own.interface == name) else { return };
        if own.verify.is_none_or(|at| at > now()) {
            return;
        }
        own.verify = None;
        let Some(addr) = own.in_use.as_ref().map(|lease| IpAddr::V4(lease.addr.addr())) else { return };
        let interfaces = crate::api::stack::Stack::interfaces(self).unwrap_or_default();
        let addresses = interfaces.iter().filter(|own| own.name == name).flat_map(|own| &own.addresses);
        let is_duplicate =
            |own: &crate::api::Address| own.address == addr && own.state == AddressState::Duplicated;
        if !addresses.into_iter().any(is_duplicate) {
            return;
        }
        log::warning(&format!("interface {name}: another host uses {addr}: declined"));
        let own = self.dhcp.clients.iter_mut().find(|own| own.interface == name);
        let acts = own.map(|own| own.client.conflict(now())).unwrap_or_default();
        self.perform_for_client(name, acts);
    }

    fn perform_for_client(&mut self, name: &str, acts: Vec<Act>) {
        for act in acts {
            let Some(own) = self.dhcp.clients.iter_mut().find(|own| own.interface == name) else { return };
            match act {
                Act::Send { from, to, message } => {
                    let from = SocketAddr::new(from.into(), CLIENT);
                    let (to, message) = (to.into(), message.to_bytes());
                    let outgoing = Outgoing { ifindex: own.index, from, to, mac: None, message };
                    self.send_dhcp(vec![outgoing]);
                }
                Act::Use(lease) => {
                    if let Err(why) = write(&own.path, &lease)
                        && !core::mem::replace(&mut own.is_failing, true)
                    {
                        log::warning(&format!(
                            "interface {name}: the lease will not be known after a restart: {}: {why}",
                            own.path.display()
                        ));
                    }
                    self.use_lease(name, Some(lease));
                }
                Act::Leave => self.use_lease(name, None),
            }
        }
    }

    /// Gives the interface the address of a lease, and none of another, and the default route.
    fn use_lease(&mut self, name: &str, lease: Option<Lease>) {
        let Some(own) = self.dhcp.clients.iter_mut().find(|own| own.interface == name) else { return };
        let addr = |lease: &Option<Lease>| lease.as_ref().map(|lease| lease.addr);
        let before = addr(&own.in_use);
        let is_new = before != addr(&lease);
        let next = lease.as_ref().map(Lease::routes).unwrap_or_default();
        own.in_use = lease;
        own.verify = own.in_use.as_ref().filter(|_| is_new).map(|_| now() + VERIFY);
        let now_has = addr(&own.in_use);
        if is_new {
            match now_has {
                Some(net) => log::info(&format!("interface {name}: {net} leased")),
                None => log::warning(&format!("interface {name}: the lease has ended")),
            }
            own.routes.clear();
            self.lead();
            if let Err(failure) = self.go_over(self.config.clone(), Scope::Interfaces) {
                log::error(&format!("interface {name}: {}", failure.told().error));
            }
        }
        if let Some(own) = self.dhcp.clients.iter_mut().find(|own| own.interface == name) {
            own.routes = next;
        }
        self.lead();
        self.tell_name_servers();
    }

    /// The name servers of the lease of an interface.
    pub(super) fn leased_name_servers(&self, interface: &str) -> Vec<Ipv4Addr> {
        let own = self.dhcp.clients.iter().find(|own| own.interface == interface);
        own.and_then(|own| own.in_use.as_ref()).map(|lease| lease.dns.clone()).unwrap_or_default()
    }

    /// Brings the routes of leases and sessions in force: of several to one destination, that of the interface with the least
    /// metric.
    pub(super) fn lead(&mut self) {
        let metric = |interface: &str| {
            let attached = self.attached.iter().find(|attached| attached.config.name == interface);
            attached.map_or(u32::MAX, |attached| attached.config.metric)
        };
        let fib = |interface: &str| {
            let attached = self.attached.iter().find(|attached| attached.config.name == interface);
            attached.map_or(0, |attached| attached.config.fib)
        };
        let leases = self.dhcp.clients.iter().map(|own| (own.interface.clone(), own.routes.clone()));
        let mut clients: Vec<_> = leases.chain(self.pppoe.routes(&self.attached)).collect();
        clients.sort_by_key(|(interface, _)| metric(interface));
        let mut next: Vec<Led> = Vec::new();
        for (interface, routes) in clients {
            for route in routes {
                let fib = fib(&interface);
                if next.iter().all(|(led, _, of)| (led.0, *of) != (route.0, fib)) {
                    next.push((route, interface.clone(), fib));
                }
            }
        }
        let before = core::mem::replace(&mut self.dhcp.led, next.clone());
        let gone = before.iter().filter(|led| !next.contains(led));
        let gone = gone.map(|((net, via), _, fib)| {
            let (to, via) = (IpNet::V4(*net), via.map(Into::into));
            RouteEdit::Delete { fib: *fib, to, via }
        });
        let made = next.iter().filter(|led| !before.contains(led)).map(|((net, via), name, fib)| {
            RouteEdit::Add(RouteRequest {
                fib: *fib,
                to: IpNet::V4(*net),
                via: via.iter().map(|via| (*via).into()).collect(),
                dev: Some(name.clone()),
                reject: false,
                blackhole: false,
                metrics: RouteMetrics::default(),
            })
        });
        let edits: Vec<RouteEdit> = gone.chain(made).collect();
        if edits.is_empty() {
            return;
        }
        match self.change_routes(&edits) {
            Err(why) => log::error(&why.error),
            Ok(answers) => answers.iter().filter_map(|answer| answer.as_ref().err()).for_each(|why| {
                log::info(&format!("route of a lease: {}", why.error));
            }),
        }
    }

    /// The clients, as the admin API shows them.
    pub(super) fn list_dhcp_clients(&self) -> Vec<DhcpClient> {
        self.dhcp.clients.iter().map(shown).collect()
    }
}

fn shown(own: &Running) -> DhcpClient {
    let state = match own.client.state {
        State::Init => "init",
        State::Selecting => "selecting",
        State::Requesting { .. } => "requesting",
        State::Rebooting(_) => "rebooting",
        State::Bound(_) => "bound",
        State::Renewing(_) => "renewing",
        State::Rebinding(_) => "rebinding",
    };
    let (lease, counts) = (own.in_use.as_ref(), own.client.counts);
    DhcpClient {
        interface: own.interface.clone(),
        state: state.to_owned(),
        address: lease.map(|lease| lease.addr),
        server: lease.map(|lease| lease.server),
        routers: lease.map(|lease| lease.routers.clone()).unwrap_or_default(),
        dns: lease.map(|lease| lease.dns.clone()).unwrap_or_default(),
        domain: lease.and_then(|lease| lease.domain.clone()),
        renew_s: lease.map(|lease| lease.renew.saturating_sub(now()) / 1000),
        expires_s: lease.map(|lease| lease.expires.saturating_sub(now()) / 1000),
        sent: counts.sent,
        acks: counts.acks,
        naks: counts.naks,
        ignored: counts.ignored,
        conflicts: counts.conflicts,
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Writes a lease into a file of one line, which is replaced as a whole.
fn write(path: &Path, lease: &Lease) -> io::Result<()> {
    let list = |addrs: &[Ipv4Addr]| {
        let words: Vec<String> = addrs.iter().map(Ipv4Addr::to_string).collect();
        if words.is_empty() { "-".to_owned() } else { words.join(",") }
    };
    let Lease { addr, server, routers, routes, dns, domain, renew, rebind, expires } = lease;
    let domain = domain.as_deref().unwrap_or("-");
    let ways: Vec<String> = routes.iter().map(|(to, via)| format!("{to}>{via}")).collect();
    let ways = if ways.is_empty() { "-".to_owned() } else { ways.join(",") };
    let text = format!(
        "{addr} {server} {} {} {domain} {renew} {rebind} {expires} {ways}\n",
        list(routers),
        list(dns)
    );
    file::replace(path, &text)
}

/// Reads it. What a crash has left of a line is no lease.
fn read(text: &str) -> Option<Lease> {
    let words: Vec<&str> = text.strip_suffix('\n')?.split(' ').collect();
    let ([addr, server, routers, dns, domain, renew, rebind, expires], ways) = words.split_first_chunk()?;
    let list = |text: &str| {
        let all = text.split(',').filter(|word| *word != "-").map(|word| word.parse().ok());
        all.collect::<Option<Vec<Ipv4Addr>>>()
    };
    Some(Lease {
        addr: addr.parse().ok()?,
        server: server.parse().ok()?,
        routers: list(routers)?,
        routes: routes(ways)?,
        dns: list(dns)?,
        domain: Some((*domain).to_owned()).filter(|domain| domain != "-"),
        renew: renew.parse().ok()?,
        rebind: rebind.parse().ok()?,
        expires: expires.parse().ok()?,
    })
}

/// Reads the routes, which a file of before has not.
fn routes(words: &[&str]) -> Option<Vec<(Ipv4Net, Ipv4Addr)>> {
    let [text] = words else { return words.is_empty().then(Vec::new) };
    let route = |word: &str| {
        let (to, via) = word.split_once('>')?;
        Some((to.parse().ok()?, via.parse().ok()?))
    };
    text.split(',').filter(|word| *word != "-").map(route).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_read_as_it_was_written_and_a_part_of_it_is_none() {
        let path = std::env::temp_dir().join(format!("pt-lease-{}", std::process::id()));
        for (routers, domain) in
            [(vec![Ipv4Addr::new(192, 0, 2, 1)], Some("x.example".to_owned())), (vec![], None)]
        {
            let lease = Lease {
                addr: "192.0.2.50/24".parse().unwrap(),
                server: Ipv4Addr::new(192, 0, 2, 1),
                routes: routers.iter().map(|via| ("10.0.0.0/8".parse().unwrap(), *via)).collect(),
                routers,
                dns: vec![Ipv4Addr::new(192, 0, 2, 53), Ipv4Addr::new(192, 0, 2, 54)],
                domain,
                renew: 1,
                rebind: 2,
                expires: 3,
            };
            write(&path, &lease).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            let before = text.rsplit_once(' ').unwrap().0.to_owned() + "\n";
            assert_eq!(read(&before), Some(Lease { routes: Vec::new(), ..lease.clone() }));
            assert_eq!(read(&text), Some(lease));
            (0..text.len()).for_each(|cut| assert_eq!(read(&text[..cut]), None, "{cut}"));
        }
        std::fs::remove_file(&path).unwrap();
    }
}
