//! One CPU's copies of neighbour entries: link addresses in use, and the packets that wait for one.

use std::collections::VecDeque;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use pkt::Pkt;
use wire::ether::Mac;

use super::recent::Front;
use super::{Key, LinkAddrs, Msg, is_on_link, link, link_addrs, tell};
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::ip::icmp::{self, Problem};
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;
use crate::turn::netisr::dispatch;

/// Packets that wait for one neighbour at the most; the oldest makes room. Enough for all fragments of a datagram, and
/// for the first flight of a few connections.
//= https://www.rfc-editor.org/rfc/rfc1122#section-2.3.2.2
//# The link layer SHOULD save (rather than discard) at least one (the latest) packet of each set of packets destined to the same unresolved IP address, and transmit the saved packet when the address has been resolved.
pub const HOLD_EACH_MAX: usize = 64;
/// Packets that wait on one CPU at the most; the oldest makes room.
pub const HOLD_MAX: usize = 512;
/// Unanswered neighbours that are remembered at the most; the oldest makes room.
const FAILED_MAX: usize = 1024;
// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<(Instant, Key)>() <= 32);
/// Time for which a neighbour that did not answer is not tried again.
const FAILED_KEPT: Duration = Duration::from_secs(3);
/// New neighbours that one CPU may ask for on one interface: one in this time …
const ASK_EVERY: Duration = Duration::from_micros(3906);
/// … after so many at once. Thus a sweep of a /64 costs 256 questions per second, and no known neighbour anything.
const ASK_BURST: u32 = 256;

/// Copies of entries, whichever CPU owns them.
pub(super) struct Copies {
    table: HashMap<Key, Neighbour, Secret>,
    /// Entries whose use need not be reported, as far as there is room.
    front: Front,
    held: Held,
    /// Stale copies used for the first time in this turn.
    used: Vec<Key>,
    /// Neighbours that did not answer, oldest first. Some may have been heard of since.
    failed: VecDeque<(Instant, Key)>,
    limits: Vec<Limit>,
}

/// The reachability of a neighbour, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reachability {
    /// It is asked for, or has not answered just now.
    Silent,
    /// Not requested here yet.
    Unknown,
    /// Packets can go to it at once.
    Known,
}

enum Neighbour {
    /// Packets can go.
    Known(Known),
    /// The owner is asked; packets with these numbers wait, oldest first. Some may have made room since.
    Waiting(VecDeque<usize>),
    /// It did not answer; not asked again until then.
    Failed(Instant),
}

struct Known {
    addrs: LinkAddrs,
    /// The owner wants to know when this is used.
    report: bool,
}

/// Waiting packets of all neighbours, numbered as they come. A new one takes the place of the oldest.
struct Held {
    slots: Vec<Option<(usize, Pkt)>>,
    next: usize,
}

/// Limits events to a rate after a burst: `full_at` is when all tokens will be back.
#[derive(Clone, Copy, Default)]
struct Limit {
    full_at: Instant,
}

impl Copies {
    pub(super) fn new(key: u128) -> Self {
        Self {
            table: HashMap::with_hasher(Secret::new(key)),
            front: Front::new(),
            held: Held { slots: (0..HOLD_MAX).map(|_| None).collect(), next: 0 },
            used: Vec::new(),
            failed: VecDeque::new(),
            limits: Vec::new(),
        }
    }

    /// The fast path.
    #[inline]
    pub(super) fn link_addrs(&mut self, key: &Key) -> Option<LinkAddrs> {
        self.front.get(key).or_else(|| self.look_up(key))
    }

    pub(super) fn settled(&self, key: &Key) -> Option<LinkAddrs> {
        match self.table.get(key) {
            Some(Neighbour::Known(Known { addrs, report: false })) => Some(*addrs),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn standing(&self, key: &Key, now: Instant) -> Reachability {
        if self.front.get(key).is_some() {
            return Reachability::Known;
        }
        match self.table.get(key) {
            Some(Neighbour::Known(_)) => Reachability::Known,
            Some(Neighbour::Waiting(_)) => Reachability::Silent,
            Some(Neighbour::Failed(until)) if *until > now => Reachability::Silent,
            Some(Neighbour::Failed(_)) | None => Reachability::Unknown,
        }
    }

    fn look_up(&mut self, key: &Key) -> Option<LinkAddrs> {
        let Some(Neighbour::Known(known)) = self.table.get_mut(key) else { return None };
        if core::mem::take(&mut known.report) {
            self.used.push(*key);
        }
        self.front.set(key, known.addrs);
        Some(known.addrs)
    }

    /// Returns the number of neighbours whose use is to be reported.
    pub(super) const fn used(&self) -> usize {
        self.used.len()
    }

    /// Takes back all uses but so many: nothing was sent.
    pub(super) fn take_back(&mut self, used: usize) {
        for key in self.used.drain(used.min(self.used.len())..) {
            self.front.forget(&key);
            if let Some(Neighbour::Known(known)) = self.table.get_mut(&key) {
                known.report = true;
            }
        }
    }

    pub(super) fn next_used(&mut self) -> Option<Key> {
        self.used.pop()
    }

    pub(super) fn drain(&mut self) -> Vec<Pkt> {
        self.table.clear();
        self.front.clear();
        self.held.slots.iter_mut().filter_map(Option::take).map(|(_, pkt)| pkt).collect()
    }

    /// Packets that wait here for `key`.
    pub(super) fn waiting_for(&self, key: &Key) -> usize {
        match self.table.get(key) {
            Some(Neighbour::Waiting(numbers)) => {
                numbers.iter().filter(|number| self.held.has(**number)).count()
            }
            _ => 0,
        }
    }

    fn may_ask(&mut self, ifindex: IfIndex, now: Instant) -> bool {
        let at = usize::from(ifindex);
        if at >= self.limits.len() {
            self.limits.resize(at + 1, Limit::default());
        }
        self.limits[at].allows(now)
    }

    /// Puts a packet among those that wait for `key`; answers the one that had to make room.
    fn wait(&mut self, key: Key, pkt: Pkt) -> [Option<Pkt>; 2] {
        let Some(Neighbour::Waiting(numbers)) = self.table.get_mut(&key) else { return [Some(pkt), None] };
        let older = if numbers.len() >= HOLD_EACH_MAX { numbers.pop_front() } else { None };
        let older = older.and_then(|number| self.held.take(number));
        let (number, oldest) = self.held.put(pkt);
        numbers.push_back(number);
        [older, oldest]
    }

    fn replace(&mut self, key: Key, copy: Option<Neighbour>) -> Vec<Pkt> {
        self.front.forget(&key);
        let old = match copy {
            Some(copy) => self.table.insert(key, copy),
            None => self.table.remove(&key),
        };
        let Some(Neighbour::Waiting(numbers)) = old else { return Vec::new() };
        numbers.into_iter().filter_map(|number| self.held.take(number)).collect()
    }

    fn remember_failure(&mut self, key: Key, until: Instant) {
        if self.failed.len() >= FAILED_MAX {
            self.forget_oldest_failure();
        }
        self.failed.push_back((until, key));
    }

    fn forget_failures(&mut self, now: Instant) {
        while self.failed.front().is_some_and(|(until, _)| *until <= now) {
            self.forget_oldest_failure();
        }
    }

    fn forget_oldest_failure(&mut self) {
        let Some((until, key)) = self.failed.pop_front() else { return };
        if matches!(self.table.get(&key), Some(Neighbour::Failed(of)) if *of == until) {
            self.table.remove(&key);
        }
    }
}

/// Keeps a packet for `key`, or sends it, or ends it: whatever is known by now.
pub(super) fn hold(cpu: &mut Cpu, key: Key, pkt: Pkt) {
    cpu.neigh.copies.forget_failures(cpu.now);
    match cpu.neigh.copies.table.get(&key) {
        Some(Neighbour::Known(_)) => send(cpu, key, pkt),
        Some(Neighbour::Failed(_)) => unreachable(cpu, pkt),
        Some(Neighbour::Waiting(_)) => wait(cpu, key, pkt),
        None => ask(cpu, key, pkt),
    }
}

/// The owner knows the link address.
pub(super) fn known(cpu: &mut Cpu, key: Key, mac: Mac, stale: bool) {
    let Some(ifnet) = cpu.tables.ifnet(key.ifindex) else { return gone(cpu, key, DropReason::InterfaceGone) };
    let known = Known { addrs: link_addrs(mac, ifnet), report: stale };
    if !cpu.neigh.copies.table.contains_key(&key) {
        return;
    }
    for pkt in replace(cpu, key, Some(Neighbour::Known(known))) {
        send(cpu, key, pkt);
    }
}

/// Handles the owner's failure to resolve a neighbour.
pub(super) fn failed(cpu: &mut Cpu, key: Key) {
    let until = cpu.now + FAILED_KEPT;
    cpu.neigh.copies.remember_failure(key, until);
    for pkt in replace(cpu, key, Some(Neighbour::Failed(until))) {
        unreachable(cpu, pkt);
    }
}

/// The owner knows nothing any more; packets that wait die of `reason`.
pub(super) fn gone(cpu: &mut Cpu, key: Key, reason: DropReason) {
    for pkt in replace(cpu, key, None) {
        cpu.drop_pkt(pkt, reason);
    }
}

/// Replaces what is known of `key`, and answers the packets that waited for it. Nothing was made of a copy that could
/// not be sent by, so a neighbour that is new, or does not answer, makes no adjacency stale.
fn replace(cpu: &mut Cpu, key: Key, copy: Option<Neighbour>) -> Vec<Pkt> {
    let copies = &mut cpu.neigh.copies;
    if matches!(copies.table.get(&key), Some(Neighbour::Known(_))) {
        cpu.adjs.make_all_stale();
    }
    copies.replace(key, copy)
}

/// The neighbour has been heard of: it may be asked again.
pub(super) fn heard_of(cpu: &mut Cpu, key: Key) {
    if let Entry::Occupied(copy) = cpu.neigh.copies.table.entry(key)
        && matches!(copy.get(), Neighbour::Failed(_))
    {
        copy.remove();
    }
}

/// Drops what is not on a link any more, and takes over changed link addresses of our own.
pub(super) fn tables_changed(cpu: &mut Cpu) {
    let tables = cpu.tables.clone();
    let copies = &mut cpu.neigh.copies;
    let lost: Vec<Key> = copies.table.keys().filter(|key| !is_on_link(&tables, key)).copied().collect();
    copies.front.clear();
    for (key, copy) in &mut copies.table {
        if let (Neighbour::Known(known), Some(ifnet)) = (copy, tables.ifnet(key.ifindex)) {
            known.addrs[6..].copy_from_slice(&ifnet.mac.octets());
        }
    }
    for key in lost {
        gone(cpu, key, DropReason::InterfaceGone);
    }
}

/// Asks the owner, though no packet waits.
pub(super) fn seek(cpu: &mut Cpu, key: Key) {
    cpu.neigh.copies.forget_failures(cpu.now);
    if !cpu.neigh.copies.table.contains_key(&key) && begin(cpu, key) {
        want(cpu, key);
    }
}

/// Asks the owner for the neighbour of a waiting packet, unless too many are pending.
fn ask(cpu: &mut Cpu, key: Key, pkt: Pkt) {
    if !begin(cpu, key) {
        return cpu.drop_pkt(pkt, DropReason::NeighTableFull);
    }
    // The answer may be here at once.
    wait(cpu, key, pkt);
    want(cpu, key);
}

/// Whether another one may be asked for; it is waited for then.
///
/// A neighbour that speaks to us first is learned from what it says; this limit never concerns it.
//= https://www.rfc-editor.org/rfc/rfc6583#section-6
fn begin(cpu: &mut Cpu, key: Key) -> bool {
    let may_ask = cpu.neigh.copies.may_ask(key.ifindex, cpu.now);
    if may_ask {
        cpu.neigh.copies.table.insert(key, Neighbour::Waiting(VecDeque::new()));
    } else {
        cpu.count(Count::NeighLimited);
    }
    may_ask
}

fn want(cpu: &mut Cpu, key: Key) {
    let (owner, from) = (cpu.placement.owner_of(key.addr), cpu.id);
    tell(cpu, owner, Msg::Wanted { key, from });
}

/// Drops  [`DropReason::NeighHoldFull`].
fn wait(cpu: &mut Cpu, key: Key, pkt: Pkt) {
    cpu.count(Count::NeighHeld);
    for pkt in cpu.neigh.copies.wait(key, pkt).into_iter().flatten() {
        cpu.drop_pkt(pkt, DropReason::NeighHoldFull);
    }
}

fn send(cpu: &mut Cpu, key: Key, mut pkt: Pkt) {
    let next = link(cpu, &mut pkt, key.addr);
    dispatch(cpu, pkt, next);
}

/// Reports to the sender of the packet, also a local one.
///
/// Drops  [`DropReason::NeighUnreachable`].
//= https://www.rfc-editor.org/rfc/rfc1812#section-3.3.2
//# The link layer MUST NOT report a Destination Unreachable error to IP solely because there is no ARP cache entry for a destination
fn unreachable(cpu: &mut Cpu, pkt: Pkt) {
    icmp::answer(cpu, pkt, Problem::HostUnreachable);
}

impl Held {
    /// Answers the packet's number, and the packet that had been there for longest.
    fn put(&mut self, pkt: Pkt) -> (usize, Option<Pkt>) {
        let number = self.next;
        self.next = number.wrapping_add(1);
        (number, self.slots[slot_of(number)].replace((number, pkt)).map(|(_, pkt)| pkt))
    }

    /// Takes the packet with this number out, if it still waits.
    fn take(&mut self, number: usize) -> Option<Pkt> {
        let held = &mut self.slots[slot_of(number)];
        held.take_if(|(of, _)| *of == number).map(|(_, pkt)| pkt)
    }

    fn has(&self, number: usize) -> bool {
        matches!(&self.slots[slot_of(number)], Some((of, _)) if *of == number)
    }
}

const fn slot_of(number: usize) -> usize {
    number % HOLD_MAX
}

impl Limit {
    fn allows(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now);
        let allowed = full_at.since(now) < ASK_EVERY * ASK_BURST;
        if allowed {
            self.full_at = full_at + ASK_EVERY;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{Bench, addr6};

    #[test]
    fn of_too_many_neighbours_that_did_not_answer_the_oldest_may_be_asked_again() {
        let mut bench = Bench::new(1);
        let cpu = bench.cpu();
        let key = |host: usize| Key { ifindex: 1, addr: addr6(1, u16::try_from(host).unwrap()).into() };
        let is_remembered =
            |cpu: &Cpu, host| matches!(cpu.neigh.copies.table.get(&key(host)), Some(Neighbour::Failed(_)));
        for host in 1..=FAILED_MAX + 1 {
            failed(cpu, key(host));
        }
        assert!(!is_remembered(cpu, 1) && is_remembered(cpu, 2) && is_remembered(cpu, FAILED_MAX + 1));
        assert_eq!((cpu.neigh.copies.failed.len(), cpu.neigh.copies.table.len()), (FAILED_MAX, FAILED_MAX));
    }
}
