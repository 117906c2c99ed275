//! The server: one test at a time; whatever else connects meanwhile is told that it is busy.
//!
//! Each connection says a cookie first, to the application on its netisr: a silent one delays none of the others. A thread then
//! makes it a stream of the test whose cookie it says, or a test of its own.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use net::udp::{Received, To};

use super::client::settings;
use super::control::{Control, PATIENCE};
use super::course::{Course, Ended, Limits};
use super::flow::Flow;
use super::line::{Agent, Line};
use super::protocol::{
    COOKIE_LEN, OLD_GREETING, OLD_REPLY, PARAMS_MAX, Params, REPLY, RESULTS_MAX, Results, STREAMS_MAX, State,
    code,
};
use super::text::Report;
use super::traffic::{Greeting, Guest, Order, Wait};
use super::{Host, Problem};

/// Connections with a cookie that wait for the thread that places them; further ones are reset.
const GUESTS_MAX: usize = 64;
/// Greetings of UDP that wait; further ones are said again.
const GREETINGS_MAX: usize = 256;
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
}

/// The port of a server on all CPUs, until it is dropped.
struct Port<'a>(&'a [Agent]);

struct Current {
    cookie: [u8; COOKIE_LEN],
    /// Streams of the test, while there is room for more.
    streams: SyncSender<Line>,
}

/// A client that begins a test, and its streams.
type Begun = (Line, Receiver<Line>);

impl Server<'_> {
    /// Serves tests until it is interrupted.
    pub(super) fn run(&self, report: &mut Report<'_>) -> Result<(), Problem> {
        let listen = |why| Problem::Io(format!("listen at {}", self.at), why);
        let lobby = Arc::<Lobby>::default();
        let (send, begun) = sync_channel(1);
        let guests = receive(self.host.agents.clone(), Arc::clone(&lobby), send).map_err(listen)?;
        let _port = self.listen(&guests).map_err(listen)?;
        drop(guests);
        for number in 1_u64.. {
            report.listens(self.at.port(), number);
            let Some((line, streams)) = self.next(&begun) else { return Ok(()) };
            let control = Control::new(line);
            let outcome = self.test(&control, &streams, report);
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

    /// Listens on each CPU.
    fn listen(&self, guests: &SyncSender<Guest>) -> io::Result<Port<'_>> {
        let port = Port(&self.host.agents);
        for agent in port.0 {
            let (told, answer) = sync_channel(1);
            let wait = Wait { at: self.at, only_v6: self.only_v6, guests: guests.clone(), told };
            agent.ask(Order::Listen(Box::new(wait)), &answer)?;
        }
        Ok(port)
    }

    fn next(&self, begun: &Receiver<Begun>) -> Option<Begun> {
        loop {
            match begun.recv_timeout(LOOK) {
                Ok(begun) => return Some(begun),
                Err(RecvTimeoutError::Timeout) if !(self.is_interrupted)() => {}
                Err(_) => return None,
            }
        }
    }

    fn test(
        &self,
        control: &Control,
        streams: &Receiver<Line>,
        report: &mut Report<'_>,
    ) -> Result<(), Problem> {
        let peer = control.peer();
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
        let flows = match params.udp {
            true => self.greetings(control, peer, &params),
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
        let mut course = Course::begin(self.host, &params, flows, limits);
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

    /// Asks for the connections of a test, and takes them.
    fn streams(
        &self,
        control: &Control,
        streams: &Receiver<Line>,
        params: &Params,
    ) -> Result<Vec<Flow>, Problem> {
        control.tell(State::CreateStreams)?;
        let directions = directions(params);
        let mut flows: Vec<Flow> = Vec::new();
        let begun = Instant::now();
        while let Some(sends) = directions.get(flows.len()) {
            match streams.recv_timeout(LOOK) {
                Ok(line) => {
                    line.set(settings(params, false));
                    flows.push(Flow::new(flows.len(), *sends, line));
                }
                Err(_) => self.still_creating(control, begun)?,
            }
        }
        Ok(flows)
    }

    /// Asks for the greetings of a test's streams of UDP, takes them, and answers them. They are said once, so each CPU waits for them
    /// before.
    fn greetings(&self, control: &Control, peer: SocketAddr, params: &Params) -> Result<Vec<Flow>, Problem> {
        let (to, greetings) = sync_channel(GREETINGS_MAX);
        let agents = &self.host.agents;
        for agent in agents {
            agent.order(Order::Greetings(Some(to.clone())));
            agent.wait();
        }
        let flows = self.greeted(control, &greetings, peer, params);
        agents.iter().for_each(|agent| _ = agent.order(Order::Greetings(None)));
        flows
    }

    fn greeted(
        &self,
        control: &Control,
        greetings: &Receiver<Greeting>,
        peer: SocketAddr,
        params: &Params,
    ) -> Result<Vec<Flow>, Problem> {
        control.tell(State::CreateStreams)?;
        let directions = directions(params);
        let mut flows: Vec<Flow> = Vec::new();
        let begun = Instant::now();
        while let Some(sends) = directions.get(flows.len()) {
            let Ok(Greeting { cpu, received, word }) = greetings.recv_timeout(LOOK) else {
                self.still_creating(control, begun)?;
                continue;
            };
            let Received { from, to, ifindex, .. } = received;
            // Others are not asked for.
            if from.ip().to_canonical() != peer.ip().to_canonical() {
                self.still_creating(control, begun)?;
                continue;
            }
            let reply = if word == OLD_GREETING { OLD_REPLY } else { REPLY };
            // A greeting that comes twice is of one stream: its reply was lost.
            if flows.iter().all(|flow| flow.remote != from) {
                let zone = if is_link_local(from.ip()) { ifindex } else { 0 };
                let to_peer = To { remote: from, local: Some(to), zone };
                let line = self.host.agent(cpu).peer(to_peer, (to, self.at.port()).into());
                flows.push(Flow::new(flows.len(), *sends, line));
            }
            let line = flows.iter().find(|flow| flow.remote == from).and_then(|flow| flow.line.as_ref());
            let sent = line.map_or(Ok(()), |line| line.write(reply.to_ne_bytes().to_vec()));
            sent.map_err(Problem::io("UDP"))?;
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

fn is_link_local(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => addr.is_link_local(),
        IpAddr::V6(addr) => addr.is_unicast_link_local(),
    }
}

impl Drop for Port<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|agent| _ = agent.order(Order::Unlisten));
    }
}

/// Places connections that have said their cookie, until none can come any more.
fn receive(agents: Vec<Agent>, lobby: Arc<Lobby>, tests: SyncSender<Begun>) -> io::Result<SyncSender<Guest>> {
    let (send, guests) = sync_channel::<Guest>(GUESTS_MAX);
    let body = move || {
        for Guest { cpu, key, ends, cookie } in guests {
            if let Some(agent) = agents.get(cpu) {
                lobby.enter(agent.line(key, (ends.local(), ends.remote())), cookie, &tests);
            }
        }
    };
    std::thread::Builder::new().name("iperf-lobby".to_owned()).spawn(body).map(|_| send)
}

impl Lobby {
    /// Makes a connection a stream of the test whose cookie it says, or a test of its own, or denies it.
    fn enter(&self, line: Line, cookie: [u8; COOKIE_LEN], tests: &SyncSender<Begun>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let denied = match &*current {
            Some(current) if current.cookie == cookie => current.streams.try_send(line).err().map(|_| None),
            Some(_) => Some(Some(line)),
            None => {
                let (streams, taken) = sync_channel(2 * STREAMS_MAX as usize);
                *current = Some(Current { cookie, streams });
                tests.try_send((line, taken)).err().map(|_| None)
            }
        };
        drop(current);
        if let Some(Some(line)) = denied {
            // Whether it hears that or not, it is closed.
            let _ = line.write(vec![State::AccessDenied.byte()]);
        }
    }
}
