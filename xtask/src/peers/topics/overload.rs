//! Overload: goodput, and the latency of replies.
//!
//! In memory, where ten times as much can be offered; and over veth beside the kernel, where the generator has a limit.

use core::time::Duration;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::veth::{Said, Veth};
use crate::peers::contest::{Case, Claim, Contest, Need, Sample};
use crate::peers::machine;
use crate::peers::process::{Running, mortal};
use crate::peers::workload::program;

/// Each load is offered for so many windows: 9.9 s where a window is 300 ms.
const WINDOWS: u32 = 33;
/// A launch takes most of a minute, in which loads alternate or every one lasts long: one has to do.
const ROUNDS: usize = 1;
const START_LIMIT: Duration = Duration::from_secs(20);

const SHORT: &str = "short of the plateau, %";
const PINGS: &str = "pings lost";
const CALLS: &str = "control calls lost";
const DOORBELLS: &str = "doorbells a packet";
const MISSING: &str = "buffers missing afterwards";

pub fn contests() -> Vec<Contest> {
    vec![
        memory("overload/memory-ip4", "ip4"),
        memory("overload/memory-ip6", "ip6"),
        veth("overload/two-ip4", &["pantala", "kernel", "stateful"]),
    ]
}

fn memory(id: &'static str, family: &'static str) -> Contest {
    let ceiling = |figure, at_most| Claim::Ceiling { of: 0, figure, at_most };
    Contest {
        id,
        title: format!("64 bytes in memory, {family}, 1, 2, 4 and 10 times what can be forwarded, 10 s each"),
        unit: "packets",
        bed: None,
        cases: vec![Box::new(Memory { family, program: PathBuf::new() })],
        claims: vec![
            ceiling(SHORT, 5.0),
            ceiling(PINGS, 0.0),
            ceiling(CALLS, 0.0),
            ceiling(DOORBELLS, 1.0 / 16.0),
            ceiling(MISSING, 0.0),
        ],
    }
}

/// The rate is what comes through at the heaviest load.
fn veth(id: &'static str, who: &[&'static str]) -> Contest {
    let case = |who: &&'static str| -> Box<dyn Case> { Box::new(OverVeth(Veth::new(who, "two"))) };
    let cases = who.iter().map(case).collect();
    let title = "64 bytes over veth, 1, 2, 4 and 10 times what can be forwarded, or what the generator can, 10 s each";
    Contest {
        id,
        title: title.to_owned(),
        unit: "packets",
        bed: None,
        cases,
        claims: vec![
            Claim::Ceiling { of: 0, figure: SHORT, at_most: 5.0 },
            Claim::Ceiling { of: 0, figure: PINGS, at_most: 0.0 },
            Claim::Ratio { of: 0, to: 1, need: Need::Shown },
            Claim::Ratio { of: 0, to: 2, need: Need::Shown },
        ],
    }
}

/// One CPU, and a device in memory whose ring is filled by the clock.
struct Memory {
    family: &'static str,
    program: PathBuf,
}

impl Case for Memory {
    fn name(&self) -> String {
        "pantala".into()
    }

    fn cpus(&self) -> String {
        let (test, other) = (machine::test_cpu(), machine::other_cpu());
        format!(
            "cpu{test}: source, forwarding, sink; cpu{other}: a call through the control port every 10 ms"
        )
    }

    fn rounds_max(&self) -> usize {
        ROUNDS
    }

    fn set_up(&mut self) -> Result<()> {
        ensure!(machine::cpus() >= 2, "needs two CPUs");
        self.program = program("overload")?;
        Ok(())
    }

    fn launch(&mut self, window: Duration) -> Result<Sample> {
        let each = window * WINDOWS;
        let mut command = mortal(&self.program);
        command.args([self.family, &each.as_millis().to_string()]);
        let name = format!("overload-{}", self.family);
        let text = Running::start(&name, command)?.finish(START_LIMIT + 12 * each)?;
        in_memory(&Said(&text)).with_context(|| format!("overload said {text}"))
    }
}

/// A router over veth, for so long at each load.
struct OverVeth(Veth);

impl Case for OverVeth {
    fn name(&self) -> String {
        self.0.name()
    }

    fn cpus(&self) -> String {
        self.0.cpus()
    }

    fn rounds_max(&self) -> usize {
        ROUNDS
    }

    fn set_up(&mut self) -> Result<()> {
        self.0.set_up()
    }

    fn launch(&mut self, window: Duration) -> Result<Sample> {
        let each = window * WINDOWS;
        let text = self.0.ask(&["--overload", "yes"], each, 6 * each)?;
        over_veth(&Said(&text)).with_context(|| format!("veth said {text}"))
    }
}

/// Parses the common output of both kinds.
fn both(said: &Said<'_>) -> Result<Sample> {
    let number = |name: &'static str| said.number(name).context(name);
    let figures = vec![
        ("offered, M", number("offered")? / 1e6),
        (SHORT, 100.0 - number("percent of the plateau")?),
        ("times the plateau offered", number("times offered")?),
        (PINGS, number("pings lost")?),
    ];
    Ok(Sample { figures, ..Sample::saturated(number("delivered")?) })
}

fn in_memory(said: &Said<'_>) -> Result<Sample> {
    let mut sample = both(said)?;
    let told = [
        (CALLS, "control calls lost"),
        ("control call, us", "control call us"),
        ("worst control call, us", "worst control call us"),
        ("ping answered, us", "answer us"),
        ("delivered afterwards, %", "percent afterwards"),
        (DOORBELLS, "doorbells a frame"),
        (MISSING, "buffers missing"),
    ];
    for (figure, name) in told {
        sample.figures.push((figure, said.number(name).context(name)?));
    }
    Ok(sample)
}

fn over_veth(said: &Said<'_>) -> Result<Sample> {
    let mut sample = both(said)?;
    let told = [
        ("generator's most, M", "generator", 1e-6),
        ("worst of all loads, % of the plateau", "worst percent", 1.0),
        ("delivered afterwards, %", "percent afterwards", 1.0),
    ];
    for (figure, name, unit) in told {
        sample.figures.push((figure, said.number(name).context(name)? * unit));
    }
    // Forwarders without a thread do not report it.
    for (figure, name) in [("CPU ns each at 1x", "thread first"), ("CPU ns each at 10x", "thread last")] {
        sample.figures.extend(said.number(name).map(|ns| (figure, ns)));
    }
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_short_of_the_plateau_is_said() {
        let text = "offered = 10000\ndelivered = 970\npercent of the plateau = 97.0\ntimes offered = 10\n\
                    pings lost = 1\ngenerator = 12000\nworst percent = 96\npercent afterwards = 100\n";
        let sample = over_veth(&Said(text)).unwrap();
        assert_eq!(sample.rate, 970.0);
        assert!(sample.figures.contains(&(SHORT, 3.0)) && sample.figures.contains(&(PINGS, 1.0)));
        assert!(in_memory(&Said(text)).is_err(), "nothing was said of the control path");
    }
}
