//! The words of both families' tables.
//!
//! A word is a leaf or a node. A leaf is a value (of routes the hop), and the length of the prefix that brought it there:
//! readers take the value, writers decide by the length what a change may overwrite. A node is what the next bits of the
//! key lead to; how it is found differs by family. Zero, which memory begins with, is "no route".
#![expect(
    clippy::cast_possible_truncation,
    reason = "keys and words are taken apart, and what is cut off is another part"
)]

use super::HopId;

const NODE: u32 = 1 << 31;
const LEN_SHIFT: u32 = VALUE_BITS;
/// Bits that a value may have.
pub(super) const VALUE_BITS: u32 = 23;

const VALUE_MASK: u32 = (1 << VALUE_BITS) - 1;

/// A change to all words that a prefix covers: it takes the leaves whose length is in a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edit {
    /// Lengths that are overwritten.
    pub(super) takes: (u8, u8),
    /// The leaf to write.
    pub(super) leaf: u32,
    /// A route ends: then nothing may be needed that there might not be.
    pub(super) ends: bool,
}

impl Edit {
    /// A route to a prefix of `len` bits: overwrites what is not more specific.
    pub(super) fn put(len: u8, value: u32) -> Self {
        Self { takes: (0, len), leaf: leaf(len, value), ends: false }
    }

    /// The end of the route to a prefix of `len` bits: `covering`, its length and value, is in force again.
    pub(super) fn end(len: u8, covering: (u8, u32)) -> Self {
        Self { takes: (len, len), leaf: leaf(covering.0, covering.1), ends: true }
    }

    /// Whether it overwrites `word`, and not with the same.
    pub(super) fn changes(self, word: u32) -> bool {
        !is_node(word) && (self.takes.0..=self.takes.1).contains(&len(word)) && word != self.leaf
    }
}

fn leaf(len: u8, value: u32) -> u32 {
    u32::from(len) << LEN_SHIFT | value & VALUE_MASK
}

/// The word of a node with this index.
pub(super) const fn node(index: u32) -> u32 {
    NODE | index
}

#[inline]
pub(super) const fn is_node(word: u32) -> bool {
    word & NODE != 0
}

/// The index in the word of a node.
#[inline]
pub(super) const fn index(word: u32) -> u32 {
    word & !NODE
}

/// The length of the prefix that a leaf is of.
pub(super) const fn len(leaf: u32) -> u8 {
    (leaf >> LEN_SHIFT) as u8
}

/// The value in a leaf.
#[inline]
pub(super) const fn value(leaf: u32) -> u32 {
    leaf & VALUE_MASK
}

/// The hop in a leaf of a route.
#[inline]
pub(super) const fn hop(leaf: u32) -> HopId {
    HopId::from_bits(leaf as u16)
}
