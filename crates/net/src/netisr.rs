//! The turn of a netisr: the architecture on one page.

mod control;

pub use control::{Parts, Shared};

use pkt::{Pkt, PktVec, VEC_MAX};

use crate::count::{Count, IfCount};
use crate::cpu::{Cpu, CpuId};
use crate::driver::{Driver, Link};
use crate::drop::DropReason;
use crate::fib::HopId;
use crate::forward::forward;
use crate::ifq::Via;
use crate::ip4::Ip4;
use crate::ip6::Ip6;
use crate::msg::Inbox;
use crate::next::{Next, Resume};
use crate::tables::IfIndex;
use crate::time::Instant;
use crate::{arp, ether, icmp, ifq, ip4, ip6, neigh, rss, timers};

/// Messages handled in one turn at the most.
const MESSAGES_MAX: usize = 512;
/// Packets that go through the stages together. Measured: the gain ends at 32 to 64, and 256 leave the L1 cache.
const CHUNK: usize = 64;

/// One CPU of the stack: everything it owns, as a function of messages, frames and time.
///
/// A thread calls [`Netisr::turn`] for ever; the simulator calls it step by step.
pub struct Netisr {
    /// What the stages read and write.
    pub cpu: Cpu,
    rings: Vec<Ring>,
    inbox: Inbox,
    work: Work,
}

/// A device ring that this CPU owns.
struct Ring {
    ifindex: IfIndex,
    driver: Box<dyn Driver>,
    burst: usize,
}

/// Scratch space: the vectors, and by position in them the facts that live for one turn.
struct Work {
    frames: PktVec,
    lane4: PktVec,
    lane6: PktVec,
    next: [Next; VEC_MAX],
    hops: [HopId; VEC_MAX],
    keys4: [u32; VEC_MAX],
    keys6: [u128; VEC_MAX],
}

/// What a turn amounted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Messages, packets and timers handled; 0 if there was nothing to do.
    pub worked: usize,
    /// When to turn again at the latest, if nothing happens before.
    pub deadline: Instant,
}

impl Netisr {
    /// Does what there is to do at `now`, a bounded amount of it.
    pub fn turn(&mut self, now: Instant) -> Turn {
        self.cpu.now = now;
        let messages = self.messages();
        let packets = self.handed_over() + self.receive();
        let timers = timers::run(&mut self.cpu);
        self.roll_up();
        let worked = messages + packets + timers;
        self.cpu.count(Count::Turns);
        self.cpu.counters.add(Count::BusyTurns, u64::from(worked > 0));
        Turn { worked, deadline: self.deadline() }
    }

    /// 1. Messages: from the other CPUs and from the control threads.
    fn messages(&mut self) -> usize {
        for done in 0..MESSAGES_MAX {
            let Some(msg) = self.next_message() else { return done };
            self.cpu.count(Count::Messages);
            self.handle(msg);
        }
        MESSAGES_MAX
    }

    /// 2a. Packets that other CPUs received and this one owns, and own buffers that died elsewhere.
    fn handed_over(&mut self) -> usize {
        let mut packets = 0;
        for from in 0..self.inbox.from.len() {
            let Self { inbox, cpu, work, .. } = self;
            let from = &mut inbox.from[from];
            from.home.drain(usize::MAX, |pkt| cpu.pool.come_home(pkt));
            let taken = from.packets.drain(VEC_MAX, |pkt| push(cpu, &mut work.frames, pkt));
            self.cpu.counters.add(Count::HandoffIn, taken as u64);
            packets += taken;
            self.input();
        }
        packets
    }

    /// 2b. Frames from my rings: a burst from each, and each chunk goes its whole way at once.
    fn receive(&mut self) -> usize {
        let mut packets = self.looped_back();
        for ring in 0..self.rings.len() {
            let mut left = self.rings[ring].burst;
            while left > 0 {
                let Self { rings, cpu, work, .. } = self;
                let got = rings[ring].rx(cpu, &mut work.frames, left.min(CHUNK));
                if got == 0 {
                    break;
                }
                self.input();
                left -= got.min(left);
                packets += got;
            }
        }
        packets
    }

    /// The way in, the choice, and the way out, for all packets in `work.frames`.
    fn input(&mut self) {
        let Self { cpu, work, .. } = self;
        if work.frames.is_empty() {
            return;
        }
        work.way_in(cpu);
        work.route4(cpu);
        work.route6(cpu);
        self.transmit(false);
    }

    /// 4. Roll up: output queues, one doorbell per ring; hand-offs, one publication per peer; foreign buffers home.
    fn roll_up(&mut self) {
        neigh::roll_up(&mut self.cpu);
        self.transmit(true);
        for ring in &mut self.rings {
            ring.driver.doorbell(&mut self.cpu.pool);
        }
        let Cpu { peers, pool, .. } = &mut self.cpu;
        peers.roll_up(pool);
    }

    /// Moves queued packets to the transmit rings: those of queues for which it is worth it, or of all.
    fn transmit(&mut self, all: bool) {
        let waiting = self.cpu.ifqs.take_waiting();
        for &ifindex in &waiting {
            if all || self.cpu.ifqs.is_due(ifindex) {
                self.drain(ifindex);
            }
        }
        self.cpu.ifqs.still_waits(waiting);
    }

    fn drain(&mut self, ifindex: IfIndex) {
        let Self { cpu, rings, work, .. } = self;
        match cpu.ifqs.via(ifindex) {
            Via::Ring(ring) => match rings.get_mut(ring) {
                Some(ring) => ring.tx(cpu, &mut work.frames),
                None => bury_queue(cpu, ifindex, &mut work.frames, DropReason::NoDevice),
            },
            Via::Peer(owner) => hand_over_queue(cpu, ifindex, &mut work.frames, owner),
            Via::Nothing => bury_queue(cpu, ifindex, &mut work.frames, DropReason::NoDevice),
        }
    }

    /// When this CPU must turn again: soon while a device or a peer holds something up, else for the next timer.
    fn deadline(&self) -> Instant {
        const SOON: core::time::Duration = core::time::Duration::from_micros(100);
        let Self { cpu, rings, .. } = self;
        if !cpu.peers.own.is_empty() || !cpu.loopback.is_empty() {
            return cpu.now;
        }
        let timer = cpu.timers.deadline().unwrap_or(Instant::NEVER);
        let held_up =
            !cpu.ifqs.is_empty() || cpu.peers.is_backlogged() || rings.iter().any(|ring| ring.driver.busy());
        if held_up { timer.min(cpu.now + SOON) } else { timer }
    }
}

impl Work {
    /// First pass: headers off, validated, and each packet on the CPU that owns it. Fills the two lanes.
    fn way_in(&mut self, cpu: &mut Cpu) {
        let Self { frames, next, lane4, lane6, .. } = self;
        let (mut all4, mut all6) = (true, true);
        frames.for_each_prefetching(|at, pkt| {
            let answer = way_in(cpu, pkt);
            all4 &= answer == Next::Route4;
            all6 &= answer == Next::Route6;
            next[at] = answer;
        });
        // The usual vector is of one family and goes on as it is.
        match (all4, all6) {
            (true, _) => core::mem::swap(frames, lane4),
            (_, true) => core::mem::swap(frames, lane6),
            _ => split(cpu, frames, next, lane4, lane6),
        }
    }

    /// Second and third pass for IPv4: look all destinations up, then do what the routes say.
    fn route4(&mut self, cpu: &mut Cpu) {
        let Self { lane4, next, hops, keys4, .. } = self;
        look_for_strays(cpu, lane4);
        for (key, pkt) in keys4.iter_mut().zip(lane4.iter()) {
            *key = ip4::dst(pkt).to_bits();
        }
        let count = lane4.len();
        cpu.tables.fib.lookup4(&keys4[..count], &mut hops[..count]);
        for ((pkt, next), hop) in lane4.iter_mut().zip(&mut *next).zip(&*hops) {
            *next = forward::<Ip4>(cpu, pkt, *hop);
        }
        way_out(cpu, lane4, next);
    }

    /// The same for IPv6.
    fn route6(&mut self, cpu: &mut Cpu) {
        let Self { lane6, next, hops, keys6, .. } = self;
        look_for_strays(cpu, lane6);
        for (key, pkt) in keys6.iter_mut().zip(lane6.iter()) {
            *key = ip6::dst(pkt).to_bits();
        }
        let count = lane6.len();
        cpu.tables.fib.lookup6(&keys6[..count], &mut hops[..count]);
        for ((pkt, next), hop) in lane6.iter_mut().zip(&mut *next).zip(&*hops) {
            *next = forward::<Ip6>(cpu, pkt, *hop);
        }
        way_out(cpu, lane6, next);
    }
}

/// One packet's way in: link header, owner, network header.
#[inline]
fn way_in(cpu: &mut Cpu, pkt: &mut Pkt) -> Next {
    let here = match Resume::next(pkt.resume) {
        None => match ether::input(cpu, pkt) {
            ip_or_arp @ (Next::Ip4 | Next::Ip6 | Next::Arp) => rss::place(cpu, pkt, ip_or_arp),
            other => other,
        },
        Some(handed_over) => handed_over,
    };
    match here {
        Next::Ip4 => ip4::input::input(cpu, pkt),
        Next::Ip6 => ip6::input::input(cpu, pkt),
        other => other,
    }
}

/// Takes the packets apart whose ways differ.
#[cold]
fn split(cpu: &mut Cpu, frames: &mut PktVec, next: &[Next], lane4: &mut PktVec, lane6: &mut PktVec) {
    for (pkt, next) in frames.drain().zip(next) {
        match next {
            Next::Route4 => push(cpu, lane4, pkt),
            Next::Route6 => push(cpu, lane6, pkt),
            other => dispatch(cpu, pkt, *other),
        }
    }
}

/// Counts packets that are on the wrong CPU; in release builds, nothing.
fn look_for_strays(cpu: &mut Cpu, lane: &PktVec) {
    if cfg!(debug_assertions) {
        let strays = lane.iter().filter(|pkt| rss::is_stray(cpu, pkt)).count();
        cpu.counters.add(Count::Strays, strays as u64);
    }
}

fn way_out(cpu: &mut Cpu, lane: &mut PktVec, next: &[Next]) {
    for (pkt, next) in lane.drain().zip(next) {
        match next {
            Next::Output => ifq::output(cpu, pkt),
            other => dispatch(cpu, pkt, *other),
        }
    }
}

/// Brings one packet to the place that a stage named: all places a packet can go to, in one list.
#[cold]
pub fn dispatch(cpu: &mut Cpu, pkt: Pkt, next: Next) {
    match next {
        Next::Arp => arp::input(cpu, pkt),
        Next::Local4 => ip4::local::input(cpu, pkt),
        Next::Local6 => ip6::local::input(cpu, pkt),
        Next::Ip4 | Next::Ip6 | Next::Route4 | Next::Route6 => cpu.loop_back(pkt, Resume::at(next)),
        Next::Output => ifq::output(cpu, pkt),
        Next::Resolve => neigh::hold(cpu, pkt),
        Next::Fragment => ip4::output::fragment(cpu, pkt),
        Next::HandOff(owner) => hand_off(cpu, pkt, owner),
        Next::Answer(problem) => icmp::answer(cpu, pkt, problem),
        Next::Drop(reason) => cpu.bury(pkt, reason),
    }
}

/// Drops  [`DropReason::HandoffFull`].
fn hand_off(cpu: &mut Cpu, pkt: Pkt, owner: CpuId) {
    match cpu.peers.hand_off(owner, pkt) {
        Ok(()) => cpu.count(Count::HandoffOut),
        Err(pkt) => cpu.bury(pkt, DropReason::HandoffFull),
    }
}

/// Drops  [`DropReason::NoBuffer`], which cannot happen: vectors are filled with no more than they hold.
fn push(cpu: &mut Cpu, vec: &mut PktVec, pkt: Pkt) {
    if let Err(pkt) = vec.push(pkt) {
        cpu.bury(pkt, DropReason::NoBuffer);
    }
}

fn bury_queue(cpu: &mut Cpu, ifindex: IfIndex, scratch: &mut PktVec, reason: DropReason) {
    cpu.ifqs.pull(ifindex, scratch);
    bury_all(cpu, ifindex, scratch, reason);
}

fn bury_all(cpu: &mut Cpu, ifindex: IfIndex, scratch: &mut PktVec, reason: DropReason) {
    for pkt in scratch.drain() {
        cpu.counters.add_if(ifindex, IfCount::TxDrops, 1);
        cpu.bury(pkt, reason);
    }
}

/// A CPU without a transmit ring of its own sends through the ring's owner.
fn hand_over_queue(cpu: &mut Cpu, ifindex: IfIndex, scratch: &mut PktVec, owner: CpuId) {
    cpu.ifqs.pull(ifindex, scratch);
    for mut pkt in scratch.drain() {
        pkt.resume = Resume::Transmit as u8;
        hand_off(cpu, pkt, owner);
    }
}

impl Ring {
    fn rx(&mut self, cpu: &mut Cpu, into: &mut PktVec, max: usize) -> usize {
        let got = self.driver.rx(&mut cpu.pool, into, max);
        let mut bytes = 0;
        for pkt in into.iter_mut() {
            pkt.rcvif = self.ifindex;
            bytes += pkt.len() as u64;
        }
        if got > 0 {
            cpu.counters.add(Count::RxPackets, got as u64);
            cpu.counters.add_if(self.ifindex, IfCount::RxPackets, got as u64);
            cpu.counters.add_if(self.ifindex, IfCount::RxBytes, bytes);
        }
        got
    }

    fn tx(&mut self, cpu: &mut Cpu, scratch: &mut PktVec) {
        cpu.ifqs.pull(self.ifindex, scratch);
        let (packets, bytes) = totals(scratch);
        self.driver.tx(&mut cpu.pool, scratch);
        let (packets_left, bytes_left) = totals(scratch);
        if packets_left > 0 && packets_left == packets {
            self.bury_if_gone(cpu, scratch);
        }
        cpu.ifqs.unpull(self.ifindex, scratch);
        cpu.counters.add(Count::TxPackets, packets - packets_left);
        cpu.counters.add_if(self.ifindex, IfCount::TxPackets, packets - packets_left);
        cpu.counters.add_if(self.ifindex, IfCount::TxBytes, bytes - bytes_left);
        self.driver.doorbell(&mut cpu.pool);
    }

    /// A ring that takes nothing is full, or its device was taken away: then waiting is in vain.
    ///
    /// Drops  [`DropReason::NoDevice`].
    #[cold]
    fn bury_if_gone(&self, cpu: &mut Cpu, scratch: &mut PktVec) {
        if self.driver.link() == Link::Gone {
            bury_all(cpu, self.ifindex, scratch, DropReason::NoDevice);
        }
    }
}

fn totals(pkts: &PktVec) -> (u64, u64) {
    (pkts.len() as u64, pkts.iter().map(|pkt| pkt.len() as u64).sum())
}
