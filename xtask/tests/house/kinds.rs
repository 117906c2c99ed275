//! `docs/reference/INTERFACE-KINDS.md` has each kind of interface, each feature, and the test of each pair.

use std::collections::BTreeSet;

use crate::root;

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The words of a text between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn each_kind_of_interface_has_a_test_with_each_feature_and_the_page_names_them_all() {
    let (page, worlds) =
        (read("docs/reference/INTERFACE-KINDS.md"), read("crates/sim/tests/worlds/kinds.rs"));
    let (_, list) = worlds.split_once("kinds! {\n").unwrap();
    let (list, _) = list.split_once("\n}").unwrap();
    let kinds = list.lines().map(|line| line.trim().split(':').next().unwrap());
    let (_, tests) = worlds.split_once("macro_rules! kinds").unwrap();
    let (tests, _) = tests.split_once("\n}\n").unwrap();
    let tests: Vec<&str> = tests.split("#[test]").skip(1).map(|test| between(test, "fn ", "()")).collect();
    assert_eq!(tests.len(), 5, "{tests:?}");
    let pairs: BTreeSet<String> =
        kinds.flat_map(|kind| tests.iter().map(move |test| format!("kinds::{kind}::{test}"))).collect();
    let (_, table) = page.split_once("## Each pair\n").unwrap();
    assert_eq!(quoted(table).map(str::to_owned).collect::<BTreeSet<_>>(), pairs);
}

/// A word as it stands in front of what it needs.
fn device(word: &str) -> String {
    if word == "lo" { word.to_owned() } else { format!("{word}:") }
}

#[test]
fn each_word_for_a_device_is_of_a_kind() {
    let (page, devices) =
        (read("docs/reference/INTERFACE-KINDS.md"), read("crates/pantala/src/config/device.rs"));
    let words = between(&devices, "const DRIVERS: &[&str] = &[", "];");
    let words: BTreeSet<String> = words.split('"').skip(1).step_by(2).map(device).collect();
    assert!(words.len() > 10, "{words:?}");
    let known: BTreeSet<String> =
        quoted(&page).filter(|word| word.ends_with(':') || *word == "lo").map(str::to_owned).collect();
    assert_eq!(known, words);
}

fn between<'t>(text: &'t str, begin: &str, end: &str) -> &'t str {
    let (_, rest) = text.split_once(begin).unwrap();
    rest.split(end).next().unwrap()
}
