//! The turn of a netisr: the architecture on one page.

mod burst;
mod control;
mod out;
mod passes;
mod rings;
mod traced;

pub use burst::{BURST_MAX, EACH_BURST_MAX, Polling};
pub use control::{Parts, Shared};
pub use rings::{Moving, NoSuchRing, Ring, RingCounts};

use passes::{From, Work};
use pkt::{Flags, Pkt, PktVec, VEC_MAX};

use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::base::time::Instant;
use crate::host::app::Apps;
use crate::host::{dgram, tcp};
use crate::ip::ip4::Ip4;
use crate::ip::ip6::Ip6;
use crate::ip::{arp, bridge_io, icmp, ip4, ip6, neigh, output, punt, reass, tunnel_io};
use crate::link::pppoe;
use crate::out::ifq;
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::deliver;
use crate::turn::msg::Inbox;
use crate::turn::next::{Next, Resume};
use crate::turn::timers;
use crate::turn::trace;
use crate::{firewall, flow};

/// Messages handled in one turn at the most.
const MESSAGES_MAX: usize = 512;
/// Passes over held connections in one turn at the most.
const GO_ON_PASSES: usize = 8;
/// Packets that go through the stages together. Measured: the gain ends at 32 to 64, and 256 leave the L1 cache.
pub(crate) const CHUNK: usize = 64;

/// The positions of a chunk that have a bit in a word.
#[inline]
pub(crate) fn bits(which: u64) -> impl Iterator<Item = usize> {
    let mut left = which;
    core::iter::from_fn(move || {
        let at = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (at < CHUNK).then_some(at)
    })
}

/// One CPU of the stack: everything it owns, as a function of messages, frames and time.
///
/// A thread calls [`Netisr::turn`] for ever; the simulator calls it step by step.
pub struct Netisr {
    /// The state that stages read and write.
    pub cpu: Cpu,
    rings: Vec<Ring>,
    polling: Polling,
    inbox: Inbox,
    work: Work,
    programs: Apps,
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Messages, packets, timers, events of programs and connections handled; 0 if there was nothing to do.
    pub worked: usize,
    /// When to turn again at the latest, if nothing happens before.
    pub deadline: Instant,
}

impl Netisr {
    /// Does what there is to do at `now`, a bounded amount of it.
    pub fn turn(&mut self, now: Instant) -> Turn {
        self.cpu.now = now;
        let messages = self.messages();
        // First those that wait here: others of their flow may be among the rest. Applications and connections answer each
        // chunk before the next one comes in.
        let packets = self.looped_back() + self.handed_over() + self.receive();
        let timers =
            timers::run(&mut self.cpu) + tcp::expire(&mut self.cpu) + firewall::release(&mut self.cpu);
        let events = self.programs.run(&mut self.cpu);
        let connections = self.roll_up();
        let worked = messages + packets + timers + events + connections;
        self.cpu.count(Count::Turns);
        self.cpu.counters.add(Count::BusyTurns, u64::from(worked > 0));
        Turn { worked, deadline: self.deadline() }
    }

    /// 1. Messages: from the other CPUs and from the control threads.
    fn messages(&mut self) -> usize {
        self.inbox.listen();
        for done in 0..MESSAGES_MAX {
            let Some(msg) = self.next_message() else { return done };
            self.cpu.count(Count::Messages);
            self.handle(msg);
        }
        MESSAGES_MAX
    }

    /// 2b. Packets that other CPUs received and this one owns, and own buffers that died elsewhere.
    fn handed_over(&mut self) -> usize {
        (0..self.inbox.speaking.len()).map(|at| self.take_over_from(self.inbox.speaking[at])).sum()
    }

    fn take_over_from(&mut self, from: usize) -> usize {
        let Self { inbox, cpu, work, .. } = self;
        while inbox.from[from].home.drain(VEC_MAX, |pkt| push(cpu, &mut work.frames, pkt)) > 0 {
            cpu.pool.come_home_all(&mut work.frames);
        }
        let taken = (0..VEC_MAX / CHUNK).map_while(|_| self.take_over(from)).sum();
        self.cpu.counters.add(Count::HandoffIn, taken as u64);
        taken
    }

    /// A chunk of another CPU's packets; `None` if there are no more.
    fn take_over(&mut self, from: usize) -> Option<usize> {
        let Self { inbox, cpu, work, .. } = self;
        let taken = inbox.from[from].packets.drain(CHUNK, |pkt| push(cpu, &mut work.frames, pkt));
        work.frames.fetch_to_write();
        self.input_inside();
        Some(taken).filter(|taken| *taken > 0)
    }

    /// The way in, the choice, and the way out, for all packets in `work.frames`, and the answers to them.
    fn input(&mut self, from: From) {
        let Self { cpu, work, .. } = self;
        if work.frames.is_empty() {
            return;
        }
        pass(work, cpu, from);
        self.answer();
        self.transmit(false);
        if !self.cpu.decapsulated.is_empty() {
            self.decapsulated();
        }
    }

    /// Packets that have come out of tunnels begin again, as if they had just come in. Each time a header is gone, so that
    /// they come to rest ([`NESTING_MAX`](crate::link::tunnel::NESTING_MAX)).
    #[cold]
    #[inline(never)]
    fn decapsulated(&mut self) {
        let Self { cpu, work, .. } = self;
        let mut inner = core::mem::take(&mut cpu.decapsulated);
        inner.drain(..).for_each(|pkt| push(cpu, &mut work.frames, pkt));
        cpu.decapsulated = inner;
        self.input_inside();
    }

    /// Answers a chunk while its connections are in the cache: applications are told of it, and then connections send, so
    /// that an acknowledgment rides on what its application says.
    #[inline]
    fn answer(&mut self) {
        self.programs.answer(&mut self.cpu);
        tcp::output_touched(&mut self.cpu);
    }

    /// 5. Roll up: what connections have to send; output queues, one doorbell per ring; hand-offs, one publication per peer; foreign buffers home.
    fn roll_up(&mut self) -> usize {
        if !self.cpu.decapsulated.is_empty() {
            self.decapsulated();
        }
        let (connections, is_held) = tcp::roll_up(&mut self.cpu);
        neigh::roll_up(&mut self.cpu);
        let punted = if self.cpu.punts.is_empty() { 0 } else { punt::roll_up(&mut self.cpu) };
        self.transmit(true);
        let held = if is_held { self.go_on() } else { 0 };
        firewall::settle(&mut self.cpu);
        if self.cpu.offloads {
            flow::offloader::roll_up(&mut self.cpu);
        }
        for ring in &mut self.rings {
            ring.driver.doorbell(&mut self.cpu.pool);
        }
        let Cpu { peers, pool, .. } = &mut self.cpu;
        peers.roll_up(pool);
        connections + punted + held
    }

    /// Connections that waited for room in the queue of their interface go on, until it is crowded again.
    #[cold]
    #[inline(never)]
    fn go_on(&mut self) -> usize {
        let mut all = 0;
        for pass in 0..GO_ON_PASSES {
            let went_on = tcp::go_on(&mut self.cpu, pass == 0);
            if went_on == 0 {
                break;
            }
            self.transmit(true);
            all += went_on;
        }
        all
    }

    /// When this CPU must turn again: soon while a device or a peer holds something up, else for the next timer.
    fn deadline(&self) -> Instant {
        const SOON: core::time::Duration = core::time::Duration::from_micros(100);
        let Self { cpu, rings, programs, .. } = self;
        if !cpu.peers.own.is_empty() || !cpu.loopback.is_empty() || !cpu.punts.is_empty() {
            return cpu.now;
        }
        let timer = cpu.timers.deadline().unwrap_or(Instant::NEVER);
        let pipes = cpu.firewall.as_ref().map_or(Instant::NEVER, |firewall| firewall.deadline());
        let connections = cpu.tcp.as_ref().map_or(Instant::NEVER, |pcbs| pcbs.deadline());
        let hosts = connections.min(dgram::watch::deadline(cpu)).min(programs.deadline());
        let next = timer.min(cpu.ifqs.deadline()).min(pipes).min(hosts);
        let held_up = cpu.peers.is_backlogged() || rings.iter().any(|ring| ring.driver.busy());
        if held_up { next.min(cpu.now + SOON) } else { next }
    }
}

/// All passes over `work.frames`.
#[inline(always)]
fn pass(work: &mut Work, cpu: &mut Cpu, from: From) {
    match from {
        From::Ring(ifindex) => {
            work.pass_through(cpu, ifindex);
            if work.frames.is_empty() {
                return;
            }
            work.way_in(cpu, ifindex);
        }
        From::Inside => work.resume(cpu),
    }
    work.route::<Ip4>(cpu);
    work.route::<Ip6>(cpu);
}

/// Brings one packet to the place that a stage named: all places a packet can go to, in one list.
#[cold]
pub fn dispatch(cpu: &mut Cpu, pkt: Pkt, next: Next) {
    if cpu.watched && trace::dispatched(cpu, next) {
        return cpu.pool.give(pkt);
    }
    match next {
        Next::Arp => arp::input(cpu, pkt),
        Next::Pppoe => pppoe::control_input(cpu, pkt),
        Next::Bridge => bridge_io::input(cpu, pkt),
        Next::Punt => punt::input(cpu, pkt),
        Next::FromTwin => punt::from_kernel(cpu, pkt),
        Next::Local4 => ip4::local::input(cpu, pkt),
        Next::Local6 => ip6::local::input(cpu, pkt),
        Next::Ip4 | Next::Ip6 | Next::Route4 | Next::Route6 => cpu.loop_back(pkt, Resume::at(next)),
        Next::Output => ifq::output(cpu, pkt),
        Next::Encapsulate => tunnel_io::output(cpu, pkt),
        Next::Resolve => neigh::hold(cpu, pkt),
        Next::Fragment => output::fragment(cpu, pkt),
        Next::HandOff(owner) => hand_off(cpu, pkt, owner),
        Next::Answer(problem) => icmp::answer(cpu, pkt, problem),
        Next::Reset => tcp::refuse(cpu, pkt),
        Next::Via(via) => firewall::fwd::send(cpu, pkt, via),
        Next::Shape(way) => firewall::shape(cpu, pkt, way, None),
        Next::Away(away) => firewall::handoff::send(cpu, pkt, away),
        Next::Onward => firewall::go_onward(cpu, pkt),
        Next::Reassemble => reass::in_transit(cpu, pkt),
        Next::Send => deliver::send(cpu, pkt),
        Next::Wait => cpu.wait_for_tables(pkt),
        Next::Drop(reason) => cpu.drop_pkt(pkt, reason),
    }
}

/// Drops  [`DropReason::HandoffFull`].
fn hand_off(cpu: &mut Cpu, mut pkt: Pkt, owner: CpuId) {
    // What is known of its flow here is not known there.
    pkt.flags.clear(Flags::KNOWN);
    pkt.resume = cpu.stamp.on(pkt.resume);
    match cpu.peers.hand_off(owner, pkt) {
        Ok(()) => cpu.count(Count::HandoffOut),
        Err(pkt) => cpu.drop_pkt(pkt, DropReason::HandoffFull),
    }
}

/// Drops  [`DropReason::NoBuffer`], which cannot happen: vectors are filled with no more than they hold.
fn push(cpu: &mut Cpu, vec: &mut PktVec, pkt: Pkt) {
    if let Err(pkt) = vec.push(pkt) {
        cpu.drop_pkt(pkt, DropReason::NoBuffer);
    }
}
