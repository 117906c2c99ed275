//! Overload of the router: goodput, and the latency of replies.

use core::time::Duration;

use anyhow::Result;

use super::frames::Side;
use super::generator::Generator;
use super::lab::Lab;
use super::measure::{Flow, Most, measure, saturate};
use super::pings::Pings;
use super::thread::Thread;

/// Offered loads, in multiples of the router's maximum.
pub const LOADS: [f64; 4] = [1.0, 2.0, 4.0, 10.0];
/// At the end it is offered once more what it can, for so long, to see whether it still can.
const AFTERWARDS: Duration = Duration::from_secs(2);
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

/// The results of all loads.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The router's maximum rate before.
    pub most: Most,
    /// In the order of time.
    pub steps: Vec<Step>,
    /// Once more what the router can.
    pub afterwards: Step,
    /// Frames a second that the generator sent at most.
    pub generator: f64,
}

/// Finds the most that the router does, then offers multiples of it for so long each.
///
/// # Errors
/// When `ping` is missing.
pub fn overload(
    lab: &Lab,
    generator: &mut Generator,
    thread: Option<&Thread>,
    each: Duration,
) -> Result<Outcome> {
    let most = saturate(lab, generator)?;
    let mut step = |wanted: f64, time| -> Result<Step> {
        generator.set_rate(wanted * most.delivered)?;
        let pings = Pings::start(lab, Side::Out, PING_EVERY, time)?;
        let flow = measure(lab, generator, thread, time)?;
        Ok(Step { wanted, flow, pings: pings.end()?.counts })
    };
    let steps = LOADS.iter().map(|load| step(*load, each)).collect::<Result<Vec<_>>>()?;
    let afterwards = step(1.0, AFTERWARDS)?;
    generator.open_up()?;
    let flow = measure(lab, generator, None, AFTERWARDS)?;
    let generator = steps.iter().map(|step| step.flow.offered).fold(flow.offered, f64::max);
    Ok(Outcome { most, steps, afterwards, generator })
}
