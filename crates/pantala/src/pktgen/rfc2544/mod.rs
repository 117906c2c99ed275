//! `pantala rfc2544`: the benchmark of RFC 2544 over two devices or more, with any device under test between them.
//!
//! | module | what it is |
//! |---|---|
//! | [`args`], [`plan`] | the command line, and whether it fits together |
//! | [`procedure`], [`search`] | the tests, over anything that makes trials |
//! | [`tester`], [`pace`], [`reset`], [`counts`] | trials over devices |
//! | [`record`], [`store`] | trials and results, and their files |
//! | [`progress`], [`show`], [`markdown`], [`html`], [`chart`] | what is said about them |

mod args;
mod chart;
mod counts;
mod html;
mod markdown;
mod pace;
mod plan;
mod procedure;
mod progress;
mod record;
mod reset;
mod search;
mod show;
mod store;
mod tester;

use std::path::PathBuf;
use std::time::Instant;

pub(crate) use args::{Args, HELP};
use plan::Plan;
use procedure::{Broken, Procedure};
use progress::Progress;
use record::{Report, State};
use store::Store;
use tester::Ports;

use super::summary::float;
use crate::cli::Failure;
use crate::daemon::log;
use crate::interrupt::Stop;
use crate::term::Term;

/// Flows of a port: as many UDP source ports as there are from RFC 2544's on.
pub(crate) const FLOWS_MAX: u16 = 16_000;

/// Runs the tests and shows their results.
pub(crate) fn run(args: Args, json: bool, term: &mut Term) -> Result<(), Failure> {
    log::to_stderr(log::Level::Warning);
    let (state, folder) = begin(args)?;
    let mut store = Store::open(folder.clone(), &state).map_err(Failure::Failed)?;
    let stop =
        Stop::on_signals().map_err(|why| Failure::Failed(format!("cannot watch for signals: {why}")))?;
    let plan = &state.plan;
    let mut ports = match Ports::open(plan, stop.clone()) {
        Ok(ports) => ports,
        Err(_) if stop.is_set() => return Err(Failure::Said),
        Err(why) => return Err(Failure::Failed(format!("rfc2544: {why}"))),
    };
    let (report, broken) = conduct(&state, &mut ports, &mut store, term);
    ports.close();
    term.end_progress();
    store.report(&report).map_err(Failure::Failed)?;
    let text = if json { store::json(&report)? } else { markdown::summary(&report) };
    term.show(&text)?;
    ended(broken, folder, term)
}

/// Reads what is asked for: a new run, or one that is in a folder.
fn begin(args: Args) -> Result<(State, Option<PathBuf>), Failure> {
    if let Some(folder) = args.resume {
        let state = store::read(&folder).map_err(Failure::Failed)?;
        return Ok((state, Some(folder)));
    }
    let folder = args.report.clone();
    let plan = Plan::new(args).map_err(|why| Failure::usage(format!("rfc2544: {why}")))?;
    Ok((State { plan, begun_s: store::now_s(), trials: Vec::new() }, folder))
}

/// Makes the tests; what was measured is there even if not all were made.
fn conduct(
    state: &State,
    ports: &mut Ports<'_>,
    store: &mut Store,
    term: &mut Term,
) -> (Report, Option<Broken>) {
    let mut shown = None::<Instant>;
    let every = if term.is_live_beside() { super::run::LIVE } else { super::run::PLAIN };
    let mut show = |progress: &Progress| {
        if shown.is_none_or(|shown| shown.elapsed() >= every) {
            shown = Some(Instant::now());
            term.progress(&progress.text());
        }
    };
    let mut keep = |trials: &[record::Trial]| store.keep(trials);
    let recorded = state.trials.clone();
    let mut procedure = Procedure::new(&state.plan, ports, recorded, &mut keep, &mut show);
    let broken = procedure.run().err();
    let (sizes, reset, trials) = (procedure.sizes, procedure.reset, procedure.trials);
    let report = Report {
        pantala: env!("CARGO_PKG_VERSION").to_owned(),
        plan: state.plan.clone(),
        begun_s: state.begun_s,
        ended_s: store::now_s(),
        interrupted: broken.is_some(),
        machine: store::machine(),
        sizes,
        reset,
        trials,
    };
    (report, broken)
}

fn ended(broken: Option<Broken>, folder: Option<PathBuf>, term: &mut Term) -> Result<(), Failure> {
    let resume = folder.map_or_else(String::new, |folder| {
        format!("; pantala rfc2544 --resume {} goes on", folder.display())
    });
    match broken {
        None => Ok(()),
        Some(Broken::Interrupted) => {
            term.complain(&format!("pantala: interrupted{resume}"));
            Err(Failure::Said)
        }
        Some(Broken::Failed(why)) => Err(Failure::Failed(format!("rfc2544: {why}{resume}"))),
    }
}
