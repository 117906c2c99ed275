//! DHCPv6 clients of interfaces: addresses and delegated prefixes of a lease are in force as long as it lasts.
//!
//! A subnet of a delegated prefix is an address of each interface that says `prefix_from`, and its router advertisements tell hosts
//! of it for no longer than the lease. All else of the prefix is unreachable, so that it does not go back to the provider.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ipnet::{IpNet, Ipv6Net};
use net::dhcp::{Arrived, Outgoing};
use net::fib::FibIndex;
use net::tables::IfIndex;
use net::time::Instant;
use wire::dhcp6::{ALL_AGENTS, CLIENT, SERVER, View};

use super::control::Control;
use super::reload::Scope;
use super::tables::{Attached, is_link_local};
use super::{dhcp6_relays, dhcp6_servers};
use super::{entropy, log};
use crate::api::{AddressState, Dhcp6Client as Shown, Dhcp6Lease, RouteEdit, RouteMetrics, RouteRequest};
use crate::config::{Config, Interface, Leased, Resolver};
use crate::dhcp::file;
use crate::dhcp6::client::{Act, Client, State};
use crate::dhcp6::lease::{self, Entry};

/// Time after which an address that is used by another host is known to be, milliseconds.
const VERIFY: u64 = 10_000;

/// The DHCPv6 clients, servers and relays of this stack.
#[derive(Default)]
pub(crate) struct Dhcp6 {
    pub(super) clients: Vec<Running>,
    pub(super) servers: Vec<dhcp6_servers::Running>,
    pub(super) relays: Vec<dhcp6_relays::Running>,
    /// Our DUID, once it is known.
    duid: Option<Vec<u8>>,
}

/// The client of an interface.
pub(super) struct Running {
    interface: String,
    index: IfIndex,
    path: PathBuf,
    settings: crate::dhcp6::client::Settings,
    gives_back: bool,
    client: Client,
    /// Addresses and prefixes in force.
    in_use: Vec<InUse>,
    /// Prefixes that are unreachable but for their subnets.
    unreachable: Vec<Ipv6Net>,
    /// When the addresses are looked at again.
    verify: Option<u64>,
    /// Whether the lease could not be written the last time.
    is_failing: bool,
}

/// An address or prefix in force, and until when by the clock of the netisrs.
#[derive(Clone, Copy, PartialEq, Eq)]
struct InUse {
    entry: Entry,
    until: (Instant, Instant),
}

impl Dhcp6 {
    /// Interfaces that netisrs bring messages of.
    pub(super) fn interfaces(&self) -> impl Iterator<Item = IfIndex> + '_ {
        let clients = self.clients.iter().map(|own| own.index);
        clients.chain(self.servers.iter().map(|own| own.index)).chain(self.relays.iter().map(|own| own.index))
    }

    /// Name servers and more that the provider of an interface has told of.
    pub(super) fn resolver(&self, interface: &str) -> Resolver {
        let own = self.clients.iter().find(|own| own.interface == interface);
        own.map_or_else(Resolver::default, |own| {
            let lease::Params { dns, search, sntp } = own.client.params.clone();
            Resolver { dns, search, sntp }
        })
    }

    /// The prefixes that the provider of an interface has delegated.
    pub(super) fn delegated(&self, interface: &str) -> Vec<Entry> {
        let own = self.clients.iter().find(|own| own.interface == interface);
        let all = own.map(|own| own.in_use.iter().map(|used| used.entry)).into_iter().flatten();
        all.filter(|entry| !entry.is_address()).collect()
    }

    /// Addresses of an interface that are leased, or in subnets of prefixes that are.
    fn leased(&self, interface: &Interface) -> Vec<Leased> {
        let of = |name: &str| {
            self.clients.iter().find(|own| own.interface == name).map_or(&[][..], |own| &own.in_use)
        };
        let own = interface.dhcp6.as_ref().map_or(&[][..], |_| of(&interface.name));
        let own = own.iter().filter(|used| used.entry.is_address());
        let own = own.map(|used| Leased { net: IpNet::V6(used.entry.net), until: None });
        let from = interface.prefix_from.as_ref();
        let prefixes = from.map_or(&[][..], |from| of(&from.interface)).iter();
        let subnets = prefixes.filter(|used| !used.entry.is_address()).filter_map(|used| {
            let net = from.and_then(|from| from.address(used.entry.net))?;
            Some(Leased { net: IpNet::V6(net), until: Some(used.until) })
        });
        own.chain(subnets).collect()
    }
}

impl Control {
    /// Gives interfaces what they have of leases.
    pub(super) fn with_leases(&self, new: &mut Config) {
        for interface in &mut new.interfaces {
            let mut leased: Vec<Leased> = self.leased_v4(interface).into_iter().collect();
            leased.extend(self.dhcp6.leased(interface));
            let (session, of_session) = self.pppoe.leased(interface);
            interface.session = session;
            interface.leased = of_session.into_iter().chain(leased).collect();
            let from = interface.ra.as_ref().and_then(|ra| ra.dns_from.as_deref());
            interface.resolver = from.map(|from| self.dhcp6.resolver(from)).unwrap_or_default();
        }
    }

    /// Begins and ends clients and servers as the configuration in force has them.
    pub(super) fn settle_dhcp6(&mut self) {
        let mut before = core::mem::take(&mut self.dhcp6.clients);
        let wanted = self.attached.iter().filter_map(|own| {
            let config = own.config.dhcp6.as_ref()?;
            Some((own.config.name.clone(), own.index, own.facts.mac.octets(), config.clone()))
        });
        for (interface, index, mac, config) in wanted.collect::<Vec<_>>() {
            let (path, settings, gives_back) = (config.path(&interface), config.settings(), config.release);
            let is_same =
                |own: &Running| own.interface == interface && own.path == path && own.settings == settings;
            if let Some(at) = before.iter().position(is_same) {
                self.dhcp6.clients.push(Running { index, gives_back, ..before.swap_remove(at) });
                continue;
            }
            let duid = self.duid(&path, mac);
            let text = std::fs::read_to_string(&path).ok();
            let known = text.and_then(|text| lease::read(&text)).unwrap_or_default();
            let seed = entropy::key().map_or(1, |key| u64::try_from(key & u128::from(u64::MAX)).unwrap_or(1));
            let client = Client::new(settings.clone(), (duid, iaid(&interface)), known, seed, now());
            log::info(&format!("interface {interface}: DHCPv6 client"));
            let (in_use, unreachable, verify, is_failing) = (Vec::new(), Vec::new(), None, false);
            self.dhcp6.clients.push(Running {
                interface,
                index,
                path,
                settings,
                gives_back,
                client,
                in_use,
                unreachable,
                verify,
                is_failing,
            });
        }
        for mut gone in before {
            // One that begins anew with other settings goes on with the lease.
            if !self.dhcp6.clients.iter().any(|own| own.interface == gone.interface) {
                self.give_back(&mut gone);
            }
            let fib = self.interface(&gone.interface).map_or(0, |interface| interface.config.fib);
            let edits = gone.unreachable.iter().map(|net| delete(fib, *net)).collect();
            self.lead_nowhere(edits, &gone.interface);
        }
        self.settle_dhcp6_servers();
        self.settle_dhcp6_relays();
        self.routers_said();
        self.dhcp.changed.notify_one();
    }

    /// Our DUID: the same for all interfaces, and kept beside the lease of the first.
    pub(super) fn duid(&mut self, lease: &Path, mac: [u8; 6]) -> Vec<u8> {
        if let Some(duid) = &self.dhcp6.duid {
            return duid.clone();
        }
        let path = lease.with_file_name("duid");
        let known = std::fs::read_to_string(&path).ok();
        let known = known.and_then(|text| lease::bytes(text.strip_suffix('\n')?));
        let duid =
            known.filter(|duid| (3..=wire::dhcp6::DUID_MAX).contains(&duid.len())).unwrap_or_else(|| {
                let duid = lease::new_duid(mac, now() / 1000);
                if let Err(why) = file::replace(&path, &format!("{}\n", lease::hex(&duid))) {
                    let path = path.display();
                    log::warning(&format!(
                        "DHCPv6: providers will see another client after a restart: {path}: {why}"
                    ));
                }
                duid
            });
        self.dhcp6.duid = Some(duid.clone());
        duid
    }

    pub(super) fn dhcp6_client_arrived(&mut self, arrived: &Arrived) {
        let Some(own) = self.dhcp6.clients.iter_mut().find(|own| own.index == arrived.ifindex) else {
            return;
        };
        let Ok(message) = View::parse(&arrived.message) else {
            own.client.counts.malformed += 1;
            return;
        };
        let (name, acts) = (own.interface.clone(), own.client.arrived(&message, now()));
        self.perform_for_client6(&name, acts);
        self.dhcp.changed.notify_one();
    }

    /// The link of an interface is another one than before: what is leased is asked about again.
    pub(super) fn dhcp6_is_reattached(&mut self, name: &str) {
        let Some(own) = self.dhcp6.clients.iter_mut().find(|own| own.interface == name) else { return };
        log::info(&format!(
            "interface {name}: what DHCPv6 has leased is asked about: the link may be another one"
        ));
        own.client.reattached(now());
        self.dhcp.changed.notify_one();
    }

    /// Tells clients what routers of their links say of DHCPv6.
    pub(super) fn routers_said(&mut self) {
        for own in &mut self.dhcp6.clients {
            let learned =
                self.attached.iter().find(|other| other.index == own.index).map(|other| &other.learned);
            if let Some(learned) = learned {
                own.client.routers_say(learned.managed, learned.other, now());
            }
        }
        self.dhcp.changed.notify_one();
    }

    /// Does what is due for clients.
    pub(super) fn run_dhcp6_clients(&mut self) {
        let names: Vec<String> = self.dhcp6.clients.iter().map(|own| own.interface.clone()).collect();
        for name in names {
            self.verify_leased6(&name);
            let Some(own) = self.dhcp6.clients.iter_mut().find(|own| own.interface == name) else { continue };
            let acts = own.client.due(now());
            self.perform_for_client6(&name, acts);
        }
    }

    /// When something is due for a client.
    pub(super) fn next_of_dhcp6(&self) -> Option<Duration> {
        let times =
            self.dhcp6.clients.iter().map(|own| own.client.next().min(own.verify.unwrap_or(u64::MAX)));
        let next = times.min().filter(|at| *at < u64::MAX);
        next.map(|at| Duration::from_millis(at.saturating_sub(now())))
    }

    /// Declines addresses that other hosts have turned out to use.
    fn verify_leased6(&mut self, name: &str) {
        let Some(own) = self.dhcp6.clients.iter_mut().find(|own| own.interface == name) else { return };
        if own.verify.is_none_or(|at| at > now()) {
            return;
        }
        own.verify = None;
        let used = own.in_use.iter().filter(|used| used.entry.is_address());
        let used: Vec<Ipv6Addr> = used.map(|used| used.entry.net.addr()).collect();
        let interfaces = crate::api::stack::Stack::interfaces(self).unwrap_or_default();
        let addresses = interfaces.iter().filter(|own| own.name == name).flat_map(|own| &own.addresses);
        let duplicates: Vec<IpAddr> =
            addresses.filter(|own| own.state == AddressState::Duplicated).map(|own| own.address).collect();
        for addr in used.into_iter().filter(|addr| duplicates.contains(&IpAddr::V6(*addr))) {
            log::warning(&format!("interface {name}: another host uses {addr}: declined"));
            let own = self.dhcp6.clients.iter_mut().find(|own| own.interface == name);
            let acts = own.map(|own| own.client.conflict(addr, now())).unwrap_or_default();
            self.perform_for_client6(name, acts);
        }
    }

    fn perform_for_client6(&mut self, name: &str, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Send(message) => self.send_for_client6(name, message),
                Act::Use => {
                    self.keep_lease6(name);
                    self.use_lease6(name);
                }
            }
        }
    }

    /// Sends a message to all servers, from the link-local address. What is lost is sent again.
    fn send_for_client6(&self, name: &str, message: Vec<u8>) {
        let Some((ifindex, from)) = self.interface(name).and_then(|own| Some((own.index, link_local(own)?)))
        else {
            return;
        };
        let (from, to) = (SocketAddr::new(from, CLIENT), SocketAddr::new(ALL_AGENTS.into(), SERVER));
        let outgoing = Outgoing { ifindex, from, to, mac: None, message };
        self.send_dhcp(vec![outgoing]);
    }

    /// Writes the lease to disk.
    fn keep_lease6(&mut self, name: &str) {
        let Some(own) = self.dhcp6.clients.iter_mut().find(|own| own.interface == name) else { return };
        let text = lease::write(own.client.lease.as_ref(), &own.client.params);
        match file::replace(&own.path, &text) {
            Ok(()) => own.is_failing = false,
            Err(why) if !core::mem::replace(&mut own.is_failing, true) => {
                let path = own.path.display();
                log::warning(&format!(
                    "interface {name}: the lease will not be known after a restart: {path}: {why}"
                ));
            }
            Err(_) => {}
        }
    }

    /// Puts the lease that a client has now in force.
    fn use_lease6(&mut self, name: &str) {
        let at = self.cpus.clock.now();
        let Some(own) = self.dhcp6.clients.iter_mut().find(|own| own.interface == name) else { return };
        let entries = own.client.lease.as_ref().map(|lease| lease.entries.clone()).unwrap_or_default();
        let before = core::mem::take(&mut own.in_use);
        own.in_use = entries.into_iter().map(|entry| InUse::new(entry, &before, at)).collect();
        let nets = |all: &[InUse]| all.iter().map(|used| used.entry.net).collect::<Vec<_>>();
        let (was, is) = (nets(&before), nets(&own.in_use));
        if was != is {
            own.verify = own.in_use.iter().any(|used| used.entry.is_address()).then(|| now() + VERIFY);
            let words: Vec<String> = is.iter().map(Ipv6Net::to_string).collect();
            match words.is_empty() {
                false => log::info(&format!("interface {name}: {} leased", words.join(", "))),
                true => log::warning(&format!("interface {name}: the DHCPv6 lease has ended")),
            }
        }
        if let Err(failure) = self.go_over(self.config.clone(), Scope::Interfaces) {
            log::error(&format!("interface {name}: {}", failure.told().error));
        }
        self.settle_dhcp6_servers();
        self.settle_unreachable(name);
    }

    /// Makes prefixes unreachable but for their subnets.
    //= https://www.rfc-editor.org/rfc/rfc7084#section-4.3
    fn settle_unreachable(&mut self, name: &str) {
        let subnets: Vec<IpNet> = self
            .attached
            .iter()
            .flat_map(|own| own.config.leased.iter().map(|leased| leased.net.trunc()))
            .collect();
        let Some(own) = self.dhcp6.clients.iter_mut().find(|own| own.interface == name) else { return };
        let wanted = own.in_use.iter().filter(|used| !used.entry.is_address()).map(|used| used.entry.net);
        // A prefix of one link is that link's.
        let wanted: Vec<Ipv6Net> = wanted.filter(|net| !subnets.contains(&IpNet::V6(*net))).collect();
        let before = core::mem::replace(&mut own.unreachable, wanted.clone());
        let interface = self.attached.iter().find(|other| other.config.name == name);
        let fib = interface.map_or(0, |interface| interface.config.fib);
        let gone = before.iter().filter(|net| !wanted.contains(net)).map(|net| delete(fib, *net));
        let come = wanted.iter().filter(|net| !before.contains(net)).map(|net| {
            RouteEdit::Add(RouteRequest {
                fib,
                to: IpNet::V6(*net),
                via: Vec::new(),
                dev: None,
                reject: true,
                blackhole: false,
                metrics: RouteMetrics::default(),
            })
        });
        let edits = gone.chain(come).collect();
        self.lead_nowhere(edits, name);
    }

    pub(super) fn lead_nowhere(&mut self, edits: Vec<RouteEdit>, name: &str) {
        match self.change_routes(&edits) {
            Err(why) => log::error(&why.error),
            Ok(answers) => answers.iter().filter_map(|answer| answer.as_ref().err()).for_each(|why| {
                log::info(&format!("interface {name}: route of the delegated prefix: {}", why.error));
            }),
        }
    }

    /// Gives leases back at the end, where the configuration wants that.
    pub(super) fn release_dhcp6(&mut self) {
        for mut own in core::mem::take(&mut self.dhcp6.clients) {
            self.give_back(&mut own);
        }
    }

    fn give_back(&self, own: &mut Running) {
        if !own.gives_back {
            return;
        }
        for act in own.client.release(now()) {
            if let Act::Send(message) = act {
                self.send_for_client6(&own.interface, message);
            }
        }
        if let Err(why) = file::replace(&own.path, &lease::write(None, &own.client.params)) {
            log::warning(&format!("interface {}: {}: {why}", own.interface, own.path.display()));
        }
    }

    /// The clients, as the admin API shows them.
    pub(super) fn list_dhcp6_clients(&self) -> Vec<Shown> {
        self.dhcp6.clients.iter().map(shown).collect()
    }
}

impl InUse {
    /// Makes it of an entry; one that is in `before` stays as it was, so that nothing changes that did not.
    fn new(entry: Entry, before: &[Self], at: Instant) -> Self {
        let same = before.iter().find(|used| used.entry == entry);
        let until = |time: u64| at + Duration::from_millis(time.saturating_sub(now()));
        same.copied().unwrap_or_else(|| Self { entry, until: (until(entry.preferred), until(entry.valid)) })
    }
}

const fn delete(fib: FibIndex, net: Ipv6Net) -> RouteEdit {
    RouteEdit::Delete { fib, to: IpNet::V6(net), via: None }
}

/// The link-local address of an interface.
pub(super) fn link_local(own: &Attached) -> Option<IpAddr> {
    own.addresses().into_iter().map(|own| own.addr).find(|addr| is_link_local(*addr))
}

/// The number of an interface's associations: the same at each start (FNV-1a of its name).
fn iaid(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn shown(own: &Running) -> Shown {
    let state = match own.client.state {
        State::Idle => "idle",
        State::Soliciting => "soliciting",
        State::Requesting => "requesting",
        State::Confirming => "confirming",
        State::Bound => "bound",
        State::Renewing => "renewing",
        State::Rebinding => "rebinding",
        State::Declining(_) => "declining",
        State::Informing => "informing",
        State::Informed => "informed",
    };
    let left = |time: u64| time.saturating_sub(now()) / 1000;
    let (lease, params, counts) = (own.client.lease.as_ref(), &own.client.params, own.client.counts);
    let entry = |entry: &Entry| {
        let Entry { net, preferred, valid } = *entry;
        Dhcp6Lease { prefix: net, preferred_s: left(preferred), valid_s: left(valid) }
    };
    Shown {
        interface: own.interface.clone(),
        state: state.to_owned(),
        leases: lease.map(|lease| lease.entries.iter().map(entry).collect()).unwrap_or_default(),
        server: lease.map(|lease| lease::hex(&lease.server)),
        dns: params.dns.clone(),
        search: lease::names(&params.search),
        sntp: params.sntp.clone(),
        renew_s: lease.map(|lease| left(lease.renew)),
        rebind_s: lease.map(|lease| left(lease.rebind)),
        sent: counts.sent,
        replies: counts.replies,
        refused: counts.refused,
        malformed: counts.malformed,
        ignored: counts.ignored,
        conflicts: counts.conflicts,
        renumbered: counts.renumbered,
    }
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
