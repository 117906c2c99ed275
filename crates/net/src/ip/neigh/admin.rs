//! Administration of neighbours: list, set, delete.

use wire::ether::Mac;

use super::nud::State;
use super::{Key, owner};
use crate::base::time::Instant;
use crate::turn::cpu::Cpu;

/// A neighbour, as the CPU that owns its entry sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Neighbour.
    pub key: Key,
    /// Its link address, if known.
    pub mac: Option<Mac>,
    /// State.
    pub state: State,
    /// When that will be asked again, or the entry be forgotten; `None` if never.
    pub expires: Option<Instant>,
    /// It said that it is a router.
    pub is_router: bool,
    /// Packets that wait for it on this CPU.
    pub held: usize,
}

/// The entries that this CPU owns, in order. All CPUs' together are the stack's.
#[must_use]
pub fn entries(cpu: &Cpu) -> Vec<Entry> {
    let neigh = &cpu.neigh;
    let mut entries: Vec<Entry> = neigh
        .owned
        .iter()
        .map(|(key, entry)| Entry {
            key: *key,
            mac: entry.nud.view().map(|(mac, _)| mac),
            state: entry.nud.state,
            expires: Some(entry.nud.until).filter(|at| *at != Instant::NEVER),
            is_router: entry.is_router,
            held: neigh.copies.waiting_for(key),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key);
    entries
}

/// Sets a neighbour's link address, for good: nothing that is heard changes it.
///
/// To be called on the CPU that owns `key.addr` ([`crate::turn::rss::Placement::owner_of`]); `false` if this is another, if
/// `mac` is not a single host's, or if the table is full.
pub fn set_static(cpu: &mut Cpu, key: Key, mac: Mac) -> bool {
    is_ours(cpu, &key) && mac.is_unicast() && owner::set_permanent(cpu, key, mac)
}

/// Forgets a neighbour, a permanent one too. `false` if it is not known, or not by this CPU.
pub fn delete(cpu: &mut Cpu, key: Key) -> bool {
    is_ours(cpu, &key) && owner::remove(cpu, key)
}

fn is_ours(cpu: &Cpu, key: &Key) -> bool {
    cpu.placement.owner_of(key.addr) == cpu.id
}
