//! Checks that must pass before a change lands; each is a function that returns rows of the table.

use core::num::NonZero;
use core::time::Duration;
use std::process::Command;
use std::thread;

use anyhow::Result;

use crate::args::Args;
use crate::report::{Report, Row};
use crate::run::{self, cargo, follow};
use crate::tally::Tally;
use crate::{icount, lint, setup, suites, tahi};

/// A check: its name, and how it is run.
type Check = (&'static str, fn() -> Result<Vec<Row>>);

/// In order of how soon they find something.
const CHECKS: &[Check] = &[
    ("fmt", run_fmt),
    ("clippy", run_clippy),
    ("docs", run_docs),
    ("tests", run_tests),
    ("worlds", run_worlds_in_test),
    ("tahi", tahi::check),
    ("miri", run_miri_in_test),
    ("icount", icount::check),
    ("loom", run_loom),
    ("model", run_model_in_test),
];

/// Checks of a lane run one after the other, in a target directory of their own, and [give way](give_way) to the checks in
/// no lane: tests that wait for hosts leave them the processors.
const LANES: [&[&str]; 2] = [&["clippy", "docs", "icount"], &["miri", "loom", "model"]];

/// Niceness of a lane.
const NICE: i32 = 10;

/// Worlds that seeds think up, in `cargo xtask test`.
const WORLDS_IN_TEST: u64 = 300;
/// Worlds in `cargo xtask worlds`.
const WORLDS: u64 = 2000;
/// Orders that `cargo xtask model` tries for each kind of publication, and `cargo xtask test`.
const ORDERS: u64 = 2000;
const ORDERS_IN_TEST: u64 = 40;
/// Segments that `cargo xtask meddle` has changed.
const MEDDLED: u64 = 1_000_000;
/// For so many of the worlds that seeds think up, one of each kind that a test describes.
const PER_KIND: u64 = 20;
/// Seeds for each kind in `cargo xtask test`, at the least.
const SEEDS_IN_TEST: u64 = 4;
/// The variable that says how many tests a test program runs at once; and that number, for each processor: most of the time of
/// those that start daemons goes by in waits. Tests between hosts have a bound of their own.
const AT_ONCE: &str = "RUST_TEST_THREADS";
const PER_CPU: usize = 3;
/// The variable that tells tests the number of seeds.
const SEEDS: &str = "PANTALA_WORLDS";

const MINUTE: Duration = Duration::from_secs(60);
/// Time limit of a check in a lane, which waits for the processors, and may have everything to build.
pub const PATIENCE: Duration = Duration::from_secs(40 * 60);

/// `cargo xtask test`
pub fn test(args: &mut Args) -> Result<bool> {
    let wanted = args.words(|word| CHECKS.iter().any(|(check, _)| *check == word));
    args.finish()?;
    setup::packages()?;
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    let alone = !is_wanted("tests");
    // Clippy and rustdoc look at what is built for the tests, and the worlds that tests describe are among these.
    let checks = CHECKS.iter().filter(|(name, _)| is_wanted(name) && (alone || *name != "docs"));
    let checks = checks.map(|(name, check)| match (*name, alone) {
        ("clippy", false) => ("clippy", run_clippy_of_library as fn() -> _),
        ("worlds", true) => ("worlds", run_worlds_in_test_alone as fn() -> _),
        _ => (*name, *check),
    });
    table(&checks.collect::<Vec<_>>())
}

/// `cargo xtask worlds`
pub fn worlds(args: &mut Args) -> Result<bool> {
    let seed = args.number("--seed")?.unwrap_or(1);
    let count = args.words(|word| word.parse::<u64>().is_ok());
    args.finish()?;
    let count = count.first().and_then(|word| word.parse().ok()).unwrap_or(WORLDS);
    one("worlds", || run_worlds(count, seed))
}

/// `cargo xtask meddle`
pub fn meddle(args: &mut Args) -> Result<bool> {
    let seed = args.number("--seed")?.unwrap_or(1);
    let segments = args.words(|word| word.parse::<u64>().is_ok());
    args.finish()?;
    let segments = segments.first().and_then(|word| word.parse().ok()).unwrap_or(MEDDLED);
    one("meddle", || {
        let mut command = cargo(["run", "--profile", "worlds", "--package", "sim", "--bin", "worlds", "--"]);
        command.args(["--meddle".into(), segments.to_string(), seed.to_string()]);
        yes_or_no("meddle", command, 20 * MINUTE)
    })
}

/// `cargo xtask loom`
pub fn loom(args: &mut Args) -> Result<bool> {
    args.finish()?;
    one("loom", run_loom)
}

/// `cargo xtask model`
pub fn model(args: &mut Args) -> Result<bool> {
    let seed = args.number("--seed")?.unwrap_or(1);
    let orders = args.words(|word| word.parse::<u64>().is_ok());
    args.finish()?;
    let orders = orders.first().and_then(|word| word.parse().ok()).unwrap_or(ORDERS);
    one("model", || run_model(orders, seed))
}

/// `cargo xtask miri`
pub fn miri(args: &mut Args) -> Result<bool> {
    args.finish()?;
    one("miri", run_miri)
}

/// `cargo xtask e2e`
pub fn e2e(args: &mut Args) -> Result<bool> {
    let filter = args.word();
    args.finish()?;
    setup::packages()?;
    one("e2e", || {
        let mut command = cargo(["test", "--package", "pantala", "--test", "e2e", "--"]);
        command.args(&filter);
        command_of_tests("e2e", command, 15 * MINUTE)
    })
}

/// `cargo xtask arrows`
pub fn arrows(args: &mut Args) -> Result<bool> {
    args.finish()?;
    one("arrows", || {
        command_of_tests("arrows", cargo(["test", "--package", "xtask", "--test", "house"]), 5 * MINUTE)
    })
}

/// One check alone, and its table.
pub fn one(name: &'static str, check: impl Fn() -> Result<Vec<Row>>) -> Result<bool> {
    println!("\n{name}");
    let mut report = Report::default();
    check()?.into_iter().for_each(|row| report.add(row));
    report.print();
    Ok(report.total().failed == 0)
}

/// Runs checks, whatever becomes of each: first each [lane](LANES) begins, on a thread of its own, then those that are in no
/// lane, one after the other. Prints the table.
fn table(checks: &[Check]) -> Result<bool> {
    let mut report = Report::default();
    let lanes: Vec<_> = LANES.into_iter().filter_map(|lane| begin(lane, checks)).collect();
    for (name, check) in checks.iter().filter(|(name, _)| !LANES.iter().any(|lane| lane.contains(name))) {
        println!("\n{name}");
        rows_of(name, *check).into_iter().for_each(|row| report.add(row));
    }
    for lane in lanes {
        let rows = lane.join().unwrap_or_else(|_| vec![failed("beside", "it panicked")]);
        rows.into_iter().for_each(|row| report.add(row));
    }
    report.print();
    Ok(report.total().failed == 0)
}

/// Begins those of a lane that are wanted, if any is.
fn begin(lane: &[&str], checks: &[Check]) -> Option<thread::JoinHandle<Vec<Row>>> {
    let find = |name: &&str| checks.iter().find(|(other, _)| other == name).copied();
    let own: Vec<Check> = lane.iter().filter_map(find).collect();
    if own.is_empty() {
        return None;
    }
    println!("\n{}: beside the others", own.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "));
    Some(thread::spawn(|| {
        give_way();
        own.into_iter().flat_map(|(name, check)| rows_of(name, check)).collect()
    }))
}

/// Lowers the priority of this thread and its children. It need not succeed: the checks are the same, only later.
fn give_way() {
    let _ = rustix::process::nice(NICE);
}

fn rows_of(name: &str, check: fn() -> Result<Vec<Row>>) -> Vec<Row> {
    check().unwrap_or_else(|error| vec![failed(name, &format!("{error:#}"))])
}

fn run_fmt() -> Result<Vec<Row>> {
    yes_or_no("fmt", cargo(["fmt", "--all", "--check"]), MINUTE)
}

fn run_clippy() -> Result<Vec<Row>> {
    let mut command = cargo(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
    command.env("CARGO_TARGET_DIR", run::root().join("target/lint"));
    let mut rows = yes_or_no("clippy", command, PATIENCE)?;
    rows.extend(run_clippy_of_library()?);
    Ok(rows)
}

/// The library as a program embeds it, and its examples.
fn run_clippy_of_library() -> Result<Vec<Row>> {
    let mut command =
        cargo(["clippy", "--package", "pantala", "--no-default-features", "--lib", "--examples"]);
    command.args(["--quiet", "--", "-D", "warnings"]);
    command.env("CARGO_TARGET_DIR", run::root().join("target/lint"));
    yes_or_no("clippy of the library alone", command, PATIENCE)
}

/// Test programs with a row of their own: those against real hosts, and those with described worlds.
const APART: [&str; 2] = ["e2e", "worlds"];

/// All tests of the workspace, with [so many](SEEDS_IN_TEST) seeds for each kind of world, and with the scripts of others. Clippy and
/// rustdoc look at what is built.
fn run_tests() -> Result<Vec<Row>> {
    let built = follow("build", lint::cargo(["test", "--workspace", "--no-run"])?, PATIENCE)?;
    let mut command = lint::cargo(["test", "--workspace", "--no-fail-fast"])?;
    command.env(SEEDS, SEEDS_IN_TEST.to_string());
    suites::SCRIPTS.name_to(&mut command);
    if std::env::var_os(AT_ONCE).is_none() {
        let cpus = thread::available_parallelism().map_or(1, NonZero::get);
        command.env(AT_ONCE, (PER_CPU * cpus).to_string());
    }
    let done = follow("tests", command, PATIENCE)?;
    let mut rows = vec![row("tests", &done, done.tests.tally(|binary| !APART.contains(&binary)))];
    for name in APART {
        let tally = done.tests.tally(|binary| binary == name);
        if tally != Tally::default() {
            rows.push(Row { note: "in the run of `tests`".into(), ..plain(name, tally) });
        }
    }
    // Not one failed test, and still a failure: something did not even compile, or was killed.
    let counted = rows.iter().map(|row| row.tally.failed).sum::<usize>();
    if !done.status.success() && counted == 0 {
        rows[0].tally += Tally::FAILED;
    }
    explain(&rows, &done);
    rows.insert(0, lint::row(&built));
    Ok(rows)
}

fn run_docs() -> Result<Vec<Row>> {
    let mut command = cargo(["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"]);
    // For developers: modules link to private items.
    command.env("CARGO_TARGET_DIR", run::root().join("target/lint"));
    command.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links");
    yes_or_no("docs", command, PATIENCE)
}

/// The worlds of `sim`, optimised, with more seeds than the tests have patience for: those that seeds think up, and those
/// that tests describe.
fn run_worlds(count: u64, seed: u64) -> Result<Vec<Row>> {
    let limit = 10 * MINUTE + Duration::from_millis(200) * u32::try_from(count).unwrap_or(u32::MAX);
    let mut random = cargo(["run", "--profile", "worlds", "--package", "sim", "--bin", "worlds", "--"]);
    random.args([count.to_string(), "--from".into(), seed.to_string()]);
    let mut described = cargo(["test", "--profile", "worlds", "--package", "sim", "--test", "*"]);
    let each = count.div_ceil(PER_KIND);
    described.env(SEEDS, each.to_string()).env("PANTALA_SEED", seed.to_string());
    let mut rows = yes_or_no("worlds at random", random, limit)?;
    rows.extend(command_of_tests("worlds", described, limit)?);
    Ok(rows)
}

/// Random worlds, as the tests are built: building them optimised would take longer.
fn run_worlds_in_test() -> Result<Vec<Row>> {
    let mut random = Command::new(run::program_of_tests("worlds", PATIENCE)?);
    random.arg(WORLDS_IN_TEST.to_string()).current_dir(run::root());
    yes_or_no("worlds at random", random, 20 * MINUTE)
}

/// Random worlds, and the described ones that [`run_tests`] includes.
fn run_worlds_in_test_alone() -> Result<Vec<Row>> {
    let mut rows = run_worlds_in_test()?;
    let mut described = cargo(["test", "--package", "sim", "--test", "*"]);
    described.env(SEEDS, SEEDS_IN_TEST.to_string());
    rows.extend(command_of_tests("worlds", described, 20 * MINUTE)?);
    Ok(rows)
}

fn run_loom() -> Result<Vec<Row>> {
    // Of the whole workspace, so that libraries have the features with which they are built for the other tests.
    let command = lint::cargo(["test", "--workspace", "--features", "pkt/loom", "--test", "loom"])?;
    command_of_tests("loom", command, PATIENCE)
}

fn run_model_in_test() -> Result<Vec<Row>> {
    run_model(ORDERS_IN_TEST, 1)
}

/// Publications of a control thread while netisrs turn, in so many orders of their steps, by [shuttle](https://docs.rs/shuttle).
fn run_model(orders: u64, seed: u64) -> Result<Vec<Row>> {
    let mut command =
        lint::cargo(["test", "--workspace", "--features", "sim/model", "--test", "interleavings"])?;
    // Built for this alone: so that is what takes its time.
    for package in ["net", "sim"] {
        command.arg("--config").arg(format!("profile.dev.package.{package}.opt-level=0"));
    }
    command.env("PANTALA_MODEL", orders.to_string()).env("PANTALA_SEED", seed.to_string());
    command_of_tests(
        "model",
        command,
        PATIENCE + Duration::from_millis(500) * u32::try_from(orders).unwrap_or(u32::MAX),
    )
}

/// Tests that run in miri: name, package, filter and features, and the memory model.
type InMiri = (&'static str, [&'static str; 3], &'static str);

/// All memory that threads share, and all memory of packets.
const PKT_IN_MIRI: InMiri = ("miri", ["pkt", "", ""], "");

/// The sockets need neither command line nor API, and those are most of what is to be built. They have no `unsafe` of their own.
/// In the tables that the stack of the faces looks into, each reference to a million words is looked at word by word, unless that is
/// left out.
const SOCKETS_IN_MIRI: InMiri = (
    "miri of sockets",
    ["pantala", "sockets::tests", "hyper"],
    "-Zmiri-tree-borrows -Zmiri-tree-borrows-no-precise-interior-mut",
);

/// As much of it as there is time for: that of sockets takes as long as all else in its lane.
fn run_miri_in_test() -> Result<Vec<Row>> {
    run_miri_of(&[PKT_IN_MIRI])
}

fn run_miri() -> Result<Vec<Row>> {
    run_miri_of(&[PKT_IN_MIRI, SOCKETS_IN_MIRI])
}

fn run_miri_of(tests: &[InMiri]) -> Result<Vec<Row>> {
    if let Err(why) = setup::miri() {
        return Ok(vec![skipped("miri", why)]);
    }
    let each = tests.iter().map(|(name, [package, tests, features], flags)| {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly", "cargo", "miri", "test", "--package", package, "--lib", tests]);
        command.args(["--no-default-features", "--features", features]);
        command
            .current_dir(run::root())
            .env_remove("RUSTUP_TOOLCHAIN")
            .env_remove("CARGO")
            .env_remove("RUSTC");
        // Handles that tests drop on purpose are leaks on purpose.
        command.env("MIRIFLAGS", format!("-Zmiri-disable-isolation -Zmiri-ignore-leaks {flags}"));
        command.env("CARGO_TARGET_DIR", run::root().join("target/miri"));
        command_of_tests(name, command, PATIENCE)
    });
    Ok(each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// A command that is one test by itself.
pub fn yes_or_no(name: &str, command: Command, limit: Duration) -> Result<Vec<Row>> {
    let done = follow(name, command, limit)?;
    let tally = if done.status.success() && !done.timed_out { Tally::PASSED } else { Tally::FAILED };
    let rows = vec![row(name, &done, tally)];
    explain(&rows, &done);
    Ok(rows)
}

/// A command that runs tests.
fn command_of_tests(name: &str, command: Command, limit: Duration) -> Result<Vec<Row>> {
    let done = follow(name, command, limit)?;
    let mut tally = done.tests.tally(|_| true);
    if (!done.status.success() || done.timed_out) && tally.failed == 0 {
        tally += Tally::FAILED;
    }
    let rows = vec![row(name, &done, tally)];
    explain(&rows, &done);
    Ok(rows)
}

/// Shows what matters of the log if anything failed.
fn explain(rows: &[Row], done: &run::Finished) {
    if rows.iter().any(|row| row.tally.failed > 0) {
        eprintln!("{}\n  all of it: {}", run::gist(&done.log), done.log.display());
    }
}

fn row(name: &str, done: &run::Finished, tally: Tally) -> Row {
    let note = if done.timed_out { "stopped: took too long" } else { "" };
    Row { check: name.into(), tally, elapsed: done.elapsed, note: note.into() }
}

fn plain(name: &str, tally: Tally) -> Row {
    Row { check: name.into(), tally, elapsed: Duration::ZERO, note: String::new() }
}

fn failed(name: &str, why: &str) -> Row {
    eprintln!("  FAILED: {name}: {why}");
    Row { note: why.into(), ..plain(name, Tally::FAILED) }
}

/// Something is missing: said loudly, and never counted as passed.
pub fn skipped(name: &str, why: &str) -> Row {
    eprintln!("  SKIPPED: {name}: {why}");
    Row { note: why.into(), ..plain(name, Tally::SKIPPED) }
}
