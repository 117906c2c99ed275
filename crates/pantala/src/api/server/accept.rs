//! Connections to the control socket: how many, how long, and what becomes of those that are too many.
//!
//! Any user of the socket may be slow, broken or hostile, and must not keep others, or the rest of the process, from
//! their descriptors and memory.

use core::convert::Infallible;
use core::time::Duration;
use std::fs::File;
use std::io;
use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::io::Errno;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::stall::Stalling;
use crate::api::types::{Error, ErrorKind};
use crate::descriptors::{self, For};

/// Bounds of a control socket.
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

/// Accepts connections for ever, and serves `router` to each.
pub(super) async fn serve(listener: UnixListener, router: Router, limits: Limits) -> Infallible {
    let free = Arc::new(Semaphore::new(limits.connections));
    let refusals = Arc::new(Semaphore::new(REFUSED_MAX));
    let mut spare = Spare::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(why) => {
                spare.turn_away(&listener, &why).await;
                continue;
            }
        };
        let permit = Arc::clone(&free).try_acquire_owned().ok();
        match permit.filter(|_| !descriptors::is_of_the_reserve(&stream, For::Administrators)) {
            Some(permit) => drop(tokio::spawn(answer(stream, router.clone(), limits, permit))),
            None => refuse(stream, &refusals, limits),
        }
    }
}

async fn answer(stream: UnixStream, router: Router, limits: Limits, permit: OwnedSemaphorePermit) {
    let io = TokioIo::new(Stalling::new(stream, limits.stall));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_within)
        .max_buf_size(HEAD_MAX)
        .serve_connection(io, TowerToHyperService::new(router));
    // A client that breaks off, or is too slow, is nothing to complain about.
    let _ = served.await;
    drop(permit);
}

/// Says that there are too many connections, if the client listens at once.
fn refuse(stream: UnixStream, refusals: &Arc<Semaphore>, limits: Limits) {
    let Ok(permit) = Arc::clone(refusals).try_acquire_owned() else { return };
    let router = Router::new().fallback(async || {
        let error = Error::new(ErrorKind::Busy, "too many connections to the control socket");
        super::routes::Failure::from(error.hint("try again later"))
    });
    let limits = Limits { head_within: REFUSED_FOR, stall: REFUSED_FOR, ..limits };
    tokio::spawn(async move {
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

    async fn turn_away(&mut self, listener: &UnixListener, why: &io::Error) {
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
