//! Test binaries that bring their own harness list their tests.

use std::path::Path;

use crate::{root, sources};

/// The standard attribute is compiled to nothing there: such a test would never run, and nothing would say so.
#[test]
fn no_test_vanishes_from_a_binary_with_its_own_harness() {
    let mut binaries = 0;
    for package in std::fs::read_dir(root().join("crates")).unwrap() {
        let package = package.unwrap().path();
        let manifest = std::fs::read_to_string(package.join("Cargo.toml")).unwrap_or_default();
        let tests = format!("{}/tests", package.strip_prefix(root()).unwrap().display());
        for binary in with_their_own_harness(&manifest) {
            binaries += 1;
            let (file, folder) = (format!("{tests}/{binary}.rs"), format!("{tests}/{binary}/"));
            for source in sources(&tests).iter().filter(|s| s.path == file || s.path.starts_with(&folder)) {
                let lost = source.text.lines().any(|line| line.trim_start().starts_with("#[test]"));
                assert!(!lost, "{}: `harness::tests![…]` lists tests here, not `#[test]`", source.path);
            }
        }
    }
    assert!(binaries > 5, "{binaries} are few");
}

/// The names of the test binaries with `harness = false`.
fn with_their_own_harness(manifest: &str) -> impl Iterator<Item = &str> {
    let tables = manifest.split("[[test]]").skip(1);
    let own = tables.filter(|table| table.contains("harness = false"));
    own.filter_map(|table| table.split('"').nth(1))
}

/// Integration-test binaries there may be: each is linked with all that it tests.
const BINARIES_MAX: usize = 12;

/// Whether there is such a test binary in a package, and it is not for a model checker alone.
fn is_built(package: &Path, test: &Path) -> bool {
    let manifest = std::fs::read_to_string(package.join("Cargo.toml")).unwrap();
    let name = test.file_name().unwrap().to_string_lossy().into_owned();
    test.join("main.rs").is_file() && !manifest.contains(&format!("name = \"{name}\"\nrequired-features"))
}

#[test]
fn there_are_at_most_a_dozen_integration_test_binaries() {
    let mut binaries = Vec::new();
    let packages = std::fs::read_dir(root().join("crates")).unwrap().map(|package| package.unwrap().path());
    for tests in packages.chain(["bench", "xtask"].map(|package| root().join(package))) {
        let Ok(entries) = std::fs::read_dir(tests.join("tests")) else { continue };
        let paths = entries.map(|entry| entry.unwrap().path());
        binaries.extend(paths.filter(|path| {
            path.extension().is_some_and(|extension| extension == "rs") || is_built(&tests, path)
        }));
    }
    assert!(binaries.len() <= BINARIES_MAX, "{} are many: {binaries:#?}", binaries.len());
    assert!(binaries.len() >= 8, "{binaries:#?}");
}
