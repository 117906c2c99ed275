//! IPv6 routes: a trie of 16 bits and then 8 at a time, compressed.
//!
//! A node has 256 slots, of which neighbours with the same leaf are stored once: a bitmap says where a new run begins,
//! and the number of ones up to a slot is the place of its word (as poptrie: H. Asai, Y. Ohara, "Poptrie: a compressed
//! trie with population count for fast and scalable software IP routing table lookup", SIGCOMM 2015). Nodes with one
//! child and nothing else to say are left out: a node knows the key bits before it, and what holds where they differ.
//! So a lone route costs one cache line, however long it is.
//!
//! A change that moves no run is stored in place. For any other, the nodes that change are made anew, and one word
//! leads to the new ones.
#![expect(
    clippy::cast_possible_truncation,
    reason = "keys and words are taken apart, and what is cut off is another part"
)]

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::io;

use pkt::words::Words;

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
/// In a node's word, above the line it begins at: the place of the byte that it looks at in the key, 2 to 15.
const BYTE_SHIFT: u32 = 27;
const LINE_MASK: u32 = (1 << BYTE_SHIFT) - 1;

/// Words of a node: 256 bits that say where runs begin; for each 32 of them how many began before, a byte each; the leaf
/// where the key differs before the node; the 32 bits of the key before the byte; and one word for each run.
const BEFORE: u32 = 8;
const ELSE: u32 = 10;
const PATH: u32 = 11;
const RUNS: u32 = 12;

/// The table, for readers.
#[derive(Debug)]
pub(super) struct Table {
    words: Words,
}

impl Table {
    /// An empty table with room for this many cache lines of nodes, and what is needed to change it.
    pub(super) fn new(lines: usize) -> io::Result<(Self, Writer)> {
        let first = ROOT / LINE;
        let end = u32::try_from(first + lines).ok().filter(|end| *end <= LINE_MASK);
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
        let Some(first) = self.words.first_chunk::<ROOT>() else { return };
        let (mut words, mut any) = ([0u32; BLOCK], 0);
        for (word, key) in words.iter_mut().zip(keys) {
            *word = first[root(*key) as usize].load(Acquire);
            self.ask_for(*word);
            any |= *word;
        }
        let (lines, _) = self.words.as_chunks();
        while word::is_node(core::mem::take(&mut any)) {
            for (word, key) in words.iter_mut().zip(keys) {
                if word::is_node(*word) {
                    *word = self.step(lines, *word, *key);
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
        self.words.prefetch((start(word) & is_node.wrapping_neg()) as usize);
    }

    /// The word that the node of `word` has for `key`.
    #[inline]
    fn step(&self, lines: &[[AtomicU32; LINE]], word: u32, key: u128) -> u32 {
        let Some(head) = lines.get((word & LINE_MASK) as usize) else { return 0 };
        let rest = rest(key, word >> BYTE_SHIFT & 0xf);
        let is_on_path = (rest >> 8) as u32 == head[PATH as usize].load(Relaxed);
        let run = run(head, rest as u32 & 0xff);
        self.load(start(word).wrapping_add(if is_on_path { RUNS.wrapping_add(run) } else { ELSE }))
    }

    /// The leaf of one key.
    pub(super) fn find(&self, key: u128) -> u32 {
        let (mut word, (lines, _)) = (self.load(root(key)), self.words.as_chunks());
        while word::is_node(word) {
            word = self.step(lines, word, key);
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
    (word & LINE_MASK) << LINE.trailing_zeros()
}

/// The key's bytes up to number `byte`, which comes last. Nearly all routes end in the upper half of the key.
#[inline]
fn rest(key: u128, byte: u32) -> u64 {
    #[cold]
    fn beyond(key: u128, byte: u32) -> u64 {
        (key >> (120 - 8 * byte)) as u64
    }
    if byte < 8 { (key >> 64) as u64 >> (56 - 8 * byte) } else { beyond(key, byte) }
}

/// Which run of the node that begins with this line has this slot.
#[inline]
fn run(head: &[AtomicU32; LINE], slot: u32) -> u32 {
    let part = slot >> 5;
    let upto = head[part as usize].load(Relaxed) << (31 - (slot & 31));
    let before = head[(BEFORE + (part >> 2)) as usize % LINE].load(Relaxed) >> (8 * (part & 3)) & 0xff;
    before.wrapping_add(upto.count_ones()).wrapping_sub(1)
}

/// The place of a key's word in the root.
#[inline]
const fn root(key: u128) -> u32 {
    (key >> 112) as u32
}
