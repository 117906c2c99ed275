//! IPv4 routes: a trie of 16, 8 and 8 bits.
//!
//! The first 16 bits of an address index the root, the next 8 a node that the word there may name, and the last 8
//! another. Every slot is filled out, so a lookup is one to three loads and nothing else. A change stores the words
//! that it changes; a node that comes is filled before the word that leads to it is stored.
#![expect(
    clippy::cast_possible_truncation,
    reason = "keys and words are taken apart, and what is cut off is another part"
)]

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::io;

use pkt::atomic_array::Words;

use super::free_list::{Epoch, Piece, Pieces};
use super::word::{self, Edit};
use super::{Full, HopId};

/// Keys that are looked up together: their misses overlap.
const BLOCK: usize = 64;
const ROOT: usize = 1 << 16;
const NODE: usize = 1 << 8;
/// Nodes from which on lookups ask for them ahead: a megabyte. Of fewer, a load takes no longer than asking does.
pub(super) const LARGE: usize = 1 << 10;
/// Bits of the key that are used up when a table of this level has been indexed.
const ENDS: [u8; 3] = [16, 24, 32];

/// The table, for readers.
#[derive(Debug)]
pub(super) struct Table {
    words: Words,
    /// Whether more nodes are in use than a cache holds.
    is_large: AtomicBool,
}

/// The writer's part of the table.
#[derive(Debug)]
pub(super) struct Writer {
    nodes: Pieces,
}

impl Table {
    /// An empty table with room for this many nodes, and what is needed to change it.
    pub(super) fn new(nodes: usize) -> io::Result<(Self, Writer)> {
        let first = ROOT / NODE;
        let end = u32::try_from(first + nodes).ok().filter(|end| end.leading_zeros() > 1);
        let end = end.ok_or(io::ErrorKind::InvalidInput)?;
        let words = Words::zeroed(ROOT + nodes * NODE)?;
        Ok((
            Self { words, is_large: AtomicBool::new(false) },
            Writer { nodes: Pieces::new(first as u32, end, 1) },
        ))
    }

    /// The hops of many keys.
    #[inline]
    pub(super) fn lookup(&self, keys: &[u32], hops: &mut [HopId]) {
        for (keys, hops) in keys.chunks(BLOCK).zip(hops.chunks_mut(BLOCK)) {
            self.lookup_block(keys, hops);
        }
    }

    /// Level by level, so that the loads of one level do not wait for each other. No word is loaded twice: it might have
    /// become a node meanwhile.
    fn lookup_block(&self, keys: &[u32], hops: &mut [HopId]) {
        let Some(root) = self.words.first_chunk::<ROOT>() else { return };
        let (mut words, mut any) = ([0; BLOCK], 0);
        for (word, key) in words.iter_mut().zip(keys) {
            *word = root[(key >> 16) as usize].load(Acquire);
            any |= *word;
        }
        let is_large = self.is_large.load(Relaxed);
        for shift in [8, 0] {
            if !word::is_node(core::mem::take(&mut any)) {
                break;
            }
            if is_large {
                for (word, key) in words.iter().zip(keys) {
                    self.ask_for(*word, key >> shift & 0xff);
                }
            }
            for (word, key) in words.iter_mut().zip(keys) {
                *word = self.down(*word, key >> shift & 0xff);
                any |= *word;
            }
        }
        for (word, hop) in words.iter().zip(hops) {
            *hop = word::hop(*word);
        }
    }

    /// The word below `word`, or itself if it is a leaf. A leaf loads what is not needed: that costs less than a branch
    /// that goes one way or the other.
    #[inline]
    fn down(&self, word: u32, byte: u32) -> u32 {
        let is_node = word::is_node(word);
        let below = self.load(if is_node { word << 8 | byte } else { 0 });
        if is_node { below } else { word }
    }

    /// Prefetches the slot that a node has for a byte; for a leaf, one that is there anyway.
    #[inline]
    fn ask_for(&self, word: u32, byte: u32) {
        let is_node = (word >> 31).wrapping_neg();
        self.words.prefetch(((word << 8 | byte) & is_node) as usize * size_of::<u32>());
    }

    /// The leaf of one key.
    pub(super) fn find(&self, key: u32) -> u32 {
        let root = self.load(key >> 16);
        self.down(self.down(root, key >> 8 & 0xff), key & 0xff)
    }

    /// Bits of a key that are used up when its leaf has been found.
    pub(super) fn block_len(&self, key: u32) -> u8 {
        let root = self.load(key >> 16);
        match (word::is_node(root), word::is_node(self.down(root, key >> 8 & 0xff))) {
            (false, _) => ENDS[0],
            (true, false) => ENDS[1],
            (true, true) => ENDS[2],
        }
    }

    #[inline]
    fn load(&self, at: u32) -> u32 {
        self.words.get(at as usize).map_or(0, |word| word.load(Acquire))
    }

    fn store(&self, at: u32, word: u32) {
        if let Some(slot) = self.words.get(at as usize) {
            slot.store(word, Release);
        }
    }
}

impl Writer {
    /// Makes a change to all addresses that share the first `len` bits of `key`: each goes from the old answer to the
    /// new one at once.
    ///
    /// # Errors
    ///
    /// [`Full`] if it needs more nodes than are left; then nothing has changed. A route that ends needs none.
    pub(super) fn edit(
        &mut self,
        table: &Table,
        (key, len): (u32, u8),
        edit: Edit,
        epoch: Epoch,
    ) -> Result<(), Full> {
        if !edit.ends {
            self.make_way(table, key, len)?;
        }
        table.is_large.store(self.nodes.used() >= LARGE, Relaxed);
        let path = TriePath::to(table, key, len);
        if path.is_short_of(len) {
            return Ok(());
        }
        let (first, end) = path.slot;
        (first..first + (1 << (end - len))).for_each(|at| patch(table, at, edit));
        if edit.ends {
            path.nodes.iter().rev().flatten().for_each(|slot| self.collapse(table, *slot, epoch));
        }
        Ok(())
    }

    /// Sees to it that there are nodes down to where a prefix ends. Each is filled with the leaf that it takes the place
    /// of, so no answer changes.
    fn make_way(&mut self, table: &Table, key: u32, len: u8) -> Result<(), Full> {
        let reached = TriePath::to(table, key, len).slot.1;
        let missing = ENDS.iter().filter(|end| (reached..len).contains(*end)).count();
        if self.nodes.left() < missing {
            return Err(Full);
        }
        for _ in 0..missing {
            let node = self.nodes.take(1).ok_or(Full)?.at;
            let (at, _) = TriePath::to(table, key, len).slot;
            let leaf = table.load(at);
            (0..NODE as u32).for_each(|slot| table.store(node << 8 | slot, leaf));
            table.store(at, word::node(node));
        }
        Ok(())
    }

    /// Puts a leaf in the place of a node that says nothing else any more.
    fn collapse(&mut self, table: &Table, (at, end): (u32, u8), epoch: Epoch) {
        let node = word::index(table.load(at));
        let leaf = table.load(node << 8);
        let is_one = !word::is_node(leaf) && word::len(leaf) <= end;
        if is_one && (1..NODE as u32).all(|slot| table.load(node << 8 | slot) == leaf) {
            table.store(at, leaf);
            self.nodes.give_later(epoch, Piece { at: node, units: 1 });
        }
    }

    /// All CPUs have passed `epoch`.
    pub(super) fn retire(&mut self, epoch: Epoch) {
        self.nodes.retire(epoch);
    }

    /// Nodes in use, and in all.
    pub(super) const fn usage(&self) -> (usize, usize) {
        (self.nodes.used(), self.nodes.bound())
    }

    /// Bytes in use.
    pub(super) const fn bytes(&self) -> usize {
        (ROOT + self.nodes.used() * NODE) * size_of::<u32>()
    }
}

/// The way through the table to where a prefix ends.
#[derive(Default)]
struct TriePath {
    /// Slots passed whose words are nodes, and how many bits of the key they stand for.
    nodes: [Option<(u32, u8)>; 2],
    /// The slot that was reached, and how many bits of the key it stands for.
    slot: (u32, u8),
}

impl TriePath {
    fn to(table: &Table, key: u32, len: u8) -> Self {
        let mut path = Self { slot: (key >> 16, ENDS[0]), ..Self::default() };
        for (passed, end) in path.nodes.iter_mut().zip(&ENDS[1..]) {
            let word = table.load(path.slot.0);
            if len <= path.slot.1 || !word::is_node(word) {
                break;
            }
            *passed = Some(path.slot);
            path.slot = (word << 8 | key >> (32 - end) & 0xff, *end);
        }
        path
    }

    /// Bits of the prefix that no node on the way stands for.
    const fn is_short_of(&self, len: u8) -> bool {
        self.slot.1 < len
    }
}

/// Makes a change to a slot and to all below it.
fn patch(table: &Table, at: u32, edit: Edit) {
    let word = table.load(at);
    if word::is_node(word) {
        (0..NODE as u32).for_each(|slot| patch(table, word << 8 | slot, edit));
    } else if edit.changes(word) {
        table.store(at, edit.leaf);
    }
}
