//! The pace of each sender of a trial.

use super::record::{Load, MilliFps};
use crate::pktgen::rate::{Pacer, Rate};
use crate::pktgen::worker::Phase;

const NS_OF_MS: u64 = 1_000_000;

/// One sender of several.
pub(super) struct Part {
    pub(super) at: u64,
    pub(super) of: u64,
}

/// The pace of a sender.
pub(super) struct Pace {
    pub(super) pacer: Pacer,
    pub(super) frames: Option<u64>,
    pub(super) time_ns: u64,
    pub(super) next: Option<Phase>,
}

impl Part {
    fn pacer(&self, rate: MilliFps) -> Pacer {
        Pacer::new(Rate::Frames(rate).share(self.at, self.of), 0)
    }

    fn frames(&self, frames: u64) -> u64 {
        let until = |n: u64| u128::from(frames) * u128::from(n) / u128::from(self.of.max(1));
        u64::try_from(until(self.at + 1) - until(self.at)).unwrap_or(frames)
    }

    pub(super) fn pace(&self, load: Load) -> Pace {
        let time_ns = load.time_ms().saturating_mul(NS_OF_MS);
        let pace = |pacer: Pacer, frames: Option<u64>| Pace { pacer, frames, time_ns, next: None };
        match load {
            Load::Unlimited { .. } => pace(Pacer::new(Rate::Max, 0), None),
            Load::Steady { rate, frames } => pace(self.pacer(rate), Some(self.frames(frames))),
            Load::Reset { rate, .. } => pace(self.pacer(rate), None),
            Load::Burst { frames, rate } => {
                let pacer = rate.map_or_else(|| Pacer::new(Rate::Max, 0), |rate| self.pacer(rate));
                pace(pacer, Some(self.frames(frames)))
            }
            Load::Steps { first, then, time_ms } => {
                let half_ns = time_ms * NS_OF_MS;
                let next = Phase { at_ns: half_ns, pacer: self.pacer(then), time_ns: half_ns };
                Pace { time_ns: u64::MAX, next: Some(next), ..pace(self.pacer(first), None) }
            }
        }
    }
}
