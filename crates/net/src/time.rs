//! Time as it is handed in: nanoseconds since the stack began.

use core::ops::{Add, Sub};
pub use core::time::Duration;

/// A moment, in nanoseconds since the stack began. The shell reads a clock; the simulator makes it up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// When the stack began.
    pub const START: Self = Self(0);
    /// Later than anything.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment `ns` nanoseconds after the start.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it is still to come.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}
