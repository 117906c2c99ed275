//! Processes with sockets, and what they do.

use core::cell::Cell;
use std::fs;
use std::rc::Rc;

use super::registry::Registry;

/// A process, as long as it has sockets or a request.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) uid: u32,
    pub(super) pid: i32,
    pub(super) command: String,
    /// Sockets that it has made, and connections that were accepted for it.
    pub(super) sockets: Cell<u32>,
    /// Requests since it was first seen.
    pub(super) requests: Cell<u64>,
    /// Bytes from it to the network, since then.
    pub(super) sent: Cell<u64>,
    /// Bytes from the network to it.
    pub(super) received: Cell<u64>,
}

impl Process {
    pub(super) fn new(uid: u32, pid: i32) -> Self {
        let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let command = command.trim_end().to_owned();
        let (sockets, [requests, sent, received]) = (Cell::new(0), [0; 3].map(Cell::new));
        Self { uid, pid, command, sockets, requests, sent, received }
    }

    pub(super) fn add_sent(&self, bytes: usize) {
        self.sent.set(self.sent.get() + bytes as u64);
    }

    pub(super) fn add_received(&self, bytes: usize) {
        self.received.set(self.received.get() + bytes as u64);
    }
}

impl Registry {
    /// Returns the process of this number, which makes a request.
    pub(super) fn process(&self, uid: u32, pid: i32) -> Rc<Process> {
        let mut processes = self.processes.borrow_mut();
        let known = processes.get(&pid).filter(|process| process.uid == uid);
        let process = known.map_or_else(|| Rc::new(Process::new(uid, pid)), Rc::clone);
        process.requests.set(process.requests.get() + 1);
        processes.insert(pid, Rc::clone(&process));
        process
    }

    /// Forgets a process that nothing refers to but the table and `others`.
    pub(super) fn leave(&self, process: &Rc<Process>, others: usize) {
        if Rc::strong_count(process) <= 1 + others {
            self.processes.borrow_mut().remove(&process.pid);
        }
    }
}
