//! Routes and packets, the same for all: `bench` makes them up.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::run::{self, capture, cargo, root};

/// Time for an optimised build of all that the benchmarks need.
const BUILD_LIMIT: core::time::Duration = core::time::Duration::from_secs(900);

/// A routing table, and destinations behind random ones of its routes.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub family: Family,
    pub routes: u32,
    pub destinations: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Ip4,
    Ip6,
}

/// A workload in files, for programs that are not ours.
pub struct Files {
    pub pcap: PathBuf,
    /// IPv4 destinations, four bytes each; not there of IPv6.
    pub destinations: PathBuf,
    pub rules4: PathBuf,
    pub rules6: PathBuf,
}

impl Family {
    /// As the benchmarks call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ip4 => "ip4",
            Self::Ip6 => "ip6",
        }
    }
}

impl core::fmt::Display for Family {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(if *self == Self::Ip4 { "IPv4" } else { "IPv6" })
    }
}

impl core::fmt::Display for Workload {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { family, routes, destinations } = self;
        write!(f, "{family}, {routes} routes, {destinations} random destinations")
    }
}

impl Workload {
    /// Writes the files, unless they are there. The family that is not looked at has two routes.
    pub fn write(self) -> Result<Files> {
        let other = match self.family {
            Family::Ip4 => Family::Ip6,
            Family::Ip6 => Family::Ip4,
        };
        let stem = self.files()?;
        let few = Self { family: other, routes: 2, destinations: 2 }.files()?.with_extension("rules");
        let rules = stem.with_extension("rules");
        let (rules4, rules6) = if self.family == Family::Ip4 { (rules, few) } else { (few, rules) };
        let (pcap, destinations) = (stem.with_extension("pcap"), stem.with_extension("destinations"));
        Ok(Files { pcap, destinations, rules4, rules6 })
    }

    fn files(self) -> Result<PathBuf> {
        let numbers = [self.routes.to_string(), self.destinations.to_string()];
        let stem = root().join(format!("target/peers/{}-{}", self.family.word(), numbers.join("-")));
        // The rules are written last: when they are there, all is.
        if !stem.with_extension("rules").is_file() {
            let mut command = Command::new(program("workload")?);
            command.arg(self.family.word()).args(numbers).arg(&stem);
            capture(command)?;
        }
        Ok(stem)
    }
}

/// One of the benchmarks' programs, built as pantala is shipped.
pub fn program(name: &str) -> Result<PathBuf> {
    let build = cargo(["build", "--release", "--package", "bench", "--bin", name]);
    let done = run::follow("peers-build", build, BUILD_LIMIT)?;
    ensure!(done.status.success(), "{name} does not build:\n{}", run::gist(&done.log));
    Ok(root().join("target/release").join(name))
}
