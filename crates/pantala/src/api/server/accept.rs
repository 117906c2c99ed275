//! Connections to a socket of the admin API: how many, how long, and what becomes of those that are too many.
//!
//! Any client may be slow, broken or hostile, and must not keep others, or the rest of the process, from
//! their descriptors and memory.

use core::convert::Infallible;
use core::error::Error as _;
use core::time::Duration;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::http::{HttpCounters, HttpEvent};
use super::stall::Stalling;
use crate::api::types::{Error, ErrorKind};
use crate::descriptors::{self, For};

/// Bounds of a socket of the admin API.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections at a time.
    pub(crate) connections: usize,
    /// Time for the head of a request, counted from the end of the answer before, and so also the time between requests.
    pub(crate) head_within: Duration,
    /// Time for the body of a request.
    pub(crate) body_within: Duration,
    /// Time in which some of an answer must be taken.
    pub(crate) stall: Duration,
    /// Bytes of bodies that are held at a time, of all connections together.
    pub(crate) bodies: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            head_within: Duration::from_secs(10),
            body_within: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            bodies: 80 << 20,
        }
    }
}

/// Bytes of a head; no request of ours comes near.
const HEAD_MAX: usize = 16 << 10;
/// Time for which a refused connection is served.
const REFUSED_FOR: Duration = Duration::from_secs(1);
/// Refused connections that are told why at a time; others are closed.
const REFUSED_MAX: usize = 8;
/// Pause of accepting when the machine has no descriptor left.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);

/// A socket that connections come to.
pub(super) trait Listener {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static;

    async fn accept(&self) -> io::Result<Self::Stream>;
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        // Readings are small, and each is awaited.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Accepts connections for ever, and serves `router` to each. They end when this is dropped.
pub(super) async fn serve<L: Listener>(
    listener: L,
    router: Router,
    limits: Limits,
    counters: Arc<HttpCounters>,
) -> Infallible {
    let mut connections = JoinSet::new();
    let free = Arc::new(Semaphore::new(limits.connections));
    let refusals = Arc::new(Semaphore::new(REFUSED_MAX));
    let mut spare = Spare::new();
    loop {
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(why) => {
                spare.turn_away(&listener, &why).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let permit = Arc::clone(&free).try_acquire_owned().ok();
        match permit.filter(|_| !descriptors::is_of_the_reserve(&stream, For::Administrators)) {
            Some(permit) => {
                counters.add(HttpEvent::Connections);
                let (router, counters) = (router.clone(), Arc::clone(&counters));
                connections.spawn(async move {
                    if let Err(why) = answer(stream, router, limits, permit).await {
                        count_slowness(&why, &counters);
                    }
                });
            }
            None => {
                counters.add(HttpEvent::TooManyConnections);
                refuse(stream, &refusals, limits, &mut connections);
            }
        }
    }
}

/// Serves a connection until its end. A client that breaks off, or is too slow, is nothing to complain about.
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    limits: Limits,
    permit: OwnedSemaphorePermit,
) -> hyper::Result<()> {
    let io = TokioIo::new(Stalling::new(stream, limits.stall));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_within)
        .max_buf_size(HEAD_MAX)
        .serve_connection(io, TowerToHyperService::new(router));
    let ended = served.await;
    drop(permit);
    ended
}

fn count_slowness(why: &hyper::Error, counters: &HttpCounters) {
    let cause = why.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    if cause.is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut) {
        counters.add(HttpEvent::SlowReaders);
    } else if why.is_timeout() {
        counters.add(HttpEvent::SlowRequests);
    }
}

/// Says that there are too many connections, if the client listens at once.
fn refuse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    refusals: &Arc<Semaphore>,
    limits: Limits,
    connections: &mut JoinSet<()>,
) {
    let Ok(permit) = Arc::clone(refusals).try_acquire_owned() else { return };
    let router = Router::new().fallback(async || {
        let error = Error::new(ErrorKind::Busy, "too many connections");
        super::routes::Failure::from(error.hint("try again later"))
    });
    let limits = Limits { head_within: REFUSED_FOR, stall: REFUSED_FOR, ..limits };
    connections.spawn(async move {
        let _ = tokio::time::timeout(REFUSED_FOR, answer(stream, router, limits, permit)).await;
    });
}

/// A descriptor that is kept to be given up: without one nothing can be accepted, not even to be closed, and clients
/// would wait for ever.
struct Spare(Option<File>);

impl Spare {
    fn new() -> Self {
        Self(File::open("/dev/null").ok())
    }

    async fn turn_away(&mut self, listener: &impl Listener, why: &io::Error) {
        if !matches!(Errno::from_io_error(why), Some(Errno::MFILE | Errno::NFILE)) {
            return;
        }
        if self.0.take().is_some() {
            // Accepted, and closed.
            let _ = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
        }
        tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests;
