//! More than the router can take: what still comes through, and who still gets an answer.

use core::time::Duration;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use super::frames::{self, Side};
use super::generator::Generator;
use super::lab::Lab;
use super::measure::{Flow, Most, measure, saturate};

/// What is offered, in multiples of what the router can do at most; at the end once more what it can.
pub const LOADS: [f64; 5] = [1.0, 2.0, 4.0, 10.0, 1.0];
/// Between two pings.
const PING_EVERY: Duration = Duration::from_millis(200);

/// A load, and what became of it.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The multiple of the most that was wanted.
    pub wanted: f64,
    /// Frames a second.
    pub flow: Flow,
    /// Echo requests to the router's own address, and answers.
    pub pings: (u64, u64),
}

/// Finds the most that the router does, then offers multiples of it for so long each.
///
/// # Errors
/// When `ping` is missing.
pub fn overload(lab: &Lab, generator: &mut Generator, each: Duration) -> Result<(Most, Vec<Step>)> {
    let most = saturate(lab, generator)?;
    let steps = LOADS.iter().map(|&wanted| {
        generator.set_rate(wanted * most.delivered)?;
        let pings = Pings::start(lab, each)?;
        let flow = measure(lab, generator, None, each)?;
        Ok(Step { wanted, flow, pings: pings.end()? })
    });
    Ok((most, steps.collect::<Result<_>>()?))
}

/// A host behind the sink that pings the router.
struct Pings(Child);

impl Pings {
    fn start(lab: &Lab, time: Duration) -> Result<Self> {
        let count = (time.as_millis() / PING_EVERY.as_millis()).max(1);
        let mut command = Command::new("ping");
        command.args(["-n", "-q", "-W", "1", "-i", &PING_EVERY.as_secs_f64().to_string()]);
        command.args(["-c", &count.to_string(), &frames::addr(lab.family, Side::Out, 1).to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(Self(lab.far.put(&mut command)?.spawn().context("ping (package iputils-ping)")?))
    }

    /// Waits for the end; answers how many were sent, and how many answered.
    fn end(self) -> Result<(u64, u64)> {
        let output = self.0.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let before = |what: &str| {
            let (front, _) = text.split_once(what)?;
            front.rsplit([' ', '\n']).find(|word| !word.is_empty())?.parse().ok()
        };
        let counts = before(" packets transmitted").zip(before(" received"));
        counts.with_context(|| format!("ping said {text:?}"))
    }
}
