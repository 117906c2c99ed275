//! Explicit congestion notification: a mark in the IP header instead of a drop.

use pkt::Pkt;
use wire::ether::{EtherType, HEADER_LEN};
use wire::ppp::protocol;
use wire::pppoe::{self, SESSION_LEN};

use crate::link::ether::TAG_LEN;
use crate::link::logical::TAGS_MAX;

/// Where the protocol stands in a PPPoE session's header.
const PPP_AT: usize = pppoe::HEADER_LEN;

/// The network packet in a frame, behind its tags and the header of a PPPoE session: what, and where it begins.
pub(crate) fn network(pkt: &Pkt) -> (EtherType, usize) {
    let head = pkt.window(0);
    let kind =
        |at: usize| head.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |two| u16::from_be_bytes(*two));
    let mut at = HEADER_LEN;
    for _ in 0..TAGS_MAX {
        if !EtherType(kind(at - 2)).is_tag() {
            break;
        }
        at += TAG_LEN;
    }
    match (EtherType(kind(at - 2)), kind(at + PPP_AT)) {
        (EtherType::PPPOE_SESSION, protocol::IPV4) => (EtherType::IPV4, at + SESSION_LEN),
        (EtherType::PPPOE_SESSION, protocol::IPV6) => (EtherType::IPV6, at + SESSION_LEN),
        (other, _) => (other, at),
    }
}

/// Marks the packet in a frame; see [`mark`].
pub(super) fn mark_frame(pkt: &mut Pkt) -> bool {
    let (kind, at) = network(pkt);
    match kind {
        EtherType::IPV4 | EtherType::IPV6 => mark(pkt, at, kind == EtherType::IPV4),
        _ => false,
    }
}

/// Marks the IP packet that begins `at` bytes into `pkt`, if the flow in it understands marks; answers whether it is
/// marked now.
///
/// # Spec
/// RFC 3168 §5: only what is ECN-capable (ECT(0), ECT(1)) may be marked; what is marked stays so.
pub(crate) fn mark(pkt: &mut Pkt, at: usize, is_ip4: bool) -> bool {
    const HEADER_MIN: usize = 20;
    if pkt.head_len() < at + HEADER_MIN {
        return false;
    }
    if is_ip4 { mark4(pkt.window_mut(at)) } else { mark6(pkt.window_mut(at)) }
}

const NOT_ECT: u8 = 0b00;
const CE: u8 = 0b11;

fn mark4(ip: &mut [u8; pkt::WINDOW]) -> bool {
    let old = u16::from_be_bytes([ip[0], ip[1]]);
    if ip[1] & CE == NOT_ECT {
        return false;
    }
    ip[1] |= CE;
    let new = u16::from_be_bytes([ip[0], ip[1]]);
    let sum = wire::checksum::update_u16(u16::from_be_bytes([ip[10], ip[11]]), old, new);
    [ip[10], ip[11]] = sum.to_be_bytes();
    true
}

fn mark6(ip: &mut [u8; pkt::WINDOW]) -> bool {
    // The traffic class lies across the first two bytes; its last two bits are the upper ones of the second's lower half.
    if (ip[1] >> 4) & CE == NOT_ECT {
        return false;
    }
    ip[1] |= CE << 4;
    true
}
