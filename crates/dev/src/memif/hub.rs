//! The thread that speaks to the peers of all our interfaces.

mod control;
mod interface;

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::channel::Listener;
use super::mailbox::Mailbox;
use super::ring::MemifRing;
use super::{Fault, Options, Role, Status};
use crate::sys::poll::EventFd;
use control::{Command, Control};

/// Hears why an interface cannot connect.
pub type Tell = Box<dyn Fn(&Options, &Fault) + Send>;

/// A thread that accepts, connects, and connects again. It ends when this is dropped, and all connections with it.
pub struct Hub {
    line: Line,
    thread: Option<JoinHandle<()>>,
    ports: u64,
}

/// An interface. Dropping it ends its connection, and it listens no longer.
pub struct Port {
    line: Line,
    key: u64,
    mailboxes: Vec<Arc<Mailbox>>,
    status: Arc<Mutex<Status>>,
}

/// The way to the thread.
#[derive(Clone)]
struct Line {
    commands: Sender<Command>,
    bell: Arc<EventFd>,
}

impl Hub {
    /// Starts the thread, which runs `first` before all else, and calls `tell` when a slave cannot connect, once for each reason.
    ///
    /// # Errors
    /// When the system has no thread or descriptor left.
    pub fn start(first: impl FnOnce() + Send + 'static, tell: Tell) -> io::Result<Self> {
        let (commands, received) = channel();
        let bell = Arc::new(EventFd::new()?);
        let control = Control::new(received, Arc::clone(&bell), tell);
        let run = move || {
            first();
            control.run();
        };
        let thread = std::thread::Builder::new().name("memif".to_owned()).spawn(run)?;
        Ok(Self { line: Line { commands, bell }, thread: Some(thread), ports: 0 })
    }

    /// Opens an interface, with a ring for each of its ring pairs. Their link is down until a peer is there.
    ///
    /// # Errors
    /// `InvalidInput` for options out of their bounds; `AddrInUse` if something else listens at the socket, or another
    /// interface there has the id; what the system says of the socket.
    pub fn open(&mut self, options: Options) -> io::Result<(Port, Vec<MemifRing>)> {
        if !options.are_sound() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mailbox = |_| Mailbox::new(Arc::clone(&self.line.bell)).map(Arc::new);
        let mailboxes = (0..options.rings).map(mailbox).collect::<io::Result<Vec<_>>>()?;
        let rings = mailboxes.iter().map(MemifRing::new);
        let rings = rings.collect::<io::Result<Vec<_>>>()?;
        self.ports += 1;
        let port = Port { line: self.line.clone(), key: self.ports, mailboxes, status: Arc::default() };
        // By the thread that opens interfaces: it may have rights that the hub's has given up.
        let listener = if options.role == Role::Master && !self.listens_at(&options.socket) {
            Some(Listener::bind(&options.socket, &options.access)?)
        } else {
            None
        };
        let (mailboxes, status) = (port.mailboxes.clone(), Arc::clone(&port.status));
        let (answer, answered) = sync_channel(1);
        let (key, options) = (port.key, Box::new(options));
        port.line.say(Command::Open { key, options, listener, mailboxes, status, answer });
        wait(&answered)?;
        Ok((port, rings))
    }

    /// Whether the thread listens at this path already.
    fn listens_at(&self, path: &Path) -> bool {
        let (answer, answered) = sync_channel(1);
        self.line.say(Command::Listens { path: path.to_owned(), answer });
        answered.recv().unwrap_or(false)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.line.say(Command::Stop);
        // It has panicked, or ends.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Port {
    /// Returns its current status.
    #[must_use]
    pub fn status(&self) -> Status {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Status { faults: self.mailboxes.iter().map(|mailbox| mailbox.counters.read()).sum(), ..status }
    }
}

impl Drop for Port {
    /// Returns when the socket's file is gone, so that it can be opened again.
    fn drop(&mut self) {
        let (answer, answered) = sync_channel(1);
        self.line.say(Command::Close { key: self.key, answer });
        let _ = wait(&answered); // the hub may be gone already
    }
}

impl Line {
    /// Without the thread there is no peer.
    fn say(&self, command: Command) {
        let _ = self.commands.send(command);
        let _ = self.bell.notify();
    }
}

/// The thread never waits for a peer, so it answers at once.
fn wait(answered: &Receiver<io::Result<()>>) -> io::Result<()> {
    answered.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
}
