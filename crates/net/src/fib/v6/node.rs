//! A node as its writer sees it: which bits of the key it looks at, and where it is.

use super::{BEHIND, LINE, LINES, LOWER, SLOTS, STRIDE, STRIDES, Table, behind, place, slots};
use crate::fib::free_list::Piece;
use crate::fib::prefix::Key as _;
use crate::fib::word;

/// Bits that a node looks at, at least and at most.
const STRIDE_MIN: u32 = STRIDES[0] as u32;
const STRIDE_MAX: u32 = STRIDES[STRIDES.len() - 1] as u32;
/// Lines of the largest node.
pub(super) const LINES_MAX: usize = lines(STRIDE_MAX) as usize;
/// Lines of a node where memory is plentiful.
pub(super) const LINES_PLENTY: usize = lines(STRIDE_PLENTY) as usize;
const HALF: u32 = 64;
/// Bits that a node looks at where memory is plentiful, at least.
const STRIDE_PLENTY: u32 = 8;

/// Memory that a table has left for new nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Plenty,
    Enough,
    Little,
}

impl Room {
    /// Slots of a node for each prefix, and bits that it looks at: at least that many.
    const fn shape(self) -> (usize, u32) {
        match self {
            Self::Plenty => (8, STRIDE_PLENTY),
            Self::Enough => (8, STRIDE_MIN),
            Self::Little => (2, STRIDE_MIN),
        }
    }
}

/// The bits that a node looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits {
    /// The first of them.
    pub(super) from: u8,
    pub(super) count: u8,
}

impl Bits {
    /// The bits for a node in place of a slot of `before` bits, for so many prefixes, of these lengths: the first of them have
    /// `common` bits in common.
    pub(super) fn of(
        before: u8,
        count: usize,
        common: u8,
        (shortest, longest): (u8, u8),
        room: Room,
    ) -> Self {
        let [before, common, shortest, longest] = [before, common, shortest, longest].map(u32::from);
        let is_lower = before >= HALF;
        let end = if is_lower { 2 * HALF } else { HALF };
        // Where they differ, and before any of them ends.
        let highest = common.min(shortest.saturating_sub(1));
        let (slots_each, least) = room.shape();
        let wanted = (count * slots_each).max(1 << STRIDE_MIN).ilog2();
        let count = wanted.min(longest.saturating_sub(highest)).clamp(least, STRIDE_MAX);
        let (_, count) = stride(count);
        let from = highest.min(longest.saturating_sub(count)).max(before).min(end - count);
        let (from, count) = match (from + count) % 2 {
            0 => (from, count),
            _ if from < highest => (from + 1, count),
            _ if count % 2 == 1 => (from, count + 1),
            _ => (from - 1, count),
        };
        Self { from: from as u8, count: count as u8 }
    }

    /// Returns the bits of the node of `word`.
    pub(super) const fn of_node(word: u32) -> Self {
        let count = slots(word).ilog2();
        let end = if word & LOWER == 0 { HALF } else { 2 * HALF };
        Self { from: (end - behind(word) - count) as u8, count: count as u8 }
    }

    /// The bit behind them.
    pub(super) const fn end(self) -> u8 {
        self.from + self.count
    }

    pub(super) const fn slots(self) -> usize {
        1 << self.count
    }

    /// The slot of a key.
    pub(super) const fn slot(self, key: u128) -> usize {
        (key >> (128 - self.end())) as usize & (self.slots() - 1)
    }

    /// The slots of a prefix that ends in the node.
    pub(super) fn covered(self, key: u128, len: u8) -> core::ops::Range<usize> {
        let first = self.slot(key.cut(len));
        first..first + (1 << (self.end() - len).min(self.count))
    }

    /// The first key of a slot, of a node whose keys begin like this.
    pub(super) fn key_of(self, key: u128, slot: usize) -> u128 {
        key.cut(self.from) | (slot as u128) << (128 - self.end())
    }

    /// The bits that the node has to remember: those before it, in its half of the key, with zeros for its own.
    pub(super) fn path(self, key: u128) -> u64 {
        let half = if u32::from(self.from) < HALF { key >> 64 } else { key } as u64;
        let behind = HALF - u32::from(self.from) % HALF;
        half.checked_shr(behind).unwrap_or(0) << self.count
    }

    /// The first key that a node stands for: in place of a slot of `before` bits of a key, and with such a path.
    pub(super) fn key(self, key: u128, before: u8, path: u64) -> u128 {
        let skipped = self.from.saturating_sub(before);
        if skipped == 0 {
            return key.cut(before);
        }
        let path = u128::from(path >> self.count) & ((1 << skipped) - 1);
        key.cut(before) | path << (128 - self.from)
    }

    pub(super) const fn lines(self) -> u32 {
        lines(self.count as u32)
    }

    /// The word of a node at this line.
    pub(super) fn word(self, line: u32) -> u32 {
        let (from, count) = (u32::from(self.from), u32::from(self.count));
        let half = if from < HALF { 0 } else { LOWER };
        let behind = HALF - from % HALF - count;
        word::node(half | stride(count).0 << STRIDE | (behind / 2) << BEHIND | line)
    }
}

/// The largest stride that nodes have, of no more bits than this: its place in the list, and its bits.
fn stride(bits: u32) -> (u32, u32) {
    let strides = (0..).zip(STRIDES.map(u32::from));
    strides.take_while(|(_, stride)| *stride <= bits).last().unwrap_or((0, STRIDE_MIN))
}

const fn lines(stride: u32) -> u32 {
    (SLOTS + (1 << stride)).div_ceil(LINE as u32)
}

/// The first word of the node of `word`.
pub(super) const fn start(word: u32) -> u32 {
    place(word) / 4
}

/// The memory of the node of `word`.
pub(super) const fn piece(word: u32) -> Piece {
    Piece { at: word & LINES, units: Bits::of_node(word).lines() }
}

/// The leaf that all slots of a node have, if it is one of a prefix that covers it: one of no more bits than were looked at before.
pub(super) fn leaf_of_all(table: &Table, word: u32, before: u8) -> Option<u32> {
    let slots = start(word) + SLOTS;
    let first = table.load(slots);
    let covers = !word::is_node(first) && word::len(first) <= before;
    let count = Bits::of_node(word).slots() as u32;
    (covers && (slots..slots + count).all(|at| table.load(at) == first)).then_some(first)
}
