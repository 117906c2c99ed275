//! SIGINT and SIGTERM end the stack, SIGHUP makes it read its configuration again.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::control::Control;
use super::{locked, log};
use crate::api::stack::Stack;

/// The signals that are listened to, from when this is made.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// To be called inside of a runtime. Signals that come before [`Self::obey`] are kept.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Returns when it is time to end.
    pub(crate) async fn obey(mut self, control: &Arc<Mutex<Control>>) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = self.hang_up.recv() => reload(control),
            }
        }
    }
}

fn reload(control: &Mutex<Control>) {
    match locked(control).reload() {
        Ok(reloaded) if reloaded.changes.is_empty() => log::info("reloaded: nothing differs"),
        Ok(reloaded) => reloaded.changes.iter().for_each(|change| log::info(&format!("reloaded: {change}"))),
        Err(error) if error.hint.is_empty() => log::error(&format!("not reloaded: {error}")),
        Err(error) => log::error(&format!("not reloaded: {error}; {}", error.hint)),
    }
}
