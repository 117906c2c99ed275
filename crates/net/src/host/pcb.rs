//! Lookup of connections and sockets by four-tuples.

mod bound;
mod local_end;
mod port_algorithm;

use core::ops::RangeInclusive;

pub(crate) use self::bound::{Bound, choose};
pub(crate) use self::local_end::{Wanted, check_fib, free_port, local_end, on_device};
pub use self::port_algorithm::{PortAlgorithm, PortCounters};
pub use crate::base::four_tuple::FourTuple;
pub(crate) use crate::base::four_tuple::{is_of_a_link, secrets};

/// Ports that are given to conversations whose program names none: FreeBSD's range. More than RFC 6335 §6 calls dynamic,
/// since each of them makes guessing harder (RFC 6056 §3.2).
pub const EPHEMERAL: RangeInclusive<u16> = 10_000..=65_535;

/// The ephemeral ports as they are configured: `net.inet.ip.portrange.first` and `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// One end.
    pub first: u16,
    /// The other; which of them is greater does not matter, as in BSD.
    pub last: u16,
}

impl Default for PortRange {
    fn default() -> Self {
        Self { first: *EPHEMERAL.start(), last: *EPHEMERAL.end() }
    }
}

impl PortRange {
    /// Returns the ports, of which there is one at least.
    #[inline]
    #[must_use]
    pub fn ports(self) -> RangeInclusive<u16> {
        self.first.min(self.last)..=self.first.max(self.last)
    }
}
