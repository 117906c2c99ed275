//! The server side of the admin API.

mod accept;
mod body;
pub(crate) mod http;
mod live;
pub(in crate::api) mod requests;
pub(in crate::api) mod routes;
mod socket;
mod sockets;
mod stall;

use core::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};

use super::stack::Stack;
use accept::Limits;
use body::Bodies;
use http::HttpCounters;
use live::Readers;

pub(crate) use socket::Bound;
pub use socket::{Access, BindError};

/// Bound control sockets: one for everything, and perhaps one that only shows. Their paths are removed when this is dropped.
#[derive(Debug)]
pub struct Server {
    socket: Bound,
    /// Its users see everything, and change nothing.
    read_only: Option<Bound>,
}

impl Server {
    /// Binds the socket with mode 0660. One left over by a process that is gone is replaced; one of a process that is just
    /// ending is waited for.
    ///
    /// # Errors
    /// Another pantala listens there, or the operating system refuses.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        Self::bind_for(path, &Access::default())
    }

    /// Binds for the users that `access` admits. The socket never exists with another mode than theirs.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn bind_for(path: &Path, access: &Access) -> Result<Self, BindError> {
        Ok(Self { socket: Bound::new(path, access)?, read_only: None })
    }

    /// Binds a second socket, at which requests that change anything are refused.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn and_read_only(self, path: &Path, access: &Access) -> Result<Self, BindError> {
        Ok(Self { read_only: Some(Bound::new(path, access)?), ..self })
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
        let (stack, limits) = (SharedStack::new(stack, None), Limits::default());
        let bodies = Bodies::new(limits);
        let all = routes::whole_router(stack).layer(from_fn_with_state(bodies, body::read));
        let reads = all.clone().layer(from_fn(body::only_reads));
        let read_only = self.read_only.as_ref().map(|socket| serve(socket, reads, limits)).transpose()?;
        let read_only = async {
            match read_only {
                Some(served) => served.await,
                None => core::future::pending().await,
            }
        };
        tokio::select! {
            never = serve(&self.socket, all, limits)? => match never {},
            never = read_only => match never {},
            () = stop => Ok(()),
        }
    }
}

fn serve(socket: &Bound, router: Router, limits: Limits) -> io::Result<impl Future<Output = Infallible>> {
    let listener = tokio::net::UnixListener::from_std(socket.listener()?)?;
    // Counters of a control socket are shown nowhere.
    Ok(accept::serve(listener, router, limits, Arc::default()))
}

/// The stack as handlers see it. The lock is never contended (one thread), it only satisfies the compiler.
#[derive(Clone)]
pub(crate) struct SharedStack {
    stack: Arc<Mutex<dyn Stack>>,
    pub(crate) pings: Arc<super::ping::Pings>,
    counters: Arc<HttpCounters>,
    readers: Arc<Readers>,
}

impl SharedStack {
    /// Shares a stack; `counters` are those of the HTTP listener, if handlers are its.
    fn new(stack: Arc<Mutex<dyn Stack>>, counters: Option<Arc<HttpCounters>>) -> Self {
        Self { stack, pings: Arc::default(), counters: counters.unwrap_or_default(), readers: Arc::default() }
    }

    pub(crate) fn stack(&self) -> MutexGuard<'_, dyn Stack + 'static> {
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
