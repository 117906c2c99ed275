//! All contests, by topic.

mod cpus;
mod firewall;
mod generate;
mod memif;
mod null;
mod offload;
mod overload;
mod scale;
pub mod served;
pub mod short;
mod veth;

use anyhow::Result;

use super::contest::Contest;
use crate::setup::Needed;

/// Software of the peers.
const PEERS: &[Needed] = &[
    Needed { program: "dpdk-testpmd", package: "dpdk", why: "DPDK's sources, sinks and drivers" },
    Needed {
        program: "/usr/include/dpdk/rte_lpm.h",
        package: "dpdk-dev",
        why: "DPDK's tables, and building l3fwd",
    },
    Needed {
        program: "/usr/share/dpdk/examples/l3fwd/main.c",
        package: "dpdk-doc",
        why: "the source of l3fwd",
    },
    Needed { program: "gcc", package: "gcc", why: "building l3fwd" },
    Needed { program: "pkg-config", package: "pkg-config", why: "building l3fwd" },
    Needed { program: "nft", package: "nftables", why: "the kernel's firewall and address translation" },
    Needed { program: "ip", package: "iproute2", why: "neighbours of the kernel" },
    Needed { program: "ping", package: "iputils-ping", why: "answers under load" },
    Needed { program: "trafgen", package: "netsniff-ng", why: "a generator of the kernel's packet sockets" },
    Needed { program: "taskset", package: "util-linux", why: "one CPU for each program" },
];

/// All contests, in the order in which they run.
pub fn contests() -> Vec<Contest> {
    let all = [
        null::contests(),
        memif::contests(),
        scale::contests(),
        cpus::contests(),
        veth::contests(),
        generate::contests(),
        offload::contests(),
        firewall::contests(),
        overload::contests(),
    ];
    all.into_iter().flatten().collect()
}

/// Installs what the peers need, if this is Debian and we are root; what stays missing skips its rows.
pub fn install() -> Result<()> {
    crate::setup::install(PEERS)
}
