//! Routing tables by themselves: how fast they load, how much memory they take, how fast one finds something in them.

use core::time::Duration;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::peers::contest::{Case, Claim, Contest, Need, Sample};
use crate::peers::dpdk::{Eal, HugePages, own};
use crate::peers::machine;
use crate::peers::process::{Running, on_cpu};
use crate::peers::workload::{Family, program};
use crate::run::{capture, root};

const START_LIMIT: Duration = Duration::from_secs(60);
/// A load takes seconds, and no peer has to be beaten here.
const ROUNDS: usize = 8;
/// Destinations that are looked up over and over.
const DESTINATIONS: usize = 1 << 18;
/// Full tables of both families are to load in two seconds.
const LOAD_MAX: f64 = 2.0;
const LOAD: &str = "seconds to load";

pub fn contests() -> Vec<Contest> {
    vec![
        contest("scale/ip4-64k", Table { family: Family::Ip4, routes: 65_536 }, &["lpm", "fib"]),
        contest("scale/ip4-internet", Table { family: Family::Ip4, routes: 1_000_000 }, &["fib"]),
        contest("scale/ip6-internet", Table { family: Family::Ip6, routes: 250_000 }, &["lpm6", "fib6"]),
    ]
}

/// Ours, and DPDK's tables of these kinds.
fn contest(id: &'static str, table: Table, kinds: &[&'static str]) -> Contest {
    let case = |kind| -> Box<dyn Case> { Box::new(Lookups { kind, table, program: PathBuf::new() }) };
    let ratio = |peer| Claim::Ratio { of: 0, to: peer, need: Need::Shown };
    let load = Claim::Ceiling { of: 0, figure: LOAD, at_most: LOAD_MAX };
    Contest {
        id,
        title: format!(
            "lookups of {DESTINATIONS} random destinations, 64 at once, {} {} routes with the Internet's lengths",
            table.routes, table.family
        ),
        unit: "lookups",
        bed: HugePages::bed(),
        cases: core::iter::once(OURS).chain(kinds.iter().copied()).map(case).collect(),
        claims: (1..=kinds.len()).map(ratio).chain([load]).collect(),
    }
}

const OURS: &str = "pantala";

/// A table, and destinations in it.
#[derive(Clone, Copy)]
struct Table {
    family: Family,
    routes: usize,
}

/// A library's table of one kind.
struct Lookups {
    kind: &'static str,
    table: Table,
    program: PathBuf,
}

/// Output of both programs.
#[derive(Deserialize)]
struct Answer {
    routes: f64,
    load_seconds: f64,
    bytes: f64,
    random: f64,
    realistic: f64,
}

impl Case for Lookups {
    fn name(&self) -> String {
        if self.kind == OURS { OURS.into() } else { format!("DPDK rte_{}", self.kind) }
    }

    fn cpus(&self) -> String {
        format!("cpu{}: lookups", machine::test_cpu())
    }

    fn rounds_max(&self) -> usize {
        ROUNDS
    }

    fn set_up(&mut self) -> Result<()> {
        self.program = if self.kind == OURS { program("tables")? } else { own::program("tables")? };
        self.table.write().map(|_| ())
    }

    fn launch(&mut self, window: Duration) -> Result<Sample> {
        let stem = self.table.write()?;
        let eal = Eal::on(machine::test_cpu(), "tables", vec![]);
        let mut command = if self.kind == OURS {
            let mut command = on_cpu(machine::test_cpu(), &self.program);
            command.arg(if self.table.family == Family::Ip4 { "4" } else { "6" });
            command
        } else {
            let mut command = eal.command(&self.program, &["--force-max-simd-bitwidth=512"]);
            command.arg(self.kind);
            command
        };
        command.args(["rules", "random", "realistic"].map(|kind| stem.with_extension(kind)));
        command.arg(window.as_millis().to_string());
        let text = Running::start("tables", command)?.finish(START_LIMIT + window);
        eal.clean();
        sample(&text?)
    }
}

fn sample(text: &str) -> Result<Sample> {
    let line = text.lines().find(|line| line.starts_with('{')).context("tables said nothing")?;
    let answer: Answer = serde_json::from_str(line).with_context(|| format!("tables said {line}"))?;
    let figures = vec![
        (LOAD, answer.load_seconds),
        ("bytes per route", answer.bytes / answer.routes),
        ("of realistic destinations, M/s", answer.realistic / 1e6),
    ];
    Ok(Sample { figures, ..Sample::saturated(answer.random) })
}

impl Table {
    /// Writes the table and its destinations, unless they are there; answers what their names begin with.
    fn write(self) -> Result<PathBuf> {
        let number = if self.family == Family::Ip4 { "4" } else { "6" };
        let stem = root().join(format!("target/peers/internet{number}-{}", self.routes));
        // The rules are written last: when they are there, all is.
        if !stem.with_extension("rules").is_file() {
            let mut command = Command::new(program("workload")?);
            command.arg(format!("internet{number}"));
            command.args([self.routes.to_string(), DESTINATIONS.to_string()]).arg(&stem);
            capture(command)?;
        }
        Ok(stem)
    }
}
