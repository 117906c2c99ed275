//! The passes over frames that are only passing through: usual IPv4, and nothing stands between them and their route.
//!
//! Link headers stay on, and are written over where they stand. The words of all IP headers are laid side by side, word by
//! word, so that the checks are one loop without branches, which the compiler makes vector instructions of. What does not pass
//! it goes the way of any other frame, as if it had never been looked at.
#![expect(clippy::cast_possible_truncation, reason = "lengths of frames, and words that are taken apart")]

use pkt::{Gso, Meta, Pkt, PktVec};
use wire::checksum;
use wire::ether::HEADER_LEN;

use super::super::{CHUNK, bits, push};
use super::{Lane, Routed, Scratch, Work, count_received, forward_singly};
use crate::fib::HopId;
use crate::ip::forward::{Family, LINK_GROUP};
use crate::ip::ip4::Ip4;
use crate::link::ether::Port;
use crate::link::tables::{IfIndex, Own, Tables};
use crate::out::ifq;
use crate::turn::cpu::Cpu;
use crate::turn::next::Next;

/// Frames from which on laying headers side by side is worth it.
const LEAST: usize = 8;
/// Positions that are checked together.
const BLOCK: usize = 8;
/// In a word of `refused`: this frame goes another way.
const REFUSED: u32 = 1 << 31;

/// Bytes of the link header.
const LINK: u16 = HEADER_LEN as u16;
/// Bytes of an IP header without options.
const HEADER: u16 = 20;
/// Begin of TTL, protocol and checksum in a frame.
const HOP_WORD: usize = HEADER_LEN + 8;
/// EtherType, version and header length of a usual frame, and the bytes of the frame's fourth word that they are.
const USUAL: u32 = u32::from_le_bytes([0x08, 0x00, 0x45, 0]);
const USUAL_MASK: u32 = u32::from_le_bytes([0xff, 0xff, 0xff, 0]);

/// IP headers, by word and position; each word as it lies in memory, read as little-endian.
pub(super) struct Headers {
    words: [[u32; CHUNK]; 5],
    /// Bytes of the frame.
    len: [u32; CHUNK],
    /// Bytes of the packet, by its header.
    total: [u32; CHUNK],
    /// TTL, protocol and checksum of the packet as it leaves.
    hop_word: [u32; CHUNK],
    /// With the bit [`REFUSED`], or without it.
    refused: [u32; CHUNK],
    /// Frames that go another way, for a moment.
    others: PktVec,
}

impl Default for Headers {
    fn default() -> Self {
        Self {
            words: [[0; CHUNK]; 5],
            len: [0; CHUNK],
            total: [0; CHUNK],
            hop_word: [0; CHUNK],
            refused: [0; CHUNK],
            others: PktVec::new(),
        }
    }
}

/// Whether frames of this CPU that pass through have to do with nothing but their route.
#[inline]
fn is_open(cpu: &Cpu) -> bool {
    let Tables { forwarding, judges_checksums, looks_closer, .. } = *cpu.tables;
    let is_watched = cpu.takes_detour || cpu.watched || judges_checksums || looks_closer;
    forwarding && !is_watched && cpu.placement.cpus() == 1
}

impl Work {
    /// Forwards the frames of a ring that are only passing through. What is left is to go the way of any frame.
    #[inline]
    pub(in super::super) fn pass_through(&mut self, cpu: &mut Cpu, ifindex: IfIndex) {
        let begins_usual = |pkt: &Pkt| fourth_word(pkt) & USUAL_MASK == USUAL;
        if self.frames.len() >= LEAST && is_open(cpu) && self.frames.iter().next().is_some_and(begins_usual) {
            self.forward_frames(cpu, ifindex);
        }
    }

    #[inline(never)]
    fn forward_frames(&mut self, cpu: &mut Cpu, ifindex: IfIndex) {
        let Self { frames, headers, lane4, scratch, .. } = self;
        let count = frames.len().min(CHUNK);
        headers.lay_out(frames, &Port::of(&cpu.tables, ifindex), &cpu.tables.own, ifindex);
        if headers.check(&mut lane4.keys, count) {
            core::mem::swap(frames, &mut lane4.pkts);
        } else {
            headers.part(cpu, frames, lane4);
        }
        let count = lane4.pkts.len();
        if count == 0 {
            return;
        }
        let bytes = headers.len[..count].iter().fold(0, |sum: u32, len| sum.wrapping_add(*len));
        count_received(cpu, ifindex, count, bytes as usize);
        cpu.counters.add(Ip4::RECEIVED, count as u64);
        let Scratch { hops, next, .. } = scratch;
        cpu.tables.fib.lookup4(&lane4.keys[..count], &mut hops[..count]);
        match headers.forward(cpu, &mut lane4.pkts, hops, next) {
            Some((outif, bytes)) => ifq::output_all(cpu, &mut lane4.pkts, outif, bytes),
            None => forward_singly::<Ip4>(cpu, &mut lane4.pkts, hops, next),
        }
    }
}

/// The fourth word of a frame: EtherType, and what an IP header begins with.
#[inline]
fn fourth_word(pkt: &Pkt) -> u32 {
    let ([_, _, _, fourth, ..], _) = pkt.window(0).as_chunks() else { return 0 };
    u32::from_le_bytes(*fourth)
}

impl Headers {
    /// Lays all headers side by side, and refuses frames by what does not stand in them.
    #[inline(always)]
    fn lay_out(&mut self, frames: &mut PktVec, port: &Port, own: &Own, ifindex: IfIndex) {
        frames.for_each_prefetching(|n, pkt| {
            let n = n % CHUNK;
            let header =
                pkt.window(0).get(HEADER_LEN..).and_then(|header| header.as_chunks().0.first_chunk());
            let words: [[u8; 4]; 5] = header.copied().unwrap_or_default();
            let [first, second, third, src, dst] = words.map(u32::from_le_bytes);
            let is_usual = port.is_to(pkt)
                && fourth_word(pkt) & USUAL_MASK == USUAL
                && !pkt.flags.any(LINK_GROUP.with(ifq::SPECIAL))
                && pkt.gso == Gso::None
                && pkt.is_in_window()
                && !own.may_have4(u32::from_be(src).into());
            self.len[n] = pkt.head_len() as u32;
            pkt.rcvif = ifindex;
            self.words[0][n] = first;
            self.words[1][n] = second;
            self.words[2][n] = third;
            self.words[3][n] = src;
            self.words[4][n] = dst;
            self.refused[n] = if is_usual { 0 } else { REFUSED };
        });
    }

    /// [`check`] of the first `count`; whether all pass.
    fn check(&mut self, keys: &mut [u32; CHUNK], count: usize) -> bool {
        let Self { words, len, total, hop_word, refused, .. } = self;
        check((words.each_ref(), len), total, hop_word, refused, keys, count);
        let all = refused.iter().take(count).fold(0, |all, refused| all | refused);
        all & REFUSED == 0
    }

    /// Moves the frames that have passed, and what is noted of them, to the lane, closed up; the others stay.
    #[inline(never)]
    fn part(&mut self, cpu: &mut Cpu, frames: &mut PktVec, lane: &mut Lane<u32>) {
        let Self { words: [_, _, third, ..], len, total, hop_word, refused, others } = self;
        frames.take_each(|at, pkt| {
            let at = at % CHUNK;
            if refused[at] & REFUSED != 0 {
                return push(cpu, others, pkt);
            }
            let to = lane.pkts.len() % CHUNK;
            (len[to], total[to], third[to]) = (len[at], total[at], third[at]);
            (hop_word[to], lane.keys[to]) = (hop_word[at], lane.keys[at]);
            push(cpu, &mut lane.pkts, pkt);
        });
        core::mem::swap(frames, others);
    }

    /// Sends the packets of the lane by their gateways, each in its frame; of the others, [`Routed::ROUTE`] is `next`, and
    /// they are without their link headers. If all leave by one interface: which, and their bytes.
    #[inline(always)]
    fn forward(
        &self,
        cpu: &mut Cpu,
        pkts: &mut PktVec,
        hops: &[HopId; CHUNK],
        next: &mut [Next; CHUNK],
    ) -> Option<(IfIndex, usize)> {
        let count = pkts.len().min(CHUNK);
        let bytes = self.cut_padding(pkts.iter_mut().into_slice(), count);
        let adjs = cpu.adjs.fresh();
        let outif = adjs.get(hops[0]).map_or(0, |adj| adj.outif);
        let (mut missing, mut others) = (0_u64, 0);
        for (at, pkt) in (0..CHUNK).zip(pkts.iter_mut()) {
            let (total, third, hop_word) = (self.total[at], self.words[2][at], self.hop_word[at]);
            let Some(adj) = adjs.gateway(hops[at]).filter(|adj| total <= adj.mtu) else {
                missing |= 1 << at;
                continue;
            };
            others |= adj.outif ^ outif;
            let meta: &mut Meta = pkt;
            (meta.l4, meta.proto, meta.outif) = (LINK + HEADER, (third >> 8) as u8, adj.outif);
            let frame = pkt.window_mut(0);
            if let Some(addrs) = frame.first_chunk_mut() {
                *addrs = adj.addrs;
            }
            if let Some(word) = frame.get_mut(HOP_WORD..).and_then(|from| from.first_chunk_mut()) {
                *word = hop_word.to_le_bytes();
            }
        }
        let sent = (pkts.len() as u64).wrapping_sub(missing.count_ones().into());
        cpu.counters.add(Ip4::FORWARDED, sent);
        if missing == 0 && others == 0 {
            return Some((outif, bytes));
        }
        self.uncover(pkts, missing, next);
        None
    }

    /// Cuts off what follows packets in their frames; answers the bytes of all frames then.
    #[inline(always)]
    fn cut_padding(&self, pkts: &mut [Pkt], count: usize) -> usize {
        let (mut bytes, mut padding) = (0_u32, 0_u32);
        for at in 0..count.min(CHUNK) {
            let framed = self.total[at].wrapping_add(LINK.into());
            bytes = bytes.wrapping_add(framed);
            padding |= self.len[at] ^ framed;
        }
        if padding != 0 {
            let lens =
                self.len.iter().zip(&self.total).map(|(len, total)| (*len, total.wrapping_add(LINK.into())));
            let padded = pkts.iter_mut().zip(lens).filter(|(_, (len, framed))| len != framed);
            padded.for_each(|(pkt, (_, framed))| cut(pkt, 0, framed));
        }
        bytes as usize
    }

    /// Leaves those of the packets that `missing` has bits of as [`plain`](crate::ip::ip4::input::plain) does: without link
    /// headers and what follows them in their frames.
    #[inline(never)]
    fn uncover(&self, pkts: &mut PktVec, missing: u64, next: &mut [Next; CHUNK]) {
        next.fill(Next::Output);
        let pkts = pkts.iter_mut().into_slice();
        for at in bits(missing) {
            let Some(pkt) = pkts.get_mut(at) else { return };
            next[at % CHUNK] = Ip4::ROUTE;
            cut(pkt, LINK, self.total[at % CHUNK]);
            (pkt.l4, pkt.proto) = (HEADER, (self.words[2][at % CHUNK] >> 8) as u8);
        }
    }
}

/// Keeps only these bytes of a packet, of which it is known that they are there.
#[inline(never)]
fn cut(pkt: &mut Pkt, from: u16, len: u32) {
    let _ = pkt.narrow(from, len as u16);
}

/// Checks the first `count` headers as [`plain`](crate::ip::ip4::input::plain) does, or more strictly, and that a hop is left to
/// each; notes destinations, lengths and the words of packets that leave. A number that would be below zero has the bit
/// [`REFUSED`].
///
/// Its arguments are apart so that the compiler knows that they do not overlap.
#[inline(never)]
fn check(
    ([first, second, third, src, dst], len): ([&[u32; CHUNK]; 5], &[u32; CHUNK]),
    total: &mut [u32; CHUNK],
    hop_word: &mut [u32; CHUNK],
    refused: &mut [u32; CHUNK],
    keys: &mut [u32; CHUNK],
    count: usize,
) {
    for at in 0..count.next_multiple_of(BLOCK).min(CHUNK) {
        let [first, second, third, src, dst] = [first[at], second[at], third[at], src[at], dst[at]];
        let bytes = first >> 8 & 0xff00 | first >> 24;
        let mut low =
            bytes.wrapping_sub(HEADER as u32) | len[at].wrapping_sub(bytes).wrapping_sub(LINK as u32);
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
        hop_word[at] = checksum::hop_word_after(third);
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

#[cfg(test)]
mod tests;
