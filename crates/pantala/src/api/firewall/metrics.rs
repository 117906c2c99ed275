//! The firewall's.

use super::FirewallSnapshot;
use crate::api::metrics::{Labels, Page};
use crate::api::types::{FirewallNat, FirewallNat64, FirewallRule, FirewallShape, FirewallShapes};

/// Numbers of rules that have series of their own; what rules with higher numbers matched is added up as `other`.
const RULES_MAX: usize = 1000;
/// Pipes and queues that have series of their own, the first of each.
const SHAPES_MAX: usize = 1000;

pub(in crate::api) fn firewall_metrics(page: &mut Page, all: &FirewallSnapshot) {
    let status = &all.status;
    page.head("pantala_firewall_states", "gauge", "States of the firewall.");
    page.value("pantala_firewall_states", &[], status.states);
    page.head("pantala_firewall_tracks", "gauge", "Groups of states that a limit counts, on all CPUs.");
    page.value("pantala_firewall_tracks", &[], status.tracks);
    page.head("pantala_firewall_rules", "gauge", "Rules of the firewall, including the default rule.");
    page.value("pantala_firewall_rules", &[], status.rules);
    rules(page, &all.rules);
    nat(page, &all.nat);
    nat64(page, &all.nat64);
    pipes_and_queues(page, &with_series(&all.shapes));
}

fn rules(page: &mut Page, rules: &[FirewallRule]) {
    let numbers = by_number(rules);
    let packets = "pantala_firewall_rule_packets_total";
    page.head(packets, "counter", "Packets matched by rules with this number.");
    for (number, count, _) in &numbers {
        page.value(packets, &[("rule", number)], *count);
    }
    let bytes = "pantala_firewall_rule_bytes_total";
    page.head(bytes, "counter", "Bytes matched by rules with this number.");
    for (number, _, count) in &numbers {
        page.value(bytes, &[("rule", number)], *count);
    }
}

fn nat(page: &mut Page, instances: &[FirewallNat]) {
    type PerInstance = (&'static str, &'static str, &'static str, fn(&FirewallNat) -> u64);
    const EACH: [PerInstance; 4] = [
        ("pantala_firewall_nat_bindings", "gauge", "Flows that an instance of NAT translates.", |nat| {
            nat.bindings
        }),
        (
            "pantala_firewall_nat_bindings_limit",
            "gauge",
            "Flows that an instance of NAT may translate.",
            |nat| nat.limit,
        ),
        (
            "pantala_firewall_nat_ports_limit",
            "gauge",
            "Ports available to a NAT instance, for each protocol.",
            |nat| nat.ports,
        ),
        ("pantala_firewall_nat_bindings_total", "counter", "Flows created by an instance of NAT.", |nat| {
            nat.begun
        }),
    ];
    for (name, kind, help, read) in EACH {
        page.head(name, kind, help);
        for nat in instances {
            page.value(name, &[("nat", &nat.number)], read(nat));
        }
    }
    let flows = "pantala_firewall_nat_flows";
    page.head(flows, "gauge", "Flows that an instance of NAT translates, by protocol.");
    for nat in instances {
        for (proto, count) in [("icmp", nat.icmp), ("tcp", nat.tcp), ("udp", nat.udp)] {
            page.value(flows, &[("nat", &nat.number), ("proto", &proto)], count);
        }
    }
    let refused = "pantala_firewall_nat_refused_total";
    page.head(refused, "counter", "Packets refused by an instance of NAT, by the exhausted resource.");
    for nat in instances {
        for (reason, count) in [("address", nat.no_address), ("port", nat.no_port), ("room", nat.no_room)] {
            page.value(refused, &[("nat", &nat.number), ("no", &reason)], count);
        }
    }
}

fn nat64(page: &mut Page, instances: &[FirewallNat64]) {
    type PerInstance = (&'static str, &'static str, &'static str, fn(&FirewallNat64) -> u64);
    const EACH: [PerInstance; 3] = [
        ("pantala_firewall_nat64_bindings", "gauge", "Flows that an instance of NAT64 translates.", |nat| {
            nat.bindings
        }),
        (
            "pantala_firewall_nat64_bindings_limit",
            "gauge",
            "Flows that an instance of NAT64 may translate.",
            |nat| nat.limit,
        ),
        (
            "pantala_firewall_nat64_bindings_total",
            "counter",
            "Flows created by an instance of NAT64.",
            |nat| nat.begun,
        ),
    ];
    for (name, kind, help, read) in EACH {
        page.head(name, kind, help);
        for nat in instances {
            page.value(name, &[("nat64", &nat.name)], read(nat));
        }
    }
    let refused = "pantala_firewall_nat64_refused_total";
    page.head(refused, "counter", "Packets refused by an instance of NAT64, by the exhausted resource.");
    for nat in instances {
        for (reason, count) in [("port", nat.no_port), ("room", nat.no_room)] {
            page.value(refused, &[("nat64", &nat.name), ("no", &reason)], count);
        }
    }
}

/// The pipes and queues that have series of their own, by what they are and their number.
fn with_series(shapes: &FirewallShapes) -> Vec<(&'static str, u16, &FirewallShape)> {
    let pipes = shapes.pipes.iter().map(|pipe| ("pipe", pipe.number, &pipe.own)).take(SHAPES_MAX);
    let queues = shapes.queues.iter().map(|queue| ("queue", queue.number, &queue.own)).take(SHAPES_MAX);
    pipes.chain(queues).collect()
}

fn pipes_and_queues(page: &mut Page, all: &[(&'static str, u16, &FirewallShape)]) {
    type PerShape = (&'static str, &'static str, &'static str, fn(&FirewallShape) -> u64);
    const EACH: [PerShape; 6] = [
        ("pantala_firewall_pipe_packets_total", "counter", "Packets that entered a pipe or queue.", |own| {
            own.packets
        }),
        ("pantala_firewall_pipe_bytes_total", "counter", "Bytes that entered a pipe or queue.", |own| {
            own.bytes
        }),
        ("pantala_firewall_pipe_drops_total", "counter", "Packets dropped by a pipe or queue.", |own| {
            own.drops
        }),
        ("pantala_firewall_pipe_waiting_packets", "gauge", "Packets queued in a pipe or queue.", |own| {
            own.waiting_packets
        }),
        ("pantala_firewall_pipe_waiting_bytes", "gauge", "Bytes queued in a pipe or queue.", |own| {
            own.waiting_bytes
        }),
        ("pantala_firewall_pipe_flows", "gauge", "Flows of a pipe or queue, summed over CPUs.", |own| {
            own.flows
        }),
    ];
    for (name, kind, help, read) in EACH {
        page.head(name, kind, help);
        for (what, number, own) in all {
            let labels: Labels<'_> = &[(what, number)];
            page.value(name, labels, read(own));
        }
    }
}

/// Packets and bytes of the rules of each number; several rules may have the same.
fn by_number(rules: &[FirewallRule]) -> Vec<(String, u64, u64)> {
    let mut numbers: Vec<(String, u64, u64)> = Vec::new();
    for rule in rules {
        let is_full = numbers.len() >= RULES_MAX;
        let name = if is_full { "other".to_owned() } else { rule.number.to_string() };
        match numbers.last_mut().filter(|(last, _, _)| *last == name) {
            Some((_, packets, bytes)) => {
                *packets += rule.packets;
                *bytes += rule.bytes;
            }
            None => numbers.push((name, rule.packets, rule.bytes)),
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::types::{FirewallPipe, FirewallQueue};

    #[test]
    fn rules_beyond_the_bound_share_a_series() {
        let rule = |number| FirewallRule {
            number,
            set: 0,
            enabled: true,
            packets: 1,
            bytes: 10,
            last_match: None,
            action: String::new(),
            rule: String::new(),
            comment: None,
        };
        let rules: Vec<FirewallRule> = [7, 7].into_iter().chain(100..1105).map(rule).collect();
        let numbers = by_number(&rules);
        assert_eq!(numbers.first(), Some(&("7".to_owned(), 2, 20)));
        assert_eq!((numbers.len(), numbers.last()), (RULES_MAX + 1, Some(&("other".to_owned(), 6, 60))));
    }

    #[test]
    fn pipes_beyond_the_bound_have_no_series() {
        let pipe = |number| FirewallPipe { number, ..FirewallPipe::default() };
        let queue = |number| FirewallQueue { number, ..FirewallQueue::default() };
        let shapes =
            FirewallShapes { pipes: (1..=1005).map(pipe).collect(), queues: (1..=1005).map(queue).collect() };
        let all = with_series(&shapes);
        let nth = |n: usize| (all[n].0, all[n].1);
        assert_eq!((all.len(), nth(999), nth(1999)), (2000, ("pipe", 1000), ("queue", 1000)));
    }
}
