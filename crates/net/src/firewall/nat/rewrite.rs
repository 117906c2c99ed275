//! Changes of addresses and ports in place. Checksums are changed by the difference (RFC 1624), so a packet that was
//! broken stays broken, and is found by its receiver.
//!
//! All that changes lies at even distances from each other, so words are added as they come.

use core::mem::replace;

use pkt::{Flags, Pkt, WINDOW};
use wire::checksum::{Sum, never_zero};
use wire::{Protocol, ip4};

use super::headers::{End, Kind, Shape, Side};

/// Gives the packet another end on `side`. An ICMP error gets the address alone; the packet that it quotes went the other
/// way, and gets the end on its other side.
///
/// Only the address of a fragment that is not the first is changed: that is right if the first is changed too.
///
/// `shape` is what was read of the packet as it is now. Writes its headers, and clears [`Flags::HASH`].
pub fn translate(pkt: &mut Pkt, shape: &Shape, side: Side, to: End) {
    let is_partial = pkt.flags.has(Flags::CSUM_PARTIAL) && pkt.csum_start == shape.l4;
    rewrite(pkt.head_mut(), shape, is_partial, side, to);
    pkt.flags.clear(Flags::HASH.with(Flags::KNOWN));
}

/// Gives the packet another address on `side`, and what it quotes none.
pub(super) fn translate_addr(pkt: &mut Pkt, shape: &Shape, side: Side, addr: u128) {
    let kind = if shape.kind == Kind::Error { Kind::Other } else { shape.kind };
    let to = End { addr, port: shape.end(side).port };
    translate(pkt, &Shape { kind, ..*shape }, side, to);
}

/// Gives what an ICMP error quotes another address on `side`. `shape` is that of the error.
pub(super) fn translate_quoted_addr(pkt: &mut Pkt, shape: &Shape, quote: &Shape, side: Side, addr: u128) {
    let bytes = pkt.head_mut();
    let quoted = put_quoted(bytes, quote, side, End { addr, port: quote.end(side).port });
    fix(bytes, shape, usize::from(shape.l4) + ICMP_CHECKSUM, quoted);
}

/// [`translate`] of bytes. `is_partial`: the checksum of the upper layer is only that of its pseudo-header.
#[inline]
pub fn rewrite(bytes: &mut [u8], shape: &Shape, is_partial: bool, side: Side, to: End) {
    if shape.kind == Kind::Error {
        return rewrite_error(bytes, shape, side, to);
    }
    let addr = put_addr(bytes, shape, side, to.addr);
    if is_partial && shape.kind != Kind::Later {
        put_port(bytes, shape, side, to.port);
        fix_partial(bytes, shape, addr);
    } else {
        put_upper(bytes, shape, side, to.port, addr);
    }
}

/// [`rewrite`] of whole TCP or UDP over IPv4 without options, with a checksum that is not partial, from its first bytes.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
pub(super) fn rewrite_usual(packet: &mut [u8; WINDOW], side: Side, addr: u32, port: u16) {
    let (addr_at, port_at) = if side == Side::Src { (12, 20) } else { (16, 22) };
    let is_udp = packet[9] == Protocol::UDP.0;
    let addr = exchange(packet, addr_at, (addr >> 16) as u16) + exchange(packet, addr_at + 2, addr as u16);
    let port = exchange(packet, port_at, port);
    make_up(packet, IP4_CHECKSUM, addr);
    let at = ip4::HEADER_LEN + if is_udp { 6 } else { 16 };
    if !is_udp {
        make_up(packet, at, addr + port);
    } else if word(packet, at) != 0 {
        make_up(packet, at, addr + port);
        let checksum = never_zero(word(packet, at));
        exchange(packet, at, checksum);
    }
}

/// Puts a word over another; what then is to be added to a sum of words.
#[inline]
fn exchange(packet: &mut [u8; WINDOW], at: usize, new: u16) -> u32 {
    let old = word(packet, at);
    [packet[at], packet[at + 1]] = new.to_be_bytes();
    u32::from(!old) + u32::from(new)
}

/// Makes up in a checksum for what it covers having grown by `difference`.
//= https://www.rfc-editor.org/rfc/rfc1624#section-3
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "it is folded")]
fn make_up(packet: &mut [u8; WINDOW], at: usize, difference: u32) {
    let sum = u32::from(!word(packet, at)) + difference;
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    [packet[at], packet[at + 1]] = (!(sum as u16)).to_be_bytes();
}

#[inline]
const fn word(packet: &[u8; WINDOW], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

#[cold]
fn rewrite_error(bytes: &mut [u8], shape: &Shape, side: Side, to: End) {
    let addr = put_addr(bytes, shape, side, to.addr);
    let quoted = shape.quote(bytes).map_or(0, |quote| put_quoted(bytes, &quote, side.other(), to));
    let sum = Sum::new().u16(quoted);
    let sum = if shape.is_ip4 { sum } else { sum.u16(addr) };
    fix(bytes, shape, usize::from(shape.l4) + ICMP_CHECKSUM, sum.folded());
}

/// Changes a quoted packet; the difference of all of its bytes.
fn put_quoted(bytes: &mut [u8], quote: &Shape, side: Side, to: End) -> u16 {
    let addr = put_addr(bytes, quote, side, to.addr);
    // In an IPv4 header the checksum makes up for the address.
    let header = if quote.is_ip4 { 0 } else { addr };
    let upper = put_upper(bytes, quote, side, to.port, addr);
    Sum::new().u16(header).u16(upper).folded()
}

/// Changes an address, and with it the checksum of an IPv4 header; the difference of the address.
fn put_addr(bytes: &mut [u8], shape: &Shape, side: Side, to: u128) -> u16 {
    let at = usize::from(shape.at);
    let is_dst = side == Side::Dst;
    if !shape.is_ip4 {
        return put(bytes, at + if is_dst { 24 } else { 8 }, to.to_be_bytes());
    }
    let [.., a, b, c, d] = to.to_be_bytes();
    let difference = put(bytes, at + if is_dst { 16 } else { 12 }, [a, b, c, d]);
    fix(bytes, shape, at + IP4_CHECKSUM, difference);
    difference
}

/// Changes port and checksum of the upper layer, under an address that has changed by `addr`; the difference.
fn put_upper(bytes: &mut [u8], shape: &Shape, side: Side, port: u16, addr: u16) -> u16 {
    if shape.kind == Kind::Later {
        return 0;
    }
    let port = put_port(bytes, shape, side, port);
    let has_pseudo_header = shape.protocol != Protocol::ICMP;
    let Some(at) = checksum_at(shape) else { return port };
    let changed = Sum::new().u16(port).u16(if has_pseudo_header { addr } else { 0 }).folded();
    Sum::new().u16(port).u16(fix(bytes, shape, at, changed)).folded()
}

/// Changes the port or identifier; the difference.
fn put_port(bytes: &mut [u8], shape: &Shape, side: Side, port: u16) -> u16 {
    let at = match (shape.kind, side) {
        (Kind::Tcp(_) | Kind::Udp, Side::Src) => 0,
        (Kind::Tcp(_) | Kind::Udp, Side::Dst) => 2,
        (Kind::Query, _) => 4,
        _ => return 0,
    };
    put(bytes, usize::from(shape.l4) + at, port.to_be_bytes())
}

const IP4_CHECKSUM: usize = 10;
const ICMP_CHECKSUM: usize = 2;
const UDP_LITE: Protocol = Protocol(136);
const DCCP: Protocol = Protocol(33);

/// Where the checksum stands that covers ports, identifier or pseudo-header; `None` if there is none. That of SCTP is of
/// another kind, and covers no address.
fn checksum_at(shape: &Shape) -> Option<usize> {
    let at = match shape.protocol {
        Protocol::TCP => 16,
        Protocol::UDP | UDP_LITE | DCCP => 6,
        Protocol::ICMP | Protocol::ICMP6 => ICMP_CHECKSUM,
        _ => return None,
    };
    Some(usize::from(shape.l4) + at)
}

/// Puts bytes over others; by how much the sum of them has changed. Beyond the end nothing is put.
#[inline]
fn put<const N: usize>(bytes: &mut [u8], at: usize, new: [u8; N]) -> u16 {
    let Some(field) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) else { return 0 };
    let old = replace(field, new);
    Sum::new().bytes(&old.map(|byte| !byte)).bytes(&new).folded()
}

/// Makes up in a checksum for what it covers having changed by `difference`; by how much the checksum has.
///
/// UDP's zero says that there is none, and what becomes zero is written as its other form.
#[inline]
fn fix(bytes: &mut [u8], shape: &Shape, at: usize, difference: u16) -> u16 {
    let is_udp = shape.protocol == Protocol::UDP && at > usize::from(shape.l4);
    let Some(field) = bytes.get(at..).and_then(<[u8]>::first_chunk) else { return 0 };
    let old = u16::from_be_bytes(*field);
    if is_udp && old == 0 {
        return 0;
    }
    let new = !Sum::new().u16(!old).u16(difference).folded();
    let new = if is_udp { never_zero(new) } else { new };
    put(bytes, at, new.to_be_bytes())
}

/// Fixes a partial checksum: the sum of the pseudo-header, not complemented, which includes no port.
fn fix_partial(bytes: &mut [u8], shape: &Shape, difference: u16) {
    let field = checksum_at(shape).and_then(|at| bytes.get_mut(at..)).and_then(<[u8]>::first_chunk_mut);
    if let Some(field) = field {
        *field = Sum::new().bytes(&*field).u16(difference).folded().to_be_bytes();
    }
}

#[cfg(test)]
mod tests;
