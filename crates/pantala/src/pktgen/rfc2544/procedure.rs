//! The tests of RFC 2544 §26, over anything that makes trials.
//!
//! The course of a run depends on nothing but its plan and the outcomes of its trials. So a run that was broken off is
//! resumed by doing it again, with the recorded outcomes in place of the trials that were made.

use std::collections::VecDeque;

use super::plan::{Plan, Test};
use super::progress::{Forecast, Progress};
use super::record::{
    BackToBack, Counts, LatencyRun, Limit, Load, LossPoint, MilliFps, Outcome, Recovery, Reset, SizeResult,
    Spec, Throughput, Trial,
};
use super::search::Search;

/// Sending time of the longest burst at its rate, milliseconds (RFC 2544 §26.4: two seconds).
const LONGEST_MS: u64 = 2000;
/// Sending time after which a burst is given up: its sender is not as fast as it was.
pub(super) const BURST_MS: u64 = 2 * LONGEST_MS;
/// Sending time of the trial that finds out how fast the sender is.
const CALIBRATION_MAX_MS: u64 = 2000;
/// Frames of a trial at the lowest rate that is tried.
const FRAMES_MIN: u64 = 10;
/// The lowest rate that is tried is this part of the highest.
const FLOOR_OF_TOP: u64 = 100_000;
/// A trial that sends less than this share of its frames was not made at its rate, in thousandths.
const KEPT: u128 = 995;

/// Makes trials.
pub(super) trait Tester {
    /// Sends what `spec` says, waits for late frames, and counts; `live` sees the counts while it lasts.
    fn trial(&mut self, spec: &Spec, live: &mut dyn FnMut(Live)) -> Result<Outcome, Broken>;
}

/// Counts while a trial lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) since_ms: u64,
    pub(super) sent: u64,
    pub(super) received: u64,
}

/// Why a run ended before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Broken {
    Interrupted,
    Failed(String),
}

/// A run under way.
pub(super) struct Procedure<'t> {
    plan: &'t Plan,
    tester: &'t mut dyn Tester,
    /// Trials of the run that is resumed, which are not made again.
    recorded: VecDeque<Trial>,
    /// Keeps a trial that was made.
    keep: &'t mut dyn FnMut(&[Trial]) -> Result<(), String>,
    show: &'t mut dyn FnMut(&Progress),
    forecast: Forecast,
    pub(super) trials: Vec<Trial>,
    pub(super) sizes: Vec<SizeResult>,
    pub(super) reset: Option<Reset>,
}

impl<'t> Procedure<'t> {
    pub(super) fn new(
        plan: &'t Plan,
        tester: &'t mut dyn Tester,
        recorded: Vec<Trial>,
        keep: &'t mut dyn FnMut(&[Trial]) -> Result<(), String>,
        show: &'t mut dyn FnMut(&Progress),
    ) -> Self {
        let forecast = Forecast::new(plan);
        let recorded = recorded.into();
        let (trials, sizes) = (Vec::new(), Vec::new());
        Self { plan, tester, recorded, keep, show, forecast, trials, sizes, reset: None }
    }

    /// Makes all tests; the results so far are there whether it ends well or not.
    pub(super) fn run(&mut self) -> Result<(), Broken> {
        for size in self.plan.sizes.clone() {
            self.sizes.push(SizeResult { size, ..SizeResult::default() });
            self.size(size)?;
        }
        if self.plan.has(Test::Reset) {
            self.forecast.begin(Test::Reset);
            self.reset = Some(self.reset_test()?);
        }
        Ok(())
    }

    fn size(&mut self, size: u16) -> Result<(), Broken> {
        self.forecast.begin_size();
        let given = self.plan.top(size);
        let top = match given {
            Some(top) if self.plan.max_rate.is_some() => top,
            // A rate above what the sender reaches would measure the sender.
            line => self.calibrate(size)?.min(line.unwrap_or(u64::MAX)),
        };
        self.note(|result| (result.top, result.top_is_given) = (top, given == Some(top)));
        for test in self.plan.tests.clone().into_iter().filter(|test| *test != Test::Reset) {
            self.forecast.begin(test);
            self.test(test, size, top)?;
        }
        Ok(())
    }

    fn test(&mut self, test: Test, size: u16, top: MilliFps) -> Result<(), Broken> {
        let rate = self.sizes.last().and_then(|result| result.throughput).map_or(0, |found| found.rate);
        match test {
            Test::Throughput => self.throughput(size, top),
            Test::Loss => self.loss(size, top),
            Test::BackToBack => self.back_to_back(size, top, rate),
            Test::Latency if rate > 0 => self.latency(size, rate),
            Test::Recovery if rate > 0 => self.recovery(size, top, rate),
            Test::Latency | Test::Recovery | Test::Reset => Ok(()),
        }
    }

    fn note(&mut self, change: impl FnOnce(&mut SizeResult)) {
        if let Some(result) = self.sizes.last_mut() {
            change(result);
        }
    }

    /// Makes a trial, or takes its outcome from the record; `more` trials of its test are expected after it.
    fn trial(&mut self, spec: Spec, more: u32) -> Result<Outcome, Broken> {
        self.forecast.trial(&spec, more);
        let outcome = match self.recorded.pop_front() {
            Some(trial) if trial.spec == spec => trial.outcome,
            other => {
                if other.is_some() {
                    let why = "the file of the run has other trials than its plan asks for; begin again in another folder";
                    return Err(Broken::Failed(why.to_owned()));
                }
                let (forecast, show) = (&self.forecast, &mut self.show);
                self.tester.trial(&spec, &mut |live| show(&forecast.progress(&spec, live)))?
            }
        };
        self.trials.push(Trial { spec, outcome: outcome.clone() });
        if self.recorded.is_empty() {
            (self.keep)(&self.trials).map_err(Broken::Failed)?;
        }
        Ok(outcome)
    }

    fn calibrate(&mut self, size: u16) -> Result<MilliFps, Broken> {
        let load = Load::Unlimited { time_ms: self.plan.trial_ms.min(CALIBRATION_MAX_MS) };
        let outcome = self.trial(Spec { test: Test::Throughput, size, repeat: 0, load }, 0)?;
        match outcome.offered() {
            0 => Err(Broken::Failed(format!("no frame of {size} bytes could be sent"))),
            top => Ok(top),
        }
    }

    fn steady(&self, rate: MilliFps, time_ms: u64) -> Load {
        let frames = (u128::from(rate) * u128::from(time_ms)).div_ceil(1_000_000);
        Load::Steady { rate, frames: u64::try_from(frames).unwrap_or(u64::MAX).max(1) }
    }

    //= https://www.rfc-editor.org/rfc/rfc2544#section-26.1
    fn throughput(&mut self, size: u16, top: MilliFps) -> Result<(), Broken> {
        let floor = (FRAMES_MIN * 1_000_000 / self.plan.trial_ms).max(top / FLOOR_OF_TOP);
        let mut search = Search::new(floor, top, self.plan.resolution);
        let (mut cause, mut trials) = (Limit::Device, 0);
        while let Some(rate) = search.next() {
            let load = self.steady(rate, self.plan.trial_ms);
            let outcome =
                self.trial(Spec { test: Test::Throughput, size, repeat: 0, load }, search.left())?;
            trials += 1;
            let offered = if is_kept(&outcome, load) { rate } else { outcome.offered().min(rate) };
            if outcome.is_within(self.plan.loss_tolerance) {
                search.passed(offered);
                if offered < rate {
                    search.failed(rate);
                    cause = Limit::Tester;
                }
            } else {
                search.failed(offered);
                let ours = outcome.sum(|counts| counts.tester_dropped);
                cause = if outcome.sum(|counts| counts.lost) > ours { Limit::Device } else { Limit::Tester };
            }
        }
        let is_given = self.sizes.last().is_some_and(|result| result.top_is_given);
        let limit = match (search.answer() >= top, is_given) {
            (true, true) => Limit::Top,
            (true, false) => Limit::Tester,
            (false, _) => cause,
        };
        self.note(|result| result.throughput = Some(Throughput { rate: search.answer(), limit, trials }));
        Ok(())
    }

    //= https://www.rfc-editor.org/rfc/rfc2544#section-26.2
    fn latency(&mut self, size: u16, rate: MilliFps) -> Result<(), Broken> {
        let repeats = self.plan.repeat_of(Test::Latency);
        for repeat in 0..repeats {
            // The stream lasts two minutes where a trial lasts one.
            let load = self.steady(rate, 2 * self.plan.trial_ms);
            let outcome =
                self.trial(Spec { test: Test::Latency, size, repeat, load }, repeats - repeat - 1)?;
            let run = LatencyRun {
                lost: outcome.sum(|counts| counts.lost),
                directions: outcome.directions.iter().filter_map(|counts| counts.latency_ns).collect(),
            };
            self.note(|result| result.latency.push(run));
        }
        Ok(())
    }

    //= https://www.rfc-editor.org/rfc/rfc2544#section-26.3
    fn loss(&mut self, size: u16, top: MilliFps) -> Result<(), Broken> {
        let mut without = 0;
        for percent in (1..=10).rev().map(|tenth| tenth * 10) {
            let rate = (top / 100).max(1) * u64::from(percent);
            let load = self.steady(rate, self.plan.trial_ms);
            let more = if without > 0 { 0 } else { percent / 20 };
            let outcome = self.trial(Spec { test: Test::Loss, size, repeat: 0, load }, more)?;
            let forwarded = outcome.directions.iter().map(Counts::forwarded).min().unwrap_or(0);
            let point = LossPoint {
                percent_of_top: percent,
                intended: rate,
                offered: outcome.offered(),
                forwarded,
                loss_percent: outcome.loss_percent(),
            };
            self.note(|result| result.loss.push(point));
            without = if outcome.sum(|counts| counts.lost) == 0 { without + 1 } else { 0 };
            if without == 2 {
                break;
            }
        }
        Ok(())
    }

    //= https://www.rfc-editor.org/rfc/rfc9004#section-5
    fn back_to_back(&mut self, size: u16, top: MilliFps, throughput: MilliFps) -> Result<(), Broken> {
        let repeats = self.plan.repeat_of(Test::BackToBack);
        let longest =
            u64::try_from(u128::from(top) * u128::from(LONGEST_MS) / 1_000_000).unwrap_or(u64::MAX).max(1);
        let rate = self.sizes.last().and_then(|result| result.top_is_given.then_some(top));
        let mut bursts = Vec::new();
        for repeat in 0..repeats {
            let (mut search, mut has_lost) = (Search::new(1, longest, self.plan.resolution), false);
            let fresh = search.left();
            while let Some(frames) = search.next() {
                let spec = Spec { test: Test::BackToBack, size, repeat, load: Load::Burst { frames, rate } };
                let outcome = self.trial(spec, search.left() + (repeats - repeat - 1) * fresh)?;
                if !outcome.is_within(0) {
                    search.failed(frames);
                    has_lost = true;
                    continue;
                }
                let sent = outcome.directions.iter().map(|counts| counts.sent).min().unwrap_or(0);
                search.passed(sent.min(frames));
                if sent < frames {
                    search.failed(frames);
                }
            }
            bursts.push(search.answer());
            let found = summary(&bursts, !has_lost, top, throughput);
            self.note(|result| result.back_to_back = Some(found));
            if !has_lost {
                break;
            }
        }
        Ok(())
    }

    //= https://www.rfc-editor.org/rfc/rfc2544#section-26.5
    fn recovery(&mut self, size: u16, top: MilliFps, throughput: MilliFps) -> Result<(), Broken> {
        let repeats = self.plan.repeat_of(Test::Recovery);
        let (first, then) = ((throughput / 10 * 11).min(top), (throughput / 2).max(1));
        let time_ms = self.plan.trial_ms;
        for repeat in 0..repeats {
            let load = Load::Steps { first, then, time_ms };
            let outcome =
                self.trial(Spec { test: Test::Recovery, size, repeat, load }, repeats - repeat - 1)?;
            let courses = outcome.directions.iter().filter_map(|counts| counts.course.as_ref());
            let last = courses.filter_map(|course| course.last_loss_ms).fold(0.0, f64::max);
            let begun = super::float(time_ms);
            let found = Recovery {
                overload: first,
                reduced: then,
                overload_lost: outcome.sum(|counts| counts.lost),
                time_ms: (last - begun).max(0.0),
                is_lasting: last > begun * 1.9,
            };
            self.note(|result| result.recovery.push(found));
        }
        Ok(())
    }

    //= https://www.rfc-editor.org/rfc/rfc6201#section-4
    fn reset_test(&mut self) -> Result<Reset, Broken> {
        let skipped = |why: &str| Ok(Reset::Skipped { why: why.to_owned() });
        if self.plan.reset_command.is_none() {
            return skipped("there is no --reset-command to reset the device with");
        }
        // RFC 2544 §26.6: the smallest frames.
        let smallest = self.sizes.first().and_then(|result| Some((result.size, result.throughput?.rate)));
        let Some((size, rate)) = smallest.filter(|(_, rate)| *rate > 0) else {
            return skipped("no rate passes without loss");
        };
        let load = Load::Reset { rate, at_ms: self.plan.reset_ms / 6, time_ms: self.plan.reset_ms };
        let outcome = self.trial(Spec { test: Test::Reset, size, repeat: 0, load }, 0)?;
        let courses = || outcome.directions.iter().filter_map(|counts| counts.course.as_ref());
        let silences = courses().filter(|course| course.silent_to_ms > course.reset_ms.unwrap_or(0.0));
        let lost = outcome.directions.iter().map(|counts| counts.lost).max().unwrap_or(0);
        let is_back = courses().all(|course| {
            let tail = course.received.len().saturating_sub(course.received.len() / 10 + 1);
            course.received.iter().skip(tail).any(|count| *count > 0)
        });
        Ok(Reset::Measured {
            size,
            rate,
            time_ms: silences.map(|course| course.silent_to_ms - course.silent_from_ms).fold(0.0, f64::max),
            by_loss_ms: super::float(lost) * 1e6 / super::float(rate),
            lost,
            is_back,
        })
    }
}

/// Whether the frames of a load were sent at its rate.
fn is_kept(outcome: &Outcome, load: Load) -> bool {
    let Load::Steady { frames, .. } = load else { return true };
    outcome.directions.iter().all(|counts| u128::from(counts.sent) * 1000 >= u128::from(frames) * KEPT)
}

fn summary(bursts: &[u64], is_unlimited: bool, top: MilliFps, throughput: MilliFps) -> BackToBack {
    let count = super::float(bursts.len() as u64).max(1.0);
    let average = bursts.iter().map(|frames| super::float(*frames)).sum::<f64>() / count;
    let squares = bursts.iter().map(|frames| (super::float(*frames) - average).powi(2)).sum::<f64>();
    let deviation = if bursts.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
    let max = bursts.iter().copied().max().unwrap_or(0);
    let buffer_ms = average * 1e6 / super::float(top.max(1));
    //= https://www.rfc-editor.org/rfc/rfc9004#section-6.4
    let corrected_buffer_ms = buffer_ms - buffer_ms * super::float(throughput) / super::float(top.max(1));
    BackToBack {
        rate: top,
        bursts: bursts.to_vec(),
        average,
        min: bursts.iter().copied().min().unwrap_or(0),
        max,
        deviation,
        is_unlimited,
        buffer_ms,
        corrected_buffer_ms: corrected_buffer_ms.max(0.0),
    }
}

#[cfg(test)]
mod tests;
