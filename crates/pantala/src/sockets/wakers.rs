//! Wakers: of tasks, and of threads that are blocked.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::task::Wake;
use std::thread::Thread;
use std::time::Instant;

use super::error;

/// Wakers of one event, each once.
#[derive(Debug, Default)]
pub(super) struct Wakers(Vec<Waker>);

impl Wakers {
    pub(super) fn add(&mut self, waker: &Waker) {
        if !self.0.iter().any(|other| other.will_wake(waker)) {
            self.0.push(waker.clone());
        }
    }

    /// Moves them out, to be woken when no lock is held.
    pub(super) fn move_to(&mut self, wakes: &mut Vec<Waker>) {
        wakes.append(&mut self.0);
    }
}

/// A thread that waits.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    /// One for each thread, so that a repeated wait does not add it twice to a list.
    static OWN: Waker = Waker::from(Arc::new(Parked(std::thread::current())));
}

/// Waits on this thread until something is ready, and no longer than `timeout`.
///
/// # Errors
///
/// Of the kind `WouldBlock` after that time, as the kernel's sockets have it.
pub(crate) fn block_on<T>(
    timeout: Option<Duration>,
    future: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let waker = OWN.try_with(Waker::clone).unwrap_or_else(|_| {
        // The thread is ending.
        Waker::from(Arc::new(Parked(std::thread::current())))
    });
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
            None => std::thread::park(),
            Some(left) if left.is_zero() => return Err(error::would_block()),
            Some(left) => std::thread::park_timeout(left),
        }
    }
}

/// Polls once.
///
/// # Errors
///
/// Of the kind `WouldBlock` if nothing is.
pub(super) fn now<T>(what: impl FnOnce(&Waker) -> Poll<io::Result<T>>) -> io::Result<T> {
    match what(Waker::noop()) {
        Poll::Ready(done) => done,
        Poll::Pending => Err(error::would_block()),
    }
}
