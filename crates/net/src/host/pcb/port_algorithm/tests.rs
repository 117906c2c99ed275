use core::net::IpAddr;

use super::super::local_end::port;
use super::super::{EPHEMERAL, PortRange};
use super::*;
use crate::testkit::{Bench, addr4, addr6};

const ALL: [PortAlgorithm; 4] =
    [PortAlgorithm::Random, PortAlgorithm::Hash, PortAlgorithm::DoubleHash, PortAlgorithm::RandomIncrements];

/// A wide range, whose ports are computed, and a narrow one, which is walked through.
const RANGES: [PortRange; 2] =
    [PortRange { first: 10_000, last: 65_535 }, PortRange { first: 40_000, last: 43_999 }];

fn ends(is_v4: bool, host: u8, remote_port: u16) -> FourTuple {
    let ends: [IpAddr; 2] = match is_v4 {
        true => [addr4(1, 1).into(), addr4(1, host).into()],
        false => [addr6(1, 1).into(), addr6(1, host.into()).into()],
    };
    FourTuple { local: ends[0], remote: ends[1], local_port: 0, remote_port, zone: 0 }
}

/// Does something on each CPU, with each algorithm, range and family.
fn each(mut what: impl FnMut(&mut Cpu, PortAlgorithm, PortRange, bool)) {
    for (algorithm, range) in ALL.into_iter().flat_map(|algorithm| RANGES.map(|range| (algorithm, range))) {
        for (cpus, is_v4) in [(1, true), (1, false), (3, true), (3, false)] {
            let mut bench = Bench::with(1, cpus, |_| ());
            for netisr in &mut bench.netisrs {
                let cpu = &mut netisr.cpu;
                (cpu.sysctls.port_algorithm, cpu.sysctls.ports) = (algorithm, range);
                what(cpu, algorithm, range, is_v4);
            }
        }
    }
}

#[test]
fn each_algorithm_chooses_ports_of_this_cpu_that_are_not_taken() {
    each(|cpu, algorithm, range, is_v4| {
        let ends = ends(is_v4, 9, 80);
        for _ in 0..200 {
            let found = port(cpu, ends, |_, ends| ends.local_port % 2 == 0).unwrap();
            assert!(found % 2 == 1 && range.ports().contains(&found), "{algorithm:?}: {found}");
            let ends = FourTuple { local_port: found, ..ends };
            assert_eq!(cpu.placement.owner(ends.flow()), cpu.id, "{algorithm:?}: {found}");
        }
        assert_eq!(port(cpu, ends, |_, _| true), None);
    });
}

#[test]
fn an_algorithm_with_counters_does_not_come_back_early_to_a_port() {
    each(|cpu, algorithm, range, is_v4| {
        let cpus = usize::from(cpu.placement.cpus());
        // Of the CPU's own ports, as many as are passed before one comes again.
        let own = range.ports().len() / cpus;
        let fresh = match algorithm {
            PortAlgorithm::Random => return,
            PortAlgorithm::Hash | PortAlgorithm::DoubleHash => own * 9 / 10,
            PortAlgorithm::RandomIncrements => own / 500 / 2,
        };
        let mut seen = std::collections::HashSet::new();
        for _ in 0..fresh {
            let found = port(cpu, ends(is_v4, 9, 80), |_, _| false).unwrap();
            assert!(seen.insert(found), "{algorithm:?}, {range:?}: {found} again after {}", seen.len());
        }
    });
}

#[test]
fn ports_to_many_hosts_are_spread_over_the_range_and_do_not_follow_each_other() {
    each(|cpu, algorithm, range, is_v4| {
        const PARTS: usize = 16;
        let (first, width) = (*range.ports().start(), range.ports().len());
        let (mut parts, mut next, mut last) = ([0; PARTS], 0, 0);
        let total = 250 * 16;
        for n in 0..total {
            let (host, remote) = (u8::try_from(2 + n % 250).unwrap(), u16::try_from(1 + n / 250).unwrap());
            let found = port(cpu, ends(is_v4, host, remote), |_, _| false).unwrap();
            parts[usize::from(found - first) * PARTS / width] += 1;
            next += usize::from(found.wrapping_sub(last) == 1);
            last = found;
        }
        let fair = total / PARTS;
        let is_fair = |count: &usize| (fair / 2..fair * 2).contains(count);
        assert!(parts.iter().all(is_fair), "{algorithm:?}, {range:?}: {parts:?}");
        assert!(next < total / 20, "{algorithm:?}, {range:?}: {next} of {total} follow the one before");
    });
}

#[test]
fn the_double_hash_keeps_conversations_with_other_hosts_out_of_a_ports_sequence() {
    let mut bench = Bench::with(1, 1, |_| ());
    let cpu = bench.cpu();
    // Steps of the index, which in a narrow range is the port.
    cpu.sysctls.ports = RANGES[1];
    for (algorithm, is_disturbed) in [(PortAlgorithm::Hash, true), (PortAlgorithm::DoubleHash, false)] {
        cpu.sysctls.port_algorithm = algorithm;
        cpu.ports = None;
        let class = |cpu: &mut Cpu, ends: &FourTuple| counters(cpu).class(ends);
        let own = ends(true, 9, 80);
        let other =
            (10..200).map(|host| ends(true, host, 80)).find(|ends| class(cpu, ends) != class(cpu, &own));
        let other = other.unwrap();
        let first = port(cpu, own, |_, _| false).unwrap();
        for _ in 0..7 {
            port(cpu, other, |_, _| false).unwrap();
        }
        let second = port(cpu, own, |_, _| false).unwrap();
        let step = (second + 4000 - first) % 4000;
        assert_eq!(step, if is_disturbed { 8 } else { 1 }, "{algorithm:?}");
    }
    assert!(EPHEMERAL.contains(RANGES[1].ports().start()));
}

#[test]
fn without_the_variable_no_counters_are_kept() {
    let mut bench = Bench::with(1, 1, |_| ());
    let cpu = bench.cpu();
    port(cpu, ends(true, 9, 80), |_, _| false).unwrap();
    assert!(cpu.ports.is_none());
}
