//! Whether a frame is the one that a sequence demands, and how it is shown.
//!
//! All of it must be equal but what a host may choose: the flow label, the identification of fragments, the hop limit
//! outside of neighbour discovery, how much an ICMP error quotes, and from which of its addresses it solicits a
//! neighbour. Checksums are not compared but verified, as they follow from the rest.

use core::fmt::Write;
use core::net::Ipv6Addr;

use wire::icmp6::{self, kind};
use wire::{Protocol, ether, ip6};

/// Where things are in a frame.
const IP: usize = ether::HEADER_LEN;
const LENGTH: core::ops::Range<usize> = IP + 4..IP + 6;
const HOP_LIMIT: usize = IP + 7;
const SOURCE: core::ops::Range<usize> = IP + 8..IP + 24;
const BODY: usize = IP + ip6::HEADER_LEN;
/// Bytes of an ICMPv6 error before what it quotes.
const QUOTE: usize = 8;

/// Whether `came` is what `wanted` demands.
pub(super) fn is_same(wanted: &[u8], came: &[u8]) -> bool {
    let ([Some(a), Some(b)], true) = ([wanted, came].map(masked), is_sound(came)) else { return false };
    let common = if is_error(wanted) { a.len().min(b.len()) } else { a.len().max(b.len()) };
    match (a.get(..common), b.get(..common)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// The type of the ICMPv6 message in a frame, behind a fragment header too.
pub(super) fn icmp_kind(frame: &[u8]) -> Option<u8> {
    let at = icmp_at(frame)?;
    frame.get(at).copied()
}

/// Tells whether the source is the unspecified address.
pub(super) fn is_from_nobody(frame: &[u8]) -> bool {
    frame.get(SOURCE).is_some_and(|src| src.iter().all(|byte| *byte == 0))
}

/// A frame for people: kind, addresses, and all bytes.
pub(super) fn show(frame: &[u8]) -> String {
    let addr = |at: usize| frame.get(at..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets));
    let mut text = match (icmp_kind(frame), addr(SOURCE.start), addr(SOURCE.end)) {
        (Some(kind), Some(src), Some(dst)) => format!("icmp6 type {kind} {src} > {dst} "),
        (None, Some(src), Some(dst)) => format!("{src} > {dst} "),
        _ => String::new(),
    };
    for byte in frame {
        // Writing to a string cannot fail.
        _ = write!(text, "{byte:02x}");
    }
    text
}

fn masked(frame: &[u8]) -> Option<Vec<u8>> {
    let mut frame = frame.to_vec();
    if frame.len() < BODY || frame.get(12..IP)? != [0x86, 0xdd] {
        return None;
    }
    frame[IP + 1] &= 0xf0;
    frame[IP + 2..IP + 4].fill(0);
    if frame[IP + 6] == Protocol::FRAGMENT.0 {
        frame.get_mut(BODY + 4..BODY + 8)?.fill(0);
    }
    let kind = icmp_kind(&frame);
    if !kind.is_some_and(is_discovery) {
        frame[HOP_LIMIT] = 0;
    }
    if kind == Some(kind::NEIGHBOR_SOLICIT) && !is_from_nobody(&frame) {
        frame[SOURCE].fill(1);
    }
    if is_error(&frame) {
        frame[LENGTH].fill(0);
    }
    if let Some(at) = icmp_at(&frame) {
        frame.get_mut(at + 2..at + 4)?.fill(0);
    }
    Some(frame)
}

fn is_discovery(kind: u8) -> bool {
    (kind::ROUTER_SOLICIT..=kind::REDIRECT).contains(&kind)
}

/// An error that quotes something.
fn is_error(frame: &[u8]) -> bool {
    frame.len() > BODY + QUOTE && icmp_kind(frame).is_some_and(icmp6::is_error)
}

/// Where ICMPv6 starts.
fn icmp_at(frame: &[u8]) -> Option<usize> {
    let next = Protocol(*frame.get(IP + 6)?);
    if next == Protocol::ICMP6 {
        return Some(BODY);
    }
    let &[of_fragment, _, offset, more, ..] = frame.get(BODY..)? else { return None };
    let is_first = u16::from_be_bytes([offset, more]) >> 3 == 0;
    (next == Protocol::FRAGMENT && Protocol(of_fragment) == Protocol::ICMP6 && is_first).then_some(BODY + 8)
}

/// Whether its lengths and, if it is whole, its checksum are right, and a quote is a few bytes long at the least.
fn is_sound(frame: &[u8]) -> bool {
    let Some(packet) = frame.get(IP..) else { return false };
    let Ok(view) = ip6::View::new(packet) else { return false };
    if view.next_header() != Protocol::ICMP6 {
        return true;
    }
    let is_quote_useful = !is_error(frame) || frame.len() >= BODY + QUOTE + ip6::HEADER_LEN;
    is_quote_useful && icmp6::verify(view.src(), view.dst(), view.payload())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::{Ip, echo};

    fn frame(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let [a, b] = ["fe80::1", "fe80::2"].map(|addr| addr.parse().unwrap());
        let packet = echo(Ip::new(a, b), true, [1, 2], &[1, 2, 3, 4]);
        let mut frame = [&[2; 12][..], &[0x86, 0xdd], &packet].concat();
        change(&mut frame);
        frame
    }

    #[test]
    fn only_what_a_host_may_choose_may_differ() {
        let wanted = frame(|_| ());
        let may = [(IP + 1, 0x0f), (IP + 2, 0xff), (IP + 3, 0xff), (HOP_LIMIT, 0xff)];
        for (at, mask) in (0..wanted.len()).map(|at| (at, 0xff)).chain(may) {
            let came = frame(|bytes| bytes[at] ^= mask);
            let is_free = may.contains(&(at, mask));
            assert_eq!(is_same(&wanted, &came), is_free, "byte {at}");
        }
        for len in 0..wanted.len() {
            assert!(!is_same(&wanted, &wanted[..len]), "{len} bytes");
        }
    }
}
