//! The server side of the admin API.

mod firewall;
mod routes;
mod socket;
mod sockets;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::stack::Stack;

pub use socket::BindError;

/// A bound control socket. The path is removed when this is dropped.
#[derive(Debug)]
pub struct Server {
    socket: socket::Bound,
}

impl Server {
    /// Binds the socket with mode 0660. One left over by a process that is gone is replaced.
    ///
    /// # Errors
    /// Another pantala listens there, or the operating system refuses.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        Ok(Self { socket: socket::Bound::new(path)? })
    }

    /// Serves `stack` until `stop` is ready. To be called on a single-threaded runtime: the thread that polls this is the
    /// only one that calls the stack.
    ///
    /// # Errors
    /// The socket cannot be used with this runtime.
    pub async fn serve(
        &self,
        stack: Arc<Mutex<dyn Stack>>,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let listener = tokio::net::UnixListener::from_std(self.socket.listener()?)?;
        let door = Door { stack, pings: Arc::default() };
        tokio::select! {
            ended = axum::serve(listener, routes::router(door)) => ended,
            () = stop => Ok(()),
        }
    }
}

/// The stack as handlers see it. The lock is never contended (one thread), it only satisfies the compiler.
#[derive(Clone)]
pub(crate) struct Door {
    stack: Arc<Mutex<dyn Stack>>,
    pub(crate) pings: Arc<super::ping::Pings>,
}

impl Door {
    pub(crate) fn stack(&self) -> MutexGuard<'_, dyn Stack + 'static> {
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
