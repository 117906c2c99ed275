//! Memberships of one CPU's sockets.

use hashbrown::HashMap;

use super::filter::{Filter, SOURCES_MAX};
use super::follows::is_reported;
use super::{Key, Msg, wanted};
use crate::count::Count;
use crate::cpu::Cpu;
use crate::dgram;
use crate::ip6::autoconf::owner;
use crate::sock::Error;
use crate::tables::IfIndex;

/// Groups on one link that the sockets of a CPU may listen to.
pub const GROUPS_MAX: usize = 256;

/// The groups that sockets of this CPU listen to, and which sockets.
#[derive(Default)]
pub(crate) struct Own {
    listeners: HashMap<Key, Vec<dgram::Id>>,
}

/// Works out what the sockets of this CPU want of a group, now that `id` wants something else, and tells the CPU that
/// speaks for the link.
///
/// # Errors
///
/// [`Error::TooMany`]; then nothing has changed.
pub(crate) fn settle(cpu: &mut Cpu, id: dgram::Id, key: Key) -> Result<(), Error> {
    let mut ids = cpu.groups.own.listeners.get(&key).cloned().unwrap_or_default();
    ids.retain(|of| *of != id);
    if dgram::filter(cpu, id, key).is_some() {
        ids.push(id);
    }
    let filter = Filter::merge(ids.iter().filter_map(|id| dgram::filter(cpu, *id, key)));
    let is_new = !cpu.groups.own.listeners.contains_key(&key);
    let is_too_much = is_new && cpu.groups.own.on_link(key.ifindex) >= GROUPS_MAX;
    if !filter.is_none() && (is_too_much || filter.sources.len() > SOURCES_MAX) {
        cpu.count(Count::GroupsFull);
        return Err(Error::TooMany);
    }
    match ids.is_empty() {
        true => cpu.groups.own.listeners.remove(&key),
        false => cpu.groups.own.listeners.insert(key, ids),
    };
    tell(cpu, key, filter);
    Ok(())
}

/// Drops the memberships on removed interfaces.
pub(super) fn tables_changed(cpu: &mut Cpu) {
    let Cpu { groups, tables, .. } = cpu;
    let gone = groups.own.listeners.extract_if(|key, _| tables.ifnet(key.ifindex).is_none());
    for (key, ids) in gone.collect::<Vec<_>>() {
        ids.into_iter().for_each(|id| dgram::forget(cpu, id, key));
    }
}

/// Groups with all hosts as members are not reported.
fn tell(cpu: &mut Cpu, key: Key, filter: Filter) {
    if !is_reported(key.group) {
        return;
    }
    let (from, to) = (cpu.id, owner(cpu.placement, key.ifindex));
    if to == from {
        return wanted(cpu, from, key, filter);
    }
    cpu.peers.send(to, crate::msg::Msg::Group(Msg::Wanted { from, key, filter }));
}

impl Own {
    /// Whether some socket listens to a group.
    pub(super) fn listens(&self, key: Key) -> bool {
        self.listeners.contains_key(&key)
    }

    fn on_link(&self, ifindex: IfIndex) -> usize {
        self.listeners.keys().filter(|key| key.ifindex == ifindex).count()
    }
}
