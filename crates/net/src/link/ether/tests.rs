use wire::ether::{EtherType, Mac};

use crate::base::drop::DropReason;
use crate::testkit::link::{FAMILIES, Family};
use crate::testkit::{Bench, build, mac, peer_mac};

/// A packet that would be forwarded from interface 1 to interface 2.
fn packet(family: Family) -> Vec<u8> {
    build::udp(family.addr(1, 9), family.addr(2, 9), (7, 7), &[0x5a; 30])
}

fn ethertype(family: Family) -> u16 {
    match family {
        Family::V4 => EtherType::IPV4.0,
        Family::V6 => EtherType::IPV6.0,
    }
}

/// An 802.1Q tag, and the type of what follows it.
fn tagged(tci: u16, ethertype: u16, packet: &[u8]) -> Vec<u8> {
    [&tci.to_be_bytes()[..], &ethertype.to_be_bytes(), packet].concat()
}

/// Returns the number of forwarded packets, and the drop reasons of the others, after this frame.
fn fate(frame: Vec<u8>) -> (usize, Vec<DropReason>) {
    let mut bench = Bench::new(2);
    bench.inject(1, frame);
    bench.run();
    let forwarded = bench.sent(2).len();
    (forwarded, bench.drops().into_iter().map(|(reason, _)| reason).collect())
}

fn from_peer(family: Family, ethertype: u16, packet: &[u8]) -> Vec<u8> {
    build::ether(mac(1), peer_mac(family.addr(1, 9)), ethertype, packet)
}

#[test]
fn frames_that_end_within_a_header_are_runts() {
    for family in FAMILIES {
        let whole = from_peer(family, ethertype(family), &packet(family));
        for len in 0..14 {
            assert_eq!(
                fate(whole[..len].to_vec()),
                (0, vec![DropReason::EtherShort]),
                "{family:?}, {len} bytes"
            );
        }
        let short_tag = from_peer(family, EtherType::VLAN.0, &[0, 0, 8]);
        assert_eq!(fate(short_tag), (0, vec![DropReason::EtherShort]), "{family:?}");
    }
}

#[test]
fn a_tag_that_only_carries_a_priority_is_looked_behind_and_others_are_unknown() {
    for family in FAMILIES {
        let (kind, inner) = (ethertype(family), packet(family));
        for (tci, forwarded) in [(0xe000, 1), (0x0000, 1), (0x0001, 0), (0x0fff, 0), (0xefff, 0)] {
            let frame = from_peer(family, EtherType::VLAN.0, &tagged(tci, kind, &inner));
            let reasons = if forwarded == 1 { vec![] } else { vec![DropReason::VlanUnknown] };
            assert_eq!(fate(frame), (forwarded, reasons), "{family:?}, tag {tci:#06x}");
        }
    }
}

#[test]
fn stacked_tags_are_unknown_however_many() {
    for family in FAMILIES {
        let mut packet = packet(family);
        let mut kind = ethertype(family);
        for depth in 1..20 {
            packet = tagged(0, kind, &packet);
            kind = EtherType::VLAN.0;
            let fate = fate(from_peer(family, kind, &packet));
            let expected = if depth == 1 { (1, vec![]) } else { (0, vec![DropReason::VlanUnknown]) };
            assert_eq!(fate, expected, "{family:?}, {depth} tags");
        }
        let outer = from_peer(family, EtherType::QINQ.0, &tagged(0, kind, &packet));
        assert_eq!(fate(outer), (0, vec![DropReason::VlanUnknown]));
    }
}

#[test]
fn a_length_is_not_an_ethertype_and_unknown_types_are_dropped() {
    for family in FAMILIES {
        let of = |kind| fate(from_peer(family, kind, &packet(family)));
        for length in [0, 46, 0x05dc] {
            assert_eq!(of(length), (0, vec![DropReason::EtherLength]), "{length:#06x}");
        }
        for kind in [0x0600, EtherType::LLDP.0, 0xffff] {
            assert_eq!(of(kind), (0, vec![DropReason::EtherUnknownType]), "{kind:#06x}");
        }
    }
}

#[test]
fn what_is_for_others_or_from_a_group_is_not_taken() {
    for family in FAMILIES {
        let (peer, group) = (peer_mac(family.addr(1, 9)), Mac([1, 0, 0x5e, 0, 0, 1]));
        let of = |dst, src| fate(build::ether(dst, src, ethertype(family), &packet(family)));
        assert_eq!(of(peer, peer), (0, vec![DropReason::EtherNotForUs]), "{family:?}");
        assert_eq!(of(mac(2), peer), (0, vec![DropReason::EtherNotForUs]), "our own, of another interface");
        for src in [group, Mac::BROADCAST] {
            assert_eq!(of(mac(1), src), (0, vec![DropReason::EtherMulticastSource]), "{family:?}");
        }
        assert_eq!(of(mac(1), peer), (1, vec![]), "{family:?}");
    }
}

/// EtherLeak, CVE-2003-0001: bytes behind a packet in its frame, or in its buffer before, must not leak.
#[test]
fn padding_is_neither_forwarded_nor_echoed() {
    for family in FAMILIES {
        let (us, peer) = (family.addr(1, 1), family.addr(1, 9));
        let secret = [0xee; 40];
        let mut bench = Bench::new(2);
        for to in [family.addr(2, 9), us] {
            let small = build::echo_request(peer, to, 1, 1, b"hi");
            bench.inject(1, build::frame_from(1, peer, &[&small[..], &secret].concat()));
        }
        bench.run();
        let frames: Vec<Vec<u8>> = [bench.sent(1), bench.sent(2)].concat();
        assert_eq!(frames.len(), 2, "{family:?}: one answered, one forwarded");
        let len = 14 + build::echo_request(peer, us, 1, 1, b"hi").len();
        assert!(
            frames.iter().all(|frame| frame.len() == len && !frame.contains(&0xee)),
            "{family:?}: {frames:x?}"
        );
    }
}

#[test]
fn frames_that_are_longer_than_our_mtu_are_taken_and_never_sent() {
    for family in FAMILIES {
        let mut bench = Bench::new(2);
        let big = build::udp(family.addr(1, 9), family.addr(2, 9), (7, 7), &[0; 1700]);
        bench.inject(1, build::frame_from(1, family.addr(1, 9), &big));
        bench.run();
        assert!(bench.sent(2).iter().all(|frame| frame.len() <= 14 + 1500), "{family:?}");
        let told_or_cut = bench.sent(1).len() + bench.sent(2).len();
        assert!(told_or_cut > 0, "{family:?}");
    }
}

#[test]
fn an_interface_that_is_down_or_only_counts_takes_nothing() {
    for family in FAMILIES {
        let frame = build::frame_from(1, family.addr(1, 9), &packet(family));
        let of = |change: fn(&mut crate::link::tables::Ifnet)| {
            let mut bench = Bench::with(2, 1, |config| change(&mut config.ifs[0]));
            bench.inject(1, frame.clone());
            bench.run();
            bench.drops().into_iter().map(|(reason, _)| reason).collect::<Vec<_>>()
        };
        assert_eq!(of(|ifnet| ifnet.up = false), [DropReason::InterfaceDown], "{family:?}");
        assert_eq!(of(|ifnet| ifnet.monitor = true), [DropReason::Monitor], "{family:?}");
    }
}
