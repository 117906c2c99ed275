//! The house's own rules: dependencies between crates, files with unsafe code, lengths of files.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod arrows;
mod features;
mod harness;
mod kinds;
mod layers;
mod limits;
mod links;
mod reference;
mod style;
mod unsafe_files;
mod words;

use std::path::{Path, PathBuf};

/// The project's top directory.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// A Rust file of ours.
struct Source {
    /// From the top directory.
    path: String,
    text: String,
}

/// All Rust files below `dir`, by name.
fn sources(dir: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut dirs = vec![root().join(dir)];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                sources.push(Source { path: name, text: std::fs::read_to_string(&path).unwrap() });
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}
