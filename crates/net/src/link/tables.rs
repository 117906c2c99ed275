//! The shared configuration of all CPUs: interfaces, addresses, routes. An immutable snapshot, replaced as a whole.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeSet;
use std::sync::Arc;

use pkt::Pkt;
use wire::ether::Mac;

use crate::fib::{Bounds, Change, FIBS_MAX, Fib, FibIndex, Hop, Hops, Origin, Prefix, Rib, Route, To};
use crate::link::bridge;
use crate::link::driver::Caps;
use crate::link::fdb;
use crate::link::logical::{Kind, Logical};

mod autoconf;
mod learned;
mod queue;
mod own_addrs;
mod precedence;
mod published;
mod rtadv;
mod twin;

pub use crate::base::ids::IfIndex;
pub use autoconf::{AutoconfSettings, Identifiers, PREFIX_LEN};
pub use learned::{DefaultRouter, HOP_LIMIT, Learned, LearnedAddr, REACHABLE, RETRANS};
pub use own_addrs::Own;
pub use precedence::settle;
pub use published::{PUBLISHED_MAX, Publication, Published};
pub use queue::{Discipline, QueueSpec};
pub use rtadv::{
    RTADV_PREFIXES_MAX, RTADV_ROUTES_MAX, RTADV_SEARCH_MAX, RTADV_SERVERS_MAX, RtadvExpiry, RtadvSettings,
};

pub use twin::Twin;

/// The configuration that every CPU reads and none writes. Each CPU holds one `Arc` of it; a change is a new one,
/// sent from CPU to CPU as a message, and the old one dies with its last holder.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tables {
    /// Grows by one with each change: whatever was derived from older tables is stale.
    pub generation: u64,
    /// Interfaces by index; index 0 is never used, and a hole is an interface that is gone.
    pub ifs: Vec<Option<Ifnet>>,
    /// Routes, own addresses included: table 0, which has the others.
    pub fib: Arc<Fib>,
    /// Where they lead.
    pub hops: Arc<Hops>,
    /// Whether packets for others are forwarded.
    pub forwarding: bool,
    /// Addresses that no packet from a wire may have as its source, because they are ours.
    pub own: Own,
    /// Logical interfaces: their tags and their headers.
    pub logical: Arc<Logical>,
    /// Whether any interface says something of received transport checksums, so that its packets are looked at.
    pub judges_checksums: bool,
    /// Whether that, or addresses that an interface answers for, makes usual packets worth a closer look.
    pub looks_closer: bool,
    /// Whether an interface has a twin.
    pub has_twins: bool,
}

/// The input of tables: the configuration, without derived data.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Grows by one with each change.
    pub generation: u64,
    /// Interfaces, in any order; [`Ifnet::index`] is their place.
    pub ifs: Vec<Ifnet>,
    /// Routes besides those that follow from the interfaces' addresses, which are stronger.
    pub routes: Vec<Route>,
    /// Routing tables besides table 0.
    pub more_fibs: FibIndex,
    /// Whether the routes that follow from addresses are in all tables, not only in their interface's.
    pub addr_all_fibs: bool,
    /// Whether packets for others are forwarded.
    pub forwarding: bool,
}

/// Fewer routes than this fit [`Bounds::SMALL`], whatever they are.
const SMALL: usize = 1 << 11;

/// An interface.
#[derive(Clone, Debug)]
pub struct Ifnet {
    /// Its place in [`Tables::ifs`].
    pub index: IfIndex,
    /// Its name.
    pub name: String,
    /// Its lower layer.
    pub kind: Kind,
    /// Its link address.
    pub mac: Mac,
    /// Bytes of the largest network-layer packet on this link.
    pub mtu: u32,
    /// Metric of the default routes by it: the least is in force.
    pub metric: u32,
    /// Administratively up.
    pub up: bool,
    /// Its own addresses.
    pub addrs: Vec<IfAddr>,
    /// Policy on received transport checksums.
    pub rxcsum: Rxcsum,
    /// Offloads of its device.
    pub caps: Caps,
    /// Only count what is received.
    pub monitor: bool,
    /// Output queue.
    pub queue: QueueSpec,
    /// Learnt and static link addresses, if it has any.
    pub fdb: fdb::Settings,
    /// Its place in a bridge, if it is a port of one: it has no addresses then.
    pub port: Option<bridge::Port>,
    /// Multicast groups that services of the control side listen to; those that other interfaces need on this link are added.
    pub groups: Vec<IpAddr>,
    /// IPv6 autoconfiguration, if enabled.
    pub autoconf: Option<AutoconfSettings>,
    /// Router advertisements that are sent, if any are.
    pub rtadv: Option<Arc<RtadvSettings>>,
    /// Results of router advertisements, as far as they are in force: see [`settle()`].
    pub learned: Arc<Learned>,
    /// Addresses of others that are answered for on this link.
    pub published: Arc<Published>,
    /// Its twin in the kernel, or the interface that it is the twin of.
    pub twin: Twin,
    /// The table that packets which come in by it are routed by.
    pub fib: FibIndex,
}

/// An address of an interface, with the prefix that is on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IfAddr {
    /// The address.
    pub addr: IpAddr,
    /// Length of the on-link prefix, bits.
    pub prefix_len: u8,
}

/// The policy on transport checksums that an interface delivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rxcsum {
    /// Nothing: sum what is for us.
    #[default]
    Verify,
    /// All: the device has checked.
    Trust,
    /// Right ones and partial ones: a field that holds only the pseudo-header's sum is completed on the way out.
    Complete,
}

impl Tables {
    /// Works out what follows from `config`: how much of what routers have said is in force ([`settle()`]); for each interface
    /// that is up the prefixes on its link, its own and its broadcast addresses. The table is made for it alone, as large as
    /// it must be, and will not change; to change routes use a [`Rib`] and [`Tables::with`].
    ///
    /// # Panics
    ///
    /// When the system has no address space for a table.
    #[must_use]
    #[expect(clippy::expect_used, reason = "without a few hundred megabytes of address space nothing works")]
    pub fn new(mut config: Config) -> Self {
        settle(&mut config.ifs, |prefix, ifindex| {
            precedence::is_led_elsewhere(&config.routes, prefix, ifindex)
        });
        let bounds = if config.routes.len() < SMALL { Bounds::SMALL } else { Bounds::INTERNET };
        let count = config.more_fibs.min(FIBS_MAX - 1) + 1;
        let mut rib = Rib::with_tables(bounds, count).expect("address space for a table");
        let derived = derived(&config.ifs, config.addr_all_fibs.then_some(count));
        let connected = derived.iter().map(|Derived { fib, to, origin, hop }| Change {
            fib: *fib,
            to: *to,
            origin: *origin,
            hops: hop,
        });
        let routes = config.routes.iter();
        let routes =
            routes.map(|Route { fib, to, hops }| Change { fib: *fib, to: *to, origin: Origin::Static, hops });
        rib.load(&connected.chain(routes).collect::<Vec<_>>());
        Self::with(config, rib.fib(), rib.hops())
    }

    /// Derives tables from `config`, whose interfaces are [`settle()`]d, and whose routes are in `fib` and lead to `hops` already.
    #[must_use]
    pub fn with(config: Config, fib: Arc<Fib>, hops: Arc<Hops>) -> Self {
        let Config { generation, ifs: list, forwarding, .. } = config;
        let (own, logical) = (Own::of(&list), Arc::new(Logical::of(&list)));
        let judges_checksums = list.iter().any(|ifnet| ifnet.rxcsum != Rxcsum::Verify);
        let looks_closer = judges_checksums || list.iter().any(|ifnet| ifnet.published.has_v6());
        let has_twins = list.iter().any(|ifnet| ifnet.twin != Twin::None);
        let mut ifs = Vec::new();
        for ifnet in list {
            let at = usize::from(ifnet.index);
            ifs.resize_with(ifs.len().max(at + 1), || None);
            ifs[at] = Some(ifnet);
        }
        Self {
            generation,
            ifs,
            fib,
            hops,
            forwarding,
            own,
            logical,
            judges_checksums,
            looks_closer,
            has_twins,
        }
    }

    /// Where packets to `dst` are led by table `fib`: the slow way, for one destination at a time. Of equally good hops, the flow
    /// takes the one that `flow` falls to.
    #[must_use]
    pub fn hop(&self, fib: FibIndex, dst: IpAddr, flow: impl FnOnce() -> u32) -> Hop {
        self.hops.get(self.hops.member(self.fib.table(fib).lookup(dst), flow))
    }

    /// The number of the table that a packet is routed by: the one that was chosen for it, else that of the interface it
    /// came in by; of a packet made here, 0.
    #[inline]
    #[must_use]
    pub fn fib_of(&self, pkt: &Pkt) -> FibIndex {
        if self.fib.is_alone() { 0 } else { self.chosen(pkt.fib, pkt.rcvif) }
    }

    /// The number of the table that packets are routed by which come in by this interface; 0 if it is gone.
    #[must_use]
    pub fn fib_on(&self, ifindex: IfIndex) -> FibIndex {
        self.ifnet(ifindex).map_or(0, |ifnet| ifnet.fib)
    }

    #[inline(never)]
    fn chosen(&self, mark: u8, rcvif: IfIndex) -> FibIndex {
        let by_interface = || self.fib_on(rcvif);
        // As ipfw(8) of FreeBSD: a number that no table has is table 0.
        let fib = mark.checked_sub(1).unwrap_or_else(by_interface);
        if fib < self.fib.tables() { fib } else { 0 }
    }

    /// Whether there is such a routing table.
    #[inline]
    #[must_use]
    pub fn has_fib(&self, fib: FibIndex) -> bool {
        fib == 0 || fib < self.fib.tables()
    }

    /// The table that a packet is routed by: see [`Self::fib_of`].
    #[inline]
    #[must_use]
    pub fn fib_for(&self, pkt: &Pkt) -> &Fib {
        if self.fib.is_alone() { &self.fib } else { self.fib.table(self.chosen(pkt.fib, pkt.rcvif)) }
    }

    /// The interface with this index, if it (still) exists.
    #[must_use]
    pub fn ifnet(&self, index: IfIndex) -> Option<&Ifnet> {
        self.ifs.get(usize::from(index))?.as_ref()
    }

    /// All interfaces.
    pub fn ifnets(&self) -> impl Iterator<Item = &Ifnet> {
        self.ifs.iter().flatten()
    }

    /// The interface with this name.
    #[must_use]
    pub fn ifnet_named(&self, name: &str) -> Option<&Ifnet> {
        self.ifnets().find(|ifnet| ifnet.name == name)
    }

    /// Whether `addr` is one of our own on any interface.
    #[must_use]
    pub fn is_ours(&self, addr: IpAddr) -> bool {
        self.own.has(addr)
    }
}

/// A route that follows from addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derived {
    /// Its table.
    pub fib: FibIndex,
    /// Destinations.
    pub to: Prefix,
    /// Its origin.
    pub origin: Origin,
    /// Where it leads.
    pub hop: [Hop; 1],
}

/// The routes that follow from the addresses of interfaces that are up: in the table of each interface, or in `all` tables.
/// The first of several interfaces with one prefix in a table has it.
#[must_use]
pub fn derived(ifs: &[Ifnet], all: Option<FibIndex>) -> Vec<Derived> {
    let fibs = |own: FibIndex| if let Some(count) = all { 0..count } else { own..own.saturating_add(1) };
    let own = |ifnet: &Ifnet| {
        let fib = ifnet.fib;
        ifnet.routes().map(move |route| (fib, route)).collect::<Vec<_>>()
    };
    let up = ifs.iter().filter(|ifnet| ifnet.up).flat_map(own);
    let numbers = ifs.iter().map(|ifnet| ifnet.fib).collect::<BTreeSet<_>>();
    let default = numbers.into_iter().flat_map(|fib| {
        let of_table = |ifnet: &&Ifnet| ifnet.fib == fib;
        learned::default_route(ifs.iter().filter(of_table)).map(|route| (fib, route))
    });
    let derived = |(fib, (to, origin, hop))| Derived { fib, to, origin, hop: [hop] };
    up.flat_map(|(own, route)| fibs(own).map(move |fib| (fib, route))).chain(default).map(derived).collect()
}

impl Default for Tables {
    fn default() -> Self {
        Self::new(Config::default())
    }
}

impl Ifnet {
    /// The routes that follow from this interface's addresses: to its links' prefixes, to its broadcast addresses, and
    /// to its own. IPv6 link-local ones are not among them: one prefix is on every link, so the sender says which link.
    pub fn routes(&self) -> impl Iterator<Item = (Prefix, Origin, Hop)> {
        let ifindex = self.index;
        let own = || self.addrs.iter().filter(|own| !own.addr_is_scoped());
        let prefixes = own().filter_map(IfAddr::prefix);
        let on_link = prefixes.map(move |to| (to, Origin::Connected, To::OnLink { ifindex }.into()));
        let broadcast = Hop::from(To::Broadcast { ifindex });
        let broadcasts =
            self.broadcasts().map(move |addr| (Prefix::host(addr.into()), Origin::Broadcast, broadcast));
        let local = own().map(move |own| (Prefix::host(own.addr), Origin::Own, To::Local { ifindex }.into()));
        self.learned.routes(ifindex).chain(on_link).chain(broadcasts).chain(local)
    }

    /// The broadcast addresses of the IPv4 prefixes on this link: all host bits one and, as of old, all zero.
    /// Prefixes of 31 and 32 bits have none (RFC 3021 §2.1).
    //= https://www.rfc-editor.org/rfc/rfc1812#section-5.3.5.3
    pub fn broadcasts(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.addrs4().filter(|(_, len)| *len < 31).flat_map(|(addr, len)| {
            let hosts = u32::MAX >> len;
            [Ipv4Addr::from_bits(addr.to_bits() | hosts), Ipv4Addr::from_bits(addr.to_bits() & !hosts)]
        })
    }

    /// Whether `addr` is one of this interface's own.
    #[must_use]
    pub fn has(&self, addr: IpAddr) -> bool {
        self.addrs.iter().any(|own| own.addr == addr)
    }

    /// This interface's IPv4 addresses.
    pub fn addrs4(&self) -> impl Iterator<Item = (Ipv4Addr, u8)> {
        self.addrs.iter().filter_map(|own| match own.addr {
            IpAddr::V4(addr) => Some((addr, own.prefix_len)),
            IpAddr::V6(_) => None,
        })
    }

    /// This interface's IPv6 addresses, link-local ones included.
    pub fn addrs6(&self) -> impl Iterator<Item = (Ipv6Addr, u8)> {
        self.addrs.iter().filter_map(|own| match own.addr {
            IpAddr::V6(addr) => Some((addr, own.prefix_len)),
            IpAddr::V4(_) => None,
        })
    }

    /// Whether `addr` lies in a prefix that is on this link.
    #[must_use]
    pub fn is_on_link(&self, addr: IpAddr) -> bool {
        self.addrs.iter().any(|own| own.covers(addr))
            || self.learned.on_link.iter().any(|prefix| prefix.covers(addr))
    }

    /// The own address to speak to `peer` with: one whose prefix covers it, else one that reaches as far.
    #[must_use]
    pub fn source_for(&self, peer: IpAddr) -> Option<IpAddr> {
        let same_family = self.addrs.iter().filter(|own| own.addr.is_ipv4() == peer.is_ipv4());
        let score = |own: &&IfAddr| (own.covers(peer), is_link_local(own.addr) == is_link_local(peer));
        same_family.max_by_key(score).map(|own| own.addr)
    }
}

impl IfAddr {
    /// The prefix on the link.
    #[must_use]
    pub fn prefix(&self) -> Option<Prefix> {
        Prefix::new(self.addr, self.prefix_len)
    }

    /// Whether other links may have the same address: IPv6 link-local ones mean something only with their link.
    fn addr_is_scoped(&self) -> bool {
        self.addr.is_ipv6() && is_link_local(self.addr)
    }

    /// Whether `addr` lies in this address's prefix.
    #[must_use]
    pub fn covers(&self, addr: IpAddr) -> bool {
        self.prefix().is_some_and(|prefix| prefix.covers(addr))
    }
}

fn is_link_local(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => addr.is_link_local(),
        IpAddr::V6(addr) => addr.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests;
