//! The client: it connects, says what is tested, begins, ends, and compares results.

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::io;
use std::time::Instant;

use net::channel::Setting;

use super::control::{Control, PATIENCE, is_late};
use super::course::{Course, Ended, Limits};
use super::flow::Flow;
use super::line::{Line, LineOptions};
use super::protocol::{COOKIE_LEN, GREETING, OLD_REPLY, Params, REPLY, RESULTS_MAX, Results, State};
use super::rrul::{Prober, Rrul};
use super::text::Report;
use super::{Host, Problem};

/// One test as a client.
pub(super) struct Client<'a> {
    pub(super) host: &'a Host,
    pub(super) server: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) params: Params,
    pub(super) interval: Option<Duration>,
    pub(super) rcv_timeout: Duration,
    /// Round-trip times are measured before the test, and during it.
    pub(super) rrul: bool,
    pub(super) is_interrupted: &'a dyn Fn() -> bool,
}

impl Client<'_> {
    pub(super) fn run(&self, report: &mut Report<'_>) -> Result<(), Problem> {
        let cookie = cookie()?;
        let mut prober = Prober::new(self.host, self.server.ip());
        let idle = if self.rrul { prober.idle(self.is_interrupted) } else { None };
        let bare = LineOptions { local: self.local, ..LineOptions::default() };
        let control = Control::new(self.connect(0, &bare)?);
        control.write(cookie.to_vec())?;
        report.begin(self.server, &cookie, &self.params);
        self.expect(&control, State::ParamExchange, "the server's readiness")?;
        control.send(&self.params.to_json())?;
        self.expect(&control, State::CreateStreams, "the server's consent")?;
        let flows = self.flows(&cookie, &control)?;
        report.connected(&flows, &self.params);
        self.expect(&control, State::TestStart, "the server's streams")?;
        let limits = Limits {
            interval: self.interval,
            rcv_timeout: self.rcv_timeout,
            leads: true,
            congestion: self.params.congestion.as_deref().unwrap_or("cubic"),
            is_interrupted: self.is_interrupted,
        };
        let mut course = Course::begin(self.host, &self.params, flows, limits);
        self.expect(&control, State::TestRunning, "the beginning of the test")?;
        let has_ended = AtomicBool::new(false);
        let (outcome, loaded) = std::thread::scope(|scope| {
            let measures = self.rrul.then(|| scope.spawn(|| prober.loaded(&|| has_ended.load(Relaxed))));
            let show = &mut |flows: &[Flow], interval: &_| report.interval(flows, &self.params, interval);
            let ended = course.run(&control, show);
            has_ended.store(true, Relaxed);
            let outcome = ended.and_then(|ended| self.results(&control, &course, ended));
            (outcome, measures.and_then(|measures| measures.join().ok().flatten()))
        });
        // What was measured so far is shown, however it has ended.
        report.end(&course, outcome.as_ref().ok());
        if let (Some(idle), Some(loaded)) = (idle, loaded) {
            report.round_trips(&Rrul { idle, loaded });
        }
        if outcome.is_ok() {
            // A server that has gone has said all that is needed.
            let _ = control.tell(State::Done);
        }
        control.finish();
        outcome.map(drop)
    }

    /// Ends the test, and exchanges results.
    fn results(&self, control: &Control, course: &Course<'_>, ended: Ended) -> Result<Results, Problem> {
        match ended {
            Ended::Done => control.tell(State::TestEnd)?,
            Ended::Interrupted => {
                // The test ends in any case.
                let _ = control.tell(State::ClientTerminate);
                return Err(Problem::Interrupted);
            }
            Ended::Peer(state) => return Err(refusal(control, state)),
        }
        self.expect(control, State::ExchangeResults, "the server's results")?;
        control.send(&course.results().to_json())?;
        let results = Results::of_json(&control.receive(RESULTS_MAX, "the server's results")?)?;
        self.expect(control, State::DisplayResults, "the end of the test")?;
        Ok(results)
    }

    fn expect(&self, control: &Control, wanted: State, what: &'static str) -> Result<(), Problem> {
        match control.state(what, self.is_interrupted)? {
            state if state == wanted => Ok(()),
            state => Err(refusal(control, state)),
        }
    }

    /// Connects on the CPU whose turn the `nth` connection is.
    fn connect(&self, nth: usize, options: &LineOptions) -> Result<Line, Problem> {
        let connected = self.host.agent(nth).connect(false, self.server, options);
        connected.map_err(Problem::io(format!("connect to {}", self.server)))
    }

    /// Makes the streams: those that send first, as the server expects them.
    fn flows(&self, cookie: &[u8], control: &Control) -> Result<Vec<Flow>, Problem> {
        let (sends, receives) = self.params.directions();
        let directions = [(sends, true), (receives, false)].into_iter().filter(|(is_wanted, _)| *is_wanted);
        let each = directions.flat_map(|(_, sends)| (0..self.params.parallel).map(move |_| sends));
        each.enumerate()
            .map(|(nth, sends)| {
                if (self.is_interrupted)() {
                    return Err(Problem::Interrupted);
                }
                if self.params.udp {
                    self.datagrams(nth, sends, control)
                } else {
                    self.stream(nth, sends, cookie)
                }
            })
            .collect()
    }

    fn stream(&self, nth: usize, sends: bool, cookie: &[u8]) -> Result<Flow, Problem> {
        let line = self.connect(nth, &self.options())?;
        line.write(cookie.to_vec()).map_err(Problem::io("a stream"))?;
        Ok(Flow::new(nth, sends, line))
    }

    /// Greets the server by a datagram, and waits for its reply.
    fn datagrams(&self, nth: usize, sends: bool, control: &Control) -> Result<Flow, Problem> {
        let what = || Problem::io(format!("a UDP stream to {}", self.server));
        let mut line = self.host.agent(nth).connect(true, self.server, &self.options()).map_err(what())?;
        line.forward();
        let begun = Instant::now();
        let mut buffer = [0; 4];
        while begun.elapsed() < PATIENCE {
            // It may be lost, or come before the server listens.
            line.write(GREETING.to_ne_bytes().to_vec()).map_err(what())?;
            match line.read(&mut buffer, Duration::from_secs(1)) {
                Ok(4) if is_one_of(&buffer, [REPLY, OLD_REPLY]) => return Ok(Flow::new(nth, sends, line)),
                Ok(0) => return Err(what()(io::ErrorKind::ConnectionRefused.into())),
                Ok(_) => {}
                Err(why) if is_late(&why) => {}
                Err(why) => return Err(what()(why)),
            }
            if let Some(state) = control.poll(Duration::ZERO)? {
                return Err(refusal(control, state));
            }
        }
        Err(what()(io::ErrorKind::TimedOut.into()))
    }

    /// Options of a stream's socket.
    fn options(&self) -> LineOptions {
        LineOptions { local: self.local, settings: settings(&self.params, true) }
    }
}

pub(super) fn is_one_of(buffer: &[u8], words: [u32; 2]) -> bool {
    buffer.first_chunk().is_some_and(|bytes| words.contains(&u32::from_ne_bytes(*bytes)))
}

/// Settings of a stream's socket. A client's connections have some that must be there from the beginning.
pub(super) fn settings(params: &Params, is_client: bool) -> Vec<Setting> {
    let mut settings = Vec::new();
    if params.nodelay {
        settings.push(Setting::NoDelay(true));
    }
    if params.tos > 0 {
        settings.push(Setting::Class(params.tos.into()));
    }
    if params.window > 0 {
        settings.extend([Setting::SendBuffer(params.window), Setting::ReceiveBuffer(params.window)]);
    }
    if is_client && params.mss > 0 {
        settings.push(Setting::MaxSegment(params.mss));
    }
    let other = params.congestion.as_ref().filter(|_| is_client);
    settings.extend(other.map(|name| Setting::NewReno(name != "cubic")));
    settings
}

/// The reason why the server goes another way.
fn refusal(control: &Control, state: State) -> Problem {
    match state {
        State::AccessDenied => Problem::Busy,
        State::ServerError => control.error(),
        State::ServerTerminate => Problem::Terminated("server"),
        other => Problem::OutOfOrder(other),
    }
}

/// Draws 36 characters of base 32, and ends them with a NUL as iperf3 does.
fn cookie() -> Result<[u8; COOKIE_LEN], Problem> {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie = [0; COOKIE_LEN];
    let (text, _) = cookie.split_at_mut(COOKIE_LEN - 1);
    let drawn = rustix::rand::getrandom(&mut *text, rustix::rand::GetRandomFlags::empty());
    drawn.map_err(|why| Problem::Io("draw a cookie".to_owned(), why.into()))?;
    text.iter_mut().for_each(|byte| *byte = ALPHABET[usize::from(*byte & 31)]);
    Ok(cookie)
}
