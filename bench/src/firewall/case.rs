//! Routers with a firewall, each of which is a row of the cost table.

use core::net::IpAddr;
use core::time::Duration;
use std::sync::Arc;

use anyhow::{Result, ensure};
use net::cpu::CpuId;
use net::fib::{Prefix, Route};
use net::rss::{Placement, hash_flow};
use net::tables::{Config, Tables};

use super::{flows, rules};
use crate::cpus::{One, netisrs, settle};
use crate::frames::{DESTINATIONS, Family};
use crate::router::{GATEWAYS, Router, config, gateway};
use crate::wire::{Sink, Supply};

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name on the command line.
    pub name: &'static str,
    /// Description for the reader.
    pub what: &'static str,
    /// The families that have it.
    pub families: &'static [Family],
    /// Flows that its packets are of.
    pub flows: u32,
    /// Time between two turns: about what they take, if nothing waits for it to pass.
    span: Duration,
    /// Whether the flow cache remembers what rules said.
    is_cached: bool,
    /// Whether packets come to one CPU and leave by another, for which the firewall has them.
    crosses: bool,
    /// The rules; empty without a firewall.
    rules: fn(Family) -> String,
    /// Cycles that a packet may cost more than without a firewall.
    pub goal: Option<f64>,
    /// Cycles that the same costs more in VPP 26.06, measured on another machine with a counter of 2.0 GHz.
    pub vpp: Option<&'static str>,
}

/// Packets of a turn.
pub const AT_ONCE: usize = 256;
/// The port that all packets go to.
const DISCARD: u16 = 9;
/// Buffers: pipes may hold a quarter of them.
const BUFFERS: usize = 4096;

const BOTH: &[Family] = &[Family::Ip4, Family::Ip6];
const PLAIN: Case = Case {
    name: "no-hooks",
    what: "no hooks",
    families: BOTH,
    flows: 1000,
    span: Duration::from_micros(5),
    is_cached: false,
    crosses: false,
    rules: |_| String::new(),
    goal: None,
    vpp: None,
};

/// All rows; the first is what the others are compared with.
pub const CASES: &[Case] = &[
    PLAIN,
    Case {
        name: "empty",
        what: "rules that affect no packet",
        rules: |_| "add allow ip from any to any\n".into(),
        goal: Some(0.0),
        ..PLAIN
    },
    Case { name: "1-rule", what: "1 rule", rules: |family| inward(1, family), ..PLAIN },
    Case {
        name: "10-rules",
        what: "10 rules",
        rules: |family| inward(10, family),
        goal: Some(30.0),
        vpp: Some("85"),
        ..PLAIN
    },
    Case { name: "1000-rules", what: "1000 rules", rules: |family| inward(1000, family), ..PLAIN },
    Case { name: "10000-rules", what: "10,000 rules", rules: |family| inward(10_000, family), ..PLAIN },
    Case {
        name: "10-rules-twice",
        what: "10 rules, asked twice",
        rules: |family| rules::hit_last(10, family, "udp", ""),
        ..PLAIN
    },
    Case {
        name: "1000-rules-twice",
        what: "1000 rules, asked twice",
        rules: |family| rules::hit_last(1000, family, "udp", ""),
        ..PLAIN
    },
    Case {
        name: "10-rules-cached",
        what: "10 rules, flow cache",
        is_cached: true,
        rules: |family| rules::hit_last(10, family, "udp", ""),
        goal: Some(30.0),
        ..PLAIN
    },
    Case {
        name: "1000-rules-cached",
        what: "1000 rules, flow cache",
        is_cached: true,
        rules: |family| rules::hit_last(1000, family, "udp", ""),
        ..PLAIN
    },
    Case {
        name: "1k-states-cached",
        what: "state hit, 1000 states, flow cache",
        is_cached: true,
        rules: |_| "add check-state\nadd allow udp from any to any keep-state\n".into(),
        goal: Some(40.0),
        ..PLAIN
    },
    Case {
        name: "1k-states",
        what: "state hit, 1000 states",
        rules: stateful,
        goal: Some(40.0),
        vpp: Some("45 (4096)"),
        ..PLAIN
    },
    Case {
        name: "100k-states",
        what: "state hit, 100,000 states",
        flows: 100_000,
        rules: stateful,
        goal: Some(40.0),
        vpp: Some("100 (64 k)"),
        ..PLAIN
    },
    Case {
        name: "1m-states",
        what: "state hit, 1,000,000 states",
        flows: 1_000_000,
        rules: stateful,
        goal: Some(40.0),
        ..PLAIN
    },
    Case {
        name: "100k-states-twice",
        what: "state hit, 100,000 states, asked twice",
        flows: 100_000,
        rules: |_| "add check-state\nadd allow udp from any to any keep-state\n".into(),
        ..PLAIN
    },
    Case {
        name: "nat-cached",
        what: "NAT44, 1000 bindings, flow cache",
        families: &[Family::Ip4],
        is_cached: true,
        rules: nat44,
        goal: Some(60.0),
        ..PLAIN
    },
    Case {
        name: "nat-states-cached",
        what: "state hit and NAT44, 1000 flows, flow cache",
        families: &[Family::Ip4],
        is_cached: true,
        rules: nat44_with_states,
        ..PLAIN
    },
    Case {
        name: "nat-states",
        what: "state hit twice and NAT44, 1000 flows",
        families: &[Family::Ip4],
        rules: nat44_with_states,
        ..PLAIN
    },
    Case {
        name: "30k-nat-cached",
        what: "NAT44, 30,000 bindings, flow cache",
        families: &[Family::Ip4],
        flows: 30_000,
        is_cached: true,
        rules: nat44,
        goal: Some(60.0),
        ..PLAIN
    },
    Case {
        name: "nptv6-cached",
        what: "NPTv6, flow cache",
        families: &[Family::Ip6],
        is_cached: true,
        rules: nptv6,
        goal: Some(60.0),
        ..PLAIN
    },
    Case {
        name: "nat",
        what: "NAT44, 1000 bindings",
        families: &[Family::Ip4],
        rules: nat44,
        goal: Some(60.0),
        vpp: Some("90 to 110"),
        ..PLAIN
    },
    Case {
        name: "30k-nat",
        what: "NAT44, 30,000 bindings",
        families: &[Family::Ip4],
        flows: 30_000,
        rules: nat44,
        goal: Some(60.0),
        ..PLAIN
    },
    Case { name: "nptv6", what: "NPTv6", families: &[Family::Ip6], rules: nptv6, goal: Some(60.0), ..PLAIN },
    Case { name: "rdr", what: "rdr, 1000 flows, same CPU", rules: redirecting, ..PLAIN },
    Case {
        name: "rdr-away",
        what: "rdr, 1000 flows, other CPU (both together)",
        crosses: true,
        rules: redirecting,
        ..PLAIN
    },
    Case {
        name: "pipe",
        what: "pipe of 100 Gbit/s, which holds the packets of a turn until the next",
        span: Duration::from_micros(100),
        rules: |_| {
            let others = "add allow ip from any to any out";
            format!(
                "pipe 1 config bw 100Gbit/s queue 1000KBytes\nadd pipe 1 ip from any to any in\n{others}\n"
            )
        },
        ..PLAIN
    },
];

fn nat44(_: Family) -> String {
    translating("nat 1 config ip 192.0.2.1", "nat 1")
}

/// As a home or an office has it: what goes out has a state, and is translated.
fn nat44_with_states(_: Family) -> String {
    "nat 1 config ip 192.0.2.1\nadd check-state\nadd skipto 1000 udp from any to any in keep-state\n\
     add 1000 nat 1 ip from any to any out\nadd allow ip from any to any\n"
        .into()
}

fn nptv6(_: Family) -> String {
    let prefixes = "int_prefix 2001:db8:1:: ext_prefix 2001:db8:2:: prefixlen 48";
    translating(&format!("nptv6 n create {prefixes}"), "nptv6 n")
}

/// Rules that are asked once, when a packet comes in, as a list of an interface is in other routers.
fn inward(count: u32, family: Family) -> String {
    format!("{}add 65000 allow ip from any to any out\n", rules::hit_last(count, family, "udp", "in"))
}

fn stateful(_: Family) -> String {
    "add allow udp from any to any in keep-state\nadd allow ip from any to any out\n".into()
}

fn translating(config: &str, action: &str) -> String {
    format!("{config}\nadd {action} ip from any to any out\nadd allow ip from any to any in\n")
}

fn redirecting(family: Family) -> String {
    let (from, to) = (flows::destination(family), elsewhere(family));
    format!("add rdr {to} udp from any to {from} in\nadd allow ip from any to any\n")
}

/// Where redirected packets go.
const fn elsewhere(family: Family) -> IpAddr {
    family.addr(DESTINATIONS - 1, 2)
}

/// Something that forwards.
pub trait Forward {
    /// Forwards `turns` vectors of so many packets; answers how many have left since the start.
    fn forward(&mut self, turns: usize, packets: usize) -> usize;
}

impl Forward for Router {
    fn forward(&mut self, turns: usize, packets: usize) -> usize {
        Self::forward(self, turns, packets)
    }
}

/// Two CPUs, of which packets come to the first.
struct Pair(Vec<One>);

impl Forward for Pair {
    fn forward(&mut self, turns: usize, packets: usize) -> usize {
        for _ in 0..turns {
            self.0.iter_mut().zip([packets, 0]).for_each(|(one, packets)| _ = one.forward(1, packets));
        }
        self.0.iter_mut().map(|one| one.forward(0, 0)).sum()
    }
}

impl Case {
    /// The router, which has forwarded a packet of each flow.
    ///
    /// # Errors
    ///
    /// When there is no memory, or the rules do not let all packets through.
    pub fn router(&self, family: Family) -> Result<Box<dyn Forward>> {
        let mut router = if self.crosses { self.pair(family)? } else { self.single(family)? };
        let turns = (self.flows as usize).div_ceil(AT_ONCE);
        let before = router.forward(turns, AT_ONCE);
        let (came, sent) = (router.forward(turns, AT_ONCE) - before, turns * AT_ONCE);
        ensure!(came == sent, "{}: {came} of {sent} packets came through", self.name);
        Ok(router)
    }

    fn single(&self, family: Family) -> Result<Box<dyn Forward>> {
        let (supply, sent) = (Supply::default(), Arc::default());
        let source = Box::new(flows::source(family, self.flows, Arc::clone(&supply)));
        let sink = Box::new(Sink::new(Arc::clone(&sent)));
        let tables = Arc::new(tables(family));
        let router = Router::sharing(family, Arc::clone(&tables), BUFFERS, source, sink)?;
        let mut router = router.counting(supply, sent).every(self.span);
        let text = (self.rules)(family);
        if !text.is_empty() {
            router.set_firewall(&rules::shared(&text, &tables, 1)?);
        }
        if self.is_cached {
            router.cache_flows(Some(4 * self.flows as usize));
            // A flow is remembered with its second packet behind the one that made its state.
            router.forward(3 * (self.flows as usize).div_ceil(AT_ONCE), AT_ONCE);
        }
        Ok(Box::new(router))
    }

    /// The first CPU owns the flows as they come, the second as they go on.
    fn pair(&self, family: Family) -> Result<Box<dyn Forward>> {
        let placement = Placement::new(2);
        let owner = |flow, to| placement.owner(hash_flow(flows::origin(family, flow), (to, DISCARD)));
        let is_apart = |flow: &u32| {
            owner(*flow, flows::destination(family)) == CpuId(0)
                && owner(*flow, elsewhere(family)) == CpuId(1)
        };
        let flows: Vec<u32> = (0..1 << 20).filter(is_apart).take(self.flows as usize).collect();
        ensure!(!flows.is_empty(), "no flow goes from one CPU to the other");
        let tables = Arc::new(tables(family));
        let shared = rules::shared(&(self.rules)(family), &tables, 2)?;
        let mut cpus = Vec::new();
        for netisr in netisrs(&tables, 2, crate::router::BUFFERS)? {
            let supply = Supply::default();
            let source = flows::source_of(family, flows.clone(), Arc::clone(&supply));
            cpus.push(One::with(netisr, Box::new(source), supply));
        }
        let mut pair = Pair(cpus);
        // Packets to the second CPU settle it, too, before there are rules.
        settle(family, &mut pair.0);
        pair.0.iter_mut().for_each(|one| one.set_firewall(&shared));
        Ok(Box::new(pair))
    }
}

fn tables(family: Family) -> Tables {
    let to = |net| Prefix::new(family.addr(net, 0), family.prefix_len());
    let routes = (1..=DESTINATIONS).filter_map(to);
    let routes = routes.map(|to| Route::new(to, gateway(family, GATEWAYS[0]))).collect();
    Tables::new(Config { routes, ..config(family) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_lets_all_its_packets_through() {
        for case in CASES.iter().filter(|case| case.flows <= 1000) {
            for family in case.families {
                let mut router = case.router(*family).unwrap();
                let before = router.forward(0, 0);
                assert_eq!(router.forward(8, AT_ONCE) - before, 8 * AT_ONCE, "{} {family:?}", case.name);
            }
        }
    }
}
