//! Sockets of a stack for a program's threads and tasks: used as those of the kernel are, from any thread.
//!
//! ```text
//!   threads, tasks ── Stream, Listener ── lanes ── netisrs          bytes: no lock that another thread holds, no call
//!         ▲                    ▲    └──── commands ────▲            to connect, to close, when a caller waits
//!         └── woken ── reactor thread ◀── events ──────┘
//! ```
//!
//! What a thread sends it copies into a ring that the connection's netisr reads, and what has come it copies from another
//! ([`net::channel`]). Waiting callers are woken by one thread, which hears the events of all netisrs.
//!
//! | module | what it is |
//! |---|---|
//! | [`blocking`] | sockets as in `std::net` |
//! | [`aio`] | sockets as in `tokio::net` |
//! | `hyper` | a connector for the HTTP clients of hyper-util (feature `hyper`) |
//! | [`PacketSocket`] | whole frames, as `packet(7)` and `bpf(4)` |
//! | [`Options`] | options that a socket has from its beginning |
//!
//! A program on the netisr needs none of it: it calls what these stand on ([`net::app`]), and [`io_error`] says its errors
//! as these do.

mod addrs;
pub mod aio;
pub mod blocking;
mod builder;
mod endpoint;
mod error;
#[cfg(feature = "hyper")]
pub mod hyper;
mod listener;
mod options;
mod packet;
mod reactor;
mod socket;
mod stream;
mod tcp;
mod dgram_events;
mod udp;
pub(crate) mod wakers;

use std::io;
use std::sync::Arc;

use net::channel::Size;
use net::msg::Remote;

use self::endpoint::Endpoint;
pub use self::error::of as io_error;
pub use self::options::{KeepAlive, Options};
pub use self::packet::{Frame, PacketSocket};
pub use self::udp::{PktInfo, Received, Undelivered};

/// A program's channels to all netisrs of a stack. Whatever uses them keeps them open: sockets may outlive this, and the
/// stack; then they say that the network is down.
#[derive(Clone)]
pub struct Sockets {
    endpoint: Arc<Endpoint>,
}

impl Sockets {
    /// Opens a channel to each of these netisrs, which are all of a stack: [`crate::Stack::remotes`]. Not to be called on a
    /// netisr's thread.
    ///
    /// # Errors
    ///
    /// A netisr has ended or serves as many programs as it can, or there is no memory for channels.
    pub fn open(remotes: &[Remote]) -> io::Result<Self> {
        reactor::start(remotes, Size::default()).map(|endpoint| Self { endpoint })
    }
}

impl core::fmt::Debug for Sockets {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sockets").field("cpus", &self.endpoint.cpus()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
