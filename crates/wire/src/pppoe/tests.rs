use std::vec::Vec;

use super::*;

fn one(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(value.len()).unwrap();
    [&kind.to_be_bytes()[..], &len.to_be_bytes(), value].concat()
}

fn packet(code: u8, session: u16, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap();
    [&Header { code, session, len }.to_bytes()[..], payload].concat()
}

/// Packets to start fuzzing from: an offer, a refusal, a frame of a session.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let tags =
        [one(tag::SERVICE_NAME, b""), one(tag::AC_NAME, b"ac"), one(tag::AC_COOKIE, &[7; 16])].concat();
    let error = one(tag::SERVICE_NAME_ERROR, b"no such service");
    [
        packet(code::PADO, 0, &tags),
        packet(code::PADS, 0, &error),
        packet(code::SESSION, 5, &[0xc0, 0x21, 9, 1, 0, 8, 0, 0, 0, 0]),
    ]
    .into()
}

#[test]
fn a_packet_ends_where_its_header_says_and_tags_end_within_it() {
    let tags =
        [one(tag::HOST_UNIQ, &[1, 2]), one(tag::AC_NAME, b"ac"), one(tag::END_OF_LIST, b""), [9; 3].into()]
            .concat();
    let mut bytes = packet(code::PADO, 0, &tags);
    bytes.extend([0; 20]);
    let view = View::parse(&bytes).unwrap();
    assert_eq!((view.code, view.session, view.payload), (code::PADO, 0, &*tags));
    let found = view.tags().unwrap();
    assert_eq!(found.iter().collect::<Vec<_>>(), [(tag::HOST_UNIQ, &[1, 2][..]), (tag::AC_NAME, b"ac")]);
    assert_eq!(
        (found.get(tag::AC_NAME), found.get(tag::AC_COOKIE), found.error()),
        (Some(&b"ac"[..]), None, None)
    );
}

#[test]
fn every_truncation_is_noticed() {
    let tags = [one(tag::SERVICE_NAME, b"isp"), one(tag::AC_SYSTEM_ERROR, b"full")].concat();
    let whole = packet(code::PADS, 0, &tags);
    assert_eq!(
        View::parse(&whole).unwrap().tags().unwrap().error(),
        Some((tag::AC_SYSTEM_ERROR, &b"full"[..]))
    );
    for cut in 0..whole.len() {
        let expected = if cut < HEADER_LEN { Malformed::Short } else { Malformed::Length };
        assert_eq!(View::parse(&whole[..cut]), Err(expected), "{cut}");
    }
    for cut in 1..tags.len() {
        let is_between = cut == one(tag::SERVICE_NAME, b"isp").len();
        assert_eq!(Tags::parse(&tags[..cut]).is_ok(), is_between, "{cut}");
    }
    let other = [&[0x12][..], &whole[1..]].concat();
    assert_eq!(View::parse(&other), Err(Malformed::Version));
}
