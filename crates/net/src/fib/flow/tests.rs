use super::*;
use crate::fib::hops::{Hop, Hops, To};
use crate::turn::rss;

/// The first bytes of a UDP packet.
fn udp(is_v4: bool, src: u16, dst: u16, ports: (u16, u16)) -> [u8; WINDOW] {
    let mut ip = [0; WINDOW];
    let mut put = |at: usize, n: u16| ip[at..at + 2].copy_from_slice(&n.to_be_bytes());
    if is_v4 {
        put(0, 0x4500);
        put(8, 0x4011);
        put(12, 0x0a01);
        put(14, src);
        put(16, 0x0a02);
        put(18, dst);
        put(20, ports.0);
        put(22, ports.1);
    } else {
        put(0, 0x6000);
        put(6, 0x1140);
        put(8, 0x2001);
        put(22, src);
        put(24, 0x2001);
        put(38, dst);
        put(40, ports.0);
        put(42, ports.1);
    }
    ip
}

fn hash(ip: &[u8; WINDOW]) -> u32 {
    if ip[0] >> 4 == 4 { hash4(ip) } else { hash6(ip) }
}

fn place(ip: &[u8; WINDOW]) -> u16 {
    if ip[0] >> 4 == 4 { rss::hash4(ip) } else { rss::hash6(ip) }
}

fn group(members: u8) -> (Hops, crate::fib::HopId) {
    let mut hops = Hops::default();
    let to = |n| To::Gateway { ifindex: 1, via: [10, 0, 0, n].into() };
    let members: Vec<_> = (1..=members).map(|n| hops.push(to(n).into())).collect();
    let id = hops.push(Hop::default());
    hops.set_group(id, &members);
    (hops, id)
}

#[test]
fn the_flows_of_one_cpu_spread_over_all_members() {
    let (hops, id) = group(4);
    for is_v4 in [true, false] {
        for bucket in [0, 1, 77, 127] {
            let flows = (0..u16::MAX).map(|port| udp(is_v4, 1, 2, (port, 53)));
            let of_one_cpu = flows.filter(|ip| place(ip) & 127 == bucket);
            let chosen: Vec<_> = of_one_cpu.map(|ip| hops.member(id, || hash(&ip))).collect();
            assert!(chosen.len() > 200, "flows enough to tell");
            for member in hops
                .group(match hops.get(id).to {
                    To::Group(group) => group,
                    other => panic!("{other:?}"),
                })
                .unwrap()
                .members()
            {
                let share = chosen.iter().filter(|hop| *hop == member).count();
                assert!(share * 4 > chosen.len() / 2, "{share} of {} in bucket {bucket}", chosen.len());
            }
        }
    }
}

#[test]
fn hosts_that_count_up_together_do_not_share_a_hash() {
    for is_v4 in [true, false] {
        let hashes: std::collections::HashSet<_> =
            (0..10_000).map(|n| hash(&udp(is_v4, n, n, (n, n)))).collect();
        assert!(hashes.len() > 9_990, "{} different of 10000", hashes.len());
    }
}

#[test]
fn all_fragments_of_a_datagram_take_one_way() {
    let whole = udp(true, 1, 2, (3, 4));
    let (mut first, mut later) = (whole, udp(true, 1, 2, (0xdead, 0xbeef)));
    first[6] = 0x20;
    later[7] = 1;
    assert_eq!(hash(&first), hash(&later));
    assert_ne!(hash(&first), hash(&whole));
}

#[test]
fn flows_of_one_pair_of_hosts_differ_by_ports_and_by_label() {
    let flow = udp(false, 1, 2, (3, 4));
    let mut other = flow;
    other[3] = 1;
    assert_ne!(hash(&flow), hash(&other));
    for is_v4 in [true, false] {
        assert_ne!(hash(&udp(is_v4, 1, 2, (3, 4))), hash(&udp(is_v4, 1, 2, (4, 3))));
    }
}
