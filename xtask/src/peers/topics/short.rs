//! Many short connections, where both ends are programs on the stack that is measured.

use core::time::Duration;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::veth::Said;
use crate::checks::skipped;
use crate::icount;
use crate::peers::contest::{Case, Claim, Contest, Need, Sample};
use crate::peers::machine;
use crate::peers::process::{Running, mortal};
use crate::peers::workload::program;

/// Beyond the time that is measured and the quarter of it that passes before.
const START_LIMIT: Duration = Duration::from_secs(30);
/// The part that valgrind counts, and the least number of responses.
const COUNTED: &str = "count_these_answers";
const ANSWERS: usize = 4096;
const INSTRUCTIONS: &str = "instructions per connection";
/// Rounds of each.
const ROUNDS: usize = 10;

pub fn contests() -> Vec<Contest> {
    vec![
        beside("short/16", "close", 16, Need::AtLeast(1.0)),
        beside("short/256", "close", 256, Need::AtLeast(1.0)),
        many(),
        beside("short/ask-64", "ask", 64, Need::Shown),
        stream(),
    ]
}

/// Ours beside others'.
fn beside(id: &'static str, behind: &'static str, concurrent: usize, need: Need) -> Contest {
    let case = |who| Talk { concurrent, behind, ..Talk::new(who) };
    let checked = Talk { cable: "plain", ..case("mem") };
    contest(
        id,
        &format!("{concurrent} at a time, {}", what(behind)),
        vec![case("mem"), case("smoltcp"), checked, case("two")],
        vec![
            Claim::Ratio { of: 0, to: 1, need },
            Claim::Ratio { of: 2, to: 0, need: Need::Shown },
            Claim::Ratio { of: 3, to: 0, need: Need::Shown },
        ],
    )
}

/// Cost of more connections at a time.
fn many() -> Contest {
    let cases = [16, 256, 1000, 16_000].map(|concurrent| Talk { concurrent, ..Talk::new("mem") });
    let claim = |of, need| Claim::Ratio { of, to: 0, need };
    let claims = vec![claim(1, Need::Shown), claim(2, Need::Shown), claim(3, Need::AtLeast(0.8))];
    contest("short/many", "so many at a time, each ends behind its answer", cases.into(), claims)
}

/// One connection that is never empty, in super-packets and without.
fn stream() -> Contest {
    let cases = ["wire", "super", "plain"].map(|cable| Talk { cable, ..Talk::new("stream") });
    let claims = vec![Claim::Ratio { of: 2, to: 0, need: Need::Shown }];
    Contest {
        unit: "bits",
        ..titled("short/stream", "one stream, in memory".to_owned(), cases.into(), claims)
    }
}

fn contest(id: &'static str, what: &str, cases: Vec<Talk>, claims: Vec<Claim>) -> Contest {
    let title = format!("a question of 64 bytes and an answer of 1224, in memory, {what}");
    titled(id, title, cases, claims)
}

fn titled(id: &'static str, title: String, cases: Vec<Talk>, claims: Vec<Claim>) -> Contest {
    let cases = cases.into_iter().map(|case| Box::new(case) as Box<dyn Case>).collect();
    Contest { id, title, unit: "answers", bed: None, cases, claims }
}

fn what(behind: &str) -> &'static str {
    if behind == "close" { "each connection ends behind its answer" } else { "one question after the other" }
}

/// One case of the program `shortconn`.
struct Talk {
    who: &'static str,
    concurrent: usize,
    behind: &'static str,
    cable: &'static str,
    program: PathBuf,
    /// Instructions per connection, at both ends.
    instructions: Option<f64>,
}

impl Talk {
    /// Returns the arguments with which `shortconn` runs under valgrind; not everything that is timed can be counted.
    fn counted(&self) -> Option<&'static str> {
        let is_plain = self.cable == "plain";
        Some(if is_plain { "plain" } else { self.who })
            .filter(|_| self.behind == "close" && self.who != "two")
    }

    /// Counts what does not depend on the machine, once.
    fn count(&self) -> Option<f64> {
        let answers = self.concurrent.max(ANSWERS).to_string();
        let args = ["count", self.counted()?, &self.concurrent.to_string(), &answers];
        icount::of_each("shortconn", &args, COUNTED)
            .inspect_err(|why| drop(skipped("instructions per connection", &why.to_string())))
            .ok()
    }

    fn new(who: &'static str) -> Self {
        Self {
            who,
            concurrent: 16,
            behind: "close",
            cable: "super",
            program: PathBuf::new(),
            instructions: None,
        }
    }
}

impl Case for Talk {
    fn name(&self) -> String {
        let sums = if self.cable == "plain" { ", checksums in software" } else { "" };
        match self.who {
            "smoltcp" => "smoltcp".to_owned(),
            "stream" => match self.cable {
                "wire" => "pantala, the device `mem`".to_owned(),
                "super" => "pantala, a cable that copies twice".to_owned(),
                _ => "the same, no super-packets, checksums in software".to_owned(),
            },
            "two" => format!("pantala, a CPU for each end, {} at a time", self.concurrent),
            _ => format!("pantala, {} at a time{sums}", self.concurrent),
        }
    }

    fn cpus(&self) -> String {
        let (test, other) = (machine::test_cpu(), machine::other_cpu());
        let cpus = match self.who {
            "two" => format!("cpu{test}: server; cpu{other}: client"),
            _ => format!("cpu{test}: both ends"),
        };
        // What was counted is among the figures.
        if self.instructions.is_some() { cpus } else { format!("{cpus}; {INSTRUCTIONS}: –") }
    }

    fn rounds_max(&self) -> usize {
        ROUNDS
    }

    fn set_up(&mut self) -> Result<()> {
        ensure!(self.who != "two" || machine::cpus() > 1, "the client needs a CPU of its own");
        self.program = program("shortconn")?;
        self.instructions = self.count();
        Ok(())
    }

    fn launch(&mut self, window: Duration) -> Result<Sample> {
        let mut command = mortal(&self.program);
        command.args([self.who, "--concurrent", &self.concurrent.to_string(), "--behind", self.behind]);
        command.args(["--cable", self.cable, "--window", &window.as_millis().to_string()]);
        let text = Running::start("shortconn", command)?.finish(START_LIMIT + 2 * window)?;
        let mut sample = sample(&Said(&text)).with_context(|| format!("shortconn said {text}"))?;
        sample.figures.extend(self.instructions.map(|count| (INSTRUCTIONS, count)));
        Ok(sample)
    }
}

fn sample(said: &Said<'_>) -> Result<Sample> {
    let rate = said.number("rate").context("no rate")?;
    let told = [
        ("M in a second of processor time", "per cpu second", 1e-6),
        ("latency: mean, us", "mean", 1.0),
        ("latency: standard deviation", "sd", 1.0),
        ("latency: p50", "p50", 1.0),
        ("latency: p99", "p99", 1.0),
        ("latency: p99.9", "p99.9", 1.0),
    ];
    let figures = told.into_iter().filter_map(|(name, from, by)| Some((name, said.number(from)? * by)));
    Ok(Sample { figures: figures.collect(), ..Sample::saturated(rate) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_says_becomes_a_row() {
        let sample = sample(&Said("rate = 1000\nper cpu second = 2000000\np99 = 12.5\n")).unwrap();
        assert_eq!(sample.rate, 1000.0);
        assert_eq!(sample.figures, [("M in a second of processor time", 2.0), ("latency: p99", 12.5)]);
        assert!(super::sample(&Said("per cpu second = 1\n")).is_err());
    }
}
