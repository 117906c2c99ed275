//! Waiting until the addresses of a stack can be used.

use core::net::IpAddr;
use core::time::Duration;
use std::io;

use super::Stack;
use crate::Mac;
use crate::daemon::locked;
use crate::sockets::wakers::block_on;

/// Why the addresses of a stack cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotReady {
    /// Duplicate address detection has found another host with the address.
    #[error(
        "address not available: {address} of interface {interface} is a duplicate{}; give one of the hosts another",
        .rival.map(|rival| format!(" of {rival}'s")).unwrap_or_default()
    )]
    Duplicate {
        /// The interface.
        interface: String,
        /// The address.
        address: IpAddr,
        /// The link address of the other host, if known.
        rival: Option<Mac>,
    },
    /// The time is over; what the stack still waits for.
    #[error("timed out: {0}")]
    TimedOut(String),
    /// The stack has ended.
    #[error("network down: {0}")]
    Ended(String),
}

impl From<NotReady> for io::Error {
    fn from(why: NotReady) -> Self {
        let kind = match why {
            NotReady::Duplicate { .. } => io::ErrorKind::AddrNotAvailable,
            NotReady::TimedOut(_) => io::ErrorKind::TimedOut,
            NotReady::Ended(_) => io::ErrorKind::NetworkDown,
        };
        Self::new(kind, why)
    }
}

impl Stack {
    /// Waits until the addresses of the stack can be used, on all its CPUs: then `bind` and `connect` find them, and packets
    /// from them are sent. Any executor can poll this.
    ///
    /// What is waited for, on each interface that is up and does not monitor:
    ///
    /// - its device, and the device's link: carrier, or the peer of a memif interface;
    /// - its configured addresses. IPv4 addresses, and IPv6 addresses without `autoconf`, are used at once, the latter while
    ///   duplicate address detection still runs (RFC 4429). With `autoconf`, IPv6 addresses are used when it is done;
    /// - with `autoconf` and no configured IPv6 address, one that a router's prefix has made. Without a router this waits for
    ///   ever; [`Self::wait_ready`] has a time limit.
    ///
    /// # Errors
    /// [`NotReady::Duplicate`] if another host has one of the configured addresses; [`NotReady::Ended`].
    pub async fn ready(&self) -> Result<(), NotReady> {
        let waiting = locked(&self.control).waiting();
        let mut looks = waiting.join();
        while self.waits_for()?.is_some() {
            // It is sent as long as `waiting` is there.
            let _ = looks.changed().await;
        }
        Ok(())
    }

    /// Blocks until [`Self::ready`], and no longer than `timeout`.
    ///
    /// # Errors
    /// As there, and [`NotReady::TimedOut`] with what is missing.
    pub fn wait_ready(&self, timeout: Duration) -> Result<(), NotReady> {
        if let Ok(ready) = block_on(Some(timeout), async { Ok(self.ready().await) }) {
            return ready;
        }
        match self.waits_for()? {
            Some(waits) => Err(NotReady::TimedOut(waits)),
            None => Ok(()),
        }
    }

    /// Returns what is waited for.
    fn waits_for(&self) -> Result<Option<String>, NotReady> {
        locked(&self.control).waits_for()
    }
}
