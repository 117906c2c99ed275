//! The conformance sequences of IPv6 hosts, which are not part of the project: `cargo xtask tahi`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::args::Args;
use crate::checks::{PATIENCE, skipped};
use crate::report::Row;
use crate::run;
use crate::suites::SEQUENCES;
use crate::tally::Tally;

/// Lists the sequences that fail because of what later RFCs say, each with its reason.
const EXCUSED: &str = include_str!("../../docs/evidence/CONFORMANCE.md");
/// The section of it that does.
const SECTION: &str = "## The IPv6 host: TAHI";
/// The hosts that they are played to have so many CPUs.
const CPUS: [&str; 2] = ["1", "8"];

/// Output of the player with `--json`.
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
    let path = args.word().map(PathBuf::from).or_else(|| SEQUENCES.path());
    args.finish()?;
    let path = path.with_context(|| {
        format!("say where the sequences are: cargo xtask tahi PATH, or {}", SEQUENCES.variable)
    })?;
    let status = player(&path)?.args(options).status().context("tahi")?;
    Ok(status.success())
}

/// The sequences with an excuse fail, and all others pass.
pub fn check() -> Result<Vec<Row>> {
    let Some(path) = SEQUENCES.path() else {
        return Ok(vec![skipped("tahi", &SEQUENCES.missing())]);
    };
    CPUS.iter().map(|cpus| played(&path, cpus)).collect()
}

fn played(path: &Path, cpus: &str) -> Result<Row> {
    let begun = std::time::Instant::now();
    let mut player = player(path)?;
    // A failed sequence is a failed command; which may fail is decided here.
    player.args(["--json", "--cpus", cpus]).stderr(Stdio::inherit());
    let output = player.output().context("tahi")?;
    let played: Played = serde_json::from_slice(&output.stdout).context("what the player says")?;
    let verdict = judge(&excused(EXCUSED), &played);
    verdict.complaints.iter().for_each(|complaint| eprintln!("  {complaint}"));
    let note = if verdict.excused == 0 {
        ""
    } else {
        "skipped: fail with an excuse in docs/evidence/CONFORMANCE.md"
    };
    // One that passes in spite of its excuse is among those that the player has counted as passed.
    let passed = played.passed - verdict.unexpected;
    let tally = Tally { passed, failed: verdict.complaints.len(), skipped: verdict.excused };
    Ok(Row { check: format!("tahi, {cpus} CPUs"), tally, elapsed: begun.elapsed(), note: note.into() })
}

/// The outcome, held against the excuses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    /// Sequences that failed with an excuse.
    excused: usize,
    /// Sequences that passed with an excuse.
    unexpected: usize,
    /// A line for each sequence that failed without an excuse or passed with one.
    complaints: Vec<String>,
}

fn judge(excused: &[&str], played: &Played) -> Verdict {
    let mut verdict = Verdict::default();
    for Failure { id, step, expected, came } in &played.failures {
        if excused.contains(&&**id) {
            verdict.excused += 1;
        } else {
            verdict.complaints.push(format!("{id} step {step}: expected {expected}; came {came}"));
        }
    }
    let failed = |id: &str| played.failures.iter().any(|failure| failure.id == id);
    for id in excused.iter().filter(|id| !failed(id)) {
        verdict.unexpected += 1;
        verdict.complaints.push(format!("{id} passes: strike its excuse from docs/evidence/CONFORMANCE.md"));
    }
    verdict
}

/// The names in the first column of the section's table.
fn excused(document: &str) -> Vec<&str> {
    let section = document.split_once(SECTION).map_or("", |(_, section)| section);
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(id, _)| id).collect()
}

fn player(path: &Path) -> Result<Command> {
    let file = if path.is_dir() { only_file(path)? } else { path.to_owned() };
    let mut command = Command::new(run::program_of_tests("tahi", PATIENCE)?);
    command.arg(std::path::absolute(file)?).current_dir(run::root());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn played(passed: usize, failed: &[&str]) -> Played {
        let failure = |id: &&str| Failure {
            id: (*id).to_owned(),
            step: 3,
            expected: "an answer".into(),
            came: "nothing".into(),
        };
        Played { passed, failures: failed.iter().map(failure).collect() }
    }

    #[test]
    fn three_sequences_have_an_excuse() {
        assert_eq!(excused(EXCUSED), ["02_151", "04_005", "04_009"]);
    }

    #[test]
    fn a_sequence_that_fails_without_an_excuse_or_passes_with_one_is_a_failure() {
        let excused = ["a", "b"];
        let verdict = judge(&excused, &played(5, &["a", "b"]));
        assert_eq!(verdict, Verdict { excused: 2, unexpected: 0, complaints: vec![] });

        let verdict = judge(&excused, &played(4, &["a", "b", "c"]));
        assert_eq!((verdict.excused, verdict.unexpected), (2, 0));
        assert_eq!(verdict.complaints, ["c step 3: expected an answer; came nothing"]);

        let verdict = judge(&excused, &played(6, &["a"]));
        assert_eq!((verdict.excused, verdict.unexpected, verdict.complaints.len()), (1, 1, 1));
        assert!(verdict.complaints[0].starts_with("b passes"));
    }
}
