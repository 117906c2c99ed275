use core::net::Ipv4Addr;

use ipfw::Command;
use ipfw::rule::{Action, Hook};

use super::*;
use crate::base::secret::Secret;
use crate::firewall::pkt_info::Part;
use crate::firewall::ruleset::{Rules, Ruleset};
use crate::firewall::table::Lookups;
use crate::link::tables::Tables;

/// Rules from lines of text.
fn ruleset(lines: impl Iterator<Item = String>) -> Ruleset {
    let mut rules = Rules::new(Action::Deny);
    for line in lines {
        let Command::Add(rule) = ipfw::parse_line(&line).unwrap() else { panic!("{line}") };
        rules.add(rule).unwrap();
    }
    rules.compile(&Tables::default(), &Lookups::new(1).unwrap())
}

fn packet(src: u32, dst: u32, dst_port: u16) -> PktInfo {
    PktInfo {
        hook: Hook::Ingress,
        is_ip4: true,
        part: Part::Whole,
        proto: 6,
        src: src.into(),
        dst: dst.into(),
        src_port: 40000,
        dst_port,
        tcp_flags: 0,
        l4: 20,
        recv: 1,
        xmit: 0,
        tag: 0,
    }
}

/// Rules that a packet would be asked about.
fn candidates(ruleset: &Ruleset, info: &PktInfo) -> usize {
    let (forest, point) = (&ruleset.forest, Point::of(info));
    let trees = forest.trees(info.hook, info.is_ip4);
    trees.iter().map(|tree| forest.rules(tree, &point).len()).sum()
}

fn draw(secret: &mut Secret, bits: u32) -> u32 {
    u32::try_from(secret.below(1 << bits)).unwrap()
}

/// Hosts, networks and ports, as in the filter of a large site; every tenth rule matches any source.
fn site(secret: &mut Secret, n: u32) -> String {
    let host = |secret: &mut Secret| Ipv4Addr::from_bits(0x0a00_0000 | draw(secret, 22));
    let (src, dst) = (host(secret), host(secret));
    let port = draw(secret, 14);
    match n % 10 {
        0 => format!("add deny tcp from any to any {port}"),
        1 | 2 => format!("add deny tcp from {src}/24 to any {port}"),
        3..6 => format!("add allow tcp from any to {dst} {port}"),
        6 | 7 => format!("add allow tcp from {src}/22 to {dst}/26"),
        _ => format!("add allow tcp from {src} to {dst} {port}"),
    }
}

#[test]
fn of_thousands_of_rules_a_packet_is_asked_about_few() {
    for (count, most) in [(10, 8), (1000, 10), (10_000, 24)] {
        let mut secret = Secret::new(7);
        let ruleset = ruleset((0..count).map(|n| site(&mut secret, n)));
        let asked = 4000;
        let sum: usize = (0..asked)
            .map(|_| {
                let (src, dst) = (draw(&mut secret, 22), draw(&mut secret, 22));
                let port = u16::try_from(draw(&mut secret, 14)).unwrap();
                candidates(&ruleset, &packet(0x0a00_0000 | src, 0x0a00_0000 | dst, port))
            })
            .sum();
        assert!(sum / asked <= most, "{count} rules: {} of them on average", sum as f64 / asked as f64);
        let bytes = ruleset.forest.bytes();
        assert!(bytes < 64 * 1024 + 512 * count as usize, "{count} rules: {bytes} bytes");
    }
}

#[test]
fn rules_that_no_cut_tells_apart_make_long_leaves_and_no_large_trees() {
    let mut secret = Secret::new(7);
    let lines = (0..5000).map(|_| {
        let mut ends = [0; 4].map(|_| draw(&mut secret, 16));
        ends.sort_unstable();
        let [a, b, c, d] = ends;
        format!("add deny tcp from any {a}-{c} to any {b}-{d}")
    });
    let ruleset = ruleset(lines);
    let bytes = ruleset.forest.bytes();
    assert!(bytes < 5000 * 512, "{bytes} bytes");
    assert!(candidates(&ruleset, &packet(1, 2, 30000)) > 100);
}

#[test]
fn a_packet_of_one_family_is_not_asked_about_rules_of_the_other() {
    let lines = (1..=20).map(|n| format!("add deny tcp from 2001:db8::{n:x} to any"));
    assert_eq!(candidates(&ruleset(lines), &packet(1, 2, 80)), 1);
}
