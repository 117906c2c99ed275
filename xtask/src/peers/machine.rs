//! The machine that everything runs on.

use std::process::Command;
use std::time::Instant;

use serde::Serialize;

use super::dpdk;
use crate::run::{capture, root};

/// Facts about the machine and this run.
#[derive(Serialize)]
pub struct Machine {
    pub processor: String,
    pub cpus: usize,
    /// Frequency of the time stamp counter: the unit of "cycles".
    pub clock_mhz: f64,
    pub kernel: String,
    /// All of DPDK's programs had them.
    pub huge_pages: bool,
    pub date: String,
    pub commit: String,
    /// As it was typed.
    pub command: String,
}

impl Machine {
    /// The one that this runs on, now.
    pub fn here() -> Self {
        Self {
            processor: cpuinfo("model name").unwrap_or_else(|| "unknown processor".into()),
            cpus: cpus(),
            clock_mhz: clock_mhz(),
            kernel: read("/proc/sys/kernel/osrelease"),
            huge_pages: dpdk::had_huge_pages(),
            date: ask("date", &["-u", "+%F %H:%M UTC"]),
            commit: ask("git", &["describe", "--always", "--dirty"]),
            command: command_line(),
        }
    }
}

/// Returns the number of CPUs.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The CPU that is measured: the last one, which has the fewest interrupts.
pub fn test_cpu() -> usize {
    cpus() - 1
}

/// The CPU of generators, sinks and ourselves; the same one if there is no other.
pub fn other_cpu() -> usize {
    0
}

/// Megahertz of the time stamp counter. On a virtual machine `cpu MHz` is just that.
pub fn clock_mhz() -> f64 {
    cpuinfo("cpu MHz").and_then(|mhz| mhz.parse().ok()).unwrap_or(1000.0)
}

/// Whether huge pages of 2 MB are set aside, for programs that want them.
pub fn huge_pages() -> bool {
    read("/proc/sys/vm/nr_hugepages").parse::<u64>().is_ok_and(|pages| pages > 0)
}

/// Time that tasks have waited for a CPU, since some moment.
pub struct Pressure {
    started: Instant,
    waited: f64,
}

impl Pressure {
    /// From now on.
    pub fn now() -> Self {
        Self { started: Instant::now(), waited: waited() }
    }

    /// Share of the time since then in which some task waited; 0 if the kernel does not tell.
    pub fn since(&self) -> f64 {
        (waited() - self.waited) / self.started.elapsed().as_secs_f64()
    }
}

/// Seconds since the start of the machine in which some task waited for a CPU.
fn waited() -> f64 {
    let text = read("/proc/pressure/cpu");
    let total = text.lines().next().and_then(|line| line.rsplit_once("total=")?.1.parse::<f64>().ok());
    total.unwrap_or_default() / 1e6
}

fn cpuinfo(key: &str) -> Option<String> {
    let text = read("/proc/cpuinfo");
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn ask(program: &str, args: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    capture(command).unwrap_or_default().trim().to_owned()
}

fn command_line() -> String {
    let args: Vec<String> = std::env::args().skip(1).collect();
    format!("cargo xtask {}", args.join(" "))
}
