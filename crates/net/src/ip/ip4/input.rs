//! The way in for IPv4 packets.

use core::net::Ipv4Addr;

use pkt::{Flags, Gso, Pkt};
use wire::Protocol;
use wire::addr::{is_martian_destination, is_martian_source_v4};
use wire::checksum::{self, Sum, verify_header_20};
use wire::ip4::{HEADER_LEN, OptionIter};

use super::{dst, src};
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::ip::forward::LINK_GROUP;
use crate::ip::group::{self, is_joined};
use crate::ip::icmp::Problem;
use crate::ip::punt;
use crate::link::tables::Own;
use crate::out::offload;
use crate::turn::cpu::Cpu;
use crate::turn::deliver;
use crate::turn::next::Next;

/// Version 4 and a header of five words: no options.
const NO_OPTIONS: u8 = 0x45;
/// Length of the header without options, as packets note offsets.
const L4: u16 = 20;
const _: () = assert!(L4 as usize == HEADER_LEN);
/// In the word of flags and offset: everything that makes a fragment.
const FRAGMENT: u16 = 0x3fff;

/// Validates an IPv4 packet, and cuts off what follows it in its frame.
///
/// Reads  `pkt`, `cpu.tables`.
/// Writes `pkt.l4`, `pkt.proto`, the packet's length, what is known of its checksum; `key`, where it is to be routed to.
/// Next   [`Next::Route4`], [`Next::Local4`], [`Next::Answer`].
/// Drops  [`DropReason::Ip4Short`], [`DropReason::Ip4BadVersion`], [`DropReason::Ip4BadHeaderLen`],
///        [`DropReason::Ip4BadTotalLen`], [`DropReason::Ip4BadChecksum`], [`DropReason::Ip4MartianSource`],
///        [`DropReason::Ip4MartianDestination`], [`DropReason::Ip4OwnSource`], [`DropReason::UnicastInBroadcast`],
///        [`DropReason::GroupNotJoined`], [`DropReason::ForwardMulticast`].
///
/// # Spec
/// RFC 791 §3.1; RFC 1122 §3.2.1; RFC 1812 §4.2.2, §5.2.2, §5.3.
#[cold]
pub fn input(cpu: &mut Cpu, pkt: &mut Pkt, key: &mut u32) -> Next {
    let next = step_by_step(cpu, pkt, key);
    cpu.counters.add(Count::Ip4In, u64::from(next != Next::Route4));
    next
}

/// [`input`] for a packet that needs no closer look (nearly all are such), whose header begins `at` bytes into it; what
/// stands before it is taken off. `None` for any other, to which nothing has happened then.
///
/// Only [`recognise_checksum`] is left to be done.
#[inline(always)]
#[must_use]
pub fn plain(pkt: &mut Pkt, at: u16, own: &Own) -> Option<u32> {
    plain_but(pkt, at, own, LINK_GROUP.with(Flags::CSUM_PARTIAL))
}

/// [`plain`] for a packet that is not, if that is for its partial checksum alone, which is left to be counted.
#[inline(never)]
#[must_use]
pub fn plain_but_partial(pkt: &mut Pkt, at: u16, own: &Own) -> Option<u32> {
    if !pkt.flags.has(Flags::CSUM_PARTIAL) {
        return None;
    }
    let key = plain_but(pkt, at, own, LINK_GROUP)?;
    pkt.csum_start = pkt.csum_start.wrapping_sub(at);
    Some(key)
}

/// [`plain`], if the packet has none of these flags.
#[inline(always)]
fn plain_but(pkt: &mut Pkt, at: u16, own: &Own, flags: Flags) -> Option<u32> {
    let header = pkt.window(0).get(usize::from(at)..)?.first_chunk::<HEADER_LEN>()?;
    let [_, _, len_hi, len_lo, ..] = *header;
    let [.., src_a, src_b, src_c, src_d, dst_a, dst_b, dst_c, dst_d] = *header;
    let (src, dst) = ([src_a, src_b, src_c, src_d], [dst_a, dst_b, dst_c, dst_d]);
    let (total_len, dst, proto) = (u16::from_be_bytes([len_hi, len_lo]), Ipv4Addr::from(dst), header[9]);
    let src = Ipv4Addr::from(src);
    // First what a packet from a device that computes checksums fails by: it is looked at twice.
    let is_plain = !pkt.flags.any(flags)
        && header[0] == NO_OPTIONS
        && total_len >= L4
        && verify_header_20(header)
        && are_usual(src, dst)
        && !own.may_have4(src)
        && pkt.gso == Gso::None;
    if !is_plain || !pkt.narrow(at, total_len) {
        return None;
    }
    (pkt.l4, pkt.proto) = (L4, proto);
    Some(dst.to_bits())
}

/// Checks an IPv4 header, cuts off what follows the packet in its frame, and notes its protocol; returns the header's length.
pub(crate) fn fit(cpu: &mut Cpu, pkt: &mut Pkt) -> Result<u16, DropReason> {
    let header_len = check_header(pkt)?;
    let ip = pkt.window(0);
    let total_len = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    if total_len != pkt.len() {
        cut_padding(cpu, pkt, header_len, total_len)?;
    }
    (pkt.l4, pkt.proto) = (header_len, pkt.window(0)[9]);
    Ok(header_len)
}

fn step_by_step(cpu: &mut Cpu, pkt: &mut Pkt, key: &mut u32) -> Next {
    let header_len = match fit(cpu, pkt) {
        Ok(len) => len,
        Err(reason) => return Next::Drop(reason),
    };
    recognise_checksum(cpu, pkt);
    let (src, dst) = (src(pkt), dst(pkt));
    let is_odd = header_len != L4 || !are_usual(src, dst) || pkt.flags.any(LINK_GROUP);
    if is_odd || pkt.gso != Gso::None || pkt.is_chained() {
        pkt.flags.set(Flags::ODD);
    }
    *key = dst.to_bits();
    unusual(cpu, pkt).unwrap_or(Next::Route4)
}

/// Length of the header, in bytes, if version, length and checksum are right.
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.2
//# A host MUST verify the IP header checksum on every received
//# datagram and silently discard every datagram that has a bad
//# checksum.
fn check_header(pkt: &Pkt) -> Result<u16, DropReason> {
    if pkt.head_len() < HEADER_LEN {
        return Err(DropReason::Ip4Short);
    }
    let header = super::header(pkt);
    if header[0] != NO_OPTIONS {
        return check_header_with_options(pkt.head());
    }
    if verify_header_20(header) { Ok(L4) } else { Err(DropReason::Ip4BadChecksum) }
}

fn check_header_with_options(head: &[u8]) -> Result<u16, DropReason> {
    let first = head.first().copied().unwrap_or_default();
    let len = u16::from(first & 0xf) * 4;
    let header = head.get(..usize::from(len));
    match header {
        _ if first >> 4 != 4 => Err(DropReason::Ip4BadVersion),
        Some(header) if header.len() >= HEADER_LEN => {
            if Sum::new().bytes(header).is_intact() {
                Ok(len)
            } else {
                Err(DropReason::Ip4BadChecksum)
            }
        }
        _ => Err(DropReason::Ip4BadHeaderLen),
    }
}

/// A frame may be longer than its packet (Ethernet pads to 60 bytes), and must not be shorter.
//= https://www.rfc-editor.org/rfc/rfc1812#section-5.2.2
fn cut_padding(cpu: &mut Cpu, pkt: &mut Pkt, header_len: u16, total_len: usize) -> Result<(), DropReason> {
    if total_len < usize::from(header_len) || total_len > pkt.len() {
        return Err(DropReason::Ip4BadTotalLen);
    }
    if let Some(cut_off) = pkt.truncate(total_len) {
        cpu.pool.give(cut_off);
    }
    Ok(())
}

/// Whether both addresses are of those that are forwarded without a further thought: of hosts, and of no small scope.
///
/// Two looks at a table of first bytes; only behind 169 the second byte matters.
#[inline]
fn are_usual(src: Ipv4Addr, dst: Ipv4Addr) -> bool {
    let [kind, other] = [src, dst].map(|addr| KIND[usize::from(addr.octets()[0])]);
    match kind | other {
        0 => true,
        SOME => !src.is_link_local() && !dst.is_link_local(),
        _ => false,
    }
}

/// Some addresses that begin so are unusual.
const SOME: u8 = 1;
/// All addresses that begin so are unusual.
const ALL: u8 = 2;
/// By first byte: this network, loopback, groups and what is reserved.
static KIND: [u8; 256] = {
    let mut kind = [0; 256];
    (kind[0], kind[127], kind[169]) = (ALL, ALL, SOME);
    let mut first = 224;
    while first < 256 {
        kind[first] = ALL;
        first += 1;
    }
    kind
};

/// Looks closer at a packet with options, or with an address or a frame that is not of the usual kind. `None` if it
/// goes the usual way all the same.
fn unusual(cpu: &Cpu, pkt: &Pkt) -> Option<Next> {
    if let Some(drop) = judge_source(cpu, pkt) {
        return Some(drop);
    }
    match judge_destination(cpu, pkt) {
        Some(Next::Drop(reason)) => Some(Next::Drop(reason)),
        place => judge_options(pkt).or(place),
    }
}

/// Network 0 is refused also as the source of hosts that have no address yet, but for what they ask a DHCP server here.
//= https://www.rfc-editor.org/rfc/rfc1812#section-5.3.7
//= https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3
fn judge_source(cpu: &Cpu, pkt: &Pkt) -> Option<Next> {
    let (src, own) = (src(pkt), &cpu.tables.own);
    // A server of the kernel is asked, too.
    if src.is_unspecified() && (deliver::is_of_new_host(cpu, pkt) || punt::has_twin(cpu, pkt)) {
        return None;
    }
    if is_martian_source_v4(src) || own.is_broadcast(src) {
        return Some(Next::Drop(DropReason::Ip4MartianSource));
    }
    let is_forged = own.has(src.into()) && !pkt.flags.has(Flags::LOCAL);
    is_forged.then_some(Next::Drop(DropReason::Ip4OwnSource))
}

/// A group in a frame for one host is let pass: the link is allowed to deliver it so (RFC 6085).
fn judge_destination(cpu: &Cpu, pkt: &Pkt) -> Option<Next> {
    let (dst, tables) = (dst(pkt), &cpu.tables);
    if dst.is_broadcast() {
        return Some(Next::Local4);
    }
    if dst.is_multicast() {
        return Some(group(cpu, pkt, dst));
    }
    if is_martian_destination(dst.into()) {
        return Some(Next::Drop(DropReason::Ip4MartianDestination));
    }
    //= https://www.rfc-editor.org/rfc/rfc1122#section-3.3.6
    //# A host SHOULD silently discard a datagram that is received via
    //# a link-layer broadcast (see Section 2.4) but does not specify
    //# an IP multicast or broadcast destination address.
    let mismatch = pkt.flags.any(LINK_GROUP) && !tables.own.is_broadcast(dst);
    mismatch.then_some(Next::Drop(DropReason::UnicastInBroadcast))
}

/// Multicast is not forwarded, and that of a link never would be.
fn group(cpu: &Cpu, pkt: &Pkt, group: Ipv4Addr) -> Next {
    if is_joined(cpu, group::Key { ifindex: pkt.rcvif, group: group.into() }) || punt::has_twin(cpu, pkt) {
        return Next::Local4;
    }
    let link_only = matches!(group.octets(), [224, 0, 0, _]);
    let stays = link_only || !cpu.tables.forwarding;
    Next::Drop(if stays { DropReason::GroupNotJoined } else { DropReason::ForwardMulticast })
}

/// Options must be well formed. Source routes are not obeyed. Record route and timestamps are passed on as they are,
/// without our address in them; RFC 1812 §5.3.13.3 lets the operator choose that, and it is the only choice here.
//= https://www.rfc-editor.org/rfc/rfc1812#section-5.3.13
fn judge_options(pkt: &Pkt) -> Option<Next> {
    let options = pkt.head().get(HEADER_LEN..usize::from(pkt.l4)).unwrap_or_default();
    match OptionIter::new(options).summary() {
        Ok(summary) if summary.source_route => Some(Next::Answer(Problem::SourceRouteFailed)),
        Ok(_) => None,
        Err(error) => Some(Next::Answer(Problem::Parameter { pointer: error.pointer().into() })),
    }
}

/// Notes what the interface's configuration lets us know about the transport checksum.
#[inline(never)]
pub fn recognise_checksum(cpu: &mut Cpu, pkt: &mut Pkt) {
    if !offload::may_be_partial(cpu, pkt) {
        return;
    }
    let ip = pkt.window(0);
    let is_fragment = u16::from_be_bytes([ip[6], ip[7]]) & FRAGMENT != 0;
    if is_fragment {
        return;
    }
    let protocol = Protocol(pkt.proto);
    let len = u16::try_from(pkt.len() - usize::from(pkt.l4)).unwrap_or(u16::MAX);
    let partial = checksum::partial_v4(src(pkt), dst(pkt), protocol, len);
    offload::recognise(cpu, pkt, partial);
}

#[cfg(test)]
mod tests;
