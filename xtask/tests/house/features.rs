//! The library without its default features: the crates that it builds.

use std::collections::BTreeSet;
use std::process::Command;

use crate::root;

/// Crates of the command line, of HTTP, and of the laboratory.
const PROGRAM: [&str; 14] = [
    "axum",
    "clap",
    "drill",
    "hdrhistogram",
    "http",
    "http-body-util",
    "httpdate",
    "hyper",
    "hyper-util",
    "serde_json",
    "sha2",
    "signal-hook",
    "sim",
    "tower-service",
];

#[test]
fn a_program_that_embeds_the_stack_builds_neither_clap_nor_axum() {
    let built = tree(&["--no-default-features"]);
    assert!(built.contains("net") && built.contains("tokio"), "{built:?}");
    let found: Vec<_> = PROGRAM.iter().filter(|name| built.contains(**name)).collect();
    assert!(found.is_empty(), "built without default features: {found:?}");
}

#[test]
fn the_web_server_and_the_connector_are_had_without_the_command_line() {
    for feature in ["web", "hyper"] {
        let built = tree(&["--no-default-features", "--features", feature]);
        assert!(!built.contains("clap") && !built.contains("axum"), "{feature}: {built:?}");
    }
    let built = tree(&[]);
    assert!(built.contains("clap") && built.contains("axum"), "the program has them: {built:?}");
}

/// The names of the crates that `pantala` is built from.
fn tree(features: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--package", "pantala", "--edges", "normal", "--prefix", "none", "--offline"])
        .args(features)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}
