//! Dry runs: the way that a packet would take.
//!
//! The packet goes through the passes of the CPU that owns it, on that CPU, between two turns. Whatever it could leave behind
//! is put aside before, and a [`Stage`] takes its place: counters, output queues, ways to other CPUs, timers, the flow cache,
//! and the firewall. The one of the stage has the same rules, and learns at each hook what the real one remembers of the
//! packet's flow. Afterwards everything is put back, and the stage is thrown away by the thread that has made it.

use std::collections::VecDeque;

use pkt::{Flags, Pkt};
use wire::ether::{self, Mac};

use super::{Current, Dry, Headers, Step, Trace, Tracer, counted, counts, note, of};
use crate::base::count::Counters;
use crate::base::ids::IfIndex;
use crate::base::secret::Secret;
use crate::base::time::Instant;
use crate::firewall::{self, Firewall, Shared};
use crate::flow::Flows;
use crate::ip::neigh;
use crate::link::ether::TAG_LEN;
use crate::out::ifq::Ifqs;
use crate::turn::capture::Captures;
use crate::turn::cpu::{Cpu, CpuId};
use crate::turn::msg::{Msg, Peers};
use crate::turn::netisr::{Netisr, dispatch};
use crate::turn::next::{Next, Resume};
use crate::turn::timers::Timers;

/// Times that a packet goes on after it was sent to this host, or has waited in a pipe, at the most.
const ROUNDS_MAX: usize = 16;

/// A packet that is to be followed.
#[derive(Clone, Debug)]
pub struct Question {
    /// The packet, from its network header on: valid, and not longer than a buffer.
    pub bytes: Vec<u8>,
    /// The interface that it comes in by; `None` if it is made here.
    pub from: Option<IfIndex>,
}

/// Takes the place of what a dry run must leave as it is. It is made, and dropped, by another thread.
pub struct Stage {
    counters: Counters,
    ifqs: Option<Ifqs>,
    peers: Peers,
    timers: Timers,
    loopback: VecDeque<Pkt>,
    firewall: Option<Box<Firewall>>,
    flows: Option<Box<Flows>>,
    captures: Option<Box<Captures>>,
    tracer: Option<Box<Tracer>>,
    watched: bool,
    now: Instant,
}

impl Stage {
    /// A stage for CPU `id` of so many, with the rules that are in force.
    #[must_use]
    pub fn new(rules: Option<&Shared>, id: CpuId, cpus: u16, key: u128, now: Instant) -> Self {
        let firewall = rules.map(|shared| {
            let shared = shared.with_counts_of_its_own();
            let mut firewall = Firewall::new(&shared, id, cpus, 1, key);
            firewall.set(&shared, now, &mut Secret::new(key));
            Box::new(firewall)
        });
        Self {
            counters: Counters::default(),
            ifqs: None,
            peers: Peers::none(usize::from(cpus)),
            timers: Timers::default(),
            loopback: VecDeque::new(),
            firewall,
            flows: None,
            captures: None,
            tracer: None,
            watched: true,
            now,
        }
    }

    /// Puts the stage in place of what it stands for, or back.
    fn swap(&mut self, cpu: &mut Cpu) {
        use core::mem::swap;
        swap(&mut self.counters, &mut cpu.counters);
        swap(&mut self.peers, &mut cpu.peers);
        swap(&mut self.timers, &mut cpu.timers);
        swap(&mut self.loopback, &mut cpu.loopback);
        swap(&mut self.firewall, &mut cpu.firewall);
        swap(&mut self.flows, &mut cpu.flows);
        swap(&mut self.captures, &mut cpu.captures);
        swap(&mut self.tracer, &mut cpu.tracer);
        swap(&mut self.watched, &mut cpu.watched);
        swap(&mut self.now, &mut cpu.now);
        if let Some(ifqs) = &mut self.ifqs {
            swap(ifqs, &mut cpu.ifqs);
        }
    }
}

/// Follows a packet, and returns its trace with the stage, which is to be dropped elsewhere. `None` if no buffer is free, or the
/// packet is longer than one.
#[must_use]
pub fn run(
    netisr: &mut Netisr,
    question: &Question,
    mut stage: Stage,
    clock: fn() -> u64,
) -> (Option<Trace>, Stage) {
    let cpu = &mut netisr.cpu;
    let Some(pkt) = packet(cpu, question) else { return (None, stage) };
    let trace = of(cpu, &pkt, question.from.unwrap_or(0), false);
    stage.ifqs = Some(cpu.ifqs.empty_copy(&cpu.tables, cpu.now));
    stage.now = cpu.now;
    let used = neigh::uses(cpu);
    stage.swap(cpu);
    let real = stage.firewall.take();
    let counts = counts(cpu);
    let mut tracer = Box::new(Tracer { dry: Some(Dry { firewall: real }), ..Tracer::new(clock) });
    tracer.begin(trace, Vec::new(), counts);
    cpu.tracer = Some(tracer);
    enter(netisr, pkt, question.from.is_some());
    let cpu = &mut netisr.cpu;
    collect(cpu, &stage);
    let trace = finish(cpu, &mut stage);
    stage.swap(cpu);
    neigh::take_back(cpu, used);
    (trace, stage)
}

fn packet(cpu: &mut Cpu, question: &Question) -> Option<Pkt> {
    let mut pkt = cpu.pool.take()?;
    let is_ip4 = question.bytes.first().is_some_and(|byte| byte >> 4 == 4);
    match pkt.append(question.bytes.len()) {
        Ok(room) => room.copy_from_slice(&question.bytes),
        Err(_) => {
            cpu.pool.give(pkt);
            return None;
        }
    }
    pkt.rcvif = question.from.unwrap_or(0);
    let place = if is_ip4 { Resume::Ip4 } else { Resume::Ip6 };
    pkt.resume = cpu.stamp.on(place as u8);
    Some(pkt)
}

/// Lets the packet go its way, as often as it comes back.
fn enter(netisr: &mut Netisr, mut pkt: Pkt, is_received: bool) {
    if is_received {
        netisr.pass_alone(pkt);
    } else {
        pkt.flags.set(Flags::LOCAL);
        dispatch(&mut netisr.cpu, pkt, Next::Send);
    }
    for _ in 0..ROUNDS_MAX {
        let cpu = &mut netisr.cpu;
        if let Some(pkt) = cpu.loopback.pop_front() {
            netisr.pass_alone(pkt);
            continue;
        }
        let pipes = cpu.firewall.as_ref().map_or(Instant::NEVER, |firewall| firewall.deadline());
        if pipes == Instant::NEVER {
            return;
        }
        cpu.now = cpu.now.max(pipes);
        firewall::release(cpu);
    }
}

/// Notes the frames that would leave, and gives all buffers back.
fn collect(cpu: &mut Cpu, real: &Stage) {
    for (outif, _) in cpu.ifqs.waiting() {
        for mut pkt in cpu.ifqs.empty(outif) {
            let waiting =
                real.ifqs.as_ref().and_then(|ifqs| ifqs.state(outif)).map_or(0, |state| state.packets);
            if let Some(step) = frame(&mut pkt, outif, waiting) {
                note(cpu, step);
            }
            cpu.pool.give(pkt);
        }
    }
    let mut left: Vec<Pkt> = cpu.loopback.drain(..).chain(cpu.decapsulated.drain(..)).collect();
    left.extend(cpu.firewall.as_mut().map(|firewall| firewall.drain()).unwrap_or_default());
    left.extend(cpu.peers.drain().filter_map(Msg::into_packet));
    left.into_iter().for_each(|pkt| cpu.pool.give(pkt));
}

fn frame(pkt: &mut Pkt, outif: IfIndex, waiting: usize) -> Option<Step> {
    let head = pkt.head();
    let mac = |at: usize| head.get(at..at + 6).and_then(<[u8]>::first_chunk).map(|octets| Mac::from(*octets));
    let (dst, src, len) = (mac(0)?, mac(6)?, pkt.len());
    let tags = head.get(12..14).is_some_and(|kind| matches!(kind, [0x81, 0x00] | [0x88, 0xa8]));
    pkt.trim_front(ether::HEADER_LEN + if tags { TAG_LEN } else { 0 });
    let headers = Headers::read(pkt);
    Some(Step::Frame { outif, dst, src, headers, len, waiting })
}

/// Ends the trace, and gives the real firewall back to its stage.
fn finish(cpu: &mut Cpu, stage: &mut Stage) -> Option<Trace> {
    let after = counts(cpu);
    let mut tracer = cpu.tracer.take()?;
    stage.firewall = tracer.dry.take().and_then(|dry| dry.firewall);
    let more = tracer.current.as_ref().map(|current| counted(&current.counts, &after)).unwrap_or_default();
    if !more.is_empty() {
        tracer.note(Step::Counted(more));
    }
    let Current { trace, .. } = tracer.current.take()?;
    Some(trace)
}
