//! Placement on processors.

use anyhow::{Result, bail};

/// Where the router works, and the sink; with [`Layout::One`] everybody.
pub const ROUTER_CPU: usize = 1;
/// Where the generator works, if it has a processor of its own.
pub const OTHER_CPU: usize = 0;

/// Placement on processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All on one. The generator runs at the lowest priority, so that it never makes more than is forwarded, and the
    /// rate is that of generator, router and sink one after the other.
    One,
    /// The generator has one, all else the other: also the receiving half of the router's veth, which the kernel runs in a
    /// thread, and programs with AF_XDP by busy polling.
    Two,
    /// As veth is by itself: what the generator sends is received on the generator's processor.
    Split,
}

impl Layout {
    /// Reads its name.
    ///
    /// # Errors
    /// When it is none.
    pub fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "one" => Self::One,
            "two" => Self::Two,
            "split" => Self::Split,
            other => bail!("no layout is called {other}: one, two, split"),
        })
    }

    /// The processor of the generator.
    #[must_use]
    pub const fn generator_cpu(self) -> usize {
        match self {
            Self::One => ROUTER_CPU,
            Self::Two | Self::Split => OTHER_CPU,
        }
    }
}
