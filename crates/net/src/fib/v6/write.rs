//! Changes of the table.

use core::sync::atomic::Ordering::Relaxed;

use super::node::{self, Bits, LINES_MAX};
use super::subtree::Prefixes;
use super::{CHANGES, ELSE, LARGE, LINE, PREFIXES, ROOT, SLOTS, Table, path_of, place, slot_of_root};
use crate::fib::Full;
use crate::fib::free_list::{Epoch, Piece, Pieces};
use crate::fib::prefix::Key as _;
use crate::fib::word::{self, Edit};

/// Bits that the root looks at.
const ROOT_BITS: u8 = 16;
/// Changes of a node after which it is made anew, at least.
const CHANGES_MIN: u32 = 8;

/// The writer's part of a table.
#[derive(Debug)]
pub(in crate::fib) struct Writer {
    lines: Pieces,
    /// Nodes of the change under way: made; and covered by the prefix, with each whether it covers what is around them too.
    made: Vec<Piece>,
    below: Vec<(u32, bool)>,
    /// Nodes on the way to a prefix.
    way: Vec<Step>,
}

/// A node on the way to a prefix.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The word that leads to it.
    at: u32,
    /// Bits that were looked at before.
    before: u8,
    word: u32,
}

/// Where the way to a prefix ends.
enum End {
    /// The last node has slots for it.
    Slots(u32, Bits),
    /// A leaf, or a node that the prefix lies beside, or covers: the word that leads there, bits that were looked at before, whether it is
    /// covered.
    Before(u32, u8, bool),
}

impl Writer {
    pub(super) fn new(first: u32, end: u32) -> Self {
        let lines = Pieces::new(first, end, LINES_MAX);
        Self { lines, made: Vec::new(), below: Vec::new(), way: Vec::new() }
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
        if len <= ROOT_BITS {
            let first = slot_of_root(key) as u32;
            self.overwrite(table, first..first + (1 << (ROOT_BITS - len)), edit);
            self.patch_below(table, edit);
            return Ok(());
        }
        let changes_shape = match self.go(table, key, len) {
            End::Slots(start, bits) => {
                let covered = bits.covered(key, len);
                let slots = start + SLOTS + covered.start as u32..start + SLOTS + covered.end as u32;
                let is_new = self.overwrite(table, slots, edit);
                self.patch_below(table, edit);
                is_new || edit.ends
            }
            End::Before(at, _, covers) if edit.ends => {
                // Longer prefixes are all that is left of it.
                self.below.extend(Some(table.load(at)).filter(|_| covers).map(|word| (word, false)));
                self.patch_below(table, edit);
                true
            }
            End::Before(at, before, _) => {
                let mut prefixes = Prefixes::of(table, table.load(at), key, before);
                prefixes.put(key, len, edit.leaf);
                self.replace(table, (at, before), prefixes, epoch)?;
                true
            }
        };
        if edit.ends {
            self.collapse(table, epoch);
        }
        if changes_shape {
            self.reshape(table, key, epoch);
        }
        table.is_large.store(self.lines.used() >= LARGE, Relaxed);
        Ok(())
    }

    /// Goes as far as there are nodes on the way to a prefix.
    fn go(&mut self, table: &Table, key: u128, len: u8) -> End {
        let (mut at, mut before) = (slot_of_root(key) as u32, ROOT_BITS);
        self.way.clear();
        loop {
            let word = table.load(at);
            if !word::is_node(word) {
                return End::Before(at, before, false);
            }
            let (bits, start) = (Bits::of_node(word), node::start(word));
            let first = bits.key(key, before, path_of(table.words.line(place(word))));
            let agrees = first.common(key) >= bits.from.max(before).min(len);
            if !agrees || len <= bits.from {
                return End::Before(at, before, agrees);
            }
            self.way.push(Step { at, before, word });
            if len <= bits.end() {
                return End::Slots(start, bits);
            }
            at = start + SLOTS + bits.slot(key) as u32;
            before = bits.end();
        }
    }

    /// Lets a word lead to new nodes for these prefixes.
    fn replace(
        &mut self,
        table: &Table,
        (at, before): (u32, u8),
        mut prefixes: Prefixes,
        epoch: Epoch,
    ) -> Result<(), Full> {
        let gone = core::mem::take(&mut prefixes.pieces);
        match prefixes.build(table, before, &mut self.lines, &mut self.made) {
            Ok(word) => {
                table.store(at, word);
                self.made.clear();
                gone.into_iter().for_each(|piece| self.lines.give_later(epoch, piece));
                Ok(())
            }
            Err(Full) => {
                self.made.drain(..).for_each(|piece| self.lines.give(piece));
                Err(Full)
            }
        }
    }

    /// Takes out nodes on the way whose slots all say what is said around them.
    fn collapse(&mut self, table: &Table, epoch: Epoch) {
        while let Some(step) = self.way.pop() {
            let Some(leaf) = node::leaf_of_all(table, step.word, step.before) else {
                self.way.push(step);
                return;
            };
            table.store(step.at, leaf);
            self.lines.give_later(epoch, node::piece(step.word));
        }
    }

    /// Counts a change in the nodes on the way, and makes the first anew that has changed much. If there is no memory for that, it stays.
    fn reshape(&mut self, table: &Table, key: u128, epoch: Epoch) {
        let mut much = None;
        for step in &self.way {
            let start = node::start(step.word);
            let changes = table.load(start + CHANGES).saturating_add(1);
            table.write(start + CHANGES, changes);
            if much.is_none() && changes >= CHANGES_MIN.max(table.load(start + PREFIXES) / 2) {
                much = Some(*step);
            }
        }
        if let Some(Step { at, before, word }) = much {
            // After a failure, not before as much has changed again.
            table.write(node::start(word) + CHANGES, 0);
            let _ = self.replace(table, (at, before), Prefixes::of(table, word, key, before), epoch);
        }
    }

    /// Overwrites leaves, and remembers nodes; answers whether any leaf became one of another length.
    fn overwrite(&mut self, table: &Table, slots: core::ops::Range<u32>, edit: Edit) -> bool {
        let mut is_new = false;
        for at in slots {
            let word = table.load(at);
            if word::is_node(word) {
                self.below.push((word, true));
            } else if edit.changes(word) {
                is_new |= word::len(word) != word::len(edit.leaf);
                table.store(at, edit.leaf);
            }
        }
        is_new
    }

    /// Makes a change to all leaves in the nodes that the prefix covers.
    fn patch_below(&mut self, table: &Table, edit: Edit) {
        while let Some((word, around)) = self.below.pop() {
            let start = node::start(word);
            let slots = start + SLOTS..start + SLOTS + Bits::of_node(word).slots() as u32;
            if around {
                self.overwrite(table, start + ELSE..start + ELSE + 1, edit);
            }
            self.overwrite(table, slots, edit);
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
