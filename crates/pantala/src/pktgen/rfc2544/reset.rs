//! The command that resets the device under test.

use core::time::Duration;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::procedure::Broken;
use super::record::Load;

/// The command that resets the device under test, in the middle of a trial.
pub(super) struct Reset<'c> {
    command: Option<&'c str>,
    at: Duration,
    begun_ms: Option<f64>,
    child: Option<Child>,
}

impl<'c> Reset<'c> {
    pub(super) fn new(load: Load, command: Option<&'c str>) -> Self {
        let at_ms = if let Load::Reset { at_ms, .. } = load { Some(at_ms) } else { None };
        let command = at_ms.and(command);
        Self { command, at: Duration::from_millis(at_ms.unwrap_or(0)), begun_ms: None, child: None }
    }

    /// Starts the command when its time has come.
    pub(super) fn poll(&mut self, begun: Instant) -> Result<(), Broken> {
        let Some(command) = self.command.filter(|_| begun.elapsed() >= self.at) else { return Ok(()) };
        self.command = None;
        self.begun_ms = Some(begun.elapsed().as_secs_f64() * 1000.0);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null());
        let child = shell
            .spawn()
            .map_err(|why| Broken::Failed(format!("--reset-command: cannot start a shell: {why}")))?;
        self.child = Some(child);
        Ok(())
    }

    /// Ends the test; a command that failed did not reset anything.
    pub(super) fn end(self) -> Result<Option<f64>, Broken> {
        let Some(mut child) = self.child else { return Ok(None) };
        match child.try_wait() {
            Ok(Some(status)) if !status.success() => {
                Err(Broken::Failed(format!("--reset-command ended with {status}: the device was not reset")))
            }
            _ => Ok(self.begun_ms),
        }
    }
}
