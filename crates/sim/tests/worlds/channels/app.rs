//! Programs' threads, stepped by hand: the near ends of channels to all CPUs of a host. They do nothing but what they are
//! told of, and sleep in between, so that a wake-up that is lost is seen.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use net::app::App;
use net::channel::{
    Channel, Client, Command, Connect, END, Event, Listen, Setting, Size, Target, channel, error,
};
use net::sock::Error;
use pkt::byte_channel::{Reader, Writer};
use pkt::wake::Sleeper;
use sim::random::Random;
use sim::world::{HostId, World};

/// Lanes that are offered to each listener.
const OFFERS: usize = 4;
const LISTENER: u32 = 3;

/// A lane of a CPU.
pub(crate) type Key = (usize, u32);

/// The role of a connection.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// Echoes.
    Echo,
    /// Sends a number of bytes, which must come back.
    Ask { total: usize, sent: usize, read: usize },
    /// Reads to the end, and compares with the bytes that a client of this number sends.
    Sink { read: usize, salt: usize },
    /// Waits for another role.
    Idle,
}

struct Stream {
    /// Its lane, until it is closed.
    lane: Option<(Writer, Reader)>,
    role: Role,
    has_finished: bool,
}

/// Programs of one host.
pub(crate) struct HostApp {
    pub(crate) clients: Vec<Client>,
    streams: BTreeMap<Key, Stream>,
    /// Lanes that were offered and have no connection yet.
    offers: BTreeMap<Key, (Writer, Reader)>,
    /// Keys with work to do.
    ready: BTreeSet<Key>,
    sleeper: Sleeper,
    bell: Arc<AtomicBool>,
    is_asleep: bool,
    listens: bool,
    /// Role of accepted connections.
    pub(crate) accepts: Role,
    pub(crate) listening: Vec<Result<SocketAddr, Error>>,
    /// The other end may close connections before all has come back.
    pub(crate) may_be_cut: bool,
    pub(crate) accepted: usize,
    /// Connections on which all has come back.
    pub(crate) finished: usize,
    pub(crate) failed: Vec<Error>,
    /// Bytes that were read to their end.
    pub(crate) sunk: usize,
    pub(crate) wakes: usize,
    random: Random,
}

impl HostApp {
    /// Opens a channel to each CPU of a host.
    pub(crate) fn new(world: &mut World, host: HostId, size: Size, accepts: Role) -> Self {
        let bell = Arc::<AtomicBool>::default();
        let rung = Arc::clone(&bell);
        let sleeper = Sleeper::new(Box::new(move || rung.store(true, Ordering::Relaxed)));
        let cpus = world.of(host).cpus.len();
        let random = world.random().fork();
        let open = |cpu| {
            let (mut client, far): (Client, Channel) = channel(size, sleeper.waker()).unwrap();
            let program: Box<dyn App> = Box::new(far);
            client.attach(world.of(host).open(cpu, program).unwrap());
            client
        };
        let clients = (0..cpus).map(open).collect();
        Self {
            clients,
            streams: BTreeMap::new(),
            offers: BTreeMap::new(),
            ready: BTreeSet::new(),
            sleeper,
            bell,
            is_asleep: false,
            listens: false,
            accepts,
            listening: Vec::new(),
            may_be_cut: false,
            accepted: 0,
            finished: 0,
            failed: Vec::new(),
            sunk: 0,
            wakes: 0,
            random,
        }
    }

    /// Listens on all CPUs.
    pub(crate) fn listen(&mut self, addr: SocketAddr) {
        let listen = Listen {
            listener: LISTENER,
            addr,
            zone: 0,
            only_v6: false,
            is_shared: false,
            backlog: Some(256),
        };
        for cpu in 0..self.clients.len() {
            self.clients[cpu].push(&Command::Set(Target::Listener(LISTENER), Setting::NoDelay(true)));
            self.clients[cpu].push(&Command::Listen(listen));
        }
        self.listens = true;
        (0..self.clients.len()).for_each(|cpu| self.offer(cpu));
        self.clients.iter_mut().for_each(|client| client.publish().unwrap());
    }

    /// Offers lanes to the listener on a CPU, as many as it should have.
    fn offer(&mut self, cpu: usize) {
        let offered = self.offers.keys().filter(|(at, _)| *at == cpu).count();
        for _ in offered..if self.listens { OFFERS } else { 0 } {
            let Some((tx, rx)) = self.clients[cpu].take_lane() else { return };
            let lane = tx.lane();
            self.clients[cpu].push(&Command::Offer { listener: LISTENER, lane });
            self.offers.insert((cpu, lane), (tx, rx));
        }
    }

    /// Listens no longer.
    pub(crate) fn unlisten(&mut self) {
        self.listens = false;
        for client in &mut self.clients {
            client.push(&Command::Unlisten(LISTENER));
            client.publish().unwrap();
        }
    }

    /// Connects on a CPU; false if it has no lane free.
    pub(crate) fn connect(&mut self, cpu: usize, remote: SocketAddr, role: Role) -> bool {
        let Some(lane) = self.clients[cpu].take_lane() else { return false };
        let key = (cpu, lane.0.lane());
        let wanted = Connect { lane: key.1, remote, local: None, port: None, zone: 0 };
        self.clients[cpu].push(&Command::Set(Target::Lane(key.1), Setting::KeepAlive(true)));
        self.clients[cpu].push(&Command::Connect(wanted));
        self.clients[cpu].publish().unwrap();
        self.streams.insert(key, Stream { lane: Some(lane), role, has_finished: false });
        true
    }

    /// All that is open now does this from now on.
    pub(crate) fn all_do(&mut self, role: &Role) {
        for (key, stream) in &mut self.streams {
            stream.role = role.clone();
            self.ready.insert(*key);
        }
        self.bell.store(true, Ordering::Relaxed);
    }

    /// Closes all that is open.
    pub(crate) fn close_all(&mut self, aborts: bool) {
        let keys: Vec<_> = self.streams.keys().copied().collect();
        keys.into_iter().for_each(|key| self.close(key, aborts));
        self.clients.iter_mut().for_each(|client| client.publish().unwrap());
    }

    /// Describes the connections, for a failure's message.
    pub(crate) fn outcome(&self) -> String {
        format!("{} finished, failed: {:?}", self.finished, self.failed)
    }

    /// Connections that are open, and lanes that the other end has not given back.
    pub(crate) fn open(&self) -> usize {
        self.streams.len()
    }

    /// Returns the lanes held, including offered ones.
    pub(crate) fn holds(&self) -> usize {
        self.streams.len() + self.offers.len()
    }

    /// Does some of what there is to do, as a thread does when it has the processor; sleeps when there is nothing.
    pub(crate) fn step(&mut self) {
        if self.is_asleep && !self.bell.swap(false, Ordering::Relaxed) {
            return;
        }
        if core::mem::take(&mut self.is_asleep) {
            self.sleeper.woken();
            self.wakes += 1;
        }
        for cpu in 0..self.clients.len() {
            let most = 1 + self.random.below(8);
            for _ in 0..most {
                let Some(event) = self.clients[cpu].next_event().unwrap() else { break };
                self.hear(cpu, event);
            }
        }
        for _ in 0..=self.random.below(8) {
            let keys: Vec<_> = self.ready.iter().copied().collect();
            let Some(key) = self.random.pick(&keys) else { break };
            if self.serve(key) {
                self.ready.remove(&key);
            }
        }
        self.clients.iter_mut().for_each(|client| client.publish().unwrap());
        if self.ready.is_empty() {
            self.sleep();
        }
    }

    fn sleep(&mut self) {
        self.sleeper.prepare_sleep();
        if self.clients.iter_mut().all(Client::is_idle) {
            self.is_asleep = true;
        } else {
            self.sleeper.cancel();
        }
    }

    fn hear(&mut self, cpu: usize, event: Event) {
        match event {
            Event::Listening(LISTENER, at) => self.listening.push(at),
            Event::Accepted { listener, lane, ends } => {
                assert_eq!((listener, ends.local_port > 0), (LISTENER, true));
                self.accepted += 1;
                let lane = (lane, self.offers.remove(&(cpu, lane)).unwrap());
                let stream = Stream { lane: Some(lane.1), role: self.accepts.clone(), has_finished: false };
                self.streams.insert((cpu, lane.0), stream);
                self.ready.insert((cpu, lane.0));
                self.offer(cpu);
            }
            Event::Connected(lane, _)
            | Event::Readable(lane)
            | Event::Writable(lane)
            | Event::Ended(lane) => {
                if self.streams.contains_key(&(cpu, lane)) {
                    self.ready.insert((cpu, lane));
                }
            }
            Event::Free(lane) => {
                self.offers.remove(&(cpu, lane));
                self.streams.remove(&(cpu, lane));
                self.ready.remove(&(cpu, lane));
                self.clients[cpu].free_lane(lane);
                self.offer(cpu);
            }
            Event::Unlistened(_) | Event::Listening(..) => {}
            Event::Answer(..) | Event::Failed(..) | Event::Quote(..) => unreachable!("of datagrams"),
        }
    }

    /// Leaves a connection.
    fn close(&mut self, (cpu, lane): Key, aborts: bool) {
        let Some(stream) = self.streams.get_mut(&(cpu, lane)) else { return };
        if stream.lane.take().is_some() {
            self.clients[cpu].push(&Command::Close { lane, aborts });
        }
        self.ready.remove(&(cpu, lane));
    }

    /// Does something on a connection; true if it waits to be told of something, or is closed.
    fn serve(&mut self, key: Key) -> bool {
        let Self { streams, clients, random, .. } = self;
        let Some(stream) = streams.get_mut(&key) else { return true };
        let (Some((tx, rx)), client) = (&mut stream.lane, &mut clients[key.0]) else { return true };
        let look = Command::Look(key.1);
        if let Role::Ask { total, sent, .. } = &mut stream.role
            && !stream.has_finished
        {
            let len = (*total - *sent).min(1 + random.below(20_000));
            let bytes: Vec<u8> = (*sent..*sent + len).map(|at| byte(at, *total)).collect();
            *sent += tx.write(&bytes).unwrap();
            stream.has_finished = sent == total;
            let is_told = if stream.has_finished { tx.finish(END) } else { tx.publish() };
            if is_told {
                client.push(&look);
            }
        }
        let mut buf = vec![0; 1 + random.below(20_000)];
        let count = match &mut stream.role {
            Role::Ask { total, read, .. } => {
                let count = rx.read(&mut buf).unwrap();
                let right = buf[..count].iter().zip(*read..).all(|(is, at)| *is == byte(at, *total));
                assert!(right, "other bytes than were sent, behind byte {read}");
                *read += count;
                count
            }
            Role::Sink { read, salt } => {
                let count = rx.read(&mut buf).unwrap();
                assert!(buf[..count].iter().zip(*read..).all(|(is, at)| *is == byte(at, *salt)));
                *read += count;
                count
            }
            Role::Echo => {
                let room = tx.free().unwrap().min(buf.len());
                let count = rx.read(&mut buf[..room]).unwrap();
                assert_eq!(tx.write(&buf[..count]), Ok(count));
                if tx.publish() {
                    client.push(&look);
                }
                count
            }
            Role::Idle => return true,
        };
        if rx.release().unwrap() {
            client.push(&look);
        }
        match rx.end().unwrap() {
            Some(END) => {
                self.end(key);
                true
            }
            Some(how) => {
                self.failed.push(error(how).unwrap());
                self.close(key, false);
                true
            }
            None if count > 0 => false,
            None => {
                let has_room = match stream.role {
                    Role::Ask { .. } => stream.has_finished || tx.waits().unwrap(),
                    Role::Sink { .. } => true,
                    _ if rx.is_empty().unwrap() => true,
                    _ => tx.waits().unwrap(),
                };
                has_room && (!rx.is_empty().unwrap() || rx.waits().unwrap())
            }
        }
    }

    /// The other end sends no more.
    fn end(&mut self, key: Key) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        match stream.role {
            // A program that ends has its connections closed in order, if it has read all that has come.
            Role::Ask { total, read, .. } if self.may_be_cut && read < total => {
                self.failed.push(Error::Closed)
            }
            Role::Ask { total, sent, read } => {
                assert_eq!((total, total), (sent, read), "the stream has ended");
                self.finished += 1;
            }
            Role::Sink { read, .. } => self.sunk += read,
            Role::Echo | Role::Idle => {
                // Nothing is left to be read, and what was written still goes.
                if let Some((tx, _)) = &mut stream.lane
                    && tx.finish(END)
                {
                    self.clients[key.0].push(&Command::Look(key.1));
                }
            }
        }
        self.close(key, false);
    }
}

/// The byte that stands there.
pub(crate) fn byte(at: usize, salt: usize) -> u8 {
    (at.wrapping_mul(37) ^ at >> 8 ^ salt).to_le_bytes()[0]
}
