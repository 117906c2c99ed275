//! `docs/LIMITS.md` names tests that exist, in the order of the modules.

use crate::{root, sources};

#[test]
fn each_limit_names_tests_that_exist() {
    let sources = sources("crates");
    for row in rows() {
        let tests: Vec<&str> = row.last().unwrap().split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test fills {}: {}", row[0], row[1]);
        for test in tests {
            let definition = format!("fn {test}(");
            let exists = sources.iter().any(|source| source.text.contains(&definition));
            assert!(exists, "{}: no test is called {test}", row[0]);
        }
    }
}

#[test]
fn limits_are_sorted_by_module() {
    let modules: Vec<String> = rows().into_iter().map(|row| row[0].clone()).collect();
    assert!(modules.is_sorted(), "{modules:?}");
}

/// The cells of each row: module, what, bound, when full, counter, tests.
fn rows() -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join("docs/LIMITS.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    let rows: Vec<Vec<String>> = rows.map(cells).collect();
    assert!(rows.iter().all(|row| row.len() == 6) && rows.len() > 50, "a table of six columns");
    rows
}
