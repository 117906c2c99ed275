//! The generator: a thread inside one long system call, and its pace.

use core::time::Duration;
use std::sync::Arc;
use std::thread::sleep;

use anyhow::{Result, ensure};
use dev::sys::{affinity, sched};
use testbed::flood::{Flood, Pace};

use super::frames;
use super::lab::{Lab, SOURCE};
use super::layout::Layout;
use super::measure::Rate;

/// Frames that go through at once; the rings of veth hold 256.
const BATCH: u32 = 64;
/// Length of a trial before the pace is corrected.
const TRIAL: Duration = Duration::from_millis(40);
/// Number of trials.
const TRIALS: usize = 6;
/// Tolerance of the pace.
const NEAR: f64 = 0.02;

/// The fields that vary between frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variety {
    /// Flows − 1, for a power of two.
    pub flows: u16,
    /// Destinations − 1, for a power of two.
    pub destinations: u16,
}

/// A running generator. It ends with the process.
pub struct Generator {
    flood: Arc<Flood>,
    variety: Variety,
    share: u16,
}

impl Generator {
    /// Starts it; it sends nothing yet.
    ///
    /// # Errors
    /// A refusal of the kernel.
    pub fn start(lab: &Lab, variety: Variety) -> Result<Self> {
        let ifindex = lab.source.netlink()?.link(SOURCE)?.index;
        let flood = Arc::new(Flood::new(ifindex, &frames::frames(lab.family, lab.to)?)?);
        let (layout, running) = (lab.layout, Arc::clone(&flood));
        let namespace = lab.source.run(dev::netns::Netns::current)??;
        std::thread::Builder::new().name("generator".to_owned()).spawn(move || -> Result<()> {
            namespace.enter()?;
            affinity::pin_to(layout.generator_cpu())?;
            if layout == Layout::One {
                sched::yield_to_all()?;
            }
            loop {
                running.run(u32::MAX, BATCH)?;
            }
        })?;
        Ok(Self { flood, variety, share: 0 })
    }

    /// Flows that are sent.
    #[must_use]
    pub fn flows(&self) -> u64 {
        u64::from(self.variety.flows) + 1
    }

    /// Sends as much as it can.
    ///
    /// # Errors
    /// None is expected.
    pub fn open_up(&mut self) -> Result<()> {
        self.set_share(Pace::ALL)
    }

    /// Sends as little as it can, frame by frame: some thousands a second.
    ///
    /// # Errors
    /// None is expected.
    pub fn trickle(&mut self) -> Result<()> {
        self.set_share(1)
    }

    /// Sends nothing.
    ///
    /// # Errors
    /// None is expected.
    pub fn hold(&mut self) -> Result<()> {
        self.set_share(0)
    }

    /// Sends about `rate` frames a second, or as many as it can; answers whether it can.
    ///
    /// # Errors
    /// None is expected.
    pub fn set_rate(&mut self, rate: f64) -> Result<bool> {
        ensure!(rate > 0.0, "a rate of nothing is to be held");
        for _ in 0..TRIALS {
            self.set_share(self.share.max(8))?;
            let is = self.measure(TRIAL)?;
            let error = is / rate - 1.0;
            if error.abs() < NEAR {
                return Ok(true);
            }
            let wanted = (f64::from(self.share) * rate / is.max(1.0)).clamp(1.0, f64::from(Pace::ALL));
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
            self.set_share(wanted.round() as u16)?;
        }
        Ok(self.share < Pace::ALL)
    }

    /// Frames sent so far.
    ///
    /// # Errors
    /// None is expected.
    pub fn sent(&self) -> Result<u64> {
        Ok(self.flood.sent()?)
    }

    fn measure(&self, time: Duration) -> Result<f64> {
        let rate = Rate::begin(self.sent()?);
        sleep(time);
        Ok(rate.end(self.sent()?))
    }

    fn set_share(&mut self, share: u16) -> Result<()> {
        self.share = share;
        let Variety { flows, destinations } = self.variety;
        Ok(self.flood.set_pace(Pace { share, flows, to: destinations })?)
    }
}
