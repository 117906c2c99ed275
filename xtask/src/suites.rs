//! Conformance suites of others, which are not part of the project. They are found in `../shared`, beside the repository, or
//! where the environment says.

use std::path::PathBuf;
use std::process::Command;

use crate::run;

/// A suite of others.
pub struct Suite {
    /// Variable of the environment that says where it is.
    pub variable: &'static str,
    /// Where it is beside the repository.
    folder: &'static str,
}

/// Scripts of packetdrill, which tests of `drill` and `sim` run.
pub const SCRIPTS: Suite = Suite { variable: "DRILL_SCRIPTS", folder: "../shared/packetdrill/freebsd" };
/// Sequences of frames for IPv6 hosts, which `cargo xtask tahi` plays.
pub const SEQUENCES: Suite = Suite { variable: "PANTALA_TAHI", folder: "../shared/tahi" };

impl Suite {
    /// Where it is, if it is there: what the environment says goes before the folder beside the repository.
    pub fn path(&self) -> Option<PathBuf> {
        let said = std::env::var_os(self.variable).map(PathBuf::from);
        said.or_else(|| std::fs::canonicalize(run::root().join(self.folder)).ok())
    }

    /// Names it to the tests that a command runs. Without it they are skipped, and say so.
    pub fn name_to(&self, command: &mut Command) {
        if let Some(path) = self.path() {
            command.env(self.variable, path);
        }
    }

    /// Why it is skipped.
    pub fn missing(&self) -> String {
        format!("neither {} says where it is nor is there {}", self.variable, self.folder)
    }
}
