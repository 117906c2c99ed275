//! Counts what a packet through a pipe costs: `pipes SHAPE PACKETS`, to be watched by valgrind.
//!
//! ```text
//! valgrind --tool=callgrind target/release/pipes plain 3200
//! ```
//!
//! Two runs of different lengths tell the instructions per packet; those of `nothing` are the loop's own. Packets of 64
//! bytes from 64 hosts come 32 at a time, as fast as the pipe of 10 Gbit/s sends them; with a delay more slowly, so that
//! there is room for those on their way.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use bench::program::{self, Misused};
use ipfw::command::{FlowMask, PipeConfig, QueueConfig, Scheduler};
use ipfw::rule::Hook;
use net::cpu::CpuId;
use net::firewall::pipe::{Config, Pipes, Refused, To};
use net::firewall::pkt_info::{Part, PktInfo};
use net::secret::Secret;
use net::time::{Duration, Instant};
use pkt::{Arena, Pkt, Pool};

/// Cases that can be counted.
const SHAPES: [(&str, &str); 8] = [
    ("nothing", "the loop alone"),
    ("plain", "a pipe with a bandwidth"),
    ("shared", "the same, with its bandwidth shared by 8 CPUs"),
    ("delay", "a pipe with a delay of a millisecond and no bandwidth"),
    ("mask", "a pipe for each of the hosts"),
    ("queue", "a queue of a pipe (WF2Q+)"),
    ("queues", "a queue for each of the hosts (WF2Q+)"),
    ("fq_codel", "a pipe with FQ-CoDel"),
];
const BUFFERS: usize = 8192;
const PACKETS_AT_ONCE: u64 = 32;
const LEN: usize = 64;
const BANDWIDTH: u64 = 10_000_000_000;
/// A little more than the packets of a round take.
const ROUND: Duration = Duration::from_nanos(PACKETS_AT_ONCE * 52);
const FQ_CODEL: Scheduler = Scheduler::FqCodel {
    target_us: 5000,
    interval_us: 100_000,
    quantum: 1514,
    limit: 1000,
    flows: 1024,
    ecn: false,
};

fn main() -> ExitCode {
    let shapes: String = SHAPES.iter().map(|(name, what)| format!("\n  {name:10}{what}")).collect();
    program::run(&format!("pipes SHAPE PACKETS{shapes}"), |args| match args {
        [shape, packets] if SHAPES.iter().any(|(name, _)| name == shape) => {
            let lost = count(shape, program::read(packets)?).context("no memory")?;
            ensure!(lost == 0, "{lost} packets were not let in: the numbers are of something else");
            Ok(String::new())
        }
        _ => Err(Misused.into()),
    })
}

/// Sends so many packets through a pipe; how many of them were not let in, or `None` if memory is short.
fn count(shape: &str, packets: u64) -> Option<u64> {
    let mut pool = Arena::carve(1, BUFFERS, false).ok()?.pop()?;
    let to = if shape.starts_with("queue") { To::Queue(1) } else { To::Pipe(1) };
    let cpus = if shape == "shared" { 8 } else { 1 };
    let mut now = Instant::from_ns(1_000_000_000);
    let mut pipes: Pipes<()> = Pipes::new(CpuId(0), cpus, BUFFERS);
    pipes.configure(Arc::new(config(shape)?), now);
    let span = if shape == "delay" { ROUND * 32 } else { ROUND };
    let mut lost = 0;
    let (mut secret, mut out) = (Secret::new(1), Vec::new());
    for round in 0..packets / PACKETS_AT_ONCE {
        for at in 0..PACKETS_AT_ONCE {
            let pkt = packet(&mut pool)?;
            if shape == "nothing" {
                pool.give(pkt);
                continue;
            }
            let subject = subject(round * PACKETS_AT_ONCE + at);
            if let Err(refused) = pipes.enqueue(to, &subject, pkt, (), now, &mut secret) {
                match refused {
                    Refused::Drop { pkt, .. } | Refused::Elsewhere { pkt, .. } => pool.give(pkt),
                }
                lost += 1;
            }
        }
        now = now + span;
        pipes.due(now, BUFFERS, &mut secret, &mut out);
        out.drain(..).for_each(|(pkt, ())| pool.give(pkt));
    }
    pipes.drain().into_iter().for_each(|pkt| pool.give(pkt));
    Some(lost)
}

fn config(shape: &str) -> Option<Config> {
    let by_host = FlowMask { src_ip: u32::MAX, ..FlowMask::default() };
    let mask = |is_masked| if is_masked { by_host } else { FlowMask::default() };
    let pipe = PipeConfig {
        bandwidth: (shape != "delay").then_some(BANDWIDTH),
        delay_ms: (shape == "delay").then_some(1),
        scheduler: (shape == "fq_codel").then_some(FQ_CODEL),
        queue: QueueConfig { mask: mask(shape == "mask"), ..QueueConfig::default() },
        ..PipeConfig::default()
    };
    let mut config = Config::new(7);
    config.set_pipe(1, &pipe).ok()?;
    if shape.starts_with("queue") {
        let queue = QueueConfig { pipe: Some(1), mask: mask(shape == "queues"), ..QueueConfig::default() };
        config.set_queue(1, &queue).ok()?;
    }
    Some(config)
}

fn packet(pool: &mut Pool) -> Option<Pkt> {
    let mut pkt = pool.take()?;
    *pkt.append(LEN).ok()?.first_mut()? = 0x45;
    Some(pkt)
}

fn subject(number: u64) -> PktInfo {
    PktInfo {
        hook: Hook::Forward,
        is_ip4: true,
        part: Part::Whole,
        proto: wire::Protocol::UDP.0,
        src: 0x0a00_0000 | u128::from(number % 64),
        dst: 0x0b00_0000,
        src_port: 7,
        dst_port: 9,
        tcp_flags: 0,
        l4: 20,
        recv: 1,
        xmit: 2,
        tag: 0,
    }
}
