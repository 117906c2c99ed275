//! `cargo xtask features --prove`: the test of each feature fails when the feature is broken.
//!
//! `FAULTS.toml` has a planted fault for each feature, and for each defect that was found and mended. The sources are copied to `target/prove/tree`, with all faults in
//! them, each behind a switch; so one build serves all. Each test then runs twice: without a fault it must pass, with its own
//! it must not. What came of it is written to `docs/evidence/FAULTS.md` after each row, so a run goes on where another one ended.

mod plant;
mod tests_of;
mod table;

use core::time::Duration;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::args::Args;
use crate::run::{self, follow, root};
use table::{Outcome, Table};
use tests_of::Binary;

/// Names the test whose fault is switched on.
const SWITCH: &str = "PANTALA_FAULT";
/// A test takes no longer.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// With its fault, so many times as long as without it, and a minute, are enough: a test that takes longer waits for what does
/// not happen any more, and has noticed it.
const SLOWER: u32 = 4;

/// A planted fault.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The defect of `docs/evidence/ATTACKS.md` that it brings back; none if it breaks a feature.
    #[serde(default)]
    pub defect: Option<u8>,
    /// The test of the feature, or of the defect.
    pub test: String,
    /// The effect of the fault, in a few words.
    pub breaks: String,
    /// The file that it stands in.
    pub file: PathBuf,
    /// An expression, which is there once.
    pub find: String,
    /// An expression of the same type.
    pub replace: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Faults {
    fault: Vec<Fault>,
}

/// Proves the features whose rows are not there yet; with `--only NAME` those whose test, program (`net --lib`, `sim
/// worlds`) or file has that in its name, again.
pub fn command(args: &mut Args) -> Result<bool> {
    let only = args.text("--only")?;
    args.finish()?;
    let mut table = Table::load()?;
    let faults = load()?;
    table.keep(&faults);
    table.save()?;
    let is_wanted = |binary: &Binary, fault: &Fault| match &only {
        Some(word) => {
            let names = [fault.test.clone(), fault.file.display().to_string(), binary.to_string()];
            names.iter().any(|name| name.contains(word))
        }
        None => !table.has(fault),
    };
    let mut binaries = tests_of::by_binary(&faults)?;
    binaries.iter_mut().for_each(|(binary, faults)| faults.retain(|fault| is_wanted(binary, fault)));
    binaries.retain(|_, faults| !faults.is_empty());
    let count: usize = binaries.values().map(Vec::len).sum();
    println!("{count} of {} faults are to be proved", faults.len());
    let tree = plant::tree(&faults)?;
    let commit = commit()?;
    let mut is_well = true;
    for (binary, faults) in binaries {
        let program = match binary.build(&tree) {
            Ok(program) => program,
            Err(error) => {
                eprintln!("  FAILED: {binary}: {error:#}");
                is_well = false;
                continue;
            }
        };
        for fault in faults {
            let outcome = prove(&program, &tree.join(binary.package()), &fault)?;
            println!("  {}: {}", fault.test, outcome.words());
            is_well &= outcome == Outcome::Noticed;
            table.set(&fault, outcome, &commit);
            table.save()?;
        }
    }
    Ok(is_well)
}

/// All faults.
pub fn load() -> Result<Vec<Fault>> {
    let text = std::fs::read_to_string(root().join("FAULTS.toml"))?;
    Ok(toml::from_str::<Faults>(&text).context("FAULTS.toml")?.fault)
}

/// Runs a test without a fault and with its own.
fn prove(program: &PathBuf, folder: &PathBuf, fault: &Fault) -> Result<Outcome> {
    let run = |switch: &str, limit| {
        let mut command = Command::new(program);
        command.arg(&fault.test).current_dir(folder).env(SWITCH, switch);
        follow("prove", command, limit)
    };
    let sound = run("", PATIENCE)?;
    let tally = sound.tests.tally(|_| true);
    if sound.timed_out || !sound.status.success() {
        return Ok(Outcome::FailsAnyway);
    }
    if tally.passed == 0 {
        return Ok(Outcome::Skipped);
    }
    let broken = run(&fault.test, sound.elapsed * SLOWER + Duration::from_secs(60))?;
    Ok(if broken.timed_out || !broken.status.success() { Outcome::Noticed } else { Outcome::Unnoticed })
}

/// The last commit that changed the crates, marked if the tree differs from it.
fn commit() -> Result<String> {
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(args).current_dir(root());
        run::capture(command)
    };
    let hash = git(&["log", "-1", "--format=%h", "--abbrev=10", "--", "crates"])?.trim().to_owned();
    ensure!(!hash.is_empty(), "no commit");
    let is_changed = !git(&["status", "--porcelain", "--untracked-files=no", "crates"])?.is_empty();
    Ok(if is_changed { format!("{hash}+") } else { hash })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_that_names_a_test_has_one_fault_which_can_be_planted() {
        let tests = crate::features::tests().unwrap();
        let faults = load().unwrap();
        for test in &tests {
            let count = faults.iter().filter(|fault| fault.test == *test).count();
            assert_eq!(count, 1, "FAULTS.toml has {count} faults for {test}");
        }
        for fault in &faults {
            let is_of_one = tests.contains(&fault.test) != fault.defect.is_some();
            assert!(is_of_one, "{} is the test of no feature and of no defect, or of both", fault.test);
            let text = std::fs::read_to_string(root().join(&fault.file)).unwrap();
            plant::planted(&text, &[fault]).unwrap();
            // What is not an expression would keep all faults from being built.
            for text in [&fault.find, &fault.replace] {
                let count = |bracket| text.matches(bracket).count();
                let is_whole = [('(', ')'), ('[', ']'), ('{', '}')]
                    .iter()
                    .all(|(open, close)| count(*open) == count(*close));
                assert!(is_whole, "{}: `{text}` is no expression", fault.test);
            }
        }
        tests_of::by_binary(&faults).unwrap();
    }

    #[test]
    fn each_defect_has_a_row_with_its_tests_and_a_test_has_one_fault() {
        let page = std::fs::read_to_string(root().join("docs/evidence/ATTACKS.md")).unwrap();
        let faults = load().unwrap();
        for fault in &faults {
            let count = faults.iter().filter(|other| other.test == fault.test).count();
            assert_eq!(count, 1, "{} has {count} faults", fault.test);
            let Some(defect) = fault.defect else { continue };
            let row = format!("`{}` | {} |", fault.test, fault.breaks);
            let is_there =
                page.lines().any(|line| line.starts_with(&format!("| {defect} |")) && line.contains(&row));
            assert!(is_there, "docs/evidence/ATTACKS.md has no row of defect {defect} with {row}");
        }
    }
}
