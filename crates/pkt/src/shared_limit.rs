//! Numbers that all CPUs count together, each under a key, up to a limit that is never passed.
//!
//! A number is one word with its key's fingerprint in it, so counting up and down is one compare-and-exchange, and what
//! falls to zero is gone by the same. Only a thread that begins a number has to be alone, or it would be begun twice: it claims the
//! key's bucket for a handful of loads and a store. A thread that finds a bucket claimed tries again a bounded number of times,
//! and then goes without ([`Refused::Busy`]); no thread waits for another.
//!
//! Keys are hashes of 64 bits that no attacker can aim at. That two live ones agree in bucket and fingerprint is as good as
//! impossible; if they did, they would be counted together, and the limit would still hold.

use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Numbers in a bucket: with the claim they are a cache line. The model checker does with fewer.
const WAYS: usize = if cfg!(feature = "loom") { 2 } else { 7 };
/// Numbers per bucket when there are as many as there should be room for. Each key has two buckets, so twice as many
/// would fit nearly always.
const LOAD: usize = 3;
/// Attempts to claim a bucket.
const ATTEMPTS: usize = if cfg!(feature = "loom") { 2 } else { 200 };
/// Bits of the count; the others are the fingerprint.
const COUNT_BITS: u32 = 16;

/// The numbers.
#[derive(Debug)]
pub struct Tally {
    buckets: Box<[Bucket]>,
}

#[derive(Debug)]
#[repr(align(64))]
struct Bucket {
    /// 1 while a thread begins a number whose first bucket this is.
    claim: AtomicU64,
    /// Fingerprint and count; 0 for none. There is no count of 0.
    numbers: [AtomicU64; WAYS],
}

/// Why a number did not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is at its limit.
    Limit,
    /// Others are beginning numbers in the same place.
    Busy,
    /// There is no room for another number.
    Full,
}

/// The result of an attempt to count up.
enum Found {
    Counted,
    AtLimit,
    Nowhere,
}

impl Tally {
    /// Room for at least `numbers` different ones, and on average for twice as many.
    #[must_use]
    pub fn new(numbers: usize) -> Self {
        let buckets = (numbers / LOAD).max(1).next_power_of_two();
        Self { buckets: (0..buckets).map(|_| Bucket::new()).collect() }
    }

    /// Counts up, if the number is less than `limit`; begins it if there is none.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing has changed.
    pub fn take(&self, key: u64, limit: u16) -> Result<(), Refused> {
        for _ in 0..ATTEMPTS {
            match self.count_up(key, limit) {
                Found::Counted => return Ok(()),
                Found::AtLimit => return Err(Refused::Limit),
                Found::Nowhere => {}
            }
            let claim = &self.places(key)[0].claim;
            // Acquire: what others have begun under their claims is seen under ours.
            if claim.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
                let taken = self.begin(key, limit);
                claim.store(0, Release);
                return taken;
            }
            core::hint::spin_loop();
        }
        Err(Refused::Busy)
    }

    /// Counts down. Once for each time that the caller counted up.
    pub fn give(&self, key: u64) {
        for number in self.numbers(key) {
            let mut word = number.load(Relaxed);
            while is_of(word, key) {
                let less = if count(word) == 1 { 0 } else { word - 1 };
                match number.compare_exchange_weak(word, less, AcqRel, Relaxed) {
                    Ok(_) => return,
                    Err(now) => word = now,
                }
            }
        }
        debug_assert!(false, "given without having been taken");
    }

    /// The number, now or a moment ago.
    #[must_use]
    pub fn get(&self, key: u64) -> u16 {
        self.numbers(key).map(|number| number.load(Relaxed)).find(|word| is_of(*word, key)).map_or(0, count)
    }

    /// Only under the claim of the key's first bucket.
    fn begin(&self, key: u64, limit: u16) -> Result<(), Refused> {
        match self.count_up(key, limit) {
            Found::Counted => return Ok(()),
            Found::AtLimit => return Err(Refused::Limit),
            Found::Nowhere if limit == 0 => return Err(Refused::Limit),
            Found::Nowhere => {}
        }
        let one = fingerprint(key) << COUNT_BITS | 1;
        // Others may fill the same places with numbers of other keys.
        let is_begun =
            self.numbers(key).any(|number| number.compare_exchange(0, one, AcqRel, Relaxed).is_ok());
        if is_begun { Ok(()) } else { Err(Refused::Full) }
    }

    fn count_up(&self, key: u64, limit: u16) -> Found {
        for number in self.numbers(key) {
            let mut word = number.load(Relaxed);
            while is_of(word, key) {
                if count(word) >= limit {
                    return Found::AtLimit;
                }
                match number.compare_exchange_weak(word, word + 1, AcqRel, Relaxed) {
                    Ok(_) => return Found::Counted,
                    Err(now) => word = now,
                }
            }
        }
        Found::Nowhere
    }

    fn numbers(&self, key: u64) -> impl Iterator<Item = &AtomicU64> {
        self.places(key).into_iter().flat_map(|bucket| &bucket.numbers)
    }

    /// The two buckets that a key's number may be in.
    #[expect(clippy::cast_possible_truncation, reason = "some bits are as good as others")]
    fn places(&self, key: u64) -> [&Bucket; 2] {
        let mask = self.buckets.len() - 1;
        let first = key as usize & mask;
        let second = (fingerprint(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        let second = if second == first { first ^ (mask & 1) } else { second };
        [&self.buckets[first], &self.buckets[second]]
    }
}

impl Bucket {
    fn new() -> Self {
        Self { claim: AtomicU64::new(0), numbers: core::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

/// Never 0: that is a free place.
const fn fingerprint(key: u64) -> u64 {
    let print = key >> COUNT_BITS;
    if print == 0 { 1 } else { print }
}

const fn is_of(word: u64, key: u64) -> bool {
    word >> COUNT_BITS == fingerprint(key)
}

#[expect(clippy::cast_possible_truncation, reason = "the lower bits are the count")]
const fn count(word: u64) -> u16 {
    word as u16
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use core::sync::atomic::AtomicU16;
    use std::thread;

    use super::*;

    fn key(n: u64) -> u64 {
        (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)
    }

    #[test]
    fn a_number_grows_to_its_limit_and_is_gone_when_all_is_given_back() {
        const NUMBERS: u64 = if cfg!(miri) { 25 } else { 100 };
        let tally = Tally::new(usize::try_from(NUMBERS).unwrap());
        for n in 0..NUMBERS {
            for count in 0..10 {
                assert_eq!((tally.get(key(n)), tally.take(key(n), 10)), (count, Ok(())));
            }
            assert_eq!(tally.take(key(n), 10), Err(Refused::Limit));
        }
        (0..NUMBERS).for_each(|n| (0..10).for_each(|_| tally.give(key(n))));
        let words = tally.buckets.iter().flat_map(|bucket| &bucket.numbers);
        assert!(words.into_iter().all(|word| word.load(Relaxed) == 0));
        assert_eq!(tally.take(key(1), 0), Err(Refused::Limit));
        assert_eq!(tally.get(key(1)), 0);
    }

    #[test]
    fn there_is_room_for_as_many_numbers_as_were_asked_for_and_an_end_to_it() {
        const SOME: u64 = if cfg!(miri) { 1 << 5 } else { 1 << 10 };
        let tally = Tally::new(3 * usize::try_from(SOME).unwrap());
        assert!((0..3 * SOME).all(|n| tally.take(key(n), 1).is_ok()));
        let refused = (3 * SOME..8 * SOME).filter(|n| tally.take(key(*n), 1) == Err(Refused::Full)).count();
        assert!(refused >= usize::try_from(SOME).unwrap(), "{refused} of more than there are places");
        assert!((0..3 * SOME).all(|n| tally.get(key(n)) == 1));
    }

    #[test]
    fn a_bucket_that_stays_claimed_refuses_and_goes_on_with_what_it_has() {
        let tally = Tally::new(1);
        tally.take(key(1), 9).unwrap();
        tally.buckets[0].claim.store(1, Relaxed);
        assert_eq!((tally.take(key(1), 9), tally.take(key(2), 9)), (Ok(()), Err(Refused::Busy)));
    }

    #[test]
    fn no_limit_is_passed_however_many_count_at_once() {
        const LIMIT: u16 = 3;
        // What happens in between, miri shows in a few rounds, each of which takes it long.
        const ROUNDS: u64 = if cfg!(miri) { 25 } else { 20_000 };
        let (tally, inside) = (Tally::new(4), [const { AtomicU16::new(0) }; 4]);
        thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (tally, inside) = (&tally, &inside);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let n = (round ^ thread) % 4;
                        if tally.take(key(n), LIMIT).is_ok() {
                            let inside = &inside[usize::try_from(n).unwrap()];
                            assert!(inside.fetch_add(1, AcqRel) < LIMIT);
                            inside.fetch_sub(1, AcqRel);
                            tally.give(key(n));
                        }
                    }
                });
            }
        });
        assert!((0..4).all(|n| tally.get(key(n)) == 0));
    }
}
