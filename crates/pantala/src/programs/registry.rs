//! Sockets of programs by number, their owners and limits, and how connections ended.

use core::cell::{Cell, RefCell};
use core::net::{IpAddr, SocketAddr};
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use net::msg::{Msg, Remote};
use net::netisr::Netisr;
use net::ping;
use rustix::io::Errno;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::datagrams::Datagrams;
use crate::sockets::Sockets;

/// Ended connections whose ends are kept to be asked for; the oldest give way, and count as reset.
const ENDED_MAX: usize = 4096;
/// Bytes that are moved at a time.
const SCRATCH: usize = (64 << 10) + wire::program::ADDR_LEN;

/// The users that are served, and how much each may have.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Users besides root; `None`: all that can connect.
    pub(crate) users: Option<HashSet<u32>>,
    /// Users besides root that may bind ports below 1024.
    pub(crate) low_ports: HashSet<u32>,
    /// Requests of a user at a time: each has a connection of its own.
    pub(crate) requests: u32,
    /// Sockets of a user at a time.
    pub(crate) sockets: u32,
}

/// All that the thread knows of programs.
pub(super) struct Registry {
    pub(super) sockets: Sockets,
    pub(super) scratch: RefCell<Vec<u8>>,
    remotes: Vec<Remote>,
    limits: Limits,
    last_id: Cell<u64>,
    entries: RefCell<HashMap<u64, Entry>>,
    ended: RefCell<Ended>,
    users: RefCell<HashMap<u32, Usage>>,
}

/// A socket that exists.
struct Entry {
    uid: u32,
    local: Option<SocketAddr>,
    /// The task of a listener, or of a socket of datagrams.
    task: Option<JoinHandle<()>>,
    datagrams: Option<Datagrams>,
}

#[derive(Default)]
struct Ended {
    errors: HashMap<u64, (u32, Option<Errno>)>,
    order: VecDeque<u64>,
}

#[derive(Clone, Copy, Default)]
struct Usage {
    requests: u32,
    sockets: u32,
}

/// A socket of a user; when it is dropped, the user has one less.
pub(super) struct Held {
    registry: Rc<Registry>,
    uid: u32,
    pub(super) id: u64,
}

/// A connection with requests.
pub(super) struct Admission {
    registry: Rc<Registry>,
    uid: u32,
}

impl Registry {
    pub(super) fn new(sockets: Sockets, remotes: Vec<Remote>, limits: Limits) -> Self {
        Self {
            sockets,
            scratch: RefCell::new(vec![0; SCRATCH]),
            remotes,
            limits,
            last_id: Cell::new(0),
            entries: RefCell::default(),
            ended: RefCell::default(),
            users: RefCell::default(),
        }
    }

    /// Admits a connection of a user.
    ///
    /// # Errors
    /// `EACCES` for users that may not, `EMFILE` at the limit of requests.
    pub(super) fn admit(self: &Rc<Self>, uid: u32) -> Result<Admission, Errno> {
        let may = uid == 0 || self.limits.users.as_ref().is_none_or(|users| users.contains(&uid));
        if !may {
            return Err(Errno::ACCESS);
        }
        let mut users = self.users.borrow_mut();
        let usage = users.entry(uid).or_default();
        if usage.requests >= self.limits.requests {
            return Err(Errno::MFILE);
        }
        usage.requests += 1;
        Ok(Admission { registry: Rc::clone(self), uid })
    }

    /// Whether the stack has a route to an address, and an address of its own to send from.
    pub(super) async fn has_route(&self, to: IpAddr) -> bool {
        let (told, answer) = oneshot::channel();
        let ask = Msg::Call(Box::new(move |netisr: &mut Netisr| {
            // The caller waits for it, or has gone.
            let _ = told.send(ping::source(&netisr.cpu, to, None, None).is_ok());
        }));
        let sent = self.remotes.first().is_some_and(|remote| remote.send(ask).is_ok());
        sent && answer.await.unwrap_or(false)
    }

    /// Whether a user may bind a port.
    pub(super) fn may_bind(&self, uid: u32, port: u16) -> bool {
        port == 0 || port >= 1024 || uid == 0 || self.limits.low_ports.contains(&uid)
    }

    /// Makes room for a socket of a user.
    ///
    /// # Errors
    /// `ENOBUFS` at the limit.
    pub(super) fn hold(self: &Rc<Self>, uid: u32) -> Result<Held, Errno> {
        let mut users = self.users.borrow_mut();
        let usage = users.entry(uid).or_default();
        if usage.sockets >= self.limits.sockets {
            return Err(Errno::NOBUFS);
        }
        usage.sockets += 1;
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        self.entries.borrow_mut().insert(id, Entry { uid, local: None, task: None, datagrams: None });
        Ok(Held { registry: Rc::clone(self), uid, id })
    }

    pub(super) fn set_local(&self, id: u64, local: SocketAddr) {
        if let Some(entry) = self.entries.borrow_mut().get_mut(&id) {
            entry.local = Some(local);
        }
    }

    pub(super) fn set_task(&self, id: u64, task: JoinHandle<()>) {
        if let Some(entry) = self.entries.borrow_mut().get_mut(&id) {
            entry.task = Some(task);
        }
    }

    /// Notes a socket of datagrams, whose task has begun.
    pub(super) fn set_datagrams(&self, id: u64, datagrams: Datagrams, task: JoinHandle<()>) {
        if let Some(entry) = self.entries.borrow_mut().get_mut(&id) {
            (entry.datagrams, entry.task) = (Some(datagrams), Some(task));
        }
    }

    /// Returns a user's socket of datagrams, and its task, which is the caller's to end.
    pub(super) fn take_datagrams(&self, uid: u32, id: u64) -> Option<(Datagrams, JoinHandle<()>)> {
        let mut entries = self.entries.borrow_mut();
        let entry = entries.get_mut(&id).filter(|entry| may_end(uid, entry.uid))?;
        Some((entry.datagrams.take()?, entry.task.take()?))
    }

    /// Returns the local address of a user's socket.
    pub(super) fn local(&self, uid: u32, id: u64) -> Option<SocketAddr> {
        self.entries.borrow().get(&id).filter(|entry| may_see(uid, entry.uid))?.local
    }

    /// Returns the local address of a user's listener, and its task, which is the caller's to end.
    pub(super) fn take_listener(&self, uid: u32, id: u64) -> Option<(SocketAddr, JoinHandle<()>)> {
        let mut entries = self.entries.borrow_mut();
        let entry =
            entries.get_mut(&id).filter(|entry| may_end(uid, entry.uid) && entry.datagrams.is_none())?;
        Some((entry.local?, entry.task.take()?))
    }

    /// Notes with which error a connection ended, or that it ended in order.
    pub(super) fn end(&self, held: &Held, why: Option<Errno>) {
        let Ended { errors, order } = &mut *self.ended.borrow_mut();
        if order.len() >= ENDED_MAX
            && let Some(oldest) = order.pop_front()
        {
            errors.remove(&oldest);
        }
        order.push_back(held.id);
        errors.insert(held.id, (held.uid, why));
    }

    /// Returns how a connection ended; `None` while it has no error.
    pub(super) fn outcome(&self, uid: u32, id: u64) -> Option<Errno> {
        if let Some((owner, why)) = self.ended.borrow().errors.get(&id) {
            return if may_see(uid, *owner) { *why } else { Some(Errno::CONNRESET) };
        }
        if self.entries.borrow().contains_key(&id) { None } else { Some(Errno::CONNRESET) }
    }
}

/// Users see their own sockets; root sees all, and all see those of root, which may have become another user since.
const fn may_see(uid: u32, owner: u32) -> bool {
    uid == owner || uid == 0 || owner == 0
}

/// Users end their own listeners, and root ends all: numbers are easy to guess.
const fn may_end(uid: u32, owner: u32) -> bool {
    uid == owner || uid == 0
}

impl Drop for Held {
    fn drop(&mut self) {
        self.registry.entries.borrow_mut().remove(&self.id);
        self.registry.give_back(self.uid, |usage| usage.sockets = usage.sockets.saturating_sub(1));
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.registry.give_back(self.uid, |usage| usage.requests = usage.requests.saturating_sub(1));
    }
}

impl Registry {
    fn give_back(&self, uid: u32, what: impl FnOnce(&mut Usage)) {
        let mut users = self.users.borrow_mut();
        if let Some(usage) = users.get_mut(&uid) {
            what(usage);
            if usage.requests == 0 && usage.sockets == 0 {
                users.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{Interface, Stack, mem};

    /// A registry of a stack of its own, which allows each user so much.
    pub(in super::super) fn registry(allowed: u32) -> (Stack, Rc<Registry>) {
        let [here, _] = mem::wire(1).unwrap();
        let stack = Stack::builder().threads(1).interface(Interface::mem(here).address("192.0.2.1/24"));
        let stack = stack.start().unwrap();
        let limits =
            Limits { users: Some([7, 8].into()), low_ports: [8].into(), requests: allowed, sockets: allowed };
        let registry = Registry::new(stack.sockets().unwrap(), stack.remotes().to_vec(), limits);
        (stack, Rc::new(registry))
    }

    #[test]
    fn a_user_has_as_many_sockets_and_requests_as_it_may() {
        let (_stack, registry) = registry(2);
        let held: Vec<Held> = (0..2).map(|_| registry.hold(7).ok().unwrap()).collect();
        assert_eq!(registry.hold(7).err(), Some(Errno::NOBUFS));
        let admissions: Vec<Admission> = (0..2).map(|_| registry.admit(7).ok().unwrap()).collect();
        assert_eq!(registry.admit(7).err(), Some(Errno::MFILE));
        // Another user has its own.
        assert!(registry.hold(8).is_ok() && registry.admit(8).is_ok());
        drop((held, admissions));
        assert!(registry.hold(7).is_ok() && registry.admit(7).is_ok());
        assert!(registry.users.borrow().is_empty() && registry.entries.borrow().is_empty());
    }

    #[test]
    fn users_that_are_not_named_may_not_and_low_ports_are_for_those_named() {
        let (_stack, registry) = registry(2);
        assert_eq!(registry.admit(9).err(), Some(Errno::ACCESS));
        assert!(registry.admit(0).is_ok());
        assert_eq!([0, 7, 8].map(|uid| registry.may_bind(uid, 80)), [true, false, true]);
        assert_eq!([0, 1024].map(|port| registry.may_bind(7, port)), [true; 2]);
    }

    #[test]
    fn a_listener_of_root_is_ended_by_root_alone() {
        assert_eq!(
            [(7, 7), (0, 7), (7, 0), (7, 8)].map(|(uid, owner)| may_end(uid, owner)),
            [true, true, false, false]
        );
    }

    #[test]
    fn errors_beyond_those_kept_count_as_resets() {
        let (_stack, registry) = registry(2);
        let fail = || {
            let held = registry.hold(7).ok().unwrap();
            registry.end(&held, Some(Errno::TIMEDOUT));
            held.id
        };
        let first = fail();
        assert_eq!(registry.outcome(7, first), Some(Errno::TIMEDOUT));
        // Another user does not learn it.
        assert_eq!(registry.outcome(8, first), Some(Errno::CONNRESET));
        let last = (0..ENDED_MAX).fold(first, |_, _| fail());
        assert_eq!(registry.outcome(7, first), Some(Errno::CONNRESET));
        assert_eq!(registry.outcome(7, last), Some(Errno::TIMEDOUT));
        assert_eq!(registry.ended.borrow().errors.len(), ENDED_MAX);
        let open = registry.hold(7).ok().unwrap();
        assert_eq!(registry.outcome(7, open.id), None);
    }
}
