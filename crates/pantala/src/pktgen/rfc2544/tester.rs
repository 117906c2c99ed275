//! The tester: two devices, a sender and a receiver on each of their rings, one trial after the other.

use core::net::IpAddr;
use core::time::Duration;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use pkt::PktVec;
use wire::ether::Mac;

use super::float;
use super::plan::Plan;
use super::procedure::{Broken, Live, Tester};
use super::record::{Counts, Course, Load, MilliFps, Outcome, Spec};
use crate::interrupt::Stop;
use crate::pktgen::flows::{Pick, Ranges};
use crate::pktgen::frame::{Headers, Template, Transport};
use crate::pktgen::grammar::{Addrs, Ports};
use crate::pktgen::measure::{Expect, Measure};
use crate::pktgen::payload::LEARNING;
use crate::pktgen::rate::{Pacer, Rate};
use crate::pktgen::rig::{self, Rig, TICK};
use crate::pktgen::sizes::{SizeOrder, Sizes};
use crate::pktgen::station::Station;
use crate::pktgen::timeline::Timeline;
use crate::pktgen::worker::{Board, DONE, Done, GONE, Orders, Phase, Phases, Source, Worker, now_ns};

/// UDP ports of test frames: those of RFC 2544 C.2.6.4, the source's the first of the flows.
const SOURCE_PORT: u16 = 0xc020;
const ECHO: u16 = 7;
const TTL: u8 = 64;
/// Interval of progress.
const SHOW_EVERY: Duration = Duration::from_millis(250);
/// Time that a timeline is longer than the sending: learning, late frames.
const TIMELINE_SLACK_MS: u64 = 4000;
/// Parts of the course of a trial in the report.
const PARTS: usize = 100;
const MS: u64 = 1_000_000;
const BESIDE_MTU: u32 = 18; // Ethernet header and frame check sequence

/// Two devices on both sides of the device under test.
pub(super) struct Pair<'t> {
    plan: &'t Plan,
    rig: Rig,
    /// Where frames of each port go to.
    next_hops: [Mac; 2],
    session: u16,
    /// Whether a frame has arrived ever: whether there is a path.
    has_path: bool,
    is_first: bool,
}

impl<'t> Pair<'t> {
    /// Opens the devices, waits for their links, and asks the device under test for its Ethernet addresses.
    pub(super) fn open(plan: &'t Plan, stop: Stop) -> Result<Self, String> {
        let [tx, rx] = plan.devices()?;
        let session = rig::session()?;
        let rig = Rig::open(&[&tx, &rx], plan.rings, stop, |ring, mac| {
            let own = plan.ends.get(ring.port).map(|end| Addrs::one(end.addr.addr()));
            let station = Station { mac, addresses: own.into_iter().collect(), except: None };
            Worker::new(ring, station, Measure::new(Expect::All))
        })?;
        let next_hops = [Mac::ZERO; 2];
        let mut pair = Self { plan, rig, next_hops, session, has_path: false, is_first: true };
        if let Err(why) = pair.find_device() {
            pair.rig.put_back();
            return Err(why);
        }
        Ok(pair)
    }

    pub(super) fn close(mut self) {
        self.rig.put_back();
    }

    fn find_device(&mut self) -> Result<(), String> {
        let most = u32::from(self.plan.sizes.iter().copied().max().unwrap_or(0));
        if let Some(port) = self.rig.ports.iter().find(|port| most > port.mtu + BESIDE_MTU) {
            return Err(format!(
                "--sizes {most} needs an MTU of {}, and that of {} is {}; use {} or less",
                most - BESIDE_MTU,
                port.name,
                port.mtu,
                port.mtu + BESIDE_MTU
            ));
        }
        self.rig.wait_for_links()?;
        for port in [0, 1] {
            self.next_hops[port] = if self.plan.is_switch {
                self.rig.mac(1 - port)
            } else {
                let end = &self.plan.ends[port];
                self.rig.resolve(port, end.addr.addr(), end.gateway).map_err(|why| {
                    why.replace(
                        "give --dst-mac to send without asking",
                        "is it the device under test's? --tx-gateway and --rx-gateway name others, --switch needs none",
                    )
                })?
            };
        }
        Ok(())
    }

    /// Workers of a port that send.
    fn senders(&self, port: usize) -> usize {
        let rings = self.rig.workers.iter().filter(|worker| worker.port == port).count();
        if port < self.plan.directions() { rings.min(self.plan.flows.into()) } else { 0 }
    }

    /// The number that frames sent by a port bear in this trial.
    fn session_of(&self, port: usize) -> u16 {
        self.session.wrapping_add(u16::from(port == 1)).max(LEARNING + 1)
    }

    /// Gives each worker its part of a trial.
    fn prepare(&mut self, spec: &Spec) {
        self.session = self.session.wrapping_add(2);
        let base_ns = now_ns();
        let span_ns = (spec.load.time_ms() + TIMELINE_SLACK_MS) * MS;
        let is_timed = matches!(spec.load, Load::Steps { .. } | Load::Reset { .. });
        let timeline = || is_timed.then(|| Timeline::new(base_ns, span_ns));
        let senders = [self.senders(0), self.senders(1)];
        let sessions = [self.session_of(0), self.session_of(1)];
        let mut at = [0, 0];
        for number in 0..self.rig.workers.len() {
            let port = self.rig.workers[number].port;
            let source = (at[port] < senders[port])
                .then(|| self.source(spec, port, (at[port], senders[port]), sessions[port], timeline()));
            at[port] += 1;
            let own = Addrs::one(self.plan.ends[port].addr.addr());
            let mut measure = Measure::new(Expect::Own { session: sessions[1 - port], dst: own });
            measure.timeline = timeline();
            self.rig.workers[number].prepare(source, measure);
        }
    }

    fn source(
        &self,
        spec: &Spec,
        port: usize,
        (at, of): (usize, usize),
        session: u16,
        timeline: Option<Timeline>,
    ) -> Source {
        let headers = Headers {
            is_v4: self.plan.is_v4(),
            transport: Transport::Udp,
            src_mac: self.rig.mac(port),
            dst_mac: self.next_hops[port],
            ttl: TTL,
            tos: 0,
        };
        let address = |port: usize| Addrs::one(self.plan.ends[port].addr.addr());
        let last = SOURCE_PORT + (self.plan.flows - 1);
        let ranges = Ranges {
            src: address(port),
            dst: address(1 - port),
            sport: Ports { first: SOURCE_PORT, last },
            dport: Ports { first: ECHO, last: ECHO },
        };
        let flows = ranges.flows(self.plan.flows.into(), Pick::Step, 0);
        let part = Part { at: at as u64, of: of as u64 };
        let pace = part.pace(spec.load);
        Source {
            template: Template::new(&headers, session),
            learning: Template::new(&headers, LEARNING),
            flows: flows.into_iter().skip(at).step_by(of.max(1)).collect(),
            first: u32::try_from(at).unwrap_or(0),
            stride: u32::try_from(of).unwrap_or(1),
            at: 0,
            sizes: SizeOrder::new(Sizes::Cycle(vec![spec.size]), 0),
            pacer: pace.pacer,
            burst: 1,
            left: pace.frames,
            time_ns: pace.time_ns,
            out: PktVec::new(),
            learnt_in: 0,
            is_done: false,
            phases: Phases::then(pace.next),
            timeline,
        }
    }

    /// Lets a switch learn where the receiver is: a question from there.
    fn announce(&mut self) {
        let [tx, rx] = [0, 1].map(|port| self.plan.ends[port].addr.addr());
        let mut ask = |port: usize, own: IpAddr, target: IpAddr| {
            if let Some(worker) = self.rig.workers.iter_mut().find(|worker| worker.port == port)
                && let Some(question) = worker.station.ask(own, target)
            {
                worker.say(&question);
            }
        };
        ask(1, rx, tx);
        ask(0, tx, rx);
    }

    /// Runs the workers through a trial.
    fn conduct(
        &mut self,
        spec: &Spec,
        live: &mut dyn FnMut(Live),
    ) -> Result<(Vec<(usize, Done)>, Times), Broken> {
        let orders = Arc::new(Orders::default());
        let boards: Vec<_> = self.rig.workers.iter().map(|worker| Arc::clone(&worker.board)).collect();
        let sends: Vec<bool> = self.rig.workers.iter().map(|worker| worker.source.is_some()).collect();
        let body = |mut worker: Worker, orders: &Orders| {
            worker.work(orders);
            worker
        };
        let threads = self.rig.start(&self.plan.cpus, &orders, body).map_err(Broken::Failed)?;
        let senders: Vec<_> =
            boards.iter().zip(sends).filter(|(_, sends)| *sends).map(|(board, _)| board).collect();
        let led = self.lead(spec, &orders, &boards, &senders, live);
        orders.end();
        self.collect(threads)?;
        let times = led?;
        let done = self.rig.workers.iter_mut().map(|worker| (worker.port, worker.finish())).collect();
        Ok((done, times))
    }

    /// Takes the workers back from their threads.
    fn collect(&mut self, threads: Vec<JoinHandle<Worker>>) -> Result<(), Broken> {
        let count = threads.len();
        self.rig.workers = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        if self.rig.workers.len() < count {
            return Err(Broken::Failed("a thread has panicked".to_owned()));
        }
        Ok(())
    }

    fn lead(
        &mut self,
        spec: &Spec,
        orders: &Orders,
        boards: &[Arc<Board>],
        senders: &[&Arc<Board>],
        live: &mut dyn FnMut(Live),
    ) -> Result<Times, Broken> {
        rig::learn(orders, boards, &self.rig.stop);
        self.has_path |= rig::sum(boards, |board| &board.learned) > 0;
        if !self.has_path {
            return Err(self.no_path());
        }
        let (begun, begun_ns) = (Instant::now(), now_ns());
        orders.send(begun_ns);
        let mut shown = begun;
        let mut reset = Reset::new(spec.load, self.plan.reset_command.as_deref());
        let is = |board: &Board, bit: u8| board.state.load(core::sync::atomic::Ordering::Acquire) & bit != 0;
        while !senders.iter().all(|board| is(board, DONE)) {
            thread::sleep(TICK);
            if let Some(gone) = boards.iter().position(|board| is(board, GONE)) {
                let port = usize::from(gone >= boards.len() / 2);
                return Err(Broken::Failed(format!("the device {} is gone", self.rig.device(port))));
            }
            if self.rig.stop.is_set() {
                return Err(Broken::Interrupted);
            }
            reset.poll(begun)?;
            if shown.elapsed() >= SHOW_EVERY {
                shown = Instant::now();
                live(counts(boards, begun));
            }
        }
        let time = begun.elapsed();
        live(counts(boards, begun));
        let settle = Duration::from_millis(self.plan.settle_ms);
        let ended = Instant::now();
        while ended.elapsed() < settle && !self.rig.stop.is_set() {
            thread::sleep(TICK);
        }
        if self.rig.stop.is_set() {
            return Err(Broken::Interrupted);
        }
        Ok(Times { begun_ns, time, reset_ms: reset.end()? })
    }

    fn no_path(&self) -> Broken {
        if self.rig.stop.is_set() {
            return Broken::Interrupted;
        }
        let ([tx, rx], [from, to]) =
            ([self.rig.device(0), self.rig.device(1)], [0, 1].map(|at| self.plan.ends[at].addr));
        Broken::Failed(format!(
            "no learning frame from {tx} arrives at {rx}: the device under test should forward from {} to {}, and have addresses \
             in both networks ({})",
            from.addr(),
            to.addr(),
            if self.plan.is_switch {
                "or pass frames to any Ethernet address".to_owned()
            } else {
                format!("{from}, {to}")
            }
        ))
    }

    fn outcome(&self, spec: &Spec, done: Vec<(usize, Done)>, times: &Times) -> Outcome {
        let mut ends: [Option<Side>; 2] = [None, None];
        for (port, done) in done {
            let side = Side::of(done);
            let slot = &mut ends[port];
            *slot = Some(match slot.take() {
                Some(mut all) => {
                    all.add(side);
                    all
                }
                None => side,
            });
        }
        let [tx, rx] = ends;
        let (Some(tx), Some(rx)) = (tx, rx) else { return Outcome { directions: Vec::new() } };
        let mut directions = vec![direction(spec, &tx, &rx, times)];
        if self.plan.both_ways {
            directions.push(direction(spec, &rx, &tx, times));
        }
        Outcome { directions }
    }
}

impl Tester for Pair<'_> {
    fn trial(&mut self, spec: &Spec, live: &mut dyn FnMut(Live)) -> Result<Outcome, Broken> {
        if !core::mem::take(&mut self.is_first) {
            self.rig.serve(Duration::from_millis(self.plan.pause_ms));
        }
        if self.rig.stop.is_set() {
            return Err(Broken::Interrupted);
        }
        if self.plan.is_switch {
            self.announce();
        }
        self.prepare(spec);
        let (done, times) = self.conduct(spec, live)?;
        Ok(self.outcome(spec, done, &times))
    }
}

fn counts(boards: &[Arc<Board>], begun: Instant) -> Live {
    Live {
        since_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        sent: rig::sum(boards, |board| &board.sent),
        received: rig::sum(boards, |board| &board.arrived),
    }
}

/// One sender of several.
struct Part {
    at: u64,
    of: u64,
}

/// The pace of a sender.
struct Pace {
    pacer: Pacer,
    frames: Option<u64>,
    time_ns: u64,
    next: Option<Phase>,
}

impl Part {
    fn pacer(&self, rate: MilliFps) -> Pacer {
        Pacer::new(Rate::Frames(rate).share(self.at, self.of), 0)
    }

    fn frames(&self, frames: u64) -> u64 {
        let until = |n: u64| u128::from(frames) * u128::from(n) / u128::from(self.of.max(1));
        u64::try_from(until(self.at + 1) - until(self.at)).unwrap_or(frames)
    }

    fn pace(&self, load: Load) -> Pace {
        let time_ns = load.time_ms().saturating_mul(MS);
        let pace = |pacer: Pacer, frames: Option<u64>| Pace { pacer, frames, time_ns, next: None };
        match load {
            Load::Unlimited { .. } => pace(Pacer::new(Rate::Max, 0), None),
            Load::Steady { rate, frames } => pace(self.pacer(rate), Some(self.frames(frames))),
            Load::Reset { rate, .. } => pace(self.pacer(rate), None),
            Load::Burst { frames, rate } => {
                let pacer = rate.map_or_else(|| Pacer::new(Rate::Max, 0), |rate| self.pacer(rate));
                pace(pacer, Some(self.frames(frames)))
            }
            Load::Steps { first, then, time_ms } => {
                let half_ns = time_ms * MS;
                let next = Phase { at_ns: half_ns, pacer: self.pacer(then), time_ns: half_ns };
                Pace { time_ns: u64::MAX, next: Some(next), ..pace(self.pacer(first), None) }
            }
        }
    }
}

/// Times of a trial.
struct Times {
    begun_ns: u64,
    /// Sending time.
    time: Duration,
    reset_ms: Option<f64>,
}

/// All rings of a port.
struct Side {
    measure: Measure,
    sent: u64,
    behind_ns: u64,
    dropped: u64,
    sent_at: Option<Timeline>,
}

impl Side {
    fn of(done: Done) -> Self {
        Self {
            dropped: done.stats.rx_dropped + done.stats.rx_errors,
            measure: done.measure,
            sent: done.sent,
            behind_ns: done.behind_ns,
            sent_at: done.timeline,
        }
    }

    fn add(&mut self, other: Self) {
        self.measure.add(&other.measure);
        self.sent += other.sent;
        self.behind_ns = self.behind_ns.max(other.behind_ns);
        self.dropped += other.dropped;
        match (&mut self.sent_at, other.sent_at) {
            (Some(mine), Some(others)) => mine.add(&others),
            (None, others @ Some(_)) => self.sent_at = others,
            _ => {}
        }
    }
}

fn direction(spec: &Spec, from: &Side, to: &Side, times: &Times) -> Counts {
    let tally = &to.measure.tally;
    let received = to.measure.measured().min(from.sent);
    let planned_ms = float(spec.load.time_ms());
    let is_whole = matches!(spec.load, Load::Steady { frames, .. } if frames == from.sent);
    let took_ms = times.time.as_secs_f64() * 1000.0;
    Counts {
        sent: from.sent,
        received,
        lost: from.sent - received,
        duplicated: tally.duplicated + to.measure.measured().saturating_sub(from.sent),
        reordered: tally.reordered,
        other: tally.other + tally.plain,
        tester_dropped: to.dropped,
        // A whole trial was sent at its rate, whatever the clock of the conductor says.
        time_ms: if is_whole { planned_ms } else { took_ms },
        behind_ms: float(from.behind_ns) / 1e6,
        latency_ns: to.measure.latency(),
        course: course(spec, from, to, times),
    }
}

fn course(spec: &Spec, from: &Side, to: &Side, times: &Times) -> Option<Course> {
    let (sent, received) = (from.sent_at.as_ref()?, to.measure.timeline.as_ref()?);
    let begun_ns = times.begun_ns;
    let end_ns = begun_ns + spec.load.time_ms() * MS;
    let since = |ns: u64| float(ns.saturating_sub(begun_ns)) / 1e6;
    let silence = received.gap();
    let parts = sent.parts(begun_ns, end_ns, PARTS);
    Some(Course {
        last_loss_ms: sent.last_loss_ns(received).map(since),
        silent_from_ms: since(silence.from_ns),
        silent_to_ms: since(silence.to_ns),
        reset_ms: times.reset_ms,
        part_ms: float(spec.load.time_ms()) / float(parts.len().max(1) as u64),
        sent: parts,
        received: received.parts(begun_ns, end_ns, PARTS),
    })
}

/// The command that resets the device under test, in the middle of a trial.
struct Reset<'c> {
    command: Option<&'c str>,
    at: Duration,
    begun_ms: Option<f64>,
    child: Option<Child>,
}

impl<'c> Reset<'c> {
    fn new(load: Load, command: Option<&'c str>) -> Self {
        let at_ms = if let Load::Reset { at_ms, .. } = load { Some(at_ms) } else { None };
        let command = at_ms.and(command);
        Self { command, at: Duration::from_millis(at_ms.unwrap_or(0)), begun_ms: None, child: None }
    }

    /// Starts the command when its time has come.
    fn poll(&mut self, begun: Instant) -> Result<(), Broken> {
        let Some(command) = self.command.filter(|_| begun.elapsed() >= self.at) else { return Ok(()) };
        self.command = None;
        self.begun_ms = Some(begun.elapsed().as_secs_f64() * 1000.0);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null());
        let child = shell
            .spawn()
            .map_err(|why| Broken::Failed(format!("--reset-command: cannot start a shell: {why}")))?;
        self.child = Some(child);
        Ok(())
    }

    /// Ends the test; a command that failed did not reset anything.
    fn end(self) -> Result<Option<f64>, Broken> {
        let Some(mut child) = self.child else { return Ok(None) };
        match child.try_wait() {
            Ok(Some(status)) if !status.success() => {
                Err(Broken::Failed(format!("--reset-command ended with {status}: the device was not reset")))
            }
            _ => Ok(self.begun_ms),
        }
    }
}
