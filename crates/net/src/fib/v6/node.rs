//! A node as its writer sees it: 256 slots, and how they become runs.

use super::{BEFORE, BEHIND, DENSE, ELSE, LINE, PATH, PLACE, RUNS, Table, UPPER, start};
use crate::fib::free_list::Piece;
use crate::fib::word;

/// Slots of a node.
pub(super) const SLOTS: usize = 256;
/// Lines of a node whose slots all differ.
pub(super) const LINES_MAX: usize = (RUNS as usize + SLOTS).div_ceil(LINE);
/// A node whose slots all begin runs.
const ALL_BEGIN: [u64; 4] = [u64::MAX; 4];
/// The first byte of the key's lower half.
const LOWER: u8 = 8;

/// The word of each slot.
pub(super) type Slots = [u32; SLOTS];

/// The slots of a node with their runs.
pub(super) struct Node {
    /// The byte of the key that it looks at.
    pub(super) byte: u8,
    /// Bit `i` is set where slot `i` begins a run.
    begins: [u64; 4],
    slots: Slots,
}

impl Node {
    /// A run ends where the leaf changes, and at the ends of each prefix: so the end of a route never has to begin a
    /// new run, and can always be stored in place. If more than half of the slots would begin runs, or memory is
    /// plentiful, all of them do.
    pub(super) fn of(byte: u8, slots: Slots, is_plentiful: bool) -> Self {
        let (mut begins, mut before, mut open) = ([0; 4], 0, 0);
        for (slot, &word) in slots.iter().enumerate() {
            if word != before || slot & open == 0 {
                begins[slot / 64] |= 1 << (slot % 64);
                (before, open) = (word, open_bits(byte, word));
            }
        }
        if is_plentiful || ones(begins) > SLOTS as u32 / 2 {
            begins = ALL_BEGIN;
        }
        Self { byte, begins, slots }
    }

    pub(super) fn lines(&self) -> u32 {
        lines(self.begins)
    }

    /// Whether a node with these runs can hold its slots.
    pub(super) fn fits(&self, begins: [u64; 4]) -> bool {
        self.begins.iter().zip(begins).all(|(ours, theirs)| ours & !theirs == 0)
    }

    /// Stores the words that differ, in a node that it [`fits`](Self::fits).
    pub(super) fn store(&self, table: &Table, at: u32) {
        for (slot, run) in runs(begins(table, at)) {
            let word = self.slots[slot];
            if table.load(at + RUNS + run) != word {
                table.store(at + RUNS + run, word);
            }
        }
    }

    /// Writes a new node, that nothing leads to yet, for keys like `key`; answers its word.
    pub(super) fn write(&self, table: &Table, piece: Piece, key: u128, otherwise: u32) -> u32 {
        let at = piece.at * LINE as u32;
        for (part, begins) in (0..).zip(self.begins) {
            table.write(at + 2 * part, begins as u32);
            table.write(at + 2 * part + 1, (begins >> 32) as u32);
        }
        let mut before = 0;
        let mut befores = [0u8; 8];
        for (part, befores) in befores.iter_mut().enumerate() {
            *befores = before;
            before =
                before.wrapping_add(((self.begins[part / 2] >> (32 * (part % 2))) as u32).count_ones() as u8);
        }
        let [low, high] =
            [0, 4].map(|half| befores[half..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)));
        table.write(at + BEFORE, low);
        table.write(at + BEFORE + 1, high);
        table.write(at + ELSE, otherwise);
        let path = path(key, self.byte);
        table.write(at + PATH, path as u32);
        table.write(at + PATH + 1, (path >> 32) as u32);
        for (slot, run) in runs(self.begins) {
            table.write(at + RUNS + run, self.slots[slot]);
        }
        let dense = if self.begins == ALL_BEGIN { DENSE } else { 0 };
        word::node(piece.at << PLACE.trailing_zeros() | position(self.byte) | dense)
    }

    /// The leaf that all slots have, if it is one.
    pub(super) fn leaf(&self) -> Option<u32> {
        let one = self.slots[0];
        (self.covers(one) && self.slots.iter().all(|word| *word == one)).then_some(one)
    }

    /// The one slot that is a node, and the leaf of all others, if they have one in common.
    pub(super) fn only_child(&self) -> Option<(u32, u32)> {
        let mut nodes = self.slots.iter().filter(|word| word::is_node(**word));
        let (child, None) = (*nodes.next()?, nodes.next()) else { return None };
        let around = self.slots[usize::from(self.slots[0] == child)];
        let same = self.slots.iter().all(|word| *word == child || *word == around);
        (same && self.covers(around)).then_some((child, around))
    }

    /// Whether the prefix that a leaf is of has the whole node in it.
    fn covers(&self, leaf: u32) -> bool {
        !word::is_node(leaf) && word::len(leaf) <= 8 * self.byte
    }
}

/// The bits of a slot's number that the prefix of its leaf leaves open; none, if it is a node.
fn open_bits(byte: u8, word: u32) -> usize {
    let open = (8 * byte + 8).saturating_sub(word::len(word)).min(8);
    if word::is_node(word) { 0 } else { (1 << open) - 1 }
}

/// Whether nodes may be left out from the one for byte `from` on, if the next one looks at byte `to`, and remembers no more
/// than its own half of the key.
pub(super) const fn may_skip(from: u8, to: u8) -> bool {
    (from < LOWER) == (to < LOWER)
}

/// Encodes the byte that a node looks at.
fn position(byte: u8) -> u32 {
    let behind = 8 * u32::from(LOWER - 1 - byte % LOWER);
    if byte < LOWER { behind | UPPER } else { behind }
}

/// The byte of the key that the node of `word` looks at.
pub(super) fn byte(word: u32) -> u8 {
    let byte = LOWER - 1 - ((word & BEHIND) / 8) as u8;
    if word & UPPER == 0 { LOWER + byte } else { byte }
}

/// The memory of the node of `word`.
pub(super) fn piece(table: &Table, word: u32) -> Piece {
    let at = (word & PLACE) >> PLACE.trailing_zeros();
    Piece { at, units: lines(begins(table, start(word))) }
}

pub(super) fn lines(begins: [u64; 4]) -> u32 {
    (RUNS + ones(begins)).div_ceil(LINE as u32)
}

fn ones(begins: [u64; 4]) -> u32 {
    begins.iter().map(|part| part.count_ones()).sum()
}

/// The bitmap of the node at `at`.
pub(super) fn begins(table: &Table, at: u32) -> [u64; 4] {
    [0, 2, 4, 6].map(|part| u64::from(table.load(at + part + 1)) << 32 | u64::from(table.load(at + part)))
}

/// The slots that begin runs, and the runs.
pub(super) fn runs(begins: [u64; 4]) -> impl Iterator<Item = (usize, u32)> {
    (0..SLOTS).filter(move |slot| begins[slot / 64] >> (slot % 64) & 1 != 0).zip(0..)
}

/// Returns the path that the node for this byte stores: the bits of the key before the byte in its half.
fn path(key: u128, byte: u8) -> u64 {
    let half = if byte < LOWER { key >> 64 } else { key } as u64;
    half.checked_shr(64 - 8 * u32::from(byte % LOWER)).unwrap_or(0)
}

/// The byte of a key.
pub(super) fn slot(key: u128, byte: u8) -> usize {
    usize::from((key >> (120 - 8 * u32::from(byte))) as u8)
}

/// Returns the slots of the node for `byte`, given the `word` in its place. A leaf is in all slots; a node further
/// down is in one, and the leaf around it in all others.
pub(super) fn expand(table: &Table, word: u32, byte_here: u8) -> Slots {
    if !word::is_node(word) {
        return [word; SLOTS];
    }
    let at = start(word);
    let skipped = byte(word) - byte_here;
    if skipped > 0 {
        let mut slots = [table.load(at + ELSE); SLOTS];
        let path = super::path(table.words.line(word & PLACE));
        slots[usize::from((path >> (8 * (skipped - 1))) as u8)] = word;
        return slots;
    }
    let mut slots = [0; SLOTS];
    let begins = begins(table, at);
    let mut run = RUNS - 1;
    for (slot, word) in slots.iter_mut().enumerate() {
        run += (begins[slot / 64] >> (slot % 64) & 1) as u32;
        *word = table.load(at + run);
    }
    slots
}
