//! Signatures of RFC 2385, made here once more, so that those of the stack are held to something else than itself.

use core::net::IpAddr;

use super::conn::FourTuple;

/// The kind of the option.
const KIND: u8 = 19;
/// Bytes of a signature.
const LEN: usize = 16;
/// Bytes of a header without options, and where its checksum stands.
const HEADER_LEN: usize = 20;
const CHECKSUM: core::ops::Range<usize> = 16..18;

/// The signature of a segment that goes `tuple`, whatever it bears as its signature and checksum.
pub(super) fn of(segment: &[u8], tuple: FourTuple, secret: &[u8]) -> [u8; LEN] {
    let mut signed = Vec::with_capacity(segment.len() + 80);
    match (tuple.src.0, tuple.dst.0) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let [.., high, low] = segment.len().to_be_bytes();
            signed.extend([src.octets(), dst.octets(), [0, 6, high, low]].as_flattened());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let [.., a, b, c, d] = segment.len().to_be_bytes();
            signed.extend([src.octets(), dst.octets()].as_flattened());
            signed.extend([a, b, c, d, 0, 0, 0, 6]);
        }
        _ => {}
    }
    let header = signed.len();
    signed.extend(segment.iter().take(HEADER_LEN));
    signed[header..][CHECKSUM].fill(0);
    signed.extend(segment.iter().skip(usize::from(segment[12] >> 4) * 4));
    signed.extend(secret);
    md5::compute(signed).0
}

/// The place of the signature in a segment, if there is one.
pub(super) fn place(segment: &mut [u8]) -> Option<&mut [u8; LEN]> {
    let end = usize::from(segment.get(12)? >> 4) * 4;
    let mut at = HEADER_LEN;
    while at < end {
        match segment[at..] {
            [KIND, 18, ..] => return segment.get_mut(at + 2..)?.first_chunk_mut(),
            [0 | 1, ..] => at += 1,
            [_, len @ 2..=40, ..] => at += usize::from(len),
            _ => return None,
        }
    }
    None
}
