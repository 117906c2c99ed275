use super::*;
use proptest::prelude::*;
use std::vec::Vec;

prop_compose! {
    fn headers()(
        (traffic_class, next, hop_limit) in any::<(u8, u8, u8)>(), flow_label in 0_u32..1 << 20, payload_len in 0_u16..1400,
        (src, dst) in any::<([u8; 16], [u8; 16])>(),
    ) -> Header {
        Header {
            traffic_class, flow_label, payload_len, next_header: Protocol(next), hop_limit, src: src.into(), dst: dst.into(),
        }
    }
}

/// The header on the wire with its payload of zeros, and some padding.
fn packet(header: &Header) -> Vec<u8> {
    let mut packet = std::vec![0; HEADER_LEN + usize::from(header.payload_len) + 6];
    header.emit(&mut packet).unwrap();
    packet
}

proptest! {
    #[test]
    fn a_header_survives_the_wire(header in headers()) {
        let packet = packet(&header);
        prop_assert_eq!(Header::parse(&packet), Ok(header));
        let view = View::new(&packet).unwrap();
        prop_assert_eq!(view.traffic_class(), header.traffic_class);
        prop_assert_eq!(view.flow_label(), header.flow_label);
        prop_assert_eq!((view.src(), view.dst()), (header.src, header.dst));
        prop_assert_eq!((view.next_header(), view.hop_limit()), (header.next_header, header.hop_limit));
        prop_assert_eq!(view.payload().len(), usize::from(header.payload_len));
        prop_assert_eq!(view.payload_range().len(), view.payload().len());
    }

    #[test]
    fn etherparse_reads_what_we_write_and_writes_the_same(header in headers()) {
        let packet = packet(&header);
        let (theirs, _) = etherparse::Ipv6Header::from_slice(&packet).unwrap();
        prop_assert_eq!(theirs.traffic_class, header.traffic_class);
        prop_assert_eq!(theirs.flow_label.value(), header.flow_label);
        prop_assert_eq!(theirs.payload_length, header.payload_len);
        prop_assert_eq!(theirs.next_header.0, header.next_header.0);
        prop_assert_eq!(theirs.hop_limit, header.hop_limit);
        prop_assert_eq!((theirs.source, theirs.destination), (header.src.octets(), header.dst.octets()));
        prop_assert_eq!(theirs.to_bytes(), header.to_bytes());
    }

    #[test]
    fn a_packet_cut_anywhere_is_refused(header in headers(), at: prop::sample::Index) {
        let packet = packet(&header);
        let cut = &packet[..at.index(HEADER_LEN + usize::from(header.payload_len))];
        prop_assert!(View::new(cut).is_err());
        prop_assert_eq!(View::new_quoted(cut).is_ok(), cut.len() >= HEADER_LEN);
    }
}

#[test]
fn everything_that_can_be_wrong_has_its_own_error() {
    let good = Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, Protocol::UDP, 3).to_bytes();
    let mut ip4 = good;
    ip4[0] = 0x45;
    assert_eq!(Header::parse(&good[..39]), Err(Error::Short { have: 39 }));
    assert_eq!(Header::parse(&ip4), Err(Error::Version { version: 4 }));
    assert_eq!(Header::parse(&good), Err(Error::Truncated { payload: 3, have: 0 }));
    assert_eq!(Header::parse(&[&good[..], &[0; 2]].concat()), Err(Error::Truncated { payload: 3, have: 2 }));
}

#[test]
fn a_flow_label_of_more_than_20_bits_spoils_nothing_else() {
    let header = Header {
        flow_label: u32::MAX,
        ..Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, Protocol(6), 0)
    };
    let expected = Header { flow_label: 0xf_ffff, ..header };
    assert_eq!(Header::parse(&header.to_bytes()), Ok(expected));
    assert_eq!(header.emit(&mut [0; 39]), Err(NoRoom { need: 40, have: 39 }));
}
