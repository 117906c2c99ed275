//! DPDK's test program, which only moves packets: what its sources and sinks cost by themselves.

use core::time::Duration;
use std::path::Path;

use anyhow::{Result, ensure};

use super::{Eal, sending_rate};
use crate::peers::contest::{Case, Sample};
use crate::peers::machine;
use crate::peers::process::Running;
use crate::peers::workload::Workload;
use crate::run;

const START_LIMIT: Duration = Duration::from_secs(20);

/// testpmd between the devices that [`super::l3fwd::L3fwd`] stands between.
pub struct Testpmd {
    pub workload: Workload,
    /// "io" touches no packet, "mac" writes link addresses, "macswap" exchanges them.
    pub mode: &'static str,
}

impl Case for Testpmd {
    fn name(&self) -> String {
        format!("testpmd {}", self.mode)
    }

    fn cpus(&self) -> String {
        format!("cpu{}: net_pcap infinite_rx (alloc, copy), {}, net_null", machine::test_cpu(), self.mode)
    }

    fn set_up(&mut self) -> Result<()> {
        ensure!(run::has("dpdk-testpmd"), "no dpdk-testpmd: apt-get install dpdk-dev");
        self.workload.write().map(|_| ())
    }

    fn launch(&mut self, window: Duration) -> Result<Sample> {
        let files = self.workload.write()?;
        let source = format!("net_pcap0,rx_pcap={},infinite_rx=1", files.pcap.display());
        let mut eal = Eal::on(machine::test_cpu(), "testpmd", vec![source, "net_null0,no-rx=1".into()]);
        // The main one only waits; the second one forwards.
        eal.cpus = format!("{},{}", machine::other_cpu(), machine::test_cpu());
        let mut command = eal.command(Path::new("dpdk-testpmd"), &[]);
        command.args(["--no-mlockall", "--nb-cores=1", "--burst=32", "--auto-start"]);
        // As much memory for packets as l3fwd takes.
        command.args(["--total-num-mbufs=8192", "--mbcache=256"]);
        command.arg(format!("--forward-mode={}", self.mode));
        let mut running = Running::start("testpmd", command)?;
        let rate =
            running.says("packet forwarding", START_LIMIT).and_then(|()| sending_rate(&eal, 1, window));
        running.end();
        eal.clean();
        rate.map(Sample::saturated)
    }
}
