//! The firewall beside nftables, which follows connections in the kernel's conntrack: both with the same rules, between
//! the same cables, and both without any.

use super::veth::{Veth, contest};
use crate::peers::contest::{Claim, Contest, Need};

/// Pantala and the kernel: without rules, with states, with 10 and with 1000 rules, and translating IPv4.
const WHO: [[&str; 2]; 5] = [
    ["pantala", "kernel"],
    ["pantala-stateful", "stateful"],
    ["pantala-10", "kernel-10"],
    ["pantala-1000", "kernel-1000"],
    ["pantala-nat", "masquerade"],
];
/// Flows, a power of two.
const FLOWS: u32 = 4096;

pub fn contests() -> Vec<Contest> {
    vec![
        filters("firewall/one-ip4", "one CPU for all, IPv4, 4096 flows, rules", 4, "one", &WHO),
        filters("firewall/one-ip6", "one CPU for all, IPv6, 4096 flows, rules", 6, "one", &WHO[..4]),
        filters(
            "firewall/two-ip4",
            "all but the generator on one CPU, IPv4, 4096 flows, rules",
            4,
            "two",
            &WHO,
        ),
    ]
}

/// Each pair beside each other, and then what rules leave of the rate that each has without any.
fn filters(
    id: &'static str,
    what: &str,
    family: u8,
    layout: &'static str,
    who: &[[&'static str; 2]],
) -> Contest {
    let case = |who: &&'static str| Veth::new(who, layout).of(family, FLOWS);
    let ratio = |of, to| Claim::Ratio { of, to, need: Need::Shown };
    let beside = (0..who.len()).map(|at| ratio(2 * at, 2 * at + 1));
    let left = (2..2 * who.len()).map(|at| ratio(at, at % 2));
    contest(id, what, who.iter().flatten().map(case), beside.chain(left).collect())
}
