//! `ping`: a line for each answer, and the summary.

use core::fmt;
use core::net::IpAddr;

use crate::api::{PingEvent, PingRequest};

/// The first line.
pub(crate) fn ping_head(name: &str, request: &PingRequest) -> String {
    format!("PING {name} ({}): {} data bytes\n", request.to, request.bytes)
}

/// The line of an event, if it has one.
pub(crate) fn ping_event(event: &PingEvent) -> Option<String> {
    match event {
        PingEvent::Reply { seq, from, bytes, ttl, rtt_ns, duplicate } => {
            let limit = if matches!(from, IpAddr::V4(_)) { "ttl" } else { "hlim" };
            let again = if *duplicate { " (DUP!)" } else { "" };
            let time = Milliseconds(*rtt_ns);
            Some(format!("{bytes} bytes from {from}: icmp_seq={seq} {limit}={ttl} time={time} ms{again}\n"))
        }
        PingEvent::Unreachable { seq, from, what } => Some(format!("from {from}: icmp_seq={seq} {what}\n")),
        PingEvent::Failed { seq, error } => Some(format!("ping: icmp_seq={seq} not sent: {error}\n")),
        PingEvent::Sent { .. } | PingEvent::Done => None,
    }
}

/// The summary of a ping.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    sent: u64,
    received: u64,
    duplicates: u64,
    errors: u64,
    min_ns: u64,
    max_ns: u64,
    sum_ns: f64,
    sum_squares: f64,
}

impl Summary {
    pub(crate) fn add(&mut self, event: &PingEvent) {
        match event {
            PingEvent::Sent { .. } => self.sent += 1,
            PingEvent::Reply { duplicate: true, .. } => self.duplicates += 1,
            PingEvent::Reply { rtt_ns, .. } => self.reply(*rtt_ns),
            PingEvent::Unreachable { .. } => self.errors += 1,
            PingEvent::Failed { .. } | PingEvent::Done => {}
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "means for people")]
    fn reply(&mut self, rtt_ns: u64) {
        self.min_ns = if self.received == 0 { rtt_ns } else { self.min_ns.min(rtt_ns) };
        self.max_ns = self.max_ns.max(rtt_ns);
        self.received += 1;
        self.sum_ns += rtt_ns as f64;
        self.sum_squares += (rtt_ns as f64).powi(2);
    }

    /// Whether any host answered.
    pub(crate) fn answered(&self) -> bool {
        self.received > 0
    }

    #[expect(clippy::cast_precision_loss, reason = "means for people")]
    pub(crate) fn text(&self, name: &str) -> String {
        let mut text = format!("\n--- {name} ping statistics ---\n");
        text += &format!("{} packets transmitted, {} packets received", self.sent, self.received);
        for (count, what) in [(self.duplicates, "duplicates"), (self.errors, "errors")] {
            if count > 0 {
                text += &format!(", +{count} {what}");
            }
        }
        if self.sent > 0 {
            let lost = self.sent.saturating_sub(self.received) as f64 * 100.0 / self.sent as f64;
            text += &format!(", {lost:.1}% packet loss");
        }
        text.push('\n');
        if self.answered() { text + &self.times() } else { text }
    }

    #[expect(clippy::cast_precision_loss, reason = "means for people")]
    fn times(&self) -> String {
        let mean = self.sum_ns / self.received as f64;
        let deviation = (self.sum_squares / self.received as f64 - mean * mean).max(0.0).sqrt();
        let (min, max) = (Milliseconds(self.min_ns), Milliseconds(self.max_ns));
        let (mean, deviation) = (mean / 1e6, deviation / 1e6);
        format!("round-trip min/avg/max/stddev = {min}/{mean:.3}/{max}/{deviation:.3} ms\n")
    }
}

/// Nanoseconds, shown as milliseconds with three digits.
struct Milliseconds(u64);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0 / 1000;
        write!(f, "{}.{:03}", us / 1000, us % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(seq: u32, rtt_ns: u64) -> PingEvent {
        PingEvent::Reply {
            seq,
            from: IpAddr::from([192, 0, 2, 1]),
            bytes: 64,
            ttl: 64,
            rtt_ns,
            duplicate: false,
        }
    }

    #[test]
    fn the_summary_has_loss_mean_and_deviation() {
        let mut summary = Summary::default();
        for event in
            [PingEvent::Sent { seq: 0 }, reply(0, 1_000_000), PingEvent::Sent { seq: 1 }, reply(1, 3_000_000)]
        {
            summary.add(&event);
        }
        summary.add(&PingEvent::Sent { seq: 2 });
        assert_eq!(
            summary.text("gw"),
            "\n--- gw ping statistics ---\n3 packets transmitted, 2 packets received, 33.3% packet loss\n\
             round-trip min/avg/max/stddev = 1.000/2.000/3.000/1.000 ms\n"
        );
    }

    #[test]
    fn a_ping_without_answer_has_no_times() {
        let mut summary = Summary::default();
        summary.add(&PingEvent::Sent { seq: 0 });
        assert!(!summary.answered());
        assert!(
            summary.text("gw").ends_with("1 packets transmitted, 0 packets received, 100.0% packet loss\n")
        );
    }
}
