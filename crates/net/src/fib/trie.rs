//! The trie of IPv6 routes, for others than routes: prefixes of up to 128 bits, and a number for each.

use core::ops::Bound;
use std::collections::BTreeMap;
use std::io;

use super::free_list::Epoch;
use super::prefix::{Key, covering};
use super::word::{self, Edit};
use super::{Full, v6};

/// The largest value; the smallest is 1.
pub(crate) const VALUE_MAX: u32 = (1 << word::VALUE_BITS) - 1;

/// The table, for readers. Shorter keys stand in the upper bits.
#[derive(Debug)]
pub(crate) struct Trie {
    table: v6::Table,
}

/// All prefixes, and the one hand that changes the table. What a change takes out is free again when its epoch is
/// retired.
#[derive(Debug)]
pub(crate) struct TrieWriter {
    entries: BTreeMap<(u128, u8), u32>,
    writer: v6::Writer,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<((u128, u8), u32)>() <= 48);

impl Trie {
    /// An empty table with room for this many cache lines of nodes, or for all that a table may have, and what is needed to change it.
    ///
    /// # Errors
    ///
    /// When the system has not so much address space for us.
    pub(crate) fn new(lines: usize) -> io::Result<(Self, TrieWriter)> {
        let (table, writer) = v6::Table::new(lines.min(v6::ROOM))?;
        Ok((Self { table }, TrieWriter { entries: BTreeMap::new(), writer }))
    }

    /// The value of the longest prefix that covers a key; 0 if there is none.
    pub(crate) fn find(&self, key: u128) -> u32 {
        word::value(self.table.find(key))
    }
}

impl TrieWriter {
    /// Gives the prefix of `len` bits of a key this value, in place of the one it had.
    ///
    /// # Errors
    ///
    /// [`Full`]; then nothing has changed.
    pub(crate) fn put(&mut self, trie: &Trie, at: (u128, u8), value: u32, epoch: Epoch) -> Result<(), Full> {
        let at = (at.0.cut(at.1), at.1);
        self.writer.edit(&trie.table, at, Edit::put(at.1, value), epoch)?;
        self.entries.insert(at, value);
        Ok(())
    }

    /// Ends a prefix; answers its value.
    pub(crate) fn end(&mut self, trie: &Trie, at: (u128, u8), epoch: Epoch) -> Option<u32> {
        let at = (at.0.cut(at.1), at.1);
        let value = self.entries.remove(&at)?;
        let around = covering(&self.entries, at.0, Bound::Excluded(at));
        let around = around.map_or((0, 0), |((_, len), value)| (len, *value));
        // That there is no memory left is no error here: what ends needs none.
        let _ = self.writer.edit(&trie.table, at, Edit::end(at.1, around), epoch);
        Some(value)
    }

    /// The value of a prefix itself.
    pub(crate) fn get(&self, at: (u128, u8)) -> Option<u32> {
        self.entries.get(&(at.0.cut(at.1), at.1)).copied()
    }

    /// The longest prefix that covers a key.
    pub(crate) fn covering(&self, key: u128) -> Option<((u128, u8), u32)> {
        covering(&self.entries, key, Bound::Included((key, u128::BITS_U8))).map(|(at, value)| (at, *value))
    }

    /// All prefixes and their values, sorted.
    pub(crate) fn entries(&self) -> impl Iterator<Item = ((u128, u8), u32)> + '_ {
        self.entries.iter().map(|(at, value)| (*at, *value))
    }

    /// Prefixes that there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All CPUs have passed `epoch`.
    pub(crate) fn retire(&mut self, epoch: Epoch) {
        self.writer.retire(epoch);
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        self.writer.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::secret::Secret;

    #[test]
    fn the_longest_prefix_of_any_length_is_found_while_others_come_and_go() {
        let (trie, mut writer) = Trie::new(1 << 14).unwrap();
        let mut secret = Secret::new(3);
        let mut all: Vec<((u128, u8), u32)> = Vec::new();
        for round in 1..4000 {
            let key = u128::from(secret.draw()) << 64 | u128::from(secret.draw());
            // Few first bits, so that many prefixes lie in each other.
            let key = key & !(0xfff << 112) | 1;
            let len = [0, 8, 16, 17, 24, 32, 61, 64, 100, 128][usize::try_from(secret.below(10)).unwrap()];
            let (key, epoch) = (key.cut(len), Epoch(round));
            if secret.below(3) == 0 && !all.is_empty() {
                let gone = all.swap_remove(usize::try_from(secret.below(all.len() as u64)).unwrap());
                assert_eq!(writer.end(&trie, gone.0, epoch), Some(gone.1));
            } else if all.iter().all(|(at, _)| *at != (key, len)) {
                let value = 1 + u32::try_from(round).unwrap();
                writer.put(&trie, (key, len), value, epoch).unwrap();
                all.push(((key, len), value));
            }
            writer.retire(epoch);
            let asked = all.last().map_or(0, |((key, _), _)| *key ^ u128::from(secret.below(2)) << 70);
            let best =
                all.iter().filter(|((key, len), _)| asked.cut(*len) == *key).max_by_key(|(at, _)| at.1);
            assert_eq!(trie.find(asked), best.map_or(0, |(_, value)| *value));
            assert_eq!(writer.covering(asked), best.copied());
        }
        assert_eq!(writer.entries().count(), all.len());
    }

    #[test]
    fn the_largest_value_comes_back() {
        let (trie, mut writer) = Trie::new(1 << 8).unwrap();
        writer.put(&trie, (7 << 96, 128), VALUE_MAX, Epoch(1)).unwrap();
        assert_eq!((trie.find(7 << 96), trie.find(8 << 96)), (VALUE_MAX, 0));
    }
}
