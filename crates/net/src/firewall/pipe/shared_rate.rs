//! The time of a pipe, sold to the CPUs that share it.
//!
//! A pipe of so many bits a second can send for a second each second. That time is sold: a sender takes the
//! next free piece, and may send in it. A piece is sold once, so the pipe's CPUs together never send more
//! than its bandwidth; a CPU that has nothing to send buys nothing, so the others have its share.

use core::sync::atomic::Ordering::Relaxed;

use pkt::shared::AtomicU64;

use crate::base::time::Instant;

/// Nanoseconds that are sold at once, if one packet does not need more: so the word that all CPUs share is written at
/// most 100,000 times a second, whatever the bandwidth. A CPU that buys more than it needs just now uses the rest
/// later; it is ahead by no more than this.
pub(super) const CHUNK: u64 = 10_000;

/// Accounts that a flow may have in the table of a pipe.
const PROBES: usize = 16;
/// Accounts of a pipe's flows at the most.
const ACCOUNTS_MAX: usize = 16_384;
/// Lower bits of a claim: how many CPUs have it.
const USERS: u64 = 0xffff;

/// The accounts of a pipe: one, or one for each of its flows.
#[derive(Debug)]
pub(super) struct Accounts {
    /// The first is of the pipe as a whole, and of all flows that found no other.
    slots: Box<[Account]>,
}

/// One account, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Account {
    /// Until when all time is sold, nanoseconds.
    sold: AtomicU64,
    /// Owner, and number of CPUs that use it; 0 if it is free.
    claim: AtomicU64,
}

/// The account of the pipe as a whole.
pub(super) const WHOLE: u32 = 0;

impl Accounts {
    /// Accounts for so many flows; 0 for a pipe without any.
    pub(super) fn new(flows: usize) -> Self {
        let flows = if flows == 0 { 0 } else { flows.clamp(PROBES, ACCOUNTS_MAX).next_power_of_two() };
        Self { slots: (0..=flows).map(|_| Account::default()).collect() }
    }

    /// Buys `span` nanoseconds, beginning at `from` or later; answers when they begin.
    pub(super) fn buy(&self, slot: u32, from: Instant, span: u64) -> Instant {
        let Some(account) = self.slots.get(slot as usize) else { return from };
        let begin = |sold: u64| sold.max(from.ns());
        let old = account.sold.fetch_update(Relaxed, Relaxed, |sold| Some(begin(sold).saturating_add(span)));
        Instant::from_ns(old.map_or_else(|_| from.ns(), begin))
    }

    /// Finds the account of the flow with this hash, or makes one; it must be released once for each time.
    pub(super) fn claim(&self, hash: u64) -> u32 {
        let tag = (hash | 1 << 63) & !USERS;
        // A CPU that claims the same flow just now may have found another place: the first one counts for both.
        let Some(mine) = self.join(tag).or_else(|| self.found(tag)) else { return WHOLE };
        match self.window(tag).find(|at| self.users(*at, tag).is_some()) {
            Some(first) if first != mine && self.add(first, tag) => {
                self.release(mine);
                first
            }
            _ => mine,
        }
    }

    /// Gives up an account. The last one frees it.
    pub(super) fn release(&self, slot: u32) {
        let Some(account) = self.slots.get(slot as usize).filter(|_| slot != WHOLE) else { return };
        let _ = account.claim.fetch_update(Relaxed, Relaxed, |claim| match claim & USERS {
            0 => None,
            1 => Some(0),
            _ => Some(claim - 1),
        });
    }

    /// Uses an account that is there already.
    fn join(&self, tag: u64) -> Option<u32> {
        self.window(tag).find(|at| self.add(*at, tag))
    }

    /// Takes a free place.
    fn found(&self, tag: u64) -> Option<u32> {
        let free = |at: &u32| self.slots[*at as usize].claim.compare_exchange(0, tag | 1, Relaxed, Relaxed);
        self.window(tag).find(|at| free(at).is_ok())
    }

    fn add(&self, at: u32, tag: u64) -> bool {
        let more = |claim: u64| (claim & !USERS == tag && claim & USERS < USERS).then_some(claim + 1);
        self.slots[at as usize].claim.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    fn users(&self, at: u32, tag: u64) -> Option<u64> {
        let claim = self.slots[at as usize].claim.load(Relaxed);
        (claim & !USERS == tag).then_some(claim & USERS)
    }

    /// Where an account may be.
    fn window(&self, tag: u64) -> impl Iterator<Item = u32> {
        let flows = self.slots.len() - 1;
        let first = usize::try_from(tag >> 16).unwrap_or(0);
        (0..PROBES.min(flows)).map(move |step| u32::try_from(1 + (first + step) % flows).unwrap_or(WHOLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_of_time_is_sold_once() {
        let accounts = Accounts::new(0);
        let at = Instant::from_ns;
        assert_eq!(accounts.buy(WHOLE, at(100), 50), at(100));
        assert_eq!(accounts.buy(WHOLE, at(100), 50), at(150), "the next one");
        assert_eq!(accounts.buy(WHOLE, at(10), 5), at(200), "nobody buys what is over");
        assert_eq!(accounts.buy(WHOLE, at(1000), 5), at(1000), "nobody wanted it before");
    }

    #[test]
    fn a_flow_has_one_account_for_all_its_cpus_until_the_last_has_left() {
        let accounts = Accounts::new(64);
        let (here, there) = (accounts.claim(7 << 32), accounts.claim(7 << 32));
        assert_eq!(here, there);
        assert_ne!(here, WHOLE);
        assert_ne!(accounts.claim(8 << 32), here);
        accounts.release(here);
        assert!(accounts.users(here, 7 << 32 | 1 << 63).is_some());
        accounts.release(there);
        assert!(accounts.users(here, 7 << 32 | 1 << 63).is_none());
        accounts.release(there);
        assert_eq!(accounts.claim(7 << 32), here, "to give up too often does no harm");
    }

    #[test]
    fn flows_beyond_the_table_share_the_account_of_the_pipe() {
        let accounts = Accounts::new(PROBES);
        let claims: Vec<u32> = (0..100_u64).map(|flow| accounts.claim(flow << 32)).collect();
        assert_eq!(claims.iter().filter(|slot| **slot != WHOLE).count(), PROBES);
        claims.into_iter().for_each(|slot| accounts.release(slot));
        assert_ne!(accounts.claim(99 << 32), WHOLE, "there is room again");
    }
}
