//! Explicit congestion notification through tunnels.

use pkt::WINDOW;
use wire::checksum::update_u16;

/// The two bits of congestion notification (RFC 3168 §5).
pub(super) type Ecn = u8;

const NOT_ECT: Ecn = 0b00;
const ECT_1: Ecn = 0b01;
const ECT_0: Ecn = 0b10;
const CE: Ecn = 0b11;

/// Returns the bits of an IP header.
pub(super) const fn of(ip: &[u8; WINDOW]) -> Ecn {
    match ip[0] >> 4 {
        4 => ip[1] & CE,
        _ => ip[1] >> 4 & CE,
    }
}

/// Returns the bits of an inner header that comes out from behind an outer one; `None` if the packet has to be dropped.
//= https://www.rfc-editor.org/rfc/rfc6040#section-4.2
pub(super) const fn decapsulated(inner: Ecn, outer: Ecn) -> Option<Ecn> {
    match (inner, outer) {
        (NOT_ECT, CE) => None,
        (ECT_0, ECT_1) => Some(ECT_1),
        (ECT_0 | ECT_1, CE) => Some(CE),
        (inner, _) => Some(inner),
    }
}

/// Sets the bits of an IP header, and keeps it valid.
pub(super) fn set(ip: &mut [u8; WINDOW], ecn: Ecn) {
    if of(ip) == ecn {
        return;
    }
    if ip[0] >> 4 != 4 {
        ip[1] = ip[1] & !(CE << 4) | ecn << 4;
        return;
    }
    let old = u16::from_be_bytes([ip[0], ip[1]]);
    ip[1] = ip[1] & !CE | ecn;
    let sum = update_u16(u16::from_be_bytes([ip[10], ip[11]]), old, u16::from_be_bytes([ip[0], ip[1]]));
    [ip[10], ip[11]] = sum.to_be_bytes();
}
