//! `ATF.toml`: files of the suite, their cases, and what shows each.

use core::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::run::root;

/// The cases by file.
pub struct Map {
    pub files: Vec<File>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    file: Vec<FileText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    /// `folder/file`.
    name: String,
    /// Cases of the suite in this file, at the least.
    cases: usize,
    case: Vec<CaseText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseText {
    name: String,
    /// `4`, `6` or `46`: in which families the tests show it; empty if it is about neither.
    #[serde(default)]
    ip: String,
    /// Cases of the suite that this line stands for.
    #[serde(default = "one")]
    count: usize,
    /// Tests that show it.
    #[serde(default)]
    test: Vec<String>,
    /// How ours differs from the case of the suite.
    #[serde(default)]
    note: String,
    /// The feature that is not there.
    #[serde(default)]
    missing: String,
    /// The reason why it does not apply.
    #[serde(default)]
    na: String,
}

const fn one() -> usize {
    1
}

/// A file of the suite.
pub struct File {
    pub cases: Vec<Case>,
}

/// A case.
pub struct Case {
    /// `folder/file:case`.
    pub name: String,
    /// `IPv4` and `IPv6`, or neither.
    pub families: Vec<&'static str>,
    /// Cases of the suite that it stands for.
    pub count: usize,
    pub state: State,
    pub note: String,
}

/// What shows a case.
pub enum State {
    Tests(Vec<String>),
    /// The feature is not there.
    Missing(String),
    /// Why it does not apply.
    NotApplicable(String),
}

impl Map {
    pub fn load() -> Result<Self> {
        Self::read(&std::fs::read_to_string(root().join("ATF.toml"))?).context("ATF.toml")
    }

    fn read(text: &str) -> Result<Self> {
        let text: Text = toml::from_str(text)?;
        let files = text.file.into_iter().map(File::read).collect::<Result<Vec<_>>>()?;
        let mut names: Vec<&str> =
            files.iter().flat_map(|file| &file.cases).map(|case| &*case.name).collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        ensure!(twice.is_none(), "{} is there twice", twice.map_or("", |pair| pair[0]));
        Ok(Self { files })
    }

    pub fn cases(&self) -> impl Iterator<Item = &Case> {
        self.files.iter().flat_map(|file| &file.cases)
    }

    /// The table of the page, with sums.
    pub fn table(&self) -> String {
        let sum = |is: fn(&State) -> bool| -> usize {
            self.cases().filter(|case| is(&case.state)).map(|case| case.count).sum()
        };
        let shown = sum(|state| matches!(state, State::Tests(_)));
        let missing = sum(|state| matches!(state, State::Missing(_)));
        let others = sum(|state| matches!(state, State::NotApplicable(_)));
        let named: usize = self.cases().filter(|case| case.is_shown()).map(|case| case.names().len()).sum();
        let mut table = format!(
            "Of {} cases of the suite, {shown} are shown by tests, {missing} belong to features that are missing, and {others} do \
             not apply. With each family counted, those shown are {named}.\n\n| case | family | shown by |\n|---|---|---|\n",
            shown + missing + others
        );
        for case in self.cases() {
            let _ = writeln!(table, "{}", case.line());
        }
        table
    }
}

impl File {
    fn read(text: FileText) -> Result<Self> {
        let FileText { name, cases: least, case } = text;
        let cases = case.into_iter().map(|case| case.read(&name)).collect::<Result<Vec<_>>>()?;
        let count: usize = cases.iter().map(|case| case.count).sum();
        ensure!(count >= least, "{name} has {least} cases, and {count} are listed");
        Ok(Self { cases })
    }
}

impl CaseText {
    fn read(self, file: &str) -> Result<Case> {
        let name = format!("{file}:{}", self.name);
        let state = match (self.test.is_empty(), self.missing.is_empty(), self.na.is_empty()) {
            (false, true, true) => State::Tests(self.test),
            (true, false, true) => State::Missing(self.missing),
            (true, true, false) => State::NotApplicable(self.na),
            _ => anyhow::bail!("{name} needs either `test`, `missing` or `na`"),
        };
        let families = match &*self.ip {
            "" => vec![],
            "4" => vec!["IPv4"],
            "6" => vec!["IPv6"],
            "46" => vec!["IPv4", "IPv6"],
            other => anyhow::bail!("{name}: `ip` is 4, 6 or 46, not {other}"),
        };
        Ok(Case { name, families, count: self.count, state, note: self.note })
    }
}

impl Case {
    pub const fn is_shown(&self) -> bool {
        matches!(self.state, State::Tests(_))
    }

    /// Its names: one for each family.
    pub fn names(&self) -> Vec<String> {
        match &*self.families {
            [first, second] => [first, second].map(|family| format!("{} [{family}]", self.name)).into(),
            _ => vec![self.name.clone()],
        }
    }

    fn line(&self) -> String {
        let shown = match &self.state {
            State::Tests(tests) => {
                tests.iter().map(|test| format!("`{test}`")).collect::<Vec<_>>().join(", ")
            }
            State::Missing(what) => format!("**missing**: {what}"),
            State::NotApplicable(why) => format!("does not apply: {why}"),
        };
        let note = if self.note.is_empty() { String::new() } else { format!("; {}", self.note) };
        let times = if self.count > 1 { format!(" ({} cases)", self.count) } else { String::new() };
        format!("| {}{times} | {} | {shown}{note} |", self.name, self.families.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_of_the_map_name_tests_that_exist() {
        let sources = crate::features::sources();
        for case in Map::load().unwrap().cases() {
            let State::Tests(tests) = &case.state else { continue };
            for test in tests {
                let definition = format!("fn {test}(");
                assert!(
                    sources.iter().any(|text| text.contains(&definition)),
                    "{}: no test is called {test}",
                    case.name
                );
            }
        }
    }

    #[test]
    fn a_map_with_a_hole_is_refused() {
        let file = |rest: &str| format!("[[file]]\nname = \"a/b\"\n{rest}");
        let refusal = |rest: &str| Map::read(&file(rest)).err().map(|error| format!("{error:#}")).unwrap();
        assert_eq!(
            refusal("cases = 2\ncase = [{ name = \"c\", na = \"d\" }]"),
            "a/b has 2 cases, and 1 are listed"
        );
        assert!(refusal("cases = 1\ncase = [{ name = \"c\" }]").contains("needs either"));
        let twice = "cases = 1\ncase = [{ name = \"c\", na = \"d\" }, { name = \"c\", missing = \"d\" }]";
        assert_eq!(refusal(twice), "a/b:c is there twice");
    }

    #[test]
    fn a_case_of_both_families_has_two_names() {
        let map = Map::read(
            "[[file]]\nname = \"a/b\"\ncases = 2\ncase = [{ name = \"c\", ip = \"46\", test = [\"t\"], count = 2 }]",
        );
        let case = &map.unwrap().files[0].cases[0];
        assert_eq!(case.names(), ["a/b:c [IPv4]", "a/b:c [IPv6]"]);
        assert_eq!(case.line(), "| a/b:c (2 cases) | IPv4, IPv6 | `t` |");
    }
}
