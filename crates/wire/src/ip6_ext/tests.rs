use super::*;
use crate::icmp6::parameter_problem::*;
use core::net::Ipv6Addr;
use proptest::prelude::*;
use std::vec::Vec;

/// A packet with these bytes behind its header.
fn packet(next: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap();
    let header = ip6::Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, Protocol(next), len);
    [&header.to_bytes()[..], payload].concat()
}

fn walked(role: Role, next: u8, payload: &[u8]) -> Result<Chain, Error> {
    walk(&ip6::View::new(&packet(next, payload)).unwrap(), role)
}

/// Parses as both roles.
fn both(next: u8, payload: &[u8]) -> Result<Chain, Error> {
    let host = walked(Role::Host, next, payload);
    assert_eq!(host, walked(Role::Router, next, payload));
    host
}

fn problem(code: u8, pointer: u32) -> IcmpReply {
    IcmpReply::UnlessMulticast(icmp6::Message::ParameterProblem { code, pointer })
}

#[test]
fn without_extension_headers_the_upper_layer_follows() {
    for upper in [6, 17, 50, 58, 59, 132, 200] {
        let chain = both(upper, &[0; 20]).unwrap();
        assert_eq!((chain.upper, chain.upper_at, chain.next_header_at), (Protocol(upper), 40, 6));
        assert_eq!((chain.headers, chain.has_upper(), chain.is_fragment()), (0, true, false));
    }
}

#[test]
fn a_chain_of_every_header_ends_at_the_upper_layer() {
    #[rustfmt::skip]
    let bytes = [
        60, 0, 5, 2, 0, 1, 1, 0,                        // 40: hop-by-hop, router alert 1
        43, 0, 1, 4, 0, 0, 0, 0,                        // 48: destination options, padding
        51, 2, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, // 56: routing, used up
        44, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 9, 9, 9, 9, // 80: authentication
        17, 0, 0, 0, 0, 0, 0, 5,                        // 96: atomic fragment
        0, 1, 0, 2, 0, 8, 0, 0,
    ];
    let chain = both(0, &bytes).unwrap();
    assert_eq!(
        (chain.upper, chain.upper_at, chain.next_header_at, chain.headers),
        (Protocol::UDP, 104, 96, 5)
    );
    assert_eq!(chain.router_alert, Some(1));
    assert_eq!(chain.auth_at, Some(80));
    let routing = chain.routing.unwrap();
    assert_eq!((routing.at, routing.header), (56, Routing { kind: 0, segments_left: 0 }));
    let fragment = chain.fragment.unwrap();
    assert_eq!((fragment.at, fragment.next_header_at, fragment.header.id), (96, 80, 5));
    assert!(!chain.is_fragment() && chain.has_upper());
}

#[test]
fn the_walk_ends_where_encryption_or_nothing_follows() {
    for upper in [50, 59] {
        let chain = both(60, &[upper, 0, 1, 4, 0, 0, 0, 0, 0xff, 0xff]).unwrap();
        assert_eq!((chain.upper, chain.upper_at), (Protocol(upper), 48));
    }
}

#[test]
fn a_later_fragment_has_no_upper_layer() {
    let chain = both(44, &[60, 0, 0, 16, 0, 0, 0, 9, 1, 255, 0xc1, 0xff, 0, 0, 0, 0]).unwrap();
    assert!(chain.is_fragment() && !chain.has_upper());
    assert_eq!((chain.upper, chain.upper_at), (Protocol::DESTINATION_OPTIONS, 48));
    let header = Fragment { next_header: Protocol(60), offset: 16, more: false, id: 9 };
    assert_eq!(chain.fragment.unwrap().header, header);
}

#[test]
fn a_first_fragment_is_looked_through_but_not_judged() {
    let bad_option = [17, 0, 0xc1, 4, 0, 0, 0, 0];
    let bytes = [&[60, 0, 0, 1, 0, 0, 0, 9], &bad_option[..], &[0; 8]].concat();
    let chain = both(44, &bytes).unwrap();
    assert!(chain.is_fragment() && chain.has_upper());
    assert_eq!((chain.upper, chain.upper_at), (Protocol::UDP, 56));
}

#[test]
fn an_atomic_fragment_is_judged_like_the_whole_packet_it_is() {
    let bytes = [60, 0, 0, 0, 0, 0, 0, 9, 59, 0, 0xc1, 4, 0, 0, 0, 0];
    let expected = Error::UnknownOption { pointer: 50, kind: 0xc1, action: Action::ReportUnlessMulticast };
    assert_eq!(walked(Role::Host, 44, &bytes), Err(expected));
    assert!(walked(Role::Router, 44, &bytes).is_ok());
}

#[test]
fn a_first_fragment_without_all_headers_is_told_so() {
    for (next, len) in [(6, 19), (17, 7), (58, 7), (60, 0), (60, 7), (43, 4), (51, 1)] {
        let bytes = [&[next, 0, 0, 1, 0, 0, 0, 9][..], &[next; 20][..len]].concat();
        assert_eq!(both(44, &bytes), Err(Error::IncompleteFirstFragment), "{next} {len}");
    }
    assert_eq!(Error::IncompleteFirstFragment.answer(), problem(INCOMPLETE_CHAIN, 0));
    assert!(both(44, &[&[6, 0, 0, 1, 0, 0, 0, 9][..], &[0; 20]].concat()).is_ok());
}

#[test]
fn a_source_route_is_refused_by_its_destination_and_seen_by_a_router() {
    let bytes = [59, 2, 0, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
    let error = walked(Role::Host, 43, &bytes).unwrap_err();
    assert_eq!(error, Error::RoutingHeader { pointer: 42, kind: 0, segments_left: 1 });
    assert_eq!(error.answer(), problem(ERRONEOUS_FIELD, 42));
    let chain = walked(Role::Router, 43, &bytes).unwrap();
    assert!(chain.routing.unwrap().header.is_source_route());
}

#[test]
fn the_bits_of_an_unknown_options_type_decide_for_whoever_must_read_it() {
    let answers = [
        (0x1e, None),
        (0x5e, Some(IcmpReply::Silence)),
        (
            0x9e,
            Some(IcmpReply::Always(icmp6::Message::ParameterProblem { code: UNKNOWN_OPTION, pointer: 43 })),
        ),
        (0xde, Some(problem(UNKNOWN_OPTION, 43))),
    ];
    for (kind, answer) in answers {
        let bytes = [59, 0, 0, kind, 3, 9, 9, 9];
        let of = |role, next| walked(role, next, &bytes).err().map(|error| error.answer());
        assert_eq!(of(Role::Host, 0), answer, "{kind:#x}");
        assert_eq!(of(Role::Router, 0), answer, "{kind:#x}");
        assert_eq!(of(Role::Host, 60), answer, "{kind:#x}");
        assert_eq!(of(Role::Router, 60), None, "{kind:#x}");
    }
}

#[test]
fn hop_by_hop_options_anywhere_else_are_an_unknown_next_header() {
    let error = both(60, &[0, 0, 1, 4, 0, 0, 0, 0, 59, 0, 1, 4, 0, 0, 0, 0]).unwrap_err();
    assert_eq!(error, Error::HopByHopNotFirst { pointer: 40 });
    assert_eq!(error.answer(), problem(UNKNOWN_NEXT_HEADER, 40));
}

#[test]
fn options_and_headers_that_reach_beyond_are_refused() {
    let option = both(0, &[59, 0, 1, 5, 0, 0, 0, 0]).unwrap_err();
    assert_eq!(option, Error::OptionOverruns { pointer: 43, kind: 1, len: 5 });
    assert_eq!(option.answer(), problem(ERRONEOUS_FIELD, 43));
    let no_length = both(0, &[59, 0, 1, 3, 0, 0, 0, 1]).unwrap_err();
    assert_eq!(no_length, Error::OptionOverruns { pointer: 48, kind: 1, len: 0 });
    for (next, need) in [(0, 16), (60, 16), (43, 16), (51, 12)] {
        let error = both(next, &[59, 1, 0, 0, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(error, Error::Truncated { pointer: 40, need, have: 8 }, "{next}");
        assert_eq!(error.answer(), IcmpReply::Silence);
    }
    assert_eq!(both(44, &[59; 7]), Err(Error::Truncated { pointer: 40, need: 8, have: 7 }));
    assert_eq!(both(60, &[]), Err(Error::Truncated { pointer: 40, need: 2, have: 0 }));
    assert_eq!(both(51, &[59, 0, 0, 0, 0, 0, 0, 0]), Err(Error::AuthenticationLen { pointer: 41 }));
}

#[test]
fn eight_headers_are_walked_and_the_ninth_is_not() {
    let chain = |number: usize| {
        let mut bytes = [60, 0, 1, 4, 0, 0, 0, 0].repeat(number);
        bytes[(number - 1) * 8] = 59;
        both(60, &bytes)
    };
    assert_eq!(chain(HEADERS_MAX).map(|chain| chain.headers), Ok(8));
    assert_eq!(chain(HEADERS_MAX + 1), Err(Error::TooManyHeaders { pointer: 40 + 7 * 8 }));
}

#[test]
fn two_hundred_and_fifty_six_bytes_of_options_are_read_and_no_more() {
    let header = |next, units: u8| {
        let mut bytes = std::vec![0; (usize::from(units) + 1) * 8];
        bytes[..2].copy_from_slice(&[next, units]);
        bytes
    };
    // 126 + 126 + 6 bytes of Pad1 are two too many; with one header of 6 less they fit
    let fits = [header(60, 15), header(59, 15)].concat();
    let more = [header(60, 15), header(60, 15), header(59, 0)].concat();
    assert!(walked(Role::Host, 0, &fits).is_ok());
    assert_eq!(walked(Role::Host, 0, &more), Err(Error::TooManyOptionBytes { pointer: 40 + 256 + 1 }));
    assert!(walked(Role::Router, 0, &more).is_ok(), "a router does not read them");
    assert_eq!(walked(Role::Router, 0, &header(59, 32)), Err(Error::TooManyOptionBytes { pointer: 41 }));
}

#[test]
fn a_second_fragment_header_is_refused() {
    let bytes = [44, 0, 0, 0, 0, 0, 0, 1, 59, 0, 0, 0, 0, 0, 0, 2];
    assert_eq!(both(44, &bytes), Err(Error::TwoFragmentHeaders { pointer: 40 }));
}

#[test]
fn the_data_of_a_fragment_has_to_fit() {
    let first = Fragment { next_header: Protocol::UDP, offset: 0, more: true, id: 1 };
    let last = Fragment { offset: 65_528, more: false, ..first };
    assert_eq!(first.check_data(40, 0, 1232), Ok(()));
    assert_eq!(first.check_data(40, 0, 1233), Err(Error::FragmentLen { len: 1233 }));
    assert_eq!(Error::FragmentLen { len: 1233 }.answer(), problem(ERRONEOUS_FIELD, 4));
    assert_eq!(last.check_data(40, 0, 7), Ok(()));
    assert_eq!(last.check_data(40, 0, 8), Err(Error::FragmentOverflow { pointer: 42, end: 65_536 }));
    assert_eq!(last.check_data(48, 8, 7), Err(Error::FragmentOverflow { pointer: 50, end: 65_543 }));
}

proptest! {
    #[test]
    fn a_fragment_header_survives_the_wire(next: u8, units in 0_u16..0x2000, more: bool, id: u32) {
        let header = Fragment { next_header: Protocol(next), offset: units * 8, more, id };
        prop_assert_eq!(Fragment::from_bytes(&header.to_bytes()), header);
        let theirs = etherparse::Ipv6FragmentHeader::new(
            etherparse::IpNumber(next), units.try_into().unwrap(), more, id);
        prop_assert_eq!(theirs.to_bytes(), header.to_bytes());
    }

    #[test]
    fn etherparse_finds_the_same_upper_layer(kinds in prop::collection::vec(prop::sample::select(std::vec![43_u8, 44, 51, 60]), 0..6)) {
        // in an order that etherparse takes: each kind once, destination options last
        let mut kinds = kinds;
        kinds.sort_unstable_by_key(|kind| [60, 43, 44, 51].iter().position(|other| other == kind));
        kinds.dedup();
        let nexts = kinds.iter().skip(1).copied().chain([17]);
        let header = |(kind, next): (&u8, u8)| match kind {
            44 => [next, 0, 0, 0, 0, 0, 0, 1].to_vec(),
            51 => [next, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 9, 9, 9, 9].to_vec(),
            43 => [next, 0, 2, 0, 0, 0, 0, 0].to_vec(),
            _ => [next, 0, 1, 4, 0, 0, 0, 0].to_vec(),
        };
        let mut bytes: Vec<u8> = kinds.iter().zip(nexts).flat_map(header).collect();
        bytes.extend([0; 8]);
        let first = kinds.first().copied().unwrap_or(17);
        let chain = both(first, &bytes).unwrap();
        let (theirs, upper, rest) =
            etherparse::Ipv6Extensions::from_slice(etherparse::IpNumber(first), &bytes).unwrap();
        prop_assert_eq!(upper.0, chain.upper.0);
        prop_assert_eq!(40 + bytes.len() - rest.len(), chain.upper_at);
        prop_assert_eq!(theirs.fragment.is_some(), chain.fragment.is_some());
    }
}
