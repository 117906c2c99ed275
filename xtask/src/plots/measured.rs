//! The tables of `docs/evidence/MEASUREMENTS.md`, as `cargo xtask peers --write` writes them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

/// A median and its quartiles: rates in millions a second, or a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

/// Rates and ratios by contest, then by row.
#[derive(Default)]
pub struct Tables {
    rates: BTreeMap<(String, String), Spread>,
    ratios: BTreeMap<(String, String), Spread>,
}

impl Tables {
    /// Reads what stands between the marks of contests.
    pub fn read(text: &str) -> Self {
        let mut tables = Self::default();
        let mut contest = None;
        for line in text.lines() {
            if let Some(name) = mark(line) {
                contest = (!name.ends_with(" end")).then_some(name);
            } else if let Some(contest) = contest {
                tables.row(contest, line);
            }
        }
        tables
    }

    fn row(&mut self, contest: &str, line: &str) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, first, second, ..] = cells[..] else { return };
        let key = (contest.to_owned(), name.to_owned());
        if let Some(rate) = rate(first, second) {
            self.rates.insert(key, rate);
        } else if let Some(ratio) = ratio(first) {
            self.ratios.insert(key, ratio);
        }
    }

    pub fn rate(&self, contest: &str, row: &str) -> Result<Spread> {
        let found = self.rates.get(&(contest.to_owned(), row.to_owned())).copied();
        found.with_context(|| format!("{contest} has no rate of `{row}`"))
    }

    pub fn ratio(&self, contest: &str, finding: &str) -> Result<Spread> {
        let found = self.ratios.get(&(contest.to_owned(), finding.to_owned())).copied();
        found.with_context(|| format!("{contest} has no ratio `{finding}`"))
    }
}

fn mark(line: &str) -> Option<&str> {
    line.strip_prefix("<!-- peers: ")?.strip_suffix(" -->")
}

/// `54.817` and `36.438 to 56.032`.
fn rate(median: &str, quartiles: &str) -> Option<Spread> {
    let (low, high) = quartiles.split_once(" to ")?;
    Some(Spread { median: median.parse().ok()?, low: low.parse().ok()?, high: high.parse().ok()? })
}

/// `1.27 [1.20 to 1.29] of 20`.
fn ratio(text: &str) -> Option<Spread> {
    let (median, rest) = text.split_once(" [")?;
    rate(median, rest.split_once(']')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_ratios_are_read_and_no_other_rows() {
        let text = "| a | 9.0 | 8.0 to 9.5 |\n<!-- peers: null/x -->\n| a | 2.5 | 2.0 to 3.0 | – | 0 % | cpu1 |\n\
                    | a / b | 1.27 [1.20 to 1.29] of 20 | ahead | |\n| c | did not run | | | | |\n<!-- peers: null/x end -->\n";
        let tables = Tables::read(text);
        assert_eq!(tables.rate("null/x", "a").unwrap(), Spread { median: 2.5, low: 2.0, high: 3.0 });
        assert_eq!(tables.ratio("null/x", "a / b").unwrap(), Spread { median: 1.27, low: 1.2, high: 1.29 });
        assert!(tables.rate("null/x", "c").is_err());
    }
}
