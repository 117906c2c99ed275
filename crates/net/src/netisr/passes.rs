//! The passes over a chunk of packets, which stays where it is meanwhile.
//!
//! What one packet's way through a pass is, its stages say. Here stand the loops, and what they share among a chunk: one
//! look at the interface, one addition per counter. Facts that live for one turn are kept by position, not in the packet.

use pkt::{Pkt, PktVec};

use super::{CHUNK, dispatch, push};
use crate::count::{Count, IfCount};
use crate::cpu::Cpu;
use crate::drop::DropReason;
use crate::ether::{self, Port};
use crate::fib::HopId;
use crate::flow::{self, Cached};
use crate::forward::forward;
use crate::next::{Next, Resume};
use crate::tables::IfIndex;
use crate::{ifq, ip4, ip6, rss};

/// Ways that packets of a chunk take, one bit each.
const TO_LANE4: u8 = 1;
const TO_LANE6: u8 = 2;
const ELSEWHERE: u8 = 4;

/// Scratch space: the vectors, and by position in them the facts that live for one turn.
pub(super) struct Work {
    pub(super) frames: PktVec,
    next: [Next; CHUNK],
    hops: [HopId; CHUNK],
    lane4: Lane<u32>,
    lane6: Lane<u128>,
}

/// The packets of one family that are to be routed, and their destinations.
pub(super) struct Lane<K> {
    pkts: PktVec,
    keys: [K; CHUNK],
}

/// Where the packets of a chunk are from.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    /// Frames, just received by a ring of this interface.
    Ring(IfIndex),
    /// Packets of other CPUs, or of this one: each says itself where it goes on.
    Inside,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            frames: PktVec::new(),
            next: [Next::Drop(DropReason::Shutdown); CHUNK],
            hops: [HopId::default(); CHUNK],
            lane4: Lane { pkts: PktVec::new(), keys: [0; CHUNK] },
            lane6: Lane { pkts: PktVec::new(), keys: [0; CHUNK] },
        }
    }
}

impl Work {
    /// First pass over frames from a ring: headers off, validated, and each packet on the CPU that owns it.
    pub(super) fn way_in(&mut self, cpu: &mut Cpu, ifindex: IfIndex) {
        let packets = self.frames.len();
        // A CPU that is alone owns everything, and its loop does not even ask.
        let bytes = if cpu.placement.cpus() == 1 {
            self.admit(cpu, ifindex, |_, _, ip| ip)
        } else {
            self.admit(cpu, ifindex, rss::place_among)
        };
        count_received(cpu, ifindex, packets, bytes);
    }

    #[inline(never)]
    fn admit(
        &mut self,
        cpu: &mut Cpu,
        ifindex: IfIndex,
        place: impl Fn(&Cpu, &mut Pkt, Next) -> Next,
    ) -> usize {
        let port = Port::of(&cpu.tables, ifindex);
        self.first_pass(cpu, |cpu, pkt| {
            pkt.rcvif = ifindex;
            match port.admit(pkt) {
                Some(ip) => place(cpu, pkt, ip),
                None => frame(cpu, pkt),
            }
        })
    }

    /// First pass over packets that go on where they, or others, were interrupted.
    #[inline(never)]
    pub(super) fn resume(&mut self, cpu: &mut Cpu) {
        self.first_pass(cpu, |cpu, pkt| Resume::next(pkt.resume).unwrap_or_else(|| frame(cpu, pkt)));
    }

    /// Brings each packet to where it is to `begin`, and IP packets through their validation. Fills the lanes, and
    /// answers how many bytes there were.
    #[inline(always)]
    fn first_pass(&mut self, cpu: &mut Cpu, mut begin: impl FnMut(&mut Cpu, &mut Pkt) -> Next) -> usize {
        let Self { frames, next, lane4, lane6, .. } = self;
        let (mut ways, mut bytes) = (0, 0_usize);
        frames.for_each_prefetching(|at, pkt| {
            let at = at % CHUNK;
            bytes = bytes.wrapping_add(pkt.len());
            let answer = match begin(cpu, pkt) {
                Next::Ip4 => ip4::input::input(cpu, pkt, &mut lane4.keys[at]),
                Next::Ip6 => ip6::input::input(cpu, pkt, &mut lane6.keys[at]),
                other => other,
            };
            ways |= match answer {
                Next::Route4 => TO_LANE4,
                Next::Route6 => TO_LANE6,
                _ => ELSEWHERE,
            };
            next[at] = answer;
        });
        // The usual chunk is of one family and goes on as it is.
        match ways {
            TO_LANE4 => core::mem::swap(frames, &mut lane4.pkts),
            TO_LANE6 => core::mem::swap(frames, &mut lane6.pkts),
            _ => self.split(cpu),
        }
        bytes
    }

    /// Takes the packets apart whose ways differ.
    ///
    /// Drops  [`DropReason::HandoffFull`].
    #[inline(never)]
    fn split(&mut self, cpu: &mut Cpu) {
        let Self { frames, next, lane4, lane6, .. } = self;
        let mut handed_off = 0;
        frames.take_each(|at, pkt| match next[at % CHUNK] {
            Next::Route4 => lane4.join(cpu, pkt, at),
            Next::Route6 => lane6.join(cpu, pkt, at),
            Next::HandOff(owner) => match cpu.peers.hand_off(owner, pkt) {
                Ok(()) => handed_off += 1,
                Err(pkt) => cpu.bury(pkt, DropReason::HandoffFull),
            },
            other => dispatch(cpu, pkt, other),
        });
        cpu.counters.add(Count::HandoffOut, handed_off);
    }

    /// Second and third pass over a lane: look all destinations up, then do what the routes say.
    #[inline(never)]
    pub(super) fn route<F: Routed>(&mut self, cpu: &mut Cpu) {
        let (lane, hops, next) = F::lane(self);
        let count = lane.pkts.len();
        if count == 0 {
            return;
        }
        look_for_strays(cpu, &lane.pkts);
        cpu.counters.add(F::RECEIVED, count as u64);
        if cpu.flows.is_some() {
            return route_by_flow::<F>(cpu, &mut lane.pkts, next);
        }
        F::lookup(&cpu.tables.fib, &lane.keys[..count], &mut hops[..count]);
        let mut forwarded = 0;
        for (mut pkt, hop) in lane.pkts.drain().zip(&*hops) {
            match forward::<F>(cpu, &mut pkt, *hop, &mut forwarded) {
                Next::Output => ifq::output(cpu, pkt),
                other => dispatch(cpu, pkt, other),
            }
        }
        cpu.counters.add(F::FORWARDED, forwarded);
    }
}

/// The same with the flow cache, which looks up only what it does not know.
#[inline(never)]
fn route_by_flow<F: Routed>(cpu: &mut Cpu, lane: &mut PktVec, next: &mut [Next; CHUNK]) {
    if let Some(mut flows) = cpu.flows.take() {
        flow::forward::<F>(cpu, &mut flows, lane, next);
        cpu.flows = Some(flows);
    }
    for (pkt, next) in lane.drain().zip(next) {
        match next {
            Next::Output => ifq::output(cpu, pkt),
            other => dispatch(cpu, pkt, *other),
        }
    }
}

impl<K: Copy> Lane<K> {
    /// Adds a packet that stood at `at` in the chunk.
    fn join(&mut self, cpu: &mut Cpu, pkt: Pkt, at: usize) {
        self.keys[self.pkts.len() % CHUNK] = self.keys[at % CHUNK];
        push(cpu, &mut self.pkts, pkt);
    }
}

/// A family with a lane of its own.
pub(super) trait Routed: Cached {
    /// Its lane, and the scratch that a pass over it needs.
    fn lane(work: &mut Work) -> (&mut Lane<Self::Addr>, &mut [HopId; CHUNK], &mut [Next; CHUNK]);
}

impl Routed for ip4::Ip4 {
    fn lane(work: &mut Work) -> (&mut Lane<u32>, &mut [HopId; CHUNK], &mut [Next; CHUNK]) {
        (&mut work.lane4, &mut work.hops, &mut work.next)
    }
}

impl Routed for ip6::Ip6 {
    fn lane(work: &mut Work) -> (&mut Lane<u128>, &mut [HopId; CHUNK], &mut [Next; CHUNK]) {
        (&mut work.lane6, &mut work.hops, &mut work.next)
    }
}

/// A frame that is not of the usual kind, or not from a ring.
#[cold]
fn frame(cpu: &Cpu, pkt: &mut Pkt) -> Next {
    match ether::input(cpu, pkt) {
        ip_or_arp @ (Next::Ip4 | Next::Ip6 | Next::Arp) => rss::place(cpu, pkt, ip_or_arp),
        other => other,
    }
}

pub(super) fn count_received(cpu: &mut Cpu, ifindex: IfIndex, packets: usize, bytes: usize) {
    cpu.counters.add(Count::RxPackets, packets as u64);
    cpu.counters.add_if(ifindex, IfCount::RxPackets, packets as u64);
    cpu.counters.add_if(ifindex, IfCount::RxBytes, bytes as u64);
}

/// Counts packets that are on the wrong CPU; in release builds, nothing.
fn look_for_strays(cpu: &mut Cpu, lane: &PktVec) {
    if cfg!(debug_assertions) {
        let strays = lane.iter().filter(|pkt| rss::is_stray(cpu, pkt)).count();
        cpu.counters.add(Count::Strays, strays as u64);
    }
}
