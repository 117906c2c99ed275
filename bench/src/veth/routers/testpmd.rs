//! DPDK's testpmd, with its AF_XDP driver on both interfaces: it rewrites the link addresses and looks nothing up.

use core::time::Duration;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use dev::sys::process::end_with_parent;

use super::Router;
use crate::veth::frames::SINK_MAC;
use crate::veth::lab::{IN, Lab, OUT};
use crate::veth::layout::{OTHER_CPU, ROUTER_CPU};
use crate::veth::thread::Thread;

/// Time limit of the start.
const PATIENCE: Duration = Duration::from_secs(15);

/// The running program.
pub(super) struct Testpmd {
    child: Child,
}

impl Testpmd {
    pub(super) fn start(lab: &Lab) -> Result<Self> {
        let mut command = Command::new("dpdk-testpmd");
        // Its main thread on the generator's processor sleeps.
        command.args(["-l", &format!("{OTHER_CPU},{ROUTER_CPU}"), "--no-huge", "-m", "256", "--no-pci"]);
        command.args(["--no-shconf", "--no-telemetry"]);
        for (number, name) in [(0, IN), (1, OUT)] {
            command.args(["--vdev", &format!("net_af_xdp{number},iface={name}")]);
        }
        command.args(["--", "--forward-mode=mac", "--total-num-mbufs=16384", "--burst=64"]);
        command.args([
            &format!("--eth-peer=1,{SINK_MAC}"),
            "--no-mlockall",
            "--auto-start",
            "--stats-period=3600",
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        end_with_parent(lab.router.put(&mut command)?);
        let mut child = command.spawn().context("dpdk-testpmd (package dpdk-dev)")?;
        let begun = Instant::now();
        while lab.router.netlink()?.link(OUT)?.xdp.is_none() {
            if let Some(status) = child.try_wait()? {
                bail!("dpdk-testpmd ended with {status}");
            }
            if begun.elapsed() > PATIENCE {
                let _ = child.kill();
                bail!("dpdk-testpmd does not start");
            }
            sleep(Duration::from_millis(20));
        }
        // The program is attached before the worker runs.
        sleep(Duration::from_millis(300));
        Ok(Self { child })
    }
}

impl Router for Testpmd {
    fn thread(&self) -> Option<Thread> {
        let named = |name| Thread::named(self.child.id(), name).ok();
        named("lcore-worker").or_else(|| named("dpdk-worker"))
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
