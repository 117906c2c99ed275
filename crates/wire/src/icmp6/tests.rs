//! Both ICMPs, because they differ in little but their numbers.

use super::*;
use crate::icmp4;
use core::net::Ipv4Addr;
use proptest::prelude::*;
use std::vec::Vec;

fn payloads() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..600)
}

proptest! {
    #[test]
    fn any_header_survives_the_wire_in_both_families(
        kind: u8, code: u8, rest: [u8; 4], src: [u8; 16], dst: [u8; 16], payload in payloads(),
    ) {
        let (src, dst) = (Ipv6Addr::from(src), Ipv6Addr::from(dst));
        let bytes = [&[kind, code, 0, 0][..], &rest].concat();
        let (four, _) = icmp4::Message::parse_quoted(&bytes).unwrap();
        let whole = [&four.to_bytes(&payload)[..], &payload].concat();
        prop_assert_eq!(icmp4::Message::parse(&whole), Ok((four, &payload[..])));
        prop_assert_eq!((four.kind(), four.code()), (kind, code));
        let (six, _) = Message::parse_quoted(&bytes).unwrap();
        let whole = [&six.to_bytes(src, dst, &payload)[..], &payload].concat();
        prop_assert_eq!(Message::parse(src, dst, &whole), Ok((six, &payload[..])));
        prop_assert_eq!(six.kind(), kind);
    }

    #[test]
    fn etherparse_writes_the_same_echoes(id: u16, seq: u16, a: [u8; 16], b: [u8; 16], payload in payloads()) {
        use etherparse::{Icmpv4Type, Icmpv6Type};
        let theirs = etherparse::IcmpEchoHeader { id, seq };
        let four = [
            (icmp4::Message::EchoRequest { id, seq }, Icmpv4Type::EchoRequest(theirs)),
            (icmp4::Message::EchoReply { id, seq }, Icmpv4Type::EchoReply(theirs)),
        ];
        for (ours, theirs) in four {
            let theirs = etherparse::Icmpv4Header::with_checksum(theirs, &payload);
            prop_assert_eq!(&ours.to_bytes(&payload)[..], &theirs.to_bytes()[..]);
        }
        let six = [
            (Message::EchoRequest { id, seq }, Icmpv6Type::EchoRequest(theirs)),
            (Message::EchoReply { id, seq }, Icmpv6Type::EchoReply(theirs)),
            (Message::PacketTooBig { mtu: u32::from(id) }, Icmpv6Type::PacketTooBig { mtu: u32::from(id) }),
        ];
        for (ours, theirs) in six {
            let theirs = etherparse::Icmpv6Header::with_checksum(theirs, a, b, &payload).unwrap();
            prop_assert_eq!(&ours.to_bytes(a.into(), b.into(), &payload)[..], &theirs.to_bytes()[..]);
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed(id: u16, payload in payloads(), at: prop::sample::Index, bit in 0_u8..8) {
        let mut four = [&icmp4::Message::EchoRequest { id, seq: 1 }.to_bytes(&payload)[..], &payload].concat();
        let (a, b) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
        let mut six = [&Message::EchoRequest { id, seq: 1 }.to_bytes(a, b, &payload)[..], &payload].concat();
        let at = at.index(four.len());
        four[at] ^= 1 << bit;
        six[at] ^= 1 << bit;
        let noticed = matches!(icmp4::Message::parse(&four), Err(icmp4::Error::Checksum { .. }));
        prop_assert!(noticed);
        let noticed = matches!(Message::parse(a, b, &six), Err(Error::Checksum { .. }));
        prop_assert!(noticed);
    }
}

#[test]
fn the_fields_stand_where_the_rfcs_say() {
    let bytes = |kind, code| [kind, code, 0, 0, 10, 0, 5, 220];
    let four = |kind, code| icmp4::Message::parse_quoted(&bytes(kind, code)).unwrap().0;
    let six = |kind, code| Message::parse_quoted(&bytes(kind, code)).unwrap().0;
    let code = icmp4::unreachable::FRAGMENTATION_NEEDED;
    assert_eq!(four(3, 4), icmp4::Message::Unreachable { code, mtu: 1500 });
    assert_eq!(four(5, 1), icmp4::Message::Redirect { code: 1, gateway: Ipv4Addr::new(10, 0, 5, 220) });
    assert_eq!(four(12, 0), icmp4::Message::ParameterProblem { code: 0, pointer: 10 });
    assert_eq!(four(11, 1), icmp4::Message::TimeExceeded { code: icmp4::time_exceeded::REASSEMBLY });
    assert_eq!(six(2, 0), Message::PacketTooBig { mtu: 0x0a00_05dc });
    assert_eq!(six(2, 9), Message::PacketTooBig { mtu: 0x0a00_05dc });
    assert_eq!(six(4, 2), Message::ParameterProblem { code: 2, pointer: 0x0a00_05dc });
    assert_eq!(six(135, 0), Message::Other { kind: kind::NEIGHBOR_SOLICIT, code: 0, rest: [10, 0, 5, 220] });
}

#[test]
fn an_echo_with_a_code_is_no_echo() {
    assert!(matches!(
        icmp4::Message::parse_quoted(&[8, 1, 0, 0, 0, 0, 0, 0]),
        Ok((icmp4::Message::Other { .. }, _))
    ));
    assert!(matches!(Message::parse_quoted(&[128, 1, 0, 0, 0, 0, 0, 0]), Ok((Message::Other { .. }, _))));
}

#[test]
fn errors_are_told_from_questions() {
    let four: Vec<u8> = (0..=255).filter(|&kind| icmp4::is_error(kind)).collect();
    assert_eq!(four, [3, 4, 5, 11, 12]);
    assert!((0..=255).all(|kind| is_error(kind) == (kind <= 127)));
}

#[test]
fn a_quote_fills_the_smallest_packet_everyone_takes() {
    let fits = |quote: usize, header: usize, limit: usize| assert_eq!(header + 8 + quote, limit);
    fits(icmp4::quote_len(9000), 20, 576);
    fits(quote_len(9000), 40, 1280);
    assert_eq!((icmp4::quote_len(548), icmp4::quote_len(549), icmp4::quote_len(28)), (548, 548, 28));
    assert_eq!((quote_len(1232), quote_len(1233), quote_len(48)), (1232, 1232, 48));
}

#[test]
fn a_message_too_short_says_so() {
    let (a, b) = (Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
    assert_eq!(icmp4::Message::parse(&[0; 7]), Err(icmp4::Error::Short { have: 7 }));
    assert_eq!(Message::parse(a, b, &[0; 7]), Err(Error::Short { have: 7 }));
}
