//! Processes with sockets, and what they do.

use core::cell::Cell;
use std::fs;
use std::rc::Rc;

use super::listing::add;
use super::registry::Registry;
use crate::api::ProgramCounters;

/// A process, as long as it has sockets or a request.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) uid: u32,
    pub(super) pid: i32,
    pub(super) command: String,
    /// Sockets that it has made, and connections that were accepted for it.
    pub(super) sockets: Cell<u32>,
    /// Since it was first seen.
    pub(super) counters: Cell<ProgramCounters>,
}

impl Process {
    pub(super) fn new(uid: u32, pid: i32) -> Self {
        let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let command = command.trim_end().to_owned();
        Self { uid, pid, command, sockets: Cell::new(0), counters: Cell::default() }
    }

    pub(super) fn add_sent(&self, bytes: usize) {
        self.count(ProgramCounters { transfers: 1, sent_bytes: bytes as u64, ..ProgramCounters::default() });
    }

    pub(super) fn add_received(&self, bytes: usize) {
        let received_bytes = bytes as u64;
        self.count(ProgramCounters { transfers: 1, received_bytes, ..ProgramCounters::default() });
    }

    fn count(&self, more: ProgramCounters) {
        let mut counters = self.counters.get();
        add(&mut counters, more);
        self.counters.set(counters);
    }
}

impl Registry {
    /// Returns the process of this number, which makes a request.
    pub(super) fn process(&self, uid: u32, pid: i32) -> Rc<Process> {
        let mut processes = self.processes.borrow_mut();
        let known = processes.get(&pid).filter(|process| process.uid == uid).map(Rc::clone);
        let process = known.unwrap_or_else(|| Rc::new(Process::new(uid, pid)));
        process.count(ProgramCounters { requests: 1, ..ProgramCounters::default() });
        if let Some(other) = processes.insert(pid, Rc::clone(&process))
            && !Rc::ptr_eq(&other, &process)
        {
            self.keep_counts(&other);
        }
        process
    }

    /// Returns the process of a thread whose calls another process answers (`pantala run --any`); `None` if that other one's user may
    /// not say so. Rights and limits stay those of the one that asks.
    pub(super) fn served_by(&self, by: &Process, thread: u32) -> Option<Rc<Process>> {
        let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
        let (pid, uid) = (number(&status, "Tgid:")?, number(&status, "Uid:")?);
        (by.uid == 0 || by.uid == uid).then(|| self.process(by.uid, pid.cast_signed()))
    }

    /// A request of a process was refused, by its user's rights or by a limit.
    pub(super) fn refuse(&self, process: &Process) {
        process.count(ProgramCounters { refused: 1, ..ProgramCounters::default() });
    }

    /// Forgets a process that nothing refers to but the table and `others`, and keeps its counts.
    pub(super) fn leave(&self, process: &Rc<Process>, others: usize) {
        if Rc::strong_count(process) <= 1 + others {
            let known = self.processes.borrow_mut().remove(&process.pid);
            if let Some(known) = known {
                self.keep_counts(&known);
            }
        }
    }

    fn keep_counts(&self, process: &Process) {
        let mut gone = self.gone.get();
        add(&mut gone, process.counters.get());
        self.gone.set(gone);
    }

    /// Returns the counts of all processes, those that are gone included.
    pub(super) fn totals(&self) -> ProgramCounters {
        let mut all = self.gone.get();
        self.processes.borrow().values().for_each(|process| add(&mut all, process.counters.get()));
        all
    }
}

/// A number in `/proc/PID/status`.
fn number(status: &str, name: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use wire::program::Role;

    use crate::programs::registry::tests::registry;

    #[test]
    fn a_process_is_served_by_another_of_its_user_alone() {
        let (_stack, registry) = registry(2);
        let own = std::process::id();
        let uid = rustix::process::getuid().as_raw();
        let by = |uid| registry.served_by(&super::Process::new(uid, 1), own).map(|process| process.pid);
        assert_eq!(by(uid), Some(own.cast_signed()));
        assert_eq!(by(12345), None);
        assert!(registry.served_by(&super::Process::new(0, 1), u32::MAX).is_none());
    }

    #[test]
    fn what_a_process_did_is_counted_when_it_is_gone() {
        let (_stack, registry) = registry(2);
        let process = registry.process(7, 1);
        process.add_sent(5);
        let held = registry.hold(&process, Role::Stream).ok().unwrap();
        registry.leave(&process, 1);
        assert_eq!(registry.processes.borrow().len(), 1, "it has a socket");
        drop(process);
        drop(held);
        assert!(registry.processes.borrow().is_empty());
        let totals = registry.totals();
        assert_eq!((totals.requests, totals.sent_bytes, totals.transfers), (1, 5, 1));
    }
}
