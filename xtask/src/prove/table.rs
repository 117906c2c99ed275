//! `docs/evidence/FAULTS.md`: what came of each fault, and when.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::Fault;
use crate::run::{capture, root};

/// The result of a planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The test passes without it and not with it.
    Noticed,
    /// The test passes with it, too.
    Unnoticed,
    /// The test does not pass without it.
    FailsAnyway,
    /// The test lacks something here.
    Skipped,
}

impl Outcome {
    #[cfg(test)]
    const ALL: [Self; 4] = [Self::Noticed, Self::Unnoticed, Self::FailsAnyway, Self::Skipped];

    /// As the table has it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Noticed => "fails",
            Self::Unnoticed => "**passes**",
            Self::FailsAnyway => "**fails without it**",
            Self::Skipped => "**skipped**",
        }
    }
}

const HEAD: &str = "\
# Faults

The test of each feature in [FEATURES.toml](../../FEATURES.toml) fails if the feature is broken, and the test of each defect in
[ATTACKS.md](ATTACKS.md#defects-that-were-found) if the defect comes back. `cargo xtask features --prove` plants the faults of
[FAULTS.toml](../../FAULTS.toml) in a copy of the sources, and runs each test without its fault and with it; it has written this
table. A `+` behind a commit: with changes. `--only NAME` proves those anew whose test, program (`net --lib`) or file has that in
its name.

| test | fault | in | the test | commit | date |
|---|---|---|---|---|---|
";

struct Line {
    test: String,
    /// The line as it is written.
    text: String,
    is_noticed: bool,
}

/// The table.
pub struct Table(Vec<Line>);

impl Table {
    /// Reads it; it is empty if it is not there.
    pub fn load() -> Result<Self> {
        let text = std::fs::read_to_string(path()).unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with("| `"));
        let line = |text: &str| {
            let test =
                text.split('`').nth(1).context("a row of docs/evidence/FAULTS.md has no test")?.to_owned();
            let is_noticed = text.contains(&format!("| {} |", Outcome::Noticed.words()));
            Ok(Line { test, text: text.to_owned(), is_noticed })
        };
        Ok(Self(lines.map(line).collect::<Result<_>>()?))
    }

    /// Forgets rows of other faults than these.
    pub fn keep(&mut self, faults: &[Fault]) {
        self.0.retain(|line| faults.iter().any(|fault| line.text.starts_with(&row(fault))));
    }

    /// Whether it says that a fault is noticed.
    pub fn has(&self, fault: &Fault) -> bool {
        self.0.iter().any(|line| line.test == fault.test && line.is_noticed)
    }

    /// Notes what came of a fault.
    pub fn set(&mut self, fault: &Fault, outcome: Outcome, commit: &str) {
        self.0.retain(|line| line.test != fault.test);
        let text = format!("{}| {} | `{commit}` | {} |", row(fault), outcome.words(), today());
        let is_noticed = outcome == Outcome::Noticed;
        self.0.push(Line { test: fault.test.clone(), text, is_noticed });
        self.0.sort_by(|a, b| a.text.cmp(&b.text));
    }

    /// Writes it.
    pub fn save(&self) -> Result<()> {
        let rows: String = self.0.iter().map(|line| format!("{}\n", line.text)).collect();
        Ok(std::fs::write(path(), format!("{HEAD}{rows}"))?)
    }
}

/// Returns the beginning of a row: a changed fault has another one.
fn row(fault: &Fault) -> String {
    format!("| `{}` | {} | `{}` ", fault.test, fault.breaks, fault.file.display())
}

fn path() -> PathBuf {
    root().join("docs/evidence/FAULTS.md")
}

fn today() -> String {
    let mut date = Command::new("date");
    date.arg("+%Y-%m-%d");
    // A row without a date is better than none.
    capture(date).map_or_else(|_| String::new(), |date| date.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_kept_until_its_fault_is_changed_and_only_what_was_noticed_is_proved() {
        let fault = |breaks: &str| Fault {
            defect: None,
            test: "arp_answers".into(),
            breaks: breaks.into(),
            file: "crates/net/src/ip/arp.rs".into(),
            find: "a".into(),
            replace: "b".into(),
        };
        for outcome in Outcome::ALL {
            let mut table = Table(Vec::new());
            table.set(&fault("no answer"), outcome, "0123456789");
            table.keep(&[fault("no answer")]);
            assert_eq!(table.has(&fault("no answer")), outcome == Outcome::Noticed);
            assert!(table.0[0].text.contains(&format!("`crates/net/src/ip/arp.rs` | {} |", outcome.words())));
            table.keep(&[fault("another answer")]);
            assert!(table.0.is_empty());
        }
    }
}
