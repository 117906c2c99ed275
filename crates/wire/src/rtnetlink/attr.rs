//! Attributes: length, type, value, each on a boundary of four bytes.

use super::Malformed;

/// Length of an attribute's header.
const HEADER: usize = 4;
/// Bits of the type; the others say how the value is to be read.
const TYPE: u16 = 0x3fff;

/// The attributes in some bytes: type and value. It ends with the first that is malformed.
pub(super) fn all(bytes: &[u8]) -> impl Iterator<Item = Result<(u16, &[u8]), Malformed>> {
    let mut left = bytes;
    core::iter::from_fn(move || {
        // What is shorter than a header is padding.
        if left.len() < HEADER {
            return None;
        }
        let found = take(left);
        left = found.map_or(&[][..], |(_, _, rest)| rest);
        Some(found.map(|(kind, value, _)| (kind, value)).ok_or(Malformed))
    })
}

fn take(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let len = usize::from(u16_at(bytes, 0)?);
    let value = bytes.get(HEADER..len)?;
    Some((u16_at(bytes, 2)? & TYPE, value, bytes.get(len.next_multiple_of(4)..).unwrap_or_default()))
}

/// The number that is a value.
pub(super) fn number(value: &[u8]) -> Result<u32, Malformed> {
    <[u8; 4]>::try_from(value).map(u32::from_ne_bytes).map_err(|_| Malformed)
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}
