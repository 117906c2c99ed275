//! Memberships: what a CPU knows of them, and those that it owns.

use core::net::IpAddr;
use std::collections::BTreeMap;

use super::{Group, To, querier};
use crate::base::count::Count;
use crate::base::time::{Duration, Instant};
use crate::link::fdb;
use crate::link::logical::Kind;
use crate::link::tables::{IfIndex, Tables};
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::timers::Timer;

/// Memberships that a bridge remembers: a group on a port is one.
pub const MEMBERSHIPS_MAX: usize = 4096;
/// Time for which a report holds: two queries may be lost, and the answer to the third takes its time (RFC 3376 §8.4).
const MEMBERSHIP: Duration = Duration::from_secs(260);
/// Time for which a port without queries still leads to a router (RFC 3376 §8.5).
const ROUTER: Duration = Duration::from_secs(255);
/// Time in which another listener answers when one has left (RFC 3376 §8.8).
const LEAVE: Duration = Duration::from_secs(3);
/// Time in which all listeners answer a general query, and a little more.
const ANSWERED: Duration = Duration::from_secs(12);
/// Time between two looks at what is over.
const LOOK: Duration = Duration::from_secs(1);

/// A message between CPUs about memberships.
#[derive(Clone, Copy, Debug)]
pub enum Msg {
    /// To the owner: a port listens to a group, or has left it.
    Heard {
        /// The group.
        group: Group,
        /// The port.
        port: IfIndex,
        /// Whether it listens.
        joins: bool,
    },
    /// To the owner: a router is behind a port.
    Router {
        /// The port.
        port: IfIndex,
        /// Whether it is a router of IPv4; else it is one of IPv6.
        is_ip4: bool,
    },
    /// To the owner: another querier asks.
    Querier {
        /// The port that it is behind.
        port: IfIndex,
        /// Its address.
        addr: IpAddr,
    },
    /// From the owner: a port has listeners of a group, or none.
    Member {
        /// The group.
        group: Group,
        /// The port.
        port: IfIndex,
        /// Whether it has listeners.
        is_member: bool,
    },
    /// From the owner: a port leads to a router of a family, or does not.
    Leads {
        /// The bridge.
        bridge: IfIndex,
        /// The port.
        port: IfIndex,
        /// Whether the family is IPv4.
        is_ip4: bool,
        /// Whether it leads there.
        leads: bool,
    },
    /// From the owner: memberships are known, or frames are to be flooded.
    Known {
        /// The bridge.
        bridge: IfIndex,
        /// Whether they are known.
        is_known: bool,
    },
}

/// A CPU's copy of memberships, and those that it owns.
#[derive(Default)]
pub(crate) struct Snooping {
    members: BTreeMap<Group, Vec<IfIndex>>,
    /// Ports with routers, by bridge and family.
    routers: BTreeMap<(IfIndex, bool), Vec<IfIndex>>,
    /// Bridges whose memberships are known.
    known: Vec<IfIndex>,
    owned: BTreeMap<IfIndex, Owned>,
    armed: Option<Instant>,
    told: (Instant, u16),
}

/// A bridge whose memberships a CPU owns.
struct Owned {
    ports: Vec<IfIndex>,
    members: BTreeMap<(IpAddr, IfIndex), Instant>,
    routers: BTreeMap<(bool, IfIndex), Instant>,
    /// Time from which memberships are known.
    known_at: Instant,
    is_known: bool,
    querier: querier::Querier,
}

impl Snooping {
    /// Whether one more message may be sent in the turn of `now`.
    pub(super) fn may_tell(&mut self, now: Instant) -> bool {
        if self.told.0 != now {
            self.told = (now, 0);
        }
        self.told.1 += 1;
        self.told.1 <= super::TELL_MAX
    }

    /// Whether a packet leaves by a port. Packets to a group without a report leave by all, and all do while memberships are not
    /// known.
    pub(super) fn reaches(&self, bridge: IfIndex, to: To, port: IfIndex) -> bool {
        let is_routers =
            |is_ip4| self.routers.get(&(bridge, is_ip4)).is_some_and(|ports| ports.contains(&port));
        !self.known.contains(&bridge)
            || match to {
                To::Routers { is_ip4 } => is_routers(is_ip4),
                To::Group(addr) => self
                    .members
                    .get(&Group { bridge, addr })
                    .is_none_or(|members| members.contains(&port) || is_routers(addr.is_ipv4())),
            }
    }
}

/// Handles a message from another CPU.
pub(crate) fn message(cpu: &mut Cpu, msg: Msg) {
    let now = cpu.now;
    match msg {
        Msg::Heard { group, port, joins } => heard(cpu, group, port, joins),
        Msg::Router { port, is_ip4 } => {
            let Some((bridge, owned)) = owned_of(cpu, port) else { return };
            if owned.routers.insert((is_ip4, port), now + ROUTER).is_none() {
                tell_all(cpu, Msg::Leads { bridge, port, is_ip4, leads: true });
            }
        }
        Msg::Querier { port, addr } => {
            if let Some((bridge, _)) = owned_of(cpu, port) {
                let own = querier::source(cpu, bridge, addr.is_ipv4());
                if let Some((_, owned)) = owned_of(cpu, port) {
                    owned.querier.hears(now, own, addr);
                }
            }
        }
        Msg::Member { group, port, is_member } => {
            let Some(snooping) = &mut cpu.snooping else { return };
            let ports = snooping.members.entry(group).or_default();
            set(ports, port, is_member);
            if ports.is_empty() {
                snooping.members.remove(&group);
            }
        }
        Msg::Leads { bridge, port, is_ip4, leads } => {
            let Some(snooping) = &mut cpu.snooping else { return };
            set(snooping.routers.entry((bridge, is_ip4)).or_default(), port, leads);
        }
        Msg::Known { bridge, is_known } => {
            let Some(snooping) = &mut cpu.snooping else { return };
            set(&mut snooping.known, bridge, is_known);
        }
    }
}

fn set(list: &mut Vec<IfIndex>, one: IfIndex, is_in: bool) {
    list.retain(|other| *other != one);
    if is_in {
        list.push(one);
    }
}

/// A port listens to a group, or has left it: then others on its link have a moment to say that they still do.
fn heard(cpu: &mut Cpu, group: Group, port: IfIndex, joins: bool) {
    let now = cpu.now;
    let Some((bridge, owned)) = owned_of(cpu, port).filter(|(bridge, _)| *bridge == group.bridge) else {
        return;
    };
    let key = (group.addr, port);
    if !joins {
        let Some(until) = owned.members.get_mut(&key) else { return };
        *until = (*until).min(now + LEAVE);
        if owned.querier.is_asking(now, group.addr.is_ipv4()) {
            querier::ask(cpu, bridge, Some(group.addr), group.addr.is_ipv4());
        }
        return;
    }
    if let Some(until) = owned.members.get_mut(&key) {
        *until = now + MEMBERSHIP;
        return;
    }
    if owned.members.len() >= MEMBERSHIPS_MAX {
        // Listeners that are not remembered would get nothing: all get everything, until there is room again.
        owned.known_at = now + MEMBERSHIP;
        cpu.count(Count::SnoopFull);
        return settle(cpu, bridge);
    }
    owned.members.insert(key, now + MEMBERSHIP);
    cpu.count(Count::SnoopLearnt);
    tell_all(cpu, Msg::Member { group, port, is_member: true });
}

/// The timer of the bridges that this CPU owns.
pub(crate) fn timer(cpu: &mut Cpu) {
    let now = cpu.now;
    let Some(snooping) = cpu.snooping.as_mut().filter(|all| all.armed.is_some_and(|at| at <= now)) else {
        return;
    };
    snooping.armed = None;
    let bridges: Vec<IfIndex> = snooping.owned.keys().copied().collect();
    for bridge in bridges {
        expire(cpu, bridge);
        settle(cpu, bridge);
        for is_ip4 in [true, false] {
            // Over IPv6 nothing is asked without an address; the query is due until there is one.
            let may_ask = is_ip4 || !querier::source(cpu, bridge, is_ip4).is_unspecified();
            let is_due = may_ask && owned(cpu, bridge).is_some_and(|owned| owned.querier.is_due(now, is_ip4));
            if is_due {
                querier::ask(cpu, bridge, None, is_ip4);
            }
        }
    }
    arm(cpu);
}

/// Forgets what has not been heard of for too long.
fn expire(cpu: &mut Cpu, bridge: IfIndex) {
    let now = cpu.now;
    let Some(owned) = owned(cpu, bridge) else { return };
    let mut gone = Vec::new();
    owned.members.retain(|(addr, port), until| {
        let is_over = *until <= now;
        if is_over {
            let group = Group { bridge, addr: *addr };
            gone.push(Msg::Member { group, port: *port, is_member: false });
        }
        !is_over
    });
    owned.routers.retain(|(is_ip4, port), until| {
        let is_over = *until <= now;
        if is_over {
            gone.push(Msg::Leads { bridge, port: *port, is_ip4: *is_ip4, leads: false });
        }
        !is_over
    });
    gone.into_iter().for_each(|msg| tell_all(cpu, msg));
}

/// Tells whether memberships are known now.
fn settle(cpu: &mut Cpu, bridge: IfIndex) {
    let now = cpu.now;
    let Some(owned) = owned(cpu, bridge) else { return };
    let is_known = owned.known_at <= now;
    if owned.is_known != is_known {
        owned.is_known = is_known;
        tell_all(cpu, Msg::Known { bridge, is_known });
    }
}

/// Frames take other ways: listeners may be behind other ports, and are asked.
pub(crate) fn topology_changed(cpu: &mut Cpu, bridge: IfIndex) {
    let now = cpu.now;
    let Some(owned) = owned(cpu, bridge) else { return };
    owned.known_at = owned.known_at.max(now + ANSWERED);
    owned.querier.begin(now);
    settle(cpu, bridge);
    arm(cpu);
}

/// Lets memberships follow other tables.
pub(crate) fn tables_changed(cpu: &mut Cpu) {
    let tables = cpu.tables.clone();
    let snoops = |kind| matches!(kind, Kind::Bridge(of) if of.snooping);
    let bridges: Vec<IfIndex> =
        tables.ifnets().filter(|ifnet| ifnet.up && snoops(ifnet.kind)).map(|ifnet| ifnet.index).collect();
    if bridges.is_empty() && cpu.snooping.is_none() {
        return;
    }
    let now = cpu.now;
    let snooping = cpu.snooping.get_or_insert_default();
    let is_there = |bridge: IfIndex, port: &IfIndex| is_up(&tables, bridge, *port);
    snooping.known.retain(|bridge| bridges.contains(bridge));
    snooping.members.retain(|group, ports| {
        ports.retain(|port| is_there(group.bridge, port));
        !ports.is_empty() && bridges.contains(&group.bridge)
    });
    snooping.routers.iter_mut().for_each(|((bridge, _), ports)| ports.retain(|port| is_there(*bridge, port)));
    snooping.owned.retain(|bridge, _| bridges.contains(bridge));
    for bridge in bridges {
        if fdb::owner_of(cpu, bridge) != cpu.id {
            continue;
        }
        let ports = tables.logical.bridges.ports(bridge).iter().map(|(_, port)| *port);
        let ports: Vec<_> = ports.filter(|port| is_up(&tables, bridge, *port)).collect();
        let Some(snooping) = cpu.snooping.as_mut() else { return };
        let owned = snooping.owned.entry(bridge).or_insert_with(|| Owned::new(now));
        if owned.ports != ports {
            owned.members.retain(|(_, port), _| ports.contains(port));
            owned.routers.retain(|(_, port), _| ports.contains(port));
            owned.ports = ports;
            topology_changed(cpu, bridge);
        }
    }
    arm(cpu);
}

impl Owned {
    fn new(now: Instant) -> Self {
        Self {
            ports: Vec::new(),
            members: BTreeMap::new(),
            routers: BTreeMap::new(),
            known_at: now + ANSWERED,
            is_known: false,
            querier: querier::Querier::default(),
        }
    }
}

fn is_up(tables: &Tables, bridge: IfIndex, port: IfIndex) -> bool {
    let port = tables.ifnet(port).filter(|port| port.up).and_then(|port| port.port);
    port.is_some_and(|port| port.bridge == bridge)
}

fn arm(cpu: &mut Cpu) {
    let Cpu { snooping, now, timers, .. } = cpu;
    let Some(snooping) = snooping.as_mut().filter(|all| !all.owned.is_empty() && all.armed.is_none()) else {
        return;
    };
    let at = *now + LOOK;
    snooping.armed = Some(at);
    timers.set(at, Timer::Snooping);
}

fn owned(cpu: &mut Cpu, bridge: IfIndex) -> Option<&mut Owned> {
    cpu.snooping.as_mut()?.owned.get_mut(&bridge)
}

/// The bridge of a port, if this CPU owns its memberships.
fn owned_of(cpu: &mut Cpu, port: IfIndex) -> Option<(IfIndex, &mut Owned)> {
    let bridge = cpu.tables.ifnet(port)?.port?.bridge;
    Some((bridge, owned(cpu, bridge)?))
}

/// Sends a message to the owner of a bridge's memberships.
pub(super) fn tell_owner(cpu: &mut Cpu, bridge: IfIndex, msg: Msg) {
    let owner = fdb::owner_of(cpu, bridge);
    tell(cpu, owner, msg);
}

fn tell(cpu: &mut Cpu, to: CpuId, msg: Msg) {
    if to == cpu.id { message(cpu, msg) } else { cpu.peers.send(to, crate::turn::msg::Msg::Snooping(msg)) }
}

fn tell_all(cpu: &mut Cpu, msg: Msg) {
    for other in (0..cpu.placement.cpus()).map(CpuId) {
        tell(cpu, other, msg);
    }
}
