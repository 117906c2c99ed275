//! Limits of a web server's readers.

use net::time::Duration;

/// The limits of a server's readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Bytes that all connections hold, on all CPUs together.
    pub memory: u64,
    /// Share of one client: an IPv4 address, or an IPv6 network of 64 bits. Each CPU has its part of that.
    pub client: u64,
    /// Time in which a reader must take something.
    pub stall: Duration,
    /// Bytes of each second that a reader must take on average; 0 for any.
    pub slowest: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 256 << 20, client: 192 << 20, stall: Duration::from_secs(60), slowest: 256 }
    }
}
