//! The free buffers of one CPU.

use std::sync::Arc;

use crate::arena::Arena;
use crate::pkt::Pkt;
use crate::vec::PktVec;

/// The free buffers of one CPU: last in first out, so that a busy CPU turns over a few hundred warm ones.
///
/// A buffer that dies on another CPU waits in that CPU's pool until the roll-up sends it home in bulk
/// ([`Pool::outgoing`]). What a receive ring has taken is charged to it; at its allowance [`Pool::take_for`]
/// refuses, the ring is not refilled, and the device drops: feedback instead of running out.
pub struct Pool {
    arena: Arc<Arena>,
    id: u16,
    /// Its number among all pools of the process, which its buffers bear.
    home: u16,
    free: Vec<Pkt>,
    total: usize,
    /// Dead buffers of other pools, by pool.
    foreign: Vec<Vec<Pkt>>,
    /// Their number, all together.
    away: usize,
    rings: Vec<Allowance>,
    stats: PoolStats,
}

/// A receive ring's account with the pool that feeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingId(u16);

#[derive(Clone, Copy, Debug)]
struct Allowance {
    out: usize,
    max: usize,
    closed: bool,
}

/// Counters of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Times that [`Pool::take`] found nothing.
    pub empty: u64,
    /// Times that a receive ring was at its allowance.
    pub refused: u64,
    /// Fewest free buffers ever seen.
    pub low_water: usize,
    /// Buffers of other pools sent home.
    pub sent_home: u64,
    /// Own buffers that came home from other CPUs.
    pub came_home: u64,
}

impl Pool {
    pub(crate) fn new(arena: &Arc<Arena>, id: usize, pools: usize, slots: usize) -> Self {
        let (id, first) = (u16::try_from(id).unwrap_or(u16::MAX), id * slots);
        let home = arena.first_home().saturating_add(id);
        let free = (first..first + slots).rev().filter_map(|i| u32::try_from(i).ok());
        Self {
            arena: Arc::clone(arena),
            id,
            home,
            free: free.map(|index| arena.first_handle(index, home)).collect(),
            total: slots,
            foreign: (0..pools).map(|_| Vec::new()).collect(),
            away: 0,
            rings: Vec::new(),
            stats: PoolStats { low_water: slots, ..PoolStats::default() },
        }
    }

    /// This pool's number among those of its arena: the CPU's.
    #[must_use]
    pub const fn id(&self) -> u16 {
        self.id
    }

    /// The memory that the buffers lie in.
    #[must_use]
    pub const fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Takes an empty buffer. `None` when there is none: the packet that needed it dies of it.
    #[inline]
    pub fn take(&mut self) -> Option<Pkt> {
        let Some(pkt) = self.free.pop() else {
            self.stats.empty += 1;
            return None;
        };
        self.stats.low_water = self.stats.low_water.min(self.free.len());
        Some(pkt)
    }

    /// Takes up to `n` empty buffers, or as many as fit, to the end of `into`; the buffers that are new there.
    #[inline]
    pub fn take_many<'a>(&mut self, into: &'a mut PktVec, n: usize) -> &'a mut [Pkt] {
        let wanted = n.min(into.room());
        if wanted == 0 {
            return &mut [];
        }
        let taken = into.append_last(&mut self.free, wanted);
        self.stats.empty += u64::from(taken.len() < wanted);
        self.stats.low_water = self.stats.low_water.min(self.free.len());
        taken
    }

    /// Opens an account for a receive ring that may have at most `max` buffers out.
    pub fn open_ring(&mut self, max: usize) -> RingId {
        let account = Allowance { out: 0, max, closed: false };
        let settled = self.rings.iter().position(|old| old.closed && old.out == 0);
        match settled {
            Some(at) => self.rings[at] = account,
            None => self.rings.push(account),
        }
        RingId(u16::try_from(settled.unwrap_or(self.rings.len() - 1)).unwrap_or(u16::MAX))
    }

    /// Closes an account: nothing is taken for it any more, and it is used for another ring when all of its buffers
    /// have come home.
    pub fn close_ring(&mut self, ring: RingId) {
        if let Some(account) = self.rings.get_mut(usize::from(ring.0)) {
            account.closed = true;
            account.max = 0;
        }
    }

    /// Takes an empty buffer for a receive ring. `None` when there is none or the ring is at its allowance.
    pub fn take_for(&mut self, ring: RingId) -> Option<Pkt> {
        let account = self.rings.get_mut(usize::from(ring.0))?;
        if account.out >= account.max {
            self.stats.refused += 1;
            return None;
        }
        account.out += 1;
        let Some(mut pkt) = self.take() else {
            self.rings[usize::from(ring.0)].out -= 1;
            return None;
        };
        pkt.slot_head_mut().charged = ring.0;
        Some(pkt)
    }

    /// Takes up to `n` empty buffers for a receive ring, or as many as fit and its allowance lets it have, to the end of
    /// `into`; the buffers that are new there.
    #[inline]
    pub fn take_many_for<'a>(&mut self, ring: RingId, into: &'a mut PktVec, n: usize) -> &'a mut [Pkt] {
        let Some(account) = self.rings.get(usize::from(ring.0)) else { return &mut [] };
        let left = account.max.saturating_sub(account.out);
        self.stats.refused += u64::from(left < n.min(into.room()));
        let taken = self.take_many(into, n.min(left));
        taken.iter_mut().for_each(|pkt| pkt.slot_head_mut().charged = ring.0);
        self.rings[usize::from(ring.0)].out += taken.len();
        taken
    }

    /// Buffers that a receive ring has out: in its device, in the stack, on other CPUs.
    #[must_use]
    pub fn charged_to(&self, ring: RingId) -> usize {
        self.rings.get(usize::from(ring.0)).map_or(0, |account| account.out)
    }

    /// The smallest allowance of those receive rings that have less than an eighth of theirs left; `None` if all have
    /// more. Then what keeps buffers from them must give some back.
    #[must_use]
    pub fn shortage(&self) -> Option<usize> {
        let short =
            self.rings.iter().filter(|account| account.max.saturating_sub(account.out) * 8 < account.max);
        short.map(|account| account.max).min()
    }

    /// Buffers that all receive rings together have out.
    #[must_use]
    pub fn charged(&self) -> usize {
        self.rings.iter().map(|account| account.out).sum()
    }

    /// Ends a packet: all buffers of its chain are free again, or wait here to be sent home.
    #[inline]
    pub fn give(&mut self, mut pkt: Pkt) {
        if self.is_plain(&pkt) {
            pkt.reset();
            self.free.push(pkt);
        } else {
            self.give_chain(pkt);
        }
    }

    /// Ends all packets of a vector.
    #[inline]
    pub fn give_all(&mut self, pkts: &mut PktVec) {
        for pkt in pkts.iter_mut() {
            if !self.is_plain(pkt) {
                return self.give_unlike(pkts);
            }
            pkt.reset();
        }
        pkts.append_to(&mut self.free);
    }

    /// [`Pool::give_all`] for packets of which some are charged, chained, or another pool's; and some reset already.
    fn give_unlike(&mut self, pkts: &mut PktVec) {
        if pkts.iter().all(|pkt| !pkt.is_chained() && pkt.home() == self.home) {
            pkts.iter_mut().for_each(|pkt| self.empty(pkt));
            pkts.append_to(&mut self.free);
        } else {
            self.give_mixed(pkts);
        }
    }

    /// Whether it is one buffer of this pool that no receive ring answers for.
    #[inline]
    fn is_plain(&self, pkt: &Pkt) -> bool {
        // Both are compared at once.
        let owner = |home, charged| u32::from(home) << 16 | u32::from(charged);
        !pkt.is_chained() && owner(pkt.home(), pkt.slot_head().charged) == owner(self.home, u16::MAX)
    }

    #[inline(never)]
    fn give_chain(&mut self, pkt: Pkt) {
        let mut rest = Some(pkt);
        while let Some(mut pkt) = rest {
            rest = pkt.unchain();
            if pkt.home() == self.home {
                self.put(pkt);
            } else {
                self.give_foreign(pkt);
            }
        }
    }

    /// One buffer of another pool. One of another arena is lost, and counted there: it would be taken for memory that is not its own.
    #[inline(always)]
    fn give_foreign(&mut self, pkt: Pkt) {
        let pool = pkt.home().wrapping_sub(self.arena.first_home());
        if let Some(away) = self.foreign.get_mut(usize::from(pool)) {
            away.push(pkt);
            self.away += 1;
        }
    }

    /// Ends packets some of which are not [plain](Self::is_plain): most likely, those that other CPUs received.
    #[inline(never)]
    fn give_mixed(&mut self, pkts: &mut PktVec) {
        pkts.take_each(|_, pkt| {
            if pkt.home() != self.home && !pkt.is_chained() {
                self.give_foreign(pkt);
            } else {
                self.give_chain(pkt);
            }
        });
    }

    /// Takes back own buffers that died on another CPU, many at once.
    pub fn come_home_all(&mut self, pkts: &mut PktVec) {
        self.stats.came_home += pkts.len() as u64;
        pkts.fetch_to_write();
        self.give_all(pkts);
    }

    /// Takes back own buffers that died on another CPU.
    #[inline]
    pub fn come_home(&mut self, pkt: Pkt) {
        self.stats.came_home += 1;
        self.give(pkt);
    }

    #[inline]
    fn put(&mut self, mut pkt: Pkt) {
        self.empty(&mut pkt);
        self.free.push(pkt);
    }

    /// Makes an own buffer one that is free: no receive ring answers for it any more, and nothing is in it.
    #[inline]
    fn empty(&mut self, pkt: &mut Pkt) {
        if let Some(account) = self.rings.get_mut(usize::from(pkt.slot_head().charged)) {
            account.out -= 1;
            pkt.slot_head_mut().charged = u16::MAX;
        }
        pkt.reset();
    }

    /// The dead buffers that belong to pool `home`, to be sent there in bulk at the roll-up.
    pub fn outgoing(&mut self, home: usize) -> Outgoing<'_> {
        Outgoing { pkts: self.foreign.get_mut(home), away: &mut self.away, sent: &mut self.stats.sent_home }
    }

    /// Buffers that are free here.
    #[inline]
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Dead buffers of other pools that wait here.
    #[inline]
    #[must_use]
    pub const fn foreign(&self) -> usize {
        self.away
    }

    /// Buffers that belong to this pool, wherever they are.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.total
    }

    /// Returns this pool's counters.
    #[must_use]
    pub const fn stats(&self) -> PoolStats {
        self.stats
    }
}

/// Buffers on their way home. Those not taken stay for the next roll-up.
pub struct Outgoing<'a> {
    pkts: Option<&'a mut Vec<Pkt>>,
    away: &'a mut usize,
    sent: &'a mut u64,
}

impl Outgoing<'_> {
    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pkts.as_ref().is_none_or(|pkts| pkts.is_empty())
    }

    /// Offers each waiting buffer to `send`, until it gives one back because the way is full.
    pub fn send_each(self, mut send: impl FnMut(Pkt) -> Result<(), Pkt>) {
        let Some(pkts) = self.pkts else { return };
        let before = pkts.len();
        while let Some(pkt) = pkts.pop() {
            if let Err(back) = send(pkt) {
                pkts.push(back);
                break;
            }
        }
        let sent = before - pkts.len();
        *self.away -= sent;
        *self.sent += sent as u64;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let foreign = self.foreign.drain(..).flatten();
        let slots = self.free.drain(..).chain(foreign).map(core::mem::forget).count();
        self.arena.came_home(slots);
    }
}

#[cfg(test)]
mod tests;
