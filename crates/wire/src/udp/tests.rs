use super::*;
use proptest::prelude::*;
use std::vec::Vec;

/// Header and payload with the checksums of both families.
fn datagrams(ports: [u16; 2], a: [u8; 16], b: [u8; 16], payload: &[u8]) -> [Vec<u8>; 2] {
    let len = u16::try_from(HEADER_LEN + payload.len()).unwrap();
    let header = Header { src_port: ports[0], dst_port: ports[1], len, checksum: 0 };
    let v4 = header.with_checksum_v4(four(a), four(b), payload);
    let v6 = header.with_checksum_v6(a.into(), b.into(), payload);
    [v4, v6].map(|header| [&header.to_bytes()[..], payload].concat())
}

fn four(octets: [u8; 16]) -> Ipv4Addr {
    Ipv4Addr::from_octets(*octets.first_chunk().unwrap())
}

fn payloads() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..1000)
}

proptest! {
    #[test]
    fn a_header_survives_the_wire(src_port: u16, dst_port: u16, len in 8_u16..100, checksum: u16) {
        let header = Header { src_port, dst_port, len, checksum };
        let mut segment = [0; 100];
        prop_assert_eq!(header.emit(&mut segment), Ok(8));
        prop_assert_eq!(Header::parse(&segment), Ok(header));
        let theirs = etherparse::UdpHeader { source_port: src_port, destination_port: dst_port, length: len, checksum };
        prop_assert_eq!(theirs.to_bytes(), header.to_bytes());
    }

    #[test]
    fn a_datagram_verifies_in_both_families_until_a_bit_flips(
        ports: [u16; 2], a: [u8; 16], b: [u8; 16], payload in payloads(), at: prop::sample::Index, bit in 0_u8..8,
    ) {
        let verifies = |[v4, v6]: &[Vec<u8>; 2]| [verify_v4(four(a), four(b), v4), verify_v6(a.into(), b.into(), v6)];
        let mut datagrams = datagrams(ports, a, b, &payload);
        prop_assert_eq!(verifies(&datagrams), [true, true]);
        for datagram in &mut datagrams {
            let at = at.index(datagram.len());
            datagram[at] ^= 1 << bit;
            // one bit of a checksum cannot make it zero, unless it was the only one
            prop_assume!(datagram[6..8] != [0, 0]);
        }
        prop_assert_eq!(verifies(&datagrams), [false, false]);
    }

    #[test]
    fn etherparse_computes_the_same_checksums(ports: [u16; 2], a: [u8; 16], b: [u8; 16], payload in payloads()) {
        let [v4, v6] = datagrams(ports, a, b, &payload).map(|datagram| Header::parse(&datagram).unwrap().checksum);
        let len = u16::try_from(HEADER_LEN + payload.len()).unwrap();
        let theirs = etherparse::UdpHeader { source_port: ports[0], destination_port: ports[1], length: len, checksum: 0 };
        prop_assert_eq!(theirs.calc_checksum_ipv4_raw(four(a).octets(), four(b).octets(), &payload).unwrap(), v4);
        prop_assert_eq!(theirs.calc_checksum_ipv6_raw(a, b, &payload).unwrap(), v6);
    }
}

#[test]
fn no_checksum_is_good_in_ipv4_and_bad_in_ipv6() {
    let datagram = Header { src_port: 1, dst_port: 2, len: 8, checksum: 0 }.to_bytes();
    assert!(verify_v4(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, &datagram));
    assert!(!verify_v6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, &datagram));
}

#[test]
fn a_checksum_that_comes_out_as_zero_is_sent_as_ones() {
    let src = Ipv4Addr::UNSPECIFIED;
    let header = Header { src_port: 0, dst_port: 0, len: 10, checksum: 0 };
    // all that is not zero: protocol 17 and twice the length of 10
    let payload = (!(17_u16 + 10 + 10)).to_be_bytes();
    assert_eq!(header.with_checksum_v4(src, src, &payload).checksum, 0xffff);
}

#[test]
fn lengths_are_checked() {
    let parse = |len: u16, have: usize| {
        let mut segment = [0; 20];
        Header { src_port: 1, dst_port: 2, len, checksum: 3 }.emit(&mut segment).unwrap();
        Header::parse(&segment[..have]).map(|header| header.len)
    };
    assert_eq!(parse(8, 7), Err(Error::Short { have: 7 }));
    assert_eq!(parse(7, 20), Err(Error::LenShort { len: 7 }));
    assert_eq!(parse(21, 20), Err(Error::Truncated { len: 21, have: 20 }));
    assert_eq!(parse(12, 20), Ok(12));
}

#[test]
fn a_zero_is_refused_in_ipv6_even_where_the_sum_comes_out_right() {
    let addr = Ipv6Addr::UNSPECIFIED;
    // all that is not zero: protocol 17, twice the length of 10, and what brings their sum to 0xffff
    let header = Header { src_port: 0, dst_port: 0, len: 10, checksum: 0 };
    let datagram = [&header.to_bytes()[..], &(0xffff_u16 - 17 - 10 - 10).to_be_bytes()].concat();
    assert!(Sum::pseudo_v6(addr, addr, Protocol::UDP, 10).bytes(&datagram).is_intact());
    assert!(!verify_v6(addr, addr, &datagram));
}
