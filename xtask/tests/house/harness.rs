//! Test binaries that bring their own harness list their tests.

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
    assert!(binaries > 10, "{binaries} are few");
}

/// The names of the test binaries with `harness = false`.
fn with_their_own_harness(manifest: &str) -> impl Iterator<Item = &str> {
    let tables = manifest.split("[[test]]").skip(1);
    let own = tables.filter(|table| table.contains("harness = false"));
    own.filter_map(|table| table.split('"').nth(1))
}
