//! IPv6 routes: a trie of 16 bits and then 8 at a time, compressed.
//!
//! A node has 256 slots, of which neighbours with the same leaf are stored once: a bitmap says where a new run begins,
//! and the number of ones up to a slot is the place of its word (as poptrie: H. Asai, Y. Ohara, "Poptrie: a compressed
//! trie with population count for fast and scalable software IP routing table lookup", SIGCOMM 2015). Nodes with one
//! child and nothing else to say are left out: a node knows the key bits before it, and what holds where they differ.
//! So a lone route costs one cache line, however long it is. Of both halves of a key a node knows only that in which its
//! byte is.
//!
//! In a node that is more than half full, and in all while the table is small, each slot begins a run: it is then
//! found without counting.
//!
//! A change that moves no run is stored in place. For any other, the nodes that change are made anew, and one word
//! leads to the new ones.
#![expect(
    clippy::cast_possible_truncation,
    reason = "keys and words are taken apart, and what is cut off is another part"
)]

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::io;

use pkt::atomic_array::{Line, Words};

use super::HopId;
use super::word;

mod node;
mod write;

pub(super) use write::Writer;

/// Keys that are looked up together: their misses overlap.
const BLOCK: usize = 64;
const ROOT: usize = 1 << 16;
/// Words of a cache line, the unit of memory.
const LINE: usize = 16;
const WORD_BYTES: u32 = 4;

/// In a node's word, below the bit that all nodes have: the byte in memory that it begins at. It is the first of a line, so
/// the lower six bits can say other things.
const PLACE: u32 = 0x7fff_ffc0;
/// The byte of the key that the node looks at is in the key's upper half.
const UPPER: u32 = 1;
/// That byte has so many bits of its half behind it.
const BEHIND: u32 = 0x38;
/// Each slot of the node has a word of its own, and nothing has to be counted.
const DENSE: u32 = 2;
/// Lines that a word can name.
const PLACES: u32 = (PLACE >> PLACE.trailing_zeros()) + 1;

/// Words of a node: 256 bits that say where runs begin; for each 32 of them how many began before, a byte each; the leaf
/// where the key differs before the node; the bits of the key's half before the byte; and one word for each run.
const BEFORE: u32 = 8;
const ELSE: u32 = 10;
const PATH: u32 = 11;
const RUNS: u32 = 13;

/// The table, for readers.
#[derive(Debug)]
pub(super) struct Table {
    words: Words,
}

impl Table {
    /// An empty table with room for this many cache lines of nodes, and what is needed to change it.
    pub(super) fn new(lines: usize) -> io::Result<(Self, Writer)> {
        let first = ROOT / LINE;
        let end = u32::try_from(first + lines).ok().filter(|end| *end <= PLACES);
        let end = end.ok_or(io::ErrorKind::InvalidInput)?;
        let words = Words::zeroed(end as usize * LINE)?;
        Ok((Self { words }, Writer::new(first as u32, end)))
    }

    /// The hops of many keys.
    #[inline]
    pub(super) fn lookup(&self, keys: &[u128], hops: &mut [HopId]) {
        for (keys, hops) in keys.chunks(BLOCK).zip(hops.chunks_mut(BLOCK)) {
            self.lookup_block(keys, hops);
        }
    }

    /// The root for all keys, then one step for each that is not at a leaf, and so on. In each round the node of the next
    /// is asked for, so that its misses overlap.
    fn lookup_block(&self, keys: &[u128], hops: &mut [HopId]) {
        let Some(root) = self.words.first_chunk::<ROOT>() else { return };
        let (mut words, mut any) = ([0u32; BLOCK], 0);
        for (word, key) in words.iter_mut().zip(keys) {
            *word = root[slot_of_root(*key)].load(Acquire);
            self.ask_for(*word);
            any |= *word;
        }
        while word::is_node(core::mem::take(&mut any)) {
            for (word, key) in words.iter_mut().zip(keys) {
                if word::is_node(*word) {
                    *word = self.step(*word, *key);
                    self.ask_for(*word);
                    any |= *word;
                }
            }
        }
        for (word, hop) in words.iter().zip(hops) {
            *hop = word::hop(*word);
        }
    }

    /// Prefetches the node of `word`; for a leaf, something that is there anyway.
    #[inline]
    fn ask_for(&self, word: u32) {
        let is_node = word >> 31;
        self.words.prefetch((word & PLACE & is_node.wrapping_neg()) as usize);
    }

    /// The word that the node of `word` has for `key`.
    #[inline]
    fn step(&self, word: u32, key: u128) -> u32 {
        let head = self.words.line(word & PLACE);
        let rest = rest(word, key);
        let slot = rest as u32 & 0xff;
        let run = if word & DENSE == 0 { run(head, slot) } else { slot };
        let at = if rest >> 8 == path(head) { RUNS.wrapping_add(run) } else { ELSE };
        self.words.word((word & PLACE).wrapping_add(at * WORD_BYTES)).load(Acquire)
    }

    /// The leaf of one key.
    pub(super) fn find(&self, key: u128) -> u32 {
        let mut word = self.load(slot_of_root(key) as u32);
        while word::is_node(word) {
            word = self.step(word, key);
        }
        word
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

    /// Stores a word that nothing leads to yet.
    fn write(&self, at: u32, word: u32) {
        if let Some(slot) = self.words.get(at as usize) {
            slot.store(word, Relaxed);
        }
    }
}

/// Where the node of `word` starts.
#[inline]
const fn start(word: u32) -> u32 {
    (word & PLACE) / WORD_BYTES
}

/// Returns the bits of the key's half before the byte that the node of `word` looks at.
#[inline]
const fn rest(word: u32, key: u128) -> u64 {
    let half = if word & UPPER == 0 { key as u64 } else { (key >> 64) as u64 };
    half >> (word & BEHIND)
}

/// The bits of the key that the node that begins with this line stands for.
#[inline]
fn path(head: &Line) -> u64 {
    let [low, high] = [PATH, PATH + 1].map(|at| u64::from(head[at as usize].load(Relaxed)));
    high << 32 | low
}

/// Which run of the node that begins with this line has this slot.
#[inline]
fn run(head: &Line, slot: u32) -> u32 {
    let part = slot >> 5;
    let upto = head[part as usize % LINE].load(Relaxed) << (31 - (slot & 31));
    let before = head[(BEFORE + (part >> 2)) as usize % LINE].load(Relaxed) >> (8 * (part & 3)) & 0xff;
    before.wrapping_add(upto.count_ones()).wrapping_sub(1)
}

/// The place of a key's word in the root.
#[inline]
const fn slot_of_root(key: u128) -> usize {
    (key >> 112) as usize
}
