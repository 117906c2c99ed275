//! Schedules: all cases of a contest in turn, round by round, the machine's speed taken before and after each.

use core::time::Duration;

use anyhow::{Error, Result};

use super::canary::{Calibration, Reading};
use super::contest::{Bed, Case, Contest, Sample};
use super::table::Outcome;
use super::{machine, process};

/// The extent of a run.
#[derive(Clone, Copy)]
pub struct Plan {
    pub rounds: usize,
    pub window: Duration,
}

/// A case and its launches so far.
pub struct Entrant {
    pub case: Box<dyn Case>,
    pub state: State,
    /// By round; `None` where the case did not run or failed.
    pub launches: Vec<Option<Launch>>,
    failures_on_end: usize,
}

/// Whether a case takes part.
#[derive(Clone, Debug)]
pub enum State {
    In,
    /// It could not be set up: something is missing on this machine.
    Skipped(String),
    /// It could, and then failed again and again.
    Failed(String),
}

/// One launch, and how the machine was.
pub struct Launch {
    pub sample: Sample,
    /// The slower of the two readings around it.
    pub canary: Reading,
    /// Share of the time in which a task had to wait for a CPU.
    pub pressure: f64,
    pub fast: bool,
}

impl Launch {
    /// A figure of this name.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.sample.figures.iter().find(|(is, _)| *is == name).map(|(_, number)| *number)
    }
}

/// Share of the time in which a task may wait for a CPU before a launch counts as disturbed.
const PRESSURE_MAX: f64 = 0.1;
/// Rounds that a case may fail in one after the other.
const FAILURES_MAX: usize = 3;

/// Runs a contest and takes away all that it made, whatever happens.
///
/// # Errors
///
/// Only if the user interrupts.
pub fn run(contest: Contest, plan: Plan, calibration: &Calibration) -> Result<Outcome> {
    let Contest { id, title, unit, bed, cases, claims } = contest;
    eprintln!("{id}: {title}");
    let mut ring = Ring { bed, entrants: cases.into_iter().map(Entrant::new).collect() };
    ring.set_up()?;
    for round in 1..=plan.rounds {
        if ring.entrants.iter().all(Entrant::has_done) {
            break;
        }
        for entrant in &mut ring.entrants {
            entrant.take_turn(plan.window, calibration)?;
        }
        eprintln!("  round {round}/{}: {}", plan.rounds, ring.latest());
    }
    ring.mark_fast(calibration);
    ring.tear_down();
    Ok(Outcome::new(id, title, unit, &ring.entrants, claims))
}

/// Where a contest takes place. Dropped, it is empty.
struct Ring {
    bed: Option<Box<dyn Bed>>,
    entrants: Vec<Entrant>,
}

impl Ring {
    fn set_up(&mut self) -> Result<()> {
        let made = self.bed.as_mut().map_or(Ok(()), |bed| bed.set_up());
        process::go_on()?;
        if let Err(error) = made {
            self.entrants.iter_mut().for_each(|entrant| entrant.skip(&error));
            return Ok(());
        }
        for entrant in &mut self.entrants {
            if let Err(error) = entrant.case.set_up() {
                process::go_on()?;
                entrant.skip(&error);
            }
        }
        Ok(())
    }

    fn tear_down(&mut self) {
        for entrant in &mut self.entrants {
            entrant.case.tear_down();
        }
        if let Some(mut bed) = self.bed.take() {
            bed.tear_down();
        }
    }

    /// Only now is known what fast means.
    fn mark_fast(&mut self, calibration: &Calibration) {
        let launches = self.entrants.iter_mut().flat_map(|entrant| &mut entrant.launches);
        for launch in launches.flatten() {
            launch.fast = calibration.is_fast(launch.canary) && launch.pressure <= PRESSURE_MAX;
        }
    }

    fn latest(&self) -> String {
        let rates = self.entrants.iter().map(|entrant| {
            let latest = entrant.launches.last().and_then(Option::as_ref);
            let rate =
                latest.map_or_else(|| "-".into(), |launch| format!("{:.3} M", launch.sample.rate / 1e6));
            format!("{} {rate}", entrant.case.name())
        });
        rates.collect::<Vec<_>>().join(", ")
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.bed.is_some() || !std::thread::panicking() {
            self.tear_down();
        }
    }
}

impl Entrant {
    fn new(case: Box<dyn Case>) -> Self {
        Self { case, state: State::In, launches: Vec::new(), failures_on_end: 0 }
    }

    fn is_in(&self) -> bool {
        matches!(self.state, State::In)
    }

    /// Whether it takes no further turn.
    fn has_done(&self) -> bool {
        !self.is_in() || self.launches.len() >= self.case.rounds_max()
    }

    fn skip(&mut self, why: &Error) {
        eprintln!("  SKIPPED: {}: {why:#}", self.case.name());
        self.state = State::Skipped(format!("{why:#}"));
    }

    fn take_turn(&mut self, window: Duration, calibration: &Calibration) -> Result<()> {
        if self.has_done() {
            self.launches.push(None);
            return Ok(());
        }
        let before = calibration.read(machine::test_cpu())?;
        let waiting = machine::Pressure::now();
        let sample = self.case.launch(window);
        process::go_on()?;
        let pressure = waiting.since();
        let after = calibration.read(machine::test_cpu())?;
        let canary = Reading { ns: before.ns.max(after.ns) };
        match sample {
            Ok(sample) => self.launches.push(Some(Launch { sample, canary, pressure, fast: false })),
            Err(error) => {
                self.fail(&error);
                return Ok(());
            }
        }
        self.failures_on_end = 0;
        Ok(())
    }

    fn fail(&mut self, error: &Error) {
        eprintln!("  FAILED: {}: {error:#}", self.case.name());
        self.launches.push(None);
        self.failures_on_end += 1;
        if self.failures_on_end == FAILURES_MAX {
            self.state = State::Failed(format!("{error:#}"));
        }
    }
}
