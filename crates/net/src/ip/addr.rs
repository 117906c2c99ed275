//! Our own addresses: detection of duplicates, announcement, defence.
//!
//! One CPU, by the hash of the address, watches it; it tells the others what becomes of it, so that every CPU can ask
//! [`Addrs::usable`].
//!
//! A router's addresses are configured, and are wanted at once: like other routers it uses IPv4 addresses from the
//! beginning, announces them, and notices conflicts with other hosts; and IPv6 addresses while it probes for
//! duplicates (optimistic duplicate address detection, RFC 4429). [`Addrs::set_optimistic`] chooses the
//! other way: no address is used before it has been asked for. So it is with IPv6 addresses of an interface that takes
//! its addresses from router advertisements, as hosts do.
//!
//! # Spec
//! RFC 4862 §5.4; RFC 4429; RFC 7527; RFC 5227.

mod dad;

use core::net::{IpAddr, Ipv6Addr};

use hashbrown::HashMap;
use wire::ether::Mac;

use crate::base::count::Count;
use crate::base::time::Instant;
use crate::ip::ip6::autoconf;
use crate::link::tables::{IfIndex, Tables};
use crate::turn::cpu::{Cpu, CpuId};
use dad::Watch;

/// Names one of our addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The interface that has it.
    pub ifindex: IfIndex,
    /// The address.
    pub addr: IpAddr,
}

/// The state of one of our addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Duplicate address detection runs.
    Tentative,
    /// Ours.
    Preferred,
    /// Another station had it first: not used until it is configured again.
    Duplicated,
}

/// A message between CPUs about our addresses.
#[derive(Clone, Debug)]
pub enum Msg {
    /// From the CPU that watches it.
    State {
        /// Which address.
        key: Key,
        /// Its new state.
        state: State,
    },
}

/// The states of our addresses.
pub struct Addrs {
    table: HashMap<Key, Own>,
    /// Number of addresses that must not be used now.
    unusable: usize,
    optimistic: bool,
}

/// One of our addresses.
struct Own {
    /// The link address that it has been announced with.
    mac: Mac,
    state: State,
    /// Used while it is still being asked for.
    is_optimistic: bool,
    is_usable: bool,
    /// On the CPU that watches it.
    watch: Option<Watch>,
}

/// One of our addresses, as the CPU that watches it sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Which address.
    pub key: Key,
    /// Its state.
    pub state: State,
    /// Number of conflicts.
    pub conflicts: u64,
    /// Link address of the last rival, if known.
    pub rival: Option<Mac>,
    /// When.
    pub conflicted: Option<Instant>,
}

impl Default for Addrs {
    fn default() -> Self {
        Self { table: HashMap::new(), unusable: 0, optimistic: true }
    }
}

impl Addrs {
    /// Whether `addr`, which is one of ours, may be used now: to send from, to answer for.
    #[inline]
    #[must_use]
    pub fn usable(&self, ifindex: IfIndex, addr: IpAddr) -> bool {
        self.are_usable() || self.table.get(&Key { ifindex, addr }).is_some_and(|own| own.is_usable)
    }

    /// Whether all of our addresses may be used now.
    #[inline]
    pub(crate) const fn are_usable(&self) -> bool {
        self.unusable == 0
    }

    /// Returns the state of an address; `None` if it is not ours, or its interface is down.
    #[must_use]
    pub fn state(&self, key: &Key) -> Option<State> {
        self.table.get(key).map(|own| own.state)
    }

    /// Whether addresses are used while they are still being asked for. Concerns those that are configured from now on.
    pub const fn set_optimistic(&mut self, optimistic: bool) {
        self.optimistic = optimistic;
    }

    /// Whether `nonce` is that of our last question for the address.
    pub(crate) fn has_asked(&self, key: &Key, nonce: [u8; 6]) -> bool {
        let watch = self.table.get(key).and_then(|own| own.watch.as_ref());
        watch.is_some_and(|watch| watch.has_asked(nonce))
    }

    fn set(&mut self, key: &Key, state: State) {
        let Some(own) = self.table.get_mut(key) else { return };
        own.state = state;
        own.is_usable = is_usable(state, own.is_optimistic);
        self.count_unusable();
    }

    fn count_unusable(&mut self) {
        self.unusable = self.table.values().filter(|own| !own.is_usable).count();
    }
}

const fn is_usable(state: State, optimistic: bool) -> bool {
    match state {
        State::Tentative => optimistic,
        State::Preferred => true,
        State::Duplicated => false,
    }
}

/// The addresses that this CPU watches, in order. All CPUs' together are the stack's.
#[must_use]
pub fn states(cpu: &Cpu) -> Vec<Status> {
    let watched =
        cpu.addrs.table.iter().filter_map(|(key, own)| Some((*key, own.state, own.watch.as_ref()?)));
    let mut states: Vec<_> = watched.map(|(key, state, watch)| watch.status(key, state)).collect();
    states.sort_by_key(|status| status.key);
    states
}

/// The link-local address that an interface with link address `mac` has; its prefix is 64 bits long.
#[must_use]
pub const fn link_local(mac: Mac) -> Ipv6Addr {
    wire::addr::link_local_from_mac(mac)
}

/// Handles a message from another CPU.
pub fn message(cpu: &mut Cpu, msg: Msg) {
    let Msg::State { key, state } = msg;
    set(cpu, &key, state);
}

/// The timer of an address that this CPU watches.
pub fn timer(cpu: &mut Cpu, key: Key) {
    dad::timer(cpu, key);
}

/// Starts detection for new addresses, and forgets those that are gone. An interface that is down has none. What has
/// not changed is not touched.
pub fn tables_changed(cpu: &mut Cpu) {
    let tables = cpu.tables.clone();
    cpu.addrs.table.retain(|key, own| is_configured(&tables, key, own));
    for ifnet in tables.ifnets().filter(|ifnet| ifnet.up) {
        for own in &ifnet.addrs {
            dad::start(cpu, Key { ifindex: ifnet.index, addr: own.addr }, ifnet);
        }
    }
    cpu.addrs.count_unusable();
}

/// Handles a packet from another station with our address as sender, or an answer for it.
pub(crate) fn claimed(cpu: &mut Cpu, key: Key, rival: Option<Mac>) {
    cpu.count(if key.addr.is_ipv4() { Count::ArpConflicts } else { Count::NdConflicts });
    dad::claimed(cpu, key, rival);
}

/// Handles a probe of another station that wants to take our address.
pub(crate) fn probed(cpu: &mut Cpu, key: Key, rival: Option<Mac>) {
    if cpu.addrs.state(&key) == Some(State::Tentative) {
        //= https://www.rfc-editor.org/rfc/rfc4862#section-5.4.3
        //# If the source address of the Neighbor Solicitation is the unspecified address, the solicitation is from a node performing Duplicate Address Detection.
        claimed(cpu, key, rival);
    }
}

/// Whether nothing has changed. With another link address an address must be made known again.
fn is_configured(tables: &Tables, key: &Key, own: &Own) -> bool {
    tables.ifnet(key.ifindex).is_some_and(|ifnet| ifnet.up && ifnet.has(key.addr) && ifnet.mac == own.mac)
}

/// Sets a state here and on all other CPUs.
fn publish(cpu: &mut Cpu, key: Key, state: State) {
    set(cpu, &key, state);
    for other in (0..cpu.placement.cpus()).map(CpuId).filter(|other| *other != cpu.id) {
        cpu.peers.send(other, crate::turn::msg::Msg::Addr(Msg::State { key, state }));
    }
}

fn set(cpu: &mut Cpu, key: &Key, state: State) {
    cpu.addrs.set(key, state);
    autoconf::address_changed(cpu, key, state);
}

#[cfg(test)]
mod tests;
