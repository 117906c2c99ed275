//! The world: virtual time, and the order of turns.

mod check;
mod ledger;
mod permit;
mod random;
mod report;

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use net::time::{Duration, Instant};

use crate::cable::{self, Cable};
use crate::frame::Frame;
use crate::host::{self, Host};
use crate::mem::Nic;
use crate::random::Random;
use crate::station::{Flow, FlowId, Station};
pub use check::{Broken, Check};
pub use permit::Permit;
use permit::Permits;
pub use random::{Plant, explore, explore_planted};

/// Names a cable of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CableId(pub usize);

/// Names a host of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// Names a station of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StationId(pub usize);

/// Hosts, stations and cables in virtual time.
pub struct World {
    /// The test's name: where a failure leaves its files.
    pub name: String,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Probability, in millionths, that a CPU loses its processor for up to a millisecond after a turn.
    pub stalls: u32,
    /// Datagrams that an oracle judged by the rules of firewalls: let through, and denied.
    pub judged: [u64; 2],
    permits: Permits,
    now: Instant,
    random: Random,
    cables: Vec<Cable>,
    hosts: Vec<Host>,
    stations: Vec<Station>,
    plugs: Vec<Plug>,
    flows: Vec<(StationId, StationId, Flow)>,
    /// When each of them began.
    begun: Vec<Instant>,
    events: BinaryHeap<Reverse<Event>>,
    happened: u64,
    turns: u64,
    finished: bool,
}

/// One end of a cable.
struct Plug {
    cable: CableId,
    end: End,
    /// When the last frame that it sent will have left.
    free_at: Instant,
    /// An event that pulls its next frame is waiting.
    is_pulling: bool,
}

enum End {
    Card(Nic),
    Station(StationId),
}

/// Something that happens at a time; in the order in which it was foreseen.
struct Event {
    at: Instant,
    order: u64,
    what: EventKind,
}

enum EventKind {
    Arrive(usize, Frame),
    Pull(usize),
}

/// Turns of CPUs that a world takes at the most: one that never rests is broken.
const TURNS_MAX: u64 = 20_000_000;

impl World {
    /// An empty world. `name` is the test's.
    #[must_use]
    pub fn new(name: &str, seed: u64) -> Self {
        Self {
            name: name.to_owned(),
            seed,
            stalls: 0,
            judged: [0; 2],
            permits: Permits::default(),
            now: Instant::START,
            random: Random::new(seed),
            cables: Vec::new(),
            hosts: Vec::new(),
            stations: Vec::new(),
            plugs: Vec::new(),
            flows: Vec::new(),
            begun: Vec::new(),
            events: BinaryHeap::new(),
            happened: 0,
            turns: 0,
            finished: false,
        }
    }

    /// Lays a cable.
    pub fn cable(&mut self, spec: cable::Spec) -> CableId {
        self.cables.push(Cable::new(spec, self.random.fork()));
        CableId(self.cables.len() - 1)
    }

    /// Switches a host on.
    pub fn host(&mut self, spec: host::Spec) -> HostId {
        let host = Host::new(spec, &mut self.random);
        for (port, nic) in host.spec.ports.iter().zip(&host.nics) {
            self.plugs.push(Plug::new(port.cable, End::Card(nic.clone())));
        }
        self.hosts.push(host);
        HostId(self.hosts.len() - 1)
    }

    /// Plugs a station into a cable.
    pub fn station(&mut self, cable: CableId, station: Station) -> StationId {
        let id = StationId(self.stations.len());
        self.stations.push(station);
        self.plugs.push(Plug::new(cable, End::Station(id)));
        id
    }

    /// Sends a flow from one station to another, beginning now.
    pub fn flow(&mut self, from: StationId, to: StationId, flow: Flow) -> FlowId {
        let id = FlowId(u32::try_from(self.flows.len()).unwrap_or(u32::MAX));
        self.flows.push((from, to, flow));
        let now = self.now;
        self.begun.push(now);
        self.at(from).start_flow(id, flow, now);
        id
    }

    /// The time.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// A host.
    pub fn of(&mut self, host: HostId) -> &mut Host {
        &mut self.hosts[host.0]
    }

    /// A station.
    pub fn at(&mut self, station: StationId) -> &mut Station {
        &mut self.stations[station.0]
    }

    /// A cable.
    pub fn on(&mut self, cable: CableId) -> &mut Cable {
        &mut self.cables[cable.0]
    }

    /// The world's own chance.
    pub const fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// Returns the datagrams of a flow that arrived.
    #[must_use]
    pub fn tally(&self, flow: FlowId) -> crate::station::Tally {
        let (_, to, _) = self.flows[flow.0 as usize];
        self.stations[to.0].tally(flow)
    }

    /// When a datagram of a flow was sent.
    #[must_use]
    pub fn sent(&self, id: FlowId, number: u32) -> Instant {
        let at = id.0 as usize;
        self.flows[at].2.leaves(self.begun[at], number)
    }

    /// Returns the delays of a flow's datagrams that arrived, in the order of arrival.
    #[must_use]
    pub fn delays(&self, id: FlowId) -> Vec<Duration> {
        let (at, tally) = (id.0 as usize, self.tally(id));
        let (flow, begun) = (self.flows[at].2, self.begun[at]);
        tally.arrived.iter().map(|(number, arrived)| arrived.since(flow.leaves(begun, *number))).collect()
    }

    /// Lets time pass.
    pub fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        while self.step(until) {}
    }

    /// Lets time pass until `is_so`, and no longer than `limit`; answers whether it came to be.
    pub fn run_until(&mut self, limit: Duration, mut is_so: impl FnMut(&mut Self) -> bool) -> bool {
        let until = self.now + limit;
        loop {
            if is_so(self) {
                return true;
            }
            if !self.step(until) {
                return is_so(self);
            }
        }
    }

    /// Does the next thing, if it is not later than `until`; then time has moved there and the answer is false.
    ///
    /// What is due on cables and stations comes first, then one CPU of those that want to turn, whichever the seed
    /// says.
    fn step(&mut self, until: Instant) -> bool {
        assert!(self.turns < TURNS_MAX, "the world never rests");
        if self.next_event() <= self.now {
            self.happen();
        } else if let Some(station) = self.due_station() {
            self.poll_station(station);
        } else if let Some((host, cpu)) = self.choose_cpu() {
            self.turn(host, cpu);
        } else {
            let next = self.next_time();
            self.now = next.min(until).max(self.now);
            return next <= until;
        }
        true
    }

    fn next_event(&self) -> Instant {
        self.events.peek().map_or(Instant::NEVER, |Reverse(event)| event.at)
    }

    fn next_time(&self) -> Instant {
        let stations = self.stations.iter().map(Station::deadline);
        let cpus = self.hosts.iter().flat_map(|host| &host.cpus).map(host::SimCpu::next_turn);
        stations.chain(cpus).fold(self.next_event(), Instant::min)
    }

    fn happen(&mut self) {
        let Some(Reverse(event)) = self.events.pop() else { return };
        match event.what {
            EventKind::Pull(plug) => {
                self.plugs[plug].is_pulling = false;
                self.pull(plug);
            }
            EventKind::Arrive(plug, frame) => match &self.plugs[plug].end {
                End::Card(nic) => nic.deliver(frame),
                End::Station(id) => self.stations[id.0].receive(self.now, frame),
            },
        }
    }

    fn due_station(&self) -> Option<StationId> {
        self.stations.iter().position(|station| station.deadline() <= self.now).map(StationId)
    }

    fn poll_station(&mut self, id: StationId) {
        let frames = self.stations[id.0].poll(self.now);
        let is_it = |plug: &Plug| matches!(plug.end, End::Station(of) if of == id);
        let Some(plug) = self.plugs.iter().position(is_it) else { return };
        for frame in frames {
            let at = self.leave(plug, &frame);
            self.send(plug, at, frame);
        }
    }

    fn choose_cpu(&mut self) -> Option<(usize, usize)> {
        let mut wanting = Vec::new();
        for (at, host) in self.hosts.iter().enumerate() {
            let cpus = host.cpus.iter().enumerate().filter(|(_, cpu)| cpu.next_turn() <= self.now);
            wanting.extend(cpus.map(|(cpu, _)| (at, cpu)));
        }
        self.random.pick(&wanting)
    }

    fn turn(&mut self, host: usize, cpu: usize) {
        self.turns += 1;
        let now = self.now;
        let turned = &mut self.hosts[host].cpus[cpu];
        turned.turn(now);
        self.hosts[host].take_news();
        let turned = &mut self.hosts[host].cpus[cpu];
        if self.random.chance(self.stalls) {
            let span = Duration::from_nanos(self.random.between(1_000, 1_000_000) as u64);
            turned.stall_until(now + span);
        }
        for plug in 0..self.plugs.len() {
            self.pull(plug);
        }
    }

    /// Takes frames from a card for as long as the cable takes them; the rest waits in the rings.
    fn pull(&mut self, plug: usize) {
        let End::Card(nic) = &self.plugs[plug].end else { return };
        let nic = nic.clone();
        while !self.plugs[plug].is_pulling && nic.has_to_transmit() {
            let free_at = self.plugs[plug].free_at;
            if free_at > self.now {
                self.plugs[plug].is_pulling = true;
                self.foresee(free_at, EventKind::Pull(plug));
            } else if let Some(frame) = nic.transmit() {
                let at = self.leave(plug, &frame);
                self.send(plug, at, frame);
            }
        }
    }

    /// When a frame has left the plug, which is busy until then.
    fn leave(&mut self, plug: usize, frame: &Frame) -> Instant {
        let plug = &mut self.plugs[plug];
        let spec = self.cables[plug.cable.0].spec;
        plug.free_at = plug.free_at.max(self.now) + spec.serialization(frame.bytes.len());
        plug.free_at
    }

    /// Puts a frame on the cable; it arrives at all other plugs.
    fn send(&mut self, from: usize, at: Instant, frame: Frame) {
        let cable = self.plugs[from].cable;
        for (at, frame) in self.cables[cable.0].carry(at, frame) {
            for to in 0..self.plugs.len() {
                if to != from && self.plugs[to].cable == cable {
                    self.foresee(at, EventKind::Arrive(to, frame.clone()));
                }
            }
        }
    }

    fn foresee(&mut self, at: Instant, what: EventKind) {
        self.happened += 1;
        self.events.push(Reverse(Event { at, order: self.happened, what }));
    }
}

impl Plug {
    const fn new(cable: CableId, end: End) -> Self {
        Self { cable, end, free_at: Instant::START, is_pulling: false }
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
