//! IPv6 routes: a trie of 16 bits and then of nodes that look at as many bits as suits the routes below them, compressed.
//!
//! A node for n prefixes has up to 8 n slots, so that most keys need few steps, and a slot for each value of its bits: where a
//! key's word is follows from the node's word and the key alone, and both lines of a node can be asked for at once. Nodes with
//! one child and nothing else to say are left out: a node knows the bits before its own, and what holds where they differ.
//! So a lone route costs one cache line, however long it is.
//!
//! A change within a node is stored in place. For any other, the nodes that change are made anew, and one word
//! leads to the new ones. A node that has changed half as often as it has prefixes is made anew, with another number of bits.
#![expect(
    clippy::cast_possible_truncation,
    reason = "keys and words are taken apart, and what is cut off is another part"
)]

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::io;

use pkt::atomic_array::{Line, Words};

use super::HopId;
use super::word;

mod node;
mod subtree;
mod write;

pub(super) use write::Writer;

/// Keys that are looked up together: their misses overlap.
const BLOCK: usize = 64;
const ROOT: usize = 1 << 16;
/// Words of a cache line, the unit of memory.
const LINE: usize = 16;
const WORD_BYTES: u32 = 4;
/// Lines in use from which on lookups ask for them ahead: half a megabyte. Of fewer, a load takes no longer than asking does.
pub(super) const LARGE: usize = 1 << 13;

/// In a node's word, below the bit that all nodes have: its first line.
const LINE_BITS: u32 = 22;
const LINES: u32 = (1 << LINE_BITS) - 1;
/// Lines of nodes that a table may have: those that words can name, without the root's.
pub(super) const ROOM: usize = (1 << LINE_BITS) - ROOT / LINE;
/// Half of the number of bits of the key's half behind those that the node looks at, which is even: five bits.
const BEHIND: u32 = LINE_BITS;
/// Place in [`STRIDES`] of the number of bits that it looks at: three bits.
const STRIDE: u32 = BEHIND + 5;
/// Set if it looks at the lower half of the key.
const LOWER: u32 = 1 << (STRIDE + 3);
/// Bits that nodes look at. One more than an odd number is among them too: so many bits end at an even one.
const STRIDES: [u8; 8] = [3, 4, 5, 6, 8, 10, 12, 14];

/// Words of a node: the leaf where the key differs before the node; the bits of the key's half up to it, as [`path_of`] says; prefixes when it was
/// made, and changes since, for the writer; and one for each slot.
const ELSE: u32 = 0;
const PATH: u32 = 1;
const PREFIXES: u32 = 3;
const CHANGES: u32 = 4;
const SLOTS: u32 = 5;

/// The table, for readers.
#[derive(Debug)]
pub(super) struct Table {
    words: Words,
    /// Whether more lines are in use than a cache holds.
    is_large: AtomicBool,
}

impl Table {
    /// An empty table with room for this many cache lines of nodes, and what is needed to change it.
    pub(super) fn new(lines: usize) -> io::Result<(Self, Writer)> {
        let first = ROOT / LINE;
        if lines > ROOM {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let end = first + lines;
        let words = Words::zeroed(end * LINE)?;
        Ok((Self { words, is_large: AtomicBool::new(false) }, Writer::new(first as u32, end as u32)))
    }

    /// The hops of many keys.
    #[inline]
    pub(super) fn lookup(&self, keys: &[u128], hops: &mut [HopId]) {
        let is_large = self.is_large.load(Relaxed);
        for (keys, hops) in keys.chunks(BLOCK).zip(hops.chunks_mut(BLOCK)) {
            if is_large {
                self.lookup_block::<true>(keys, hops);
            } else {
                self.lookup_block::<false>(keys, hops);
            }
        }
    }

    /// The root for all keys, then one step for each that is not at a leaf, and so on. In each round the node of the next
    /// is asked for, so that its misses overlap.
    fn lookup_block<const ASK: bool>(&self, keys: &[u128], hops: &mut [HopId]) {
        let Some(root) = self.words.first_chunk::<ROOT>() else { return };
        let (mut words, mut any) = ([0u32; BLOCK], 0);
        for (word, key) in words.iter_mut().zip(keys) {
            *word = root[slot_of_root(*key)].load(Acquire);
            if ASK {
                self.ask_for(*word, *key);
            }
            any |= *word;
        }
        while word::is_node(core::mem::take(&mut any)) {
            for (word, key) in words.iter_mut().zip(keys) {
                if word::is_node(*word) {
                    *word = self.step(*word, *key);
                    if ASK {
                        self.ask_for(*word, *key);
                    }
                    any |= *word;
                }
            }
        }
        for (word, hop) in words.iter().zip(hops) {
            *hop = word::hop(*word);
        }
    }

    /// Prefetches the node of `word`, and the slot of a key in it; for a leaf, something that is there anyway.
    #[inline]
    fn ask_for(&self, word: u32, key: u128) {
        let is_node = (word >> 31).wrapping_neg();
        let slot = rest(word, key) as u32 & slots(word).wrapping_sub(1);
        let (at, slot) = (place(word) & is_node, slot & is_node);
        self.words.prefetch(at as usize);
        self.words.prefetch(at.wrapping_add(SLOTS.wrapping_add(slot).wrapping_mul(WORD_BYTES)) as usize);
    }

    /// The word that the node of `word` has for `key`.
    #[inline]
    fn step(&self, word: u32, key: u128) -> u32 {
        let place = place(word);
        // What is left is the slot, if the bits before it are the same.
        let slot = rest(word, key) ^ path_of(self.words.line(place));
        let at = if slot < u64::from(slots(word)) { SLOTS.wrapping_add(slot as u32) } else { ELSE };
        self.words.word(place.wrapping_add(at.wrapping_mul(WORD_BYTES))).load(Acquire)
    }

    /// The leaf of one key.
    pub(super) fn find(&self, key: u128) -> u32 {
        let mut word = self.load(slot_of_root(key) as u32);
        while word::is_node(word) {
            word = self.step(word, key);
        }
        word
    }

    /// Bits of a key that are used up when its leaf has been found: where a node has none for it, the first one that differs is the last
    /// of them.
    pub(super) fn block_len(&self, key: u128) -> u8 {
        let (mut word, mut len) = (self.load(slot_of_root(key) as u32), ROOT.trailing_zeros());
        while word::is_node(word) {
            let other = rest(word, key) ^ path_of(self.words.line(place(word)));
            let half = if word & LOWER == 0 { 0 } else { u64::BITS };
            let behind = behind(word);
            len = half
                + if other < u64::from(slots(word)) {
                    u64::BITS - behind
                } else {
                    (other.leading_zeros() + 1).saturating_sub(behind)
                };
            word = self.step(word, key);
        }
        len as u8
    }

    #[inline]
    fn load(&self, at: u32) -> u32 {
        self.words.get(at as usize).map_or(0, |word| word.load(Acquire))
    }

    /// Stores a word that readers may be looking at.
    fn store(&self, at: u32, word: u32) {
        if let Some(slot) = self.words.get(at as usize) {
            slot.store(word, Release);
        }
    }

    /// Stores a word that nothing leads to yet, or that only the writer reads.
    fn write(&self, at: u32, word: u32) {
        if let Some(slot) = self.words.get(at as usize) {
            slot.store(word, Relaxed);
        }
    }
}

/// The byte that the node of `word` begins at.
#[inline]
const fn place(word: u32) -> u32 {
    (word & LINES) << (LINE as u32 * WORD_BYTES).trailing_zeros()
}

/// Slots of the node of `word`.
#[inline]
const fn slots(word: u32) -> u32 {
    // One byte of a word that all strides fit into: a shift takes no more of it than its lower bits.
    const ALL: u64 = u64::from_le_bytes(STRIDES);
    1_u32.wrapping_shl((ALL >> (word >> (STRIDE - 3) & 0x38)) as u32)
}

/// The bits of the key's half up to those that the node of `word` looks at.
#[inline]
const fn rest(word: u32, key: u128) -> u64 {
    let half = if word & LOWER == 0 { (key >> 64) as u64 } else { key as u64 };
    half >> behind(word)
}

/// Bits of the key's half behind those that the node of `word` looks at.
#[inline]
const fn behind(word: u32) -> u32 {
    word >> (BEHIND - 1) & 0x3e
}

/// The bits before the node that begins with this line, in their half of the key, and zeros in place of those that it looks at.
#[inline]
fn path_of(head: &Line) -> u64 {
    let [low, high] = [PATH, PATH + 1].map(|at| u64::from(head[at as usize].load(Relaxed)));
    high << 32 | low
}

/// The place of a key's word in the root.
#[inline]
const fn slot_of_root(key: u128) -> usize {
    (key >> 112) as usize
}
