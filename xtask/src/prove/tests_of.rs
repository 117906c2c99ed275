//! Which program has a test, and how it is built.

use core::fmt;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::Fault;
use crate::run::root;

/// Tells cargo where to build.
const TARGET: &str = "CARGO_TARGET_DIR";

/// A program with tests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Binary {
    package: String,
    /// The name of an integration test; `None`: the library's own tests.
    test: Option<String>,
}

/// A line of cargo's.
#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Faults by the program that has their tests.
pub fn by_binary(faults: &[Fault]) -> Result<BTreeMap<Binary, Vec<Fault>>> {
    let sources = sources()?;
    let mut found: BTreeMap<Binary, Vec<Fault>> = BTreeMap::new();
    for fault in faults {
        let definition = format!("fn {}(", fault.test);
        let mut places = sources.iter().filter(|(_, text)| text.contains(&definition)).map(|(path, _)| path);
        let path = places.next().with_context(|| format!("no test is called {}", fault.test))?;
        let binary = Binary::of(path).with_context(|| path.display().to_string())?;
        ensure!(places.next().is_none(), "several tests are called {}", fault.test);
        found.entry(binary).or_default().push(fault.clone());
    }
    Ok(found)
}

impl Binary {
    /// That of a file: `crates/PACKAGE/src/…`, `crates/PACKAGE/tests/TEST.rs` or `crates/PACKAGE/tests/TEST/…`.
    fn of(path: &Path) -> Option<Self> {
        let mut parts = path.strip_prefix("crates").ok()?.components().map(|part| part.as_os_str().to_str());
        let package = parts.next()??.to_owned();
        let test = match parts.next()?? {
            "tests" => Some(parts.next()??.trim_end_matches(".rs").to_owned()),
            _ => None,
        };
        Some(Self { package, test })
    }

    /// The folder of its package, from the top.
    pub fn package(&self) -> PathBuf {
        Path::new("crates").join(&self.package)
    }

    /// Builds it, below `target/prove` if `CARGO_TARGET_DIR` does not say otherwise; where it is.
    pub fn build(&self, tree: &Path) -> Result<PathBuf> {
        println!("{self}");
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args([
            "test",
            "--no-run",
            "--message-format=json-render-diagnostics",
            "--quiet",
            "--package",
            &self.package,
        ]);
        match &self.test {
            Some(test) => command.args(["--test", test]),
            None => command.arg("--lib"),
        };
        // A folder that the environment names may have the dependencies already.
        if std::env::var_os(TARGET).is_none() {
            command.env(TARGET, root().join("target/prove/target"));
        }
        let output = command.current_dir(tree).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "it cannot be built with the faults in it");
        let wanted = self.test.as_ref().unwrap_or(&self.package);
        let messages = output.stdout.split(|byte| *byte == b'\n');
        let messages = messages.filter_map(|line| serde_json::from_slice::<Message>(line).ok());
        let programs = messages.filter(|message| message.target.as_ref().is_some_and(|t| t.name == *wanted));
        programs.filter_map(|message| message.executable).next_back().context("cargo has built no program")
    }
}

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.package, self.test.as_deref().unwrap_or("--lib"))
    }
}

/// The Rust files of the crates, from the top.
fn sources() -> Result<Vec<(PathBuf, String)>> {
    let (mut sources, mut dirs) = (Vec::new(), vec![root().join("crates")]);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path)?;
                sources.push((path.strip_prefix(root())?.to_owned(), text));
            }
        }
    }
    Ok(sources)
}
