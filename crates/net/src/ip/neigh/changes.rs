//! Changes of entries, for a reader outside: link addresses that are learnt, changed and lost.
//!
//! The list is made when a reader comes, and goes with the last one. What it has no room for is counted.

use wire::ether::Mac;

use super::Key;
use crate::base::time::Instant;
use crate::turn::cpu::Cpu;

/// Changes that wait for the reader on one CPU.
pub const CHANGES_MAX: usize = 4096;

/// A change of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighChange {
    /// When.
    pub at: Instant,
    /// Neighbour.
    pub key: Key,
    /// Its link address before; `None` if it was not known.
    pub before: Option<Mac>,
    /// Its link address; `None` if it is not known any more.
    pub mac: Option<Mac>,
}

/// Changes since the last reading.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NeighChanges {
    /// In their order.
    pub list: Vec<NeighChange>,
    /// Changes that there was no room for.
    pub lost: u64,
}

/// Begins to note changes on this CPU, or ends it.
pub fn watch(cpu: &mut Cpu, on: bool) {
    let changes = &mut cpu.neigh.owned.changes;
    match on {
        true if changes.is_none() => {
            *changes = Some(Box::new(NeighChanges { list: Vec::with_capacity(CHANGES_MAX), lost: 0 }));
        }
        true => {}
        false => *changes = None,
    }
}

/// Takes the changes since the last call; none if they are not noted.
pub fn take_changes(cpu: &mut Cpu) -> NeighChanges {
    let Some(changes) = &mut cpu.neigh.owned.changes else { return NeighChanges::default() };
    NeighChanges { list: changes.list.drain(..).collect(), lost: core::mem::take(&mut changes.lost) }
}

/// Notes a change, if there is a reader.
pub(super) fn note(cpu: &mut Cpu, key: Key, before: Option<Mac>, mac: Option<Mac>) {
    let Some(changes) = &mut cpu.neigh.owned.changes else { return };
    if before == mac {
        return;
    }
    if changes.list.len() < CHANGES_MAX {
        changes.list.push(NeighChange { at: cpu.now, key, before, mac });
    } else {
        changes.lost += 1;
    }
}
