//! Numbers that look random and are the same for the same seed: so that a run can be repeated.

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) const fn next_u128(&mut self) -> u128 {
        (self.next() as u128) << 64 | self.next() as u128
    }

    /// A number below `n`; 0 if that is 0.
    #[inline]
    pub(crate) fn below(&mut self, n: u16) -> u16 {
        let upper = (self.next() >> 48) * u64::from(n);
        u16::try_from(upper >> 16).unwrap_or(0)
    }
}
