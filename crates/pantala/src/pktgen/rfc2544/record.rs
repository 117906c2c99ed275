//! The record of a run: what was asked for, each trial with its counts, and the results; the keys of `report.json`.

use serde::{Deserialize, Serialize};

use super::plan::{Plan, Test};
use crate::api::Latency;

/// Thousandths of a frame per second.
pub(super) type MilliFps = u64;

/// A trial as it is asked for. Loads are of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spec {
    pub(super) test: Test,
    pub(super) size: u16,
    /// Counts from 0 where a test is repeated.
    pub(super) repeat: u32,
    pub(super) load: Load,
}

/// The load of a trial, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub(super) enum Load {
    /// As fast as the sender can.
    Unlimited { time_ms: u64 },
    /// A number of frames at a rate.
    Steady { rate: MilliFps, frames: u64 },
    /// Frames back to back, at a rate or as fast as the sender can.
    Burst { frames: u64, rate: Option<MilliFps> },
    /// An overload, and then less.
    Steps { first: MilliFps, then: MilliFps, time_ms: u64 },
    /// A steady rate in the middle of which the device is reset.
    Reset { rate: MilliFps, at_ms: u64, time_ms: u64 },
}

impl Load {
    /// Sending time, milliseconds; for a burst that of the slowest sender.
    pub(super) fn time_ms(&self) -> u64 {
        match *self {
            Self::Unlimited { time_ms } | Self::Reset { time_ms, .. } => time_ms,
            Self::Steps { time_ms, .. } => 2 * time_ms,
            Self::Steady { rate, frames } => {
                u64::try_from(u128::from(frames) * 1_000_000 / u128::from(rate.max(1))).unwrap_or(u64::MAX)
            }
            Self::Burst { .. } => super::procedure::BURST_MS,
        }
    }
}

/// The counts of a trial, for each direction: each port that sends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) directions: Vec<Counts>,
}

/// The counts of one direction. Each frame that was sent is one of `received` or `lost`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) sent: u64,
    /// Different frames of the trial that arrived.
    pub(super) received: u64,
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    pub(super) reordered: u64,
    /// Frames of nothing that was sent here, or of an earlier trial; in a mesh at the next port.
    pub(super) other: u64,
    /// Frames of a trial for which the receiving device found no room, losses of the tester; in a mesh at the next port.
    pub(super) tester_dropped: u64,
    /// Sending time, milliseconds.
    pub(super) time_ms: f64,
    /// For how long the rate was not kept, milliseconds.
    pub(super) behind_ms: f64,
    pub(super) latency_ns: Option<Latency>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) course: Option<Course>,
    /// In a mesh, what each other port received.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(super) pairs: Vec<PairCounts>,
}

/// The counts of the frames from a port to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PairCounts {
    /// The receiver, by its place among the ports.
    pub(super) to: usize,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) lost: u64,
    pub(super) latency_ns: Option<Latency>,
}

/// The course of a trial in time, milliseconds from its beginning.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Course {
    /// When the last lost frame was sent.
    pub(super) last_loss_ms: Option<f64>,
    /// The longest time in which nothing arrived.
    pub(super) silent_from_ms: f64,
    pub(super) silent_to_ms: f64,
    /// When the command of a reset was started.
    pub(super) reset_ms: Option<f64>,
    /// Width of the parts below.
    pub(super) part_ms: f64,
    pub(super) sent: Vec<u64>,
    pub(super) received: Vec<u64>,
}

impl Counts {
    /// Frames per second that were offered, in thousandths.
    pub(super) fn offered(&self) -> MilliFps {
        rate(self.sent, self.time_ms)
    }

    /// Frames per second that were forwarded, in thousandths.
    pub(super) fn forwarded(&self) -> MilliFps {
        rate(self.received, self.time_ms)
    }

    /// Whether no more is lost than `tolerance`, in thousandths of a percent.
    pub(super) fn is_within(&self, tolerance: u32) -> bool {
        self.sent > 0 && u128::from(self.lost) * 100_000 <= u128::from(self.sent) * u128::from(tolerance)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a rate"
)]
fn rate(frames: u64, time_ms: f64) -> MilliFps {
    if time_ms > 0.0 { (frames as f64 * 1e6 / time_ms) as MilliFps } else { 0 }
}

impl Outcome {
    pub(super) fn sum(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.directions.iter().map(of).sum()
    }

    /// The least rate that was offered in any direction.
    pub(super) fn offered(&self) -> MilliFps {
        self.directions.iter().map(Counts::offered).min().unwrap_or(0)
    }

    pub(super) fn is_within(&self, tolerance: u32) -> bool {
        self.directions.iter().all(|counts| counts.is_within(tolerance))
    }

    /// Percent of the frames sent.
    pub(super) fn loss_percent(&self) -> f64 {
        let (lost, sent) = (self.sum(|c| c.lost), self.sum(|c| c.sent));
        if sent == 0 { 0.0 } else { super::float(lost) * 100.0 / super::float(sent) }
    }
}

/// A trial that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Trial {
    pub(super) spec: Spec,
    pub(super) outcome: Outcome,
}

/// The state of a run, kept after each trial so that it may be broken off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) plan: Plan,
    /// Seconds since 1970.
    pub(super) begun_s: u64,
    pub(super) trials: Vec<Trial>,
}

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) pantala: String,
    pub(super) plan: Plan,
    /// Seconds since 1970.
    pub(super) begun_s: u64,
    pub(super) ended_s: u64,
    /// Whether tests are missing.
    pub(super) interrupted: bool,
    pub(super) machine: Machine,
    pub(super) sizes: Vec<SizeResult>,
    pub(super) reset: Option<Reset>,
    pub(super) trials: Vec<Trial>,
}

/// The machine that the tester ran on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) kernel: String,
    pub(super) processor: String,
    pub(super) cpus: usize,
}

/// The results of a frame size. Rates are of one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SizeResult {
    pub(super) size: u16,
    /// The highest rate that was tried: that of the line or of --max-rate, or what the sender reached.
    pub(super) top: MilliFps,
    /// Whether the sender reached what it was given.
    pub(super) top_is_given: bool,
    pub(super) throughput: Option<Throughput>,
    pub(super) latency: Vec<LatencyRun>,
    pub(super) loss: Vec<LossPoint>,
    pub(super) back_to_back: Option<BackToBack>,
    pub(super) recovery: Vec<Recovery>,
}

/// The throughput of a frame size (RFC 2544 §26.1).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Throughput {
    /// The highest rate at which no more than the tolerance was lost; 0 if none was found.
    pub(super) rate: MilliFps,
    pub(super) limit: Limit,
    pub(super) trials: u32,
}

/// Why the throughput is not higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Limit {
    /// The device under test loses frames above it.
    Device,
    /// The sender does not keep a higher rate, or the receiver has no room for it.
    Tester,
    /// It is the rate of the line, or the highest that was to be tried.
    Top,
}

/// The latency at the throughput (RFC 2544 §26.2): all frames of a trial, in each direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct LatencyRun {
    pub(super) lost: u64,
    pub(super) directions: Vec<Latency>,
}

/// One step of the frame loss rate (RFC 2544 §26.3).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct LossPoint {
    pub(super) percent_of_top: u32,
    pub(super) intended: MilliFps,
    pub(super) offered: MilliFps,
    pub(super) forwarded: MilliFps,
    pub(super) loss_percent: f64,
}

/// The longest burst that passes without loss (RFC 9004).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct BackToBack {
    /// The rate of the bursts.
    pub(super) rate: MilliFps,
    /// The longest of each repetition, frames.
    pub(super) bursts: Vec<u64>,
    pub(super) average: f64,
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) deviation: f64,
    /// Whether no burst lost a frame: the buffer is not the limit, but the sender or the longest burst.
    pub(super) is_unlimited: bool,
    /// Milliseconds that the buffer of the device holds at the highest rate, as the bursts imply.
    pub(super) buffer_ms: f64,
    /// Milliseconds without what the device forwarded in the meantime (RFC 9004 §6.4).
    pub(super) corrected_buffer_ms: f64,
}

/// The time until nothing is lost any more after an overload (RFC 2544 §26.5).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Recovery {
    pub(super) overload: MilliFps,
    pub(super) reduced: MilliFps,
    pub(super) overload_lost: u64,
    /// Milliseconds from the reduction to the last lost frame.
    pub(super) time_ms: f64,
    /// Whether frames were lost until the end.
    pub(super) is_lasting: bool,
}

/// The time that a reset takes (RFC 2544 §26.6, RFC 6201).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub(super) enum Reset {
    /// There is no way to reset the device.
    Skipped { why: String },
    Measured {
        size: u16,
        rate: MilliFps,
        /// From the last frame before to the first after, by time stamps.
        time_ms: f64,
        /// By the frames lost.
        by_loss_ms: f64,
        lost: u64,
        /// Whether frames arrive again at the end.
        is_back: bool,
    },
}
