//! The host's side of neighbour discovery: addresses, prefixes and routers that router advertisements speak of.
//!
//! One CPU keeps what is learned of a link ([`link`]): which, follows from the interface. An advertisement comes to the
//! CPU of its sender's address, which learns the neighbour, and tells that one the rest. What packets must know of it
//! becomes part of the tables: a change of it ([`Learned`]) goes out through the [`Sink`], the control thread makes
//! new tables of it, and they visit all CPUs like any others.
//!
//! Any node on the link can send anything here, so all of it is bounded: routers, prefixes and addresses of a link by
//! count, timers by range, new tables by rate.
//!
//! # Spec
//! RFC 4861 §6.3; RFC 4862 §5.5; RFC 4191 §3; RFC 7217; RFC 7559; RFC 8981.

mod advert;
mod interface_id;
mod link;
mod addresses;
mod prefixes;
mod routers;
mod solicit;

use core::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use crate::base::time::Instant;
use crate::ip::addr;
use crate::ip::neigh;
use crate::link::tables::{IfIndex, Learned};
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::rss::Placement;
use crate::turn::timers::Timer;

pub use crate::link::tables::{AutoconfSettings as Settings, Identifiers, PREFIX_LEN};
pub use addresses::{ADDRS_MAX, Kind, OwnStatus};
pub use interface_id::link_local;
pub use link::Status;
pub use prefixes::{PREFIXES_MAX, PrefixStatus};
pub use routers::{ROUTERS_MAX, RouterStatus};

pub use advert::Advert;
pub(crate) use advert::heard;
use link::Link;

/// A message between CPUs about router advertisements.
#[derive(Clone, Debug)]
pub enum Msg {
    /// An advertisement.
    Advert(Box<Advert>),
    /// Whether a router answers.
    Reach {
        /// Which router.
        key: neigh::Key,
        /// Whether.
        is_reachable: bool,
    },
    /// A router says that it is none any more.
    Resigned {
        /// Which one.
        key: neigh::Key,
    },
}

/// A link of which something else is known now.
#[derive(Clone, Debug)]
pub struct LinkUpdate {
    /// Its interface.
    pub ifindex: IfIndex,
    /// All that is known.
    pub learned: Arc<Learned>,
}

/// Takes the news, in order to make tables of them; runs on the netisr, so it only passes them on.
pub type Sink = Box<dyn FnMut(LinkUpdate) + Send>;

/// The links kept by this CPU.
#[derive(Default)]
pub struct Autoconf {
    links: Vec<Link>,
    sink: Option<Sink>,
}

impl Autoconf {
    /// Sets the receiver of updates. Without a sink nothing comes of them.
    pub fn set_sink(&mut self, sink: Sink) {
        self.sink = Some(sink);
    }

    fn link(&mut self, ifindex: IfIndex) -> Option<&mut Link> {
        self.links.iter_mut().find(|link| link.ifindex == ifindex)
    }
}

/// The CPU that keeps what is learned of an interface's link.
#[must_use]
pub fn owner(placement: Placement, ifindex: IfIndex) -> CpuId {
    CpuId(ifindex % placement.cpus())
}

/// Returns this CPU's links, in order. All CPUs' together are the stack's.
#[must_use]
pub fn states(cpu: &Cpu) -> Vec<Status> {
    cpu.autoconf.links.iter().map(Link::status).collect()
}

/// A part of a link's state to be forgotten; a router advertisement brings it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forget {
    /// Its default routers.
    Routers,
    /// Its prefixes, and our addresses in them.
    Prefixes,
    /// One of our addresses.
    Address(Ipv6Addr),
}

/// Forgets something of this CPU's links, all of them or that of one interface; returns how many routers, prefixes or addresses. To be
/// called on all CPUs.
pub fn forget(cpu: &mut Cpu, of: Option<IfIndex>, what: Forget) -> usize {
    let links = cpu.autoconf.links.iter().map(|link| link.ifindex);
    let links: Vec<_> = links.filter(|ifindex| of.is_none_or(|of| of == *ifindex)).collect();
    let mut forgotten = 0;
    for ifindex in links {
        change(cpu, ifindex, |link, _| forgotten += link.forget(what));
    }
    forgotten
}

/// Handles a message from another CPU.
pub fn message(cpu: &mut Cpu, msg: Msg) {
    match msg {
        Msg::Advert(advert) => advertised(cpu, &advert),
        Msg::Reach { key, is_reachable } => change(cpu, key.ifindex, |link, _| {
            link.routers.reach(key.addr, is_reachable);
        }),
        Msg::Resigned { key } => change(cpu, key.ifindex, |link, _| link.routers.remove(key.addr)),
    }
}

/// The timer of an interface's link.
pub fn timer(cpu: &mut Cpu, ifindex: IfIndex) {
    let now = cpu.now;
    if cpu.autoconf.link(ifindex).is_some_and(|link| link.armed <= now) {
        change(cpu, ifindex, |link, _| link.armed = Instant::NEVER);
        solicit::send_due(cpu, ifindex);
    }
}

/// Begins with interfaces that configure themselves from now on, and forgets what was learned of others.
pub fn tables_changed(cpu: &mut Cpu) {
    let tables = cpu.tables.clone();
    let settings = |link: &Link| tables.ifnet(link.ifindex).filter(|ifnet| ifnet.up)?.autoconf;
    let (kept, gone): (Vec<_>, Vec<_>) =
        cpu.autoconf.links.drain(..).partition(|link| settings(link) == Some(link.settings));
    cpu.autoconf.links = kept;
    for link in gone {
        announce(cpu, link.ifindex, Arc::default());
    }
    for ifnet in tables.ifnets().filter(|ifnet| ifnet.up && owner(cpu.placement, ifnet.index) == cpu.id) {
        if let Some(settings) = ifnet.autoconf
            && cpu.autoconf.link(ifnet.index).is_none()
        {
            cpu.autoconf.links.push(Link::new(ifnet, settings));
        }
    }
    cpu.autoconf.links.sort_by_key(|link| link.ifindex);
    let mut links = core::mem::take(&mut cpu.autoconf.links);
    for link in &mut links {
        let refused = tables.ifnet(link.ifindex).map(|ifnet| ifnet.learned.refused.as_slice());
        link.refuses(refused.unwrap_or_default(), cpu);
    }
    cpu.autoconf.links = links;
    // On a link with one other end no duplicates are looked for: its addresses are ours from the beginning.
    for ifnet in tables.ifnets().filter(|ifnet| ifnet.autoconf.is_some() && ifnet.kind.is_point_to_point()) {
        let mut own = ifnet.addrs6().map(|(own, _)| own);
        if let Some(own) = own.find(Ipv6Addr::is_unicast_link_local) {
            let key = addr::Key { ifindex: ifnet.index, addr: own.into() };
            address_changed(cpu, &key, addr::State::Preferred);
        }
    }
}

/// Something has become of one of our addresses.
pub(crate) fn address_changed(cpu: &mut Cpu, key: &addr::Key, state: addr::State) {
    let IpAddr::V6(addr) = key.addr else { return };
    change(cpu, key.ifindex, |link, cpu| match state {
        _ if addr.is_unicast_link_local() => link.link_local_is(addr, state, cpu),
        addr::State::Duplicated => link.own.is_duplicate(addr),
        _ => {}
    });
}

/// To be told by the CPU that owns a neighbour's entry: whether it answers. Only of default routers it matters.
pub(crate) fn is_reachable(cpu: &mut Cpu, key: neigh::Key, is_reachable: bool) {
    if is_router(cpu, &key) {
        tell(cpu, key.ifindex, Msg::Reach { key, is_reachable });
    }
}

/// To be told by the CPU that owns a neighbour's entry: it does not forward any more.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.3.3
pub(crate) fn resigned(cpu: &mut Cpu, key: neigh::Key) {
    if is_router(cpu, &key) {
        tell(cpu, key.ifindex, Msg::Resigned { key });
    }
}

fn is_router(cpu: &Cpu, key: &neigh::Key) -> bool {
    let ifnet = cpu.tables.ifnet(key.ifindex);
    ifnet.is_some_and(|ifnet| ifnet.learned.routers.iter().any(|router| IpAddr::V6(*router) == key.addr))
}

fn advertised(cpu: &mut Cpu, advert: &Advert) {
    change(cpu, advert.ifindex, |link, cpu| link.advertised(advert, cpu));
}

/// Changes the state of a link, with all that follows from it by now, and sends an update.
fn change(cpu: &mut Cpu, ifindex: IfIndex, how: impl FnOnce(&mut Link, &mut Cpu)) {
    let Some(at) = cpu.autoconf.links.iter().position(|link| link.ifindex == ifindex) else { return };
    let mut link = cpu.autoconf.links.swap_remove(at);
    how(&mut link, cpu);
    link.tick(cpu);
    let news = link.news(cpu.now);
    let due = link.due(cpu.now);
    if due < link.armed {
        link.armed = due;
        cpu.timers.set(due, Timer::Autoconf(ifindex));
    }
    cpu.autoconf.links.push(link);
    cpu.autoconf.links.sort_by_key(|link| link.ifindex);
    if let Some(learned) = news {
        announce(cpu, ifindex, learned);
    }
}

fn announce(cpu: &mut Cpu, ifindex: IfIndex, learned: Arc<Learned>) {
    if let Some(sink) = &mut cpu.autoconf.sink {
        sink(LinkUpdate { ifindex, learned });
    }
}

fn tell(cpu: &mut Cpu, ifindex: IfIndex, msg: Msg) {
    let to = owner(cpu.placement, ifindex);
    if to == cpu.id { message(cpu, msg) } else { cpu.peers.send(to, crate::turn::msg::Msg::Autoconf(msg)) }
}

/// The link-local address of an interface, if it is certain that it is ours alone.
pub(super) fn speaker(cpu: &Cpu, ifindex: IfIndex) -> Option<Ipv6Addr> {
    let own = cpu.tables.ifnet(ifindex)?.addrs6().map(|(own, _)| own);
    own.filter(Ipv6Addr::is_unicast_link_local).find(|own| cpu.addrs.usable(ifindex, (*own).into()))
}
