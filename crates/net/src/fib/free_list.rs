//! Which parts of a table's memory are free.
//!
//! What is taken out of a table may still be read by a CPU that is in the middle of a lookup. It waits here until all
//! CPUs have been asked, and only then it is free.

use std::collections::VecDeque;

/// Numbers the changes of a table: what a change took out may be reused when all CPUs have passed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub(super) u64);

impl Epoch {
    /// The one that comes after.
    #[must_use]
    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Units of memory from `next` to `end`, and free runs of them by their length.
#[derive(Debug)]
pub(super) struct Pieces {
    first: u32,
    next: u32,
    end: u32,
    /// `free[n]` holds the starts of free pieces of `n + 1` units.
    free: Vec<Vec<u32>>,
    waiting: VecDeque<(Epoch, Piece)>,
    /// Units that are free or wait.
    idle: u32,
}

/// A run of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) at: u32,
    pub(super) units: u32,
}

impl Pieces {
    /// Units from `first` to `end`, given out in pieces of at most `units_max`.
    pub(super) fn new(first: u32, end: u32, units_max: usize) -> Self {
        let free = vec![Vec::new(); units_max];
        Self { first, next: first, end, free, waiting: VecDeque::new(), idle: 0 }
    }

    /// A piece of this many units, if there is one: a freed one of that size, else a new one, else a part of a freed
    /// one.
    pub(super) fn take(&mut self, units: u32) -> Option<Piece> {
        if let Some(at) = self.free.get_mut(units as usize - 1)?.pop() {
            self.idle -= units;
            return Some(Piece { at, units });
        }
        if self.end - self.next >= units {
            self.next += units;
            return Some(Piece { at: self.next - units, units });
        }
        self.split(units)
    }

    fn split(&mut self, units: u32) -> Option<Piece> {
        let sizes = self.free.iter_mut().zip(1u32..).skip(units as usize);
        let (at, whole) = sizes.filter_map(|(free, size)| Some((free.pop()?, size))).next()?;
        self.idle -= whole;
        self.give(Piece { at: at + units, units: whole - units });
        Some(Piece { at, units })
    }

    /// Takes back a piece that no reader ever saw.
    pub(super) fn give(&mut self, piece: Piece) {
        if let Some(free) = self.free.get_mut(piece.units as usize - 1) {
            free.push(piece.at);
            self.idle += piece.units;
        }
    }

    /// Takes back a piece that readers may still hold: free when `epoch` is over.
    pub(super) fn give_later(&mut self, epoch: Epoch, piece: Piece) {
        self.waiting.push_back((epoch, piece));
        self.idle += piece.units;
    }

    /// All CPUs have passed `epoch`.
    pub(super) fn retire(&mut self, epoch: Epoch) {
        while let Some((_, piece)) = self.waiting.pop_front_if(|(of, _)| *of <= epoch) {
            self.idle -= piece.units;
            self.give(piece);
        }
    }

    /// Units that can be taken now, if not in one piece.
    pub(super) fn left(&self) -> usize {
        let free = self.free.iter().zip(1..).map(|(free, size)| free.len() * size);
        (self.end - self.next) as usize + free.sum::<usize>()
    }

    /// Units in use.
    pub(super) const fn used(&self) -> usize {
        (self.next - self.first - self.idle) as usize
    }

    /// Units in all.
    pub(super) const fn bound(&self) -> usize {
        (self.end - self.first) as usize
    }
}
