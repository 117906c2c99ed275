//! The application of a test on each netisr: it accepts, connects, sends and receives there, as threads order it.
//!
//! Bytes of streams are made and counted here, where their packets are; what is said on a control connection goes to the thread
//! that holds its [`Line`](super::line::Line), and comes from there.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::time::Instant;

use net::app::{App, AppContext, Handle};
use net::channel::{self, Setting};
use net::pcb::FourTuple;
use net::sock::Error;
use net::tables::IfIndex;
use net::tcp::{self, Accepted, IpTxParams, Listen, ListenerId};
use net::time::{self, Duration as Nanos};
use net::udp::{self, Received, To};

use super::control::PATIENCE;
use super::line::LineOptions;
use super::protocol::{COOKIE_LEN, GREETING, OLD_GREETING};
pub(super) use super::stream::Stream;
use super::stream::{Next, READ_MAX};

/// Connections that may be about to say their cookie, on each CPU; further ones are reset.
const NEW_MAX: usize = 64;
/// Datagrams that are taken before others on the CPU have their turn.
const DATAGRAMS_AT_ONCE: usize = 64;
/// Name of the server's UDP socket; those of lines are others.
const PORT: u32 = 0;
/// First name of an accepted connection; those of lines that threads begin are below.
const ACCEPTED: u32 = 1 << 31;
/// Time after which a thread that has not read its pieces is tried again, and a sender whose bytes another one has.
const SOON: Duration = Duration::from_millis(1);

/// The order of a thread. Lines are named by a number.
pub(super) enum Order {
    Connect(u32, Box<Wanted>),
    Listen(Box<Wait>),
    Unlisten,
    /// Greetings are told, or no more.
    Greetings(Option<SyncSender<Greeting>>),
    /// A stream of the server's UDP socket.
    Peer(u32, To),
    /// Bytes that come are handed to a thread from now on.
    Forward(u32, SyncSender<Vec<u8>>),
    Set(u32, Vec<Setting>),
    Write(u32, Vec<u8>),
    Shut(u32),
    Run(u32, Box<Stream>),
    Stop(u32),
    Close(u32),
    /// All orders before are obeyed.
    Answer(SyncSender<Result<(), Error>>),
}

/// A connection, or a connected UDP socket, to be begun.
pub(super) struct Wanted {
    pub(super) udp: bool,
    pub(super) peer: SocketAddr,
    pub(super) options: LineOptions,
    /// Where it is told that it stands, and its local address.
    pub(super) told: SyncSender<Result<SocketAddr, Error>>,
}

/// A server's port.
pub(super) struct Wait {
    pub(super) at: SocketAddr,
    pub(super) only_v6: bool,
    pub(super) guests: SyncSender<Guest>,
    pub(super) told: SyncSender<Result<(), Error>>,
}

/// A connection that has said its cookie.
pub(super) struct Guest {
    /// Its CPU, by its place among the agents.
    pub(super) cpu: usize,
    pub(super) key: u32,
    pub(super) ends: FourTuple,
    pub(super) cookie: [u8; COOKIE_LEN],
}

/// A datagram that asks for a stream.
pub(super) struct Greeting {
    pub(super) cpu: usize,
    pub(super) received: Received,
    pub(super) word: u32,
}

pub(super) struct Traffic {
    cpu: usize,
    orders: Receiver<Order>,
    conns: HashMap<u32, Conn>,
    /// Names of the peers of the server's UDP socket.
    peers: HashMap<SocketAddr, u32>,
    port: Option<Port>,
    greetings: Option<SyncSender<Greeting>>,
    next: u32,
    wakes: time::Instant,
    /// A datagram on its way.
    buffer: Vec<u8>,
}

struct Port {
    listener: ListenerId,
    socket: udp::Id,
    guests: SyncSender<Guest>,
}

/// A line's part here.
struct Conn {
    socket: Socket,
    /// Where bytes that come go, if they are for a thread; gone behind the end.
    to: Option<SyncSender<Vec<u8>>>,
    told: Option<SyncSender<Result<SocketAddr, Error>>>,
    /// Bytes of threads for which there was no room yet.
    unsent: VecDeque<u8>,
    shuts: bool,
    new: Option<New>,
    stream: Option<Box<Stream>>,
}

#[derive(Clone, Copy)]
enum Socket {
    Tcp(tcp::Id),
    Udp(udp::Id),
    /// The server's socket, with one other end.
    Peer(To),
}

/// A connection that has not said its cookie yet.
struct New {
    ends: FourTuple,
    since: Instant,
}

impl Conn {
    fn new(socket: Socket) -> Self {
        Self { socket, to: None, told: None, unsent: VecDeque::new(), shuts: false, new: None, stream: None }
    }

    /// Sends what a thread has written, as much as there is room for.
    fn flush(&mut self, cx: &mut AppContext<'_>, id: tcp::Id) {
        while !self.unsent.is_empty() {
            let (first, _) = self.unsent.as_slices();
            match tcp::send(cx.cpu, id, first) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(Error::WouldBlock) => return,
                // It has ended, which is told.
                Err(_) => self.unsent.clear(),
            }
        }
        if self.shuts {
            // One that has ended needs no end.
            let _ = tcp::shutdown(cx.cpu, id);
        }
    }

    /// Hands what has come to the thread; whether there is more than it has room for.
    fn forward(&mut self, cx: &mut AppContext<'_>, id: tcp::Id) -> bool {
        while let Some(to) = &self.to {
            let mut piece = vec![0; READ_MAX];
            let come = tcp::peek(cx.cpu, id, &mut piece);
            match come {
                Err(Error::WouldBlock) => return false,
                Err(_) | Ok(0) => self.to = None,
                Ok(len) => {
                    piece.truncate(len);
                    match to.try_send(piece) {
                        Err(TrySendError::Full(_)) => return true,
                        // A thread that has gone hears no more of it.
                        Ok(()) | Err(TrySendError::Disconnected(_)) => {}
                    }
                    // It was there a moment ago.
                    let _ = tcp::read_in_place(cx.cpu, id, |_| (len, ()));
                }
            }
        }
        false
    }
}

impl Traffic {
    pub(super) fn new(cpu: usize, orders: Receiver<Order>) -> Self {
        Self {
            cpu,
            orders,
            conns: HashMap::new(),
            peers: HashMap::new(),
            port: None,
            greetings: None,
            next: ACCEPTED,
            wakes: time::Instant::NEVER,
            buffer: vec![0; usize::from(u16::MAX)],
        }
    }

    fn obey(&mut self, cx: &mut AppContext<'_>, order: Order) {
        match order {
            Order::Connect(key, wanted) => self.connect(cx, key, *wanted),
            Order::Listen(wait) => {
                let listens = self.listen(cx, &wait);
                // A thread that has gone asks no more.
                let _ = wait.told.try_send(listens);
            }
            Order::Unlisten => self.unlisten(cx),
            Order::Greetings(to) => self.greetings = to,
            Order::Peer(key, to) => {
                self.peers.insert(to.remote, key);
                self.conns.insert(key, Conn::new(Socket::Peer(to)));
            }
            Order::Forward(key, to) => self.begin_to_forward(cx, key, to),
            Order::Set(key, settings) => self.set(cx, key, settings),
            Order::Write(key, bytes) => self.write(cx, key, &bytes),
            Order::Shut(key) => {
                if let Some(conn) = self.conns.get_mut(&key) {
                    conn.shuts = true;
                }
                self.write(cx, key, &[]);
            }
            Order::Run(key, stream) => {
                if let Some(conn) = self.conns.get_mut(&key) {
                    conn.stream = Some(stream);
                }
                self.step(cx, key);
            }
            Order::Stop(key) => {
                if let Some(conn) = self.conns.get_mut(&key) {
                    conn.stream = None;
                }
            }
            Order::Close(key) => self.close(cx, key),
            Order::Answer(to) => _ = to.try_send(Ok(())),
        }
    }

    fn connect(&mut self, cx: &mut AppContext<'_>, key: u32, wanted: Wanted) {
        let Wanted { udp, peer, options, told } = wanted;
        let zone = if let SocketAddr::V6(peer) = peer { peer.scope_id() } else { 0 };
        let zone = IfIndex::try_from(zone).unwrap_or(0);
        let (remote, local, port) = (peer, options.local, None);
        let begun = if udp {
            let mut settings = udp::Settings::default();
            let mut prepare = |setting| {
                channel::prepare_socket(&mut settings, setting);
                if let Setting::Class(class) = setting {
                    settings.tx_params.class = u8::try_from(class).unwrap_or(u8::MAX);
                }
            };
            options.settings.into_iter().for_each(&mut prepare);
            let wanted = udp::Connect { remote, local, port, zone, settings };
            udp::connect(cx.cpu, &wanted).map(|id| {
                cx.hold(id, key);
                Socket::Udp(id)
            })
        } else {
            let (mut settings, mut tx_params) = (cx.cpu.sysctls.tcp, IpTxParams::default());
            let mut prepare = |setting| channel::prepare(&mut settings, &mut tx_params, setting);
            options.settings.into_iter().for_each(&mut prepare);
            let wanted = tcp::Connect { remote, local, port, zone, settings, tx_params };
            cx.connect(&wanted, key).map(Socket::Tcp)
        };
        let mut conn = match begun {
            Ok(socket) => Conn::new(socket),
            Err(why) => {
                // A thread that has gone asks no more.
                let _ = told.try_send(Err(why));
                return;
            }
        };
        match conn.socket {
            Socket::Udp(id) => _ = told.try_send(udp::local(cx.cpu, id).ok_or(Error::NotFound)),
            _ => conn.told = Some(told),
        }
        self.conns.insert(key, conn);
    }

    fn listen(&mut self, cx: &mut AppContext<'_>, wait: &Wait) -> Result<(), Error> {
        let &Wait { at: addr, only_v6, ref guests, .. } = wait;
        let settings = cx.cpu.sysctls.tcp;
        let listener = cx.listen(&Listen { only_v6, settings, ..Listen::at(addr) }, PORT)?;
        let settings = udp::Settings::default();
        let bind = udp::Bind { addr, zone: 0, only_v6, is_shared: false, settings };
        match udp::bind(cx.cpu, &bind) {
            Ok(socket) => {
                cx.hold(socket, PORT);
                self.port = Some(Port { listener, socket, guests: guests.clone() });
                Ok(())
            }
            Err(why) => {
                tcp::unlisten(cx.cpu, listener);
                Err(why)
            }
        }
    }

    fn unlisten(&mut self, cx: &mut AppContext<'_>) {
        if let Some(port) = self.port.take() {
            tcp::unlisten(cx.cpu, port.listener);
            let _ = udp::close(cx.cpu, port.socket);
        }
        let new: Vec<u32> =
            self.conns.iter().filter(|(_, conn)| conn.new.is_some()).map(|(key, _)| *key).collect();
        new.into_iter().for_each(|key| self.close(cx, key));
    }

    fn begin_to_forward(&mut self, cx: &mut AppContext<'_>, key: u32, to: SyncSender<Vec<u8>>) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        conn.to = Some(to);
        if let Socket::Tcp(id) = conn.socket {
            self.read(cx, key, id);
        }
    }

    fn set(&self, cx: &mut AppContext<'_>, key: u32, settings: Vec<Setting>) {
        if let Some(&Conn { socket: Socket::Tcp(id), .. }) = self.conns.get(&key) {
            settings.into_iter().for_each(|setting| channel::apply(cx.cpu, id, setting));
        }
    }

    fn write(&mut self, cx: &mut AppContext<'_>, key: u32, bytes: &[u8]) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        // A datagram that cannot be sent is lost, as any may be.
        match (conn.socket, &self.port) {
            (Socket::Tcp(id), _) => {
                conn.unsent.extend(bytes);
                conn.flush(cx, id);
            }
            (Socket::Udp(id), _) => _ = udp::send(cx.cpu, id, bytes),
            (Socket::Peer(to), Some(port)) => _ = udp::send_to(cx.cpu, port.socket, to, bytes),
            (Socket::Peer(_), None) => {}
        }
    }

    fn close(&mut self, cx: &mut AppContext<'_>, key: u32) {
        let Some(conn) = self.conns.remove(&key) else { return };
        // One that has ended needs no end.
        match conn.socket {
            Socket::Tcp(id) if conn.new.is_some() => _ = tcp::abort(cx.cpu, id),
            Socket::Tcp(id) => _ = tcp::close(cx.cpu, id),
            Socket::Udp(id) => _ = udp::close(cx.cpu, id),
            Socket::Peer(to) => _ = self.peers.remove(&to.remote),
        }
    }

    /// Sends of a stream as much as is due and finds room, within its turn.
    fn step(&mut self, cx: &mut AppContext<'_>, key: u32) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        let Some(stream) = conn.stream.as_mut().filter(|stream| stream.sends) else { return };
        let next = match (conn.socket, &self.port) {
            (Socket::Tcp(id), _) => stream.send(cx, id),
            (Socket::Udp(id), _) => stream.send_datagrams(|bytes| udp::send(cx.cpu, id, bytes)),
            (Socket::Peer(to), Some(port)) => {
                stream.send_datagrams(|bytes| udp::send_to(cx.cpu, port.socket, to, bytes))
            }
            (Socket::Peer(_), None) => Next::Nothing,
        };
        match (next, conn.socket) {
            (Next::Nothing, _) => {}
            (Next::Again, Socket::Tcp(id)) => cx.again(id),
            (Next::Again, _) => self.wake(cx, Duration::ZERO),
            (Next::After(wait), _) => self.wake(cx, wait),
        }
    }

    /// Wants to be called within `wait`.
    fn wake(&mut self, cx: &mut AppContext<'_>, wait: Duration) {
        let ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let at = cx.now() + Nanos::from_nanos(ns);
        if at < self.wakes {
            self.wakes = at;
            cx.wake_at(at);
        }
    }

    /// Reads a cookie, once all of it is there; the connection is then handed to a thread.
    fn read_cookie(&mut self, cx: &mut AppContext<'_>, key: u32, id: tcp::Id) {
        let mut cookie = [0; COOKIE_LEN];
        match tcp::peek(cx.cpu, id, &mut cookie) {
            Ok(COOKIE_LEN) => {}
            Ok(1..) | Err(Error::WouldBlock) => return,
            _ => return self.close(cx, key),
        }
        // It was there a moment ago.
        let _ = tcp::read_in_place(cx.cpu, id, |_| (COOKIE_LEN, ()));
        let (Some(conn), Some(port)) = (self.conns.get_mut(&key), &self.port) else { return };
        let Some(New { ends, .. }) = conn.new.take() else { return };
        let guest = Guest { cpu: self.cpu, key, ends, cookie };
        if port.guests.try_send(guest).is_err() {
            self.close(cx, key);
        }
    }

    /// Hands bytes of a connection on, or counts them.
    fn read(&mut self, cx: &mut AppContext<'_>, key: u32, id: tcp::Id) {
        if self.conns.get(&key).is_some_and(|conn| conn.new.is_some()) {
            self.read_cookie(cx, key, id);
        }
        let Some(conn) = self.conns.get_mut(&key) else { return };
        match &mut conn.stream {
            Some(stream) if stream.sends => self.step(cx, key),
            Some(stream) => stream.receive(cx, id),
            None => {
                if conn.new.is_none() && conn.forward(cx, id) {
                    self.wake(cx, SOON);
                }
            }
        }
    }

    /// A datagram of this line did not arrive.
    fn failed(&mut self, key: u32, why: Error) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        match &conn.stream {
            Some(stream) => stream.end(why),
            None => conn.to = None,
        }
    }

    /// Takes a datagram of a socket that is called `key`; whether there was one.
    fn datagram(&mut self, cx: &mut AppContext<'_>, socket: Handle<udp::Id>) -> bool {
        let received = match udp::recv(cx.cpu, socket.id, &mut self.buffer) {
            Ok(received) => received,
            Err(Error::WouldBlock) => return false,
            Err(why) => {
                self.failed(socket.key, why);
                return false;
            }
        };
        let bytes = self.buffer.get(..received.len).unwrap_or_default();
        let key = if socket.key == PORT { self.peers.get(&received.from) } else { Some(&socket.key) };
        let word = bytes.first_chunk().copied().map(u32::from_ne_bytes).filter(|_| bytes.len() == 4);
        if let Some(word) = word.filter(|word| socket.key == PORT && [GREETING, OLD_GREETING].contains(word))
        {
            if let Some(to) = &self.greetings {
                // One that finds no room is said again.
                let _ = to.try_send(Greeting { cpu: self.cpu, received, word });
            }
            return true;
        }
        // Datagrams of others are none of the test's.
        if let Some(conn) = key.and_then(|key| self.conns.get_mut(key)) {
            match (&mut conn.stream, &conn.to) {
                (Some(stream), _) => stream.datagram(bytes),
                (None, Some(to)) => _ = to.try_send(bytes.to_vec()),
                (None, None) => {}
            }
        }
        true
    }
}

impl App for Traffic {
    fn begin(&mut self, _: &mut AppContext<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn called(&mut self, cx: &mut AppContext<'_>) {
        while let Ok(order) = self.orders.try_recv() {
            self.obey(cx, order);
        }
    }

    fn accepted(&mut self, cx: &mut AppContext<'_>, _: u32, accepted: Accepted) -> u32 {
        let key = self.next;
        self.next = self.next.wrapping_add(1) | ACCEPTED;
        if self.conns.values().filter(|conn| conn.new.is_some()).count() >= NEW_MAX {
            let _ = tcp::abort(cx.cpu, accepted.id);
            return key;
        }
        let new = Some(New { ends: accepted.ends, since: Instant::now() });
        self.conns.insert(key, Conn { new, ..Conn::new(Socket::Tcp(accepted.id)) });
        self.wake(cx, PATIENCE);
        key
    }

    fn readable(&mut self, cx: &mut AppContext<'_>, conn: Handle<tcp::Id>) {
        self.read(cx, conn.key, conn.id);
    }

    fn writable(&mut self, cx: &mut AppContext<'_>, handle: Handle<tcp::Id>) {
        let Some(conn) = self.conns.get_mut(&handle.key) else { return };
        if let Some(told) = conn.told.take()
            && let Some((ends, _)) = tcp::connection(cx.cpu, handle.id)
        {
            // A thread that has gone asks no more.
            let _ = told.try_send(Ok(ends.local()));
        }
        conn.flush(cx, handle.id);
        self.step(cx, handle.key);
    }

    fn closed(&mut self, _: &mut AppContext<'_>, handle: Handle<tcp::Id>, why: Option<Error>) {
        let Some(conn) = self.conns.remove(&handle.key) else { return };
        let why = why.unwrap_or(Error::Closed);
        if let Some(told) = conn.told {
            let _ = told.try_send(Err(why));
        }
        if let Some(stream) = conn.stream {
            stream.end(why);
        }
    }

    fn datagrams(&mut self, cx: &mut AppContext<'_>, socket: Handle<udp::Id>) {
        for _ in 0..DATAGRAMS_AT_ONCE {
            if !self.datagram(cx, socket) {
                return;
            }
        }
        cx.again_at(socket.id);
    }

    fn time(&mut self, cx: &mut AppContext<'_>) {
        self.wakes = time::Instant::NEVER;
        let keys: Vec<(u32, Socket)> = self.conns.iter().map(|(key, conn)| (*key, conn.socket)).collect();
        for (key, socket) in keys {
            let age = self.conns.get(&key).and_then(|conn| conn.new.as_ref()).map(|new| new.since.elapsed());
            match (age, socket) {
                (Some(age), _) if age >= PATIENCE => self.close(cx, key),
                (Some(age), _) => self.wake(cx, PATIENCE - age),
                (None, Socket::Tcp(id)) => self.read(cx, key, id),
                (None, _) => self.step(cx, key),
            }
        }
    }
}
