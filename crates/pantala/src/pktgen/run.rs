//! The course of a test: open, resolve, learn, send, wait for what is on its way, put everything back, report.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use pkt::PktVec;

use super::args::{Args, endless};
use super::measure::{Expect, Measure};
use super::payload::LEARNING;
use super::plan::{Plan, Sending, To};
use super::rate::Pacer;
use super::rig::{self, Rig, TICK};
use super::show::{self, Progress};
use super::sizes::SizeOrder;
use super::station::Station;
use super::summary::Summary;
use super::worker::{Board, DONE, Done, EXHAUSTED, GONE, Orders, Phases, Source, Target, Worker, now_ns};
use crate::cli::Failure;
use crate::daemon::log;
use crate::interrupt::Stop;
use crate::term::Term;

/// Interval of progress reports: where a line can be replaced, and where not.
pub(super) const LIVE: Duration = Duration::from_millis(250);
pub(super) const PLAIN: Duration = Duration::from_secs(2);

/// Runs a test and shows what came of it.
pub(crate) fn run(args: Args, json: bool, term: &mut Term) -> Result<(), Failure> {
    let plan = Plan::new(args).map_err(|why| Failure::usage(format!("pktgen: {why}")))?;
    log::to_stderr(log::Level::Warning);
    let stop =
        Stop::on_signals().map_err(|why| Failure::Failed(format!("cannot watch for signals: {why}")))?;
    let mut test = Test::open(plan, stop).map_err(Failure::Failed)?;
    if let Err(why) = test.prepare() {
        test.rig.put_back();
        return Err(if test.rig.stop.is_set() { Failure::Said } else { Failure::Failed(why) });
    }
    let summary = test.conduct(term);
    test.rig.put_back();
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
    rig: Rig,
}

impl Test {
    fn open(plan: Plan, stop: Stop) -> Result<Self, String> {
        let devices: Vec<_> = core::iter::once(&plan.device).chain(&plan.rx).collect();
        let session = rig::session()?;
        let expect = match &plan.sending {
            Some(sending) => Expect::Own { session, dst: sending.ranges.dst },
            None => Expect::All,
        };
        let except = plan.sending.as_ref().and_then(|sending| match sending.to {
            To::Ask { target, .. } => Some(target),
            To::Mac(_) => None,
        });
        let rig = Rig::open(&devices, plan.rings, stop, |ring, mac| {
            let addresses = if ring.port == 0 { &plan.addresses } else { &plan.rx_addresses };
            let station = Station { mac, addresses: addresses.clone(), except };
            Worker::new(ring, station, Measure::new(expect))
        })?;
        Ok(Self { plan, rig })
    }

    /// Finds out where frames go, and gives each sender its part.
    fn prepare(&mut self) -> Result<(), String> {
        let Some(sending) = self.plan.sending.clone() else { return Ok(()) };
        let mtu = self.rig.ports.first().map_or(0, |port| port.mtu);
        fits(&sending, mtu, &self.plan)?;
        self.rig.wait_for_links()?;
        let dst_mac = match sending.to {
            To::Mac(mac) => mac,
            To::Ask { own, target } => self.rig.resolve(0, own, target)?,
        };
        let session = self.rig.workers.first().map_or(LEARNING, |worker| worker.measure.session());
        let senders =
            self.rig.workers.iter().filter(|worker| worker.port == 0).count().min(sending.flows as usize);
        let own_mac = self.rig.mac(0);
        let headers = sending.headers(own_mac, dst_mac);
        for (at, worker) in
            self.rig.workers.iter_mut().filter(|worker| worker.port == 0).take(senders).enumerate()
        {
            let (part, of) = (at as u64, senders as u64);
            worker.source = Some(Source {
                targets: vec![Target::new(&headers, session)],
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
                phases: Phases::default(),
                timeline: None,
            });
        }
        Ok(())
    }

    /// Runs the workers and leads them through the test.
    fn conduct(&mut self, term: &mut Term) -> Result<Summary, Failure> {
        let orders = Arc::new(Orders::default());
        let boards: Vec<_> = self.rig.workers.iter().map(|worker| Arc::clone(&worker.board)).collect();
        let senders = self.rig.workers.iter().filter(|worker| worker.source.is_some()).count();
        let threads = self.rig.start(&self.plan.cpus, &orders, Worker::run).map_err(Failure::Failed)?;
        let (plan, stop) = (&self.plan, &self.rig.stop);
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
        let devices: Vec<String> = self.rig.ports.iter().map(|port| port.name.clone()).collect();
        Ok(Summary::new(&self.plan, &devices, &course, done))
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
            rig::learn(self.orders, self.boards, self.stop);
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
        rig::sum(self.boards, of)
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
