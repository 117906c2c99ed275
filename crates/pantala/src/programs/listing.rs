//! Lists programs and their sockets for the control thread.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;

use tokio::sync::mpsc;
use wire::program::Role;

use super::pair::queued;
use super::registry::{Entry, Registry};
use crate::api::{
    Error, ErrorKind, Program, ProgramCounters, ProgramSocket, ProgramSocketKind, ProgramSockets, Programs,
};

/// Time limit of the answer of the thread that relays.
const PATIENCE: Duration = Duration::from_secs(2);
/// Questions that wait for that thread at the most.
pub(super) const QUESTIONS_MAX: usize = 16;

/// Something that the thread that serves programs is to do.
type Question = Box<dyn FnOnce(&Registry) + Send>;

/// Asks the thread that serves programs.
#[derive(Clone, Debug)]
pub(crate) struct Asker(mpsc::Sender<Question>);

impl Asker {
    /// An asker, and where the thread receives what it asks.
    pub(super) fn new() -> (Self, mpsc::Receiver<Question>) {
        let (asks, asked) = mpsc::channel(QUESTIONS_MAX);
        (Self(asks), asked)
    }

    /// Returns all programs.
    ///
    /// # Errors
    /// The thread does not answer.
    pub(crate) fn programs(&self) -> Result<Programs, Error> {
        self.ask(Registry::list)
    }

    /// Returns a part of the sockets, from number `after` on.
    ///
    /// # Errors
    /// As for programs.
    pub(crate) fn sockets(&self, after: u64, limit: usize) -> Result<ProgramSockets, Error> {
        self.ask(move |registry| registry.list_sockets(after, limit))
    }

    fn ask<T: Send + 'static>(&self, what: impl FnOnce(&Registry) -> T + Send + 'static) -> Result<T, Error> {
        let (told, answer) = sync_channel(1);
        let question: Question = Box::new(move |registry| {
            // The caller waits for it, or has gone.
            let _ = told.send(what(registry));
        });
        let silent = || Error::new(ErrorKind::Busy, "the thread that serves programs does not answer");
        self.0.try_send(question).map_err(|_| silent())?;
        answer.recv_timeout(PATIENCE).map_err(|_| silent())
    }
}

impl Registry {
    fn list(&self) -> Programs {
        let mut queues: BTreeMap<i32, u64> = BTreeMap::new();
        for entry in self.entries().values() {
            let Some(unix) = entry.unix.upgrade() else { continue };
            let (down, up) = queued(&*unix);
            *queues.entry(entry.process.pid).or_default() += down + up;
        }
        let processes = self.processes.borrow();
        let mut programs: Vec<Program> = processes
            .values()
            .filter(|process| process.sockets.get() > 0)
            .map(|process| Program {
                pid: process.pid,
                command: process.command.clone(),
                uid: process.uid,
                sockets: process.sockets.get().into(),
                queued_bytes: queues.get(&process.pid).copied().unwrap_or(0),
                counters: process.counters.get(),
            })
            .collect();
        programs.sort_unstable_by_key(|program| program.pid);
        let (sockets_max, requests_max) = self.limits();
        Programs { programs, counters: self.totals(), sockets_max, requests_max }
    }

    fn list_sockets(&self, after: u64, limit: usize) -> ProgramSockets {
        let entries = self.entries();
        let mut ids: Vec<u64> = entries.keys().copied().filter(|id| *id > after).collect();
        ids.sort_unstable();
        let next = ids.get(limit).and_then(|_| ids.get(limit.saturating_sub(1))).map(u64::to_string);
        ids.truncate(limit);
        let socket = |id: &u64| entries.get(id).map(|entry| listed(*id, entry));
        ProgramSockets { sockets: ids.iter().filter_map(socket).collect(), next }
    }
}

fn listed(id: u64, entry: &Entry) -> ProgramSocket {
    let canonical = |addr: Option<core::net::SocketAddr>| {
        addr.map(|addr| core::net::SocketAddr::new(addr.ip().to_canonical(), addr.port()))
    };
    ProgramSocket {
        id,
        pid: entry.process.pid,
        command: entry.process.command.clone(),
        kind: match entry.role {
            Role::Listener => ProgramSocketKind::Listener,
            Role::Stream => ProgramSocketKind::Connection,
            Role::Datagram => ProgramSocketKind::Datagrams,
        },
        local: canonical(entry.local),
        foreign: canonical(entry.remote),
    }
}

/// Adds what a process did to a count.
pub(super) fn add(counters: &mut ProgramCounters, more: ProgramCounters) {
    counters.requests += more.requests;
    counters.refused += more.refused;
    counters.transfers += more.transfers;
    counters.sent_bytes += more.sent_bytes;
    counters.received_bytes += more.received_bytes;
}
