//! Results: of tests, of cases, and of all.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use serde::Serialize;

use super::map::{Case, Map, State};

/// The result of a test, in the order in which one of several counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Passed,
    /// The machine lacks something that it needs.
    Skipped,
    Failed,
}

/// Reads the results from the output of a test program.
pub fn read(log: &str) -> BTreeMap<&str, Outcome> {
    log.lines().filter_map(line).collect()
}

/// `test a::b ... ok`.
fn line(line: &str) -> Option<(&str, Outcome)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let outcome = match result {
        "ok" => Outcome::Passed,
        ignored if ignored.starts_with("ignored") => Outcome::Skipped,
        _ => Outcome::Failed,
    };
    // The standard harness says more of tests that should panic.
    Some((name.split(" - ").next().unwrap_or(name), outcome))
}

/// The results of all cases.
#[derive(Serialize)]
pub struct Report {
    /// Cases of the suite, and of each family.
    cases: Vec<Row>,
    /// Worlds of ours.
    worlds: Vec<Row>,
    seconds: f64,
}

#[derive(Serialize)]
struct Row {
    name: String,
    result: Result,
    /// Cases of the suite that it stands for, in this family.
    count: usize,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Result {
    Passed,
    Skipped,
    Failed,
    Missing,
    NotApplicable,
}

impl From<Outcome> for Result {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Passed => Self::Passed,
            Outcome::Skipped => Self::Skipped,
            Outcome::Failed => Self::Failed,
        }
    }
}

impl Report {
    /// `outcomes` are by the names of tests.
    pub fn new(
        map: &Map,
        is_wanted: &impl Fn(&str) -> bool,
        outcomes: &BTreeMap<String, Outcome>,
        worlds: Vec<(String, Outcome)>,
        elapsed: Duration,
    ) -> Self {
        let cases = map.cases().filter(|case| is_wanted(&case.name)).flat_map(|case| rows(case, outcomes));
        let worlds = worlds.into_iter().map(|(name, outcome)| Row {
            name,
            result: outcome.into(),
            count: 1,
            reason: String::new(),
        });
        Self { cases: cases.collect(), worlds: worlds.collect(), seconds: elapsed.as_secs_f64() }
    }

    /// Whether no case and no world failed.
    pub fn is_good(&self) -> bool {
        self.cases.iter().chain(&self.worlds).all(|row| row.result != Result::Failed)
    }
}

fn rows(case: &Case, outcomes: &BTreeMap<String, Outcome>) -> Vec<Row> {
    let (result, reason) = match &case.state {
        State::Missing(what) => (Result::Missing, what.clone()),
        State::NotApplicable(why) => (Result::NotApplicable, why.clone()),
        State::Tests(tests) => {
            let of = |test: &String| outcomes.get(test).copied().unwrap_or(Outcome::Failed);
            let worst = tests.iter().map(of).max().unwrap_or(Outcome::Failed);
            let which = tests.iter().filter(|test| worst != Outcome::Passed && of(test) == worst);
            (worst.into(), which.cloned().collect::<Vec<_>>().join(", "))
        }
    };
    let row = |name| Row { name, result, count: case.count, reason: reason.clone() };
    case.names().into_iter().map(row).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.cases.iter().map(|row| row.name.len()).max().unwrap_or(0);
        writeln!(f)?;
        for row in &self.cases {
            let word = row.result.word();
            let line = format!("{:width$}  {word:14}  {}", row.name, row.reason);
            writeln!(f, "{}", line.trim_end())?;
        }
        for row in self.worlds.iter().filter(|row| row.result != Result::Passed) {
            writeln!(f, "{}  {}", row.name, row.result.word())?;
        }
        writeln!(
            f,
            "\n{:10}  {:>7}  {:>6}  {:>7}  {:>7}  {:>14}",
            "", "passed", "failed", "skipped", "missing", "not applicable"
        )?;
        for (name, rows) in [("cases", &self.cases), ("worlds", &self.worlds)] {
            let of =
                |result| rows.iter().filter(|row| row.result == result).map(|row| row.count).sum::<usize>();
            let [passed, failed, skipped] = [Result::Passed, Result::Failed, Result::Skipped].map(of);
            let [missing, others] = [Result::Missing, Result::NotApplicable].map(of);
            writeln!(f, "{name:10}  {passed:>7}  {failed:>6}  {skipped:>7}  {missing:>7}  {others:>14}")?;
        }
        writeln!(f, "\nran in {:.1} s", self.seconds)
    }
}

impl Result {
    const fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Skipped => "SKIPPED",
            Self::Failed => "FAILED",
            Self::Missing => "missing",
            Self::NotApplicable => "not applicable",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_both_harnesses() {
        let log = "test a::b ... ok\ntest c ... FAILED\ntest d ... ignored (needs root)\ntest e - should panic ... ok\n\
                   test result: ok. 1 passed";
        let read = read(log);
        assert_eq!(read["a::b"], Outcome::Passed);
        assert_eq!(read["c"], Outcome::Failed);
        assert_eq!(read["d"], Outcome::Skipped);
        assert_eq!(read["e"], Outcome::Passed);
        assert_eq!(read.len(), 4);
    }
}
