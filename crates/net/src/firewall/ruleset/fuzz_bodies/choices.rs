//! Choices, made by bytes.

/// Turns bytes into choices. When they are used up, the first of everything is chosen.
pub(super) struct Dice<'d> {
    rest: &'d [u8],
}

impl<'d> Dice<'d> {
    pub(super) const fn new(bytes: &'d [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    pub(super) fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    pub(super) fn long(&mut self) -> u64 {
        (0..8).fold(0, |all, _| all << 8 | u64::from(self.byte()))
    }

    /// Below `bound`, which is not zero.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    /// Below `bound`.
    pub(super) fn small(&mut self, bound: u8) -> u16 {
        u16::from(self.byte() % bound)
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    pub(super) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
