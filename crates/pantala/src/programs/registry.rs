//! Sockets of programs by number, their owners and limits, and how connections ended.

use core::cell::{Cell, Ref, RefCell};
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};

use net::msg::{Msg, Remote};
use net::netisr::Netisr;
use net::ping;
use net::tcp::Listed;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};
use wire::program::{INTERFACE_BASE, Options, Role, SockOpt, own_number};

use super::datagrams::Datagrams;
use super::interfaces::{self, Page};
use super::options;
use super::pair::{bound, is_hung_up, queued};
use super::process::Process;
use crate::api::ProgramCounters;
use crate::sockets::Sockets;
use crate::sockets::aio::{TcpListener, TcpStream};

/// Ended connections whose ends are kept to be asked for; the oldest give way, and count as reset.
const ENDED_MAX: usize = 4096;
/// Bytes of a buffer at the least.
const BUFFER_MIN: usize = 2048;
/// Turns that the relay of a connection has to read what its program has written.
const RELAY_TURNS: u32 = 64;
/// Bytes that are moved at a time.
const SCRATCH: usize = (64 << 10) + wire::program::HEAD_LEN;

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
    pub(super) processes: RefCell<HashMap<i32, Rc<Process>>>,
    /// Counts of processes that are gone.
    pub(super) gone: Cell<ProgramCounters>,
    /// A descriptor that marks messages.
    mark: Option<Rc<OwnedFd>>,
}

/// A socket that exists.
pub(super) struct Entry {
    pub(super) process: Rc<Process>,
    pub(super) role: Role,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    options: Options,
    /// The daemon's end of its pair.
    pub(super) unix: Weak<UnixStream>,
    /// The task of a listener, or of a socket of datagrams.
    task: Option<JoinHandle<()>>,
    object: Object,
}

/// The socket of the stack.
enum Object {
    None,
    Listener(Weak<TcpListener>),
    Stream(Weak<TcpStream>),
    Datagrams(Datagrams),
}

#[derive(Default)]
struct Ended {
    /// Owner, error that was not told yet, and local address.
    errors: HashMap<u64, (u32, Option<Errno>, Option<SocketAddr>)>,
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
    pub(super) process: Rc<Process>,
    pub(super) id: u64,
}

/// A connection with requests.
pub(super) struct Admission {
    registry: Rc<Registry>,
    process: Rc<Process>,
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
            processes: RefCell::default(),
            gone: Cell::default(),
            mark: eventfd(0, EventfdFlags::CLOEXEC).ok().map(Rc::new),
        }
    }

    /// Admits a connection of a user.
    ///
    /// # Errors
    /// `EACCES` for users that may not, `EMFILE` at the limit of requests.
    pub(super) fn admit(self: &Rc<Self>, process: &Rc<Process>) -> Result<Admission, Errno> {
        let uid = process.uid;
        let may = uid == 0 || self.limits.users.as_ref().is_none_or(|users| users.contains(&uid));
        if !may {
            self.refuse(process);
            return Err(Errno::ACCESS);
        }
        let mut users = self.users.borrow_mut();
        let usage = users.entry(uid).or_default();
        if usage.requests >= self.limits.requests {
            self.refuse(process);
            return Err(Errno::MFILE);
        }
        usage.requests += 1;
        Ok(Admission { registry: Rc::clone(self), process: Rc::clone(process) })
    }

    /// All sockets, by their numbers.
    pub(super) fn entries(&self) -> Ref<'_, HashMap<u64, Entry>> {
        self.entries.borrow()
    }

    /// Sockets and requests that a user may have.
    pub(super) fn limits(&self) -> (u64, u64) {
        (self.limits.sockets.into(), self.limits.requests.into())
    }

    /// A descriptor that marks messages.
    pub(super) fn mark(&self) -> Option<Rc<OwnedFd>> {
        self.mark.clone()
    }

    /// Whether the stack has a route to an address, by the interface `device` if it is one, and an address of its own to send from.
    pub(super) async fn has_route(&self, to: SocketAddr, device: Option<i32>) -> bool {
        // Only a number that is none of the kernel's says that an interface here is meant.
        let scope = match to {
            SocketAddr::V6(to) if to.scope_id() & INTERFACE_BASE != 0 && is_of_a_link(*to.ip()) => {
                u16::try_from(own_number(to.scope_id())).ok()
            }
            _ => None,
        };
        let device = device.filter(|device| *device != 0);
        let by = device.map_or(scope, |device| Some(u16::try_from(device).unwrap_or(u16::MAX)));
        let to = to.ip().to_canonical();
        let (told, answer) = oneshot::channel();
        let ask = Msg::Call(Box::new(move |netisr: &mut Netisr| {
            // The caller waits for it, or has gone.
            let _ = told.send(ping::source(&netisr.cpu, to, None, by, 0).is_ok());
        }));
        let sent = self.remotes.first().is_some_and(|remote| remote.send(ask).is_ok());
        sent && answer.await.unwrap_or(false)
    }

    /// Returns the MTU of the link on the way to an address.
    pub(super) async fn link_mtu(&self, to: IpAddr) -> Option<u32> {
        let (told, answer) = oneshot::channel();
        let ask = Msg::Call(Box::new(move |netisr: &mut Netisr| {
            // The caller waits for it, or has gone.
            let _ = told.send(net::udp::link_mtu(&netisr.cpu, 0, to));
        }));
        self.remotes.first()?.send(ask).ok()?;
        answer.await.ok()?
    }

    /// Returns a page of the list of interfaces and addresses.
    pub(super) async fn interfaces(&self, from: u32) -> Option<Page> {
        let (told, answer) = oneshot::channel();
        let ask = Msg::Call(Box::new(move |netisr: &mut Netisr| {
            // The caller waits for it, or has gone.
            let _ = told.send(interfaces::page(&netisr.cpu.tables, from));
        }));
        self.remotes.first()?.send(ask).ok()?;
        answer.await.ok()
    }

    /// Whether a user may bind a port.
    pub(super) fn may_bind(&self, uid: u32, port: u16) -> bool {
        port == 0 || port >= 1024 || uid == 0 || self.limits.low_ports.contains(&uid)
    }

    /// Makes room for a socket of a user.
    ///
    /// # Errors
    /// `ENOBUFS` at the limit.
    pub(super) fn hold(self: &Rc<Self>, process: &Rc<Process>, role: Role) -> Result<Held, Errno> {
        let mut users = self.users.borrow_mut();
        let usage = users.entry(process.uid).or_default();
        if usage.sockets >= self.limits.sockets {
            self.refuse(process);
            return Err(Errno::NOBUFS);
        }
        usage.sockets += 1;
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        let entry = Entry {
            process: Rc::clone(process),
            role,
            local: None,
            remote: None,
            options: Options::default(),
            unix: Weak::new(),
            task: None,
            object: Object::None,
        };
        self.entries.borrow_mut().insert(id, entry);
        process.sockets.set(process.sockets.get() + 1);
        Ok(Held { registry: Rc::clone(self), process: Rc::clone(process), id })
    }

    fn change(&self, id: u64, what: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.borrow_mut().get_mut(&id) {
            what(entry);
        }
    }

    /// Notes the addresses of a socket.
    pub(super) fn set_ends(&self, id: u64, local: Option<SocketAddr>, remote: Option<SocketAddr>) {
        self.change(id, |entry| (entry.local, entry.remote) = (local, remote));
    }

    pub(super) fn set_options(&self, id: u64, options: Options) {
        self.change(id, |entry| entry.options = options);
    }

    /// Notes the daemon's end of a socket's pair.
    pub(super) fn set_unix(&self, id: u64, unix: &Rc<UnixStream>) {
        self.change(id, |entry| entry.unix = Rc::downgrade(unix));
    }

    /// Notes a listener, whose task has begun.
    pub(super) fn set_listener(&self, id: u64, listener: &Rc<TcpListener>, task: JoinHandle<()>) {
        self.change(id, |entry| {
            entry.object = Object::Listener(Rc::downgrade(listener));
            entry.task = Some(task);
        });
    }

    /// Notes a connection that is established.
    pub(super) fn set_stream(&self, id: u64, stream: &Rc<TcpStream>) {
        self.change(id, |entry| entry.object = Object::Stream(Rc::downgrade(stream)));
    }

    /// Notes a socket of datagrams, whose task has begun.
    pub(super) fn set_datagrams(&self, id: u64, datagrams: Datagrams, task: JoinHandle<()>) {
        self.change(id, |entry| (entry.object, entry.task) = (Object::Datagrams(datagrams), Some(task)));
    }

    /// Returns the options of a socket.
    pub(super) fn options(&self, id: u64) -> Options {
        self.entries.borrow().get(&id).map(|entry| entry.options).unwrap_or_default()
    }

    /// Whether a connection is reset when its program closes it.
    pub(super) fn resets(&self, id: u64) -> bool {
        self.options(id).get(SockOpt::Linger) == Some(0)
    }

    /// Sets an option of a user's socket.
    ///
    /// # Errors
    /// `EBADF` of sockets that are not there, and what the stack's socket says.
    pub(super) fn set(&self, uid: u32, id: u64, option: SockOpt, value: i32) -> Result<(), Errno> {
        let mut entries = self.entries.borrow_mut();
        let entry =
            entries.get_mut(&id).filter(|entry| may_see(uid, entry.process.uid)).ok_or(Errno::BADF)?;
        let setting = options::setting(option, value);
        let set = match (&entry.object, setting.as_slice()) {
            (Object::Listener(listener), setting) => listener.upgrade().map(|own| own.set(setting)),
            (Object::Stream(stream), setting) => stream.upgrade().map(|own| own.change(setting)),
            (Object::Datagrams(own), _) => Some(options::apply(own.udp(), option, value)),
            // A connection that begins gets its options when it is established.
            (Object::None, _) => None,
        };
        set.unwrap_or(Ok(())).map_err(|why| Errno::from_io_error(&why).unwrap_or(Errno::INVAL))?;
        entry.options.set(option, value);
        if entry.role == Role::Stream
            && option == SockOpt::ReceiveBuffer
            && let Some(unix) = entry.unix.upgrade()
        {
            // Without this it stays as it was.
            let _ = bound(&*unix, &entry.options);
        }
        Ok(())
    }

    /// Waits until the relay has read what the program has written so far, as long as that is soon.
    pub(super) async fn relayed(&self, id: u64) {
        let unix = self.entries.borrow().get(&id).map(|entry| entry.unix.clone());
        let Some(unix) = unix.and_then(|unix| unix.upgrade()) else { return };
        for _ in 0..RELAY_TURNS {
            match queued(&*unix) {
                (_, 0) => return,
                _ => yield_now().await,
            }
        }
    }

    /// Returns the bytes of a buffer that the program has chosen, 2048 at the least; else more than there are.
    pub(super) fn buffer(&self, id: u64, option: SockOpt) -> usize {
        let entries = self.entries.borrow();
        let bytes = entries.get(&id).and_then(|entry| entry.options.get(option));
        bytes.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(0).max(BUFFER_MIN))
    }

    /// Whether a port that is taken may be free soon: a socket that has it is about to end, since its program has closed it, or none has it,
    /// and a netisr has one still that has ended.
    pub(super) fn may_become_free(&self, port: u16) -> bool {
        let has_port = |entry: &&Entry| entry.local.is_some_and(|local| local.port() == port);
        let is_ending = |entry: &Entry| entry.unix.upgrade().is_none_or(|unix| is_hung_up(&*unix));
        let entries = self.entries.borrow();
        let mut with_port = entries.values().filter(has_port).map(is_ending).peekable();
        with_port.peek().is_none() || with_port.any(|is_ending| is_ending)
    }

    /// Returns the value of an option of a user's socket.
    ///
    /// # Errors
    /// `EBADF` of sockets that are not there.
    pub(super) fn value(&self, uid: u32, id: u64, option: SockOpt) -> Result<i32, Errno> {
        let entries = self.entries.borrow();
        let entry = entries.get(&id).filter(|entry| may_see(uid, entry.process.uid)).ok_or(Errno::BADF)?;
        Ok(entry.options.get(option).unwrap_or_else(|| options::default(option)))
    }

    /// Returns a user's listener, which is about to take connections, or to have another backlog.
    ///
    /// # Errors
    /// `EBADF` of listeners that are not there.
    pub(super) fn listener(&self, uid: u32, id: u64) -> Result<Rc<TcpListener>, Errno> {
        let mut entries = self.entries.borrow_mut();
        let entry =
            entries.get_mut(&id).filter(|entry| may_see(uid, entry.process.uid)).ok_or(Errno::BADF)?;
        let Object::Listener(listener) = &entry.object else { return Err(Errno::INVAL) };
        let listener = listener.upgrade().ok_or(Errno::BADF)?;
        entry.options.set(SockOpt::AcceptConn, 1);
        Ok(listener)
    }

    /// Returns what the stack knows of a user's connection; `None` of one that is not established.
    pub(super) async fn info(&self, uid: u32, id: u64) -> Option<Listed> {
        let stream = {
            let entries = self.entries.borrow();
            let entry = entries.get(&id).filter(|entry| may_see(uid, entry.process.uid))?;
            let Object::Stream(stream) = &entry.object else { return None };
            stream.upgrade()?
        };
        let (cpu, ends) = stream.place().ok()?;
        let (told, answer) = oneshot::channel();
        let ask = Msg::Call(Box::new(move |netisr: &mut Netisr| {
            let cpu = &netisr.cpu;
            // The caller waits for it, or has gone.
            let _ = told.send(cpu.tcp.as_deref().and_then(|pcbs| pcbs.listed_at(&ends, cpu.now)));
        }));
        self.remotes.get(cpu)?.send(ask).ok()?;
        answer.await.ok()?
    }

    /// Returns a user's socket of datagrams.
    pub(super) fn datagrams(&self, uid: u32, id: u64) -> Option<Datagrams> {
        let entries = self.entries.borrow();
        let entry = entries.get(&id).filter(|entry| may_see(uid, entry.process.uid))?;
        match &entry.object {
            Object::Datagrams(datagrams) => Some(datagrams.clone()),
            _ => None,
        }
    }

    /// Returns a user's socket of datagrams, and its task, which is the caller's to end.
    pub(super) fn take_datagrams(&self, uid: u32, id: u64) -> Option<(Datagrams, JoinHandle<()>)> {
        let mut entries = self.entries.borrow_mut();
        let entry = entries.get_mut(&id).filter(|entry| may_end(uid, entry.process.uid))?;
        match core::mem::replace(&mut entry.object, Object::None) {
            Object::Datagrams(datagrams) => Some((datagrams, entry.task.take()?)),
            other => {
                entry.object = other;
                None
            }
        }
    }

    /// Returns the local address of a user's socket.
    pub(super) fn local(&self, uid: u32, id: u64) -> Option<SocketAddr> {
        if let Some(entry) = self.entries.borrow().get(&id) {
            return if may_see(uid, entry.process.uid) { entry.local } else { None };
        }
        let ended = self.ended.borrow();
        let (owner, _, local) = ended.errors.get(&id)?;
        if may_see(uid, *owner) { *local } else { None }
    }

    /// Returns the local address of a user's listener, and its task, which is the caller's to end.
    pub(super) fn take_listener(&self, uid: u32, id: u64) -> Option<(SocketAddr, JoinHandle<()>)> {
        let mut entries = self.entries.borrow_mut();
        let entry = entries
            .get_mut(&id)
            .filter(|entry| may_end(uid, entry.process.uid) && entry.role == Role::Listener)?;
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
        // Its address stays its program's until that closes it.
        let local = self.entries.borrow().get(&held.id).and_then(|entry| entry.local);
        errors.insert(held.id, (held.process.uid, why, local));
    }

    /// Returns how a connection ended, once, as the kernel tells errors; `None` while it has no error.
    pub(super) fn outcome(&self, uid: u32, id: u64) -> Option<Errno> {
        if let Some((owner, why, _)) = self.ended.borrow_mut().errors.get_mut(&id) {
            return if may_see(uid, *owner) { why.take() } else { Some(Errno::CONNRESET) };
        }
        if self.entries.borrow().contains_key(&id) { None } else { Some(Errno::CONNRESET) }
    }
}

/// Whether an address means something only with its link.
const fn is_of_a_link(ip: Ipv6Addr) -> bool {
    ip.is_unicast_link_local() || ip.is_multicast()
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
        // Its objects are dropped when the table is not borrowed.
        let entry = self.registry.entries.borrow_mut().remove(&self.id);
        drop(entry);
        self.process.sockets.set(self.process.sockets.get().saturating_sub(1));
        self.registry.give_back(self.process.uid, |usage| usage.sockets = usage.sockets.saturating_sub(1));
        self.registry.leave(&self.process, 1);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let uid = self.process.uid;
        self.registry.give_back(uid, |usage| usage.requests = usage.requests.saturating_sub(1));
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

    /// A process of a user.
    pub(in super::super) fn process(uid: u32) -> Rc<Process> {
        Rc::new(Process::new(uid, 1))
    }

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
        let held: Vec<Held> =
            (0..2).map(|_| registry.hold(&process(7), Role::Stream).ok().unwrap()).collect();
        assert_eq!(registry.hold(&process(7), Role::Stream).err(), Some(Errno::NOBUFS));
        let admissions: Vec<Admission> = (0..2).map(|_| registry.admit(&process(7)).ok().unwrap()).collect();
        assert_eq!(registry.admit(&process(7)).err(), Some(Errno::MFILE));
        // Another user has its own.
        assert!(registry.hold(&process(8), Role::Stream).is_ok() && registry.admit(&process(8)).is_ok());
        drop((held, admissions));
        assert!(registry.hold(&process(7), Role::Stream).is_ok() && registry.admit(&process(7)).is_ok());
        assert!(registry.users.borrow().is_empty() && registry.entries.borrow().is_empty());
    }

    #[test]
    fn users_that_are_not_named_may_not_and_low_ports_are_for_those_named() {
        let (_stack, registry) = registry(2);
        assert_eq!(registry.admit(&process(9)).err(), Some(Errno::ACCESS));
        assert!(registry.admit(&process(0)).is_ok());
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
        let own = SocketAddr::from(([192, 0, 2, 1], 7));
        let fail = || {
            let held = registry.hold(&process(7), Role::Stream).ok().unwrap();
            registry.set_ends(held.id, Some(own), None);
            registry.end(&held, Some(Errno::TIMEDOUT));
            held.id
        };
        let first = fail();
        // Another user does not learn it.
        assert_eq!(registry.outcome(8, first), Some(Errno::CONNRESET));
        assert_eq!(registry.outcome(7, first), Some(Errno::TIMEDOUT));
        assert_eq!(registry.outcome(7, first), None, "it was told");
        // As is its address.
        assert_eq!([7, 8].map(|uid| registry.local(uid, first)), [Some(own), None]);
        let last = (0..ENDED_MAX).fold(first, |_, _| fail());
        assert_eq!(registry.outcome(7, first), Some(Errno::CONNRESET));
        assert_eq!(registry.outcome(7, last), Some(Errno::TIMEDOUT));
        assert_eq!(registry.ended.borrow().errors.len(), ENDED_MAX);
        let open = registry.hold(&process(7), Role::Stream).ok().unwrap();
        assert_eq!(registry.outcome(7, open.id), None);
    }
}
