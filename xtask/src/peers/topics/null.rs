//! One CPU, packets out of memory, and a sink that forgets them: what forwarding costs without any device.

use core::time::Duration;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::peers::contest::{Case, Claim, Contest, Need, Sample, Source};
use crate::peers::dpdk::HugePages;
use crate::peers::dpdk::l3fwd::L3fwd;
use crate::peers::dpdk::testpmd::Testpmd;
use crate::peers::machine;
use crate::peers::process::{Running, on_cpu};
use crate::peers::workload::{Family, Workload, program};

/// Filling a large table takes a while.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Budget of the stack, in cycles of a 2 GHz clock, and with a million random destinations.
const STACK_NS: f64 = 45.0 / 2.0;
const STACK_MILLION_NS: f64 = 80.0 / 2.0;
/// Flows of the cache, where there is one: the default.
const FLOWS: u32 = 1 << 16;
const ROUNDS_ALONE: usize = 10;
/// Packets that pantala takes from a ring that always has more in one turn: its default.
const BURST: u32 = 256;
/// Packets that l3fwd takes at a time.
const L3FWD_BURST: u32 = 32;
const STACK: &str = "stack without source and sink, ns";

pub fn contests() -> Vec<Contest> {
    let few = |family| Workload { family, routes: 2, destinations: 1024 };
    let many = |family| Workload { family, routes: 65_536, destinations: 1024 };
    let random = Workload { family: Family::Ip4, routes: 65_536, destinations: 65_536 };
    let million = Workload { family: Family::Ip4, routes: 1 << 20, destinations: 1 << 18 };
    vec![
        two_routes("null/ip4-2", few(Family::Ip4)),
        beside_l3fwd("null/ip6-2", few(Family::Ip6), "lpm"),
        beside_l3fwd("null/ip4-64k", many(Family::Ip4), "lpm"),
        beside_l3fwd("null/ip6-64k", many(Family::Ip6), "lpm"),
        beside_l3fwd("null/ip4-64k-random", random, "lpm"),
        // rte_lpm looks for a rule among all others of its length when one is added: a million would take hours.
        beside_l3fwd("null/ip4-1m-random", million, "fib"),
        both_families(few(Family::Ip4), few(Family::Ip6)),
        bridge("null/bridge4", few(Family::Ip4)),
        bridge("null/bridge6", few(Family::Ip6)),
        normal_and_fast("null/fast-none", few(Family::Ip4)),
        normal_and_fast("null/fast-lookup", Workload { destinations: 1 << 12, ..million }),
        normal_and_fast("null/fast-flood", million),
    ]
}

/// The full line-up, once: two builds of l3fwd, and what DPDK's source and sink cost by themselves.
fn two_routes(id: &'static str, workload: Workload) -> Contest {
    let cases: Vec<Box<dyn Case>> = vec![
        Box::new(Pantala::new(workload, BURST)),
        Box::new(L3fwd { workload, lookup: "lpm", march: "native", scattered: false }),
        Box::new(L3fwd { workload, lookup: "lpm", march: "corei7", scattered: false }),
        Box::new(Testpmd { workload, mode: "io" }),
        Box::new(Testpmd { workload, mode: "mac" }),
        Box::new(Pantala::new(workload, L3FWD_BURST)),
    ];
    let claims = vec![
        Claim::Ratio { of: 0, to: 1, need: Need::Ahead },
        Claim::Ratio { of: 0, to: 2, need: Need::Ahead },
        Claim::Ratio { of: 5, to: 1, need: Need::Shown },
        Claim::Difference { what: "l3fwd without source and sink", of: 1, minus: 3, at_most: None },
        Claim::Ceiling { of: 0, figure: STACK, at_most: STACK_NS },
        Claim::Ceiling { of: 5, figure: STACK, at_most: STACK_NS },
    ];
    contest(id, workload, cases, claims)
}

/// Pantala and l3fwd. Where there are more destinations than l3fwd has packets, it gets them from a table.
fn beside_l3fwd(id: &'static str, workload: Workload, lookup: &'static str) -> Contest {
    let scattered = workload.destinations > 1024;
    let cases: Vec<Box<dyn Case>> = vec![
        Box::new(Pantala::new(workload, BURST)),
        Box::new(L3fwd { workload, lookup, march: "native", scattered }),
        Box::new(Pantala::new(workload, L3FWD_BURST)),
    ];
    let at_most = if workload.routes > 1 << 16 { STACK_MILLION_NS } else { STACK_NS };
    let claims = vec![
        Claim::Ratio { of: 0, to: 1, need: Need::Ahead },
        Claim::Ratio { of: 2, to: 1, need: Need::Shown },
        Claim::Ceiling { of: 0, figure: STACK, at_most },
        Claim::Ceiling { of: 2, figure: STACK, at_most },
    ];
    contest(id, workload, cases, claims)
}

fn contest(id: &'static str, workload: Workload, cases: Vec<Box<dyn Case>>, claims: Vec<Claim>) -> Contest {
    let title = format!("64 bytes in memory, {workload}");
    Contest { id, title, unit: "packets", bed: HugePages::bed(), cases, claims }
}

/// Additional cost of IPv6.
fn both_families(ip4: Workload, ip6: Workload) -> Contest {
    Contest {
        id: "null/ip6-ip4",
        title: "64 bytes in memory, IPv6 beside IPv4".into(),
        unit: "packets",
        bed: None,
        cases: vec![Box::new(Pantala::new(ip6, BURST)), Box::new(Pantala::new(ip4, BURST))],
        claims: vec![Claim::Ratio { of: 0, to: 1, need: Need::AtLeast(0.85) }],
    }
}

/// A bridge, which looks up and ages what it has learnt, beside a program that exchanges the two link addresses of each frame.
fn bridge(id: &'static str, workload: Workload) -> Contest {
    let cases: Vec<Box<dyn Case>> = vec![
        Box::new(Pantala::bridge(workload, BURST)),
        Box::new(Pantala::bridge(workload, L3FWD_BURST)),
        Box::new(Testpmd { workload, mode: "macswap" }),
        Box::new(Testpmd { workload, mode: "io" }),
    ];
    let claims = vec![
        Claim::Ratio { of: 0, to: 2, need: Need::Shown },
        Claim::Ratio { of: 1, to: 2, need: Need::Shown },
        Claim::Difference { what: "macswap without source and sink", of: 2, minus: 3, at_most: None },
    ];
    let title = format!("64 bytes in memory, a bridge, {}", workload.family);
    Contest { id, title, unit: "packets", bed: HugePages::bed(), cases, claims }
}

/// Normal and fast forwarding of the same packets.
fn normal_and_fast(id: &'static str, workload: Workload) -> Contest {
    let cases: Vec<Box<dyn Case>> =
        vec![Pantala::new(workload, BURST).briefly(), Pantala::fast(workload, BURST).briefly()];
    Contest {
        bed: None,
        ..contest(id, workload, cases, vec![Claim::Ratio { of: 1, to: 0, need: Need::Shown }])
    }
}

/// Our forwarding between a source and a sink in memory.
struct Pantala {
    workload: Workload,
    at_once: u32,
    /// Flows that are remembered: fast forwarding. 0: normal.
    flows: u32,
    rounds_max: usize,
    /// Whether it is a bridge of the two devices.
    is_bridge: bool,
    program: PathBuf,
}

/// Output of `rate`.
#[derive(Deserialize)]
struct Answer {
    /// Nanoseconds per packet, all told.
    ns: f64,
    /// Part of source and sink.
    wire_ns: f64,
    /// Part of the stack.
    stack_ns: f64,
}

impl Pantala {
    fn new(workload: Workload, at_once: u32) -> Self {
        Self {
            workload,
            at_once,
            flows: 0,
            rounds_max: usize::MAX,
            is_bridge: false,
            program: PathBuf::new(),
        }
    }

    fn fast(workload: Workload, at_once: u32) -> Self {
        Self { flows: FLOWS, ..Self::new(workload, at_once) }
    }

    fn bridge(workload: Workload, at_once: u32) -> Self {
        Self { is_bridge: true, ..Self::new(workload, at_once) }
    }

    /// Where it is compared with itself alone.
    fn briefly(self) -> Box<dyn Case> {
        Box::new(Self { rounds_max: ROUNDS_ALONE, ..self })
    }
}

impl Case for Pantala {
    fn name(&self) -> String {
        let fast = if self.flows > 0 { ", fast forwarding" } else { "" };
        let what = if self.is_bridge { "pantala, bridge of" } else { "pantala" };
        format!("{what} {}, {} at once{fast}", self.workload.family, self.at_once)
    }

    fn cpus(&self) -> String {
        format!("cpu{}: source (alloc, copy), forwarding, sink", machine::test_cpu())
    }

    fn rounds_max(&self) -> usize {
        self.rounds_max
    }

    fn set_up(&mut self) -> Result<()> {
        self.program = program("rate")?;
        Ok(())
    }

    fn launch(&mut self, window: Duration) -> Result<Sample> {
        let Workload { family, routes, destinations } = self.workload;
        let mut command = on_cpu(machine::test_cpu(), &self.program);
        let numbers = [routes, destinations, self.at_once, self.flows, window.subsec_millis()];
        let word =
            if self.is_bridge { family.word().replace("ip", "bridge") } else { family.word().to_owned() };
        command.arg(word).args(numbers.map(|number| number.to_string()));
        let text = Running::start("rate", command)?.finish(START_LIMIT + window)?;
        let answer: Answer = serde_json::from_str(&text).with_context(|| format!("rate said {text}"))?;
        let figures = vec![(STACK, answer.stack_ns), ("source and sink, ns", answer.wire_ns)];
        Ok(Sample { rate: 1e9 / answer.ns, source: Source::Saturated, figures })
    }
}
