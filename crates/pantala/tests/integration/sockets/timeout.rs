//! Time limit of a body's wait for a socket that has none itself.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
use std::sync::Mutex;

#[derive(Default)]
pub(crate) struct Patience {
    is_nonblocking: AtomicBool,
    timeout: Mutex<Option<Duration>>,
}

impl Patience {
    /// As long as this; no time at all is not to wait.
    pub(crate) fn limit(&self) -> Option<Duration> {
        let now = self.is_nonblocking.load(Ordering::Relaxed).then_some(Duration::ZERO);
        now.or_else(|| *self.timeout.lock().unwrap())
    }

    /// No time at all is not a timeout.
    pub(crate) fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        if timeout == Some(Duration::ZERO) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        *self.timeout.lock().unwrap() = timeout;
        Ok(())
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.is_nonblocking.store(nonblocking, Ordering::Relaxed);
    }
}
