//! Results of a contest, and their table.

use core::fmt::Write;
use std::collections::BTreeMap;

use serde::Serialize;

use super::contest::{Claim, Need, Source};
use super::machine;
use super::schedule::{Entrant, Launch, State};
use super::stats::{Quartiles, Verdict};

/// The results of one contest.
#[derive(Serialize)]
pub struct Outcome {
    pub id: &'static str,
    pub title: String,
    pub unit: &'static str,
    pub rows: Vec<Row>,
    pub findings: Vec<Finding>,
}

/// One program.
#[derive(Serialize)]
pub struct Row {
    pub name: String,
    pub cpus: String,
    /// Units per second; `None` if it never ran.
    pub rate: Option<Quartiles>,
    /// Clock cycles of the measured CPU per unit, in the machine's fast state.
    pub cycles_fast: Option<f64>,
    /// Share of the launches before and after which the machine was fast.
    pub fast_share: f64,
    /// Share of the time in which a task had to wait for a CPU: on a quiet machine next to none.
    pub pressure: Option<Quartiles>,
    pub figures: BTreeMap<&'static str, Quartiles>,
    /// Why it did not run, or not always.
    pub note: String,
    pub failed: bool,
    /// The rate of each round, for further analysis.
    pub samples: Vec<Option<f64>>,
}

/// The result of a claim.
#[derive(Serialize)]
pub struct Finding {
    pub what: String,
    /// `None` where none may be printed.
    pub value: Option<Quartiles>,
    /// Ratio over the rounds in which the machine was fast all the time.
    pub fast: Option<Quartiles>,
    pub verdict: Verdict,
    /// The claim, or why there is no number.
    pub note: String,
}

/// For so many pairs of rounds at least a ratio is printed, as a share of all.
const PAIRS_MIN: f64 = 0.75;

impl Outcome {
    pub fn new(
        id: &'static str,
        title: String,
        unit: &'static str,
        entrants: &[Entrant],
        claims: Vec<Claim>,
    ) -> Self {
        let rows = entrants.iter().map(Row::new).collect();
        let findings = claims.iter().map(|claim| Finding::new(claim, entrants)).collect();
        Self { id, title, unit, rows, findings }
    }

    /// Whether a program that was there did not work.
    pub fn has_failed(&self) -> bool {
        self.rows.iter().any(|row| row.failed)
    }
}

impl Row {
    fn new(entrant: &Entrant) -> Self {
        let launches = || entrant.launches.iter().flatten();
        let rates = |launch: &Launch| launch.sample.rate;
        let fast = Quartiles::of(launches().filter(|launch| launch.fast).map(rates));
        let count = launches().count().max(1) as f64;
        Self {
            name: entrant.case.name(),
            cpus: entrant.case.cpus(),
            rate: Quartiles::of(launches().map(rates)),
            cycles_fast: fast.map(|rate| cycles(rate.median)),
            fast_share: launches().filter(|launch| launch.fast).count() as f64 / count,
            pressure: Quartiles::of(launches().map(|launch| launch.pressure)),
            figures: figures(entrant),
            note: note(entrant),
            failed: matches!(entrant.state, State::Failed(_)),
            samples: entrant.launches.iter().map(|launch| launch.as_ref().map(rates)).collect(),
        }
    }
}

/// All figures that a case has told, of launches in the fast state if there are any.
fn figures(entrant: &Entrant) -> BTreeMap<&'static str, Quartiles> {
    let all: Vec<&Launch> = entrant.launches.iter().flatten().collect();
    let fast: Vec<&Launch> = all.iter().copied().filter(|launch| launch.fast).collect();
    let chosen = if fast.is_empty() { all } else { fast };
    let mut numbers: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for (name, number) in chosen.iter().flat_map(|launch| &launch.sample.figures) {
        numbers.entry(name).or_default().push(*number);
    }
    numbers.into_iter().filter_map(|(name, numbers)| Some((name, Quartiles::of(numbers)?))).collect()
}

fn note(entrant: &Entrant) -> String {
    let bottleneck = entrant.launches.iter().flatten().find_map(|launch| match &launch.sample.source {
        Source::Saturated => None,
        Source::Bottleneck(why) => Some(format!("GENERATOR IS THE BOTTLENECK: {why}")),
    });
    match &entrant.state {
        State::Skipped(why) => format!("SKIPPED: {why}"),
        State::Failed(why) => format!("FAILED: {why}"),
        State::In => bottleneck.unwrap_or_default(),
    }
}

impl Finding {
    fn new(claim: &Claim, entrants: &[Entrant]) -> Self {
        let name = |at: usize| entrants.get(at).map_or_else(String::new, |entrant| entrant.case.name());
        match claim {
            Claim::Ratio { of, to, need } => {
                let what = format!("{} / {}", name(*of), name(*to));
                let pairs = Pairs::of(entrants, *of, *to);
                pairs.finding(what, |a, b| a / b, |ratio| ratio.verdict(*need), needed(*need))
            }
            Claim::FigureRatio { of, to, figure, need } => {
                let pairs = Pairs::by(entrants, *of, *to, |launch| launch.figure(figure));
                let note = need.map_or_else(String::new, |most| format!("at most {most}"));
                let what = format!("{figure}: {} / {}", name(*of), name(*to));
                pairs.finding(what, |a, b| a / b, |ratio| within(ratio, *need), note)
            }
            Claim::Difference { what, of, minus, at_most } => {
                let pairs = Pairs::of(entrants, *of, *minus);
                let note = at_most.map_or_else(String::new, |most| format!("at most {most}"));
                let what = format!("{what}, cycles: {} less {}", name(*of), name(*minus));
                pairs.finding(what, |a, b| cycles(a) - cycles(b), |cost| within(cost, *at_most), note)
            }
            Claim::Ceiling { of, figure, at_most } => {
                let value = entrants.get(*of).and_then(|entrant| figures(entrant).remove(figure));
                let verdict = value.map_or(Verdict::Refused, |value| within(&value, Some(*at_most)));
                let what = format!("{}: {figure}", name(*of));
                Self { what, value, fast: None, verdict, note: format!("at most {at_most}") }
            }
        }
    }
}

/// Two cases' rates in the same rounds.
struct Pairs {
    /// Both rates, and whether the machine was fast.
    rates: Vec<(f64, f64, bool)>,
    /// Rounds in which both ran, but a generator was the bottleneck.
    useless: usize,
    /// Why a generator was.
    why: String,
}

impl Pairs {
    fn of(entrants: &[Entrant], a: usize, b: usize) -> Self {
        Self::by(entrants, a, b, |launch| Some(launch.sample.rate))
    }

    /// Computes the ratio of another number.
    fn by(entrants: &[Entrant], a: usize, b: usize, number: impl Fn(&Launch) -> Option<f64>) -> Self {
        let mut pairs = Self { rates: Vec::new(), useless: 0, why: String::new() };
        let (Some(a), Some(b)) = (entrants.get(a), entrants.get(b)) else { return pairs };
        for (a, b) in a.launches.iter().zip(&b.launches) {
            if let (Some(a), Some(b)) = (a, b) {
                pairs.add(a, b, &number);
            }
        }
        pairs
    }

    fn add(&mut self, a: &Launch, b: &Launch, number: impl Fn(&Launch) -> Option<f64>) {
        for source in [&a.sample.source, &b.sample.source] {
            if let Source::Bottleneck(why) = source {
                self.useless += 1;
                return self.why.clone_from(why);
            }
        }
        if let (Some(of_a), Some(of_b)) = (number(a), number(b)) {
            self.rates.push((of_a, of_b, a.fast && b.fast));
        }
    }

    fn finding(
        &self,
        what: String,
        value: impl Fn(f64, f64) -> f64,
        verdict: impl Fn(&Quartiles) -> Verdict,
        note: String,
    ) -> Finding {
        let all = Quartiles::of(self.rates.iter().map(|(a, b, _)| value(*a, *b)));
        let fast = Quartiles::of(self.rates.iter().filter(|pair| pair.2).map(|(a, b, _)| value(*a, *b)));
        let rounds = self.rates.len() + self.useless;
        match all {
            Some(all) if self.rates.len() as f64 >= PAIRS_MIN * rounds as f64 => {
                Finding { what, value: Some(all), fast, verdict: verdict(&all), note }
            }
            _ => Finding {
                what,
                value: None,
                fast: None,
                verdict: Verdict::Refused,
                note: self.refusal(rounds),
            },
        }
    }

    fn refusal(&self, rounds: usize) -> String {
        match self.useless {
            0 => "no round in which both ran".into(),
            useless => {
                format!("the generator was the bottleneck in {useless} of {rounds} rounds: {}", self.why)
            }
        }
    }
}

fn needed(need: Need) -> String {
    match need {
        Need::Ahead => "ahead from 1.25 on".into(),
        Need::AtLeast(least) => format!("at least {least}"),
        Need::Shown => String::new(),
    }
}

fn within(value: &Quartiles, at_most: Option<f64>) -> Verdict {
    match at_most {
        None => Verdict::Shown,
        Some(most) if value.median <= most => Verdict::Holds,
        Some(_) => Verdict::Short,
    }
}

/// Clock cycles that one CPU has for each of so many things a second.
fn cycles(rate: f64) -> f64 {
    machine::clock_mhz() * 1e6 / rate
}

/// The table for a terminal.
pub fn text(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        // Writing to a string cannot fail.
        let _ = write_outcome(&mut text, outcome);
    }
    text
}

fn write_outcome(text: &mut String, outcome: &Outcome) -> core::fmt::Result {
    writeln!(text, "\n{}: {} (millions of {} per second)", outcome.id, outcome.title, outcome.unit)?;
    writeln!(text, "  {:34} {:>8} {:>17} {:>9} {:>6}", "", "median", "quartiles", "cycles*", "fast")?;
    for row in &outcome.rows {
        writeln!(text, "  {:34} {}", row.name, numbers(row))?;
        writeln!(text, "      {}", row.cpus)?;
        for (name, figure) in &row.figures {
            writeln!(text, "      {name}: {:.4} [{:.4} to {:.4}]", figure.median, figure.low, figure.high)?;
        }
        if !row.note.is_empty() {
            writeln!(text, "      {}", row.note)?;
        }
    }
    for finding in &outcome.findings {
        writeln!(
            text,
            "  = {}: {} {} ({})",
            finding.what,
            value(finding),
            finding.verdict.word(),
            finding.note
        )?;
    }
    Ok(())
}

fn numbers(row: &Row) -> String {
    let Some(rate) = row.rate else { return String::from("       -") };
    let quartiles = format!("{:.3} to {:.3}", rate.low / 1e6, rate.high / 1e6);
    let cycles = row.cycles_fast.map_or_else(|| "-".into(), |cycles| format!("{cycles:.1}"));
    format!("{:>8.3} {quartiles:>17} {cycles:>9} {:>5.0}%", rate.median / 1e6, row.fast_share * 100.0)
}

/// A finding's number, with quartiles, and of the fast rounds.
pub fn value(finding: &Finding) -> String {
    let Some(Quartiles { low, median, high, n }) = finding.value else { return String::from("no ratio:") };
    let fast =
        finding.fast.map_or_else(String::new, |fast| format!(", fast {:.2} of {}", fast.median, fast.n));
    format!("{median:.2} [{low:.2} to {high:.2}] of {n}{fast}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::canary::Reading;
    use crate::peers::contest::Sample;

    fn launch(rate: f64, source: Source) -> Launch {
        let sample = Sample { rate, source, figures: Vec::new() };
        Launch { sample, canary: Reading { ns: 1.0 }, pressure: 0.0, fast: true }
    }

    fn ratio(pairs: &[(Launch, Launch)]) -> Finding {
        let mut all = Pairs { rates: Vec::new(), useless: 0, why: String::new() };
        pairs.iter().for_each(|(a, b)| all.add(a, b, |launch| Some(launch.sample.rate)));
        all.finding(String::new(), |a, b| a / b, |ratio| ratio.verdict(Need::Ahead), String::new())
    }

    #[test]
    fn a_ratio_is_of_launches_of_the_same_round() {
        let round = |ours, theirs| (launch(ours, Source::Saturated), launch(theirs, Source::Saturated));
        // The machine halves its speed in the second round, which a ratio of medians would show.
        let found = ratio(&[round(30.0, 20.0), round(15.0, 10.0), round(30.0, 20.0)]);
        assert_eq!(found.value, Some(Quartiles { low: 1.5, median: 1.5, high: 1.5, n: 3 }));
        assert_eq!(found.verdict, Verdict::Ahead);
    }

    #[test]
    fn no_ratio_is_made_of_a_generator() {
        let slow = || Source::Bottleneck("it slept".into());
        for (ours, theirs) in [(slow(), Source::Saturated), (Source::Saturated, slow())] {
            let found = ratio(&[(launch(30.0, ours), launch(20.0, theirs))]);
            assert_eq!((found.value, found.verdict), (None, Verdict::Refused));
            assert!(found.note.contains("it slept"), "{}", found.note);
        }
    }

    #[test]
    fn a_generator_that_is_late_once_costs_that_round_only() {
        let mut rounds: Vec<_> =
            (0..3).map(|_| (launch(30.0, Source::Saturated), launch(20.0, Source::Saturated))).collect();
        rounds.push((launch(1.0, Source::Bottleneck("once".into())), launch(20.0, Source::Saturated)));
        assert_eq!(ratio(&rounds).value.map(|value| (value.median, value.n)), Some((1.5, 3)));
    }
}
