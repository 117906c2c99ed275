//! Being interrupted: for commands that must put something back before they end.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// The user's request to end the command.
#[derive(Clone)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Set by SIGINT and SIGTERM, so that everything is put back before the program ends. A second signal ends it at
    /// once.
    pub(crate) fn on_signals() -> std::io::Result<Self> {
        let stop = Self(Arc::default());
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop.0))?;
            signal_hook::flag::register(signal, Arc::clone(&stop.0))?;
        }
        Ok(stop)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
