//! The arrows between the crates, as `cargo metadata` sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde::Deserialize;

use crate::root;

/// For each crate, the crates of this workspace that it may depend on, also for its tests.
const ALLOWED: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("diagnostic", &[]),
    ("harness", &[]),
    ("ipfw", &["diagnostic", "wire"]),
    ("drill", &["diagnostic", "harness"]),
    ("pkt", &[]),
    ("base", &["pkt", "wire"]),
    ("tcb", &["base", "wire"]),
    ("net", &["base", "ipfw", "pkt", "tcb", "wire"]),
    ("sim", &["drill", "harness", "ipfw", "net", "pkt", "wire"]),
    ("packetdrill", &["drill", "harness", "sim", "wire"]),
    ("program", &["wire"]),
    ("preload", &["program", "wire"]),
    ("dev", &["harness", "net", "pkt", "testbed", "wire"]),
    ("testbed", &["dev"]),
    (
        "pantala",
        &["dev", "diagnostic", "drill", "harness", "ipfw", "net", "pkt", "program", "sim", "testbed", "wire"],
    ),
    ("manual", &["pantala"]),
    ("bench", &["dev", "ipfw", "net", "pantala", "pkt", "testbed", "wire"]),
    ("xtask", &[]),
];

/// Crates that are pure functions: what they may use from elsewhere stands here, so that it stays little.
const FOREIGN: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("diagnostic", &[]),
    ("ipfw", &[]),
    ("drill", &[]),
    ("base", &["siphasher"]),
    ("tcb", &[]),
    ("net", &["hashbrown", "md5", "siphasher"]),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `None` for an ordinary one, else `dev` or `build`.
    kind: Option<String>,
}

#[test]
fn no_crate_depends_on_one_that_it_must_not_know() {
    let crates = crates();
    let ours: BTreeSet<&str> = crates.keys().map(String::as_str).collect();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    assert_eq!(ours, allowed.keys().copied().collect(), "every crate has its line in ALLOWED");
    for (name, dependencies) in &crates {
        for dependency in dependencies.iter().filter(|dependency| ours.contains(&*dependency.name)) {
            assert!(
                allowed[&**name].contains(&&*dependency.name),
                "{name} must not depend on {}: see ARCHITECTURE.md",
                dependency.name
            );
        }
    }
}

#[test]
fn pure_crates_use_little_from_elsewhere() {
    let crates = crates();
    for (name, allowed) in FOREIGN {
        let ordinary = crates[*name].iter().filter(|dependency| dependency.kind.is_none());
        let foreign = ordinary.map(|dependency| &*dependency.name).filter(|name| !crates.contains_key(*name));
        let foreign: BTreeSet<&str> = foreign.collect();
        assert_eq!(foreign, allowed.iter().copied().collect(), "libraries of {name}");
    }
}

/// The crates of this workspace and what they depend on.
fn crates() -> BTreeMap<String, Vec<Dependency>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).unwrap();
    metadata.packages.into_iter().map(|package| (package.name, package.dependencies)).collect()
}
