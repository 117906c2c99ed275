use core::net::IpAddr;

use pkt::WINDOW;
use wire::protocol::Protocol;

use super::*;
use crate::testkit::build;
use crate::testkit::link::{FAMILIES, Family};

/// The first 64 bytes of a packet, as the stage sees them.
fn window(packet: &[u8]) -> [u8; WINDOW] {
    let mut window = [0; WINDOW];
    window.iter_mut().zip(packet).for_each(|(to, from)| *to = *from);
    window
}

fn hash(packet: &[u8]) -> u16 {
    if packet[0] >> 4 == 4 { hash4(&window(packet)) } else { hash6(&window(packet)) }
}

fn ends(family: Family) -> (IpAddr, IpAddr) {
    (family.addr(1, 9), family.addr(2, 77))
}

#[test]
fn both_directions_of_a_flow_meet_on_one_cpu() {
    for family in FAMILIES {
        let (a, b) = ends(family);
        for ports in [(1, 2), (443, 50_000), (7, 7)] {
            let there = hash(&build::udp(a, b, ports, b"x"));
            let back = hash(&build::udp(b, a, (ports.1, ports.0), b"a longer answer"));
            assert_eq!(there, back, "{family:?} {ports:?}");
        }
    }
}

#[test]
fn flows_between_two_hosts_are_spread_by_their_ports() {
    for family in FAMILIES {
        let (a, b) = ends(family);
        let hashes: std::collections::HashSet<_> =
            (1..=64).map(|port| hash(&build::udp(a, b, (port, 80), b""))).collect();
        assert_eq!(hashes.len(), 64, "{family:?}: the hash is a bijection of what it folds");
    }
}

#[test]
fn what_has_no_ports_is_placed_by_its_addresses_alone() {
    for family in FAMILIES {
        let (a, b) = ends(family);
        let other = build::ip(a, b, Protocol::GRE, 64, &[1, 2, 3, 4]);
        assert_eq!(hash(&other), hash_pair(a, b), "{family:?}");
        assert_eq!(hash(&build::echo_request(a, b, 1, 2, b"ping")), hash_pair(b, a), "{family:?}");
    }
}

#[test]
fn the_pieces_of_a_datagram_are_placed_together_the_first_one_too() {
    let (a, b) = ends(Family::V4);
    let mut first = build::udp(a, b, (1000, 2000), &[0; 32]);
    first[6] = 0x20;
    let mut later = build::udp(a, b, (0xdead, 0xbeef), &[0; 32]);
    later[7] = 4;
    assert_eq!((hash(&first), hash(&later)), (hash_pair(a, b), hash_pair(a, b)));
    let (a, b) = ends(Family::V6);
    let piece = build::ip(a, b, Protocol::FRAGMENT, 64, &[17, 0, 0, 1, 0, 0, 0, 9, 1, 2, 3, 4]);
    assert_eq!(hash(&piece), hash_pair(a, b));
}

#[test]
fn buckets_are_dealt_evenly_and_more_cpus_get_more_buckets() {
    for cpus in [1, 2, 3, 24, 32, 33, 48, 64, 65, 96, 128, 300, 4096] {
        let placement = Placement::new(cpus);
        let mut share = vec![0_u32; usize::from(cpus)];
        (0..=u16::MAX).for_each(|hash| share[placement.owner(hash).index()] += 1);
        let (least, most) = (share.iter().min().unwrap(), share.iter().max().unwrap());
        assert!(f64::from(*most) <= f64::from(*least) * 1.25, "{cpus} CPUs: {least} to {most}");
    }
}

#[test]
fn any_bytes_have_a_hash() {
    for fill in 0..=u8::MAX {
        let bytes = [fill; WINDOW];
        let hashes = [hash4(&bytes), hash6(&bytes), hash_arp(&bytes)];
        let owners = hashes.map(|hash| Placement::new(3).owner(hash).0);
        assert!(owners.iter().all(|owner| *owner < 3));
    }
}

#[test]
fn a_bucket_is_dealt_to_its_remainder_by_the_number_of_cpus() {
    for cpus in (1..300).chain([1000, 4096, u16::MAX]) {
        let placement = Placement::new(cpus);
        let all = (0..=u16::MAX).step_by(if cpus < 80 { 1 } else { 97 });
        for hash in all.chain([u16::MAX]) {
            let owner = (hash & (placement.buckets() - 1)) % cpus;
            assert_eq!(placement.owner(hash).0, owner, "{cpus} CPUs");
            for cpu in [owner, (owner + 1) % cpus, 0, cpus - 1] {
                assert_eq!(placement.share(CpuId(cpu)).has(hash), cpu == owner, "{cpu} of {cpus} CPUs");
            }
        }
    }
}
