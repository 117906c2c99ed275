//! Learnt link addresses: the port of a bridge, or the remote end of a VXLAN interface, behind which a station is.
//!
//! One CPU *owns* the addresses of an interface: that of the interface's number. It decides what is learnt, counts it
//! against the bound, and forgets stations that have been silent. Every CPU has a *copy*, which the owner writes by
//! messages, so that a lookup needs no lock:
//!
//! ```text
//!   a CPU that receives                    the owner
//!     new, or elsewhere ──── Heard ────▶  learns it, if there is room
//!     copy              ◀─── Learnt ────
//!     heard again       ──── Heard ────▶  keeps it; once an eighth of the timeout is enough
//!     forgets           ◀─── Gone ──────  silent, deleted, flushed
//! ```
//!
//! Static addresses come with the tables. They are never learnt, moved or forgotten.

mod admin;
mod owner;
mod recent;

use core::hash::{Hash, Hasher};
use core::net::IpAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use wire::ether::Mac;

pub(crate) use self::admin::flush_port;
pub use self::admin::{Entry, delete, entries, flush};
use self::recent::Recent;
use crate::base::count::Count;
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::link::tables::{IfIndex, Tables};
use crate::turn::cpu::{Cpu, CpuId};

/// Addresses that one interface may be configured to learn.
pub const ADDRESSES_MAX: usize = 1 << 16;
/// Messages about stations that a CPU sends in one turn.
pub const TELL_MAX: u16 = 64;

/// The place of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behind {
    /// Behind a port of a bridge.
    Port(IfIndex),
    /// Behind the remote end of a VXLAN.
    Vtep(IpAddr),
}

/// A static address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Static {
    /// Link address of the station; zero of a VXLAN's: a remote end that gets what is flooded.
    pub mac: Mac,
    /// Its place.
    pub behind: Behind,
}

/// The settings of an interface that learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Time after which a silent station is forgotten; zero for never.
    pub timeout: Duration,
    /// Addresses that are learnt.
    pub addresses_max: usize,
    /// Static addresses.
    pub statics: Arc<[Static]>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(1200), addresses_max: 2000, statics: Arc::new([]) }
    }
}

impl Settings {
    /// Returns the least time between two refreshes of an active entry that a CPU reports.
    fn refresh(&self) -> Duration {
        (self.timeout / 8).max(Duration::from_secs(1))
    }

    /// Whether a station of which the owner was last told at `heard` is to be forgotten. Since then it was perhaps heard
    /// for another [`Self::refresh`].
    fn is_over(&self, heard: Instant, now: Instant) -> bool {
        !self.timeout.is_zero() && now >= heard + self.timeout + self.refresh()
    }

    fn is_static(&self, mac: Mac) -> bool {
        self.statics.iter().any(|entry| entry.mac == mac)
    }
}

/// A link address on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The interface that learns.
    pub ifindex: IfIndex,
    /// Link address of a station.
    pub mac: Mac,
}

impl Key {
    const fn number(&self) -> u64 {
        let [a, b, c, d, e, f] = self.mac.octets();
        let [hi, lo] = self.ifindex.to_be_bytes();
        u64::from_be_bytes([hi, lo, a, b, c, d, e, f])
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.number());
    }
}

/// A message between CPUs about stations.
#[derive(Clone, Copy, Debug)]
pub enum Msg {
    /// To the owner: a frame of a station has come.
    Heard {
        /// Station.
        key: Key,
        /// Its place.
        behind: Behind,
    },
    /// From the owner: send by this place.
    Learnt {
        /// Station.
        key: Key,
        /// Its place.
        behind: Behind,
    },
    /// From the owner: nothing is known any more.
    Gone {
        /// Station.
        key: Key,
    },
}

/// The stations that a CPU knows, and those that it owns.
pub(crate) struct Fdb {
    copies: HashMap<Key, Replica, Secret>,
    /// Copies that were looked up lately.
    recent: Recent,
    owned: owner::Owned,
    /// The turn in which the owners were last told something, and how often in it.
    told: (Instant, u16),
}

/// A CPU's copy of an entry.
#[derive(Clone, Copy)]
struct Replica {
    behind: Behind,
    /// It comes with the tables.
    is_static: bool,
    /// When this CPU last told the owner that it had heard the station.
    told: Instant,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<(Key, Replica)>() <= 40 && size_of::<(Key, owner::Station)>() <= 40);

impl Fdb {
    fn new(key: u128) -> Self {
        Self {
            copies: HashMap::with_hasher(Secret::new(key)),
            recent: Recent::new(),
            owned: owner::Owned::new(key),
            told: (Instant::START, 0),
        }
    }

    /// Whether one more message may be sent in the turn of `now`.
    fn may_tell(&mut self, now: Instant) -> bool {
        if self.told.0 != now {
            self.told = (now, 0);
        }
        self.told.1 += 1;
        self.told.1 <= TELL_MAX
    }
}

/// Returns the place of a station, if it is known. It is found sooner the next time.
#[inline]
pub(crate) fn find(cpu: &mut Cpu, key: &Key) -> Option<Behind> {
    let Fdb { copies, recent, .. } = &mut **cpu.fdb.as_mut()?;
    let found = recent.find(key);
    if found.is_some() {
        return found;
    }
    let behind = copies.get(key)?.behind;
    // Whether it is heard as well is not known.
    recent.remember(key, behind, Instant::START);
    Some(behind)
}

/// Returns the place of a station, if it is known, and leaves all as it is.
#[cfg(test)]
pub(crate) fn peek(cpu: &Cpu, key: &Key) -> Option<Behind> {
    let fdb = cpu.fdb.as_ref()?;
    let behind = fdb.copies.get(key).map(|copy| copy.behind);
    let recent = fdb.recent.find(key);
    assert!(recent.is_none() || recent == behind, "{key:?}: {recent:?}, and {behind:?} in the table");
    behind
}

/// Notes that a frame of a station has come from `behind`. The owner is told if that is new, and at times.
#[inline]
pub(crate) fn heard(cpu: &mut Cpu, key: Key, behind: Behind) {
    let now = cpu.now;
    if !cpu.fdb.as_ref().is_some_and(|fdb| fdb.recent.is_quiet(&key, behind, now)) {
        note(cpu, key, behind, now);
    }
}

#[cold]
fn note(cpu: &mut Cpu, key: Key, behind: Behind, now: Instant) {
    let Some(settings) = settings(&cpu.tables, key.ifindex) else { return };
    let refresh = settings.refresh();
    let Some(fdb) = cpu.fdb.as_mut() else { return };
    if let Some(known) = fdb.copies.get_mut(&key) {
        if known.behind == behind {
            let quiet = if known.is_static { Instant::NEVER } else { known.told + refresh };
            fdb.recent.remember(&key, behind, quiet);
        }
        if known.is_static || known.behind == behind && now < known.told + refresh {
            return;
        }
        known.told = now;
    }
    if !fdb.may_tell(now) {
        return cpu.count(Count::FdbDeferred);
    }
    let owner = owner_of(cpu, key.ifindex);
    tell(cpu, owner, Msg::Heard { key, behind });
}

/// Handles a message from another CPU.
pub fn message(cpu: &mut Cpu, msg: Msg) {
    match msg {
        Msg::Heard { key, behind } => owner::heard(cpu, key, behind),
        Msg::Learnt { key, behind } => learnt(cpu, key, behind),
        Msg::Gone { key } => gone(cpu, key),
    }
}

/// The timer of the stations that this CPU owns.
pub(crate) fn timer(cpu: &mut Cpu) {
    owner::timer(cpu);
}

/// Forgets the stations of interfaces that are gone or down, and takes static addresses over.
pub(crate) fn tables_changed(cpu: &mut Cpu) {
    if cpu.tables.ifnets().any(|ifnet| ifnet.kind.learns()) && cpu.fdb.is_none() {
        let key = u128::from(cpu.secret.draw()) << 64 | u128::from(cpu.secret.draw());
        cpu.fdb = Some(Box::new(Fdb::new(key)));
    }
    let Cpu { tables, fdb, now, .. } = cpu;
    let Some(fdb) = fdb else { return };
    fdb.owned.retain(|key, station| {
        is_there(tables, key.ifindex, station.behind)
            && settings(tables, key.ifindex).is_some_and(|of| !of.is_static(key.mac))
    });
    fdb.recent.clear();
    fdb.copies.retain(|key, copy| !copy.is_static && is_there(tables, key.ifindex, copy.behind));
    for ifnet in tables.ifnets().filter(|ifnet| ifnet.up && ifnet.kind.learns()) {
        for Static { mac, behind } in ifnet.fdb.statics.iter().copied() {
            let key = Key { ifindex: ifnet.index, mac };
            fdb.copies.insert(key, Replica { behind, is_static: true, told: *now });
        }
    }
}

fn learnt(cpu: &mut Cpu, key: Key, behind: Behind) {
    let Cpu { tables, fdb, now, .. } = cpu;
    let Some(fdb) = fdb.as_mut().filter(|_| is_there(tables, key.ifindex, behind)) else { return };
    fdb.recent.forget(&key);
    let copy = fdb.copies.entry(key).or_insert(Replica { behind, is_static: false, told: *now });
    if !copy.is_static {
        copy.behind = behind;
    }
}

fn gone(cpu: &mut Cpu, key: Key) {
    let Some(fdb) = cpu.fdb.as_mut() else { return };
    if fdb.copies.get(&key).is_some_and(|copy| !copy.is_static) {
        fdb.recent.forget(&key);
        fdb.copies.remove(&key);
    }
}

/// Whether an interface is up and learns, and the place is one of its.
fn is_there(tables: &Tables, ifindex: IfIndex, behind: Behind) -> bool {
    let is_of = |port: IfIndex| {
        let port = tables.ifnet(port).filter(|port| port.up).and_then(|port| port.port);
        port.is_some_and(|port| port.bridge == ifindex)
    };
    settings(tables, ifindex).is_some()
        && match behind {
            Behind::Port(port) => is_of(port),
            Behind::Vtep(_) => true,
        }
}

/// The settings of an interface that is up and learns.
fn settings(tables: &Tables, ifindex: IfIndex) -> Option<&Settings> {
    tables.ifnet(ifindex).filter(|ifnet| ifnet.up && ifnet.kind.learns()).map(|ifnet| &ifnet.fdb)
}

/// The CPU that owns the addresses of an interface; of a bridge, also its spanning tree and its memberships.
pub(crate) fn owner_of(cpu: &Cpu, ifindex: IfIndex) -> CpuId {
    CpuId(ifindex % cpu.placement.cpus())
}

fn tell(cpu: &mut Cpu, to: CpuId, msg: Msg) {
    if to == cpu.id { message(cpu, msg) } else { cpu.peers.send(to, crate::turn::msg::Msg::Fdb(msg)) }
}

fn tell_all(cpu: &mut Cpu, msg: Msg) {
    for other in (0..cpu.placement.cpus()).map(CpuId) {
        tell(cpu, other, msg);
    }
}

#[cfg(test)]
mod tests;
