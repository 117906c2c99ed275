//! The server: one test at a time; whatever else connects meanwhile is told that it is busy.
//!
//! A thread accepts connections. Each connection says a cookie first, and has a thread of its own until it has said it: a
//! silent one delays none of the others.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::client::{GREETING, OLD_GREETING, OLD_REPLY, REPLY, is_one_of, read_cookie};
use super::control::{Control, PATIENCE, is_late};
use super::course::{Course, Ended, Limits};
use super::flow::{Flow, Socket};
use super::protocol::{COOKIE_LEN, PARAMS_MAX, Params, RESULTS_MAX, Results, STREAMS_MAX, State, code};
use super::text::Report;
use super::{Host, Problem};
use crate::sockets::blocking::{TcpListener, TcpStream, UdpSocket};
use crate::sockets::{Options, PktInfo};

/// Connections that may be about to say their cookie; further ones are reset.
const NEW_MAX: usize = 64;
/// Time between looks for an interrupt.
const LOOK: Duration = Duration::from_millis(100);

pub(super) struct Server<'a> {
    pub(super) host: &'a Host,
    pub(super) at: SocketAddr,
    pub(super) only_v6: bool,
    pub(super) interval: Option<Duration>,
    pub(super) rcv_timeout: Duration,
    /// It ends after one test.
    pub(super) is_one_off: bool,
    pub(super) is_interrupted: &'a dyn Fn() -> bool,
}

/// Connections that come, and the test that they may be part of.
#[derive(Default)]
struct Lobby {
    current: Mutex<Option<Current>>,
    new: AtomicUsize,
}

struct Current {
    cookie: [u8; COOKIE_LEN],
    /// Streams of the test, while there is room for more.
    streams: SyncSender<TcpStream>,
}

/// A client that begins a test, and its streams.
type Guest = (TcpStream, Receiver<TcpStream>);

impl Server<'_> {
    /// Serves tests until it is interrupted.
    pub(super) fn run(&self, report: &mut Report<'_>) -> Result<(), Problem> {
        let options = Options::new().only_v6(self.only_v6);
        let listen = |why| Problem::Io(format!("listen at {}", self.at), why);
        let listener = TcpListener::bind_with(&self.host.sockets, self.at, &options).map_err(listen)?;
        let datagrams = UdpSocket::bind_with(&self.host.sockets, self.at, &options).map_err(listen)?;
        let lobby = Arc::<Lobby>::default();
        let (send, guests) = sync_channel(1);
        accept(listener, Arc::clone(&lobby), send).map_err(listen)?;
        for number in 1_u64.. {
            report.listens(self.at.port(), number);
            let Some((stream, streams)) = self.next(&guests) else { return Ok(()) };
            let control = Control::new(stream);
            let outcome = match &control {
                Ok(control) => self.test(control, &streams, &datagrams, report),
                Err(_) => Err(Problem::Closed),
            };
            // Before the client hears of the end, so that it may come again at once.
            *lobby.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
            drop(control);
            report.ended(outcome.as_ref().err())?;
            match outcome {
                Err(Problem::Interrupted) => return Ok(()),
                outcome if self.is_one_off => return outcome,
                _ => {}
            }
        }
        Ok(())
    }

    fn next(&self, guests: &Receiver<Guest>) -> Option<Guest> {
        loop {
            match guests.recv_timeout(LOOK) {
                Ok(guest) => return Some(guest),
                Err(RecvTimeoutError::Timeout) if !(self.is_interrupted)() => {}
                Err(_) => return None,
            }
        }
    }

    fn test(
        &self,
        control: &Control,
        streams: &Receiver<TcpStream>,
        datagrams: &UdpSocket,
        report: &mut Report<'_>,
    ) -> Result<(), Problem> {
        let peer = control.stream.peer_addr().map_err(Problem::io("the client"))?;
        report.accepted(peer);
        control.tell(State::ParamExchange)?;
        let params = control.receive(PARAMS_MAX, "parameters");
        let params = params.and_then(|value| {
            Params::of_json(&value).map_err(|(code, text)| {
                // The client hears why.
                let _ = control.tell_error(code);
                Problem::Garbled(text)
            })
        })?;
        control.tell(State::CreateStreams)?;
        let flows = match params.udp {
            true => self.greetings(control, datagrams, peer, &params),
            false => self.streams(control, streams, &params),
        };
        let flows = flows.inspect_err(|_| {
            // The client may have gone.
            let _ = control.tell_error(code::CREATE_STREAM);
        })?;
        report.connected(&flows, &params);
        let limits = Limits {
            interval: self.interval,
            rcv_timeout: self.rcv_timeout,
            leads: false,
            congestion: "cubic",
            is_interrupted: self.is_interrupted,
        };
        let mut course = Course::begin(self.host, &params, flows, limits)?;
        control.tell(State::TestStart)?;
        control.tell(State::TestRunning)?;
        let ended = course.run(control, &mut |flows, interval| report.interval(flows, &params, interval));
        // Before it sends its results, iperf3 reads what is under way until streams end.
        course.close();
        let outcome = ended.and_then(|ended| results(control, &course, ended));
        report.end(&course, outcome.as_ref().ok());
        if matches!(outcome, Err(Problem::Interrupted)) {
            control.finish();
        }
        outcome?;
        // A client that has its results may go without a word.
        let _ = control.state("the end", self.is_interrupted);
        Ok(())
    }

    /// Takes the connections of a test.
    fn streams(
        &self,
        control: &Control,
        streams: &Receiver<TcpStream>,
        params: &Params,
    ) -> Result<Vec<Flow>, Problem> {
        let directions = directions(params);
        let mut flows: Vec<Flow> = Vec::new();
        let begun = Instant::now();
        while let Some(sends) = directions.get(flows.len()) {
            match streams.recv_timeout(LOOK) {
                Ok(stream) => {
                    let ends =
                        set(&stream, params).and_then(|()| Ok((stream.local_addr()?, stream.peer_addr()?)));
                    let ends = ends.map_err(Problem::io("a stream"))?;
                    flows.push(Flow::new(flows.len(), *sends, ends, Socket::Tcp(stream)));
                }
                Err(_) => self.still_creating(control, begun)?,
            }
        }
        Ok(flows)
    }

    /// Takes the greetings of a test's streams of UDP, and answers them.
    fn greetings(
        &self,
        control: &Control,
        socket: &UdpSocket,
        peer: SocketAddr,
        params: &Params,
    ) -> Result<Vec<Flow>, Problem> {
        let directions = directions(params);
        let mut flows: Vec<Flow> = Vec::new();
        let (begun, mut buffer) = (Instant::now(), [0; 2048]);
        socket.set_read_timeout(Some(LOOK)).map_err(Problem::io("UDP"))?;
        while let Some(sends) = directions.get(flows.len()) {
            let received = match socket.recv_datagram(&mut buffer) {
                Ok(received) => received,
                Err(why) if is_late(&why) => {
                    self.still_creating(control, begun)?;
                    continue;
                }
                Err(why) => return Err(Problem::Io("UDP".to_owned(), why)),
            };
            let is_greeting = received.len == 4 && is_one_of(&buffer, [GREETING, OLD_GREETING]);
            // Datagrams of the test before may still come, and others are not asked for.
            if !is_greeting || received.from.ip().to_canonical() != peer.ip().to_canonical() {
                self.still_creating(control, begun)?;
                continue;
            }
            let info = PktInfo { source: received.local, interface: received.interface };
            let reply = if is_one_of(&buffer, [OLD_GREETING; 2]) { OLD_REPLY } else { REPLY };
            let sent = socket.send_datagram(&reply.to_ne_bytes(), received.from, info);
            sent.map_err(Problem::io("UDP"))?;
            // A greeting that comes twice is of one stream: its reply was lost.
            if flows.iter().all(|flow| flow.remote != received.from) {
                let local = received.local.unwrap_or_else(|| self.at.ip());
                let ends = ((local, self.at.port()).into(), received.from);
                flows.push(Flow::new(flows.len(), *sends, ends, Socket::Udp(socket.clone(), info)));
            }
        }
        Ok(flows)
    }

    /// Fails if the client has gone, takes too long, or if this server is interrupted.
    fn still_creating(&self, control: &Control, begun: Instant) -> Result<(), Problem> {
        if (self.is_interrupted)() {
            return Err(Problem::Interrupted);
        }
        if begun.elapsed() > PATIENCE {
            return Err(Problem::Silent(PATIENCE.as_secs(), "the streams"));
        }
        match control.poll(Duration::ZERO)? {
            None => Ok(()),
            Some(State::ClientTerminate) => Err(Problem::Terminated("client")),
            Some(state) => Err(Problem::OutOfOrder(state)),
        }
    }
}

/// Ends the test on this end, and exchanges results.
fn results(control: &Control, course: &Course<'_>, ended: Ended) -> Result<Results, Problem> {
    match ended {
        Ended::Peer(State::TestEnd) => {}
        Ended::Peer(State::ClientTerminate) => return Err(Problem::Terminated("client")),
        Ended::Peer(state) => return Err(Problem::OutOfOrder(state)),
        Ended::Interrupted | Ended::Done => {
            // The test ends in any case.
            let _ = control.tell(State::ServerTerminate);
            return Err(Problem::Interrupted);
        }
    }
    control.tell(State::ExchangeResults)?;
    let results = Results::of_json(&control.receive(RESULTS_MAX, "the client's results")?)?;
    control.send(&course.results().to_json())?;
    control.tell(State::DisplayResults)?;
    Ok(results)
}

/// Directions of the streams, seen from the server: what the client sends comes first.
fn directions(params: &Params) -> Vec<bool> {
    let (client, server) = params.directions();
    let count = params.parallel as usize;
    let of = |is_wanted: bool, sends: bool| core::iter::repeat_n(sends, if is_wanted { count } else { 0 });
    of(client, false).chain(of(server, true)).collect()
}

fn set(stream: &TcpStream, params: &Params) -> io::Result<()> {
    if params.nodelay {
        stream.set_nodelay(true)?;
    }
    if params.tos > 0 {
        stream.set_tos(params.tos)?;
    }
    if params.window > 0 {
        stream.set_send_buffer_size(params.window)?;
        stream.set_recv_buffer_size(params.window)?;
    }
    Ok(())
}

/// Accepts connections until the stack ends.
fn accept(listener: TcpListener, lobby: Arc<Lobby>, guests: SyncSender<Guest>) -> io::Result<()> {
    let body = move || {
        loop {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(why) if why.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(_) => return,
            };
            if lobby.new.fetch_add(1, Relaxed) >= NEW_MAX {
                lobby.new.fetch_sub(1, Relaxed);
                let _ = stream.set_linger(Some(Duration::ZERO));
                continue;
            }
            let (lobby, guests) = (Arc::clone(&lobby), guests.clone());
            let name = std::thread::Builder::new().name("iperf-new".to_owned());
            let thread = name.spawn(move || {
                // A connection that says no cookie is none of a test's.
                if let Ok(cookie) = read_cookie(&stream) {
                    lobby.enter(stream, cookie, &guests);
                }
                lobby.new.fetch_sub(1, Relaxed);
            });
            if thread.is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("iperf-accept".to_owned()).spawn(body).map(drop)
}

impl Lobby {
    /// Makes a connection a stream of the test whose cookie it says, or a test of its own, or denies it.
    fn enter(&self, stream: TcpStream, cookie: [u8; COOKIE_LEN], guests: &SyncSender<Guest>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let denied = match &*current {
            Some(current) if current.cookie == cookie => current.streams.try_send(stream).err().map(|_| None),
            Some(_) => Some(Some(stream)),
            None => {
                let (streams, taken) = sync_channel(2 * STREAMS_MAX as usize);
                *current = Some(Current { cookie, streams });
                guests.try_send((stream, taken)).err().map(|_| None)
            }
        };
        drop(current);
        if let Some(Some(stream)) = denied {
            let _ = stream.set_write_timeout(Some(LOOK));
            // Whether it hears that or not, it is closed.
            let _ = io::Write::write(&mut &stream, &[State::AccessDenied.byte()]);
        }
    }
}
