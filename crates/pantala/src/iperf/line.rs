//! The end of a connection or a UDP socket that a thread has: the rest of it is on a netisr ([`super::traffic`]).
//!
//! ```text
//!   thread: Line ── orders, then the program is called ──▶ netisr: Traffic ◀─▶ TCP, UDP
//!              ◀─── bytes, and whether it stands ─────────
//! ```

use core::cell::RefCell;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::time::Instant;

use net::app::AppId;
use net::channel::Setting;
use net::msg::{Msg, Remote};
use net::sock::Error;
use net::udp::To;

use super::control::PATIENCE;
use super::traffic::{Order, Stream, Traffic, Wanted};
use crate::Stack;
use crate::api;
use crate::sockets::io_error;

/// Pieces of what has come that wait for a thread; then the rest waits in the connection.
pub(super) const PIECES_MAX: usize = 64;

/// A thread's way to the application of a CPU.
#[derive(Clone)]
pub(super) struct Agent {
    program: AppId,
    remote: Remote,
    orders: Sender<Order>,
    /// The next free name of a line.
    next: Arc<AtomicU32>,
}

/// A connection, or a UDP socket with one other end. It is closed when it is dropped.
pub(super) struct Line {
    agent: Agent,
    key: u32,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    /// Pieces that have come, if they are for a thread.
    bytes: Option<Receiver<Vec<u8>>>,
    /// Bytes of a piece that was not read to its end.
    rest: RefCell<VecDeque<u8>>,
}

/// Options of a stream's socket.
#[derive(Clone, Default)]
pub(super) struct LineOptions {
    pub(super) local: Option<IpAddr>,
    pub(super) settings: Vec<Setting>,
}

/// Begins the application on each CPU.
pub(super) fn agents(stack: &Stack) -> Result<Vec<Agent>, api::Error> {
    let next = Arc::new(AtomicU32::new(1));
    let agent = |(cpu, remote): (usize, &Remote)| {
        let (orders, waiting) = channel();
        let program = stack.begin(cpu, Box::new(Traffic::new(cpu, waiting)))?;
        Ok(Agent { program, remote: remote.clone(), orders, next: Arc::clone(&next) })
    };
    stack.remotes().iter().enumerate().map(agent).collect()
}

impl Agent {
    /// Orders something; false if the stack has ended.
    pub(super) fn order(&self, order: Order) -> bool {
        /// Time in which a CPU takes messages, if it is alive.
        const TIME: Duration = Duration::from_secs(1);
        if self.orders.send(order).is_err() {
            return false;
        }
        let (program, begun) = (self.program, Instant::now());
        let call = || Msg::Call(Box::new(move |netisr| netisr.call(program)));
        while self.remote.send(call()).is_err() {
            // Its port is full for a moment.
            if begun.elapsed() > TIME {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Orders something that is answered.
    pub(super) fn ask<T>(&self, order: Order, answer: &Receiver<Result<T, Error>>) -> io::Result<T> {
        if !self.order(order) {
            return Err(io_error(Error::InterfaceDown));
        }
        match answer.recv_timeout(PATIENCE) {
            Ok(answer) => answer.map_err(io_error),
            Err(RecvTimeoutError::Timeout) => Err(io::ErrorKind::TimedOut.into()),
            Err(RecvTimeoutError::Disconnected) => Err(io_error(Error::InterfaceDown)),
        }
    }

    /// Returns when all orders so far are obeyed.
    pub(super) fn wait(&self) {
        let (told, answer) = sync_channel(1);
        // A stack that has ended obeys nothing more.
        let _ = self.ask(Order::Answer(told), &answer);
    }

    fn new_key(&self) -> u32 {
        self.next.fetch_add(1, Relaxed)
    }

    /// Connects, or makes a UDP socket that is connected.
    pub(super) fn connect(&self, udp: bool, peer: SocketAddr, options: &LineOptions) -> io::Result<Line> {
        let (told, answer) = sync_channel(1);
        let key = self.new_key();
        let options = options.clone();
        let order = Order::Connect(key, Box::new(Wanted { udp, peer, options, told }));
        let local = self.ask(order, &answer).inspect_err(|_| _ = self.order(Order::Close(key)))?;
        Ok(self.line(key, (local, peer)))
    }

    /// Makes a stream of the server's UDP socket, with one other end.
    pub(super) fn peer(&self, to: To, local: SocketAddr) -> Line {
        let key = self.new_key();
        // If the stack has ended, nothing comes of it.
        let _ = self.order(Order::Peer(key, to));
        self.line(key, (local, to.remote))
    }

    /// Takes the connection that is called `key` on this CPU.
    pub(super) fn line(&self, key: u32, (local, peer): (SocketAddr, SocketAddr)) -> Line {
        Line { agent: self.clone(), key, local, peer, bytes: None, rest: RefCell::default() }
    }
}

impl Line {
    /// Has what comes handed to this thread. Without, it waits where it has come: a stream that runs counts it there.
    pub(super) fn forward(&mut self) {
        let (to, bytes) = sync_channel(PIECES_MAX);
        self.bytes = Some(bytes);
        self.agent.order(Order::Forward(self.key, to));
    }

    /// Waits no longer than `wait` for bytes. 0 is the end; an error of kind `WouldBlock` says that nothing has come.
    pub(super) fn read(&self, into: &mut [u8], wait: Duration) -> io::Result<usize> {
        let mut rest = self.rest.borrow_mut();
        if rest.is_empty() {
            match self.bytes.as_ref().map(|bytes| bytes.recv_timeout(wait)) {
                Some(Ok(piece)) => *rest = piece.into(),
                Some(Err(RecvTimeoutError::Timeout)) => return Err(io::ErrorKind::WouldBlock.into()),
                Some(Err(RecvTimeoutError::Disconnected)) | None => return Ok(0),
            }
        }
        io::Read::read(&mut *rest, into)
    }

    /// Sends bytes, or a datagram.
    pub(super) fn write(&self, bytes: Vec<u8>) -> io::Result<()> {
        let is_ordered = self.agent.order(Order::Write(self.key, bytes));
        if is_ordered { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    /// Sends no more.
    pub(super) fn shutdown(&self) {
        self.agent.order(Order::Shut(self.key));
    }

    pub(super) fn set(&self, settings: Vec<Setting>) {
        self.agent.order(Order::Set(self.key, settings));
    }

    /// Begins to send, or to receive, on the netisr.
    pub(super) fn run(&self, stream: Stream) {
        self.agent.order(Order::Run(self.key, Box::new(stream)));
    }

    /// Ends that: the counters stand still when this returns.
    pub(super) fn stop(&self) {
        self.agent.order(Order::Stop(self.key));
        self.agent.wait();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.agent.order(Order::Close(self.key));
    }
}
