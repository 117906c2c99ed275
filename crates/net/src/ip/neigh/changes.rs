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

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv6Addr};

    use super::super::{delete, set_static};
    use super::*;
    use crate::testkit::Bench;

    #[test]
    fn changes_are_noted_only_for_a_reader_and_what_it_misses_is_counted() {
        let mut bench = Bench::with(1, 1, |_| ());
        let cpu = &mut bench.netisrs[0].cpu;
        let key = |n: usize| {
            let addr = Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::try_from(n).unwrap());
            Key { ifindex: 1, addr: IpAddr::V6(addr) }
        };
        let mac = Mac([2, 0, 0, 0, 0, 7]);
        assert!(set_static(cpu, key(0), mac));
        assert_eq!(take_changes(cpu), NeighChanges::default());
        watch(cpu, true);
        (1..=CHANGES_MAX + 3).for_each(|n| assert!(set_static(cpu, key(n), mac)));
        let taken = take_changes(cpu);
        assert_eq!((taken.list.len(), taken.lost), (CHANGES_MAX, 3));
        assert_eq!((taken.list[0].key, taken.list[0].before, taken.list[0].mac), (key(1), None, Some(mac)));
        assert!(delete(cpu, key(1)));
        let taken = take_changes(cpu);
        assert_eq!((taken.list[0].before, taken.list[0].mac, taken.lost), (Some(mac), None, 0));
        watch(cpu, false);
        assert!(delete(cpu, key(2)));
        assert_eq!(take_changes(cpu), NeighChanges::default());
    }
}
