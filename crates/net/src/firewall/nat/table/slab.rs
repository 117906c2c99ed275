//! Bindings side by side, in blocks.

use super::{Binding, Links, NONE};

/// Bindings of a block: 16 KiB.
const BLOCK: usize = 256;
const _: () = assert!(size_of::<Slot>() == 64);

/// A line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Slot {
    binding: Binding,
    links: Links,
}

type Block = Vec<Slot>;

/// All but the last block are full, but for one spare that keeps a table that breathes from asking for memory.
#[derive(Default)]
pub(super) struct Slab {
    blocks: Vec<Block>,
    len: usize,
}

impl Slab {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK * size_of::<Slot>()
    }

    /// The place of the last one.
    pub(super) fn last(&self) -> u32 {
        u32::try_from(self.len).unwrap_or(NONE).wrapping_sub(1)
    }

    pub(super) fn push(&mut self, binding: Binding) -> u32 {
        let block = self.len / BLOCK;
        if block == self.blocks.len() {
            self.blocks.push(Block::with_capacity(BLOCK));
        }
        self.blocks[block].push(Slot { binding, links: Links::NONE });
        self.len += 1;
        self.last()
    }

    /// Forgets the last one.
    pub(super) fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
        let block = self.len / BLOCK;
        self.blocks[block].pop();
        self.blocks.truncate(if self.len == 0 { 0 } else { block + 2 });
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> (&Binding, &Links) {
        let slot = &self.blocks[at as usize / BLOCK][at as usize % BLOCK];
        (&slot.binding, &slot.links)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> (&mut Binding, &mut Links) {
        let slot = &mut self.blocks[at as usize / BLOCK][at as usize % BLOCK];
        (&mut slot.binding, &mut slot.links)
    }

    pub(super) fn links(&mut self, at: u32) -> &mut Links {
        self.get_mut(at).1
    }

    /// Puts a copy of one over another.
    pub(super) fn copy(&mut self, from: u32, to: u32) {
        let slot = self.blocks[from as usize / BLOCK][from as usize % BLOCK];
        self.blocks[to as usize / BLOCK][to as usize % BLOCK] = slot;
    }
}
