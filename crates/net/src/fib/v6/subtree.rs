//! Subtrees: their prefixes, and new nodes for them.

use super::node::{self, Bits, Room};
use super::{CHANGES, ELSE, PATH, PREFIXES, SLOTS, Table};
use crate::fib::Full;
use crate::fib::free_list::{Piece, Pieces};
use crate::fib::prefix::Key as _;
use crate::fib::word;

/// While no more lines than this are in use, nor this part of all, nodes are made fast and not small: 256 KiB, which any
/// second-level cache has.
const PLENTY: (usize, usize) = (4096, 16);
/// When more than one of so many parts of all lines is in use, nodes are made small.
const LITTLE: usize = 2;

/// The prefixes of a subtree in place of a slot, as far as any address has them, and what holds outside of them.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    all: Vec<Prefix>,
    around: u32,
    /// Memory of its nodes.
    pub(super) pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Prefix {
    key: u128,
    len: u8,
    leaf: u32,
}

impl Prefixes {
    /// Collects the prefixes below the word of a slot, which is of the first `before` bits of `key`.
    pub(super) fn of(table: &Table, word: u32, key: u128, before: u8) -> Self {
        let mut found = Self::default();
        found.visit(table, word, (key, before), before);
        found
    }

    fn visit(&mut self, table: &Table, word: u32, (key, here): (u128, u8), before: u8) {
        if !word::is_node(word) {
            if word::len(word) <= before {
                self.around = word;
            } else {
                self.push(key, word::len(word), word);
            }
            return;
        }
        self.pieces.push(node::piece(word));
        let (bits, start) = (Bits::of_node(word), node::start(word));
        self.visit(table, table.load(start + ELSE), (key, here), before);
        let first = bits.key(key, here, super::path_of(table.words.line(super::place(word))));
        let mut last = (0, 0);
        for (slot, at) in (0..bits.slots()).zip(start + SLOTS..) {
            let (key, word) = (bits.key_of(first, slot), table.load(at));
            // Neighbours mostly are of the same prefix.
            let this = (key.cut(word::len(word)), word);
            // A node may look at bits that were looked at before: then no key comes to its other slots.
            if key.cut(here) == first.cut(here) && (word::is_node(word) || this != last) {
                self.visit(table, word, (key, bits.end()), before);
                last = this;
            }
        }
    }

    /// Adds a prefix, or another leaf for one that there is.
    pub(super) fn put(&mut self, key: u128, len: u8, leaf: u32) {
        self.all.retain(|one| (one.key, one.len) != (key.cut(len), len));
        self.push(key, len, leaf);
    }

    fn push(&mut self, key: u128, len: u8, leaf: u32) {
        self.all.push(Prefix { key: key.cut(len), len, leaf });
    }

    /// Makes nodes for them in place of a slot of `before` bits; answers the word of the first.
    ///
    /// # Errors
    ///
    /// [`Full`]. What was taken from `lines` is in `made`.
    pub(super) fn build(
        mut self,
        table: &Table,
        before: u8,
        lines: &mut Pieces,
        made: &mut Vec<Piece>,
    ) -> Result<u32, Full> {
        self.all.sort_unstable();
        self.all.dedup();
        let plenty = PLENTY.0.min(lines.bound() / PLENTY.1);
        let room = if lines.used() + node::LINES_PLENTY <= plenty {
            Room::Plenty
        } else if lines.used() <= lines.bound() / LITTLE {
            Room::Enough
        } else {
            Room::Little
        };
        build(table, &self.all, (before, room), self.around, &mut |units| {
            let piece = lines.take(units).ok_or(Full)?;
            made.push(piece);
            Ok(piece)
        })
    }
}

/// Makes nodes for prefixes that are sorted and longer than `before` bits, of which the first are the same.
fn build(
    table: &Table,
    prefixes: &[Prefix],
    (before, room): (u8, Room),
    around: u32,
    take: &mut dyn FnMut(u32) -> Result<Piece, Full>,
) -> Result<u32, Full> {
    let (Some(first), Some(last)) = (prefixes.first(), prefixes.last()) else { return Ok(around) };
    let lens = || prefixes.iter().map(|one| one.len);
    let lens = (lens().min().unwrap_or(0), lens().max().unwrap_or(0));
    let bits = Bits::of(before, prefixes.len(), first.key.common(last.key), lens, room);
    let mut slots = vec![around; bits.slots()];
    let (short, long): (Vec<Prefix>, Vec<Prefix>) = prefixes.iter().partition(|one| one.len <= bits.end());
    // What covers others comes before them.
    for one in short {
        slots[bits.covered(one.key, one.len)].fill(one.leaf);
    }
    for below in long.chunk_by(|one, next| bits.slot(one.key) == bits.slot(next.key)) {
        let slot = &mut slots[bits.slot(below[0].key)];
        *slot = build(table, below, (bits.end(), room), *slot, take)?;
    }
    let piece = take(bits.lines())?;
    let word = bits.word(piece.at);
    let start = node::start(word);
    table.write(start + ELSE, around);
    let path = bits.path(first.key);
    table.write(start + PATH, path as u32);
    table.write(start + PATH + 1, (path >> 32) as u32);
    table.write(start + PREFIXES, prefixes.len() as u32);
    table.write(start + CHANGES, 0);
    (start + SLOTS..).zip(slots).for_each(|(at, word)| table.write(at, word));
    Ok(word)
}
