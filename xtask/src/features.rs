//! FEATURES.toml, and the table of it in `docs/evidence/FEATURES.md`.

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::args::Args;
use crate::prove;
use crate::run::root;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Features {
    feature: Vec<Feature>,
}

/// One thing that pantala does, or will.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Feature {
    name: String,
    /// `RFC 791`, `IEEE 802.1Q`.
    #[serde(default)]
    specs: Vec<String>,
    state: State,
    /// The missing part, if it is partial.
    #[serde(default)]
    note: String,
    /// The name of the test that shows it; none only for what is planned.
    #[serde(default)]
    test: Option<String>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
enum State {
    Works,
    Partial,
    Planned,
}

const DOCUMENT: &str = "docs/evidence/FEATURES.md";
const BEGIN: &str = "<!-- features: written by `cargo xtask features` -->";
const END: &str = "<!-- features end -->";

/// `cargo xtask features`
pub fn command(args: &mut Args) -> Result<bool> {
    if args.flag("--prove") {
        return prove::command(args);
    }
    let only_check = args.flag("--check");
    args.finish()?;
    let path = root().join(DOCUMENT);
    let page = std::fs::read_to_string(&path)?;
    let fresh = replaced(&page, &table(&load()?))?;
    if fresh == page {
        println!("{DOCUMENT} has the table of FEATURES.toml");
    } else if only_check {
        eprintln!("{DOCUMENT} is not what FEATURES.toml says: run `cargo xtask features`");
        return Ok(false);
    } else {
        std::fs::write(&path, fresh)?;
        println!("{DOCUMENT}: table written");
    }
    Ok(true)
}

/// The names of the tests of all features.
#[cfg(test)]
pub fn tests() -> Result<Vec<String>> {
    Ok(load()?.into_iter().filter_map(|feature| feature.test).collect())
}

fn load() -> Result<Vec<Feature>> {
    let text = std::fs::read_to_string(root().join("FEATURES.toml"))?;
    Ok(toml::from_str::<Features>(&text).context("FEATURES.toml")?.feature)
}

fn table(features: &[Feature]) -> String {
    let mut table = String::from("| | what | by | shown by |\n|---|---|---|---|\n");
    for state in [State::Works, State::Partial, State::Planned] {
        for feature in features.iter().filter(|feature| feature.state == state) {
            table.push_str(&line(feature));
        }
    }
    table
}

fn line(feature: &Feature) -> String {
    let Feature { name, specs, state, note, test } = feature;
    let note = if note.is_empty() { String::new() } else { format!("; {note}") };
    let test = test.as_ref().map_or_else(String::new, |test| format!("`{test}`"));
    format!("| {} | {name}{note} | {} | {test} |\n", state.word(), specs.join(", "))
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Partial => "partly",
            Self::Planned => "**not yet**",
        }
    }
}

fn replaced(page: &str, table: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).context("the page has no place for the table")?;
    let (_, after) = rest.split_once(END).context("the table's place has no end")?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

/// The text of all Rust files of the crates.
#[cfg(test)]
pub fn sources() -> Vec<String> {
    let mut texts = Vec::new();
    let mut dirs = vec![root().join("crates")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                texts.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_features_has_the_table_of_features_toml() {
        let page = std::fs::read_to_string(root().join(DOCUMENT)).unwrap();
        assert!(
            page == replaced(&page, &table(&load().unwrap())).unwrap(),
            "{DOCUMENT} is not what FEATURES.toml says: run `cargo xtask features`"
        );
    }

    #[test]
    fn what_works_names_a_test_that_exists() {
        let sources = sources();
        for feature in load().unwrap() {
            match (&feature.test, feature.state) {
                (None, State::Planned) => {}
                (None, _) => panic!("no test shows `{}`", feature.name),
                (Some(test), State::Planned) => panic!("`{}` is planned, but {test} shows it", feature.name),
                (Some(test), _) => {
                    let definition = format!("fn {test}(");
                    assert!(
                        sources.iter().any(|text| text.contains(&definition)),
                        "no test is called {test}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_partial_says_what_is_missing() {
        for feature in load().unwrap().iter().filter(|feature| feature.state == State::Partial) {
            assert!(!feature.note.is_empty(), "what is missing of `{}`?", feature.name);
        }
    }
}
