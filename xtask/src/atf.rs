//! `cargo xtask atf`: the cases of NetBSD's network tests, and the tests of ours that show them.
//!
//! `ATF.toml` has each case with the tests that show it, or the reason why there is none. The command runs these tests and all
//! described worlds, and says of each case whether it passes. The page in `docs/evidence` is the map, written by `--write`.

mod map;
mod outcome;
mod programs;

use core::time::Duration;
use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};

use self::map::{Map, State};
use self::outcome::{Outcome, Report};
use self::programs::Program;
use crate::args::Args;
use crate::run::root;
use crate::setup;

/// The program with the described worlds: all of its tests are run, not only those of the map.
const WORLDS: &str = "worlds";
/// Time limit of one program.
const LIMIT: Duration = Duration::from_secs(600);
const DOCUMENT: &str = "docs/evidence/ATF.md";
const BEGIN: &str = "<!-- atf: written by `cargo xtask atf --write` -->";
const END: &str = "<!-- atf end -->";

/// `cargo xtask atf`
pub fn command(args: &mut Args) -> Result<bool> {
    let only = args.text("--only")?;
    let (json, write, check) = (args.flag("--json"), args.flag("--write"), args.flag("--check"));
    args.finish()?;
    let map = Map::load()?;
    if check || write {
        return page(&map, write);
    }
    setup::packages()?;
    let report = run(&map, only.as_deref())?;
    if json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    Ok(report.is_good())
}

/// Compares the page with the map, or writes it.
fn page(map: &Map, write: bool) -> Result<bool> {
    let path = root().join(DOCUMENT);
    let page = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let fresh = replaced(&page, &map.table())?;
    if fresh != page && !write {
        eprintln!("{DOCUMENT} is not what ATF.toml says: run `cargo xtask atf --write`");
        return Ok(false);
    }
    if fresh != page {
        std::fs::write(&path, fresh)?;
    }
    println!("{DOCUMENT} has the table of ATF.toml");
    Ok(true)
}

fn replaced(page: &str, table: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).context("the page has no place for the table")?;
    let (_, after) = rest.split_once(END).context("the table's place has no end")?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

/// Builds the test programs, and runs the tests of the cases whose names contain `only`; without it, of all, and all worlds.
fn run(map: &Map, only: Option<&str>) -> Result<Report> {
    let programs = programs::build()?;
    let begun = Instant::now();
    let is_wanted = |name: &str| only.is_none_or(|word| name.contains(word));
    let wanted: Vec<&str> = map
        .cases()
        .filter(|case| is_wanted(&case.name))
        .filter_map(|case| if let State::Tests(tests) = &case.state { Some(tests) } else { None })
        .flatten()
        .map(String::as_str)
        .collect();
    // Tests of our harness mostly wait for others: they run beside those that compute.
    let (computing, waiting): (Vec<_>, Vec<_>) = programs.iter().partition(|program| program.takes_several);
    let results = thread::scope(|scope| {
        let waiting = scope.spawn(|| run_all(&waiting, &wanted, only.is_none()));
        let computing = run_all(&computing, &wanted, only.is_none());
        [computing, waiting.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a lane of tests panicked")))]
    });
    let (mut outcomes, mut worlds) = (BTreeMap::new(), Vec::new());
    for (program, test, outcome) in results.into_iter().collect::<Result<Vec<_>>>()?.concat() {
        if only.is_none() && program == WORLDS {
            worlds.push((format!("{WORLDS}/{}", cased(&test)), outcome));
        }
        // Tests of one name in both families are one test here: the worse result counts.
        let known = outcomes.entry(last(&test).to_owned()).or_insert(outcome);
        *known = outcome.max(*known);
    }
    Ok(Report::new(map, &is_wanted, &outcomes, worlds, begun.elapsed()))
}

/// Runs of each program the tests that are wanted, and all worlds if `with_worlds`: program, test and result.
fn run_all(
    programs: &[&Program],
    wanted: &[&str],
    with_worlds: bool,
) -> Result<Vec<(String, String, Outcome)>> {
    let mut all = Vec::new();
    for program in programs {
        let is_whole = with_worlds && program.name == WORLDS;
        let tests: Vec<&String> =
            program.tests.iter().filter(|test| is_whole || wanted.contains(&last(test))).collect();
        let done = program.run(&tests, is_whole)?;
        all.extend(done.into_iter().map(|(test, outcome)| (program.name.clone(), test, outcome)));
    }
    Ok(all)
}

/// The name of a test without its modules.
fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// `file:case` of the path of a test.
fn cased(path: &str) -> String {
    path.rsplit_once("::")
        .map_or_else(|| path.to_owned(), |(file, case)| format!("{}:{case}", file.replace("::", "/")))
}

impl Program {
    /// Runs tests, if there are any; all of the program at once if `is_whole`.
    fn run(&self, tests: &[&String], is_whole: bool) -> Result<Vec<(String, Outcome)>> {
        if tests.is_empty() {
            return Ok(Vec::new());
        }
        // A harness of ours takes one name.
        let batches: Vec<&[&String]> =
            if self.takes_several { vec![tests] } else { tests.chunks(1).collect() };
        let mut all = Vec::new();
        for batch in batches {
            let command = self.command(batch, is_whole);
            let done = crate::run::follow(&format!("atf-{}", self.name), command, LIMIT)?;
            let log = std::fs::read_to_string(&done.log)?;
            let read = outcome::read(&log);
            all.extend(batch.iter().map(|test| {
                let outcome = read.get(test.as_str()).copied().unwrap_or(Outcome::Failed);
                ((*test).clone(), outcome)
            }));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_cases_has_the_table_of_atf_toml() {
        let page = std::fs::read_to_string(root().join(DOCUMENT)).unwrap();
        let map = Map::load().unwrap();
        assert!(
            page == replaced(&page, &map.table()).unwrap(),
            "{DOCUMENT} is not what ATF.toml says: run `cargo xtask atf --write`"
        );
    }

    #[test]
    fn a_path_of_modules_becomes_file_and_case() {
        assert_eq!(cased("autoconf::lives::an_end"), "autoconf/lives:an_end");
        assert_eq!(last("autoconf::lives::an_end"), "an_end");
    }
}
