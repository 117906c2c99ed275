//! The table of one family's flows: buckets of eight tags in a line, and entries apart from them.
//!
//! ```text
//!   hash ──▶ bucket │ 8 tags of a byte │ 8 places │   one line
//!                          └ equal? ──────▶ entry │ key, generation, value │
//! ```
//!
//! A lookup works on a whole vector in three passes, so that the misses of a pass overlap: hashes, and buckets fetched;
//! tags compared, and entries fetched; keys compared.
//!
//! Live flows cannot be pushed out. A flow is let in with its second packet within the memory of the doorkeeper, so a
//! scan of single packets never enters; and room is made only by what is stale, is over, or has been idle for [`IDLE`].

#![expect(clippy::cast_possible_truncation, reason = "of a hash some bits are as good as others")]

use pkt::prefetch_ref;

use super::key::Key;
use crate::base::time::{Duration, Instant};

/// Flows in one bucket.
const WAYS: usize = 8;
/// Entries per bucket, on average, when the table is full. Above 3 of 8 buckets begin to overflow.
const LOAD: usize = 2;
/// Flows that the doorkeeper remembers, at the least: as many as there are entries.
const DOORKEEPER_MIN: usize = 4096;
/// Number of such flows told apart whose hashes end alike. With one, two flows that come in turn keep each other out
/// for ever.
const FACES: usize = 8;
/// Entries that are looked at, at the most, to find one that may go.
const SWEEP: usize = 16;
/// Time after its last packet for which a flow is live.
pub(super) const IDLE: Duration = Duration::from_secs(5);

/// Flows of one family, and what was decided about them.
pub(super) struct Table<K, V> {
    buckets: Box<[Bucket]>,
    entries: Box<[Entry<K, V>]>,
    /// Entries from here on were never used.
    fresh: usize,
    /// Where the search for an entry that may go goes on.
    hand: usize,
    /// Generation and millisecond in which the last one found none.
    in_vain: Option<(u32, u32)>,
    /// Upper halves of the hashes of the flows that were turned away last, the latest first.
    doorkeeper: Box<[[u32; FACES]]>,
    secret: [u64; 4],
    /// Passes hand their results on by position.
    hashes: [u64; pkt::VEC_MAX],
}

/// The place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At(u32);

/// No entry.
const NOWHERE: At = At(u32::MAX);

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    /// A byte for each way; 0 if it is empty.
    tags: u64,
    at: [At; WAYS],
}

/// With a key of 16 bytes and a value of 36 this is one line.
#[repr(align(64))]
struct Entry<K, V> {
    key: K,
    value: V,
    /// Valid as long as this is the generation of what it was derived from.
    generation: u32,
    bucket: u32,
    used: Tick,
}

/// Bytes of an entry.
pub(super) const fn entry_bytes<K, V>() -> usize {
    size_of::<Entry<K, V>>()
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Bucket>() == 64);

/// Milliseconds, in half an entry's word: differences are right for 49 days.
#[derive(Clone, Copy)]
struct Tick(u32);

/// The result of an attempt to remember a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learnt {
    /// It has an entry.
    Yes,
    /// It was seen for the first time: the next packet of it will be let in.
    Later,
    /// All that could make room for it is live.
    Full,
}

impl<K: Key, V: Copy + Default> Table<K, V> {
    /// Room for about `entries` flows (rounded up to a power of two, at least a bucket's worth).
    pub(super) fn new(entries: usize, secret: [u64; 4]) -> Self {
        let entries = entries.max(WAYS).next_power_of_two();
        let empty = || Entry { key: K::NONE, value: V::default(), generation: 0, bucket: 0, used: Tick(0) };
        Self {
            buckets: vec![Bucket::EMPTY; entries / LOAD].into(),
            entries: (0..entries).map(|_| empty()).collect(),
            fresh: 0,
            hand: 0,
            in_vain: None,
            doorkeeper: vec![[0; FACES]; entries.max(DOORKEEPER_MIN) / FACES].into(),
            secret,
            hashes: [0; pkt::VEC_MAX],
        }
    }

    /// Looks a vector of flows up, position by position; finds those that were learnt in this `generation`.
    pub(super) fn probe(&mut self, keys: &[K], generation: u32, now: Instant, found: &mut [Option<At>]) {
        for (hash, key) in self.hashes.iter_mut().zip(keys) {
            *hash = key.hash(&self.secret);
            prefetch_ref(&self.buckets[place(*hash, self.buckets.len())]);
        }
        let now = Tick::at(now);
        for (hash, found) in self.hashes.iter().zip(&mut *found).take(keys.len()) {
            let at = self.buckets[place(*hash, self.buckets.len())].first(*hash);
            *found = self.entries.get(at.0 as usize).map(|entry| {
                prefetch_ref(entry);
                at
            });
        }
        for (key, found) in keys.iter().zip(found) {
            *found = found.and_then(|at| self.confirm(at, key, generation, now));
        }
    }

    /// The second look: the first entry with the right tag may be another flow's.
    #[inline]
    fn confirm(&mut self, at: At, key: &K, generation: u32, now: Tick) -> Option<At> {
        let entry = self.entries.get_mut(at.0 as usize)?;
        if entry.key != *key {
            return self.find(key).filter(|at| self.entries[at.0 as usize].generation == generation);
        }
        entry.used = now;
        (entry.generation == generation).then_some(at)
    }

    /// Returns the cached decision, if it is of this `generation`.
    #[inline]
    pub(super) fn get(&self, at: At, generation: u32) -> Option<&V> {
        self.entries
            .get(at.0 as usize)
            .filter(|entry| entry.generation == generation)
            .map(|entry| &entry.value)
    }

    /// [`Self::get`], to change it.
    pub(super) fn get_mut(&mut self, at: At, generation: u32) -> Option<&mut V> {
        let entry = self.entries.get_mut(at.0 as usize);
        entry.filter(|entry| entry.generation == generation).map(|entry| &mut entry.value)
    }

    /// Invalidates a decision; the flow keeps its place.
    pub(super) fn forget(&mut self, at: At) {
        if let Some(entry) = self.entries.get_mut(at.0 as usize) {
            entry.generation = 0;
            self.in_vain = None;
        }
    }

    /// Lets another flow have the place of one whose packets do not come here any more, or are the last. Until then it is
    /// found.
    pub(super) fn release(&mut self, at: At, now: Instant) {
        if let Some(entry) = self.entries.get_mut(at.0 as usize) {
            entry.used = Tick::idle_since(now);
            self.in_vain = None;
        }
    }

    /// Invalidates the decisions on all flows.
    pub(super) fn forget_all(&mut self) {
        self.entries.iter_mut().for_each(|entry| entry.generation = 0);
    }

    /// The entry of `key`, whatever its generation.
    #[cold]
    fn find(&self, key: &K) -> Option<At> {
        self.find_hashed(key, key.hash(&self.secret))
    }

    fn find_hashed(&self, key: &K, hash: u64) -> Option<At> {
        let bucket = &self.buckets[place(hash, self.buckets.len())];
        let mut found = bucket.matches(hash);
        while found != 0 {
            let at = bucket.at[(found.trailing_zeros() / 8) as usize % WAYS];
            if self.entries.get(at.0 as usize).is_some_and(|entry| entry.key == *key) {
                return Some(at);
            }
            found &= found - 1;
        }
        None
    }

    /// Caches a decision, if there is room. It is made only if the flow is let in; if none can be made, the flow is not
    /// cached, as if there were no room.
    pub(super) fn learn_from(
        &mut self,
        key: K,
        generation: u32,
        now: Instant,
        decide: impl FnOnce() -> Option<V>,
    ) -> Learnt {
        let hash = key.hash(&self.secret);
        let known = self.find_hashed(&key, hash);
        if known.is_none() && !self.knows(hash) {
            return Learnt::Later;
        }
        let Some(value) = decide() else { return Learnt::Full };
        let bucket = place(hash, self.buckets.len());
        let Some(at) = known.or_else(|| self.make_room(bucket, hash, generation, now)) else {
            return Learnt::Full;
        };
        let bucket = u32::try_from(bucket).unwrap_or_default();
        self.entries[at.0 as usize] = Entry { key, value, generation, bucket, used: Tick::at(now) };
        Learnt::Yes
    }

    /// Whether the doorkeeper has seen a flow with this hash lately. If not, it has now.
    fn knows(&mut self, hash: u64) -> bool {
        let face = (hash >> 32) as u32 | 1;
        let turned_away = &mut self.doorkeeper[place(hash, self.doorkeeper.len())];
        if turned_away.contains(&face) {
            return true;
        }
        turned_away.rotate_right(1);
        turned_away[0] = face;
        false
    }

    /// An entry for a new flow, entered in its bucket.
    fn make_room(&mut self, bucket: usize, hash: u64, generation: u32, now: Instant) -> Option<At> {
        let in_bucket = |table: &Self| {
            let ways = table.buckets[bucket];
            (0..WAYS).find(|way| ways.tag(*way) == 0 || table.may_go(ways.at[*way], generation, now))
        };
        let way = in_bucket(self)?;
        let at = if self.buckets[bucket].tag(way) == 0 {
            self.free(generation, now)?
        } else {
            self.buckets[bucket].at[way]
        };
        self.buckets[bucket].set(way, tag(hash), at);
        Some(at)
    }

    /// An entry that is in no bucket: one never used, or one that a bounded search finds stale or idle. A search in vain is not
    /// repeated within its millisecond: where all flows are live, new ones do not pay for searches.
    fn free(&mut self, generation: u32, now: Instant) -> Option<At> {
        if self.fresh < self.entries.len() {
            self.fresh += 1;
            return u32::try_from(self.fresh - 1).ok().map(At);
        }
        let this = (generation, Tick::at(now).0);
        if self.in_vain == Some(this) {
            return None;
        }
        self.in_vain = Some(this);
        let hands = (self.hand..self.hand + SWEEP).map(|at| at % self.entries.len());
        self.hand = (self.hand + SWEEP) % self.entries.len();
        let at = hands
            .filter_map(|at| u32::try_from(at).ok().map(At))
            .find(|at| self.may_go(*at, generation, now))?;
        self.in_vain = None;
        let bucket = self.entries[at.0 as usize].bucket as usize;
        self.buckets[bucket].forget(at);
        Some(at)
    }

    fn may_go(&self, at: At, generation: u32, now: Instant) -> bool {
        let entry = &self.entries[at.0 as usize];
        entry.generation != generation || entry.used.is_idle(now)
    }

    /// Flows that would be found.
    pub(super) fn live(&self, generation: u32, now: Instant) -> usize {
        let used = self.entries[..self.fresh].iter().enumerate();
        used.filter(|(at, _)| u32::try_from(*at).is_ok_and(|at| !self.may_go(At(at), generation, now)))
            .count()
    }

    /// Flows that there is room for.
    pub(super) fn capacity(&self) -> usize {
        self.entries.len()
    }
}

#[inline]
fn place(hash: u64, count: usize) -> usize {
    hash as usize & (count - 1)
}

/// A byte of the hash that its bucket does not depend on; never 0.
#[inline]
fn tag(hash: u64) -> u8 {
    ((hash >> 56) as u8).max(1)
}

impl Tick {
    fn at(now: Instant) -> Self {
        Self((now.ns() / 1_000_000) as u32)
    }

    /// A time of use that is too long ago.
    fn idle_since(now: Instant) -> Self {
        Self(Self::at(now).0.wrapping_sub(IDLE.as_millis() as u32))
    }

    fn is_idle(self, now: Instant) -> bool {
        u128::from(Self::at(now).0.wrapping_sub(self.0)) >= IDLE.as_millis()
    }
}

impl Bucket {
    const EMPTY: Self = Self { tags: 0, at: [NOWHERE; WAYS] };

    /// The first entry with the tag of `hash`.
    #[inline]
    fn first(&self, hash: u64) -> At {
        match self.matches(hash) {
            0 => NOWHERE,
            found => self.at[(found.trailing_zeros() / 8) as usize % WAYS],
        }
    }

    /// The highest bit of each byte that is equal to the tag. Above the first there may be false ones.
    #[inline]
    fn matches(&self, hash: u64) -> u64 {
        const LOW: u64 = u64::from_ne_bytes([1; WAYS]);
        const HIGH: u64 = LOW << 7;
        let differs = self.tags ^ (LOW * u64::from(tag(hash)));
        differs.wrapping_sub(LOW) & !differs & HIGH
    }

    fn tag(&self, way: usize) -> u8 {
        self.tags.to_le_bytes()[way]
    }

    fn set(&mut self, way: usize, tag: u8, at: At) {
        let mut tags = self.tags.to_le_bytes();
        tags[way] = tag;
        self.tags = u64::from_le_bytes(tags);
        self.at[way] = at;
    }

    fn forget(&mut self, at: At) {
        if let Some(way) = (0..WAYS).find(|way| self.tag(*way) != 0 && self.at[*way] == at) {
            self.set(way, 0, NOWHERE);
        }
    }
}

#[cfg(test)]
mod tests;
