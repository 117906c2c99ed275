use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::testkit::build::udp;
use crate::turn::rss::{hash4, hash6};

/// Numbers of CPUs, powers of two and others.
const CPUS: [u16; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 24, 64];

fn bits(addr: IpAddr) -> u128 {
    match addr {
        IpAddr::V4(addr) => addr.to_bits().into(),
        IpAddr::V6(addr) => addr.to_bits(),
    }
}

/// The hash of a real packet.
fn hash(src: (IpAddr, u16), dst: (IpAddr, u16)) -> u16 {
    let packet = [udp(src.0, dst.0, (src.1, dst.1), b"some bytes"), vec![0; 64]].concat();
    let window = packet.first_chunk().unwrap();
    if src.0.is_ipv4() { hash4(window) } else { hash6(window) }
}

/// An inside end, an outside address and a remote end of one family.
fn ends(is_ip4: bool, words: [u32; 3]) -> [IpAddr; 3] {
    words.map(|word| {
        let v6 =
            Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(word) << 32 | u128::from(word.rotate_left(9)));
        if is_ip4 { Ipv4Addr::from_bits(word).into() } else { v6.into() }
    })
}

fn ask([inside, outside, remote]: [IpAddr; 3], inside_port: u16, remote_port: u16) -> Ask {
    Ask {
        inside: fold(bits(inside)) ^ inside_port,
        outside: fold(bits(outside)),
        remote: fold(bits(remote)) ^ remote_port,
        is_plain: true,
        keep: None,
        range: 1024..=u16::MAX,
        seed: 0x1234_5678_9abc_def0,
        dice: 0x0fed_cba9_8765_4321,
    }
}

/// The CPU that owns the flow from inside, and its ports.
fn owner(cpus: u16, ends: [IpAddr; 3], inside_port: u16, remote_port: u16) -> (Placement, CpuId, Ports) {
    let placement = Placement::new(cpus);
    let me = placement.owner(hash((ends[0], inside_port), (ends[2], remote_port)));
    (placement, me, Ports::new(placement, me))
}

proptest! {
    #[test]
    fn replies_to_each_port_that_is_offered_come_to_the_cpu_that_owns_the_flow(
        is_ip4: bool, words: [u32; 3], inside: u16, remote: u16, seed: u64, dice: u64, low: u16, len in 0..3000_u16,
    ) {
        let ends = ends(is_ip4, words);
        for cpus in CPUS {
            let (placement, me, ports) = owner(cpus, ends, inside, remote);
            for range in [1024..=u16::MAX, 0..=u16::MAX, low..=low.saturating_add(len)] {
                let ask = Ask { seed, dice, range: range.clone(), keep: Some(inside), ..ask(ends, inside, remote) };
                for port in ports.candidates(&ask).step_by(7) {
                    prop_assert!(range.contains(&port));
                    let reply = hash((ends[2], remote), (ends[1], port));
                    prop_assert_eq!(placement.owner(reply), me, "{} of {} CPUs", port, cpus);
                }
            }
        }
    }

    #[test]
    fn an_inside_end_has_the_same_port_for_all_remote_ends_on_whichever_cpu_they_are(
        is_ip4: bool, words: [u32; 3], remotes: [u32; 4], inside: u16, seed: u64,
    ) {
        for cpus in CPUS {
            let first = remotes.map(|word| {
                let ends = ends(is_ip4, [words[0], words[1], word]);
                let remote = u16::try_from(word >> 16).unwrap();
                let (_, _, ports) = owner(cpus, ends, inside, remote);
                let ask = Ask { seed, dice: word.into(), ..ask(ends, inside, remote) };
                ports.candidates(&ask).take(4).collect::<Vec<_>>()
            });
            prop_assert!(first.iter().all(|ports| *ports == first[0]), "{} CPUs: {:?}", cpus, first);
        }
    }
}

#[test]
fn a_port_is_kept_where_it_does_not_change_the_cpu() {
    for cpus in CPUS {
        let kept = (0..2000_u16).filter(|n| {
            let inside = 20_000 + n;
            let ends = ends(true, [0x0a00_0001 + u32::from(*n), 0xc000_0201, 0xc633_6401]);
            let (_, _, ports) = owner(cpus, ends, inside, 80);
            let ask = Ask { keep: Some(inside), ..ask(ends, inside, 80) };
            ports.candidates(&ask).next() == Some(inside)
        });
        let (kept, classes) = (kept.count(), 1 << owner(cpus, ends(true, [1, 2, 3]), 1, 1).2.bits);
        assert!(kept * classes >= 1000 && kept * classes <= 4000, "{kept} of 2000 with {cpus} CPUs");
    }
}

#[test]
fn other_seeds_are_other_ports() {
    let ends = ends(true, [0x0a00_0001, 0xc000_0201, 0xc633_6401]);
    let (_, _, ports) = owner(24, ends, 4000, 80);
    let first = |seed: u64| ports.candidates(&Ask { seed, ..ask(ends, 4000, 80) }).next().unwrap();
    let all: HashSet<u16> =
        (0..5000_u64).map(|n| first(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7)).collect();
    assert!(all.len() > 450, "of about 504 ports of the class {}", all.len());
}

#[test]
fn nearly_all_ports_of_an_address_serve_one_remote_end_before_none_is_found() {
    for (cpus, is_ip4) in [(1, true), (2, false), (8, true), (24, false)] {
        let mut taken = vec![HashSet::new(); usize::from(cpus)];
        let mut found = 0;
        for n in 0..60_000_u32 {
            let [host, outside, remote] = [0x0a00_0000 + n / 60, 0xc000_0201, 0xc633_6401];
            let ends = ends(is_ip4, [host, outside, remote]);
            let inside = 10_000 + u16::try_from(n % 60).unwrap() * 11;
            let (_, me, ports) = owner(cpus, ends, inside, 443);
            let random = u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let ask = Ask { seed: random, dice: random.rotate_left(32), ..ask(ends, inside, 443) };
            let taken = &mut taken[me.index()];
            let port = ports.candidates(&ask).find(|port| !taken.contains(port));
            found += u32::from(port.is_some_and(|port| taken.insert(port)));
        }
        assert!(found > 59_700, "{found} of 60,000 flows with {cpus} CPUs");
        let all: HashSet<u16> = taken.iter().flatten().copied().collect();
        assert_eq!(all.len(), usize::try_from(found).unwrap(), "each port is of one CPU");
    }
}

#[test]
fn the_search_for_a_port_ends() {
    for cpus in CPUS {
        let ends = ends(true, [0x0a00_0001, 0xc000_0201, 0xc633_6401]);
        let (_, _, ports) = owner(cpus, ends, 4000, 80);
        let most = usize::try_from(CLASS_MAX + MAX).unwrap();
        assert!(ports.candidates(&ask(ends, 4000, 80)).count() <= most);
        #[expect(clippy::reversed_empty_ranges, reason = "that is asked")]
        let none = Ask { range: 5..=4, ..ask(ends, 4000, 80) };
        assert_eq!(ports.candidates(&none).count(), 0);
    }
}
