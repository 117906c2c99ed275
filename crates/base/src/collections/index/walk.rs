//! All entries in an order that does not depend on how many buckets there are.
//!
//! A bucket has the hashes that end in its number. Read backwards they begin with it, so of the order of hashes read
//! backwards each bucket is a piece without gaps; to split it is to cut that piece in two, and to join is to glue. So
//! a reader that remembers its place in this order can go on there, whatever came, went, was split or joined.

use super::{Bucket, Index, WAYS};

/// Where the entry of a hash stands in the order.
#[inline]
pub const fn position(hash: u64) -> u64 {
    hash.reverse_bits()
}

impl Index {
    /// Adds to `into` what stands at `from` or behind it in the bucket to which `from` belongs, each with its position, and
    /// answers where the next bucket begins; `None` behind the last one.
    pub fn piece(&self, from: u64, hash_of: impl Fn(u32) -> u64, into: &mut Vec<(u64, u32)>) -> Option<u64> {
        let place = self.place(position(from));
        let mut bucket = Some(self.bucket(place));
        while let Some(this) = bucket {
            let entries = this.entries().map(|at| (position(hash_of(at)), at));
            into.extend(entries.filter(|(position, _)| *position >= from));
            bucket = self.spilled.get(this.next);
        }
        (from | (u64::MAX >> self.bits(place))).checked_add(1)
    }

    /// Bits of a hash that say that it belongs to a bucket.
    const fn bits(&self, place: usize) -> u32 {
        let is_split = place < self.split || place > self.mask;
        (self.mask + 1).trailing_zeros() + is_split as u32
    }
}

impl Bucket {
    fn entries(&self) -> impl Iterator<Item = u32> {
        (0..WAYS).filter(|way| self.tag(*way) != 0).map(|way| self.at[way])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(at: u32) -> u64 {
        u64::from(at).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    }

    #[test]
    fn what_stays_is_met_once_while_the_table_grows_and_shrinks() {
        for (first, then) in [(3000, 9000), (9000, 3000), (0, 5000), (5000, 0), (1600, 1700)] {
            let mut index = Index::new();
            (0..first).for_each(|at| index.insert(hash(at), at, hash));
            let (mut met, mut from, mut size) = (Vec::new(), Some(0), first);
            while let Some(position) = from {
                from = index.piece(position, hash, &mut met);
                // Three come, or go, for each bucket that is looked at.
                for _ in 0..3 {
                    match size.cmp(&then) {
                        core::cmp::Ordering::Less => index.insert(hash(size), size, hash),
                        core::cmp::Ordering::Greater => index.remove(hash(size - 1), size - 1, hash),
                        core::cmp::Ordering::Equal => continue,
                    }
                    size = if size < then { size + 1 } else { size - 1 };
                }
            }
            let mut numbers: Vec<u32> = met.iter().map(|(_, at)| *at).collect();
            numbers.sort_unstable();
            assert!(numbers.is_sorted_by(|one, next| one < next), "{first} to {then}: one was met twice");
            let stayed = |at: &u32| numbers.binary_search(at).is_ok();
            assert!((0..first.min(then)).all(|at| stayed(&at)), "{first} to {then}: one was not met");
        }
    }

    #[test]
    fn pieces_follow_each_other_in_order_and_those_of_one_hash_come_together() {
        let mut index = Index::new();
        (0..2000).for_each(|at| index.insert(hash(at), at, hash));
        let same = |at: u32| if at < 2000 { hash(at) } else { 77 };
        (2000..2050).for_each(|at| index.insert(77, at, same));
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(position) = from {
            let mut piece = Vec::new();
            from = index.piece(position, same, &mut piece);
            let is_here = |(at, _): &(u64, u32)| *at >= position && from.is_none_or(|next| *at < next);
            assert!(piece.iter().all(is_here));
            all.extend(piece);
        }
        assert_eq!(all.len(), 2050);
        let mut rest = Vec::new();
        index.piece(position(77), same, &mut rest);
        assert_eq!(rest.iter().filter(|(at, _)| *at == position(77)).count(), 50);
    }
}
