use super::*;
use proptest::prelude::*;
use std::vec::Vec;

/// RFC 1071 §1 to the letter: word by word, the last byte padded, carries folded as they come.
fn by_the_book(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
    !bytes.chunks(2).map(word).fold(0, |sum: u16, word| {
        let (sum, carry) = sum.overflowing_add(word);
        sum + u16::from(carry)
    })
}

/// An option-less header with a right checksum.
fn header(seed: [u8; 20]) -> [u8; 20] {
    let mut header = seed;
    header[0] = 0x45;
    set_checksum(&mut header);
    header
}

fn set_checksum(header: &mut [u8; 20]) {
    header[10..12].fill(0);
    let checksum = by_the_book(&header[..]).to_be_bytes();
    header[10..12].copy_from_slice(&checksum);
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![prop::collection::vec(any::<u8>(), 0..2000), prop::collection::vec(Just(0xff), 0..2000)]
}

proptest! {
    #[test]
    fn any_bytes_sum_as_by_the_book(bytes in bytes()) {
        prop_assert_eq!(Sum::new().bytes(&bytes).checksum(), by_the_book(&bytes));
    }

    #[test]
    fn pieces_sum_like_the_whole(bytes in bytes(), a: prop::sample::Index, b: prop::sample::Index) {
        let (a, b) = (a.index(bytes.len() + 1), b.index(bytes.len() + 1));
        let (a, b) = (a.min(b), a.max(b));
        let pieces = Sum::new().bytes(&bytes[..a]).bytes(&bytes[a..b]).bytes(&bytes[b..]);
        prop_assert_eq!(pieces.checksum(), by_the_book(&bytes));
    }

    #[test]
    fn etherparse_computes_the_same_pseudo_headers(
        a: [u8; 4], b: [u8; 4], c: [u8; 16], d: [u8; 16], payload in prop::collection::vec(any::<u8>(), 0..1500),
    ) {
        let len = u16::try_from(payload.len() + 8).unwrap();
        let udp = etherparse::UdpHeader { source_port: 1, destination_port: 2, length: len, checksum: 0 };
        let ours4 = Sum::pseudo_v4(a.into(), b.into(), Protocol::UDP, len).bytes(&udp.to_bytes()).bytes(&payload);
        prop_assert_eq!(ours4.checksum_never_zero(), udp.calc_checksum_ipv4_raw(a, b, &payload).unwrap());
        let ours6 = Sum::pseudo_v6(c.into(), d.into(), Protocol::UDP, u32::from(len)).bytes(&udp.to_bytes()).bytes(&payload);
        prop_assert_eq!(ours6.checksum_never_zero(), udp.calc_checksum_ipv6_raw(c, d, &payload).unwrap());
    }

    #[test]
    fn a_header_verifies_until_a_bit_flips(seed: [u8; 20], bit in 0_usize..160) {
        let mut header = header(seed);
        prop_assert!(verify_header_20(&header));
        prop_assert!(Sum::new().bytes(&header).is_intact());
        header[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!verify_header_20(&header));
        prop_assert!(!Sum::new().bytes(&header).is_intact());
    }

    #[test]
    fn an_update_is_a_new_computation(bytes: [u8; 32], new2: [u8; 2], new4: [u8; 4], new16: [u8; 16]) {
        let before = by_the_book(&bytes);
        let changed = |new: &[u8]| {
            let mut after = bytes;
            after[4..4 + new.len()].copy_from_slice(new);
            by_the_book(&after)
        };
        let old2 = u16::from_be_bytes(bytes[4..6].try_into().unwrap());
        let old4 = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
        let old16 = u128::from_be_bytes(bytes[4..20].try_into().unwrap());
        prop_assert_eq!(update_u16(before, old2, u16::from_be_bytes(new2)), changed(&new2));
        prop_assert_eq!(update_u32(before, old4, u32::from_be_bytes(new4)), changed(&new4));
        prop_assert_eq!(update_u128(before, old16, u128::from_be_bytes(new16)), changed(&new16));
    }

    #[test]
    fn a_completed_partial_checksum_verifies_in_both_families(
        a: [u8; 16], b: [u8; 16], segment in prop::collection::vec(any::<u8>(), 20..1500), start in 0_usize..64,
    ) {
        let len = u16::try_from(segment.len()).unwrap();
        let (a4, b4) = (Ipv4Addr::from_octets(*a.first_chunk().unwrap()), Ipv4Addr::from_octets(*b.first_chunk().unwrap()));
        let pseudo4 = Sum::pseudo_v4(a4, b4, Protocol::TCP, len);
        let pseudo6 = Sum::pseudo_v6(a.into(), b.into(), Protocol::TCP, u32::from(len));
        prop_assert_eq!(pseudo4.folded(), partial_v4(a4, b4, Protocol::TCP, len));
        prop_assert_eq!(pseudo6.folded(), partial_v6(a.into(), b.into(), Protocol::TCP, u32::from(len)));
        for pseudo in [pseudo4, pseudo6] {
            let mut packet = std::vec![0xa5; start];
            packet.extend(&segment);
            packet[start + 16..start + 18].copy_from_slice(&pseudo.folded().to_be_bytes());
            prop_assert!(is_partial(pseudo.folded(), pseudo));
            prop_assert!(complete(&mut packet, start, 16).is_some());
            prop_assert!(pseudo.bytes(&packet[start..]).is_intact());
        }
    }
}

#[test]
fn the_example_of_rfc_1071() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(Sum::new().bytes(&bytes).folded(), 0xddf2);
}

#[test]
fn the_example_of_rfc_1624() {
    // §4: with the equation of RFC 1141 this one gives 0xffff
    assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
}

#[test]
fn a_checksum_of_zero_is_sent_as_ones_where_zero_means_none() {
    let sum = Sum::new().u16(0xffff);
    assert_eq!((sum.checksum(), sum.checksum_never_zero()), (0, 0xffff));
    let mut packet = [0xff, 0xff, 0, 0];
    assert_eq!(complete(&mut packet, 0, 2), Some(0xffff));
}

#[test]
fn a_field_outside_the_packet_is_not_completed() {
    for (start, offset) in [(0, 7), (8, 0), (9, 0), (usize::MAX, 0), (0, usize::MAX), (4, 3)] {
        let mut packet = [1; 8];
        assert_eq!(complete(&mut packet, start, offset), None, "{start} {offset}");
        assert_eq!(packet, [1; 8]);
    }
}

#[test]
fn a_decrement_gives_the_checksum_of_a_new_computation_for_every_ttl_and_checksum() {
    for ttl in [2, 3, 64, 127, 128, 255] {
        for id in 0..=u16::MAX {
            let mut before = header([0; 20]);
            before[8..10].copy_from_slice(&[ttl, 6]);
            before[4..6].copy_from_slice(&id.to_be_bytes());
            set_checksum(&mut before);
            let mut expected = before;
            expected[8] -= 1;
            set_checksum(&mut expected);
            assert!(take_hop(&mut before));
            assert_eq!(before, expected, "ttl {ttl} id {id}");
        }
    }
}

#[test]
fn a_header_with_the_other_zero_still_verifies_after_a_decrement() {
    // 0xffff instead of 0x0000 in the field: no fresh sum gives it, but a router that follows RFC 1141 does
    let mut header = (0..=u16::MAX)
        .map(|id| {
            let [hi, lo] = id.to_be_bytes();
            let mut seed = [0; 20];
            seed[4..6].copy_from_slice(&[hi, lo]);
            seed[8] = 64;
            header(seed)
        })
        .find(|header| header[10..12] == [0, 0])
        .unwrap();
    header[10..12].fill(0xff);
    assert!(verify_header_20(&header));
    assert!(take_hop(&mut header));
    assert!(verify_header_20(&header));
    assert_eq!(header[8], 63);
}

#[test]
fn the_last_hop_is_not_taken() {
    for ttl in [0, 1] {
        let mut before = header([0; 20]);
        before[8] = ttl;
        let mut after = before;
        assert!(!take_hop(&mut after));
        assert_eq!(after, before);
    }
}
