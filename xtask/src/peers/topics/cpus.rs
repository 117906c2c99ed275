//! Two CPUs: what the second one adds, when packets come to the right one and when none does.

use core::time::Duration;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::peers::contest::{Case, Claim, Contest, Need, Sample};
use crate::peers::machine;
use crate::peers::process::{Running, mortal};
use crate::peers::workload::program;

const START_LIMIT: Duration = Duration::from_secs(20);

pub fn contests() -> Vec<Contest> {
    vec![two(), churn()]
}

/// Gain of a second netisr.
fn two() -> Contest {
    Contest {
        id: "cpus/two",
        title: "64 bytes in memory, IPv4, packets for each second of CPU time".into(),
        unit: "packets",
        bed: None,
        cases: vec![
            Box::new(Netisrs::new(1, "match", "one netisr")),
            Box::new(Netisrs::new(2, "match", "two netisrs, rings match")),
            Box::new(Netisrs::new(2, "cross", "two netisrs, all handed off")),
            Box::new(Netisrs::new(2, "hashed", "two netisrs, rings match, hashed by the device")),
            Box::new(Netisrs::new(2, "apart", "two routers of one netisr")),
        ],
        claims: vec![
            Claim::Ratio { of: 1, to: 0, need: Need::AtLeast(0.95) },
            Claim::Ratio { of: 3, to: 0, need: Need::AtLeast(0.95) },
            Claim::Ratio { of: 2, to: 0, need: Need::AtLeast(0.75) },
            Claim::Ratio { of: 4, to: 0, need: Need::Shown },
            Claim::Ratio { of: 1, to: 4, need: Need::Shown },
            Claim::Ratio { of: 3, to: 4, need: Need::Shown },
        ],
    }
}

/// Cost of route changes to forwarding.
fn churn() -> Contest {
    Contest {
        id: "cpus/churn",
        title: "64 bytes in memory, IPv4, 1048576 routes, 65536 random destinations, while routes change"
            .into(),
        unit: "packets",
        bed: None,
        cases: vec![Box::new(Churn::new(0)), Box::new(Churn::new(UPDATES))],
        claims: vec![
            Claim::Ratio { of: 1, to: 0, need: Need::Shown },
            Claim::Ceiling { of: 1, figure: LOST, at_most: 0.0 },
            Claim::Ceiling { of: 1, figure: MISSED, at_most: 0.01 },
        ],
    }
}

/// Route updates in a second.
const UPDATES: u32 = 100_000;
/// Each long enough for a million updates, so that what is taken out of the table comes into use again many times.
const CHURN_WINDOW: Duration = Duration::from_secs(10);
const CHURN_ROUNDS: usize = 3;
const LOST: &str = "packets lost";
const MISSED: &str = "share of the updates that were late at the end";

/// One CPU forwards, the other changes routes.
struct Churn {
    updates: u32,
    program: PathBuf,
}

/// Output of `churn`.
#[derive(Deserialize)]
struct Churned {
    packets_per_second: f64,
    updates_per_second: f64,
    lost: f64,
}

impl Churn {
    fn new(updates: u32) -> Self {
        Self { updates, program: PathBuf::new() }
    }
}

impl Case for Churn {
    fn name(&self) -> String {
        format!("{} updates per second", self.updates)
    }

    fn rounds_max(&self) -> usize {
        CHURN_ROUNDS
    }

    fn cpus(&self) -> String {
        let (test, other) = (machine::test_cpu(), machine::other_cpu());
        format!("cpu{test}: source, forwarding, sink; cpu{other}: changes routes")
    }

    fn set_up(&mut self) -> Result<()> {
        ensure!(machine::cpus() > 1, "who changes routes needs a CPU of his own");
        self.program = program("churn")?;
        Ok(())
    }

    fn launch(&mut self, window: Duration) -> Result<Sample> {
        let window = window.max(CHURN_WINDOW);
        let mut command = mortal(&self.program);
        command.args([self.updates.to_string(), window.as_millis().to_string()]);
        let text = Running::start("churn", command)?.finish(START_LIMIT + window)?;
        let answer: Churned = serde_json::from_str(&text).with_context(|| format!("churn said {text}"))?;
        let missed = 1.0 - answer.updates_per_second / f64::from(self.updates.max(1));
        let figures = if self.updates > 0 { vec![(LOST, answer.lost), (MISSED, missed)] } else { vec![] };
        Ok(Sample { figures, ..Sample::saturated(answer.packets_per_second) })
    }
}

/// Several netisrs, each on a CPU with a source and a sink.
struct Netisrs {
    cpus: usize,
    rings: &'static str,
    name: &'static str,
    program: PathBuf,
}

/// Output of `cpus`.
#[derive(Deserialize)]
struct Answer {
    packets_per_cpu_second: f64,
}

impl Netisrs {
    fn new(cpus: usize, rings: &'static str, name: &'static str) -> Self {
        Self { cpus, rings, name, program: PathBuf::new() }
    }
}

impl Case for Netisrs {
    fn name(&self) -> String {
        self.name.into()
    }

    fn cpus(&self) -> String {
        let last = machine::test_cpu();
        match self.cpus {
            1 => format!("cpu{last}: source, forwarding, sink"),
            n => format!("cpu{} to cpu{last}: source, forwarding, sink each", last + 1 - n),
        }
    }

    fn set_up(&mut self) -> Result<()> {
        ensure!(machine::cpus() >= self.cpus, "this machine has {} CPU", machine::cpus());
        self.program = program("cpus")?;
        Ok(())
    }

    fn launch(&mut self, window: Duration) -> Result<Sample> {
        let mut command = mortal(&self.program);
        command.args(["time", &self.cpus.to_string(), self.rings, &window.as_millis().to_string()]);
        let text = Running::start("cpus", command)?.finish(START_LIMIT + window)?;
        let answer: Answer = serde_json::from_str(&text).with_context(|| format!("cpus said {text}"))?;
        Ok(Sample::saturated(answer.packets_per_cpu_second))
    }
}
