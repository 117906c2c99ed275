//! Where a key's entry is, by its hash: buckets of eight tags in a line, as in the flow cache, but none is ever refused.
//!
//! There are always about three entries to a bucket: with each that comes one bucket may be split in two, and with each
//! that goes two may be joined (linear hashing: Litwin 1980), so a table of a million grows in steps of one cache line.
//! What does not fit into a bucket is in a further one behind it.

#![expect(clippy::cast_possible_truncation, reason = "of a hash some bits are as good as others")]

mod walk;

use super::slab::Slab;

pub use self::walk::position;

/// Bytes of a bucket.
pub const BUCKET: usize = size_of::<Bucket>();
/// Entries in one bucket.
const WAYS: usize = 8;
/// Entries per bucket on average, at the most and, if there are more buckets than at first, at the least.
const LOAD: usize = 3;
const LOAD_MIN: usize = 1;
/// Buckets that come and go at once: 32 KiB.
const SEGMENT: usize = 512;
/// No entry, no bucket.
const NOWHERE: u32 = u32::MAX;

/// Numbers of entries by the hashes of their keys.
#[derive(Debug)]
pub struct Index {
    segments: Vec<Box<[Bucket; SEGMENT]>>,
    /// A power of two less one: buckets with lower numbers were there before those that are now split …
    mask: usize,
    /// … up to this one, each into itself and the one `mask + 1` further.
    split: usize,
    len: usize,
    spilled: Slab<Bucket>,
}

/// The bucket of a hash, until an entry comes or goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place(u32);

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket {
    /// A byte for each way; 0 if it is empty.
    tags: u64,
    at: [u32; WAYS],
    /// Where it goes on, among the spilled ones.
    next: u32,
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

impl Index {
    /// Nothing, in one segment.
    #[inline]
    pub fn new() -> Self {
        let segments = vec![Box::new([Bucket::default(); SEGMENT])];
        Self { segments, mask: SEGMENT - 1, split: 0, len: 0, spilled: Slab::new() }
    }

    /// Fetches the bucket of `hash`, without waiting for it. Answers where that is.
    #[inline]
    pub fn prefetch(&self, hash: u64) -> Place {
        let place = self.place(hash);
        pkt::prefetch_ref(self.bucket(place));
        Place(place as u32)
    }

    /// The entry that is most likely the one with `hash`.
    #[inline]
    pub fn likely(&self, hash: u64) -> Option<u32> {
        self.likely_at(Place(self.place(hash) as u32), hash)
    }

    /// [`Index::likely`], if nothing has come or gone since [`Index::prefetch`] answered the place.
    #[inline]
    pub fn likely_at(&self, Place(place): Place, hash: u64) -> Option<u32> {
        let bucket = &self.segments.get(place as usize / SEGMENT)?[place as usize % SEGMENT];
        let found = bucket.matches(hash);
        (found != 0).then(|| bucket.at[way(found)])
    }

    /// The entry with `hash` that `is_it`.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut bucket = self.bucket(self.place(hash));
        loop {
            let mut found = bucket.matches(hash);
            while found != 0 {
                let at = bucket.at[way(found)];
                if is_it(at) {
                    return Some(at);
                }
                found &= found - 1;
            }
            bucket = self.spilled.get(bucket.next)?;
        }
    }

    /// Adds an entry. `hash_of` answers the hashes of others, for those that have to move.
    #[inline]
    pub fn insert(&mut self, hash: u64, at: u32, hash_of: impl Fn(u32) -> u64) {
        if self.len >= self.buckets() * LOAD {
            self.split(hash_of);
        }
        self.put(self.place(hash), hash, at);
        self.len += 1;
    }

    /// Takes an entry out.
    pub fn remove(&mut self, hash: u64, at: u32, hash_of: impl Fn(u32) -> u64) {
        let place = self.place(hash);
        if !self.take(place, at) {
            return;
        }
        self.len -= 1;
        if self.buckets() > SEGMENT && self.len < self.buckets() * LOAD_MIN {
            self.join(hash_of);
        }
    }

    /// Another entry has the same key from now on.
    pub fn replace(&mut self, hash: u64, was: u32, is: u32) {
        let mut bucket = self.bucket_mut(self.place(hash));
        while !bucket.replace(was, is) {
            let next = bucket.next;
            match self.spilled.get_mut(next) {
                Some(spilled) => bucket = spilled,
                None => return,
            }
        }
    }

    /// Buckets, those that only others lead to among them: what memory is taken for.
    #[inline]
    pub fn places(&self) -> usize {
        self.segments.len() * SEGMENT + self.spilled.places()
    }

    const fn buckets(&self) -> usize {
        self.mask + 1 + self.split
    }

    #[inline]
    const fn place(&self, hash: u64) -> usize {
        let place = hash as usize & self.mask;
        if place < self.split { hash as usize & (2 * self.mask + 1) } else { place }
    }

    #[inline]
    fn bucket(&self, place: usize) -> &Bucket {
        &self.segments[place / SEGMENT][place % SEGMENT]
    }

    fn bucket_mut(&mut self, place: usize) -> &mut Bucket {
        &mut self.segments[place / SEGMENT][place % SEGMENT]
    }

    /// Adds a segment. Never inlined: the caller's way passes it by.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.segments.push(Box::new([Bucket::default(); SEGMENT]));
    }

    /// Splits the next bucket in two.
    fn split(&mut self, hash_of: impl Fn(u32) -> u64) {
        let (from, to) = (self.split, self.split + self.mask + 1);
        if to == self.segments.len() * SEGMENT {
            self.grow();
        }
        self.split += 1;
        if self.split > self.mask {
            (self.mask, self.split) = (2 * self.mask + 1, 0);
        }
        self.empty(from, hash_of);
    }

    /// Joins the bucket that was split last with what it was split from.
    fn join(&mut self, hash_of: impl Fn(u32) -> u64) {
        if self.split == 0 {
            (self.mask, self.split) = (self.mask / 2, self.mask / 2 + 1);
        }
        self.split -= 1;
        let last = self.split + self.mask + 1;
        self.empty(last, hash_of);
        if last.is_multiple_of(SEGMENT) {
            self.segments.pop();
        }
    }

    /// Puts all that is in a bucket where it belongs now.
    fn empty(&mut self, place: usize, hash_of: impl Fn(u32) -> u64) {
        let mut bucket = core::mem::take(self.bucket_mut(place));
        loop {
            for way in (0..WAYS).filter(|way| bucket.tag(*way) != 0) {
                let hash = hash_of(bucket.at[way]);
                self.put(self.place(hash), hash, bucket.at[way]);
            }
            let spilled = bucket.next;
            let Some(next) = self.spilled.get(spilled) else { return };
            bucket = *next;
            self.spilled.remove(spilled);
        }
    }

    fn put(&mut self, place: usize, hash: u64, at: u32) {
        let mut bucket = self.bucket_mut(place);
        if let Some(way) = bucket.free() {
            return bucket.set(way, tag(hash), at);
        }
        let mut next = bucket.next;
        while let Some(bucket) = self.spilled.get_mut(next) {
            if let Some(way) = bucket.free() {
                return bucket.set(way, tag(hash), at);
            }
            next = bucket.next;
        }
        let mut spill = Bucket { next: self.bucket(place).next, ..Bucket::default() };
        spill.set(0, tag(hash), at);
        // There are fewer buckets than entries, and all entries have numbers.
        let spilled = self.spilled.insert(spill);
        bucket = self.bucket_mut(place);
        bucket.next = spilled.unwrap_or(NOWHERE);
    }

    fn take(&mut self, place: usize, at: u32) -> bool {
        let bucket = self.bucket_mut(place);
        if bucket.forget(at) {
            return true;
        }
        let (mut before, mut next) = (NOWHERE, bucket.next);
        while let Some(bucket) = self.spilled.get_mut(next) {
            if bucket.forget(at) {
                if bucket.tags == 0 {
                    self.unspill(place, before, next);
                }
                return true;
            }
            (before, next) = (next, bucket.next);
        }
        false
    }

    /// Takes an empty bucket out from behind another one.
    fn unspill(&mut self, place: usize, before: u32, spilled: u32) {
        let next = self.spilled.get(spilled).map_or(NOWHERE, |bucket| bucket.next);
        match self.spilled.get_mut(before) {
            Some(before) => before.next = next,
            None => self.bucket_mut(place).next = next,
        }
        self.spilled.remove(spilled);
    }
}

/// A byte of the hash that its bucket does not depend on; never 0.
#[inline]
fn tag(hash: u64) -> u8 {
    ((hash >> 56) as u8).max(1)
}

/// The lowest bit of each byte, and the highest.
const LOW: u64 = u64::from_ne_bytes([1; WAYS]);
const HIGH: u64 = LOW << 7;

/// The highest bit of each byte that is 0. Above the first there may be false ones.
#[inline]
const fn zeros(bytes: u64) -> u64 {
    bytes.wrapping_sub(LOW) & !bytes & HIGH
}

/// The way of the lowest match.
#[inline]
const fn way(matches: u64) -> usize {
    (matches.trailing_zeros() / 8) as usize % WAYS
}

impl Default for Bucket {
    #[inline]
    fn default() -> Self {
        Self { tags: 0, at: [NOWHERE; WAYS], next: NOWHERE }
    }
}

impl Bucket {
    /// The highest bit of each byte that is equal to the tag. Above the first there may be false ones.
    #[inline]
    fn matches(&self, hash: u64) -> u64 {
        zeros(self.tags ^ (LOW * u64::from(tag(hash))))
    }

    fn tag(&self, way: usize) -> u8 {
        self.tags.to_le_bytes()[way]
    }

    fn free(&self) -> Option<usize> {
        let free = zeros(self.tags);
        (free != 0).then(|| way(free))
    }

    fn set(&mut self, way: usize, tag: u8, at: u32) {
        let shift = 8 * way;
        self.tags = self.tags & !(0xff << shift) | u64::from(tag) << shift;
        self.at[way] = at;
    }

    fn forget(&mut self, at: u32) -> bool {
        self.way_of(at).inspect(|way| self.set(*way, 0, NOWHERE)).is_some()
    }

    fn replace(&mut self, was: u32, is: u32) -> bool {
        self.way_of(was).inspect(|way| self.at[*way] = is).is_some()
    }

    /// Where an entry is. Ways that are empty have none.
    fn way_of(&self, at: u32) -> Option<usize> {
        self.at.iter().position(|entry| *entry == at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spreads small numbers.
    fn hash(at: u32) -> u64 {
        u64::from(at).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    }

    #[test]
    fn what_came_is_found_until_it_goes_while_buckets_are_split_and_joined() {
        let mut index = Index::new();
        let is_found = |index: &Index, at: u32| index.find(hash(at), |found| found == at).is_some();
        for at in 0..50_000 {
            index.insert(hash(at), at, hash);
            assert!(is_found(&index, at) && is_found(&index, at / 2) && !is_found(&index, at + 1));
        }
        let most = index.places();
        assert!((50_000 / LOAD..50_000).contains(&most), "{most} places");
        for at in 0..50_000 {
            index.remove(hash(at), at, hash);
            assert!(!is_found(&index, at) && (at == 49_999 || is_found(&index, 49_999)));
        }
        assert!(index.places() <= SEGMENT + 256, "{} places", index.places());
    }

    #[test]
    fn what_is_replaced_is_found_by_the_hash_that_the_other_had() {
        let mut index = Index::new();
        let first = |at: u32| hash(at % 1000);
        (0..10_000).for_each(|at| index.insert(first(at), at, first));
        (0..10_000).for_each(|at| index.replace(first(at), at, at + 20_000));
        index.replace(first(7), 7, 8);
        for at in 0..10_000 {
            assert_eq!(index.find(first(at), |found| found == at), None);
            assert!(index.find(first(at), |found| found == at + 20_000).is_some());
        }
    }

    #[test]
    fn a_hundred_entries_of_one_hash_are_all_kept_and_none_is_found_for_another() {
        let mut index = Index::new();
        for at in 0..100 {
            index.insert(7, at, |_| 7);
        }
        for at in (0..100).step_by(3) {
            index.remove(7, at, |_| 7);
        }
        let is_found = |at: u32| index.find(7, |found| found == at).is_some();
        assert!((0..100).all(|at| is_found(at) == (at % 3 != 0)));
        assert!(index.find(8, |_| true).is_none());
        for at in 0..100 {
            index.remove(7, at, |_| 7);
        }
        assert_eq!((index.len, index.spilled.len()), (0, 0));
    }
}
