//! The clock of a stack.

use core::time::Duration;

use net::time::Instant;

/// Counts from when the stack began. All CPUs have the same one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(std::time::Instant);

impl Clock {
    /// Begins now.
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// CLOCK_MONOTONIC since the beginning: it stands still in suspend and never jumps.
    pub(crate) fn now(self) -> Instant {
        Instant::START + self.elapsed()
    }

    fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
