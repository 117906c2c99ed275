//! Test programs of the workspace: built by cargo, asked for their tests, and run without it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::run::{capture, cargo};

/// A test program.
pub struct Program {
    /// The name of its target.
    pub name: String,
    executable: PathBuf,
    /// The folder of its package, in which cargo runs it.
    folder: PathBuf,
    /// Paths of its tests.
    pub tests: Vec<String>,
    /// Whether it takes several names of tests; the harness of ours takes one.
    pub takes_several: bool,
}

/// A line that cargo prints of what it has built.
#[derive(Deserialize)]
struct Line {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    executable: Option<PathBuf>,
    profile: Option<Profile>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds all test programs of the workspace, as `cargo test --workspace` does.
pub fn build() -> Result<Vec<Program>> {
    let lines = capture(cargo([
        "test",
        "--workspace",
        "--no-run",
        "--quiet",
        "--message-format=json-render-diagnostics",
    ]))?;
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let programs = lines.filter(|line| line.reason == "compiler-artifact").filter_map(Program::read);
    programs.map(Program::listed).collect()
}

impl Program {
    fn read(line: Line) -> Option<Self> {
        let (target, executable) = (line.target?, line.executable?);
        let is_test = line.profile?.test && !target.kind.iter().any(|kind| kind == "bench");
        let folder = line.manifest_path?.parent()?.to_path_buf();
        let takes_several = !uses_our_harness(&target.src_path);
        is_test.then_some(Self { name: target.name, executable, folder, tests: Vec::new(), takes_several })
    }

    /// Asks it for the paths of its tests.
    fn listed(mut self) -> Result<Self> {
        let mut command = Command::new(&self.executable);
        command.args(["--list", "--format", "terse"]).current_dir(&self.folder);
        let list = capture(command).with_context(|| format!("the tests of {}", self.name))?;
        self.tests = list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect();
        Ok(self)
    }

    /// The command that runs these of its tests, or all.
    pub fn command(&self, tests: &[&String], is_whole: bool) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder);
        if !is_whole {
            command.arg("--exact").args(tests);
        }
        command
    }
}

fn uses_our_harness(source: &Path) -> bool {
    std::fs::read_to_string(source).is_ok_and(|text| text.contains("harness::main!"))
}
