//! `route monitor`: changes of routes, neighbours, addresses and interfaces, for readers.
//!
//! Each reader has a queue of a fixed length; what it has no room for is counted, and the reader is told. Without a reader
//! nothing is looked at.

use std::collections::{BTreeMap, VecDeque};

use ipnet::IpNet;
use net::fib::{FibIndex, Prefix, Rib};
use net::neigh::{self, NeighChange, NeighChanges};
use net::tables::{IfIndex, Ifnet, Tables};

use super::super::control::Control;
use super::super::routing::{Edits, Routing};
use crate::Mac;
use crate::api::{Change, ChangeOp, Error, ErrorKind, Route, StackChange, wall_ns};

/// Readers at a time.
const READERS_MAX: usize = 16;
/// Changes that wait for a reader.
const QUEUE_MAX: usize = 4096;

/// Readers of changes, and the state that they know of.
#[derive(Default)]
pub(in super::super) struct Readers {
    list: Vec<Reader>,
    last: u32,
    seen: BTreeMap<IfIndex, Seen>,
}

struct Reader {
    id: u32,
    queue: VecDeque<StackChange>,
    lost: u64,
}

/// An interface, as readers have been told.
#[derive(Clone, PartialEq, Eq)]
struct Seen {
    name: String,
    up: bool,
    addresses: Vec<IpNet>,
}

/// Routes in force to some prefixes, before a change.
pub(in super::super) type RoutesBefore = BTreeMap<(FibIndex, Prefix), Option<Route>>;

impl Control {
    pub(super) fn add_reader(&mut self) -> Result<u32, Error> {
        if self.readers.list.len() >= READERS_MAX {
            let busy =
                Error::new(ErrorKind::Busy, format!("limit reached ({READERS_MAX} readers of changes)"));
            return Err(busy.hint("end one of them"));
        }
        if self.readers.list.is_empty() {
            self.cpus.call_all(|netisr| neigh::watch(&mut netisr.cpu, true))?;
            self.readers.seen = interfaces(&self.tables);
        }
        self.readers.last = self.readers.last.wrapping_add(1);
        let id = self.readers.last;
        self.readers.list.push(Reader { id, queue: VecDeque::new(), lost: 0 });
        Ok(id)
    }

    pub(super) fn take_changes(&mut self, id: u32) -> Result<Vec<StackChange>, Error> {
        let noted = self.cpus.call_all(|netisr| neigh::take_changes(&mut netisr.cpu))?;
        self.note_neighbours(noted);
        self.note_interfaces();
        let missing = || Error::new(ErrorKind::NotFound, "there is no such reader");
        let reader = self.readers.list.iter_mut().find(|reader| reader.id == id).ok_or_else(missing)?;
        let mut changes: Vec<StackChange> = reader.queue.drain(..).collect();
        let count = core::mem::take(&mut reader.lost);
        if count > 0 {
            changes.push(StackChange { at_ns: wall_ns(), change: Change::Lost { count } });
        }
        Ok(changes)
    }

    pub(super) fn remove_reader(&mut self, id: u32) {
        self.readers.list.retain(|reader| reader.id != id);
        if self.readers.list.is_empty() {
            self.readers.seen = BTreeMap::new();
            // A netisr that does not answer is about to end.
            let _ = self.cpus.call_all(|netisr| neigh::watch(&mut netisr.cpu, false));
        }
    }

    /// The routes in force to the destinations of a change, if there is a reader.
    pub(in super::super) fn routes_before(&self, edits: &Edits) -> Option<RoutesBefore> {
        let route = |(fib, to)| ((fib, to), self.route_in_force(fib, to));
        (!self.readers.list.is_empty()).then(|| edits.destinations().map(route).collect())
    }

    /// The routes in force to all destinations, before another table takes the place of this one, if there is a reader.
    pub(in super::super) fn all_routes_before(&self, next: &Routing) -> Option<RoutesBefore> {
        let all = |rib: &Rib| {
            let listed = (0..rib.tables()).flat_map(|fib| rib.after(fib, None));
            listed.map(|listed| (listed.fib, listed.to)).collect::<Vec<_>>()
        };
        let both = || all(&self.routing.rib).into_iter().chain(all(&next.rib));
        let route = |(fib, to)| ((fib, to), self.route_in_force(fib, to));
        (!self.readers.list.is_empty()).then(|| both().map(route).collect())
    }

    /// Tells readers how routes and interfaces differ from before.
    pub(in super::super) fn note_changes(&mut self, before: Option<RoutesBefore>) {
        if self.readers.list.is_empty() {
            return;
        }
        self.note_interfaces();
        let at_ns = wall_ns();
        for ((fib, to), before) in before.into_iter().flatten() {
            let (op, route) = match (before, self.route_in_force(fib, to)) {
                (None, Some(new)) => (ChangeOp::Added, new),
                (Some(old), None) => (ChangeOp::Deleted, old),
                (Some(old), Some(new)) if old != new => (ChangeOp::Changed, new),
                _ => continue,
            };
            self.readers.tell(&StackChange { at_ns, change: Change::Route { op, route: Box::new(route) } });
        }
    }

    fn note_interfaces(&mut self) {
        let now = interfaces(&self.tables);
        let before = core::mem::replace(&mut self.readers.seen, now.clone());
        if before == now {
            return;
        }
        let at_ns = wall_ns();
        let tell = |change| self.readers.tell(&StackChange { at_ns, change });
        differences(&before, &now).into_iter().for_each(tell);
    }

    fn note_neighbours(&mut self, noted: Vec<NeighChanges>) {
        let start_ns = self.started_at();
        let lost: u64 = noted.iter().map(|changes| changes.lost).sum();
        let mut list: Vec<NeighChange> = noted.into_iter().flat_map(|changes| changes.list).collect();
        list.sort_by_key(|change| change.at);
        for NeighChange { at, key, before, mac } in list {
            let (op, mac) = match (before, mac) {
                (None, Some(mac)) => (ChangeOp::Added, mac),
                (Some(_), Some(mac)) => (ChangeOp::Changed, mac),
                (Some(mac), None) => (ChangeOp::Deleted, mac),
                (None, None) => continue,
            };
            let interface = self.name_of(key.ifindex).unwrap_or_else(|| key.ifindex.to_string());
            let change = Change::Neighbour { op, address: key.addr, mac: Mac(mac), interface };
            self.readers.tell(&StackChange { at_ns: start_ns + at.ns(), change });
        }
        self.readers.list.iter_mut().for_each(|reader| reader.lost += lost);
    }
}

impl Readers {
    fn tell(&mut self, change: &StackChange) {
        for reader in &mut self.list {
            if reader.queue.len() < QUEUE_MAX {
                reader.queue.push_back(change.clone());
            } else {
                reader.lost += 1;
            }
        }
    }
}

fn interfaces(tables: &Tables) -> BTreeMap<IfIndex, Seen> {
    let seen = |ifnet: &Ifnet| {
        let v4 = ifnet.addrs4().map(|(addr, len)| (addr.into(), len));
        let v6 = ifnet.addrs6().map(|(addr, len)| (addr.into(), len));
        let mut addresses: Vec<IpNet> =
            v4.chain(v6).filter_map(|(addr, len)| IpNet::new(addr, len).ok()).collect();
        addresses.sort_unstable();
        (ifnet.index, Seen { name: ifnet.name.clone(), up: ifnet.up, addresses })
    };
    tables.ifnets().map(seen).collect()
}

/// The changes that lead from some interfaces to others.
fn differences(before: &BTreeMap<IfIndex, Seen>, now: &BTreeMap<IfIndex, Seen>) -> Vec<Change> {
    let mut changes = Vec::new();
    let none = |seen: &Seen| Seen { up: false, addresses: Vec::new(), ..seen.clone() };
    let interface = |op, seen: &Seen| Change::Interface { op, interface: seen.name.clone() };
    let address = |op, address: &IpNet, seen: &Seen| {
        let interface = seen.name.clone();
        Change::Address { op, address: *address, interface }
    };
    let mut between = |old: &Seen, new: &Seen| {
        let gone = old.addresses.iter().filter(|net| !new.addresses.contains(net));
        changes.extend(gone.map(|net| address(ChangeOp::Deleted, net, old)));
        if old.up != new.up {
            changes.push(interface(if new.up { ChangeOp::Up } else { ChangeOp::Down }, new));
        }
        let new_ones = new.addresses.iter().filter(|net| !old.addresses.contains(net));
        changes.extend(new_ones.map(|net| address(ChangeOp::Added, net, new)));
    };
    let mut ends = Vec::new();
    for (index, old) in before.iter().filter(|(index, _)| !now.contains_key(index)) {
        between(old, &none(old));
        ends.push((*index, interface(ChangeOp::Deleted, old)));
    }
    for (index, new) in now {
        match before.get(index) {
            Some(old) if old.name == new.name => between(old, new),
            _ => between(&none(new), new),
        }
    }
    changes.extend(ends.into_iter().map(|(_, change)| change));
    let created = now.iter().filter(|(index, new)| before.get(index).is_none_or(|old| old.name != new.name));
    let created: Vec<Change> = created.map(|(_, new)| interface(ChangeOp::Added, new)).collect();
    created.into_iter().chain(changes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(name: &str, up: bool, addresses: &[&str]) -> Seen {
        let addresses = addresses.iter().map(|net| net.parse().unwrap()).collect();
        Seen { name: name.to_owned(), up, addresses }
    }

    fn words(changes: &[Change]) -> Vec<String> {
        let word = |change: &Change| match change {
            Change::Interface { op, interface } => format!("{op:?} {interface}"),
            Change::Address { op, address, interface } => format!("{op:?} {address} {interface}"),
            other => format!("{other:?}"),
        };
        changes.iter().map(word).collect()
    }

    #[test]
    fn interfaces_are_created_before_their_addresses_and_destroyed_after_them() {
        let lan = [(1, seen("lan", true, &["192.0.2.1/24", "2001:db8::1/64"]))].into();
        let none = BTreeMap::new();
        assert_eq!(
            words(&differences(&none, &lan)),
            ["Added lan", "Up lan", "Added 192.0.2.1/24 lan", "Added 2001:db8::1/64 lan"]
        );
        assert_eq!(
            words(&differences(&lan, &none)),
            ["Deleted 192.0.2.1/24 lan", "Deleted 2001:db8::1/64 lan", "Down lan", "Deleted lan"]
        );
        let down = [(1, seen("lan", false, &["192.0.2.1/24"]))].into();
        assert_eq!(words(&differences(&lan, &down)), ["Deleted 2001:db8::1/64 lan", "Down lan"]);
        assert!(differences(&lan, &lan).is_empty());
    }

    #[test]
    fn a_slow_reader_loses_changes_that_are_counted_and_others_do_not() {
        let reader = |id| Reader { id, queue: VecDeque::new(), lost: 0 };
        let mut readers = Readers { list: vec![reader(1), reader(2)], ..Readers::default() };
        let change = StackChange { at_ns: 1, change: Change::Lost { count: 1 } };
        for _ in 0..QUEUE_MAX {
            readers.tell(&change);
        }
        readers.list[1].queue.clear();
        readers.tell(&change);
        let held = |reader: &Reader| (reader.queue.len(), reader.lost);
        assert_eq!(readers.list.iter().map(held).collect::<Vec<_>>(), [(QUEUE_MAX, 1), (1, 0)]);
    }
}
