//! Chains by hash, as many as there are bindings: linear hashing. For each binding that comes one chain is split in
//! two, for each that goes two are joined, so growing and shrinking cost each a little (W. Litwin, "Linear hashing", 1980).

use super::By;
use super::binding::{Binding, NONE};
use super::slab::Slab;

/// Chains of a block, 4 KiB; and how many there are at least.
const BLOCK: u32 = 1024;

/// The first of each chain.
pub(super) struct Index {
    blocks: Vec<Box<[u32; BLOCK as usize]>>,
    chains: u32,
}

impl Default for Index {
    fn default() -> Self {
        Self { blocks: vec![Box::new([NONE; BLOCK as usize])], chains: BLOCK }
    }
}

impl Index {
    pub(super) fn bytes(&self) -> usize {
        self.blocks.len() * size_of::<[u32; BLOCK as usize]>()
    }

    /// The first binding of the chain of a hash.
    #[inline]
    pub(super) fn first(&self, hash: u32) -> u32 {
        let chain = self.chain(hash);
        self.blocks[(chain / BLOCK) as usize][(chain % BLOCK) as usize]
    }

    pub(super) fn insert(&mut self, slab: &mut Slab, by: By, hash: u32, at: u32) {
        let head = self.head(self.chain(hash));
        slab.links(at).chain[by as usize] = core::mem::replace(head, at);
    }

    pub(super) fn remove(&mut self, slab: &mut Slab, by: By, hash: u32, at: u32) {
        let next = slab.links(at).chain[by as usize];
        self.replace(slab, by, hash, at, next);
    }

    /// Makes what points to `old` point to `new`.
    pub(super) fn replace(&mut self, slab: &mut Slab, by: By, hash: u32, old: u32, new: u32) {
        let head = self.head(self.chain(hash));
        if *head == old {
            *head = new;
            return;
        }
        let mut at = *head;
        while at != NONE {
            let next = &mut slab.links(at).chain[by as usize];
            if *next == old {
                *next = new;
                return;
            }
            at = *next;
        }
    }

    /// Splits a chain, if there are more bindings than chains.
    pub(super) fn grow(&mut self, slab: &mut Slab, by: By, hash: impl Fn(&Binding) -> u32) {
        if slab.len() <= self.chains as usize {
            return;
        }
        let split = self.chains - self.power();
        if self.chains.is_multiple_of(BLOCK) {
            self.blocks.push(Box::new([NONE; BLOCK as usize]));
        }
        self.chains += 1;
        let mut at = core::mem::replace(self.head(split), NONE);
        while at != NONE {
            let (binding, links) = slab.get_mut(at);
            let chain = self.chain(hash(binding));
            let next = links.chain[by as usize];
            links.chain[by as usize] = core::mem::replace(self.head(chain), at);
            at = next;
        }
    }

    /// Joins two chains, if there are clearly fewer bindings than chains: two, so that memory goes back while as many come
    /// as go.
    pub(super) fn shrink(&mut self, slab: &mut Slab, by: By) {
        for _ in 0..2 {
            if self.chains == BLOCK || slab.len() + slab.len() / 4 >= self.chains as usize {
                return;
            }
            self.join(slab, by);
        }
    }

    fn join(&mut self, slab: &mut Slab, by: By) {
        let chains = self.chains - 1;
        let rest = core::mem::replace(self.head(chains), NONE);
        self.chains = chains;
        if chains.is_multiple_of(BLOCK) {
            self.blocks.pop();
        }
        if rest == NONE {
            return;
        }
        let into = chains - self.power();
        let mut last = *self.head(into);
        if last == NONE {
            *self.head(into) = rest;
            return;
        }
        while slab.links(last).chain[by as usize] != NONE {
            last = slab.links(last).chain[by as usize];
        }
        slab.links(last).chain[by as usize] = rest;
    }

    fn head(&mut self, chain: u32) -> &mut u32 {
        &mut self.blocks[(chain / BLOCK) as usize][(chain % BLOCK) as usize]
    }

    /// The largest power of two that is not more than the number of chains.
    const fn power(&self) -> u32 {
        1 << self.chains.ilog2()
    }

    #[inline]
    const fn chain(&self, hash: u32) -> u32 {
        let power = self.power();
        let chain = hash & (power * 2 - 1);
        if chain < self.chains { chain } else { chain - power }
    }
}
