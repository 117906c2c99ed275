//! Measurements of an interface in monitor mode.

use serde::{Deserialize, Serialize};

/// Measurements of an interface in monitor mode. Loss, order and latency are known of `pantala pktgen`'s frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Monitored {
    /// Its name.
    pub interface: String,
    /// Frames.
    pub frames: u64,
    /// Their bytes, frame check sequences included.
    pub bytes: u64,
    /// Frames that carried a measuring header.
    pub measured: u64,
    /// Flows of which such came.
    pub flows: u64,
    /// Frames missing between the lowest and the highest number of each flow.
    pub lost: u64,
    /// Frames that came again.
    pub duplicated: u64,
    /// Frames that came behind a later one of their flow (RFC 4737).
    pub reordered: u64,
    /// By how many numbers, at the most.
    pub displacement_max: u64,
    /// Measured frames of more flows than are kept apart.
    pub untracked: u64,
    /// From sending to receiving, nanoseconds; `None` if nothing was measured.
    pub latency_ns: Option<Latency>,
    /// Differences of latencies of frames that came one after the other in their flow.
    pub jitter_ns: Option<Jitter>,
}

/// A summary of latencies, nanoseconds, exact to three digits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Latency {
    /// The least.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// Half were not above.
    pub p50: u64,
    /// Nine in ten were not above.
    pub p90: u64,
    /// 99 in a hundred were not above.
    pub p99: u64,
    /// 999 in a thousand were not above.
    pub p999: u64,
    /// The most.
    pub max: u64,
}

/// Differences of latencies, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Jitter {
    /// Their mean.
    pub mean: f64,
    /// The largest.
    pub max: u64,
}

/// Numbers of latencies that an interface in monitor mode has measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Latencies {
    /// Its name.
    pub interface: String,
    /// Measured frames of each band of latencies: band `2n` begins at 256 ns · 2ⁿ, band `2n + 1` at one and a half times that.
    pub counts: Vec<u64>,
}
