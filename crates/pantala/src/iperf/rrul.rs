//! Latency under load: round-trip times before a test and during it (RRUL, as RFC 8290 was evaluated with).
//!
//! They are those of ICMP echo, which every host answers, on a path that streams in both directions fill.

use core::fmt::Write as _;
use core::net::IpAddr;
use core::time::Duration;
use std::time::Instant;

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::Host;
use crate::api::stack::{Echo, EchoAnswer, EchoAnswerKind};

const INTERVAL: Duration = Duration::from_millis(100);
/// Requests before the test.
const IDLE_COUNT: u32 = 20;
/// Time for a reply; later ones are lost.
const TIMEOUT: Duration = Duration::from_secs(2);
const IDENT: u16 = 0x1995;
const TIMEOUT_US: u64 = 2_000_000;

/// Round-trip times in one condition.
pub(super) struct Times {
    sent: u32,
    /// Microseconds.
    replies: Histogram<u64>,
}

/// Round-trip times of a test.
pub(super) struct Rrul {
    pub(super) idle: Times,
    pub(super) loaded: Times,
}

/// Sends echo requests from the stack of a test.
pub(super) struct Prober<'a> {
    host: &'a Host,
    to: IpAddr,
    answers: (Sender<EchoAnswer>, Receiver<EchoAnswer>),
    next: u32,
}

impl Times {
    fn new() -> Option<Self> {
        Some(Self { sent: 0, replies: Histogram::new_with_bounds(1, TIMEOUT_US, 3).ok()? })
    }

    fn lost(&self) -> u64 {
        u64::from(self.sent).saturating_sub(self.replies.len())
    }

    /// Least, mean, median, 99 in a hundred, most: milliseconds; none without a reply.
    fn summary(&self) -> Option<[f64; 5]> {
        let all = &self.replies;
        let ms = |us: u64| us as f64 / 1000.0;
        let at = |quantile| ms(all.value_at_quantile(quantile));
        (!all.is_empty()).then(|| [ms(all.min()), all.mean() / 1000.0, at(0.5), at(0.99), ms(all.max())])
    }

    fn to_json(&self) -> Value {
        let [min, mean, median, p99, max] = self.summary().map_or([None; 5], |all| all.map(Some));
        json!({
            "sent": self.sent, "lost": self.lost(),
            "min_ms": min, "mean_ms": mean, "median_ms": median, "p99_ms": p99, "max_ms": max,
        })
    }

    fn line(&self, name: &str) -> String {
        let head = format!("  {name:6} {:6} {:6}", self.sent, self.lost());
        match self.summary() {
            Some(times) => times.iter().fold(head, |line, ms| line + &format!(" {ms:8.2}")) + "\n",
            None => head + " no reply\n",
        }
    }
}

impl Rrul {
    pub(super) fn to_json(&self) -> Value {
        json!({ "idle": self.idle.to_json(), "loaded": self.loaded.to_json() })
    }

    pub(super) fn text(&self) -> String {
        let mut text = "\nRound-trip times of ICMP echo in milliseconds\n".to_owned();
        // To write to a string never fails.
        let _ = writeln!(text, "           sent   lost      min     mean   median      99%      max");
        text + &self.idle.line("idle") + &self.loaded.line("loaded")
    }
}

impl<'a> Prober<'a> {
    pub(super) fn new(host: &'a Host, to: IpAddr) -> Self {
        Self { host, to, answers: channel(64), next: 0 }
    }

    /// Measures the path without load.
    pub(super) fn idle(&mut self, is_over: &dyn Fn() -> bool) -> Option<Times> {
        let first = self.next;
        self.measure(&|sent| sent - first >= IDLE_COUNT || is_over())
    }

    /// Measures until it is over.
    pub(super) fn loaded(&mut self, is_over: &dyn Fn() -> bool) -> Option<Times> {
        self.measure(&|_| is_over())
    }

    /// Sends a request each tenth of a second, and waits for the last replies.
    fn measure(&mut self, is_over: &dyn Fn(u32) -> bool) -> Option<Times> {
        let mut times = Times::new()?;
        let (first, mut due) = (self.next, Instant::now());
        while !is_over(self.next) {
            if Instant::now() >= due {
                due += INTERVAL;
                self.send(&mut times);
            }
            self.receive(&mut times, first);
            std::thread::sleep(due.saturating_duration_since(Instant::now()).min(INTERVAL / 4));
        }
        let end = Instant::now() + TIMEOUT;
        while times.lost() > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
            self.receive(&mut times, first);
        }
        Some(times)
    }

    fn send(&mut self, times: &mut Times) {
        let echo = Echo {
            fib: 0,
            to: self.to,
            source: None,
            ident: IDENT,
            seq: self.next,
            bytes: 56,
            ttl: None,
            dont_fragment: false,
            timeout: TIMEOUT,
        };
        self.next += 1;
        times.sent += 1;
        // One that cannot be sent is lost.
        let _ = self.host.stack.admin().echo(&echo, self.answers.0.clone());
    }

    fn receive(&mut self, times: &mut Times, first: u32) {
        while let Ok(answer) = self.answers.1.try_recv() {
            if let EchoAnswerKind::Reply { rtt, .. } = answer.kind
                && answer.seq >= first
            {
                let us = u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
                times.replies.saturating_record(us.max(1));
            }
        }
    }
}
