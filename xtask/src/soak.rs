//! `cargo xtask soak`: everything at once for a long while, and the accounts at its end.
//!
//! A router with devices of every kind stands between Linux hosts in network namespaces. It forwards, translates, keeps
//! states, serves files, relays and echoes, while rules, routes, rings and the configuration change under it, a link flaps
//! and connections are dropped. At the end the load stops, and memory, descriptors, threads, packet buffers, connections,
//! states and bindings must be back where they were, and each packet accounted for.
//!
//! `cargo xtask storm` is the same under changes that a seed chooses, without a pause.

mod agent;
mod chores;
mod lab;
mod ledger;
mod loads;
mod random;
mod sample;
mod storm;
mod verdict;

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::args::Args;
use crate::peers::process::{go_on, pause, watch_for_interrupts};
use crate::run::{cargo, follow, gist, has};
use crate::setup;

use self::chores::{Changes, Chores};
use self::lab::Lab;
use self::sample::{Sample, Series};
use self::storm::Storm;

const BUILD_LIMIT: Duration = Duration::from_secs(1800);
const MINUTES: u64 = 60;
const STORM_MINUTES: u64 = 5;
/// Between two samples.
const STEP: Duration = Duration::from_secs(5);
/// Samples between two lines of progress.
const TOLD_EVERY: usize = 6;
/// The longest that a state or a binding of a flow that ended properly may live on, and some more.
const SETTLE_LIMIT: Duration = Duration::from_secs(420);
/// Programs that the network is made with.
const NEEDED: [&str; 4] = ["ip", "setpriv", "nice", "sysctl"];

pub fn command(args: &mut Args) -> Result<bool> {
    if let Some(role) = args.text("--agent")? {
        return agent::run(&role, args);
    }
    run("soak", MINUTES, args, &Chores::default())
}

/// `cargo xtask storm`.
pub fn storm(args: &mut Args) -> Result<bool> {
    let seed = args.number("--seed")?.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("storm: --seed {seed}");
    run("storm", STORM_MINUTES, args, &Storm::new(seed))
}

fn run(name: &'static str, minutes: u64, args: &mut Args, changes: &dyn Changes) -> Result<bool> {
    let minutes = args.number("--minutes")?.unwrap_or(minutes);
    let (json, release, is_built) = (args.flag("--json"), args.flag("--release"), args.flag("--no-build"));
    args.finish()?;
    ensure!(setup::is_root(), "needs root");
    if let Some(program) = NEEDED.into_iter().find(|program| !has(program)) {
        anyhow::bail!("needs the program `{program}`");
    }
    if !is_built {
        build(release)?;
    }
    watch_for_interrupts()?;
    let report = soak(name, changes, Duration::from_secs(minutes * 60), release)?;
    let text = if json { serde_json::to_string_pretty(&report)? + "\n" } else { report.to_string() };
    std::io::stdout().lock().write_all(text.as_bytes()).context("cannot write the report")?;
    Ok(report.passed())
}

fn build(release: bool) -> Result<()> {
    for what in [&["--bin", "pantala"], &["--example", "memif_threads"]] {
        let mut command = cargo(["build", "--package", "pantala"]);
        command.args(what).args(release.then_some("--release"));
        let done = follow("soak-build", command, BUILD_LIMIT)?;
        ensure!(done.status.success(), "pantala does not build:\n{}", gist(&done.log));
    }
    Ok(())
}

/// Builds the network, loads it for `lasts`, and judges what is left. Ctrl-C ends the load early.
fn soak(
    name: &'static str,
    changes: &dyn Changes,
    lasts: Duration,
    release: bool,
) -> Result<verdict::Report> {
    let mut lab = Lab::start(release)?;
    let before = at_rest(&lab).context("before the load")?;
    lab.begin_load()?;
    let mut series = Series::new(before);
    let ended = under_load(&mut lab, changes, &mut series, lasts);
    let loads = lab.end_load();
    ended?;
    if go_on().is_ok() {
        settle(&lab, &mut series)?;
    }
    let is_whole = go_on().is_ok();
    Ok(verdict::judge(name, &series, &loads, &changes.done(), lasts, is_whole))
}

/// Waits until routes come no more: addresses are in use behind the detection of duplicates.
fn at_rest(lab: &Lab) -> Result<Sample> {
    let mut last = Sample::take(lab, Duration::ZERO)?;
    loop {
        pause(STEP)?;
        let sample = Sample::take(lab, Duration::ZERO)?;
        if sample.routes == last.routes {
            return Ok(sample);
        }
        last = sample;
    }
}

/// Makes changes beside the load, and takes samples.
fn under_load(lab: &mut Lab, changes: &dyn Changes, series: &mut Series, lasts: Duration) -> Result<()> {
    let begun = Instant::now();
    let enough = AtomicBool::new(false);
    let tools = lab.tools();
    std::thread::scope(|scope| {
        scope.spawn(|| changes.work(&tools, &enough));
        let watched = watch(lab, series, begun, lasts);
        enough.store(true, Ordering::Relaxed);
        watched
    })
}

fn watch(lab: &mut Lab, series: &mut Series, begun: Instant, lasts: Duration) -> Result<()> {
    while begun.elapsed() < lasts {
        if pause(STEP.min(lasts.saturating_sub(begun.elapsed()))).is_err() {
            eprintln!("soak: interrupted; what was measured so far is shown");
            return Ok(());
        }
        lab.is_alive()?;
        series.push(Sample::take(lab, begun.elapsed())?);
        if series.len().is_multiple_of(TOLD_EVERY) {
            tell(series, begun.elapsed(), lasts);
        }
    }
    Ok(())
}

fn tell(series: &Series, done: Duration, lasts: Duration) {
    let (minutes, left) = (clock(done), clock(lasts.saturating_sub(done)));
    eprintln!("soak: {minutes} of {}, {left} left; {}", clock(lasts), series.last());
}

fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

/// Waits until nothing of the load is left, or for as long as a state may live.
fn settle(lab: &Lab, series: &mut Series) -> Result<()> {
    let (begun, from) = (Instant::now(), series.last().at);
    let mut samples = 0_usize;
    while pause(STEP).is_ok() {
        let sample = Sample::take(lab, from + begun.elapsed())?;
        let is_over = sample.is_at_rest(series.before()) || begun.elapsed() > SETTLE_LIMIT;
        if is_over || samples.is_multiple_of(TOLD_EVERY) {
            eprintln!("soak: settling for {}; {sample}", clock(begun.elapsed()));
        }
        samples += 1;
        series.settled = Some(sample);
        if is_over {
            break;
        }
    }
    Ok(())
}
