//! Time as it is handed in: nanoseconds since the stack began.

use core::fmt;
use core::num::NonZero;
use core::ops::{Add, Sub};
pub use core::time::Duration;

/// A moment, in nanoseconds since the stack began. The shell reads a clock; the simulator makes it up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(NonZero<u64>);

/// Nanoseconds of a span, as far as they fit: 584 years. In 64 bits, for `Duration::as_nanos` multiplies 128.
#[inline]
fn ns(span: Duration) -> u64 {
    span.as_secs().saturating_mul(1_000_000_000).saturating_add(span.subsec_nanos().into())
}

/// Offset of the nanoseconds, so that an optional moment takes no more room than one.
const ONE: NonZero<u64> = NonZero::<u64>::MIN;

impl Instant {
    /// When the stack began.
    pub const START: Self = Self(ONE);
    /// Later than anything.
    pub const NEVER: Self = Self(NonZero::<u64>::MAX);

    /// The moment `ns` nanoseconds after the start.
    #[inline]
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ONE.saturating_add(ns))
    }

    /// Nanoseconds since the start.
    #[inline]
    #[must_use]
    pub const fn ns(self) -> u64 {
        self.0.get() - 1
    }

    /// Returns the time since `earlier`; zero if it is in the future.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

impl Default for Instant {
    #[inline]
    fn default() -> Self {
        Self::START
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Instant").field(&self.ns()).finish()
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    #[inline]
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(ns(span)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    #[inline]
    fn sub(self, span: Duration) -> Self {
        Self::from_ns(self.ns().saturating_sub(ns(span)))
    }
}
