//! DPDK's router: its example `l3fwd`, built from Debian's copy of the source with the few changes that it needs here.

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Eal, own, sending_rate};
use crate::peers::contest::{Case, Sample};
use crate::peers::machine;
use crate::peers::process::Running;
use crate::peers::workload::{Files, Workload};
use crate::run::root;

const EXAMPLES: &str = "/usr/share/dpdk/examples";
const SOURCES: &[&str] = &[
    "main.c",
    "l3fwd_acl.c",
    "l3fwd_lpm.c",
    "l3fwd_fib.c",
    "l3fwd_em.c",
    "l3fwd_event.c",
    "l3fwd_event_generic.c",
    "l3fwd_event_internal_port.c",
];

/// Changes to the source, by file: each of these texts occurs exactly once.
const CHANGES: &[(&str, &str, &str)] = &[
    // Virtual devices do not verify checksums, and then no stage does.
    ("main.c", ".offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM,", ".offloads = 0,"),
    // Room for full tables.
    (
        "l3fwd_lpm.c",
        "#define IPV4_L3FWD_LPM_MAX_RULES         1024",
        "#define IPV4_L3FWD_LPM_MAX_RULES (1 << 17)",
    ),
    (
        "l3fwd_lpm.c",
        "#define IPV6_L3FWD_LPM_MAX_RULES         1024",
        "#define IPV6_L3FWD_LPM_MAX_RULES (1 << 17)",
    ),
    ("l3fwd_fib.c", "config_ipv4.max_routes = (1 << 16);", "config_ipv4.max_routes = (9 << 17);"),
];

/// Loading tens of thousands of routes takes seconds.
const START_LIMIT: Duration = Duration::from_secs(60);

/// l3fwd between a pcap file that never ends and a device that forgets.
pub struct L3fwd {
    pub workload: Workload,
    /// "lpm" or "fib".
    pub lookup: &'static str,
    /// For which processor it is compiled: "native", "corei7".
    pub march: &'static str,
    /// Whether packets get their destinations on arrival, from a table: then few packets make up for millions.
    pub scattered: bool,
}

/// Packets of the file when their destinations come from a table: as many as the caches like.
const WARM: u32 = 1024;
/// Also the widest instructions may be used, by a lookup that knows them.
const WIDEST: &str = "--force-max-simd-bitwidth=512";

impl Case for L3fwd {
    fn name(&self) -> String {
        let scattered = if self.scattered { ", scattered" } else { "" };
        format!("l3fwd {} {}{scattered}", self.lookup.to_uppercase(), self.march)
    }

    fn cpus(&self) -> String {
        format!("cpu{}: net_pcap infinite_rx (alloc, copy), forwarding, net_null", machine::test_cpu())
    }

    fn set_up(&mut self) -> Result<()> {
        build(self.march, self.scattered)?;
        self.workload.write().map(|_| ())
    }

    fn launch(&mut self, window: Duration) -> Result<Sample> {
        let (files, packets) = (self.workload.write()?, self.packets().write()?);
        let source = format!("net_pcap0,rx_pcap={},infinite_rx=1", packets.pcap.display());
        let eal = Eal::on(machine::test_cpu(), "l3fwd", vec![source, "net_null0".into()]);
        let program = program(self.march, self.scattered);
        let mut command = command(&eal, &program, &[WIDEST], self.lookup, &files);
        command.env("PT_DESTINATIONS", &files.destinations);
        let mut running = Running::start("l3fwd", command)?;
        let rate =
            running.says("entering main loop", START_LIMIT).and_then(|()| sending_rate(&eal, 1, window));
        running.end();
        eal.clean();
        rate.map(Sample::saturated)
    }
}

impl L3fwd {
    /// The workload whose packets are in the file.
    fn packets(&self) -> Workload {
        let destinations = if self.scattered { WARM } else { self.workload.destinations };
        Workload { destinations, ..self.workload }
    }
}

fn option(name: &str, path: &Path) -> String {
    format!("{name}{}", path.display())
}

fn dir() -> PathBuf {
    root().join("target/peers/l3fwd")
}

/// The program that [`build`] makes.
pub fn program(march: &str, scattered: bool) -> PathBuf {
    let kind = if scattered { "-scattered" } else { "" };
    dir().join(format!("l3fwd-{march}{kind}"))
}

/// Builds l3fwd as its own Makefile does, but for the given processor.
///
/// # Errors
///
/// When the source or the compiler is missing, or the source is not what [`CHANGES`] knows.
pub fn build(march: &str, scattered: bool) -> Result<()> {
    copy_changed()?;
    let (march, common) = (format!("-march={march}"), format!("-I{EXAMPLES}/common"));
    let hook = root().join("bench/peers/scatter.h");
    let include = format!("-include{}", hook.display());
    let mut flags = vec!["-DALLOW_EXPERIMENTAL_API", &common, &march];
    flags.extend(scattered.then_some(&*include));
    let sources: Vec<&Path> = SOURCES.iter().map(Path::new).collect();
    own::compile(&program(&march["-march=".len()..], scattered), &dir(), &sources, &[&hook], &flags)
}

/// The command that forwards between two ports of the environment, with these routes.
pub fn command(eal: &Eal, program: &Path, options: &[&str], lookup: &str, files: &Files) -> Command {
    let config = format!("--config=(0,0,{})", machine::test_cpu());
    let mut command = eal.command(program, options);
    command.args(["-p", "3", "-P", "--parse-ptype", &config]).arg(format!("--lookup={lookup}"));
    command.arg(option("--rule_ipv4=", &files.rules4)).arg(option("--rule_ipv6=", &files.rules6));
    command
}

/// Copies the source, and changes what has to be.
fn copy_changed() -> Result<()> {
    let from = Path::new(EXAMPLES).join("l3fwd");
    fs::create_dir_all(dir())?;
    for entry in fs::read_dir(&from).context("no source of l3fwd: apt-get install dpdk-doc")? {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            fs::copy(&path, dir().join(name))?;
        }
    }
    CHANGES.iter().try_for_each(|(file, from, to)| change(&dir().join(file), from, to))
}

fn change(file: &Path, from: &str, to: &str) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    ensure!(text.matches(from).count() == 1, "{}: `{from}` is not there once", file.display());
    fs::write(file, text.replace(from, to))?;
    Ok(())
}
