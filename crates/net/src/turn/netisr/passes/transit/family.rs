//! The differences between IPv4 and IPv6 in passing through.

use core::net::Ipv6Addr;

use wire::Protocol;

use super::*;
use crate::ip::ip6;
use crate::turn::netisr::passes::Routed;

/// A family whose frames pass through.
pub(super) trait Transit: Routed {
    /// Bytes of a usual header.
    const HEADER: u16;
    /// Begin of the word of TTL or hop limit in a frame.
    const HOP_WORD: usize;
    /// Bits below the protocol in that word.
    const PROTO: u32;
    /// EtherType and version of a usual frame, in its fourth word, and the bits that they are.
    const USUAL: (u32, u32);

    /// Returns the parts of the scratch space that the passes need.
    fn of_work(work: &mut Work) -> (&mut PktVec, &mut Headers, &mut Lane<Self::Addr>, &mut Scratch);
    /// Lays all headers side by side; notes destinations, lengths and the words of packets that leave; refuses what is not
    /// usual, has no hop left, or is not owned here.
    fn lay_out(
        headers: &mut Headers,
        lane: &mut Lane<Self::Addr>,
        frames: &mut PktVec,
        here: &Here<'_>,
        owns: impl Fn(&Pkt) -> bool,
    );
}

impl Transit for Ip4 {
    const HEADER: u16 = 20;
    const HOP_WORD: usize = HEADER_LEN + 8;
    const PROTO: u32 = 8;
    const USUAL: (u32, u32) =
        (u32::from_le_bytes([0x08, 0x00, 0x45, 0]), u32::from_le_bytes([0xff, 0xff, 0xff, 0]));

    fn of_work(work: &mut Work) -> (&mut PktVec, &mut Headers, &mut Lane<u32>, &mut Scratch) {
        (&mut work.frames, &mut work.headers, &mut work.lane4, &mut work.scratch)
    }

    #[inline(always)]
    fn lay_out(
        headers: &mut Headers,
        lane: &mut Lane<u32>,
        frames: &mut PktVec,
        here: &Here<'_>,
        owns: impl Fn(&Pkt) -> bool,
    ) {
        frames.for_each_prefetching(|n, pkt| {
            let n = n % CHUNK;
            let header =
                pkt.window(0).get(HEADER_LEN..).and_then(|header| header.as_chunks().0.first_chunk());
            let words: [[u8; 4]; 5] = header.copied().unwrap_or_default();
            let [first, second, third, src, dst] = words.map(u32::from_le_bytes);
            let is_usual =
                here.is_usual::<Self>(pkt) && !here.own.may_have4(u32::from_be(src).into()) && owns(pkt);
            headers.len[n] = pkt.head_len() as u32;
            pkt.rcvif = here.ifindex;
            headers.words[0][n] = first;
            headers.words[1][n] = second;
            headers.words[2][n] = src;
            headers.words[3][n] = dst;
            headers.came[n] = third;
            headers.refused[n] = if is_usual { 0 } else { REFUSED };
        });
        let Headers { words, came, leaves, len, total, refused, .. } = headers;
        let count = frames.len().next_multiple_of(BLOCK).min(CHUNK);
        check((words.each_ref(), came, len), total, leaves, refused, &mut lane.keys, count);
    }
}

/// Checks IPv4 headers as [`plain`](crate::ip::ip4::input::plain) does, or more strictly, and that a hop is left to each. A number that
/// would be below zero has the bit [`REFUSED`].
///
/// Its arguments are apart so that the compiler knows that they do not overlap.
#[inline(never)]
fn check(
    ([first, second, src, dst], third, len): ([&[u32; CHUNK]; 4], &[u32; CHUNK], &[u32; CHUNK]),
    total: &mut [u32; CHUNK],
    leaves: &mut [u32; CHUNK],
    refused: &mut [u32; CHUNK],
    keys: &mut [u32; CHUNK],
    count: usize,
) {
    for at in 0..count.min(CHUNK) {
        let [first, second, third, src, dst] = [first[at], second[at], third[at], src[at], dst[at]];
        let bytes = first >> 8 & 0xff00 | first >> 24;
        let mut low =
            bytes.wrapping_sub(Ip4::HEADER as u32) | len[at].wrapping_sub(bytes).wrapping_sub(LINK as u32);
        //= https://www.rfc-editor.org/rfc/rfc1812#section-5.2.2
        //# (2) The IP checksum must be correct.
        let low_halves = (first & 0xffff)
            .wrapping_add(second & 0xffff)
            .wrapping_add(third & 0xffff)
            .wrapping_add(src & 0xffff)
            .wrapping_add(dst & 0xffff);
        let high_halves = (first >> 16)
            .wrapping_add(second >> 16)
            .wrapping_add(third >> 16)
            .wrapping_add(src >> 16)
            .wrapping_add(dst >> 16);
        let sum = low_halves.wrapping_add(high_halves);
        let folded = (sum & 0xffff).wrapping_add(sum >> 16);
        low |= (folded ^ 0xffff).wrapping_neg();
        //= https://www.rfc-editor.org/rfc/rfc1812#section-5.3.1
        //# If the TTL is reduced to zero (or less), the
        //# packet MUST be discarded
        low |= (third & 0xff).wrapping_sub(2);
        low |= unusual_net(src) | unusual_net(dst);
        refused[at] |= low;
        total[at] = bytes;
        leaves[at] = checksum::hop_word_after(third);
        keys[at] = u32::from_be(dst);
    }
}

/// Has the bit [`REFUSED`] if the first byte of an address is that of a network of which some are unusual.
#[inline(always)]
const fn unusual_net(addr: u32) -> u32 {
    let net = addr & 0xff;
    // This network, loopback, link-local and a few others; groups and what is reserved.
    let some = net.wrapping_sub(1) | (net ^ 127).wrapping_sub(1) | (net ^ 169).wrapping_sub(1);
    some | 223_u32.wrapping_sub(net)
}

impl Transit for Ip6 {
    const HEADER: u16 = 40;
    const HOP_WORD: usize = HEADER_LEN + 4;
    const PROTO: u32 = 16;
    const USUAL: (u32, u32) =
        (u32::from_le_bytes([0x86, 0xdd, 0x60, 0]), u32::from_le_bytes([0xff, 0xff, 0xf0, 0]));

    fn of_work(work: &mut Work) -> (&mut PktVec, &mut Headers, &mut Lane<u128>, &mut Scratch) {
        (&mut work.frames, &mut work.headers, &mut work.lane6, &mut work.scratch)
    }

    #[inline(always)]
    fn lay_out(
        headers: &mut Headers,
        lane: &mut Lane<u128>,
        frames: &mut PktVec,
        here: &Here<'_>,
        owns: impl Fn(&Pkt) -> bool,
    ) {
        frames.for_each_prefetching(|n, pkt| {
            let n = n % CHUNK;
            let header: Option<&[u8; 40]> =
                pkt.window(0).get(HEADER_LEN..).and_then(|header| header.first_chunk());
            let header = header.unwrap_or(&[0; 40]);
            let [_, _, _, _, b4, b5, next_header, hop_limit, addrs @ ..] = header;
            let ([src, dst], _) = addrs.as_chunks::<16>() else { return };
            let (came, dst) = (u32::from_le_bytes([*b4, *b5, *next_header, *hop_limit]), *dst);
            let total = u32::from(u16::from_be_bytes([*b4, *b5])).wrapping_add(Self::HEADER.into());
            let len = pkt.head_len() as u32;
            //= https://www.rfc-editor.org/rfc/rfc8200#section-3
            //# When forwarding, the packet is discarded if Hop
            //# Limit was zero when received or is decremented to zero.
            let is_usual = here.is_usual::<Self>(pkt)
                && *hop_limit > 1
                && *next_header != Protocol::HOP_BY_HOP.0
                && ip6::input::begins_usual(src[0])
                && ip6::input::begins_usual(dst[0])
                && !here.own.may_have6(Ipv6Addr::from(*src))
                && total.wrapping_add(LINK.into()) <= len
                && owns(pkt);
            pkt.rcvif = here.ifindex;
            headers.len[n] = len;
            headers.total[n] = total;
            headers.came[n] = came;
            headers.leaves[n] = came.wrapping_sub(1 << 24);
            headers.refused[n] = if is_usual { 0 } else { REFUSED };
            lane.keys[n] = u128::from_be_bytes(dst);
        });
    }
}
