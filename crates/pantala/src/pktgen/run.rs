//! The course of a test: open, resolve, learn, send, wait for what is on its way, put everything back, report.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use dev::sys::affinity;
use net::driver::Link;
use pkt::PktVec;
use wire::ether::Mac;

use super::args::{Args, endless};
use super::frame::Template;
use super::measure::{Expect, Measure};
use super::payload::LEARNING;
use super::plan::{Plan, Sending, To};
use super::port::{self, Port};
use super::rate::Pacer;
use super::show::{self, Progress};
use super::sizes::SizeOrder;
use super::station::{Station, learned};
use super::summary::Summary;
use super::worker::{Board, DONE, Done, EXHAUSTED, GONE, Orders, Source, Worker, now_ns};
use crate::cli::Failure;
use crate::daemon::device::Workshop;
use crate::daemon::{entropy, log, privileges};
use crate::interrupt::Stop;
use crate::term::Term;

/// Time limit of links and the gateway, and the interval of requests for the gateway.
const RESOLVE: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_millis(250);
/// Rounds of learning frames, and how long the answer to each is waited for.
const ROUNDS: u8 = 4;
const ROUND: Duration = Duration::from_millis(250);
/// Interval of the conductor.
const TICK: Duration = Duration::from_millis(2);
/// Interval of progress reports: where a line can be replaced, and where not.
const LIVE: Duration = Duration::from_millis(250);
const PLAIN: Duration = Duration::from_secs(2);

/// Runs a test and shows what came of it.
pub(crate) fn run(args: Args, json: bool, term: &mut Term) -> Result<(), Failure> {
    let plan = Plan::new(args).map_err(|why| Failure::usage(format!("pktgen: {why}")))?;
    log::to_stderr(log::Level::Warning);
    let stop =
        Stop::on_signals().map_err(|why| Failure::Failed(format!("cannot watch for signals: {why}")))?;
    let mut test = Test::open(plan, stop).map_err(Failure::Failed)?;
    if let Err(why) = test.prepare() {
        test.put_back();
        return Err(if test.stop.is_set() { Failure::Said } else { Failure::Failed(why) });
    }
    let summary = test.conduct(term);
    test.put_back();
    let summary = summary?;
    let text = if json { summary.json() } else { show::summary(&summary) };
    term.show(&text)?;
    match summary.failure() {
        None => Ok(()),
        Some(why) => {
            term.complain(&format!("pantala: {why}"));
            Err(Failure::Said)
        }
    }
}

/// A test with its devices.
struct Test {
    plan: Plan,
    stop: Stop,
    ports: Vec<Port>,
    workers: Vec<Worker>,
    _workshop: Workshop,
}

impl Test {
    fn open(plan: Plan, stop: Stop) -> Result<Self, String> {
        let devices: Vec<_> = core::iter::once(&plan.device).chain(&plan.rx).collect();
        let (ports, rings, workshop) = port::open(&devices, plan.rings)?;
        let session = session()?;
        let expect = match &plan.sending {
            Some(sending) => Expect::Own { session, dst: sending.ranges.dst },
            None => Expect::All,
        };
        let except = plan.sending.as_ref().and_then(|sending| match sending.to {
            To::Ask { target, .. } => Some(target),
            To::Mac(_) => None,
        });
        let workers = rings.into_iter().map(|ring| {
            let addresses = if ring.port == 0 { &plan.addresses } else { &plan.rx_addresses };
            let mac = ports.get(ring.port).map_or(Mac::ZERO, |port| port.mac);
            let station = Station { mac, addresses: addresses.clone(), except };
            Worker::new(ring, station, Measure::new(expect))
        });
        let workers = workers.collect();
        Ok(Self { plan, stop, ports, workers, _workshop: workshop })
    }

    /// Finds out where frames go, and gives each sender its part.
    fn prepare(&mut self) -> Result<(), String> {
        let Some(sending) = self.plan.sending.clone() else { return Ok(()) };
        let mtu = self.ports.first().map_or(0, |port| port.mtu);
        fits(&sending, mtu, &self.plan)?;
        self.wait_for_links()?;
        let dst_mac = match sending.to {
            To::Mac(mac) => mac,
            To::Ask { own, target } => self.resolve(own, target)?,
        };
        let session = self.workers.first().map_or(LEARNING, |worker| worker.measure.session());
        let senders =
            self.workers.iter().filter(|worker| worker.port == 0).count().min(sending.flows as usize);
        let own_mac = self.ports.first().map_or(Mac::ZERO, |port| port.mac);
        let headers = sending.headers(own_mac, dst_mac);
        for (at, worker) in
            self.workers.iter_mut().filter(|worker| worker.port == 0).take(senders).enumerate()
        {
            let (part, of) = (at as u64, senders as u64);
            worker.source = Some(Source {
                template: Template::new(&headers, session),
                learning: Template::new(&headers, LEARNING),
                flows: sending.flows_of(at, senders),
                first: u32::try_from(at).unwrap_or(0),
                stride: u32::try_from(senders).unwrap_or(1),
                at: 0,
                sizes: SizeOrder::new(sending.sizes.clone(), sending.seed.wrapping_add(part)),
                pacer: Pacer::new(sending.rate.share(part, of), sending.line),
                burst: sending.burst,
                left: self.plan.count.map(|count| count * (part + 1) / of - count * part / of),
                time_ns: self
                    .plan
                    .time
                    .map_or(u64::MAX, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
                out: PktVec::new(),
                learnt_in: 0,
                is_done: false,
            });
        }
        Ok(())
    }

    /// Waits until frames can pass: until there is a peer.
    fn wait_for_links(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let down = self.workers.iter_mut().find_map(|worker| {
                worker.receive(|_| {});
                let is_down = !worker.is_file && worker.driver.link() != Link::Up;
                is_down.then_some(worker.port)
            });
            let Some(down) = down else { return Ok(()) };
            if begun.elapsed() >= RESOLVE || self.stop.is_set() {
                let (device, seconds) = (self.device(down), RESOLVE.as_secs());
                return Err(format!("{device} has no link: for {seconds} s nobody was at its other end"));
            }
            thread::sleep(TICK);
        }
    }

    /// Asks for the Ethernet address of `target` until it is known, on the device's first ring.
    fn resolve(&mut self, own: core::net::IpAddr, target: core::net::IpAddr) -> Result<Mac, String> {
        let (begun, mut asked, mut times) = (Instant::now(), None::<Instant>, 0);
        while begun.elapsed() < RESOLVE && !self.stop.is_set() {
            if asked.is_none_or(|asked| asked.elapsed() >= ASK_EVERY)
                && let Some(first) = self.workers.first_mut()
                && let Some(question) = first.station.ask(own, target)
            {
                first.say(&question);
                (asked, times) = (Some(Instant::now()), times + 1);
            }
            let mut found = None;
            for worker in &mut self.workers {
                let asks = worker.port == 0;
                worker.receive(|frame| found = found.or_else(|| learned(frame, target).filter(|_| asks)));
            }
            if let Some(mac) = found {
                return Ok(mac);
            }
            thread::sleep(TICK);
        }
        let (device, protocol) =
            (self.device(0), if target.is_ipv4() { "ARP" } else { "neighbour discovery" });
        Err(format!(
            "{target} does not answer: asked {times} times by {protocol} on {device} from {own} ({}) for {} s; \
             give --dst-mac to send without asking",
            self.ports.first().map_or(Mac::ZERO, |port| port.mac),
            RESOLVE.as_secs()
        ))
    }

    fn device(&self, at: usize) -> &str {
        self.ports.get(at).map_or("", |port| &port.name)
    }

    /// Runs the workers and leads them through the test.
    fn conduct(&mut self, term: &mut Term) -> Result<Summary, Failure> {
        let orders = Arc::new(Orders::default());
        let boards: Vec<_> = self.workers.iter().map(|worker| Arc::clone(&worker.board)).collect();
        let senders = self.workers.iter().filter(|worker| worker.source.is_some()).count();
        let threads = self.start(&orders).map_err(Failure::Failed)?;
        let (plan, stop) = (&self.plan, &self.stop);
        let mut conductor = Conductor { plan, stop, orders: &orders, boards: &boards, senders, term };
        let course = conductor.lead();
        orders.end();
        let done: Vec<Done> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        if done.len() < boards.len() {
            return Err(Failure::Failed("a thread has panicked".to_owned()));
        }
        let missing: usize = done.iter().map(|done| done.missing).sum();
        log::debug(&format!("all rings closed: {missing} buffers missing"));
        let course = course?;
        let devices: Vec<String> = self.ports.iter().map(|port| port.name.clone()).collect();
        Ok(Summary::new(&self.plan, &devices, &course, done))
    }

    /// Gives each worker a thread on a CPU.
    fn start(&mut self, orders: &Arc<Orders>) -> Result<Vec<JoinHandle<Done>>, String> {
        let cpus = self.cpus()?;
        let mut threads = Vec::new();
        for (worker, cpu) in self.workers.drain(..).zip(cpus.iter().cycle().copied()) {
            let told = Arc::clone(orders);
            let body = move || {
                if let Err(why) = affinity::pin_to(cpu) {
                    log::warning(&format!("pktgen not pinned: {why}"));
                }
                privileges::drop_all();
                worker.run(&told)
            };
            match thread::Builder::new().name(format!("pktgen{cpu}")).spawn(body) {
                Ok(thread) => threads.push(thread),
                Err(why) => {
                    orders.end();
                    threads.into_iter().for_each(|thread| drop(thread.join()));
                    return Err(format!("cannot start a thread: {why}"));
                }
            }
        }
        Ok(threads)
    }

    fn cpus(&self) -> Result<Vec<usize>, String> {
        let allowed = affinity::allowed_cpus().map_err(|why| why.to_string())?;
        match self.plan.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            Some(cpu) => Err(format!("CPU {cpu} is not available; {allowed:?} are")),
            None if self.plan.cpus.is_empty() => Ok(allowed),
            None => Ok(self.plan.cpus.clone()),
        }
    }

    /// Closes what is still open, and lets the devices go.
    fn put_back(&mut self) {
        self.workers.drain(..).for_each(|worker| drop(worker.close()));
        self.ports.clear();
    }
}

fn fits(sending: &Sending, mtu: u32, plan: &Plan) -> Result<(), String> {
    const BESIDE_MTU: u32 = 18; // Ethernet header and frame check sequence
    let most = u32::from(sending.sizes.most());
    if most <= mtu + BESIDE_MTU {
        return Ok(());
    }
    Err(format!(
        "--size {most} needs an MTU of {}, and that of {} is {mtu}; use {} or less",
        most - BESIDE_MTU,
        plan.device,
        mtu + BESIDE_MTU
    ))
}

/// A number for this run that no other is likely to have.
fn session() -> Result<u16, String> {
    let key = entropy::key().map_err(|why| format!("cannot draw a number: {why}"))?;
    let [a, b, ..] = key.to_ne_bytes();
    Ok(u16::from_ne_bytes([a, b]).max(LEARNING + 1))
}

/// The course of a test, as seen from outside.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Course {
    /// Duration of sending; in a sink, of listening.
    pub(super) time: Duration,
    pub(super) was_interrupted: bool,
    /// By its place among the workers: the one whose device went away.
    pub(super) is_gone: bool,
}

struct Conductor<'t> {
    plan: &'t Plan,
    stop: &'t Stop,
    orders: &'t Orders,
    boards: &'t [Arc<Board>],
    /// The first so many of them send.
    senders: usize,
    term: &'t mut Term,
}

impl Conductor<'_> {
    fn lead(&mut self) -> Result<Course, Failure> {
        // A file has no neighbour that could learn.
        if self.plan.sending.is_some() && endless(&self.plan.device).is_none() {
            self.learn();
        }
        let begun = Instant::now();
        self.orders.send(now_ns());
        let mut shown = begun;
        let every = if self.term.is_live_beside() { LIVE } else { PLAIN };
        while !self.is_over(begun.elapsed()) {
            thread::sleep(TICK);
            if shown.elapsed() >= every {
                shown = Instant::now();
                self.term.progress(&self.progress(begun.elapsed()).text());
            }
        }
        let time = begun.elapsed();
        let course = Course { time, was_interrupted: self.stop.is_set(), is_gone: self.state(GONE, false) };
        if self.plan.sending.is_some() {
            self.drain();
        }
        self.term.end_progress();
        Ok(course)
    }

    /// Lets what is between here and there learn where frames go; gives up after a while.
    fn learn(&self) {
        for round in 0..ROUNDS {
            let before = self.sum(|board| &board.learned);
            let sent_before = self.sum(|board| &board.learning_sent);
            self.orders.learn(round);
            let begun = Instant::now();
            while begun.elapsed() < ROUND && !self.stop.is_set() {
                thread::sleep(TICK);
                let sent = self.sum(|board| &board.learning_sent) - sent_before;
                if sent > 0 && self.sum(|board| &board.learned) - before >= sent {
                    return;
                }
            }
        }
    }

    fn is_over(&self, since: Duration) -> bool {
        if self.stop.is_set() || self.state(GONE, false) {
            return true;
        }
        match &self.plan.sending {
            Some(_) => self.state(DONE, true),
            None => {
                let counted = self.plan.count.is_some_and(|count| self.sum(|board| &board.arrived) >= count);
                counted || self.plan.time.is_some_and(|time| since >= time) || self.state(EXHAUSTED, true)
            }
        }
    }

    /// Waits for what is on its way.
    fn drain(&self) {
        let begun = Instant::now();
        let is_missing = || self.sum(|board| &board.arrived) < self.sum(|board| &board.sent);
        while begun.elapsed() < self.plan.wait && is_missing() {
            thread::sleep(TICK);
        }
        self.orders.listen();
    }

    fn sum(&self, of: impl Fn(&Board) -> &AtomicU64) -> u64 {
        self.boards.iter().map(|board| of(board).load(Ordering::Relaxed)).sum()
    }

    /// Whether a state is that of any, or of all, of the workers it concerns.
    fn state(&self, bit: u8, of_all: bool) -> bool {
        let mut states = self.boards.iter().map(|board| board.state.load(Ordering::Acquire));
        match (of_all, bit) {
            (true, DONE) => self.senders().all(|board| board.state.load(Ordering::Acquire) & DONE != 0),
            (true, bit) => states.all(|state| state & bit != 0),
            (false, bit) => states.any(|state| state & bit != 0),
        }
    }

    fn senders(&self) -> impl Iterator<Item = &Arc<Board>> {
        self.boards.iter().take(self.senders)
    }

    fn progress(&self, since: Duration) -> Progress {
        Progress {
            since,
            sends: self.plan.sending.is_some(),
            sent: self.sum(|board| &board.sent),
            sent_bytes: self.sum(|board| &board.sent_bytes),
            arrived: self.sum(|board| &board.arrived),
            frames: self.sum(|board| &board.frames),
        }
    }
}
