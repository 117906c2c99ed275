//! Memberships of one CPU's sockets.

use hashbrown::HashMap;

use super::base::Id;
use super::listen;
use crate::base::count::Count;
use crate::base::ids::IfIndex;
use crate::host::sock::Error;
use crate::ip::group::{self, Filter, GROUPS_MAX, Key, SOURCES_MAX};
use crate::turn::cpu::Cpu;

/// The groups that sockets of this CPU listen to, and which sockets.
#[derive(Default)]
pub(crate) struct Memberships {
    listeners: HashMap<Key, Vec<Id>>,
}

/// Works out what the sockets of this CPU want of a group, now that `id` wants something else, and tells the CPU that
/// speaks for the link.
///
/// # Errors
///
/// [`Error::TooMany`]; then nothing has changed.
pub(crate) fn settle(cpu: &mut Cpu, id: Id, key: Key) -> Result<(), Error> {
    let mut ids = cpu.memberships.listeners.get(&key).cloned().unwrap_or_default();
    ids.retain(|of| *of != id);
    if listen::filter(cpu, id, key).is_some() {
        ids.push(id);
    }
    let filter = Filter::merge(ids.iter().filter_map(|id| listen::filter(cpu, *id, key)));
    let is_new = !cpu.memberships.listeners.contains_key(&key);
    let is_too_much = is_new && cpu.memberships.on_link(key.ifindex) >= GROUPS_MAX;
    if !filter.is_none() && (is_too_much || filter.sources().len() > SOURCES_MAX) {
        cpu.count(Count::GroupsFull);
        return Err(Error::TooMany);
    }
    match ids.is_empty() {
        true => cpu.memberships.listeners.remove(&key),
        false => cpu.memberships.listeners.insert(key, ids),
    };
    group::request(cpu, key, filter);
    Ok(())
}

/// Drops the memberships on removed interfaces.
pub(crate) fn tables_changed(cpu: &mut Cpu) {
    let Cpu { memberships, tables, .. } = cpu;
    let gone = memberships.listeners.extract_if(|key, _| tables.ifnet(key.ifindex).is_none());
    for (key, ids) in gone.collect::<Vec<_>>() {
        ids.into_iter().for_each(|id| listen::forget(cpu, id, key));
    }
}

impl Memberships {
    /// Whether some socket listens to a group.
    pub(crate) fn listens(&self, key: Key) -> bool {
        self.listeners.contains_key(&key)
    }

    fn on_link(&self, ifindex: IfIndex) -> usize {
        self.listeners.keys().filter(|key| key.ifindex == ifindex).count()
    }
}
