//! The owner's side: what is learnt, and for how long.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::{Behind, Key, Msg, Settings, is_there, settings, tell_all};
use crate::base::count::Count;
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;
use crate::turn::timers::Timer;

/// The stations that a CPU owns.
pub(super) struct Owned {
    entries: HashMap<Key, Station, Secret>,
    /// Entries of each interface.
    counts: BTreeMap<IfIndex, usize>,
    /// When the timer fires that is set.
    armed: Instant,
}

/// A station.
#[derive(Clone, Copy)]
pub(super) struct Station {
    pub(super) behind: Behind,
    /// When a CPU last said that it had heard it.
    pub(super) heard: Instant,
}

impl Owned {
    pub(super) fn new(key: u128) -> Self {
        Self {
            entries: HashMap::with_hasher(Secret::new(!key)),
            counts: BTreeMap::new(),
            armed: Instant::NEVER,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &Station)> {
        self.entries.iter()
    }

    /// Keeps the stations of which `keep` answers so.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&Key, &Station) -> bool) {
        let Self { entries, counts, .. } = self;
        entries.retain(|key, station| {
            let is_kept = keep(key, station);
            if !is_kept && let Some(count) = counts.get_mut(&key.ifindex) {
                *count = count.saturating_sub(1);
            }
            is_kept
        });
    }

    fn insert(&mut self, key: Key, station: Station) {
        self.entries.insert(key, station);
        *self.counts.entry(key.ifindex).or_default() += 1;
    }

    fn count(&self, ifindex: IfIndex) -> usize {
        self.counts.get(&ifindex).copied().unwrap_or(0)
    }
}

/// A CPU has heard a station.
pub(super) fn heard(cpu: &mut Cpu, key: Key, behind: Behind) {
    let Cpu { fdb, tables, now, .. } = cpu;
    let (Some(fdb), Some(settings)) = (fdb, settings(tables, key.ifindex)) else { return };
    if settings.is_static(key.mac) || !is_there(tables, key.ifindex, behind) {
        return;
    }
    let is_full = fdb.owned.count(key.ifindex) >= settings.addresses_max;
    let event = match fdb.owned.entries.get_mut(&key) {
        Some(station) if station.behind == behind => {
            station.heard = *now;
            return;
        }
        Some(station) => {
            *station = Station { behind, heard: *now };
            Count::FdbMoved
        }
        None if is_full => return cpu.count(Count::FdbFull),
        None => {
            fdb.owned.insert(key, Station { behind, heard: *now });
            Count::FdbLearnt
        }
    };
    let due = *now + interval(settings);
    arm(cpu, due);
    cpu.count(event);
    tell_all(cpu, Msg::Learnt { key, behind });
}

/// Time between two looks for silent stations.
fn interval(settings: &Settings) -> Duration {
    settings.refresh() / 2
}

fn arm(cpu: &mut Cpu, at: Instant) {
    let Some(fdb) = cpu.fdb.as_mut() else { return };
    if at < fdb.owned.armed {
        fdb.owned.armed = at;
        cpu.timers.set(at, Timer::Fdb);
    }
}

/// Forgets the stations that have been silent for too long.
pub(super) fn timer(cpu: &mut Cpu) {
    let Cpu { fdb, tables, now, .. } = cpu;
    let Some(fdb) = fdb.as_mut().filter(|fdb| fdb.owned.armed <= *now) else { return };
    fdb.owned.armed = Instant::NEVER;
    let (mut over, mut next) = (Vec::new(), Instant::NEVER);
    fdb.owned.retain(|key, station| {
        let Some(settings) = settings(tables, key.ifindex) else { return false };
        if settings.is_over(station.heard, *now) {
            over.push(*key);
            return false;
        }
        next = next.min(*now + interval(settings));
        true
    });
    for key in over {
        cpu.count(Count::FdbExpired);
        tell_all(cpu, Msg::Gone { key });
    }
    if next < Instant::NEVER {
        arm(cpu, next);
    }
}

/// Forgets the stations of which `which` answers so; returns how many there were.
pub(super) fn forget(cpu: &mut Cpu, mut which: impl FnMut(&Key, &Station) -> bool) -> usize {
    let Some(fdb) = cpu.fdb.as_mut() else { return 0 };
    let mut gone = Vec::new();
    fdb.owned.retain(|key, station| {
        let is_over = which(key, station);
        if is_over {
            gone.push(*key);
        }
        !is_over
    });
    for key in &gone {
        tell_all(cpu, Msg::Gone { key: *key });
    }
    gone.len()
}
