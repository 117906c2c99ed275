use super::*;
use proptest::prelude::*;
use std::vec::Vec;

prop_compose! {
    fn headers()(
        (tos, id, ttl, protocol) in any::<(u8, u16, u8, u8)>(), payload_len in 0_u16..1400,
        (dont_fragment, more_fragments) in any::<(bool, bool)>(), units in 0_u16..0x2000,
        (src, dst) in any::<([u8; 4], [u8; 4])>(), options in prop::collection::vec(any::<u8>(), 0..=OPTIONS_MAX),
    ) -> Header {
        Header {
            tos, payload_len, id, dont_fragment, more_fragments, fragment_offset: units * 8, ttl,
            protocol: Protocol(protocol), src: src.into(), dst: dst.into(),
            options: Options::from_bytes(&options).unwrap(),
        }
    }
}

/// The header on the wire with its payload of zeros, and some padding.
fn packet(header: &Header) -> Vec<u8> {
    let mut packet = std::vec![0; header.header_len() + usize::from(header.payload_len) + 6];
    header.emit(&mut packet).unwrap();
    packet
}

proptest! {
    #[test]
    fn a_header_survives_the_wire(header in headers()) {
        let packet = packet(&header);
        prop_assert_eq!(Header::parse(&packet), Ok(header));
        let view = View::new(&packet).unwrap();
        prop_assert_eq!(view.payload().len(), usize::from(header.payload_len));
        prop_assert_eq!(view.payload_range().len(), view.payload().len());
        prop_assert_eq!(view.is_fragment(), header.more_fragments || header.fragment_offset != 0);
    }

    #[test]
    fn etherparse_reads_what_we_write_and_writes_the_same(header in headers()) {
        let packet = packet(&header);
        let (theirs, _) = etherparse::Ipv4Header::from_slice(&packet).unwrap();
        prop_assert_eq!(theirs.total_len, header.total_len().unwrap());
        prop_assert_eq!(theirs.identification, header.id);
        prop_assert_eq!(theirs.dont_fragment, header.dont_fragment);
        prop_assert_eq!(theirs.more_fragments, header.more_fragments);
        prop_assert_eq!(theirs.fragment_offset.value() * 8, header.fragment_offset);
        prop_assert_eq!(theirs.time_to_live, header.ttl);
        prop_assert_eq!(theirs.protocol.0, header.protocol.0);
        prop_assert_eq!((theirs.source, theirs.destination), (header.src.octets(), header.dst.octets()));
        prop_assert_eq!(theirs.calc_header_checksum(), theirs.header_checksum);
        prop_assert_eq!(&theirs.to_bytes()[..], &packet[..header.header_len()]);
    }

    #[test]
    fn a_packet_cut_anywhere_is_refused(header in headers(), at: prop::sample::Index) {
        let packet = packet(&header);
        let cut = &packet[..at.index(usize::from(header.total_len().unwrap()))];
        prop_assert!(View::new(cut).is_err());
        prop_assert_eq!(View::new_quoted(cut).is_ok(), cut.len() >= header.header_len());
    }
}

fn plain() -> Vec<u8> {
    packet(&Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::UDP, 10))
}

fn refused(change: impl FnOnce(&mut Vec<u8>)) -> Error {
    let mut packet = plain();
    change(&mut packet);
    Header::parse(&packet).unwrap_err()
}

#[test]
fn everything_that_can_be_wrong_has_its_own_error() {
    assert_eq!(refused(|packet| packet.truncate(19)), Error::Short { have: 19 });
    assert_eq!(refused(|packet| packet[0] = 0x65), Error::Version { version: 6 });
    assert_eq!(refused(|packet| packet[0] = 0x44), Error::HeaderLenShort { header: 16 });
    assert_eq!(refused(|packet| packet[0] = 0x4f), Error::HeaderTruncated { header: 60, have: 36 });
    assert_eq!(refused(|packet| packet[3] = 19), Error::TotalLenShort { total: 19, header: 20 });
    assert_eq!(refused(|packet| packet[3] = 37), Error::Truncated { total: 37, have: 36 });
    assert!(matches!(refused(|packet| packet[8] ^= 1), Error::Checksum { .. }));
}

#[test]
fn a_datagram_too_long_is_not_emitted() {
    let header = Header::new([1; 4].into(), [2; 4].into(), Protocol::UDP, 65_516);
    assert_eq!(header.emit(&mut [0; 20]), Err(Error::TooLong { payload: 65_516 }));
    let longest = Header { payload_len: 65_515, ..header };
    assert_eq!(longest.emit(&mut [0; 20]), Ok(20));
    assert_eq!(longest.emit(&mut [0; 19]), Err(Error::NoRoom(crate::NoRoom { need: 20, have: 19 })));
}

#[test]
fn forty_bytes_of_options_fit_and_no_more() {
    assert_eq!(Options::from_bytes(&[1; 40]).map(|options| options.len()), Some(40));
    assert_eq!(Options::from_bytes(&[1; 41]), None);
    assert_eq!(Options::from_bytes(&[1; 37]).map(|options| options.len()), Some(40));
}

fn first(bytes: &[u8]) -> Option<Result<Opt<'_>, OptionError>> {
    OptionIter::new(bytes).next()
}

#[test]
fn each_kind_of_option_is_recognised() {
    let slots = [[10, 0, 0, 1], [10, 0, 0, 2]];
    let route = Route { at: 20, pointer: 8, slots: &slots };
    let list = |kind| [kind, 11, 8, 10, 0, 0, 1, 10, 0, 0, 2];
    assert_eq!(first(&list(7)), Some(Ok(Opt::RecordRoute(route))));
    assert_eq!(first(&list(131)), Some(Ok(Opt::LooseSourceRoute(route))));
    assert_eq!(first(&list(137)), Some(Ok(Opt::StrictSourceRoute(route))));
    assert_eq!(route.next_hop(), Some(Ipv4Addr::new(10, 0, 0, 2)));
    assert_eq!(route.next_at(), Some(27));
    assert_eq!(first(&[148, 4, 0, 0]), Some(Ok(Opt::RouterAlert(0))));
    assert_eq!(first(&[130, 3, 9]), Some(Ok(Opt::Unknown { kind: 130, data: &[9] })));
    let stamps =
        Timestamps { at: 20, pointer: 5, overflow: 2, kind: TimestampKind::AddressAndTime, data: &[0; 8] };
    assert_eq!(first(&[68, 12, 5, 0x21, 0, 0, 0, 0, 0, 0, 0, 0]), Some(Ok(Opt::Timestamps(stamps))));
}

#[test]
fn padding_is_skipped_and_nothing_is_read_behind_the_end() {
    let bytes = [1, 1, 148, 4, 0, 7, 0, 148, 4, 0, 0];
    let all: Vec<_> = OptionIter::new(&bytes).collect();
    assert_eq!(all, [Ok(Opt::RouterAlert(7))]);
    assert_eq!(first(&[1; 40]), None);
}

#[test]
fn a_route_that_is_used_up_is_no_error() {
    for pointer in [8, 9, 255] {
        let bytes = [131, 7, pointer, 10, 0, 0, 1];
        let Some(Ok(Opt::LooseSourceRoute(route))) = first(&bytes) else { panic!("{pointer}") };
        assert_eq!((route.next(), route.next_hop(), route.next_at()), (None, None, None));
    }
}

#[test]
fn bad_options_are_refused_with_a_pointer_to_the_bad_byte() {
    use OptionError::*;
    let cases: [(&[u8], OptionError); 14] = [
        (&[7], NoLength { pointer: 20, kind: 7 }),
        (&[1, 1, 7, 0], LenShort { pointer: 23, kind: 7, len: 0 }),
        (&[7, 1], LenShort { pointer: 21, kind: 7, len: 1 }),
        (&[7, 5, 4, 0], LenOverruns { pointer: 21, kind: 7, len: 5 }),
        (&[7, 2], LenWrong { pointer: 21, kind: 7, len: 2 }),
        (&[148, 3, 0], LenWrong { pointer: 21, kind: 148, len: 3 }),
        (&[148, 6, 0, 0, 0, 0], LenWrong { pointer: 21, kind: 148, len: 6 }),
        (&[68, 3, 5], LenWrong { pointer: 21, kind: 68, len: 3 }),
        (&[131, 7, 3, 0, 0, 0, 0], PointerShort { pointer: 22, kind: 131, value: 3 }),
        (&[137, 7, 5, 0, 0, 0, 0], PointerIntoEnd { pointer: 22, kind: 137, value: 5, len: 7 }),
        (&[7, 6, 4, 0, 0, 0], PointerIntoEnd { pointer: 22, kind: 7, value: 4, len: 6 }),
        (&[68, 8, 4, 0, 0, 0, 0, 0], PointerShort { pointer: 22, kind: 68, value: 4 }),
        (&[68, 8, 5, 1, 0, 0, 0, 0], PointerIntoEnd { pointer: 22, kind: 68, value: 5, len: 8 }),
        (&[68, 8, 5, 2, 0, 0, 0, 0], TimestampFlag { pointer: 23, flag: 2 }),
    ];
    for (bytes, error) in cases {
        let mut options = OptionIter::new(bytes);
        assert_eq!(options.next(), Some(Err(error)), "{bytes:?}");
        assert_eq!(options.next(), None, "{bytes:?}");
    }
}

#[test]
fn an_option_that_may_stand_there_once_stands_there_once() {
    let summary = |bytes| OptionIter::new(bytes).summary();
    let all = [7, 3, 4, 131, 3, 4, 68, 4, 5, 0, 148, 4, 0, 9];
    let expected =
        Summary { source_route: true, record_route: true, timestamps: true, router_alert: Some(9) };
    assert_eq!(summary(&all), Ok(expected));
    assert_eq!(summary(&[7, 3, 4, 1, 7, 3, 4]), Err(OptionError::Twice { pointer: 24 }));
    assert_eq!(summary(&[131, 3, 4, 137, 3, 4]), Err(OptionError::Twice { pointer: 23 }));
    assert_eq!(summary(&[68, 4, 5, 0, 68, 4, 5, 0]), Err(OptionError::Twice { pointer: 24 }));
    assert_eq!(summary(&[9, 2, 9, 2]), Ok(Summary::default()));
}

#[test]
fn an_error_is_a_sentence_with_its_numbers() {
    use std::string::ToString as _;
    let truncated = Error::Truncated { total: 1500, have: 1480 };
    assert_eq!(truncated.to_string(), "the packet has 1480 bytes of a total length of 1500");
    let option = OptionError::LenOverruns { pointer: 21, kind: 7, len: 99 };
    assert_eq!(option.to_string(), "option 7 has a length of 99, beyond the header (byte 21)");
    let no_room = Header::new([1; 4].into(), [2; 4].into(), Protocol::UDP, 0).emit(&mut [0; 7]).unwrap_err();
    assert_eq!(no_room.to_string(), "the header takes 20 bytes, but the buffer has 7");
}
