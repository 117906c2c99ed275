//! Rings of devices.

use core::fmt;

use serde::{Deserialize, Serialize};

/// A pair of receive and transmit rings, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Ring {
    /// The interface.
    pub interface: String,
    /// Its number in the interface.
    pub ring: u32,
    /// The device, as in the configuration: `af_xdp:eth0`.
    pub device: String,
    /// The number of the device's queue.
    pub queue: u32,
    /// The CPU whose netisr owns it.
    pub cpu: u32,
    /// Steering of frames to the CPUs of their flows.
    pub steering: Steering,
    /// Frames received.
    pub rx_packets: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Doorbells: notifications of the device.
    pub doorbells: u64,
    /// Frames that the device lost because the ring was full.
    pub rx_drops: u64,
    /// Polls of the ring.
    pub polls: u64,
    /// Polls that found frames.
    pub busy_polls: u64,
    /// Packets that it may take in one turn, as it is now.
    pub burst: u32,
    /// Turns that left frames in the ring because the burst was used up.
    pub bursts_used_up: u64,
}

/// Steering of frames to the CPUs of their flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Steering {
    /// None: there is one CPU.
    None,
    /// The NIC: it has our key and our table.
    Nic,
    /// A program in the kernel that computes our hash.
    Program,
    /// The CPUs themselves: they hand packets to each other.
    HandOff,
}

impl fmt::Display for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Nic => "nic",
            Self::Program => "program",
            Self::HandOff => "hand-off",
        })
    }
}

/// Where a ring is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RingChange {
    /// The CPU that is to own it.
    pub cpu: u32,
}
