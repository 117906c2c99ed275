//! The entries that this CPU owns: it resolves and watches them for all CPUs.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use wire::ether::Mac;

use super::changes::{NeighChanges, note};
use super::nud::{Advert, Clock, Do, Nud, State};
use super::{Key, Msg, is_on_link, replicas, solicit, tell};
use crate::base::count::Count;
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::ip::host_cache;
use crate::ip::ip6::autoconf;
use crate::link::tables::{REACHABLE, RETRANS};
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::timers::Timer;

/// Entries that one CPU owns at the most. A new one then takes the place of the stale one that has not been touched
/// for longest; entries in use stay.
pub const ENTRIES_MAX: usize = 16_384;
/// Unresolved entries. A new one takes the place of the oldest of these only.
//= https://www.rfc-editor.org/rfc/rfc6583#section-6
pub const INCOMPLETE_MAX: usize = 1024;
/// Entries whose time has come that are dealt with before other timers have their turn.
const AT_ONCE_MAX: usize = 16;

/// A message heard from a neighbour.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NeighMessage {
    /// An ARP packet from it.
    Arp {
        mac: Mac,
        /// An answer, and to us.
        solicited: bool,
        /// It asked for one of our addresses: worth an entry.
        asked_us: bool,
    },
    /// A neighbour solicitation for one of our addresses.
    Solicit { mac: Mac },
    /// A router advertisement.
    Router { mac: Option<Mac> },
    /// A redirect that leads to it.
    Redirect { mac: Mac, is_router: bool },
    /// A neighbour advertisement.
    Advert { mac: Option<Mac>, solicited: bool, replace: bool, router: bool },
}

/// A CPU's own entries.
pub(super) struct Owned {
    table: HashMap<Key, Owner, Secret>,
    /// When entries are due, soonest first.
    due: BTreeSet<(Instant, Key)>,
    /// When the timer fires that is set.
    armed: Instant,
    /// Entries that may make room, longest untouched first.
    incomplete: BTreeMap<u64, Key>,
    stale: BTreeMap<u64, Key>,
    touches: u64,
    /// Changes of link addresses, while they are read.
    pub(super) changes: Option<Box<NeighChanges>>,
}

/// An entry.
pub(super) struct Owner {
    pub(super) nud: Nud,
    pub(super) is_router: bool,
    /// CPUs that have a copy, or wait for one.
    holders: Vec<CpuId>,
    /// Its place in `incomplete` or `stale`.
    touched: u64,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<(Key, Owner)>() <= 88);

impl Owned {
    pub(super) fn new(key: u128) -> Self {
        Self {
            table: HashMap::with_hasher(Secret::new(key)),
            due: BTreeSet::new(),
            armed: Instant::NEVER,
            incomplete: BTreeMap::new(),
            stale: BTreeMap::new(),
            touches: 0,
            changes: None,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &Owner)> {
        self.table.iter()
    }

    /// Takes an entry out, to change it.
    fn take(&mut self, key: &Key) -> Option<Owner> {
        let entry = self.table.remove(key)?;
        self.due.remove(&(entry.nud.until, *key));
        self.incomplete.remove(&entry.touched);
        self.stale.remove(&entry.touched);
        Some(entry)
    }

    /// Puts an entry (back) in, as the one touched last.
    fn put(&mut self, key: Key, mut entry: Owner) {
        self.touches += 1;
        entry.touched = self.touches;
        match entry.nud.state {
            State::Incomplete => self.incomplete.insert(self.touches, key),
            State::Stale => self.stale.insert(self.touches, key),
            _ => None,
        };
        if entry.nud.until != Instant::NEVER {
            self.due.insert((entry.nud.until, key));
        }
        self.table.insert(key, entry);
    }

    /// Returns the entry that must go before a new one in `state` can come. `Err` if all are in use.
    fn victim(&self, state: State) -> Result<Option<Key>, Full> {
        let incomplete = || self.incomplete.values().next().copied();
        let stale = || self.stale.values().next().copied();
        let is_incomplete = state == State::Incomplete;
        if is_incomplete && self.incomplete.len() >= INCOMPLETE_MAX {
            return Ok(incomplete());
        }
        if self.table.len() < ENTRIES_MAX {
            return Ok(None);
        }
        let victim = if is_incomplete { incomplete().or_else(stale) } else { stale().or_else(incomplete) };
        victim.map(Some).ok_or(Full)
    }

    fn next_due(&self, now: Instant) -> Option<Key> {
        self.due.first().filter(|(at, _)| *at <= now).map(|(_, key)| *key)
    }
}

/// All entries are in use.
#[derive(Debug)]
struct Full;

/// A CPU wants to send to a neighbour.
pub(super) fn wanted(cpu: &mut Cpu, key: Key, from: CpuId) {
    if let Some(entry) = cpu.neigh.owned.table.get_mut(&key) {
        if !entry.holders.contains(&from) {
            entry.holders.push(from);
        }
        if let Some((mac, stale)) = entry.nud.view() {
            tell(cpu, from, Msg::Known { key, mac, stale });
        }
        return;
    }
    if !insert(cpu, key, Nud::incomplete(cpu.now), vec![from]) {
        return tell(cpu, from, Msg::Gone { key });
    }
    change(cpu, key, |entry, clock| entry.nud.tick(clock));
}

/// A CPU sends to a stale neighbour.
pub(super) fn used(cpu: &mut Cpu, key: Key) {
    change(cpu, key, |entry, clock| {
        entry.nud.used(clock);
        Do::Nothing
    });
}

/// A CPU hears nothing from beyond a neighbour.
pub(super) fn doubted(cpu: &mut Cpu, key: Key) {
    change(cpu, key, |entry, clock| {
        entry.nud.doubted(clock);
        Do::Nothing
    });
}

/// Something was heard of a neighbour, on the CPU that owns its entry.
///
/// Only a station that asks for one of our addresses gets a new entry: there will be a reply to send. Other messages change
/// existing entries only, so that the table cannot be filled with addresses that we never talk to.
//= https://www.rfc-editor.org/rfc/rfc4861#section-7.2.5
//# There is no need to create an entry if none exists, since the recipient has apparently not initiated any communication with the target.
pub(crate) fn heard(cpu: &mut Cpu, key: Key, what: NeighMessage) {
    let is_known = cpu.neigh.owned.table.contains_key(&key);
    let is_new = !is_known && what.is_worth_an_entry();
    if !is_known && !is_new || is_new && !insert(cpu, key, Nud::incomplete(cpu.now), Vec::new()) {
        return;
    }
    replicas::heard_of(cpu, key);
    let (mut claimed, mut resigned) = (false, false);
    change(cpu, key, |entry, clock| {
        let was_router = entry.is_router;
        claimed = what.mac().is_some_and(|mac| entry.nud.is_claimed_by(mac));
        let what = entry.heard(what, clock);
        resigned = was_router && !entry.is_router;
        what
    });
    if resigned {
        autoconf::resigned(cpu, key);
        host_cache::lost(cpu, key);
    }
    cpu.counters.add(Count::NeighClaims, u64::from(claimed));
}

/// Deals with the entries whose time has come.
pub(super) fn timer(cpu: &mut Cpu) {
    if cpu.now < cpu.neigh.owned.armed {
        // An older timer than the one that counts.
        return;
    }
    cpu.neigh.owned.armed = Instant::NEVER;
    for _ in 0..AT_ONCE_MAX {
        let Some(key) = cpu.neigh.owned.next_due(cpu.now) else { break };
        change(cpu, key, |entry, clock| entry.nud.tick(clock));
    }
    arm(cpu);
}

/// Forgets entries that are on no link any more.
///
/// Tables come to the CPUs one after the other: a CPU with the next ones already, in which the link is back, may have
/// asked just before, and must not wait for ever.
pub(super) fn tables_changed(cpu: &mut Cpu) {
    let tables = cpu.tables.clone();
    let owned = &cpu.neigh.owned;
    let lost: Vec<Key> = owned.table.keys().filter(|key| !is_on_link(&tables, key)).copied().collect();
    for key in lost {
        remove(cpu, key);
    }
}

/// Sets an entry that nothing but [`remove`] changes. `false` if all entries are in use.
pub(super) fn set_permanent(cpu: &mut Cpu, key: Key, mac: Mac) -> bool {
    if !cpu.neigh.owned.table.contains_key(&key) && !insert(cpu, key, Nud::permanent(mac), Vec::new()) {
        return false;
    }
    replicas::heard_of(cpu, key);
    change(cpu, key, |entry, _| {
        entry.nud = Nud::permanent(mac);
        Do::Nothing
    })
}

/// Forgets an entry; answers whether there was one.
pub(super) fn remove(cpu: &mut Cpu, key: Key) -> bool {
    let Some(entry) = cpu.neigh.owned.take(&key) else { return false };
    note(cpu, key, entry.nud.view().map(|(mac, _)| mac), None);
    tell_all(cpu, &entry.holders, &Msg::Gone { key });
    true
}

/// Makes a new entry and the room for it. `false` if all entries are in use.
fn insert(cpu: &mut Cpu, key: Key, nud: Nud, holders: Vec<CpuId>) -> bool {
    let Ok(victim) = cpu.neigh.owned.victim(nud.state) else {
        cpu.count(Count::NeighLimited);
        return false;
    };
    if let Some(victim) = victim {
        cpu.count(Count::NeighEvicted);
        remove(cpu, victim);
    }
    let mac = nud.view().map(|(mac, _)| mac);
    cpu.neigh.owned.put(key, Owner { nud, is_router: false, holders, touched: 0 });
    note(cpu, key, None, mac);
    true
}

/// Changes an entry, does what follows from it, and tells the CPUs that have a copy. `false` if there is no entry.
fn change(cpu: &mut Cpu, key: Key, how: impl FnOnce(&mut Owner, Clock) -> Do) -> bool {
    let Some(mut entry) = cpu.neigh.owned.take(&key) else { return false };
    let clock = Clock::new(cpu.now, cpu.secret.draw(), times(cpu, &key));
    let before = entry.nud.view();
    let what = how(&mut entry, clock);
    let news = news(before, entry.nud.view());
    let (is_known, is_dead) = (entry.nud.view().is_some(), matches!(what, Do::GiveUp | Do::Forget));
    let mac = entry.nud.view().map(|(mac, _)| mac).filter(|_| !is_dead);
    note(cpu, key, before.map(|(mac, _)| mac), mac);
    let holders = if news.is_some() { entry.holders.clone() } else { Vec::new() };
    match what {
        Do::GiveUp => return die(cpu, &entry, &Msg::Failed { key }, key),
        Do::Forget => return die(cpu, &entry, &Msg::Gone { key }, key),
        Do::Nothing | Do::AskAll | Do::Ask(_) => cpu.neigh.owned.put(key, entry),
    }
    arm(cpu);
    if before.is_none() && is_known {
        autoconf::is_reachable(cpu, key, true);
    }
    match what {
        Do::AskAll => solicit::all(cpu, key),
        Do::Ask(mac) => solicit::one(cpu, key, mac),
        _ => {}
    }
    if let Some((mac, stale)) = news {
        tell_all(cpu, &holders, &Msg::Known { key, mac, stale });
    }
    true
}

/// Returns reachable time and retransmission interval of this family on this link: router advertisements may set them.
fn times(cpu: &Cpu, key: &Key) -> [Duration; 2] {
    let ifnet = cpu.tables.ifnet(key.ifindex).filter(|_| key.addr.is_ipv6());
    ifnet.map_or([REACHABLE, RETRANS], |ifnet| [ifnet.learned.reachable, ifnet.learned.retrans])
}

/// One that did not answer is no gateway. Silence alone, without a request, means nothing.
fn die(cpu: &mut Cpu, entry: &Owner, msg: &Msg, key: Key) -> bool {
    tell_all(cpu, &entry.holders, msg);
    if entry.nud.state != State::Stale {
        autoconf::is_reachable(cpu, key, false);
        host_cache::lost(cpu, key);
    }
    true
}

/// Returns the update for copies. Not that an entry is fresh again: their next report will find it so.
fn news(before: Option<(Mac, bool)>, after: Option<(Mac, bool)>) -> Option<(Mac, bool)> {
    let (mac, stale) = after?;
    let known = before.is_some_and(|(old_mac, old_stale)| old_mac == mac && (old_stale || !stale));
    (!known).then_some((mac, stale))
}

fn tell_all(cpu: &mut Cpu, holders: &[CpuId], msg: &Msg) {
    for holder in holders {
        tell(cpu, *holder, msg.clone());
    }
}

/// Sets the timer if the first entry is due before it fires.
fn arm(cpu: &mut Cpu) {
    let owned = &mut cpu.neigh.owned;
    let Some((at, _)) = owned.due.first().filter(|(at, _)| *at < owned.armed) else { return };
    owned.armed = *at;
    cpu.timers.set(*at, Timer::Neigh);
}

impl Owner {
    fn heard(&mut self, what: NeighMessage, clock: Clock) -> Do {
        match what {
            NeighMessage::Arp { mac, solicited, .. } => self.nud.arp(mac, solicited, clock),
            NeighMessage::Solicit { mac } => self.nud.solicited_us(mac, clock),
            NeighMessage::Redirect { mac, is_router } => {
                self.is_router |= is_router;
                self.nud.solicited_us(mac, clock)
            }
            NeighMessage::Router { mac } => {
                self.is_router = true;
                mac.map_or(Do::Nothing, |mac| self.nud.solicited_us(mac, clock))
            }
            NeighMessage::Advert { mac, solicited, replace, router } => {
                let advert = Advert { mac, solicited, replace };
                if self.nud.believes(advert) {
                    self.is_router = router;
                }
                self.nud.advertised(advert, clock)
            }
        }
    }
}

impl NeighMessage {
    const fn is_worth_an_entry(&self) -> bool {
        match self {
            Self::Arp { asked_us, .. } => *asked_us,
            Self::Solicit { .. } | Self::Redirect { .. } => true,
            Self::Router { mac } => mac.is_some(),
            Self::Advert { .. } => false,
        }
    }

    const fn mac(&self) -> Option<Mac> {
        match *self {
            Self::Arp { mac, .. } | Self::Solicit { mac } | Self::Redirect { mac, .. } => Some(mac),
            Self::Advert { mac, .. } | Self::Router { mac } => mac,
        }
    }
}
