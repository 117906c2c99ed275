//! Whether something is reached, asked ten times a second.

use core::net::SocketAddr;
use core::time::Duration;
use std::net::UdpSocket;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use dev::netns::Netns;

use crate::lab::Family;

/// Time between two questions.
const EVERY: Duration = Duration::from_millis(100);

/// A question that is asked until the value is dropped, and the times of its answers.
pub(crate) struct Watch {
    answered: Arc<Mutex<Vec<Instant>>>,
    _stop: Sender<()>,
}

impl Watch {
    /// Asks in a namespace.
    pub(crate) fn begin(netns: &Netns, mut ask: impl FnMut() -> bool + Send + 'static) -> Self {
        let answered = Arc::<Mutex<Vec<Instant>>>::default();
        let (stop, stopped) = channel();
        let times = Arc::clone(&answered);
        let run = move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                if ask() {
                    times.lock().unwrap().push(Instant::now());
                }
            }
        };
        // A thread is in the namespace of the one that begins it.
        netns.run(|| thread::spawn(run)).unwrap();
        Self { answered, _stop: stop }
    }

    /// The time of the last answer.
    pub(crate) fn last(&self) -> Option<Instant> {
        self.answered.lock().unwrap().last().copied()
    }

    /// The longest time without an answer between two moments.
    pub(crate) fn pause(&self, from: Instant, to: Instant) -> Duration {
        let answered = self.answered.lock().unwrap();
        let within = answered.iter().copied().filter(|at| (from..to).contains(at));
        let (longest, last) =
            within.fold((Duration::ZERO, from), |(longest, last), at| (longest.max(at - last), at));
        drop(answered);
        longest.max(to - last)
    }
}

/// Whether a server answers a datagram from a new socket.
pub(crate) fn answers(server: SocketAddr) -> bool {
    let ask = || {
        let socket = UdpSocket::bind((Family::of(server.ip()).any(), 0))?;
        socket.set_read_timeout(Some(2 * EVERY))?;
        socket.connect(server)?;
        socket.send(b"is it there?")?;
        socket.recv(&mut [0; 64])
    };
    ask().is_ok()
}
