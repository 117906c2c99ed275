//! Multicast group membership, and its reports to routers and switches. One body for both families.
//!
//! Each CPU knows what its own sockets want. The CPU of an interface's number speaks for its link: it knows the sum of
//! what all CPUs want, tells routers of it and answers their queries; the others have a copy of which groups we are in, so
//! that each lets in what is sent to them. Groups that follow from our addresses are known to all.
//!
//! # Spec
//! RFC 3376; RFC 3810; RFC 2236 and RFC 2710 where an older router asks; RFC 4607.

mod filter;
mod implied;
mod entry;
mod link;
mod input;
mod output;

use core::net::{IpAddr, Ipv6Addr};

use hashbrown::HashSet;
use wire::addr::solicited_node_multicast;

pub use self::filter::{Filter, SOURCES_MAX};
pub(crate) use self::implied::is_of_the_host;
pub use self::implied::{follows, is_everybodys, is_source_specific};
pub use self::input::input;
pub(in crate::ip) use self::output::{say, speaker};
use crate::base::time::Instant;
use crate::ip::ip6::autoconf::owner;
use crate::link::tables::IfIndex;
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::timers::Timer;
use link::Link;

/// Groups on one link that the sockets of a CPU may listen to.
pub const GROUPS_MAX: usize = 256;

/// A group on the link of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The interface.
    pub ifindex: IfIndex,
    /// The group.
    pub group: IpAddr,
}

/// A message between CPUs about groups.
#[derive(Clone, Debug)]
pub enum Msg {
    /// To the CPU that speaks for the link.
    Wanted {
        /// CPU of the sockets.
        from: CpuId,
        /// Group.
        key: Key,
        /// Their filter.
        filter: Filter,
    },
    /// From it.
    Member {
        /// Group.
        key: Key,
        /// Whether we are in it.
        is_member: bool,
    },
}

/// A joined group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Group.
    pub key: Key,
    /// Source filter.
    pub filter: Filter,
}

/// The groups of this CPU.
#[derive(Default)]
pub struct Groups {
    /// Groups joined on any CPU.
    members: HashSet<Key>,
    /// Links that this CPU speaks for.
    links: Vec<Link>,
}

/// Whether what is sent to a group on the link of an interface is for us. What a socket of this CPU listens to comes from the
/// moment on in which it says so, whenever the others learn of it.
#[must_use]
pub fn is_joined(cpu: &Cpu, key: Key) -> bool {
    is_followed(cpu, key) || cpu.groups.members.contains(&key) || cpu.memberships.listens(key)
}

/// Tells whether the host itself requires the group, apart from sockets.
pub(crate) fn is_followed(cpu: &Cpu, key: Key) -> bool {
    let forwarding = cpu.tables.forwarding;
    cpu.tables.ifnet(key.ifindex).is_some_and(|ifnet| follows(ifnet, key.group, forwarding))
}

/// The groups that we are in on links that this CPU speaks for, in order. All CPUs' together are the stack's.
#[must_use]
pub fn memberships(cpu: &Cpu) -> Vec<Membership> {
    let of = |link: &Link| {
        let ifindex = link.ifindex;
        let all = link.memberships();
        let all = all.map(move |(group, filter)| (Key { ifindex, group }, filter.clone()));
        all.map(|(key, filter)| Membership { key, filter }).collect::<Vec<_>>()
    };
    cpu.groups.links.iter().flat_map(of).collect()
}

/// Handles a message from another CPU.
pub fn message(cpu: &mut Cpu, msg: Msg) {
    match msg {
        Msg::Wanted { from, key, filter } => wanted(cpu, from, key, filter),
        Msg::Member { key, is_member } => set_member(cpu, key, is_member),
    }
}

/// Tells the CPU that speaks for the link which sources of a group the sockets of this CPU want. Groups that have all hosts as
/// members are not reported.
pub(crate) fn request(cpu: &mut Cpu, key: Key, filter: Filter) {
    if !implied::is_reported(key.group) {
        return;
    }
    let (from, to) = (cpu.id, owner(cpu.placement, key.ifindex));
    if to == from {
        return wanted(cpu, from, key, filter);
    }
    cpu.peers.send(to, crate::turn::msg::Msg::Group(Msg::Wanted { from, key, filter }));
}

/// The timer of a link: what is due is said.
pub fn timer(cpu: &mut Cpu, ifindex: IfIndex) {
    let now = cpu.now;
    if cpu.groups.links.iter().any(|link| link.ifindex == ifindex && link.armed <= now) {
        change(cpu, ifindex, |link, cpu| {
            link.armed = Instant::NEVER;
            link.speak(cpu);
        });
    }
}

/// Forgets what was wanted of interfaces that are gone, and begins with those that are up from now on.
pub fn tables_changed(cpu: &mut Cpu) {
    let tables = cpu.tables.clone();
    cpu.groups.links.retain(|link| tables.ifnet(link.ifindex).is_some());
    cpu.groups.members.retain(|key| tables.ifnet(key.ifindex).is_some());
    for ifnet in tables.ifnets() {
        if owner(cpu.placement, ifnet.index) == cpu.id {
            change(cpu, ifnet.index, |link, cpu| link.tables_changed(cpu));
        }
    }
}

/// Reports that we listen to the solicited-node group of a new address of ours: before it is asked for, and once more
/// when that is done (`[Robustness Variable]` is 2). Address detection reports first by itself.
//= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.2
//# Before sending a Neighbor Solicitation, an interface MUST join the all-nodes multicast address and the solicited-node multicast address of the tentative address.
pub(crate) fn joined(cpu: &mut Cpu, ifindex: IfIndex, addr: Ipv6Addr) {
    output::report(cpu, ifindex, true, &[link::joined(solicited_node_multicast(addr).into())]);
}

/// The sockets of a CPU want something else of a group.
fn wanted(cpu: &mut Cpu, from: CpuId, key: Key, filter: Filter) {
    if cpu.tables.ifnet(key.ifindex).is_none() {
        return;
    }
    change(cpu, key.ifindex, |link, cpu| {
        if let Some(is_member) = link.wants(cpu.now, from, key.group, filter) {
            publish(cpu, key, is_member);
        }
    });
}

/// Changes what is known of a link, which speaks when something is due.
fn change(cpu: &mut Cpu, ifindex: IfIndex, how: impl FnOnce(&mut Link, &mut Cpu)) {
    let place = cpu.groups.links.iter().position(|link| link.ifindex == ifindex);
    let mut link = match place {
        Some(at) => cpu.groups.links.remove(at),
        None => Link::new(ifindex),
    };
    if place.is_none() {
        link.tables_changed(cpu);
    }
    how(&mut link, cpu);
    let due = link.due();
    if due < link.armed {
        link.armed = due;
        cpu.timers.set(due, Timer::Group(ifindex));
    }
    let at = cpu.groups.links.partition_point(|other| other.ifindex < ifindex);
    cpu.groups.links.insert(at, link);
}

/// Tells all CPUs whether we are in a group.
fn publish(cpu: &mut Cpu, key: Key, is_member: bool) {
    set_member(cpu, key, is_member);
    for other in (0..cpu.placement.cpus()).map(CpuId).filter(|other| *other != cpu.id) {
        cpu.peers.send(other, crate::turn::msg::Msg::Group(Msg::Member { key, is_member }));
    }
}

fn set_member(cpu: &mut Cpu, key: Key, is_member: bool) {
    if is_member {
        cpu.groups.members.insert(key);
    } else {
        cpu.groups.members.remove(&key);
    }
}

#[cfg(test)]
mod tests;
