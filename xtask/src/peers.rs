//! Pantala beside the programs that a user would pick instead: in one run, on one machine, taking turns.
//!
//! A [`contest`] is one piece of work that several programs do. They are launched one after the other, round by round,
//! so that a slow minute of the machine meets them all; what counts is the ratio within a round. `schedule` runs
//! them, `stats` judges, `table` and `document` tell. The contests themselves are in `topics`.

mod canary;
mod contest;
mod document;
mod dpdk;
mod machine;
pub mod process;
mod schedule;
mod stats;
mod table;
mod topics;
mod workload;

use core::time::Duration;

use anyhow::{Result, ensure};

use crate::args::Args;
use contest::Contest;
use schedule::Plan;
use table::Outcome;

/// Launches of each program, so that quartiles mean something.
const ROUNDS: u64 = 20;
/// Length of one measurement.
const WINDOW: Duration = Duration::from_millis(300);
/// A run that only shows that everything works.
const QUICK: Plan = Plan { rounds: 2, window: Duration::from_millis(40) };

/// `cargo xtask peers`
pub fn command(args: &mut Args) -> Result<bool> {
    hold(args, topics::contests(), topics::install)
}

/// `cargo xtask shortconn`
pub fn shortconn(args: &mut Args) -> Result<bool> {
    let all = [topics::short::contests(), topics::served::contests()];
    hold(args, all.into_iter().flatten().collect(), || Ok(()))
}

/// Holds those of the contests that are asked for, when `install` has brought what they need.
fn hold(args: &mut Args, all: Vec<Contest>, install: fn() -> Result<()>) -> Result<bool> {
    let (list, json) = (args.flag("--list"), args.flag("--json"));
    let (quick, write) = (args.flag("--quick"), args.flag("--write"));
    let rounds = args.number("--rounds")?;
    let only = args.text("--only")?.unwrap_or_default();
    args.finish()?;
    ensure!(!(quick && write), "--quick makes no numbers worth writing down");
    let contests = chosen(all, &only)?;
    if list {
        contests.iter().for_each(|contest| println!("{:24} {}", contest.id, contest.title));
        return Ok(true);
    }
    let plan = if quick {
        QUICK
    } else {
        Plan { rounds: usize::try_from(rounds.unwrap_or(ROUNDS))?, window: WINDOW }
    };
    process::watch_for_interrupts()?;
    install()?;
    let outcomes = run(contests, plan)?;
    tell(&outcomes, json)?;
    if write {
        document::write(&outcomes)?;
    }
    Ok(!outcomes.iter().any(Outcome::has_failed))
}

/// The contests whose names begin with, or contain, one of the words between commas.
fn chosen(all: Vec<Contest>, only: &str) -> Result<Vec<Contest>> {
    let known: Vec<&str> = all.iter().map(|contest| contest.id).collect();
    let unknown = format!("--only {only}: no such contest among {}", known.join(" "));
    let is_wanted = |id: &str| only.is_empty() || only.split(',').any(|word| id.contains(word));
    let contests: Vec<Contest> = all.into_iter().filter(|contest| is_wanted(contest.id)).collect();
    ensure!(!contests.is_empty(), unknown);
    Ok(contests)
}

fn run(contests: Vec<Contest>, plan: Plan) -> Result<Vec<Outcome>> {
    let calibration = canary::Calibration::load();
    let mut outcomes = Vec::new();
    for contest in contests {
        outcomes.push(schedule::run(contest, plan, &calibration)?);
    }
    Ok(outcomes)
}

fn tell(outcomes: &[Outcome], json: bool) -> Result<()> {
    let report = document::Report::new(outcomes);
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", table::text(outcomes));
    }
    document::keep(&report)
}
