use super::*;
use core::net::IpAddr;
use proptest::prelude::*;
use std::vec::Vec;

struct Vector {
    src: &'static str,
    sport: u16,
    dst: &'static str,
    dport: u16,
    microsoft: [u32; 2],
    symmetric: [u32; 2],
    cpu_of_24: u16,
}

#[rustfmt::skip]
const VECTORS: [Vector; 8] = [
    Vector { src: "66.9.149.187", sport: 2794, dst: "161.142.100.80", dport: 1766, microsoft: [0x323e8fc2, 0x51ccc178], symmetric: [0x0a590a59, 0x9fcc9fcc], cpu_of_24: 4 },
    Vector { src: "199.92.111.2", sport: 14230, dst: "65.69.140.83", dport: 4739, microsoft: [0xd718262a, 0xc626b0ea], symmetric: [0x7ba97ba9, 0x60d760d7], cpu_of_24: 15 },
    Vector { src: "24.19.198.95", sport: 12898, dst: "12.22.207.184", dport: 38024, microsoft: [0xd2d0a5de, 0x5c2b394a], symmetric: [0xa55aa55a, 0x3a3e3a3e], cpu_of_24: 14 },
    Vector { src: "38.27.205.30", sport: 48228, dst: "209.142.163.6", dport: 2217, microsoft: [0x82989176, 0xafc7327f], symmetric: [0xf8a7f8a7, 0xd26ed26e], cpu_of_24: 14 },
    Vector { src: "153.39.163.191", sport: 44251, dst: "202.188.127.2", dport: 1303, microsoft: [0x5d1809c5, 0x10e828a2], symmetric: [0x57545754, 0xf23ef23e], cpu_of_24: 14 },
    Vector { src: "3ffe:2501:200:1fff::7", sport: 2794, dst: "3ffe:2501:200:3::1", dport: 1766, microsoft: [0x2cc18cd5, 0x40207d3d], symmetric: [0x867e867e, 0x13eb13eb], cpu_of_24: 11 },
    Vector { src: "3ffe:501:8::260:97ff:fe40:efab", sport: 14230, dst: "ff02::1", dport: 4739, microsoft: [0x0f0c461c, 0xdde51bbf], symmetric: [0x2def2def, 0x36913691], cpu_of_24: 17 },
    Vector { src: "3ffe:1900:4545:3:200:f8ff:fe21:67cf", sport: 44251, dst: "fe80::200:f8ff:fe21:67cf", dport: 38024, microsoft: [0x4b61e985, 0x02d1feef], symmetric: [0xc85ec85e, 0x08090809], cpu_of_24: 9 },
];

/// Input for both families from one body: bytes of the address pair, bytes with ports, and the fold of the pair.
fn input(src: IpAddr, dst: IpAddr, ports: [u16; 2]) -> (Vec<u8>, Vec<u8>, u16) {
    let (all, addrs, fold) = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => (input4(src, dst, ports).to_vec(), 8, fold4(src, dst)),
        (IpAddr::V6(src), IpAddr::V6(dst)) => (input6(src, dst, ports).to_vec(), 32, fold6(src, dst)),
        _ => panic!("mixed families"),
    };
    (all[..addrs].to_vec(), all, fold)
}

#[test]
fn the_published_vectors_hold_by_bits_by_table_and_by_fold() {
    let (microsoft, symmetric_table) = (Table::new(&MICROSOFT_KEY), Table::new(&SYMMETRIC_KEY));
    for v in &VECTORS {
        let (addrs, all, fold) = input(v.src.parse().unwrap(), v.dst.parse().unwrap(), [v.sport, v.dport]);
        assert_eq!([hash(&MICROSOFT_KEY, &addrs), hash(&MICROSOFT_KEY, &all)], v.microsoft, "{}", v.src);
        assert_eq!([microsoft.hash(&addrs), microsoft.hash(&all)], v.microsoft, "{}", v.src);
        assert_eq!([hash(&SYMMETRIC_KEY, &addrs), hash(&SYMMETRIC_KEY, &all)], v.symmetric, "{}", v.src);
        assert_eq!([symmetric_table.hash(&addrs), symmetric_table.hash(&all)], v.symmetric, "{}", v.src);
        let with_ports = symmetric(fold ^ fold_ports(v.sport, v.dport));
        assert_eq!([widen(symmetric(fold)), widen(with_ports)], v.symmetric, "{}", v.src);
        assert_eq!((with_ports & 127) % 24, v.cpu_of_24, "{}", v.src);
    }
}

#[test]
fn the_papers_example_depends_on_direction_only_under_microsofts_key() {
    let (a, b) = (Ipv4Addr::new(192, 168, 1, 1), Ipv4Addr::new(192, 168, 1, 2));
    let there = input4(a, b, [3007, 2003]);
    let back = input4(b, a, [2003, 3007]);
    let ports_only = input4(a, b, [2003, 3007]);
    assert_eq!(hash(&MICROSOFT_KEY, &there), 0x9e51_fb2a);
    assert_eq!(hash(&MICROSOFT_KEY, &back), 0x4c47_2df4);
    for tuple in [there, back, ports_only] {
        assert_eq!(hash(&SYMMETRIC_KEY, &tuple), 0xe501_e501);
    }
    assert_eq!(widen(symmetric(fold4(a, b) ^ fold_ports(3007, 2003))), 0xe501_e501);
    assert_eq!(widen(symmetric(fold4(b, a))), 0xadfb_adfb);
}

#[test]
fn the_tables_have_their_known_entries() {
    let even = [(0x01, 0xad36_ad36), (0x80, 0x6d5a_6d5a), (0xff, 0xed12_ed12)];
    let odd = [(0x01, 0x36ad_36ad), (0x80, 0x5a6d_5a6d), (0xff, 0x12ed_12ed)];
    for (byte, entry) in even {
        assert_eq!(widen(EVEN[byte]), entry);
    }
    for (byte, entry) in odd {
        assert_eq!(widen(ODD[byte]), entry);
    }
}

#[test]
fn the_symmetric_hash_is_a_bijection_with_even_low_bits() {
    let mut seen = std::vec![false; 0x1_0000];
    let mut buckets = [0; 128];
    for fold in 0..=u16::MAX {
        let hash = usize::from(symmetric(fold));
        assert!(!core::mem::replace(&mut seen[hash], true), "{hash:#x} twice");
        buckets[hash & 127] += 1;
    }
    assert_eq!(buckets, [512; 128]);
}

#[test]
fn each_hash_leads_back_to_its_fold() {
    assert!((0..=u16::MAX).all(|fold| fold_of(symmetric(fold)) == fold));
}

#[test]
fn the_hash_of_two_folds_together_is_their_hashes_together() {
    let mut bits = (0..16).map(|bit| 1 << bit);
    assert!(
        (0..=u16::MAX).all(|fold| bits.all(|bit| symmetric(fold ^ bit) == symmetric(fold) ^ symmetric(bit)))
    );
}

#[test]
fn the_symmetric_key_is_its_seed_twenty_times() {
    assert_eq!(SYMMETRIC_KEY.to_vec(), [0x6d, 0x5a].repeat(20));
}

proptest! {
    #[test]
    fn a_fold_hashes_like_the_bits_in_both_families_and_directions(a: [u8; 16], b: [u8; 16], sport: u16, dport: u16) {
        let four = |octets: [u8; 16]| IpAddr::from([octets[0], octets[1], octets[2], octets[3]]);
        for (src, dst) in [(four(a), four(b)), (a.into(), b.into())] {
            let (addrs, all, fold) = input(src, dst, [sport, dport]);
            prop_assert_eq!(widen(symmetric(fold)), hash(&SYMMETRIC_KEY, &addrs));
            prop_assert_eq!(widen(symmetric(fold ^ fold_ports(sport, dport))), hash(&SYMMETRIC_KEY, &all));
            let (_, back, _) = input(dst, src, [dport, sport]);
            prop_assert_eq!(hash(&SYMMETRIC_KEY, &all), hash(&SYMMETRIC_KEY, &back));
        }
    }

    #[test]
    fn a_table_hashes_like_the_bits(key: [u8; 20], input in prop::collection::vec(any::<u8>(), 0..=INPUT_MAX)) {
        let mut whole = [0; KEY_LEN];
        whole[..20].copy_from_slice(&key);
        whole[20..].copy_from_slice(&key);
        prop_assert_eq!(Table::new(&whole).hash(&input), hash(&whole, &input));
    }
}
