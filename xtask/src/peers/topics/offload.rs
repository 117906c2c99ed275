//! Flow offload: forwarding between two veth pairs in the driver, by pantala's decisions, beside the kernel and a bare XDP program.

use super::veth::{Veth, contest};
use crate::peers::contest::{Claim, Contest, Need};

/// Flows at once.
const FLOWS: [(u32, &str, &str); 3] = [
    (1, "offload/one-ip4", "one CPU for all, IPv4, 1 flow"),
    (1024, "offload/one-ip4-1024", "one CPU for all, IPv4, 1024 flows"),
    (65_536, "offload/one-ip4-65536", "one CPU for all, IPv4, 65536 flows"),
];

pub fn contests() -> Vec<Contest> {
    let all = [
        "pantala-offload",
        "pantala-offload-stateful",
        "pantala-offload-nat",
        "pantala",
        "kernel",
        "stateful",
        "masquerade",
        "xdp",
    ];
    let of_four =
        |flows, id, what| contest(id, what, all.map(|who| Veth::new(who, "one").of(4, flows)), claims());
    let six = contest(
        "offload/one-ip6",
        "one CPU for all, IPv6, 1 flow",
        all.map(|who| Veth::new(who, "one").of(6, 1)),
        claims(),
    );
    FLOWS.map(|(flows, id, what)| of_four(flows, id, what)).into_iter().chain([six]).collect()
}

/// Beside pantala as it is without offload, the kernel doing the same, and the program that asks the kernel's tables.
fn claims() -> Vec<Claim> {
    let pairs = [(0, 3), (0, 4), (1, 5), (2, 6), (0, 7), (1, 7), (2, 7)];
    pairs.map(|(of, to)| Claim::Ratio { of, to, need: Need::Shown }).into()
}
