//! The report of a test: the keys of `--json`, which are stable.

use serde::Serialize;

use super::frame::Transport;
use super::measure::{Expect, Measure};
use super::plan::Plan;
use super::rate::LINE_OVERHEAD;
use super::run::Course;
use super::worker::Done;
use crate::api::{Jitter, Latency};

/// The result of a test. Bytes count the frame check sequence.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Summary {
    pub(crate) device: String,
    pub(crate) rx_device: String,
    /// `None` in a sink, like all that concerns sending.
    pub(crate) offered: Option<Offered>,
    pub(crate) duration_s: f64,
    pub(crate) interrupted: bool,
    pub(crate) sent: Option<Sent>,
    pub(crate) received: Received,
    /// Frames; of a sink, those missing between the first and the last of each flow.
    pub(crate) lost: u64,
    pub(crate) loss_percent: f64,
    pub(crate) loss_limit_percent: Option<f64>,
    pub(crate) passed: bool,
    pub(crate) latency_ns: Option<Latency>,
    pub(crate) jitter_ns: Option<Jitter>,
    #[serde(skip)]
    is_gone: bool,
}

/// Offered frames.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Offered {
    pub(crate) family: &'static str,
    pub(crate) protocol: &'static str,
    pub(crate) flows: u32,
    pub(crate) size_min: u16,
    pub(crate) size_max: u16,
}

/// Frames that devices took.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sent {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) frames_per_s: f64,
    pub(crate) bits_per_s: f64,
    /// With preamble and gap.
    pub(crate) line_bits_per_s: f64,
    pub(crate) errors: u64,
    /// Times that a transmit ring was full.
    pub(crate) ring_full: u64,
    /// For how long the rate was not kept.
    pub(crate) behind_s: f64,
}

/// Frames that arrived.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Received {
    /// All frames, of the test or not.
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    /// Different frames of the test.
    pub(crate) unique: u64,
    pub(crate) frames_per_s: f64,
    /// With a measuring header.
    pub(crate) measured: u64,
    /// Without.
    pub(crate) counted: u64,
    pub(crate) flows: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
    pub(crate) reordered_too_late: u64,
    pub(crate) displacement_max: u64,
    pub(crate) untracked: u64,
    pub(crate) other: u64,
    /// Frames for which devices found no room.
    pub(crate) dropped: u64,
    pub(crate) errors: u64,
}

impl Summary {
    pub(super) fn new(plan: &Plan, devices: &[String], course: &Course, done: Vec<Done>) -> Self {
        let seconds = course.time.as_secs_f64().max(1e-9);
        let sent = plan.sending.as_ref().map(|_| Sent::of(&done, seconds));
        let (dropped, errors) =
            (sum(&done, |done| done.stats.rx_dropped), sum(&done, |done| done.stats.rx_errors));
        let measures = done.into_iter().map(|done| done.measure);
        let all = measures.reduce(|mut all, one| {
            all.add(&one);
            all
        });
        let all = all.unwrap_or_else(|| Measure::new(Expect::All));
        let unique = all.unique();
        let (lost, of) = match &sent {
            Some(sent) => (sent.frames.saturating_sub(unique), sent.frames),
            None => (all.gaps(), all.gaps() + unique),
        };
        let limit = plan.loss_limit;
        Self {
            device: devices.first().cloned().unwrap_or_default(),
            rx_device: devices.last().cloned().unwrap_or_default(),
            offered: plan.sending.as_ref().map(|sending| Offered {
                family: if sending.is_v4 { "inet" } else { "inet6" },
                protocol: if sending.transport == Transport::Udp { "udp" } else { "tcp" },
                flows: sending.flows,
                size_min: sending.sizes.least(),
                size_max: sending.sizes.most(),
            }),
            duration_s: seconds,
            interrupted: course.was_interrupted,
            sent,
            received: Received::of(&all, seconds, dropped, errors),
            lost,
            loss_percent: if of == 0 { 0.0 } else { float(lost) * 100.0 / float(of) },
            loss_limit_percent: limit.map(|limit| f64::from(limit) / 1000.0),
            passed: limit.is_none_or(|limit| of > 0 && is_within(lost, of, limit)),
            latency_ns: all.latency(),
            jitter_ns: (all.tally.pairs > 0)
                .then(|| Jitter { mean: all.tally.jitter_mean(), max: all.tally.jitter_max }),
            is_gone: course.is_gone,
        }
    }

    /// Why the test has failed, if it has.
    pub(super) fn failure(&self) -> Option<String> {
        if self.is_gone {
            return Some(format!("the device {} or {} is gone", self.device, self.rx_device));
        }
        if self.passed {
            return None;
        }
        let limit = self.loss_limit_percent.unwrap_or(0.0);
        if self.sent.as_ref().is_some_and(|sent| sent.frames == 0) {
            return Some("nothing was sent".to_owned());
        }
        Some(format!("{} frames lost, {:.3} %: the limit is {limit} %", self.lost, self.loss_percent))
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// `limit` is in thousandths of a percent.
fn is_within(lost: u64, of: u64, limit: u32) -> bool {
    u128::from(lost) * 100_000 <= u128::from(of) * u128::from(limit)
}

impl Sent {
    fn of(done: &[Done], seconds: f64) -> Self {
        let (frames, bytes) = (sum(done, |done| done.sent), sum(done, Done::bytes));
        let behind_ns = done.iter().map(|done| done.behind_ns).max().unwrap_or(0);
        Self {
            frames,
            bytes,
            frames_per_s: float(frames) / seconds,
            bits_per_s: float(bytes) * 8.0 / seconds,
            line_bits_per_s: float(bytes + frames * LINE_OVERHEAD) * 8.0 / seconds,
            errors: sum(done, |done| done.stats.tx_errors),
            ring_full: sum(done, |done| done.stats.tx_full),
            behind_s: float(behind_ns) / 1e9,
        }
    }
}

impl Received {
    fn of(all: &Measure, seconds: f64, dropped: u64, errors: u64) -> Self {
        let tally = &all.tally;
        Self {
            frames: tally.frames,
            bytes: tally.bytes,
            unique: all.unique(),
            frames_per_s: float(all.unique()) / seconds,
            measured: tally.probes,
            counted: tally.plain,
            flows: all.flows(),
            duplicated: tally.duplicated,
            reordered: tally.reordered,
            reordered_too_late: tally.too_late,
            displacement_max: tally.displacement_max,
            untracked: tally.untracked,
            other: tally.other,
            dropped,
            errors,
        }
    }
}

fn sum(done: &[Done], of: impl Fn(&Done) -> u64) -> u64 {
    done.iter().map(of).sum()
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(super) const fn float(n: u64) -> f64 {
    n as f64
}
