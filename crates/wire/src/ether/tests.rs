use super::*;
use proptest::prelude::*;
use std::string::ToString as _;

proptest! {
    #[test]
    fn a_header_survives_the_wire(dst: [u8; 6], src: [u8; 6], ethertype in 1536_u16..) {
        let header = Header { dst: Mac(dst), src: Mac(src), ethertype: EtherType(ethertype) };
        prop_assert_eq!(Header::parse(&header.to_bytes()), Ok(header));
    }

    #[test]
    fn etherparse_reads_what_we_write(dst: [u8; 6], src: [u8; 6], ethertype in 1536_u16..) {
        let ours = Header { dst: Mac(dst), src: Mac(src), ethertype: EtherType(ethertype) };
        let theirs =
            etherparse::Ethernet2Header { destination: dst, source: src, ether_type: etherparse::EtherType(ethertype) };
        prop_assert_eq!(theirs.to_bytes(), ours.to_bytes());
    }

    #[test]
    fn a_tag_survives_the_wire(vid in 0_u16..4096, priority in 0_u8..8, dei: bool, inner in 1536_u16..) {
        let tag = Tag::new(vid, EtherType(inner)).with_priority(priority).with_drop_eligible(dei);
        prop_assert_eq!(Tag::parse(&tag.to_bytes()), Ok(tag));
        let theirs = etherparse::SingleVlanHeader::from_bytes(tag.to_bytes());
        prop_assert_eq!(theirs.vlan_id.value(), tag.vid());
        prop_assert_eq!(theirs.pcp.value(), tag.priority());
        prop_assert_eq!(theirs.drop_eligible_indicator, dei);
        prop_assert_eq!(theirs.ether_type.0, inner);
    }

    #[test]
    fn an_address_survives_its_text(octets: [u8; 6]) {
        prop_assert_eq!(Mac(octets).to_string().parse(), Ok(Mac(octets)));
    }

    #[test]
    fn no_text_panics(text: std::string::String) {
        let _ = text.parse::<Mac>();
    }
}

#[test]
fn texts_that_are_not_addresses_are_refused() {
    for text in [
        "",
        "02:00:00:00:00",
        "02:00:00:00:00:01:02",
        "02:00:00:00:00:1g",
        "+2:00:00:00:00:01",
        "002:0:0:0:0:1",
    ] {
        assert_eq!(text.parse::<Mac>(), Err(ParseMacError), "{text}");
    }
    for text in ["02-00-00-00-00-0A", "2:0:0:0:0:a", "02:00:00:00:00:0A"] {
        assert_eq!(text.parse(), Ok(Mac([2, 0, 0, 0, 0, 10])), "{text}");
    }
}

#[test]
fn groups_and_stations_are_told_apart() {
    assert!(Mac::BROADCAST.is_multicast() && Mac::BROADCAST.is_broadcast());
    assert!(Mac([0x33, 0x33, 0, 0, 0, 1]).is_multicast());
    assert!(!Mac([0x33, 0x33, 0, 0, 0, 1]).is_broadcast());
    assert!(Mac([2, 0, 0, 0, 0, 1]).is_unicast() && Mac([2, 0, 0, 0, 0, 1]).is_locally_administered());
    assert!(!Mac::ZERO.is_unicast());
    assert!(Mac([0x01, 0x80, 0xc2, 0, 0, 0x0f]).is_link_constrained());
    assert!(!Mac([0x01, 0x80, 0xc2, 0, 0, 0x10]).is_link_constrained());
}

#[test]
fn a_length_in_place_of_a_type_is_named() {
    let parse = |field: u16| {
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&field.to_be_bytes());
        Header::parse(&frame).map(|header| header.ethertype)
    };
    assert_eq!(parse(0), Err(Error::LengthField { length: 0 }));
    assert_eq!(parse(1500), Err(Error::LengthField { length: 1500 }));
    assert_eq!(parse(1501), Err(Error::UndefinedType { value: 1501 }));
    assert_eq!(parse(1535), Err(Error::UndefinedType { value: 1535 }));
    assert_eq!(parse(1536), Ok(EtherType(1536)));
}

#[test]
fn short_frames_and_tags_say_how_short() {
    assert_eq!(Header::parse(&[0; 13]), Err(Error::Short { need: 14, have: 13 }));
    assert_eq!(Tag::parse(&[0; 3]), Err(Error::Short { need: 4, have: 3 }));
    assert_eq!(Tag::parse(&[0x20, 1, 0, 46]), Err(Error::LengthField { length: 46 }));
}
