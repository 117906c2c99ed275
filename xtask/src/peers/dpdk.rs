//! DPDK's programs: how they are started, and how they are asked what they have done.

pub mod l3fwd;
pub mod own;
pub mod telemetry;
pub mod testpmd;

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::contest::Bed;
use super::machine;
use super::process::{self, mortal};
use telemetry::Telemetry;

/// Where the kernel is told how many huge pages to set aside.
const NR_HUGEPAGES: &str = "/proc/sys/vm/nr_hugepages";
/// Huge pages of 2 MB: enough for the pools and tables of two programs.
const HUGEPAGES: u64 = 768;
/// Without huge pages, megabytes of memory that a program may take.
const MEMORY_MB: &str = "1024";
/// Warm-up before the first packet counts: caches and branch predictors are warm by then.
const WARM_UP: Duration = Duration::from_millis(50);
/// Parts of a window, of which the median counts.
const SLICES: u32 = 4;

/// The environment that all programs of DPDK run in.
pub struct Eal {
    /// Distinguishes programs that run at the same time.
    pub prefix: String,
    /// "1" or "0,1": the first one is the main one.
    pub cpus: String,
    /// `net_null0,size=64`
    pub devices: Vec<String>,
}

impl Eal {
    /// An environment on one CPU.
    pub fn on(cpu: usize, name: &str, devices: Vec<String>) -> Self {
        Self { prefix: format!("pt-peers-{}-{name}", std::process::id()), cpus: cpu.to_string(), devices }
    }

    /// The command up to the `--` after which the program's own arguments follow.
    pub fn command(&self, program: &Path, options: &[&str]) -> Command {
        let mut command = mortal(program);
        command.args(options);
        command.args(["-l", &self.cpus, "--file-prefix", &self.prefix, "--no-pci"]);
        if machine::huge_pages() {
            // Anonymous: nothing has to be mounted, and nothing stays behind.
            command.arg("--in-memory");
        } else {
            command.args(["--no-huge", "-m", MEMORY_MB]);
        }
        command.args(self.devices.iter().map(|device| format!("--vdev={device}"))).arg("--");
        command
    }

    /// Where the program answers.
    pub fn telemetry(&self) -> Result<Telemetry> {
        Telemetry::connect(&format!("/var/run/dpdk/{}/dpdk_telemetry.v2", self.prefix))
    }

    /// Takes away what a program that was killed has left.
    pub fn clean(&self) {
        let _ = std::fs::remove_dir_all(format!("/var/run/dpdk/{}", self.prefix));
    }
}

/// Packets per second that the running program sends out of `port`.
pub fn sending_rate(eal: &Eal, port: u16, window: Duration) -> Result<f64> {
    rate_of(eal, port, "opackets", window)
}

/// Growth of a counter of `port`, per second: the median of a few slices.
pub fn rate_of(eal: &Eal, port: u16, counter: &str, window: Duration) -> Result<f64> {
    let telemetry = eal.telemetry()?;
    process::pause(WARM_UP)?;
    let mut rates = Vec::new();
    for _ in 0..SLICES {
        let (started, before) = (Instant::now(), telemetry.counter(port, counter)?);
        process::pause(window / SLICES)?;
        let (ended, after) = (Instant::now(), telemetry.counter(port, counter)?);
        rates.push((after - before) as f64 / (ended - started).as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    let rate = f64::midpoint(rates[rates.len() / 2], rates[(rates.len() - 1) / 2]);
    ensure!(rate > 0.0, "{counter} of port {port} do not grow");
    Ok(rate)
}

/// Some program had to do without huge pages.
static WITHOUT: AtomicBool = AtomicBool::new(false);

/// Whether all programs so far had huge pages.
pub fn had_huge_pages() -> bool {
    !WITHOUT.load(Ordering::Relaxed)
}

/// Huge pages, released when dropped.
pub struct HugePages {
    before: Option<u64>,
}

impl HugePages {
    pub fn bed() -> Option<Box<dyn Bed>> {
        Some(Box::new(Self { before: None }))
    }
}

impl Bed for HugePages {
    fn set_up(&mut self) -> Result<()> {
        let text = std::fs::read_to_string(NR_HUGEPAGES).context(NR_HUGEPAGES)?;
        let before: u64 = text.trim().parse()?;
        self.before = Some(before);
        // If there are none to be had, DPDK works without, and the document says so.
        let _ = std::fs::write(NR_HUGEPAGES, before.max(HUGEPAGES).to_string());
        WITHOUT.fetch_or(!machine::huge_pages(), Ordering::Relaxed);
        Ok(())
    }

    fn tear_down(&mut self) {
        if let Some(before) = self.before.take() {
            let _ = std::fs::write(NR_HUGEPAGES, before.to_string());
        }
    }
}
