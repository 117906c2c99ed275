//! Frames per doorbell, under load and at low rates; and the latency at low rates.

use core::time::Duration;

use anyhow::Result;

use super::frames::Side;
use super::generator::Generator;
use super::lab::Lab;
use super::measure::{Flow, Most, measure, saturate};
use super::pings::Pings;
use super::routers::{Router, Sent};

/// Between two pings.
const PING_EVERY: Duration = Duration::from_millis(10);

/// The counts.
#[derive(Clone, Copy, Debug)]
pub struct Doorbells {
    /// The router's maximum rate.
    pub most: Most,
    /// Under load.
    pub flow: Flow,
    /// Doorbells for each frame under load, and where frames come singly; if the router counts them.
    pub each: Option<(f64, f64)>,
    /// Round-trip time of a ping to the router at a low rate.
    pub ping: Option<Duration>,
}

/// Offers what the router can do, and then a trickle.
///
/// # Errors
/// When `ping` is missing.
pub fn doorbells(
    lab: &Lab,
    generator: &mut Generator,
    router: &dyn Router,
    time: Duration,
) -> Result<Doorbells> {
    let most = saturate(lab, generator)?;
    let before = router.sent();
    let flow = measure(lab, generator, None, time)?;
    let loaded = each(before, router.sent());
    generator.trickle()?;
    std::thread::sleep(Duration::from_millis(100));
    let before = router.sent();
    let pings = Pings::start(lab, Side::Out, PING_EVERY, time)?.end()?;
    let singly = each(before, router.sent());
    Ok(Doorbells { most, flow, each: loaded.zip(singly), ping: pings.average })
}

fn each(before: Option<Sent>, after: Option<Sent>) -> Option<f64> {
    let (before, after) = before.zip(after)?;
    Some((after.doorbells - before.doorbells) as f64 / (after.frames - before.frames).max(1) as f64)
}
