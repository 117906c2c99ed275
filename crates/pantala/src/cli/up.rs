//! `up -c FILE`: the stack itself.

use std::path::{Path, PathBuf};

use super::Failure;
use crate::config::ConfigError;
use crate::daemon::log::{self, Level};
use crate::{StackError, daemon};

pub(crate) fn run(file: &Path, socket: Option<PathBuf>, force: bool, level: Level) -> Result<(), Failure> {
    log::to_stderr(level);
    daemon::up(file, socket, force).map_err(|why| failure(file, why))
}

/// Explains to the user why a stack did not run.
pub(super) fn failure(file: &Path, why: StackError) -> Failure {
    match why {
        StackError::Config(ConfigError::Wrong(problems)) => Failure::Misconfigured(problems.to_string()),
        StackError::Misfit(text) => Failure::Misconfigured(format!("{}: {text}", file.display())),
        other => Failure::Failed(other.to_string()),
    }
}
