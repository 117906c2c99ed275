//! Partial checksums: what a sender leaves in the field when it hopes for hardware to finish.
//!
//! Linux calls it `CHECKSUM_PARTIAL` and the virtio header `NEEDS_CSUM`: the field holds the folded sum of the
//! pseudo-header, not complemented, and two numbers say from where to sum and where to put the result. On veth and
//! TAP such packets arrive as they are, because no hardware was there; seen as checksums they are wrong.

use super::{Sum, never_zero};
use crate::Protocol;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Returns the checksum field of a TCP or UDP segment of `len` bytes while its checksum is partial.
#[inline]
#[must_use]
pub fn partial_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol, len: u16) -> u16 {
    Sum::pseudo_v4(src, dst, protocol, len).folded()
}

/// Returns the partial checksum over IPv6.
#[inline]
#[must_use]
pub fn partial_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: Protocol, len: u32) -> u16 {
    Sum::pseudo_v6(src, dst, protocol, len).folded()
}

/// Whether `field` is the partial checksum of a segment with this pseudo-header.
///
/// One intact segment in 65 536 looks like that too, so ask only where partial checksums are expected, and only
/// after the segment failed to verify.
#[inline]
#[must_use]
pub fn is_partial(field: u16, pseudo: Sum) -> bool {
    field == pseudo.folded()
}

/// Finishes a partial checksum: sums `packet` from `start` to its end and puts the checksum at `start + offset`
/// (virtio's `csum_start` and `csum_offset`). Answers `None`, and changes nothing, if the field lies outside.
///
/// Never leaves a zero, which UDP would take for "no checksum"; other protocols read 0xffff the same.
#[inline]
pub fn complete(packet: &mut [u8], start: usize, offset: usize) -> Option<u16> {
    let segment = packet.get_mut(start..)?;
    let checksum = never_zero(Sum::new().bytes(segment).checksum());
    let field = segment.get_mut(offset..)?.first_chunk_mut::<2>()?;
    *field = checksum.to_be_bytes();
    Some(checksum)
}
