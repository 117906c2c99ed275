use std::vec::Vec;

use super::*;

fn one(kind: u8, value: &[u8]) -> Vec<u8> {
    [&[kind, u8::try_from(value.len() + 2).unwrap()][..], value].concat()
}

fn packet(code: u8, id: u8, data: &[u8]) -> Vec<u8> {
    let [hi, lo] = u16::try_from(data.len() + HEADER_LEN).unwrap().to_be_bytes();
    [&[code, id, hi, lo][..], data].concat()
}

/// Packets to start fuzzing from: a request of LCP, a challenge of CHAP, a request of PAP.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let options =
        [one(lcp::MRU, &[5, 212]), one(lcp::AUTH, &[0xc2, 0x23, 5]), one(lcp::MAGIC, &[1, 2, 3, 4])];
    let challenge = [&[4, 1, 2, 3, 4][..], b"ac"].concat();
    [
        packet(code::CONFIGURE_REQUEST, 1, &options.concat()),
        packet(chap::CHALLENGE, 2, &challenge),
        packet(pap::REQUEST, 3, b"\x04user\x02pw"),
    ]
    .into()
}

#[test]
fn a_packet_ends_where_it_says_and_options_within_it() {
    let options = [one(lcp::MRU, &[5, 212]), one(lcp::MAGIC, &[1, 2, 3, 4]), one(9, b"")].concat();
    let bytes = [packet(code::CONFIGURE_REQUEST, 7, &options), [0; 9].into()].concat();
    let view = View::parse(&bytes).unwrap();
    assert_eq!((view.code, view.id, view.data), (code::CONFIGURE_REQUEST, 7, &*options));
    let found = view.options().unwrap();
    assert_eq!(found.iter().count(), 3);
    assert_eq!(
        (found.get(lcp::MAGIC), found.get(9), found.get(lcp::AUTH)),
        (Some(&[1, 2, 3, 4][..]), Some(&[][..]), None)
    );
}

#[test]
fn every_truncation_and_each_wrong_length_is_noticed() {
    let options = one(lcp::AUTH, &[0xc2, 0x23, 5]);
    let whole = packet(code::CONFIGURE_NAK, 7, &options);
    for cut in 0..whole.len() {
        let expected = if cut < HEADER_LEN { Malformed::Short } else { Malformed::Length };
        assert_eq!(View::parse(&whole[..cut]), Err(expected), "{cut}");
    }
    (1..options.len())
        .for_each(|cut| assert_eq!(Options::parse(&options[..cut]), Err(Malformed::Option), "{cut}"));
    for len in [0, 1, 6, 255] {
        assert_eq!(Options::parse(&[3, len, 1, 2, 3]), Err(Malformed::Option), "{len}");
    }
    for len in [0, 3] {
        assert_eq!(View::parse(&[1, 1, 0, len, 0, 0]), Err(Malformed::Length), "{len}");
    }
    assert_eq!(counted(b"\x02abc"), Some((&b"ab"[..], &b"c"[..])));
    assert_eq!((counted(b"\x03ab"), counted(b"")), (None, None));
}
