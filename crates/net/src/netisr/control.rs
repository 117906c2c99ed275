//! How a netisr is put together, and the doors for messages: rings come and go, tables are replaced, CPUs are asked.

use std::sync::Arc;

use pkt::Pool;

use super::{Netisr, Ring, VEC_MAX, Work};
use crate::addr::Addrs;
use crate::count::{Counters, CountersReader};
use crate::cpu::{Cpu, CpuId};
use crate::driver::Driver;
use crate::drop::DropReason;
use crate::fib::HopId;
use crate::icmp::Icmp;
use crate::ifq::{Ifqs, Via};
use crate::msg::{Inbox, Msg, Peers, Tour};
use crate::neigh::Neigh;
use crate::next::Next;
use crate::reass::Reass;
use crate::rss::Placement;
use crate::secret::Secret;
use crate::tables::{IfIndex, Tables};
use crate::time::Instant;
use crate::timers::Timers;
use crate::{addr, neigh};

/// What a CPU is made of.
pub struct Parts {
    /// Which CPU it is.
    pub id: CpuId,
    /// CPUs in all.
    pub cpus: u16,
    /// Its buffers.
    pub pool: Pool,
    /// Its ways to the others.
    pub peers: Peers,
    /// Its ways from the others.
    pub inbox: Inbox,
    /// Its own key: drawn from entropy by the shell, from a seed by the simulator.
    pub key: u128,
    /// What it begins with.
    pub tables: Arc<Tables>,
}

/// What any thread may read of a CPU while it runs.
#[derive(Clone)]
pub struct Shared {
    /// Its counters.
    pub counters: CountersReader,
}

/// Packets taken from a ring in one round, before the next ring has its turn.
const BURST: usize = 256;

impl Netisr {
    /// Puts a CPU together.
    #[must_use]
    pub fn new(parts: Parts) -> (Self, Shared) {
        let counters = Counters::default();
        let shared = Shared { counters: counters.reader() };
        let cpu = Cpu {
            id: parts.id,
            now: Instant::START,
            placement: Placement::new(parts.cpus),
            tables: parts.tables,
            pool: parts.pool,
            ifqs: Ifqs::default(),
            peers: parts.peers,
            neigh: Neigh::new(parts.key),
            timers: Timers::default(),
            addrs: Addrs::default(),
            reass: Reass::new(parts.key),
            icmp: Icmp::default(),
            secret: Secret::new(parts.key),
            loopback: std::collections::VecDeque::new(),
            counters,
        };
        let mut netisr = Self { cpu, rings: Vec::new(), inbox: parts.inbox, work: Work::default() };
        addr::tables_changed(&mut netisr.cpu);
        (netisr, shared)
    }

    /// Takes a device ring into this CPU's care.
    pub fn attach(&mut self, ifindex: IfIndex, driver: Box<dyn Driver>) {
        self.cpu.ifqs.connect(ifindex, Via::Ring(self.rings.len()));
        self.rings.push(Ring { ifindex, driver, burst: BURST });
    }

    /// Gives the rings of an interface back, closed. When this is answered, nobody touches them any more.
    pub fn detach(&mut self, ifindex: IfIndex) -> Vec<Box<dyn Driver>> {
        if matches!(self.cpu.ifqs.via(ifindex), Via::Ring(_)) {
            self.cpu.ifqs.connect(ifindex, Via::Nothing);
        }
        let pool = &mut self.cpu.pool;
        let gone = self.rings.extract_if(.., |ring| ring.ifindex == ifindex).map(|mut ring| {
            ring.driver.close(pool);
            ring.driver
        });
        let gone = gone.collect();
        for (at, ring) in self.rings.iter().enumerate() {
            self.cpu.ifqs.connect(ring.ifindex, Via::Ring(at));
        }
        gone
    }

    /// Sends what leaves by an interface through another CPU's ring.
    pub fn send_through(&mut self, ifindex: IfIndex, owner: CpuId) {
        if owner != self.cpu.id {
            self.cpu.ifqs.connect(ifindex, Via::Peer(owner));
        }
    }

    /// The rings that this CPU owns: interface and driver.
    pub fn rings(&self) -> impl Iterator<Item = (IfIndex, &dyn Driver)> {
        self.rings.iter().map(|ring| (ring.ifindex, &*ring.driver))
    }

    /// Replaces interfaces, addresses and routes.
    pub fn set_tables(&mut self, tables: Arc<Tables>) {
        self.cpu.tables = tables;
        neigh::tables_changed(&mut self.cpu);
        addr::tables_changed(&mut self.cpu);
    }

    /// Whether no message and no packet from another CPU waits: what is asked once more before sleeping.
    #[must_use]
    pub fn inbox_is_empty(&mut self) -> bool {
        self.inbox.is_empty() && self.cpu.peers.own.is_empty() && self.cpu.loopback.is_empty()
    }

    /// Ends everything: rings are closed, and what is still in the stack goes to its grave.
    pub fn shut_down(&mut self) {
        for mut ring in self.rings.drain(..) {
            ring.driver.close(&mut self.cpu.pool);
        }
        let Self { cpu, inbox, .. } = self;
        let mut last = cpu.ifqs.drain();
        last.extend(cpu.loopback.drain(..));
        last.extend(cpu.reass.drain());
        last.extend(cpu.neigh.drain());
        for from in &mut inbox.from {
            from.packets.drain(usize::MAX, |pkt| last.push(pkt));
            from.home.drain(usize::MAX, |pkt| cpu.pool.come_home(pkt));
        }
        for pkt in last {
            cpu.bury(pkt, DropReason::Shutdown);
        }
        cpu.peers.roll_up(&mut cpu.pool);
    }

    /// Packets from us to us, as if they had just come in.
    pub(super) fn looped_back(&mut self) -> usize {
        let Self { cpu, work, .. } = self;
        let count = cpu.loopback.len().min(VEC_MAX);
        for _ in 0..count {
            if let Some(pkt) = cpu.loopback.pop_front() {
                super::push(cpu, &mut work.frames, pkt);
            }
        }
        self.input();
        count
    }

    /// Own messages first, then those of the control threads, then each peer's: what a thread sent here is handled
    /// before the tour that it started afterwards, and that peers pass on, comes by.
    pub(super) fn next_message(&mut self) -> Option<Msg> {
        let Self { cpu, inbox, .. } = self;
        let from_peers = || inbox.from.iter_mut().find_map(|from| from.messages.pop());
        cpu.peers.own.pop_front().or_else(|| inbox.port.pop()).or_else(from_peers)
    }

    pub(super) fn handle(&mut self, msg: Msg) {
        match msg {
            Msg::Call(call) => call(self),
            Msg::Tour(tour) => self.visit(tour),
            Msg::Neigh(msg) => neigh::message(&mut self.cpu, msg),
            Msg::Addr(msg) => addr::message(&mut self.cpu, msg),
        }
    }

    fn visit(&mut self, tour: Tour) {
        (tour.visit)(self);
        let next = CpuId(self.cpu.id.0 + 1);
        if next.0 < self.cpu.placement.cpus() {
            self.cpu.peers.send(next, Msg::Tour(tour));
        } else {
            (tour.done)();
        }
    }
}

impl Default for Work {
    fn default() -> Self {
        Self {
            frames: super::PktVec::new(),
            lane4: super::PktVec::new(),
            lane6: super::PktVec::new(),
            next: [Next::Drop(DropReason::Shutdown); VEC_MAX],
            hops: [HopId::default(); VEC_MAX],
            keys4: [0; VEC_MAX],
            keys6: [0; VEC_MAX],
        }
    }
}
