//! `docs/reference/LIMITS.md` names tests that exist, in the order of the modules; so do `docs/evidence/ATTACKS.md` and `docs/evidence/CONFORMANCE.md`.

use crate::{Source, root, sources};

#[test]
fn each_limit_and_each_attack_names_tests_that_exist() {
    let sources = sources("crates");
    for row in limits().into_iter().chain(attacks()) {
        assert!(!tests(&row).is_empty(), "no test is about {}: {}", row[0], row[1]);
        assert_tests_exist(&row, &sources);
    }
}

#[test]
fn each_must_of_rfc_9293_has_its_row_and_names_tests_that_exist() {
    let rows: Vec<_> =
        rows("docs/evidence/CONFORMANCE.md").into_iter().filter(|row| row.len() == 4).collect();
    let sources = sources("crates");
    rows.iter().for_each(|row| assert_tests_exist(row, &sources));
    let mut musts: Vec<u8> =
        rows.iter().flat_map(|row| row[0].split(", ")).map(|must| must.parse().unwrap()).collect();
    musts.sort_unstable();
    assert_eq!(musts, (1..=69).collect::<Vec<_>>());
}

#[test]
fn what_is_said_of_linux_names_tests_that_exist() {
    let rows: Vec<_> = rows("docs/evidence/INTEROP.md").into_iter().filter(|row| row.len() == 2).collect();
    assert!(rows.len() >= 10);
    let sources = sources("crates");
    rows.iter().for_each(|row| assert_tests_exist(row, &sources));
}

/// The tests and commands that the last cell of a row names.
fn tests(row: &[String]) -> Vec<&str> {
    row.last().unwrap().split('`').skip(1).step_by(2).collect()
}

fn assert_tests_exist(row: &[String], sources: &[Source]) {
    for test in tests(row).into_iter().filter(|name| !name.starts_with("cargo ")) {
        let definition = format!("fn {test}(");
        let exists = sources.iter().any(|source| source.text.contains(&definition));
        assert!(exists, "{}: no test is called {test}", row[0]);
    }
}

#[test]
fn limits_are_sorted_by_module() {
    let modules: Vec<String> = limits().into_iter().map(|row| row[0].clone()).collect();
    assert!(modules.is_sorted(), "{modules:?}");
}

/// The cells of each row: module, what, bound, when full, counter, tests.
fn limits() -> Vec<Vec<String>> {
    let rows = rows("docs/reference/LIMITS.md");
    assert!(rows.iter().all(|row| row.len() == 6) && rows.len() > 50, "a table of six columns");
    rows
}

/// Attack, what becomes of it, tests; or attack, volume, outcome, tests. A defect has its number first, and behind its test
/// the fault, which is left out.
fn attacks() -> Vec<Vec<String>> {
    let mut rows = rows("docs/evidence/ATTACKS.md");
    rows.iter_mut().filter(|row| row[0].parse::<u8>().is_ok()).for_each(|row| row.truncate(3));
    assert!(
        rows.iter().all(|row| matches!(row.len(), 3 | 4)) && rows.len() > 15,
        "tables of three and four columns"
    );
    rows
}

/// The rows of a document's tables, without their heads, which stand above a line of dashes.
fn rows(document: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let lines = text.lines().zip(text.lines().skip(1).chain([""]));
    let rows = lines.filter(|(line, next)| line.starts_with("| ") && !next.starts_with("|---"));
    let rows = rows.map(|(line, _)| line);
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.map(cells).collect()
}
