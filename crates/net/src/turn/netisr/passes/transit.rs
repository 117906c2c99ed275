//! The passes over frames that are only passing through: usual ones, and nothing stands between them and their route.
//!
//! Link headers stay on, and are written over where they stand. The words of all IPv4 headers are laid side by side, word by
//! word, so that the checks are one loop without branches, which the compiler makes vector instructions of; headers of IPv6
//! have no sum, and are checked one by one. A frame that does not pass goes the way of any other, as if it had never been looked
//! at.
#![expect(clippy::cast_possible_truncation, reason = "lengths of frames, and words that are taken apart")]

use pkt::{Flags, Gso, Meta, Pkt, PktVec};
use wire::checksum;
use wire::ether::HEADER_LEN;

use self::family::Transit;
use super::super::{CHUNK, bits, push};
use super::{Lane, Scratch, Work, count_received, forward_singly};
use crate::fib::HopId;
use crate::ip::forward::LINK_GROUP;
use crate::ip::ip4::Ip4;
use crate::ip::ip6::Ip6;
use crate::link::ether::Port;
use crate::link::tables::{IfIndex, Own, Tables};
use crate::out::ifq;
use crate::turn::cpu::Cpu;
use crate::turn::next::Next;
use crate::turn::rss;

mod family;

/// Most chunks that go the way of any frame since half of one has done so, again and again: frames that this CPU does not own, or
/// that are for this host, are hardly ever looked at twice.
const PAUSE_MAX: u8 = 128;
/// Frames from which on laying headers side by side is worth it.
const LEAST: usize = 8;
/// Positions that are checked together.
const BLOCK: usize = 8;
/// In a word of `refused`: this frame goes another way.
const REFUSED: u32 = 1 << 31;
/// Bytes of the link header.
const LINK: u16 = HEADER_LEN as u16;

/// IP headers by position. Words are as they lie in memory, read as little-endian.
pub(super) struct Headers {
    /// Words of IPv4 headers, but for the third.
    words: [[u32; CHUNK]; 4],
    /// The word with TTL or hop limit, as it came.
    came: [u32; CHUNK],
    /// Bytes 8 to 11 (IPv4) or 4 to 7 (IPv6) as they leave.
    leaves: [u32; CHUNK],
    /// Bytes of the frame.
    len: [u32; CHUNK],
    /// Bytes of the packet, by its header.
    total: [u32; CHUNK],
    /// With the bit [`REFUSED`], or without it.
    refused: [u32; CHUNK],
    /// Frames that go another way, for a moment.
    others: PktVec,
    /// Interface of which few frames of the last chunk passed through.
    paused: IfIndex,
    /// Chunks of it that are not looked at.
    pause: u8,
    /// Chunks that it will be the next time.
    next_pause: u8,
}

impl Default for Headers {
    fn default() -> Self {
        let none = [0; CHUNK];
        let [came, leaves, len, total, refused] = [none; 5];
        Self {
            words: [none; 4],
            came,
            leaves,
            len,
            total,
            refused,
            others: PktVec::new(),
            paused: 0,
            pause: 0,
            next_pause: 1,
        }
    }
}

/// Properties of this CPU and interface that frames are compared with.
struct Here<'t> {
    port: Port,
    own: &'t Own,
    ifindex: IfIndex,
}

impl Here<'_> {
    /// Whether nothing about a frame is unusual besides its header.
    #[inline(always)]
    fn is_usual<F: Transit>(&self, pkt: &Pkt) -> bool {
        self.port.is_to(pkt)
            && begins_usual::<F>(pkt)
            && !pkt.flags.any(LINK_GROUP.with(ifq::SPECIAL))
            && pkt.gso == Gso::None
            && pkt.is_in_window()
    }
}

/// Whether the fourth word of a frame is the usual one.
#[inline(always)]
fn begins_usual<F: Transit>(pkt: &Pkt) -> bool {
    let ([_, _, _, fourth, ..], _) = pkt.window(0).as_chunks() else { return false };
    let (usual, mask) = F::USUAL;
    u32::from_le_bytes(*fourth) & mask == usual
}

/// Whether frames of this CPU that pass through have to do with nothing but their route.
#[inline]
fn is_open(cpu: &Cpu) -> bool {
    let Tables { forwarding, judges_checksums, looks_closer, .. } = *cpu.tables;
    forwarding && !(cpu.takes_detour || cpu.watched || judges_checksums || looks_closer)
}

impl Work {
    /// Forwards the frames of a ring that are only passing through. What is left is to go the way of any frame.
    #[inline(always)]
    pub(in super::super) fn pass_through(&mut self, cpu: &mut Cpu, ifindex: IfIndex) {
        if (LEAST..=CHUNK).contains(&self.frames.len()) {
            self.pass_many(cpu, ifindex);
        }
    }

    #[inline(never)]
    fn pass_many(&mut self, cpu: &mut Cpu, ifindex: IfIndex) {
        if !is_open(cpu) {
            return;
        }
        let is_paused = self.headers.paused == ifindex;
        if is_paused && let Some(less) = self.headers.pause.checked_sub(1) {
            self.headers.pause = less;
            return;
        }
        let all = self.frames.len();
        let passed = self.of_family::<Ip4>(cpu, ifindex).wrapping_add(self.of_family::<Ip6>(cpu, ifindex));
        let Headers { paused, pause, next_pause, .. } = &mut self.headers;
        if passed < all / 2 {
            *pause = if is_paused { *next_pause } else { 1 };
            (*paused, *next_pause) = (ifindex, pause.saturating_mul(2).min(PAUSE_MAX));
        } else if is_paused {
            *next_pause = 1;
        }
    }

    /// Does so if the first frame is of this family; answers how many were sent.
    #[inline]
    fn of_family<F: Transit>(&mut self, cpu: &mut Cpu, ifindex: IfIndex) -> usize {
        if self.frames.len() >= LEAST && self.frames.iter().next().is_some_and(begins_usual::<F>) {
            self.forward_frames::<F>(cpu, ifindex)
        } else {
            0
        }
    }

    #[inline(never)]
    fn forward_frames<F: Transit>(&mut self, cpu: &mut Cpu, ifindex: IfIndex) -> usize {
        let (frames, headers, lane, Scratch { hops, next }) = F::of_work(self);
        let here = Here { port: Port::of(&cpu.tables, ifindex), own: &cpu.tables.own, ifindex };
        // A CPU that is alone owns everything, and its loop does not even ask.
        if cpu.placement.cpus() == 1 {
            F::lay_out(headers, lane, frames, &here, |_| true);
        } else {
            rss::hash_frames(frames);
            let share = cpu.share;
            let owns = |pkt: &Pkt| pkt.flags.has(Flags::HASH) && share.has(pkt.hash);
            F::lay_out(headers, lane, frames, &here, owns);
        }
        let refused = headers.refused.iter().take(frames.len()).fold(0, |all, refused| all | refused);
        if refused & REFUSED == 0 {
            core::mem::swap(frames, &mut lane.pkts);
        } else {
            headers.part(cpu, frames, lane);
        }
        let count = lane.pkts.len().min(CHUNK);
        if count == 0 {
            return 0;
        }
        let bytes = headers.len[..count].iter().fold(0, |sum: u32, len| sum.wrapping_add(*len));
        count_received(cpu, ifindex, count, bytes as usize);
        cpu.counters.add(F::RECEIVED, count as u64);
        F::lookup(&cpu.tables.fib, &lane.keys[..count], &mut hops[..count]);
        let (sent, together) = headers.forward::<F>(cpu, &mut lane.pkts, hops, next);
        match together {
            Some((outif, bytes)) => ifq::output_all(cpu, &mut lane.pkts, outif, bytes),
            None => forward_singly::<F>(cpu, &mut lane.pkts, hops, next),
        }
        sent
    }
}

impl Headers {
    /// Moves the frames that have passed, and what is noted of them, to the lane, closed up; the others stay.
    #[inline(never)]
    fn part<K: Copy>(&mut self, cpu: &mut Cpu, frames: &mut PktVec, lane: &mut Lane<K>) {
        let Self { came, leaves, len, total, refused, others, .. } = self;
        frames.take_each(|at, pkt| {
            let at = at % CHUNK;
            if refused[at] & REFUSED != 0 {
                return push(cpu, others, pkt);
            }
            let to = lane.pkts.len() % CHUNK;
            (came[to], leaves[to], len[to], total[to]) = (came[at], leaves[at], len[at], total[at]);
            lane.keys[to] = lane.keys[at];
            push(cpu, &mut lane.pkts, pkt);
        });
        core::mem::swap(frames, others);
    }

    /// Sends the packets of the lane by their gateways, each in its frame; of the others, [`super::Routed::ROUTE`] is `next`, and
    /// they are without their link headers. Answers how many are sent; if all leave by one interface, which, and their bytes.
    #[inline(always)]
    fn forward<F: Transit>(
        &self,
        cpu: &mut Cpu,
        pkts: &mut PktVec,
        hops: &[HopId; CHUNK],
        next: &mut [Next; CHUNK],
    ) -> (usize, Option<(IfIndex, usize)>) {
        let bytes = self.cut_padding(pkts.iter_mut().into_slice());
        let adjs = cpu.adjs.fresh();
        let outif = adjs.get(hops[0]).map_or(0, |adj| adj.outif);
        let (mut missing, mut others) = (0_u64, 0);
        for (at, pkt) in (0..CHUNK).zip(pkts.iter_mut()) {
            let (total, came, leaves) = (self.total[at], self.came[at], self.leaves[at]);
            let Some(adj) = adjs.gateway(hops[at]).filter(|adj| total <= adj.mtu) else {
                missing |= 1 << at;
                continue;
            };
            others |= adj.outif ^ outif;
            let meta: &mut Meta = pkt;
            (meta.l4, meta.proto, meta.outif) = (LINK + F::HEADER, (came >> F::PROTO) as u8, adj.outif);
            let frame = pkt.window_mut(0);
            if let Some(addrs) = frame.first_chunk_mut() {
                *addrs = adj.addrs;
            }
            if let Some(word) = frame.get_mut(F::HOP_WORD..).and_then(|from| from.first_chunk_mut()) {
                *word = leaves.to_le_bytes();
            }
        }
        let sent = pkts.len().wrapping_sub(missing.count_ones() as usize);
        cpu.counters.add(F::FORWARDED, sent as u64);
        if missing == 0 && others == 0 {
            return (sent, Some((outif, bytes)));
        }
        self.uncover::<F>(pkts, missing, next);
        (sent, None)
    }

    /// Cuts off what follows packets in their frames; answers the bytes of all frames then.
    #[inline(always)]
    fn cut_padding(&self, pkts: &mut [Pkt]) -> usize {
        let (mut bytes, mut padding) = (0_u32, 0_u32);
        for at in 0..pkts.len().min(CHUNK) {
            let framed = self.total[at].wrapping_add(LINK.into());
            bytes = bytes.wrapping_add(framed);
            padding |= self.len[at] ^ framed;
        }
        if padding != 0 {
            for ((pkt, len), total) in pkts.iter_mut().zip(&self.len).zip(&self.total) {
                let framed = total.wrapping_add(LINK.into());
                if *len != framed {
                    cut(pkt, 0, framed);
                }
            }
        }
        bytes as usize
    }

    /// Leaves those of the packets that `missing` has bits of as a careful first pass does: without link headers.
    #[inline(never)]
    fn uncover<F: Transit>(&self, pkts: &mut PktVec, missing: u64, next: &mut [Next; CHUNK]) {
        next.fill(Next::Output);
        let pkts = pkts.iter_mut().into_slice();
        for at in bits(missing) {
            let Some(pkt) = pkts.get_mut(at) else { return };
            let at = at % CHUNK;
            next[at] = F::ROUTE;
            cut(pkt, LINK, self.total[at]);
            (pkt.l4, pkt.proto) = (F::HEADER, (self.came[at] >> F::PROTO) as u8);
        }
    }
}

/// Keeps only these bytes of a packet, of which it is known that they are there.
#[inline(never)]
fn cut(pkt: &mut Pkt, from: u16, len: u32) {
    let _ = pkt.narrow(from, len as u16);
}

#[cfg(test)]
mod tests;
