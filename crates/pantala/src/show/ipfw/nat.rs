//! `ipfw nat show`, `ipfw nat64lsn show`, `ipfw nptv6 show`.

use core::fmt::Write;

use super::{Protocol, Widths};
use crate::api::{FirewallBinding, FirewallNat, FirewallNat64, FirewallPrefixes};

/// Prints an instance's configuration as a command that makes it again.
pub(crate) fn config(nat: &FirewallNat) -> String {
    format!("nat {} config {}\n", nat.number, nat.config)
}

/// Prints an instance's state: FreeBSD's line, and its limits.
pub(crate) fn instance(nat: &FirewallNat) -> String {
    let FirewallNat { number, icmp, udp, tcp, bindings, limit, .. } = nat;
    let other = bindings.saturating_sub(icmp + udp + tcp);
    let mut text =
        format!("nat {number}: icmp={icmp}, udp={udp}, tcp={tcp}, proto={other} / tot={bindings}\n");
    // Writing to a String does not fail.
    let _ = match nat.address {
        Some(address) => writeln!(
            text,
            "    as {address}; ports udp {} tcp {} of {}; limit {limit}",
            nat.udp_ports, nat.tcp_ports, nat.ports
        ),
        None => writeln!(text, "    without an address: nothing is translated"),
    };
    let FirewallNat { begun, no_port, no_room, no_address, .. } = nat;
    let _ = writeln!(
        text,
        "    begun {begun}; refused: no port {no_port}, no room {no_room}, no address {no_address}"
    );
    text
}

/// Prints the state of a NAT64 instance: its configuration and limits.
pub(crate) fn crossing(nat: &FirewallNat64) -> String {
    let FirewallNat64 { name, config, bindings, icmp, tcp, udp, limit, begun, no_port, no_room } = nat;
    format!(
        "nat64lsn {name} {config}\n    icmp={icmp}, udp={udp}, tcp={tcp} / tot={bindings}; limit {limit}\n\
         \x20   begun {begun}; refused: no port {no_port}, no room {no_room}\n"
    )
}

/// Flows that an instance translates: packets out and in, what is left of their lives, their ends.
pub(crate) fn bindings(bindings: &[FirewallBinding], with_cpu: bool) -> String {
    let counted = bindings.iter().map(|it| (it.packets_out.into(), it.packets_in.into()));
    let widths = Widths::of(counted);
    bindings.iter().map(|binding| line(binding, widths, with_cpu)).collect()
}

fn line(binding: &FirewallBinding, widths: Widths, with_cpu: bool) -> String {
    let Widths { packets: out, bytes: back } = widths;
    let FirewallBinding { inside, inside_port, remote, remote_port, outside, outside_port, .. } = binding;
    let cpu = if with_cpu { format!(" cpu {}", binding.cpu) } else { String::new() };
    format!(
        "{:out$} {:back$} ({}s) NAT {} {inside} {inside_port} <-> {remote} {remote_port} as {outside} {outside_port}{cpu}\n",
        binding.packets_out,
        binding.packets_in,
        binding.expires_s,
        Protocol(binding.proto),
    )
}

/// Prefixes that are exchanged.
pub(crate) fn prefixes(prefixes: &FirewallPrefixes) -> String {
    let FirewallPrefixes { name, config, active } = prefixes;
    let idle = if *active { "" } else { "\n    its interface has no address: nothing is translated" };
    format!("nptv6 {name} {config}{idle}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nat() -> FirewallNat {
        FirewallNat {
            number: 1,
            config: "if em0 same_ports".into(),
            address: Some("192.0.2.1".parse().unwrap()),
            bindings: 1006,
            icmp: 1,
            tcp: 1000,
            udp: 3,
            limit: 524_288,
            tcp_ports: 998,
            udp_ports: 3,
            ports: 64_512,
            begun: 2000,
            no_port: 7,
            ..FirewallNat::default()
        }
    }

    #[test]
    fn an_instance_is_shown_in_freebsds_line_with_what_bounds_it_below() {
        assert_eq!(
            instance(&nat()),
            "nat 1: icmp=1, udp=3, tcp=1000, proto=2 / tot=1006\n\
             \x20   as 192.0.2.1; ports udp 3 tcp 998 of 64512; limit 524288\n\
             \x20   begun 2000; refused: no port 7, no room 0, no address 0\n"
        );
        let text = instance(&FirewallNat { address: None, ..nat() });
        assert!(text.contains("without an address: nothing is translated\n"), "{text}");
        assert_eq!(config(&nat()), "nat 1 config if em0 same_ports\n");
    }

    #[test]
    fn an_instance_of_nat64_is_shown_with_its_configuration_and_what_bounds_it() {
        let one = FirewallNat64 {
            name: "gate".into(),
            config: "prefix4 192.0.2.0/28 prefix6 64:ff9b::/96".into(),
            bindings: 6,
            tcp: 4,
            udp: 2,
            limit: 524_288,
            begun: 90,
            no_port: 1,
            ..FirewallNat64::default()
        };
        assert_eq!(
            crossing(&one),
            "nat64lsn gate prefix4 192.0.2.0/28 prefix6 64:ff9b::/96\n\
             \x20   icmp=0, udp=2, tcp=4 / tot=6; limit 524288\n\
             \x20   begun 90; refused: no port 1, no room 0\n"
        );
    }

    #[test]
    fn a_translated_flow_is_shown_with_its_three_ends() {
        let one = FirewallBinding {
            cpu: 2,
            proto: 6,
            inside: "10.0.0.2".parse().unwrap(),
            inside_port: 4000,
            remote: "203.0.113.9".parse().unwrap(),
            remote_port: 443,
            outside: "192.0.2.1".parse().unwrap(),
            outside_port: 23_456,
            packets_out: 12,
            packets_in: 9,
            expires_s: 7439,
        };
        let other = FirewallBinding { packets_out: 5, ..one };
        let ends = "NAT tcp 10.0.0.2 4000 <-> 203.0.113.9 443 as 192.0.2.1 23456";
        let all = [one, other];
        assert_eq!(bindings(&all, false), format!("12 9 (7439s) {ends}\n 5 9 (7439s) {ends}\n"));
        assert!(bindings(&all, true).starts_with(&format!("12 9 (7439s) {ends} cpu 2\n")));
    }

    #[test]
    fn prefixes_that_wait_for_an_address_say_so() {
        let config = "int_prefix fd00:1:: ext_if em0 prefixlen 48".to_owned();
        let one = FirewallPrefixes { name: "inside".into(), config, active: true };
        assert_eq!(prefixes(&one), "nptv6 inside int_prefix fd00:1:: ext_if em0 prefixlen 48\n");
        let text = prefixes(&FirewallPrefixes { active: false, ..one });
        assert!(text.ends_with("    its interface has no address: nothing is translated\n"), "{text}");
    }
}
