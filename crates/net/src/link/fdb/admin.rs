//! Listing and deletion of learnt addresses.

use wire::ether::Mac;

use super::{Behind, Key, Static, owner, owner_of};
use crate::base::time::Duration;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// An address that an interface knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Interface and link address.
    pub key: Key,
    /// The place of the station.
    pub behind: Behind,
    /// Whether it comes from the configuration.
    pub is_static: bool,
    /// Time until it is forgotten, if it stays silent; `None` for never.
    pub left: Option<Duration>,
}

/// Returns the addresses that this CPU owns, static ones included, in order. All CPUs' together are the stack's.
#[must_use]
pub fn entries(cpu: &Cpu) -> Vec<Entry> {
    let Some(fdb) = &cpu.fdb else { return Vec::new() };
    let learnt = fdb.owned.iter().filter_map(|(key, station)| {
        let settings = super::settings(&cpu.tables, key.ifindex)?;
        let end = station.heard + settings.timeout;
        let left = (!settings.timeout.is_zero()).then(|| end.since(cpu.now));
        Some(Entry { key: *key, behind: station.behind, is_static: false, left })
    });
    let own = cpu.tables.ifnets().filter(|ifnet| ifnet.kind.learns() && owner_of(cpu, ifnet.index) == cpu.id);
    let statics = own.flat_map(|ifnet| {
        ifnet.fdb.statics.iter().map(|&Static { mac, behind }| {
            let key = Key { ifindex: ifnet.index, mac };
            Entry { key, behind, is_static: true, left: None }
        })
    });
    let mut all: Vec<_> = learnt.chain(statics).collect();
    all.sort_unstable();
    all
}

/// Forgets a learnt address; false if this CPU does not own such an entry. To be called on all CPUs.
pub fn delete(cpu: &mut Cpu, ifindex: IfIndex, mac: Mac) -> bool {
    owner::forget(cpu, |key, _| *key == Key { ifindex, mac }) > 0
}

/// Forgets all addresses that an interface has learnt and this CPU owns; returns how many. To be called on all CPUs.
pub fn flush(cpu: &mut Cpu, ifindex: IfIndex) -> usize {
    owner::forget(cpu, |key, _| key.ifindex == ifindex)
}

/// Forgets the addresses behind a port of a bridge, if this CPU owns the bridge's.
pub(crate) fn flush_port(cpu: &mut Cpu, bridge: IfIndex, port: IfIndex) {
    owner::forget(cpu, |key, station| key.ifindex == bridge && station.behind == Behind::Port(port));
}
