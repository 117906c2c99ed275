//! GRE: keys, checksums, sequence numbers, and what is not carried.

use super::*;

#[test]
fn a_key_tells_tunnels_apart_and_an_unknown_one_is_of_none() {
    for family in FAMILIES {
        let [unkeyed, keyed] = [ENCAPS[1], ENCAPS[2]].map(|encap| Outer(family, encap));
        let stranger = Outer(family, Encap::Gre { key: Some(KEY + 1) });
        for (over_, ifindex) in [(unkeyed, Some(over(unkeyed))), (keyed, Some(over(keyed))), (stranger, None)]
        {
            let mut bench = bench(1, |_| ());
            let net = ifindex.unwrap_or_else(|| over(keyed));
            let inner = build::udp(family.addr(net, 7), family.addr(1, 9), (7, 5), &[0x33; 20]);
            bench.inject(OUTSIDE, from_outside(over_, &outer(over_, (FAR, 1), 0, true, &inner)));
            bench.run();
            match ifindex {
                Some(ifindex) => assert_eq!(counted(&bench, ifindex, IfCount::RxPackets), 1, "{over_:?}"),
                None => assert_eq!(bench.drops(), [(DropReason::TunnelUnknown, 1)], "{over_:?}"),
            }
        }
    }
}

/// A GRE packet with this header before an inner packet.
fn gre_packet(family: Family, header: &wire::gre::Header, inner: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; header.len()];
    header.emit(&mut bytes).unwrap();
    bytes.extend_from_slice(inner);
    if header.has_checksum {
        let checksum = Sum::default().bytes(&bytes).checksum();
        bytes[4..6].copy_from_slice(&checksum.to_be_bytes());
    }
    build::ip(family.addr(OUTSIDE, FAR), family.addr(OUTSIDE, 1), Protocol::GRE, 64, &bytes)
}

#[test]
fn checksums_of_gre_are_verified_and_sequence_numbers_are_passed_over() {
    for (outer, family) in FAMILIES.into_iter().flat_map(|outer| FAMILIES.map(|inner| (outer, inner))) {
        let over_ = Outer(outer, ENCAPS[2]);
        let inner = build::udp(family.addr(over(over_), 7), family.addr(1, 9), (7, 5), &[0x33; 21]);
        let kind = EtherType(ethertype(family));
        let plain = wire::gre::Header::new(kind, Some(KEY));
        let summed = wire::gre::Header { has_checksum: true, ..plain };
        let numbered = wire::gre::Header { sequence: Some(3), ..summed };
        let mut bench = bench(1, |_| ());
        for (header, breaks, good) in
            [(plain, false, true), (summed, false, true), (numbered, false, true), (numbered, true, false)]
        {
            let mut packet = gre_packet(outer, &header, &inner);
            if breaks {
                *packet.last_mut().unwrap() ^= 1;
            }
            bench.inject(OUTSIDE, from_outside(over_, &packet));
            bench.run();
            assert_eq!(packets(&mut bench, 1).len(), usize::from(good), "{header:?}: {:?}", bench.drops());
        }
        assert_eq!(bench.dropped(DropReason::TunnelBadChecksum), 1);
    }
}

#[test]
fn other_gre_is_dropped_by_name() {
    for family in FAMILIES {
        let over_ = Outer(family, ENCAPS[1]);
        let inner = build::udp(family.addr(over(over_), 7), family.addr(1, 9), (7, 5), &[0x33; 20]);
        let kind = EtherType(ethertype(family));
        let frames = gre_packet(family, &wire::gre::Header::new(EtherType(0x6558), None), &inner);
        let good = gre_packet(family, &wire::gre::Header::new(kind, None), &inner);
        let at = ends(over_).network_len();
        let change = |offset: usize, byte: u8| {
            let mut packet = good.clone();
            packet[at + offset] = byte;
            packet
        };
        for (packet, reason) in [
            (frames, DropReason::TunnelNotIp),
            // PPTP's version, and a route of RFC 1701.
            (change(1, 1), DropReason::TunnelMalformed),
            (change(0, 0x40), DropReason::TunnelMalformed),
        ] {
            let mut bench = bench(1, |_| ());
            bench.inject(OUTSIDE, from_outside(over_, &packet));
            bench.run();
            assert_eq!(bench.drops(), [(reason, 1)]);
        }
    }
}
