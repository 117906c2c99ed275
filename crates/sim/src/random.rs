//! Chance, repeatable.

/// A generator of numbers that look random and follow from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns a generator for another part of the world: its use does not change the numbers here.
    #[must_use]
    pub const fn fork(&mut self) -> Self {
        Self { state: self.draw() }
    }

    /// The next number.
    pub const fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        let drawn = self.draw().checked_rem(bound as u64).unwrap_or(0);
        usize::try_from(drawn).unwrap_or(0)
    }

    /// The next number from `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True `ppm` times in a million.
    pub const fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.draw() % 1_000_000 < ppm as u64
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.below(of.len())).copied()
    }

    /// The next byte.
    pub const fn byte(&mut self) -> u8 {
        self.draw().to_le_bytes()[7]
    }

    /// The next 128 bits: a key.
    pub fn key(&mut self) -> u128 {
        u128::from(self.draw()) << 64 | u128::from(self.draw())
    }
}
