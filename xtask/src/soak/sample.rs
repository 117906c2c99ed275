//! Resources of the router and its neighbour at a moment.

use core::fmt;
use core::time::Duration;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;

use super::lab::Lab;
use super::ledger;

const PATIENCE: Duration = Duration::from_secs(20);
/// Descriptors are counted so often, and the least counts: a command may be under way.
const LOOKS: usize = 5;

/// A process, as its kernel sees it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Process {
    pub rss_kib: u64,
    pub descriptors: u64,
    pub threads: u64,
}

/// All that may grow.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Sample {
    /// Since the load began.
    pub at: Duration,
    pub router: Process,
    pub library: Process,
    /// Packet buffers that are neither free nor lent to a ring.
    pub buffers_used: i64,
    pub connections: u64,
    pub states: u64,
    pub bindings: u64,
    /// Packets that netisrs have taken.
    pub packets: u64,
    /// Packets that have begun and not ended.
    pub missing: i64,
    pub interfaces: u64,
    pub routes: u64,
}

impl Sample {
    pub fn take(lab: &Lab, at: Duration) -> Result<Self> {
        let tools = lab.tools();
        let page = metrics(&tools.socket())?;
        let pools: Value = serde_json::from_str(&tools.pantala(&["--json", "netstat", "-m"])?)?;
        let tcp: Value = serde_json::from_str(&tools.pantala(&["--json", "netstat", "-n", "-p", "tcp"])?)?;
        let routes: Value = serde_json::from_str(&tools.pantala(&["--json", "netstat", "-rn"])?)?;
        let library = lab.library.as_ref().context("the program with a stack is gone")?;
        Ok(Self {
            at,
            router: Process::of(lab.router.id())?,
            library: Process::of(library.id())?,
            buffers_used: pools.as_array().into_iter().flatten().map(used).sum(),
            connections: tcp["tcp"].as_array().map_or(0, |all| all.len() as u64),
            states: sum(&page, "pantala_firewall_states"),
            bindings: sum(&page, "pantala_firewall_nat_bindings"),
            packets: sum(&page, "pantala_cpu_packets_total"),
            missing: ledger::missing(&page)?,
            interfaces: tools.pantala(&["ifconfig", "-l"])?.split_whitespace().count() as u64,
            routes: routes.as_array().map_or(0, |all| all.len() as u64),
        })
    }

    /// Whether nothing of the load is left.
    pub fn is_at_rest(&self, before: &Self) -> bool {
        let none = self.buffers_used == 0
            && self.connections == 0
            && self.states == 0
            && self.bindings == 0
            && self.missing == 0;
        none && self.router.descriptors <= before.router.descriptors
            && self.router.threads <= before.router.threads
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { router, library, buffers_used, connections, states, bindings, packets, .. } = self;
        let Self { interfaces, routes, .. } = self;
        write!(
            f,
            "{packets} packets, RSS {} and {} MiB, descriptors {}, {buffers_used} buffers, {connections} connections, \
             {states} states, {bindings} bindings, {interfaces} interfaces, {routes} routes",
            router.rss_kib >> 10,
            library.rss_kib >> 10,
            router.descriptors,
        )
    }
}

/// Samples in their order.
pub struct Series {
    before: Sample,
    samples: Vec<Sample>,
    /// When the load was over, and what lives on for a while had ended.
    pub settled: Option<Sample>,
}

impl Series {
    pub fn new(before: Sample) -> Self {
        Self { before, samples: Vec::new(), settled: None }
    }

    pub fn push(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    pub fn len(&self) -> usize {
        self.samples.len()
    }

    pub fn before(&self) -> &Sample {
        &self.before
    }

    pub fn last(&self) -> &Sample {
        self.samples.last().unwrap_or(&self.before)
    }

    pub fn all(&self) -> &[Sample] {
        &self.samples
    }
}

impl Process {
    /// `setpriv`, `nice` and `ip` become what they start, so the number is that of the program.
    fn of(pid: u32) -> Result<Self> {
        let status =
            std::fs::read_to_string(format!("/proc/{pid}/status")).context("the process has ended")?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).context("no such field")
        };
        let count = || std::fs::read_dir(format!("/proc/{pid}/fd")).map(|files| files.count() as u64);
        let mut least = u64::MAX;
        for _ in 0..LOOKS {
            least = least.min(count()?);
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { rss_kib: field("VmRSS")?, descriptors: least, threads: field("Threads")? })
    }
}

fn used(pool: &Value) -> i64 {
    let number = |key: &str| pool[key].as_i64().unwrap_or(0);
    number("buffers") - number("free") - number("in_rings")
}

/// The sum of a metric's series.
pub fn sum(page: &str, name: &str) -> u64 {
    let line = |line: &str| {
        let rest = line.strip_prefix(name)?;
        (rest.starts_with(' ') || rest.starts_with('{'))
            .then(|| rest.rsplit(' ').next()?.parse::<u64>().ok())?
    };
    page.lines().filter_map(line).sum()
}

/// Returns the metrics.
pub fn metrics(socket: &Path) -> Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: pantala\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "metrics: {}", answer.lines().next().unwrap_or_default());
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_of_a_metric_are_summed_and_no_other_whose_name_begins_so() {
        let page = "# TYPE p gauge\np{cpu=\"0\"} 3\np{cpu=\"1\"} 4\np_limit 100\np 1\n";
        assert_eq!(sum(page, "p"), 8);
    }
}
