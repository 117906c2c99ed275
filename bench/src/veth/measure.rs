//! Received frames, and the load of the processors.

use core::time::Duration;
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result};

use super::generator::Generator;
use super::lab::Lab;
use super::layout::{Layout, OTHER_CPU, ROUTER_CPU};
use super::thread::Thread;

/// A count whose rate is being measured.
pub struct Rate {
    begun: Instant,
    count: u64,
}

impl Rate {
    /// Begins with a count.
    #[must_use]
    pub fn begin(count: u64) -> Self {
        Self { begun: Instant::now(), count }
    }

    /// Per second, now that the count is this.
    #[must_use]
    pub fn end(self, count: u64) -> f64 {
        count.saturating_sub(self.count) as f64 / self.begun.elapsed().as_secs_f64()
    }
}

/// The result of one measurement; per second.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Frames that the generator sent.
    pub offered: f64,
    /// Frames that came to the sink.
    pub delivered: f64,
    /// Nanoseconds that the router's thread took for a frame, if it has a thread.
    pub each: Option<f64>,
    /// Load of the generator's processor, and of the router's.
    pub cpus: [Share; 2],
}

/// Load of a processor, in parts of one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    /// In programs, also those of others.
    pub user: f64,
    /// In system calls; the generator is one.
    pub system: f64,
    /// In interrupts, hard and soft: the kernel's packet path.
    pub softirq: f64,
    /// Doing nothing.
    pub idle: f64,
    /// Taken away by the machine below.
    pub stolen: f64,
}

/// Measures for a while.
///
/// # Errors
/// None is expected.
pub fn measure(lab: &Lab, generator: &Generator, thread: Option<&Thread>, time: Duration) -> Result<Flow> {
    let ran = || thread.map(Thread::ran).transpose();
    let (before, begun) = (processors()?, ran()?);
    let (offered, delivered) = (Rate::begin(generator.sent()?), Rate::begin(lab.sink.received()?));
    sleep(time);
    let (offered, delivered) = (offered.end(generator.sent()?), delivered.end(lab.sink.received()?));
    let (after, ended) = (processors()?, ran()?);
    let took = begun.zip(ended).map(|(begun, ended)| ended.saturating_sub(begun).as_nanos() as f64);
    let each = took.map(|took| took / (delivered * time.as_secs_f64()));
    let share = |cpu: usize| Share::between(&before[cpu], &after[cpu]);
    Ok(Flow { offered, delivered, each, cpus: [OTHER_CPU, ROUTER_CPU].map(share) })
}

/// First offered rate of the search for the maximum, frames a second.
const FIRST: f64 = 400e3;
/// Factor between two rates.
const STEP: f64 = 1.25;
const LOOK: Duration = Duration::from_millis(100);

/// Frames of each flow at the least before anything is measured.
const EACH_FLOW: u8 = 16;
/// A rate that is higher by this factor grows.
const GROWS: f64 = 1.03;
/// Looks without growth after which a rate is settled.
const SETTLED: u32 = 3;
/// Longest time to wait for that.
const WARM_UP_MAX: Duration = Duration::from_secs(20);

/// The most that is delivered, whatever is offered.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// Frames a second.
    pub delivered: f64,
    /// Frames a second that were offered then.
    pub at: f64,
    /// Whether more was offered than delivered, then or later.
    pub is_the_routers: bool,
}

/// Waits until each flow has been seen often enough to be known to whatever learns flows, and the rate grows no more.
fn warm_up(lab: &Lab, generator: &Generator) -> Result<()> {
    let begun = Instant::now();
    let enough = u64::from(EACH_FLOW) * generator.flows();
    let (first, mut best, mut looks) = (lab.sink.received()?, 0.0_f64, 0);
    while looks < SETTLED && begun.elapsed() < WARM_UP_MAX {
        let rate = Rate::begin(lab.sink.received()?);
        sleep(LOOK);
        let received = lab.sink.received()?;
        let now = rate.end(received);
        let is_growing = now > GROWS * best || received - first < enough;
        looks = if is_growing { 0 } else { looks + 1 };
        best = best.max(now);
    }
    Ok(())
}

/// Offers more and more until less comes out, and leaves the generator at the pace at which the most did.
///
/// # Errors
/// None is expected.
pub fn saturate(lab: &Lab, generator: &mut Generator) -> Result<Most> {
    if lab.layout == Layout::One {
        generator.open_up()?;
        warm_up(lab, generator)?;
        let flow = measure(lab, generator, None, LOOK)?;
        return Ok(Most { delivered: flow.delivered, at: flow.offered, is_the_routers: true });
    }
    let mut most = Most { delivered: 0.0, at: FIRST, is_the_routers: false };
    let mut offer = FIRST;
    loop {
        let can = generator.set_rate(offer)?;
        let flow = measure(lab, generator, None, LOOK)?;
        if flow.delivered > most.delivered {
            most = Most { delivered: flow.delivered, at: flow.offered, ..most };
        }
        most.is_the_routers |= flow.delivered < 0.95 * flow.offered;
        if !can || flow.offered > 2.0 * most.delivered {
            break;
        }
        offer *= STEP;
    }
    generator.set_rate(most.at)?;
    Ok(most)
}

/// Returns the ticks of all processors since boot: the columns of `/proc/stat`.
fn processors() -> Result<Vec<Vec<u64>>> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let lines = text.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    let numbers = |line: &str| line.split_whitespace().skip(1).map(str::parse).collect();
    let all: Vec<Vec<u64>> = lines.map(numbers).collect::<Result<_, _>>()?;
    all.get(ROUTER_CPU).context("two processors are needed")?;
    Ok(all)
}

impl Share {
    fn between(before: &[u64], after: &[u64]) -> Self {
        let ticks: Vec<f64> =
            after.iter().zip(before).take(8).map(|(a, b)| a.saturating_sub(*b) as f64).collect();
        let all: f64 = ticks.iter().sum::<f64>().max(1.0);
        let part = |columns: &[usize]| columns.iter().filter_map(|at| ticks.get(*at)).sum::<f64>() / all;
        Self {
            user: part(&[0, 1]),
            system: part(&[2]),
            idle: part(&[3, 4]),
            softirq: part(&[5, 6]),
            stolen: part(&[7]),
        }
    }
}

impl core::fmt::Display for Share {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { user, system, softirq, idle, stolen } = self;
        let percent = |part: &f64| part * 100.0;
        write!(
            f,
            "user {:.0} system {:.0} softirq {:.0} idle {:.0} stolen {:.0}",
            percent(user),
            percent(system),
            percent(softirq),
            percent(idle),
            percent(stolen)
        )
    }
}
