//! A host that pings the router, as a user would.

use core::time::Duration;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use super::frames::{self, Side};
use super::lab::Lab;

/// `ping`, while it runs.
pub struct Pings(Child);

/// Results of its echo requests.
#[derive(Clone, Copy, Debug)]
pub struct Answers {
    /// Requests sent, and replies received.
    pub counts: (u64, u64),
    /// Mean round-trip time; none without a reply.
    pub average: Option<Duration>,
}

impl Pings {
    /// Starts to ping the router's address on that link, from behind the sink, every so often for so long.
    ///
    /// # Errors
    /// When `ping` is missing.
    pub fn start(lab: &Lab, side: Side, every: Duration, time: Duration) -> Result<Self> {
        let count = (time.as_nanos() / every.as_nanos()).max(1);
        let mut command = Command::new("ping");
        command.args(["-n", "-q", "-W", "1", "-i", &every.as_secs_f64().to_string()]);
        command.args(["-c", &count.to_string(), &frames::addr(lab.family, side, 1).to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(Self(lab.far.put(&mut command)?.spawn().context("ping (package iputils-ping)")?))
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When it says something else than it used to.
    pub fn end(self) -> Result<Answers> {
        let output = self.0.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        answers(&text).with_context(|| format!("ping said {text:?}"))
    }
}

fn answers(text: &str) -> Option<Answers> {
    let before = |what: &str| {
        let (front, _) = text.split_once(what)?;
        front.rsplit([' ', '\n']).find(|word| !word.is_empty())?.parse().ok()
    };
    let counts = before(" packets transmitted").zip(before(" received"))?;
    let average = || {
        let (_, numbers) = text.split_once("rtt min/avg/max/mdev = ")?;
        let ms: f64 = numbers.split('/').nth(1)?.parse().ok()?;
        Some(Duration::from_secs_f64(ms / 1e3))
    };
    Some(Answers { counts, average: average() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ping_says_is_understood() {
        let text = "--- 10.2.0.1 ping statistics ---\n50 packets transmitted, 49 received, 2% packet loss, time 9ms\n\
                    rtt min/avg/max/mdev = 0.031/0.050/0.102/0.010 ms\n";
        let Answers { counts, average } = answers(text).unwrap();
        assert_eq!((counts, average), ((50, 49), Some(Duration::from_micros(50))));
        let none = answers("5 packets transmitted, 0 received, 100% packet loss, time 9ms\n").unwrap();
        assert_eq!((none.counts, none.average), ((5, 0), None));
    }
}
