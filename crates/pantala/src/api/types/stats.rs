//! Counters.

use serde::{Deserialize, Serialize};

/// The netisr of one CPU since it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Netisr {
    /// Its CPU.
    pub cpu: u32,
    /// Turns.
    pub turns: u64,
    /// Turns that found something to do.
    pub busy_turns: u64,
    /// Packets taken from rings and from other CPUs.
    pub packets: u64,
    /// Packets taken over from other CPUs.
    pub handoffs_in: u64,
    /// Packets handed to other CPUs.
    pub handoffs_out: u64,
    /// Messages handled.
    pub messages: u64,
    /// Number of sleeps.
    pub sleeps: u64,
    /// Wake-ups by other threads.
    pub wakeups: u64,
    /// Nanoseconds spent in turns that found something to do.
    pub busy_ns: u64,
    /// The smallest burst of its rings: packets that may be taken from one in a turn; 0 without a ring.
    pub burst: u32,
    /// Turns that took longer than they should, after which bursts are smaller.
    pub long_turns: u64,
    /// Percent of the time that it leaves to other threads when it has too much to do.
    pub user_frac: u32,
    /// Nanoseconds that it left to them so.
    pub user_ns: u64,
}

impl Netisr {
    /// Packets in each turn that found any work; 0 if there was none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    pub fn packets_per_turn(&self) -> f64 {
        if self.busy_turns == 0 { 0.0 } else { self.packets as f64 / self.busy_turns as f64 }
    }
}

/// The packet buffers of one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Pool {
    /// Its CPU.
    pub cpu: u32,
    /// Buffers it owns.
    pub buffers: u64,
    /// Buffers that are free.
    pub free: u64,
    /// Buffers lent to receive rings.
    pub in_rings: u64,
    /// Bytes of data that fit in one.
    pub buffer_bytes: u32,
    /// Buffers requested while none was free.
    pub denied: u64,
}

/// Everything that is counted per CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Counters {
    /// Events.
    pub counters: Vec<Counter>,
    /// Packets that ended without reaching a queue, a wire or a socket.
    pub drops: Vec<DropCount>,
}

/// An event and how often it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Counter {
    /// Stable name: `ip4_forwarded`.
    pub name: String,
    /// Stage that counts it: `ip4`.
    #[serde(default)]
    pub node: String,
    /// Reads on behind the number: `IPv4 packets forwarded`.
    pub sentence: String,
    /// Sum over all CPUs.
    pub count: u64,
    /// Count on each CPU, in the order of [`Netisr`].
    pub per_cpu: Vec<u64>,
}

/// A reason to drop, and how many packets died of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct DropCount {
    /// Stable name: `ip4_bad_checksum`.
    pub reason: String,
    /// Which stage of the stack dropped it.
    pub node: String,
    /// Description.
    pub sentence: String,
    /// Sum over all CPUs.
    pub count: u64,
    /// Count on each CPU, in the order of [`Netisr`].
    pub per_cpu: Vec<u64>,
}
