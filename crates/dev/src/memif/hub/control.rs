//! The thread's loop: it waits for any of its sockets, and then looks at all of them.

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::super::channel::{Channel, Listener};
use super::super::fault::Fault;
use super::super::mailbox::Mailbox;
use super::super::msg::{Init, Msg};
use super::super::session::hello;
use super::super::{Options, Role, Status};
use super::Tell;
use super::interface::Interface;
use crate::sys::poll::{EventFd, PollFd, PollFlags, wait};

/// Time limit of a peer's handshake.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// From one look whether a peer holds up a CPU to the next.
const WATCH: Duration = Duration::from_millis(100);
/// Connections that have not yet said which interface they want.
const STRANGERS_MAX: usize = 16;

/// A command to the thread.
pub(super) enum Command {
    /// Here is an interface.
    Open {
        /// Its key here.
        key: u64,
        options: Box<Options>,
        /// A master's listener, if nothing listens at its path yet.
        listener: Option<Listener>,
        mailboxes: Vec<Arc<Mailbox>>,
        status: Arc<Mutex<Status>>,
        answer: SyncSender<io::Result<()>>,
    },
    /// It is not wanted any more.
    Close { key: u64, answer: SyncSender<io::Result<()>> },
    /// Is there a listener at this path?
    Listens { path: PathBuf, answer: SyncSender<bool> },
    /// Nothing is.
    Stop,
}

/// All that the thread has.
pub(super) struct Control {
    commands: Receiver<Command>,
    bell: Arc<EventFd>,
    tell: Tell,
    interfaces: Vec<(u64, Interface)>,
    listeners: Vec<Listener>,
    strangers: Vec<Stranger>,
}

/// A slave that has not yet said which interface it wants.
struct Stranger {
    channel: Channel,
    /// Where it came in.
    at: PathBuf,
    until: Instant,
}

impl Control {
    pub(super) const fn new(commands: Receiver<Command>, bell: Arc<EventFd>, tell: Tell) -> Self {
        Self { commands, bell, tell, interfaces: Vec::new(), listeners: Vec::new(), strangers: Vec::new() }
    }

    /// Works until it is stopped.
    pub(super) fn run(mut self) {
        while self.obey() {
            let now = Instant::now();
            self.interfaces.iter_mut().for_each(|(_, interface)| interface.work(now, &self.tell));
            self.accept(now);
            self.strangers_speak(now);
            self.sleep();
        }
        self.interfaces.iter_mut().for_each(|(_, interface)| interface.close());
    }

    /// Does what others want; answers whether to go on.
    fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Open { key, options, listener, mailboxes, status, answer }) => {
                    let opened = self.open(key, Interface::new(*options, mailboxes, status), listener);
                    let _ = answer.send(opened); // who asked waits
                }
                Ok(Command::Close { key, answer }) => {
                    self.close(key);
                    let _ = answer.send(Ok(()));
                }
                Ok(Command::Listens { path, answer }) => {
                    let _ = answer.send(self.listeners.iter().any(|listener| listener.path() == path));
                }
                Err(TryRecvError::Empty) => return true,
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn open(&mut self, key: u64, interface: Interface, listener: Option<Listener>) -> io::Result<()> {
        let path = &interface.options.socket;
        if interface.options.role == Role::Master {
            if self.interfaces.iter().any(|(_, other)| other.serves(path, interface.options.id)) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            self.listeners.extend(listener);
        }
        self.interfaces.push((key, interface));
        Ok(())
    }

    fn close(&mut self, key: u64) {
        for (_, mut interface) in self.interfaces.extract_if(.., |(other, _)| *other == key) {
            interface.close();
        }
        let interfaces = &self.interfaces;
        let wanted = |path: &Path| interfaces.iter().any(|(_, interface)| interface.listens_at(path));
        self.listeners.retain(|listener| wanted(listener.path()));
        self.strangers.retain(|stranger| wanted(&stranger.at));
    }

    /// Accepts peers. Beyond the limit of pending handshakes, the newcomer is closed.
    fn accept(&mut self, now: Instant) {
        let come = self.listeners.iter().filter_map(|listener| Some((listener.accept()?, listener.path())));
        for (channel, at) in come.map(|(channel, at)| (channel, at.to_owned())).collect::<Vec<_>>() {
            let stranger = Stranger { channel, at, until: now + PATIENCE };
            let room = if self.strangers.len() < STRANGERS_MAX { Ok(()) } else { Err(Fault::Crowd) };
            match room.and_then(|()| stranger.channel.send(&hello(), None)) {
                Ok(()) => self.strangers.push(stranger),
                Err(fault) => self.turn_away(&stranger, fault),
            }
        }
    }

    /// Brings each stranger that has spoken to the interface that it wants.
    fn strangers_speak(&mut self, now: Instant) {
        for stranger in core::mem::take(&mut self.strangers) {
            match stranger.init(now) {
                Ok(None) => self.strangers.push(stranger),
                Ok(Some(init)) => self.introduce(stranger, &init, now),
                Err(fault) => self.turn_away(&stranger, fault),
            }
        }
    }

    fn introduce(&mut self, stranger: Stranger, init: &Init, now: Instant) {
        let mut interfaces = self.interfaces.iter_mut().map(|(_, interface)| interface);
        match interfaces.find(|interface| interface.serves(&stranger.at, init.id)) {
            Some(interface) => interface.receive(stranger.channel, init, now),
            None => self.turn_away(&stranger, Fault::NoSuchId(init.id)),
        }
    }

    /// All interfaces of the socket hear of it: it may have been meant for any.
    fn turn_away(&mut self, stranger: &Stranger, fault: Fault) {
        stranger.channel.farewell(&fault);
        for (_, interface) in
            self.interfaces.iter_mut().filter(|(_, interface)| interface.listens_at(&stranger.at))
        {
            interface.note(fault.clone());
        }
    }

    /// Waits until a socket is ready, a command comes, or the time is over.
    fn sleep(&self) {
        let until = self.interfaces.iter().filter_map(|(_, interface)| interface.until());
        let until = until.chain(self.strangers.iter().map(|stranger| stranger.until)).min();
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        let is_watching = self.interfaces.iter().any(|(_, interface)| interface.is_to_be_watched());
        let timeout =
            if is_watching { Some(timeout.map_or(WATCH, |timeout| timeout.min(WATCH))) } else { timeout };
        let mut fds = vec![PollFd::new(&self.bell, PollFlags::IN)];
        fds.extend(self.sockets().map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        if wait(&mut fds, timeout).is_err() {
            std::thread::sleep(Duration::from_millis(100)); // out of kernel memory: not for long
        }
        let _ = self.bell.clear();
    }

    fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let interfaces = self.interfaces.iter().filter_map(|(_, interface)| interface.channel());
        let listeners = self.listeners.iter().map(AsFd::as_fd);
        interfaces
            .map(AsFd::as_fd)
            .chain(listeners)
            .chain(self.strangers.iter().map(|other| other.channel.as_fd()))
    }
}

impl Stranger {
    /// Returns its INIT message, once received.
    fn init(&self, now: Instant) -> Result<Option<Init>, Fault> {
        match self.channel.receive()? {
            Some((Msg::Init(init), _)) => Ok(Some(init)),
            Some((other, _)) => Err(Fault::Order { got: other.word(), due: "INIT" }),
            None if now >= self.until => Err(Fault::TimedOut),
            None => Ok(None),
        }
    }
}
