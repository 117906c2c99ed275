//! Changes of the table.

use super::node::{self, LINES_MAX, Node, Slots};
use super::{ELSE, LINE, ROOT, RUNS, Table, slot_of_root, start};
use crate::fib::Full;
use crate::fib::free_list::{Epoch, Piece, Pieces};
use crate::fib::word::{self, Edit};

/// While no more lines than this are in use, nor this part of all, nodes are made fast and not small: 256 KiB, which any
/// second-level cache has.
const PLENTY: (usize, usize) = (4096, 16);

/// The writer's part of a table.
#[derive(Debug)]
pub(in crate::fib) struct Writer {
    lines: Pieces,
    /// Nodes of the change under way: made, dropped, and covered by the prefix; with each,
    /// whether it covers what is around them too.
    made: Vec<Piece>,
    gone: Vec<Piece>,
    below: Vec<(u32, bool)>,
}

/// A change, on its way down.
#[derive(Clone, Copy)]
struct Change {
    key: u128,
    len: u8,
    edit: Edit,
    /// Change no runs: then no memory is needed, and none given back.
    in_place: bool,
    /// Have a node where one could be left out.
    keep: bool,
}

impl Writer {
    pub(super) fn new(first: u32, end: u32) -> Self {
        let lines = Pieces::new(first, end, LINES_MAX);
        Self { lines, made: Vec::new(), gone: Vec::new(), below: Vec::new() }
    }

    /// Makes a change to all addresses that share the first `len` bits of `key`: each goes from the old answer to the
    /// new one at once.
    ///
    /// # Errors
    ///
    /// [`Full`] if it needs more memory than is left; then nothing has changed. A route that ends needs none.
    pub(in crate::fib) fn edit(
        &mut self,
        table: &Table,
        (key, len): (u128, u8),
        edit: Edit,
        epoch: Epoch,
    ) -> Result<(), Full> {
        let change = Change { key, len, edit, in_place: false, keep: false };
        match self.attempt(table, change) {
            Ok(()) => self.succeed(epoch),
            Err(Full) => {
                self.fail();
                if !edit.ends {
                    return Err(Full);
                }
                self.attempt(table, Change { in_place: true, ..change })?;
            }
        }
        self.patch_below(table, edit);
        Ok(())
    }

    fn succeed(&mut self, epoch: Epoch) {
        self.made.clear();
        self.gone.drain(..).for_each(|piece| self.lines.give_later(epoch, piece));
    }

    fn fail(&mut self) {
        self.gone.clear();
        self.below.clear();
        self.made.drain(..).for_each(|piece| self.lines.give(piece));
    }

    fn attempt(&mut self, table: &Table, change: Change) -> Result<(), Full> {
        let first = slot_of_root(change.key) as u32;
        if change.len > 16 {
            let old = table.load(first);
            let new = self.change(table, old, 2, change)?;
            if new != old {
                table.store(first, new);
            }
            return Ok(());
        }
        for at in first..first + (1 << (16 - change.len)) {
            let word = table.load(at);
            if word::is_node(word) {
                self.below.push((word, true));
            } else if change.edit.changes(word) {
                table.store(at, change.edit.leaf);
            }
        }
        Ok(())
    }

    /// Returns the replacement of `word` in the place of the node for `byte`; `word` itself, if its memory serves.
    fn change(&mut self, table: &Table, word: u32, byte: u8, change: Change) -> Result<u32, Full> {
        let end = 8 * byte + 8;
        let first = node::slot(change.key, byte);
        let mut slots = node::expand(table, word, byte);
        if change.len > end {
            let new = self.change(table, slots[first], byte + 1, change)?;
            if new == slots[first] {
                return Ok(word);
            }
            slots[first] = new;
            return self.replace(table, word, self.node(byte, slots), change);
        }
        let covered = &mut slots[first..first + (1 << (end - change.len))];
        // What holds around a node further down will differ inside and outside of the prefix.
        let parts = word::is_node(word) && node::byte(word) > byte + 1 && covered.contains(&word);
        let change = Change { keep: change.keep || parts && !change.edit.ends, ..change };
        if !self.overwrite(covered, byte, change.edit) && !change.keep {
            return Ok(word);
        }
        self.replace(table, word, self.node(byte, slots), change)
    }

    /// Overwrites leaves, and remembers nodes; answers whether any leaf changed.
    fn overwrite(&mut self, slots: &mut [u32], byte: u8, edit: Edit) -> bool {
        let nodes = slots.iter().filter(|word| word::is_node(**word));
        // Around a node that follows at once there is nothing inside of the slot.
        self.below.extend(nodes.map(|word| (*word, node::byte(*word) > byte + 1)));
        let mut changed = false;
        for word in slots.iter_mut().filter(|word| edit.changes(**word)) {
            *word = edit.leaf;
            changed = true;
        }
        changed
    }

    fn node(&self, byte: u8, slots: Slots) -> Node {
        let plenty = PLENTY.0.min(self.lines.bound() / PLENTY.1);
        Node::of(byte, slots, self.lines.used() < plenty)
    }

    /// The word of `node`, which takes the place of `old`: a leaf or a child if it says no more than that, the old node
    /// if only words change, else a new one.
    fn replace(&mut self, table: &Table, old: u32, node: Node, change: Change) -> Result<u32, Full> {
        let here = word::is_node(old) && node::byte(old) == node.byte;
        if !change.in_place
            && !change.keep
            && let Some(short) = without(table, &node)
        {
            self.gone.extend(here.then(|| node::piece(table, old)));
            return Ok(short);
        }
        let fits = here && self.fits(table, old, &node, change);
        let piece = if fits { None } else { self.lines.take(node.lines()) };
        match piece {
            Some(piece) => Ok(self.put(table, here.then_some(old), &node, piece, change.key)),
            None if here && node.fits(node::begins(table, start(old))) => {
                node.store(table, start(old));
                Ok(old)
            }
            None => Err(Full),
        }
    }

    /// Whether the node of `old` can hold `node`, and a smaller one could not or must not be made.
    fn fits(&self, table: &Table, old: u32, node: &Node, change: Change) -> bool {
        let begins = node::begins(table, start(old));
        node.fits(begins) && (change.in_place || node.lines() == node::lines(begins))
    }

    /// Writes a new node, in the place of an old one if there is one.
    fn put(&mut self, table: &Table, old: Option<u32>, node: &Node, piece: Piece, key: u128) -> u32 {
        let otherwise = old.map_or(0, |old| table.load(start(old) + ELSE));
        self.made.push(piece);
        self.gone.extend(old.map(|old| node::piece(table, old)));
        node.write(table, piece, key, otherwise)
    }

    /// Makes a change to all leaves in the nodes that the prefix covers.
    fn patch_below(&mut self, table: &Table, edit: Edit) {
        while let Some((word, around)) = self.below.pop() {
            let at = start(word);
            let runs = node::begins(table, at).iter().map(|part| part.count_ones()).sum::<u32>();
            let around = around.then_some(at + ELSE);
            for at in around.into_iter().chain((0..runs).map(|run| at + RUNS + run)) {
                let word = table.load(at);
                if word::is_node(word) {
                    self.below.push((word, true));
                } else if edit.changes(word) {
                    table.store(at, edit.leaf);
                }
            }
        }
    }

    /// All CPUs have passed `epoch`.
    pub(in crate::fib) fn retire(&mut self, epoch: Epoch) {
        self.lines.retire(epoch);
    }

    /// Lines in use, and in all.
    pub(in crate::fib) const fn usage(&self) -> (usize, usize) {
        (self.lines.used(), self.lines.bound())
    }

    /// Bytes in use.
    pub(in crate::fib) const fn bytes(&self) -> usize {
        (ROOT + self.lines.used() * LINE) * size_of::<u32>()
    }
}

/// Returns an equivalent without `node`: the leaf of all slots, or the one child, which then stores the path around
/// it.
fn without(table: &Table, node: &Node) -> Option<u32> {
    node.leaf().or_else(|| {
        let (child, around) = node.only_child()?;
        let (at, skipped) = (start(child) + ELSE, node::byte(child) - node.byte);
        let agrees = skipped == 1 || table.load(at) == around;
        if !agrees || !node::may_skip(node.byte, node::byte(child)) {
            return None;
        }
        table.store(at, around);
        Some(child)
    })
}
