//! Progress of a run: the trial under way, and about how long all others will take.

use core::time::Duration;

use super::plan::{Plan, Test};
use super::procedure::{BURST_MS, Live};
use super::record::{Load, Spec};
use super::search::Search;
use super::show;

/// Time of learning, starting threads and writing, of each trial.
const OVERHEAD_MS: u64 = 250;
/// Steps of the frame loss rate, as expected.
const LOSS_STEPS: u64 = 6;

/// Expected times, from the plan and where the run is.
#[derive(Debug, Clone)]
pub(super) struct Forecast {
    /// Time of each test of a size, milliseconds.
    tests: Vec<(Test, u64)>,
    /// Time of the reset test, which is made once.
    reset_ms: u64,
    between_ms: u64,
    sizes_left: u64,
    sizes: u64,
    test: Test,
    /// Trials made of the whole run.
    made: u32,
    /// Time of the trials of this test after this one.
    more_ms: u64,
}

/// Progress while a trial lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) trial: u32,
    pub(super) spec: Spec,
    pub(super) live: Live,
    pub(super) size_at: u64,
    pub(super) sizes: u64,
    pub(super) left: Duration,
}

impl Forecast {
    pub(super) fn new(plan: &Plan) -> Self {
        let between_ms = plan.settle_ms + plan.pause_ms + OVERHEAD_MS;
        let search = u64::from(Search::new(1, u64::MAX, plan.resolution).left());
        let cost = |test: Test| {
            let repeats = u64::from(plan.repeat_of(test));
            let (trials, ms) = match test {
                Test::Throughput => (search, plan.trial_ms),
                Test::Latency | Test::Recovery => (repeats, 2 * plan.trial_ms),
                Test::Loss => (LOSS_STEPS, plan.trial_ms),
                Test::BackToBack => (repeats * search, BURST_MS / 8),
                Test::Reset => (0, 0),
            };
            trials * (ms + between_ms)
        };
        let resets = plan.has(Test::Reset) && plan.reset_command.is_some();
        let sizes = plan.sizes.len() as u64;
        Self {
            tests: plan.tests.iter().map(|test| (*test, cost(*test))).collect(),
            reset_ms: if resets { plan.reset_ms + between_ms } else { 0 },
            between_ms,
            sizes_left: sizes,
            sizes,
            test: Test::Throughput,
            made: 0,
            more_ms: 0,
        }
    }

    pub(super) fn begin_size(&mut self) {
        self.sizes_left = self.sizes_left.saturating_sub(1);
        self.test = Test::Throughput;
    }

    pub(super) fn begin(&mut self, test: Test) {
        self.test = test;
    }

    /// A trial begins, and `more` of its test are expected after it.
    pub(super) fn trial(&mut self, spec: &Spec, more: u32) {
        self.made += 1;
        self.more_ms = u64::from(more) * (spec.load.time_ms().min(cost_max(spec)) + self.between_ms);
    }

    pub(super) fn progress(&self, spec: &Spec, live: Live) -> Progress {
        let rest = spec.load.time_ms().saturating_sub(live.since_ms);
        let later = |test: &&(Test, u64)| test.0 > self.test;
        let of_size: u64 = self.tests.iter().filter(later).map(|(_, ms)| ms).sum();
        let whole: u64 = self.tests.iter().map(|(_, ms)| ms).sum();
        let reset = if self.test == Test::Reset { 0 } else { self.reset_ms };
        let ms = rest + self.more_ms + of_size + self.sizes_left * whole + reset;
        Progress {
            trial: self.made,
            spec: *spec,
            live,
            size_at: self.sizes - self.sizes_left,
            sizes: self.sizes,
            left: Duration::from_millis(ms),
        }
    }
}

/// Most bursts are shorter than the longest.
fn cost_max(spec: &Spec) -> u64 {
    if let Load::Burst { .. } = spec.load { BURST_MS / 8 } else { u64::MAX }
}

impl Progress {
    /// One line.
    pub(super) fn text(&self) -> String {
        let Self { trial, spec, live, .. } = self;
        let load = match spec.load {
            Load::Unlimited { .. } => "as fast as it goes".to_owned(),
            Load::Steady { rate, .. } | Load::Reset { rate, .. } => show::rate(rate),
            Load::Burst { frames, .. } => format!("burst of {frames}"),
            Load::Steps { first, then, .. } => format!("{}, then {}", show::rate(first), show::rate(then)),
        };
        let missing = live.sent.saturating_sub(live.received);
        format!(
            "{} bytes ({} of {})  {}  trial {trial}: {load}, {}  sent {} missing {missing}  about {} left",
            spec.size,
            self.size_at,
            self.sizes,
            spec.test.name(),
            show::seconds(live.since_ms),
            live.sent,
            show::left(self.left)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pktgen::rfc2544::args::Args;

    fn plan(more: &str) -> Plan {
        let words: Vec<&str> = "tap:a tap:b".split(' ').chain(more.split_whitespace()).collect();
        Plan::new(Args::read(&words).unwrap()).unwrap()
    }

    #[test]
    fn the_time_left_is_of_this_trial_its_test_and_all_that_comes_after() {
        let plan = plan("--tests throughput,latency --sizes 64,128 --trial 10s --repeat 2 --resolution 1%");
        let mut forecast = Forecast::new(&plan);
        forecast.begin_size();
        forecast.begin(Test::Throughput);
        let spec = Spec {
            test: Test::Throughput,
            size: 64,
            repeat: 0,
            load: Load::Steady { rate: 1_000_000, frames: 10_000 },
        };
        forecast.trial(&spec, 3);
        let live = Live { since_ms: 4000, sent: 4000, received: 3990 };
        let progress = forecast.progress(&spec, live);
        let (trial, latency) = (10_000 + 7250, 2 * (20_000 + 7250));
        let search = u64::from(Search::new(1, u64::MAX, 1000).left()) * trial;
        let left = 6000 + 3 * trial + latency + search + latency;
        assert_eq!(progress.left, Duration::from_millis(left));
        assert_eq!(
            progress.text(),
            "64 bytes (1 of 2)  throughput  trial 1: 1.00 kpps, 4.0 s  sent 4000 missing 10  about 6 min left"
        );
    }

    #[test]
    fn a_whole_run_of_the_standard_takes_hours_and_a_short_one_minutes() {
        let hours = |more: &str| {
            let plan = plan(more);
            let (mut forecast, load) = (Forecast::new(&plan), Load::Burst { frames: 1, rate: None });
            forecast.sizes_left += 1;
            forecast.begin_size();
            let spec = Spec { test: Test::Throughput, size: 64, repeat: 0, load };
            forecast.progress(&spec, Live { since_ms: 0, sent: 0, received: 0 }).left.as_secs() / 3600
        };
        assert!((10..48).contains(&hours("")));
        assert_eq!(hours("--trial 1s --settle 100ms --pause 0s --sizes 64 --repeat 1"), 0);
    }
}
