//! The conformance sequences of IPv6 hosts, which are not part of the project: `cargo xtask tahi`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::args::Args;
use crate::checks::skipped;
use crate::report::Row;
use crate::run::cargo;
use crate::tally::Tally;

/// Where the sequences are, if nobody says.
const PATH: &str = "PANTALA_TAHI";
/// Those that fail because of what later RFCs say, each with its reason.
const EXCUSED: &str = include_str!("../../docs/CONFORMANCE.md");
/// The hosts that they are played to have so many CPUs.
const CPUS: [&str; 2] = ["1", "8"];

/// What the player says with `--json`.
#[derive(Deserialize)]
struct Played {
    passed: usize,
    failures: Vec<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    id: String,
    step: usize,
    expected: String,
    came: String,
}

/// `cargo xtask tahi`
pub fn command(args: &mut Args) -> Result<bool> {
    let mut options = Vec::new();
    for name in ["--cpus", "--seed", "--only"] {
        if let Some(value) = args.text(name)? {
            options.extend([name.to_owned(), value]);
        }
    }
    options.extend(args.flag("--json").then(|| "--json".to_owned()));
    let path = args.word().map(PathBuf::from).or_else(from_environment);
    args.finish()?;
    let path =
        path.with_context(|| format!("say where the sequences are: cargo xtask tahi PATH, or {PATH}"))?;
    let status = player(&path)?.args(options).status().context("cargo run")?;
    Ok(status.success())
}

/// What must hold: only sequences with an excuse fail.
pub fn check() -> Result<Vec<Row>> {
    let Some(path) = from_environment() else {
        return Ok(vec![skipped("tahi", &format!("{PATH} does not say where the sequences are"))]);
    };
    CPUS.iter().map(|cpus| played(&path, cpus)).collect()
}

fn played(path: &Path, cpus: &str) -> Result<Row> {
    let begun = std::time::Instant::now();
    let mut player = player(path)?;
    // A failed sequence is a failed command; which may fail is decided here.
    player.args(["--json", "--cpus", cpus]).stderr(Stdio::inherit());
    let output = player.output().context("cargo run")?;
    let played: Played = serde_json::from_slice(&output.stdout).context("what the player says")?;
    let (excused, wrong): (Vec<_>, Vec<_>) =
        played.failures.iter().partition(|failure| is_excused(&failure.id));
    for Failure { id, step, expected, came } in &wrong {
        eprintln!("  {id} step {step}: expected {expected}; came {came}");
    }
    let tally = Tally { passed: played.passed, failed: wrong.len(), skipped: excused.len() };
    let note = if excused.is_empty() { "" } else { "skipped: fail with an excuse in docs/CONFORMANCE.md" };
    Ok(Row { check: format!("tahi, {cpus} CPUs"), tally, elapsed: begun.elapsed(), note: note.into() })
}

fn is_excused(id: &str) -> bool {
    EXCUSED.lines().any(|line| line.starts_with(&format!("| `{id}` |")))
}

fn from_environment() -> Option<PathBuf> {
    std::env::var_os(PATH).map(PathBuf::from)
}

fn player(path: &Path) -> Result<std::process::Command> {
    let file = if path.is_dir() { only_file(path)? } else { path.to_owned() };
    let mut command = cargo(["run", "--quiet", "--package", "sim", "--bin", "tahi", "--"]);
    command.arg(std::path::absolute(file)?);
    Ok(command)
}

/// The sequences of a folder are in one file.
fn only_file(folder: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let is_ours = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "jsonl");
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_ours).collect();
    files.sort();
    ensure!(files.len() == 1, "{}: one *.jsonl is wanted, there are {}", folder.display(), files.len());
    Ok(files.remove(0))
}
