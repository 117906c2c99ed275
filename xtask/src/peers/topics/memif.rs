//! Shared memory: one CPU forwards between two memif devices, the other is source and sink.

use core::time::Duration;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::peers::contest::{Case, Claim, Contest, Need, Sample, Source};
use crate::peers::dpdk::{Eal, HugePages, l3fwd, own};
use crate::peers::machine;
use crate::peers::process::{Running, on_cpu};
use crate::peers::workload::{Family, Files, Workload, program};

/// Two programs have to find each other, and DPDK looks at its links for a while.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Descriptors of a ring, as a power of two.
const LOG2_RING: u32 = 10;
/// Share of the source's bursts that must not have fitted, or it was the bottleneck.
const FULL_MIN: f64 = 0.05;
/// The workload, and its routes.
const WORKLOAD: Workload = Workload { family: Family::Ip4, routes: 2, destinations: 1024 };

pub fn contests() -> Vec<Contest> {
    let middle =
        |what| -> Box<dyn Case> { Box::new(Middle { what, ends: PathBuf::new(), program: PathBuf::new() }) };
    vec![Contest {
        id: "memif/ip4-2",
        title: format!("64 bytes from memif to memif, {WORKLOAD}"),
        unit: "packets",
        bed: HugePages::bed(),
        cases: vec![middle(Forwarder::Pantala), middle(Forwarder::L3fwd), middle(Forwarder::L3fwdZeroCopy)],
        claims: vec![
            Claim::Ratio { of: 0, to: 1, need: Need::AtLeast(1.0) },
            Claim::Ratio { of: 0, to: 2, need: Need::AtLeast(1.0) },
        ],
    }]
}

/// The stage between source and sink.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Forwarder {
    Pantala,
    L3fwd,
    /// Packets are made and forwarded in the shared memory itself: only a client may.
    L3fwdZeroCopy,
}

struct Middle {
    what: Forwarder,
    ends: PathBuf,
    program: PathBuf,
}

/// Output of `ends`.
#[derive(Deserialize)]
struct Answer {
    received: f64,
    sent: f64,
    /// Share of the source's bursts that did not fit.
    full: f64,
}

/// The two sockets of a launch; dropped, they are gone.
struct Sockets([PathBuf; 2]);

impl Case for Middle {
    fn name(&self) -> String {
        match self.what {
            Forwarder::Pantala => "pantala".into(),
            Forwarder::L3fwd => "l3fwd LPM native".into(),
            Forwarder::L3fwdZeroCopy => "l3fwd LPM native, zero copy".into(),
        }
    }

    fn cpus(&self) -> String {
        let (test, other) = (machine::test_cpu(), machine::other_cpu());
        format!("cpu{test}: forwarding, as client of both; cpu{other}: source and sink, upon DPDK's driver")
    }

    fn set_up(&mut self) -> Result<()> {
        ensure!(machine::cpus() > 1, "source and sink need a CPU of their own");
        self.ends = own::program("ends")?;
        self.program = match self.what {
            Forwarder::Pantala => program("memif")?,
            Forwarder::L3fwd | Forwarder::L3fwdZeroCopy => {
                l3fwd::build("native", false)?;
                l3fwd::program("native", false)
            }
        };
        WORKLOAD.write().map(|_| ())
    }

    fn launch(&mut self, window: Duration) -> Result<Sample> {
        let (files, sockets) = (WORKLOAD.write()?, Sockets::new());
        let eal = Eal::on(machine::other_cpu(), "ends", sockets.devices("server", ""));
        let mut ends = eal.command(&self.ends, &[]);
        ends.arg(&files.pcap).arg(window.as_millis().to_string());
        let mut ends = Running::start("ends", ends)?;
        ends.says("ends: waiting", START_LIMIT)?;
        let middle = self.start(&sockets, &files)?;
        let text = ends.finish(START_LIMIT + window);
        drop(middle);
        eal.clean();
        self.eal(&sockets).clean();
        sample(&text?)
    }
}

impl Middle {
    fn start(&self, sockets: &Sockets, files: &Files) -> Result<Running> {
        if self.what == Forwarder::Pantala {
            let mut command = on_cpu(machine::test_cpu(), &self.program);
            command.arg(WORKLOAD.routes.to_string()).args(&sockets.0).arg(START_LIMIT.as_secs().to_string());
            return Running::start("memif", command);
        }
        let zero_copy: &[&str] = &["--single-file-segments"];
        let options = if self.what == Forwarder::L3fwdZeroCopy { zero_copy } else { &[] };
        Running::start("l3fwd", l3fwd::command(&self.eal(sockets), &self.program, options, "lpm", files))
    }

    /// Returns DPDK's environment.
    fn eal(&self, sockets: &Sockets) -> Eal {
        let extra = if self.what == Forwarder::L3fwdZeroCopy { ",zero-copy=yes" } else { "" };
        Eal::on(machine::test_cpu(), "middle", sockets.devices("client", extra))
    }
}

fn sample(text: &str) -> Result<Sample> {
    let line = text.lines().find(|line| line.starts_with('{')).context("ends said nothing")?;
    let answer: Answer = serde_json::from_str(line).with_context(|| format!("ends said {line}"))?;
    let source = if answer.full >= FULL_MIN {
        Source::Saturated
    } else {
        Source::Bottleneck(format!("{:.0} % of its bursts were taken whole", (1.0 - answer.full) * 100.0))
    };
    let lost = (1.0 - answer.received / answer.sent).max(0.0) * 100.0;
    Ok(Sample { rate: answer.received, source, figures: vec![("lost on the way, %", lost)] })
}

impl Sockets {
    fn new() -> Self {
        let path = |end| std::env::temp_dir().join(format!("pt-peers-{}-{end}.sock", std::process::id()));
        Self([path("in"), path("out")])
    }

    /// The devices of DPDK at these sockets.
    fn devices(&self, role: &str, extra: &str) -> Vec<String> {
        let device = |(at, path): (usize, &PathBuf)| {
            let path: &Path = path;
            let socket = format!("socket={},socket-abstract=no", path.display());
            format!("net_memif{at},role={role},{socket},rsize={LOG2_RING}{extra}")
        };
        self.0.iter().enumerate().map(device).collect()
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}
