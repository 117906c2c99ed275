//! Sequence numbers, which run round (RFC 9293 §3.4).

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A place in the stream of one direction, modulo 2^32.
///
/// Two places are compared by the shorter way round, so comparisons mean something only between places that are less
/// than 2^31 apart: all that a window can hold.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// Whether this place comes before `other`.
    #[inline]
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) > HALF
    }

    /// Whether this place comes after `other`.
    #[inline]
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        other.is_before(self)
    }

    /// Bytes from `earlier` to here; 0 if it is not earlier.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        let distance = self.0.wrapping_sub(earlier.0);
        if distance > HALF { 0 } else { distance }
    }

    /// The later of two places.
    #[inline]
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// The earlier of two places.
    #[inline]
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if other.is_before(self) { other } else { self }
    }
}

/// The greatest distance forward.
const HALF: u32 = 1 << 31;

impl Add<u32> for Seq {
    type Output = Self;

    #[inline]
    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for Seq {
    #[inline]
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for Seq {
    type Output = Self;

    #[inline]
    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_compare_by_the_shorter_way_round(start: u32, ahead in 1..HALF) {
            let (a, b) = (Seq(start), Seq(start) + ahead);
            prop_assert!(a.is_before(b) && b.is_after(a) && !b.is_before(a) && !a.is_after(b));
            prop_assert_eq!((b.since(a), a.since(b)), (ahead, 0));
            prop_assert_eq!((a.max(b), b.max(a), a.min(b), b.min(a)), (b, b, a, a));
            prop_assert_eq!(b - ahead, a);
        }

        #[test]
        fn a_place_is_neither_before_nor_after_itself(start: u32) {
            let a = Seq(start);
            prop_assert!(!a.is_before(a) && !a.is_after(a) && a.since(a) == 0);
        }
    }
}
