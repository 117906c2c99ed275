//! Choices that a seed makes (SplitMix64).

pub struct Random(u64);

impl From<u64> for Random {
    fn from(seed: u64) -> Self {
        Self(seed)
    }
}

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or(0)
    }

    pub fn byte_below(&mut self, end: u8) -> u8 {
        u8::try_from(self.below(end.into())).unwrap_or(0)
    }

    /// A position in a list of `len` entries.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    pub fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        let at = self.index(list.len());
        &list[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_choices_again_and_reaches_all_of_them() {
        let choices = |seed| {
            let mut random = Random::from(seed);
            core::array::from_fn::<_, 100, _>(|_| *random.of(&[1, 2, 3, 4, 5]))
        };
        assert_eq!(choices(7), choices(7));
        assert_ne!(choices(7), choices(8));
        assert!((1..=5).all(|each| choices(7).contains(&each)));
    }
}
