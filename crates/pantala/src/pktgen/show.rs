//! A test in words: one line while it runs, a few at its end.

use core::fmt::Write;
use core::time::Duration;

use super::summary::{Summary, float};
use crate::api::Latency;

/// The progress of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) since: Duration,
    pub(super) sends: bool,
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    /// Different frames of the test.
    pub(super) arrived: u64,
    /// All frames that came.
    pub(super) frames: u64,
}

impl Progress {
    pub(super) fn text(&self) -> String {
        let seconds = self.since.as_secs_f64().max(1e-9);
        let rate = |frames: u64| scaled(float(frames) / seconds, "pps");
        let received = format!("received {} ({})", self.arrived, rate(self.arrived));
        if !self.sends {
            return format!("{seconds:.1} s  {received}, {} frames in all", self.frames);
        }
        let bits = scaled(float(self.sent_bytes) * 8.0 / seconds, "bit/s");
        let missing = self.sent.saturating_sub(self.arrived);
        format!(
            "{seconds:.1} s  sent {} ({}, {bits})  {received}  missing {missing}",
            self.sent,
            rate(self.sent)
        )
    }
}

pub(super) fn summary(summary: &Summary) -> String {
    let mut text = head(summary);
    if let Some(sent) = &summary.sent {
        let (rate, bits) = (scaled(sent.frames_per_s, "pps"), scaled(sent.bits_per_s, "bit/s"));
        let line = scaled(sent.line_bits_per_s, "bit/s");
        line_of(&mut text, "sent", &format!("{} frames, {rate}, {bits} ({line} on the line)", sent.frames));
        if sent.behind_s > 0.0 {
            line_of(&mut text, "", &format!("the rate was not kept for {:.3} s", sent.behind_s));
        }
        if sent.errors > 0 {
            line_of(&mut text, "", &format!("{} frames refused by the device", sent.errors));
        }
    }
    received(summary, &mut text);
    latency(summary, &mut text);
    text
}

fn head(summary: &Summary) -> String {
    let arrow = match &summary.offered {
        Some(_) => format!("{} ▶ {}", summary.device, summary.rx_device),
        None => format!("▶ {}", summary.device),
    };
    let what = summary.offered.as_ref().map_or_else(String::new, |offered| {
        let family = if offered.family == "inet" { "IPv4" } else { "IPv6" };
        let size = match (offered.size_min, offered.size_max) {
            (min, max) if min == max => min.to_string(),
            (min, max) => format!("{min}-{max}"),
        };
        let (protocol, flows) = (offered.protocol.to_ascii_uppercase(), offered.flows);
        format!(", {family} {protocol}, {size} bytes, {flows} flow{}", if flows == 1 { "" } else { "s" })
    });
    let ended = if summary.interrupted { ", interrupted" } else { "" };
    format!("pktgen {arrow}{what}, {:.3} s{ended}\n", summary.duration_s)
}

fn received(summary: &Summary, text: &mut String) {
    let received = &summary.received;
    let rate = scaled(received.frames_per_s, "pps");
    let mut line = format!("{} frames, {rate}", received.unique);
    if received.counted > 0 {
        let _ = write!(line, "; {} of them too small to be measured", received.counted);
    }
    line_of(text, "received", &line);
    line_of(text, "lost", &format!("{} ({:.4} %)", summary.lost, summary.loss_percent));
    let mut line = format!("{} duplicated, {} reordered", received.duplicated, received.reordered);
    if received.reordered > 0 {
        let _ = write!(line, " by at most {}", received.displacement_max);
    }
    line_of(text, "order", &line);
    for (count, what) in [
        (received.dropped, "frames for which the device found no room"),
        (received.errors, "frames that came with an error"),
        (received.untracked, "frames of more flows than are kept apart"),
        (received.other, "frames of others"),
    ] {
        if count > 0 {
            line_of(text, "besides", &format!("{count} {what}"));
        }
    }
}

fn latency(summary: &Summary, text: &mut String) {
    let Some(latency) = &summary.latency_ns else { return };
    line_of(text, "latency", &percentiles(latency).join("  "));
    if let Some(jitter) = &summary.jitter_ns {
        line_of(text, "jitter", &format!("mean {}  max {}", mean_time(jitter.mean), time(jitter.max)));
    }
}

/// Returns the percentiles worth showing: each a name and a time.
pub(crate) fn percentiles(latency: &Latency) -> [String; 5] {
    let Latency { p50, p90, p99, p999, max, .. } = *latency;
    [("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p999), ("max", max)]
        .map(|(name, ns)| format!("{name} {}", time(ns)))
}

fn line_of(text: &mut String, word: &str, rest: &str) {
    let _ = writeln!(text, "  {word:<9} {rest}");
}

/// With three digits or more, and a prefix.
pub(super) fn scaled(value: f64, unit: &str) -> String {
    let (value, prefix) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    format!("{value:.2} {prefix}{unit}")
}

/// Nanoseconds, readable.
pub(crate) fn time(ns: u64) -> String {
    mean_time(float(ns))
}

fn mean_time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{:.2} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.2} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{:.1} us", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_one_line() {
        let progress = Progress {
            since: Duration::from_secs(2),
            sends: true,
            sent: 3_000_000,
            sent_bytes: 192_000_000,
            arrived: 2_999_990,
            frames: 3_000_007,
        };
        assert_eq!(
            progress.text(),
            "2.0 s  sent 3000000 (1.50 Mpps, 768.00 Mbit/s)  received 2999990 (1.50 Mpps)  missing 10"
        );
        let sink = Progress { sends: false, ..progress };
        assert_eq!(sink.text(), "2.0 s  received 2999990 (1.50 Mpps), 3000007 frames in all");
    }

    #[test]
    fn numbers_have_the_unit_that_suits_them() {
        let all = [time(999), time(12_345), time(2_500_000), time(3_000_000_000), scaled(999.0, "pps")];
        assert_eq!(all, ["999 ns", "12.3 us", "2.50 ms", "3.00 s", "999.00 pps"]);
    }
}
