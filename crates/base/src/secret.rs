//! Secret random numbers. Entropy is handed in; what follows from it is repeatable.

use core::hash::{Hash, Hasher};

use siphasher::sip::SipHasher13;

/// A keyed generator, one per CPU: SipHash-1-3 over a counter, under a key that the shell drew at the start.
pub struct Secret {
    key: u128,
    drawn: u64,
}

impl Secret {
    /// Makes a generator with this key. The key reveals all numbers.
    #[inline]
    #[must_use]
    pub const fn new(key: u128) -> Self {
        Self { key, drawn: 0 }
    }

    /// The next number.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.drawn = self.drawn.wrapping_add(1);
        let mut hasher = self.hasher();
        hasher.write_u64(self.drawn);
        hasher.finish()
    }

    /// The next number below `bound`; 0 if there is none.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw().checked_rem(bound).unwrap_or(0)
    }

    /// A keyed hasher, for values that must be the same each time for the same input (identifiers per destination).
    #[inline]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    pub fn hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.key as u64, (self.key >> 64) as u64)
    }
}

/// Keys the hash tables of a CPU.
impl core::hash::BuildHasher for Secret {
    type Hasher = SipHasher13;

    #[inline]
    fn build_hasher(&self) -> SipHasher13 {
        self.hasher()
    }

    #[inline]
    fn hash_one<T: Hash>(&self, key: T) -> u64 {
        let mut hasher = self.hasher();
        key.hash(&mut hasher);
        hasher.finish()
    }
}

/// Hashes a number, under a key: for tables whose keys are not chosen by strangers, though strangers may ask for any.
pub struct Folding(u64);

/// A number under way.
pub struct Folded(u64);

impl Folding {
    /// Makes a hasher with this key.
    #[inline]
    #[must_use]
    pub const fn new(key: u64) -> Self {
        Self(key)
    }
}

impl core::hash::BuildHasher for Folding {
    type Hasher = Folded;

    #[inline]
    fn build_hasher(&self) -> Folded {
        Folded(self.0)
    }
}

impl Hasher for Folded {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        /// Multiple of the golden ratio: odd, with balanced bits.
        const MIXES: u64 = 0x9e37_79b9_7f4a_7c15;
        self.0 = fold(self.0 ^ number, MIXES);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// The high half of a product onto its low half: each bit of both factors reaches each bit. Of words under keys that
/// are secret, this is a hash for tables, in a few instructions.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
pub fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}
