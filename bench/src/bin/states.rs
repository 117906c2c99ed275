//! Times what it costs to find the state of a packet's flow and to take the packet into account: `states
//! [MILLISECONDS]`, a line of JSON for each row.
//!
//! Rows are medians of slices that take turns, so that a busy machine slows all of them alike. Pin it to a CPU.
//!
//! `states count udp|tcp STATES HITS` does nothing but hits, to be watched by valgrind: two runs of different length
//! differ by what hits cost.

use core::time::Duration;
use std::process::ExitCode;

use anyhow::Result;
use bench::clock::ns_each;
use bench::internet::Random;
use bench::program::{self, Misused};
use net::count::Counters;
use net::cpu::CpuId;
use net::firewall::ruleset::FlowId;
use net::firewall::state::{End, Flow, Hash, Limits, Loose, New, Seen, Segment, Settings, States};
use net::secret::Secret;
use net::time::Instant;
use wire::Protocol;
use wire::tcp::Flags;

/// Packets of one call.
const CHUNK: usize = 64;
/// Slices of each row.
const SLICES: u32 = 9;
/// Numbers of states.
const SIZES: [u32; 4] = [1 << 6, 1000, 100_000, 1_000_000];

fn main() -> ExitCode {
    program::run("states [MILLISECONDS] | states count udp|tcp STATES HITS", |args| match args {
        ["count", "udp", states, hits] => count("udp", states, hits),
        ["count", "tcp", states, hits] => count("tcp", states, hits),
        [] => run(Duration::from_secs(9)),
        [ms] => run(Duration::from_millis(program::read(ms)?)),
        _ => Err(Misused.into()),
    })
}

fn count(kind: &'static str, states: &str, hits: &str) -> Result<String> {
    let mut row = Row::new(kind, program::read(states)?);
    let hits: usize = program::read(hits)?;
    (0..hits / CHUNK).for_each(|_| row.chunk());
    Ok(String::new())
}

fn run(time: Duration) -> Result<String> {
    let mut rows: Vec<Row> =
        SIZES.into_iter().flat_map(|states| ["udp", "tcp"].map(|kind| Row::new(kind, states))).collect();
    let slice = time / (SLICES * u32::try_from(rows.len())?);
    for _ in 0..SLICES {
        rows.iter_mut().for_each(|row| row.measure(slice));
    }
    Ok(rows.iter_mut().map(Row::line).collect())
}

/// Packets of flows that all have a state, in random order.
struct Row {
    kind: &'static str,
    states: States,
    counters: Counters,
    seen: Seen,
    flows: Vec<Flow>,
    at: usize,
    /// Nanoseconds per packet, of each slice.
    took: Vec<f64>,
}

impl Row {
    fn new(kind: &'static str, count: u32) -> Self {
        let secret = Secret::new(1);
        let states =
            States::new(&secret, Settings::default(), Loose::new(1), Limits::new(&secret, 1), CpuId(0));
        let segment = Segment { flags: Flags::ACK, seq: 1, ack: 1, window: 1000, len: 0, scale: None };
        let is_tcp = kind == "tcp";
        let seen = Seen { bytes: 64, segment: is_tcp.then_some(segment) };
        let mut row = Self {
            kind,
            states,
            counters: Counters::default(),
            seen,
            flows: (0..count).map(|n| flow(is_tcp, n)).collect(),
            at: 0,
            took: Vec::new(),
        };
        for flow in &row.flows {
            let hash = row.states.hash(flow);
            let made =
                row.states.install(flow, hash, New::default(), &seen, Instant::START, &mut row.counters);
            assert!(made.is_ok(), "room for {count}");
        }
        let mut random = Random::new(7);
        for last in (1..row.flows.len()).rev() {
            row.flows.swap(last, usize::try_from(random.next() % (last as u64 + 1)).unwrap_or(0));
        }
        row
    }

    /// A chunk of packets, as the firewall sees it.
    fn chunk(&mut self) {
        if self.at + CHUNK > self.flows.len() {
            self.at = 0;
        }
        let flows = &self.flows[self.at..self.at + CHUNK];
        self.at += CHUNK;
        let mut hashes = [Hash::default(); CHUNK];
        self.states.prefetch(flows, &mut hashes);
        for (flow, hash) in flows.iter().zip(hashes) {
            let hit =
                self.states.hit(flow, hash, FlowId::ANY, &self.seen, Instant::START, &mut self.counters);
            assert!(hit.is_some(), "each has a state");
        }
    }

    fn measure(&mut self, slice: Duration) {
        let ns = ns_each(slice, 64 * CHUNK, || (0..64).for_each(|_| self.chunk()));
        self.took.push(ns);
    }

    fn line(&mut self) -> String {
        self.took.sort_by(f64::total_cmp);
        let (min, median) = (self.took[0], self.took[self.took.len() / 2]);
        format!(
            "{{\"row\":\"hit\",\"kind\":\"{}\",\"states\":{},\"bytes\":{},\"ns\":{median:.1},\"ns_min\":{min:.1}}}\n",
            self.kind,
            self.states.len(),
            self.states.memory(),
        )
    }
}

/// Flow `n`: a client of many to one server.
fn flow(is_tcp: bool, n: u32) -> Flow {
    let proto = if is_tcp { Protocol::TCP } else { Protocol::UDP };
    let port = u16::try_from(n % 60_000).unwrap_or(0);
    let client = End { addr: u128::from(0x0a00_0000 + n / 16), port };
    Flow::new(true, proto.0, client, End { addr: 0xc0a8_0001, port: 80 })
}
