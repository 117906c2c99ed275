//! Beside the kernel: forwarding between two veth pairs.
//!
//! Generator and sink are XDP programs of `bench::veth`, whose program `veth` runs one case and says what came of it.

use core::time::Duration;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::peers::contest::{Case, Claim, Contest, Need, Sample, Source};
use crate::peers::machine;
use crate::peers::process::{Running, mortal};
use crate::peers::workload::program;
use crate::run::{cargo, follow, gist};

const BUILD_LIMIT: Duration = Duration::from_secs(1200);
/// Looking for the pace that is best takes a while.
const LIMIT: Duration = Duration::from_secs(60);
/// Packets that come singly are watched for so many windows, so that there are enough of them.
const SINGLY_WINDOWS: u32 = 5;
/// Rounds in which doorbells are counted: counts do not depend on the machine.
const DOORBELL_ROUNDS: usize = 3;
/// Rounds where all share a CPU; and where the generator's best pace has to be looked for, which takes several seconds.
const ROUNDS: (usize, usize) = (8, 5);

pub fn contests() -> Vec<Contest> {
    let one = |who| Veth::new(who, "one");
    let (split, two) = (|who| Veth::new(who, "split"), |who| Veth::new(who, "two"));
    let everybody = ["pantala", "rings", "driver", "kernel", "stateful", "masquerade", "xdp"];
    let on_two = ["pantala", "testpmd", "rings", "kernel", "stateful", "masquerade", "xdp"];
    vec![
        contest("veth/one-ip4", "one CPU for all, IPv4, 1 flow", everybody.map(one), one_cpu()),
        contest(
            "veth/one-ip4-flows",
            "one CPU for all, IPv4, 4096 flows",
            everybody.map(|who| Veth { flows: 4096, ..one(who) }),
            one_cpu(),
        ),
        contest(
            "veth/one-ip6",
            "one CPU for all, IPv6, 1 flow",
            everybody.map(|who| Veth { family: 6, ..one(who) }),
            one_cpu(),
        ),
        contest(
            "veth/split-ip4",
            "the router's CPU does not receive, IPv4, 1 flow",
            ["pantala", "testpmd", "rings", "driver"].map(split),
            vec![
                Claim::Ratio { of: 0, to: 1, need: Need::AtLeast(1.0) },
                Claim::Ratio { of: 0, to: 2, need: Need::AtLeast(0.9) },
            ],
        ),
        contest(
            "veth/two-ip4",
            "all but the generator on one CPU, IPv4, 1 flow",
            on_two.map(two),
            vec![
                Claim::Ratio { of: 0, to: 1, need: Need::AtLeast(1.0) },
                Claim::Ratio { of: 0, to: 2, need: Need::AtLeast(0.9) },
                Claim::Ratio { of: 0, to: 3, need: Need::Shown },
                Claim::Ratio { of: 0, to: 4, need: Need::Shown },
                Claim::Ratio { of: 0, to: 6, need: Need::Shown },
            ],
        ),
        beside("veth/bridge", "one CPU for all, a bridge, IPv4, 1 flow", ["pantala-bridge", "kernel-bridge"]),
        beside(
            "veth/vxlan",
            "one CPU for all, into a VXLAN, IPv4, 1 flow",
            ["pantala-vxlan", "kernel-vxlan"],
        ),
        doorbells(),
    ]
}

/// pantala beside the kernel.
fn beside(id: &'static str, what: &str, both: [&'static str; 2]) -> Contest {
    let claims = vec![Claim::Ratio { of: 0, to: 1, need: Need::Shown }];
    contest(id, what, both.map(|who| Veth::new(who, "one")), claims)
}

/// Claims where `pantala` is the first of `everybody`.
fn one_cpu() -> Vec<Claim> {
    let shown = (3..7).map(|to| Claim::Ratio { of: 0, to, need: Need::Shown });
    [Claim::Ratio { of: 0, to: 1, need: Need::AtLeast(0.9) }].into_iter().chain(shown).collect()
}

pub(super) fn contest(
    id: &'static str,
    what: &str,
    cases: impl IntoIterator<Item = Veth>,
    claims: Vec<Claim>,
) -> Contest {
    let title = format!("64 bytes over veth, {what}");
    let cases = cases.into_iter().map(|case| Box::new(case) as Box<dyn Case>).collect();
    Contest { id, title, unit: "packets", bed: None, cases, claims }
}

/// Packets per doorbell, under load and at low rates; and the latency at low rates.
fn doorbells() -> Contest {
    let case = |who| -> Box<dyn Case> { Box::new(Veth { doorbells: true, ..Veth::new(who, "two") }) };
    let title = "64 bytes over veth, as much as can be forwarded and then one at a time: doorbells, and how long a ping takes";
    Contest {
        id: "veth/doorbells",
        title: title.to_owned(),
        unit: "packets",
        bed: None,
        cases: ["pantala", "kernel", "pantala-doorbell-4", "pantala-doorbell-16", "pantala-doorbell-256"]
            .map(case)
            .into(),
        claims: vec![
            Claim::Ceiling { of: 0, figure: LOADED, at_most: 1.0 / 16.0 },
            Claim::Ceiling { of: 0, figure: SINGLY, at_most: 1.02 },
            Claim::Ratio { of: 2, to: 3, need: Need::Shown },
            Claim::Ratio { of: 4, to: 3, need: Need::Shown },
        ],
    }
}

const LOADED: &str = "doorbells a packet, under load";
const SINGLY: &str = "doorbells a packet, singly";

/// One router between the generator and the sink.
pub(super) struct Veth {
    who: &'static str,
    layout: &'static str,
    family: u8,
    flows: u32,
    doorbells: bool,
    program: PathBuf,
}

impl Veth {
    pub(super) fn new(who: &'static str, layout: &'static str) -> Self {
        Self { who, layout, family: 4, flows: 1, doorbells: false, program: PathBuf::new() }
    }

    /// Changes family and flows.
    pub(super) fn of(self, family: u8, flows: u32) -> Self {
        Self { family, flows, ..self }
    }

    /// Whether it takes frames from AF_XDP sockets.
    fn has_sockets(&self) -> bool {
        self.who.starts_with("pantala") || ["testpmd", "rings", "driver"].contains(&self.who)
    }

    /// Runs the program `veth` with these options besides its own, and answers what it said.
    pub(super) fn ask(&self, options: &[&str], window: Duration, lasts: Duration) -> Result<String> {
        let mut command: Command = mortal(&self.program);
        command.args([self.who, "--layout", self.layout, "--family", &self.family.to_string()]);
        command.args(["--flows", &self.flows.to_string(), "--window", &window.as_millis().to_string()]);
        command.args(options);
        let name = format!("veth-{}-{}", self.layout, self.who);
        Running::start(&name, command)?.finish(LIMIT + lasts)
    }
}

impl Case for Veth {
    fn name(&self) -> String {
        let what = match self.who {
            "kernel" => "kernel",
            "stateful" => "kernel, stateful rule",
            "masquerade" => "kernel, masquerade",
            "kernel-10" => "kernel, 10 rules",
            "kernel-1000" => "kernel, 1000 rules",
            "pantala-stateful" => "pantala, stateful rule",
            "pantala-nat" => "pantala, NAT",
            "pantala-10" => "pantala, 10 rules",
            "pantala-1000" => "pantala, 1000 rules",
            "pantala-doorbell-4" => "pantala, a doorbell at 4 packets",
            "pantala-doorbell-16" => "pantala, a doorbell at 16 packets",
            "pantala-doorbell-256" => "pantala, a doorbell at 256 packets",
            "kernel-bridge" => "kernel's bridge",
            "kernel-vxlan" => "kernel's VXLAN",
            "pantala-bridge" => "pantala, bridge",
            "pantala-vxlan" => "pantala, VXLAN",
            "xdp" => "XDP, kernel's tables",
            "testpmd" => "testpmd mac, net_af_xdp",
            "rings" => "bare AF_XDP rings",
            "driver" => "AF_XDP driver without stack",
            other => other,
        };
        what.to_owned()
    }

    fn cpus(&self) -> String {
        match self.layout {
            "one" => "cpu1: generator (when idle), receiving, forwarding, sink".to_owned(),
            "two" => {
                let receiver = if self.has_sockets() { "busy polling" } else { "NAPI thread" };
                format!("cpu0: generator; cpu1: receiving ({receiver}), forwarding, sink")
            }
            _ => "cpu0: generator, receiving; cpu1: forwarding, sink".to_owned(),
        }
    }

    fn set_up(&mut self) -> Result<()> {
        ensure!(machine::cpus() >= 2, "needs two CPUs");
        ensure!(crate::setup::is_root(), "needs root");
        self.program = program("veth")?;
        let done = follow("peers-build", cargo(["build", "--release", "--package", "pantala"]), BUILD_LIMIT)?;
        ensure!(done.status.success(), "pantala does not build:\n{}", gist(&done.log));
        Ok(())
    }

    fn rounds_max(&self) -> usize {
        match self.layout {
            _ if self.doorbells => DOORBELL_ROUNDS,
            "one" => ROUNDS.0,
            _ => ROUNDS.1,
        }
    }

    fn launch(&mut self, window: Duration) -> Result<Sample> {
        let (options, window): (&[&str], _) =
            if self.doorbells { (&["--doorbells", "yes"], window * SINGLY_WINDOWS) } else { (&[], window) };
        let text = self.ask(options, window, 2 * window)?;
        sample(&Said(&text)).with_context(|| format!("veth said {text}"))
    }
}

/// Lines `NAME = VALUE`.
pub(super) struct Said<'t>(pub(super) &'t str);

impl Said<'_> {
    fn word(&self, name: &str) -> Option<&str> {
        let line = |line| str::split_once(line, " = ").filter(|(is, _)| *is == name);
        self.0.lines().find_map(line).map(|(_, value)| value)
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.word(name)?.parse().ok()
    }
}

fn sample(said: &Said<'_>) -> Result<Sample> {
    let rate = said.number("delivered").context("no rate")?;
    let offered = said.number("offered").context("nothing offered")?;
    let mut figures = vec![("offered, M", offered / 1e6)];
    let told = [
        ("ns of the router's thread", "thread"),
        ("packets a doorbell", "frames a doorbell"),
        (LOADED, "doorbells a frame"),
        (SINGLY, "doorbells a frame singly"),
        ("ping singly, us", "ping us"),
    ];
    for (name, from) in told {
        figures.extend(said.number(from).map(|value| (name, value)));
    }
    let is_generator = said.word("bottleneck") == Some("generator");
    let source = if is_generator {
        Source::Bottleneck(format!("the generator sent no more than {:.2} M", offered / 1e6))
    } else {
        Source::Saturated
    };
    Ok(Sample { rate, source, figures })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_that_was_too_slow_is_no_measure_of_the_router() {
        let text = "delivered = 1000\noffered = 1000\nbottleneck = generator\n";
        assert!(matches!(sample(&Said(text)).unwrap().source, Source::Bottleneck(_)));
        let text = "delivered = 900\noffered = 1000\nbottleneck = router\nthread = 950\n";
        let sample = sample(&Said(text)).unwrap();
        assert_eq!((sample.rate, sample.source), (900.0, Source::Saturated));
        assert!(sample.figures.contains(&("ns of the router's thread", 950.0)));
    }
}
