//! The tester: its devices, a sender and a receiver on each of their rings, one trial after the other.

use core::ops::Range;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use pkt::PktVec;
use wire::ether::Mac;

use super::counts::{self, Times};
use super::pace::Part;
use super::plan::Plan;
use super::procedure::{Broken, Live, Tester};
use super::record::{Load, Outcome, Spec};
use super::reset::Reset;
use crate::interrupt::Stop;
use crate::pktgen::flows::{Flow, Pick, Ranges};
use crate::pktgen::frame::{Headers, Transport};
use crate::pktgen::grammar::{self, Addrs};
use crate::pktgen::measure::{Expect, Measure};
use crate::pktgen::payload::LEARNING;
use crate::pktgen::rig::{self, Rig, TICK};
use crate::pktgen::sizes::{SizeOrder, Sizes};
use crate::pktgen::station::Station;
use crate::pktgen::timeline::Timeline;
use crate::pktgen::worker::{Board, DONE, Done, GONE, Orders, Phases, Source, Target, Worker, now_ns};

/// UDP ports of test frames: those of RFC 2544 C.2.6.4, the source's the first of the flows.
const SOURCE_PORT: u16 = 0xc020;
const ECHO: u16 = 7;
const TTL: u8 = 64;
/// Interval of progress.
const SHOW_EVERY: Duration = Duration::from_millis(250);
/// Time that a timeline is longer than the sending: learning, late frames.
const TIMELINE_SLACK_MS: u64 = 4000;
const MS: u64 = 1_000_000;
const BESIDE_MTU: u32 = 18; // Ethernet header and frame check sequence

/// The devices around the device under test.
pub(super) struct Ports<'t> {
    plan: &'t Plan,
    rig: Rig,
    /// The Ethernet address that the device under test has for each port.
    next_hops: Vec<Mac>,
    session: u16,
    /// Whether a frame has arrived ever at each port: whether there is a path.
    has_path: Vec<bool>,
    is_first: bool,
}

impl<'t> Ports<'t> {
    /// Opens the devices, waits for their links, and asks the device under test for its Ethernet addresses.
    pub(super) fn open(plan: &'t Plan, stop: Stop) -> Result<Self, String> {
        let devices = plan.devices()?;
        let session = rig::session()?;
        let rig = Rig::open(&devices.iter().collect::<Vec<_>>(), plan.rings, stop, |ring, mac| {
            let own = plan.ends.get(ring.port).map(|end| Addrs::one(end.addr.addr()));
            let station = Station { mac, addresses: own.into_iter().collect(), except: None };
            Worker::new(ring, station, Measure::new(Expect::All))
        })?;
        let has_path = vec![false; devices.len()];
        let mut ports = Self { plan, rig, next_hops: Vec::new(), session, has_path, is_first: true };
        if let Err(why) = ports.find_device() {
            ports.rig.put_back();
            return Err(why);
        }
        Ok(ports)
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
        if self.plan.is_switch {
            return Ok(());
        }
        for (port, end) in self.plan.ends.iter().enumerate() {
            let next_hop = self.rig.resolve(port, end.addr.addr(), end.gateway).map_err(|why| {
                why.replace(
                    "give --dst-mac to send without asking",
                    "is it the device under test's? --tx-gateway, --rx-gateway and --gateways name others, --switch needs none",
                )
            })?;
            self.next_hops.push(next_hop);
        }
        Ok(())
    }

    /// The Ethernet address that frames between two ports go to.
    fn next_hop(&self, from: usize, to: usize) -> Mac {
        if self.plan.is_switch {
            return self.rig.mac(to);
        }
        self.next_hops.get(from).copied().unwrap_or(Mac::ZERO)
    }

    /// Workers of a port that send.
    fn senders(&self, port: usize) -> usize {
        let rings = self.rig.workers.iter().filter(|worker| worker.port == port).count();
        if port < self.plan.senders() { rings.min(self.flows().len()) } else { 0 }
    }

    /// Numbers of the flows of a port: of flow `n` to the receiver `n` modulo their number.
    fn flows(&self) -> Range<usize> {
        0..usize::from(self.plan.flows) * (self.plan.ends.len() - 1)
    }

    /// The number that frames from a port to another bear in this trial.
    fn session_of(&self, from: usize, to: usize) -> u16 {
        let ports = self.plan.ends.len();
        u16::try_from(from * ports + to).map_or(self.session, |pair| self.session + pair)
    }

    /// Numbers for the next trial, none of which is that of learning frames.
    fn begin_sessions(&mut self) {
        let pairs = u16::try_from(self.plan.ends.len().pow(2)).unwrap_or(u16::MAX);
        self.session = match self.session.checked_add(2 * pairs) {
            Some(end) => end - pairs,
            None => LEARNING + 1,
        };
    }

    /// Gives each worker its part of a trial.
    fn prepare(&mut self, spec: &Spec) {
        self.begin_sessions();
        let base_ns = now_ns();
        let span_ns = (spec.load.time_ms() + TIMELINE_SLACK_MS) * MS;
        let is_timed = matches!(spec.load, Load::Steps { .. } | Load::Reset { .. });
        let timeline = || is_timed.then(|| Timeline::new(base_ns, span_ns));
        let senders: Vec<usize> = (0..self.plan.ends.len()).map(|port| self.senders(port)).collect();
        let mut at = vec![0; senders.len()];
        for number in 0..self.rig.workers.len() {
            let port = self.rig.workers[number].port;
            let source = (at[port] < senders[port])
                .then(|| self.source(spec, port, (at[port], senders[port]), timeline()));
            at[port] += 1;
            let measure = self.measure(port, timeline);
            self.rig.workers[number].prepare(source, measure);
        }
    }

    /// Counts what a port receives of each port that sends to it.
    fn measure(&self, port: usize, timeline: impl Fn() -> Option<Timeline>) -> Measure {
        let own = Addrs::one(self.plan.ends[port].addr.addr());
        let of = |from: usize| {
            let mut measure = Measure::new(Expect::Own { session: self.session_of(from, port), dst: own });
            measure.timeline = timeline();
            measure
        };
        let mut sources = self.plan.sources(port);
        // To a port that no other sends to, nothing has its own number.
        let mut measure = of(sources.next().unwrap_or(port));
        measure.apart = sources.map(of).collect();
        measure
    }

    fn target(&self, from: usize, to: usize) -> Target {
        let headers = Headers {
            is_v4: self.plan.is_v4(),
            transport: Transport::Udp,
            src_mac: self.rig.mac(from),
            dst_mac: self.next_hop(from, to),
            ttl: TTL,
            tos: 0,
        };
        Target::new(&headers, self.session_of(from, to))
    }

    fn source(
        &self,
        spec: &Spec,
        port: usize,
        (at, of): (usize, usize),
        timeline: Option<Timeline>,
    ) -> Source {
        let address = |port: usize| Addrs::one(self.plan.ends[port].addr.addr());
        let receivers = self.plan.receivers(port);
        let last = SOURCE_PORT + (self.plan.flows - 1);
        let flows_to = |to: usize| {
            let (sport, dport) =
                (grammar::Ports { first: SOURCE_PORT, last }, grammar::Ports { first: ECHO, last: ECHO });
            let ranges = Ranges { src: address(port), dst: address(to), sport, dport };
            ranges.flows(self.plan.flows.into(), Pick::Step, 0)
        };
        let to: Vec<Vec<Flow>> = receivers.clone().map(flows_to).collect();
        let flow = |number: usize| to[number % to.len()][number / to.len()];
        let part = Part { at: at as u64, of: of as u64 };
        let pace = part.pace(spec.load);
        Source {
            targets: receivers.map(|to| self.target(port, to)).collect(),
            flows: self.flows().skip(at).step_by(of.max(1)).map(flow).collect(),
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

    /// Lets a switch learn where the receivers are: a question from there.
    fn announce(&mut self) {
        for (port, end) in self.plan.ends.iter().enumerate() {
            let next = self.plan.receivers(port).next().and_then(|next| self.plan.ends.get(next));
            if let Some(worker) = self.rig.workers.iter_mut().find(|worker| worker.port == port)
                && let Some(next) = next
                && let Some(question) = worker.station.ask(end.addr.addr(), next.addr.addr())
            {
                worker.say(&question);
            }
        }
    }

    /// Runs the workers through a trial.
    fn conduct(
        &mut self,
        spec: &Spec,
        live: &mut dyn FnMut(Live),
    ) -> Result<(Vec<(usize, Done)>, Times), Broken> {
        let orders = Arc::new(Orders::default());
        let boards: Vec<_> = self.rig.workers.iter().map(|worker| Arc::clone(&worker.board)).collect();
        let ports: Vec<usize> = self.rig.workers.iter().map(|worker| worker.port).collect();
        let sends: Vec<bool> = self.rig.workers.iter().map(|worker| worker.source.is_some()).collect();
        let body = |mut worker: Worker, orders: &Orders| {
            worker.work(orders);
            worker
        };
        let threads = self.rig.start(&self.plan.cpus, &orders, body).map_err(Broken::Failed)?;
        let senders: Vec<_> =
            boards.iter().zip(sends).filter(|(_, sends)| *sends).map(|(board, _)| board).collect();
        let led = self.lead(spec, &orders, (&boards, &ports), &senders, live);
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
        (boards, ports): (&[Arc<Board>], &[usize]),
        senders: &[&Arc<Board>],
        live: &mut dyn FnMut(Live),
    ) -> Result<Times, Broken> {
        rig::learn(orders, boards, &self.rig.stop);
        self.find_path(boards, ports)?;
        let (begun, begun_ns) = (Instant::now(), now_ns());
        orders.send(begun_ns);
        let mut shown = begun;
        let mut reset = Reset::new(spec.load, self.plan.reset_command.as_deref());
        let is = |board: &Board, bit: u8| board.state.load(Ordering::Acquire) & bit != 0;
        while !senders.iter().all(|board| is(board, DONE)) {
            thread::sleep(TICK);
            if let Some(gone) = boards.iter().position(|board| is(board, GONE)) {
                return Err(Broken::Failed(format!("the device {} is gone", self.rig.device(ports[gone]))));
            }
            if self.rig.stop.is_set() {
                return Err(Broken::Interrupted);
            }
            reset.poll(begun)?;
            if shown.elapsed() >= SHOW_EVERY {
                shown = Instant::now();
                live(so_far(boards, begun));
            }
        }
        let time = begun.elapsed();
        live(so_far(boards, begun));
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

    /// Whether something arrived at each port that is sent to.
    fn find_path(&mut self, boards: &[Arc<Board>], ports: &[usize]) -> Result<(), Broken> {
        for (board, port) in boards.iter().zip(ports) {
            self.has_path[*port] |= board.learned.load(Ordering::Relaxed) > 0;
        }
        let is_silent = |to: &usize| self.plan.sources(*to).next().is_some() && !self.has_path[*to];
        match (0..self.has_path.len()).rev().find(is_silent) {
            Some(_) if self.rig.stop.is_set() => Err(Broken::Interrupted),
            Some(to) => Err(self.no_path(to)),
            None => Ok(()),
        }
    }

    fn no_path(&self, to: usize) -> Broken {
        let sources: Vec<usize> = self.plan.sources(to).collect();
        let devices: Vec<&str> = sources.iter().map(|from| self.rig.device(*from)).collect();
        let nets: Vec<String> = self.plan.ends.iter().map(|end| end.addr.to_string()).collect();
        let from: Vec<String> =
            sources.iter().map(|from| self.plan.ends[*from].addr.addr().to_string()).collect();
        Broken::Failed(format!(
            "no learning frame from {} arrives at {}: the device under test should forward from {} to {}, and have addresses \
             in {} networks ({})",
            devices.join(" or "),
            self.rig.device(to),
            from.join(" and "),
            self.plan.ends[to].addr.addr(),
            if nets.len() == 2 { "both" } else { "all" },
            if self.plan.is_switch {
                "or pass frames to any Ethernet address".to_owned()
            } else {
                nets.join(", ")
            }
        ))
    }
}

impl Tester for Ports<'_> {
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
        Ok(counts::outcome(self.plan, spec, done, &times))
    }
}

fn so_far(boards: &[Arc<Board>], begun: Instant) -> Live {
    Live {
        since_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        sent: rig::sum(boards, |board| &board.sent),
        received: rig::sum(boards, |board| &board.arrived),
    }
}
