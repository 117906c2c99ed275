//! A bench for pipes: CPUs of virtual time, and a check that no packet is lost.

mod change;
mod cpus;
mod damage;
mod flows;
mod limits;
mod rate;
mod turns;

use ipfw::command::{FlowMask, PipeConfig, QueueConfig};
use ipfw::rule::Hook;
use pkt::{Arena, Pool};
use wire::Protocol;

use super::*;
use crate::firewall::pkt_info::Part;
use crate::testkit::link::{FAMILIES, Family};

const BUFFERS: usize = 8192;
const MBIT: u64 = 1_000_000;
const GBIT: u64 = 1000 * MBIT;

/// One CPU and its pipes. Tickets are numbers.
struct Lab {
    pool: Pool,
    pipes: Pipes<u32>,
    config: Config,
    secret: Secret,
    now: Instant,
    /// Packets that left.
    left: Vec<Left>,
    /// Drop reasons of queued packets.
    died: Vec<DropReason>,
}

/// A packet that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    at: Instant,
    number: u32,
    len: usize,
}

/// A test packet's properties.
#[derive(Clone, Copy)]
struct Of {
    family: Family,
    /// Its source host and port.
    flow: u16,
    len: usize,
    ecn: u8,
    number: u32,
}

impl Of {
    const fn len(len: usize) -> Self {
        Self { family: Family::V4, flow: 1, len, ecn: 0, number: 0 }
    }
}

impl Lab {
    fn new() -> Self {
        Self::of(CpuId(0), 1)
    }

    fn of(id: CpuId, cpus: u16) -> Self {
        let pool = Arena::carve(1, BUFFERS, false).expect("memory").remove(0);
        Self {
            pool,
            pipes: Pipes::new(id, cpus, BUFFERS),
            config: Config::new(7),
            secret: Secret::new(u128::from(id.0)),
            now: Instant::from_ns(1_000_000_000),
            left: Vec::new(),
            died: Vec::new(),
        }
    }

    fn with(pipe: PipeConfig) -> Self {
        let mut lab = Self::new();
        lab.pipe(1, pipe);
        lab
    }

    fn pipe(&mut self, number: u16, config: PipeConfig) {
        self.config.set_pipe(number, &config).expect("a configuration");
        self.configure();
    }

    fn queue(&mut self, number: u16, config: QueueConfig) {
        self.config.set_queue(number, &config).expect("a configuration");
        self.configure();
    }

    fn delete(&mut self, number: u16, is_queue: bool) {
        assert!(self.config.delete(number, is_queue));
        self.configure();
    }

    fn configure(&mut self) {
        self.pipes.configure(Arc::new(self.config.clone()), self.now);
        self.drop_pkt();
    }

    fn send(&mut self, to: To, of: Of) -> Result<(), DropReason> {
        let (info, pkt) = (info(of), packet(&mut self.pool, of));
        let sent = self.pipes.enqueue(to, &info, pkt, of.number, self.now, &mut self.secret);
        self.drop_pkt();
        match sent {
            Ok(()) => Ok(()),
            Err(Refused::Drop { pkt, reason, .. }) => {
                self.pool.give(pkt);
                Err(reason)
            }
            Err(Refused::Elsewhere { .. }) => panic!("there is no other CPU"),
        }
    }

    /// Ends what died while it waited.
    fn drop_pkt(&mut self) {
        for (pkt, reason) in self.pipes.dropped() {
            self.died.push(reason);
            self.pool.give(pkt);
        }
    }

    /// Takes out what is due now.
    fn due(&mut self, budget: usize) -> usize {
        let mut out = Vec::new();
        let steps = self.pipes.due(self.now, budget, &mut self.secret, &mut out);
        self.drop_pkt();
        for (pkt, number) in out {
            self.left.push(Left { at: self.now, number, len: pkt.len() });
            self.pool.give(pkt);
        }
        steps
    }

    /// Lets time pass up to `end`, with a look whenever something happens.
    fn run_to(&mut self, end: Instant) {
        while self.pipes.own.next() <= end {
            self.now = self.pipes.own.next().max(self.now);
            self.due(1000);
        }
        self.now = end;
    }

    fn run(&mut self, span: Duration) {
        self.run_to(self.now + span);
    }

    /// Lets time pass until all have left.
    fn run_out(&mut self) {
        while self.pipes.own.next() < Instant::NEVER {
            let next = self.pipes.own.next().max(self.now);
            self.run_to(next);
        }
    }

    /// Nanoseconds after `since` at which packets left.
    fn times(&self, since: Instant) -> Vec<u64> {
        self.left.iter().map(|left| left.at.ns() - since.ns()).collect()
    }

    fn numbers(&self) -> Vec<u32> {
        self.left.iter().map(|left| left.number).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            for pkt in self.pipes.drain() {
                self.pool.give(pkt);
            }
            assert_eq!(self.pipes.held(), 0, "buffers are counted wrong");
            assert_eq!((self.pool.free(), self.pool.arena().leaked()), (BUFFERS, 0), "packets were lost");
        }
    }
}

fn packet(pool: &mut Pool, of: Of) -> Pkt {
    let mut pkt = pool.take().expect("a buffer");
    let bytes = pkt.append(of.len).expect("room");
    bytes.fill(0);
    match of.family {
        Family::V4 => [bytes[0], bytes[1]] = [0x45, of.ecn],
        Family::V6 => [bytes[0], bytes[1]] = [0x60, of.ecn << 4],
    }
    pkt
}

fn info(of: Of) -> PktInfo {
    let flow = of.flow;
    let base = if of.family == Family::V4 { 0x0a00_0000 } else { 0xfd00 << 112 };
    PktInfo {
        hook: Hook::Forward,
        is_ip4: of.family == Family::V4,
        part: Part::Whole,
        proto: Protocol::UDP.0,
        src: base + u128::from(flow),
        dst: base + (1 << 20),
        src_port: flow,
        dst_port: 9,
        tcp_flags: 0,
        l4: if of.family == Family::V4 { 20 } else { 40 },
        recv: 1,
        xmit: 2,
        tag: 0,
    }
}

/// Every host has a flow of its own.
fn by_source() -> FlowMask {
    FlowMask { src_ip: u32::MAX, src_ip6: u128::MAX, ..FlowMask::default() }
}

fn bandwidth(bandwidth: u64) -> PipeConfig {
    PipeConfig { bandwidth: Some(bandwidth), ..PipeConfig::default() }
}

const ONE: To = To::Pipe(1);
