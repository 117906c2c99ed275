//! The passes over a chunk of packets, which stays where it is meanwhile.
//!
//! What one packet's way through a pass is, its stages say. Here stand the loops, and what they share among a chunk: one
//! look at the interface, one addition per counter. Facts that live for one turn are kept by position, not in the packet.

mod guarded;
mod transit;

use core::net::Ipv6Addr;

use ipfw::rule::Hook;
use pkt::{Flags, Pkt, PktVec};
use wire::ether::HEADER_LEN;

use self::transit::Headers;
use super::{CHUNK, dispatch, push};
use crate::base::count::{Count, IfCount};
use crate::base::drop::DropReason;
use crate::fib::HopId;
use crate::firewall;
use crate::flow::Cached;
use crate::host::tcp;
use crate::ip::forward::{self, forward};
use crate::ip::{ip4, ip6};
use crate::link::ether::{self, Port};
use crate::link::tables::{IfIndex, Ifnet, Tables};
use crate::out::ifq;
use crate::turn::cpu::Cpu;
use crate::turn::next::{Age, Next, Resume};
use crate::turn::{rss, trace};

/// Ways that packets of a chunk take, one bit each.
const TO_LANE4: u8 = 1;
const TO_LANE6: u8 = 2;
/// Not known yet: to be looked at step by step.
const ELSEWHERE: u8 = 4;
/// A question of neighbour discovery for a host that we answer for.
const TO_LOCAL6: u8 = 8;

/// Bytes in front of the network header of a usual frame.
#[expect(clippy::cast_possible_truncation, reason = "14")]
const LINK_LEN: u16 = HEADER_LEN as u16;

/// Scratch space: the vectors, and by position in them the facts that live for one turn.
pub(super) struct Work {
    pub(super) frames: PktVec,
    ways: [u8; CHUNK],
    /// Some of the usual packets have a partial checksum.
    is_partial: bool,
    scratch: Scratch,
    lane4: Lane<u32>,
    lane6: Lane<u128>,
    headers: Headers,
}

/// Notes of a pass over a lane, by position.
pub(super) struct Scratch {
    next: [Next; CHUNK],
    hops: [HopId; CHUNK],
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
            ways: [ELSEWHERE; CHUNK],
            is_partial: false,
            scratch: Scratch {
                next: [Next::Drop(DropReason::Shutdown); CHUNK],
                hops: [HopId::default(); CHUNK],
            },
            lane4: Lane { pkts: PktVec::new(), keys: [0; CHUNK] },
            lane6: Lane { pkts: PktVec::new(), keys: [0; CHUNK] },
            headers: Headers::default(),
        }
    }
}

impl Work {
    /// First pass over frames from a ring: headers off, validated, and each packet on the CPU that owns it.
    pub(super) fn way_in(&mut self, cpu: &mut Cpu, ifindex: IfIndex) {
        let (port, packets) = (Port::of(&cpu.tables, ifindex), self.frames.len());
        let admit = |pkt: &mut Pkt| {
            pkt.rcvif = ifindex;
            port.admit(pkt)
        };
        // A CPU that is alone owns everything, and its loop does not even ask.
        let (ways, bytes) = if cpu.placement.cpus() == 1 {
            self.look(&cpu.tables, LINK_LEN, admit)
        } else {
            rss::hash_frames(&mut self.frames);
            let share = cpu.share;
            let is_mine = |pkt: &mut Pkt, ip| rss::is_mine(share, pkt, ip);
            self.look(&cpu.tables, LINK_LEN, |pkt| admit(pkt).filter(|ip| is_mine(pkt, *ip)))
        };
        self.sort(cpu, ways, |cpu, pkt| rss::hand_off(cpu, pkt).unwrap_or_else(|| frame(cpu, pkt)));
        count_received(cpu, ifindex, packets, bytes);
    }

    /// First pass over packets that go on where they, or others, were interrupted.
    #[inline(never)]
    pub(super) fn resume(&mut self, cpu: &mut Cpu) {
        let stamp = cpu.stamp;
        let (ways, _) = self.look(&cpu.tables, 0, |pkt| Resume::next(stamp.off(pkt.resume)));
        self.sort(cpu, ways, |cpu, pkt| match stamp_of(cpu, pkt) {
            None => place(cpu, pkt),
            Some(age) => place_across(cpu, pkt, age),
        });
    }

    /// Validates the usual packets, of which `begin` says that IP begins `at` bytes into them. Answers the ways of all,
    /// and how many bytes there were.
    #[inline(always)]
    fn look(&mut self, tables: &Tables, at: u16, begin: impl Fn(&mut Pkt) -> Option<Next>) -> (u8, usize) {
        let Self { frames, ways, is_partial, lane4, lane6, .. } = self;
        let (mut all, mut bytes, mut partial) = (0, 0_usize, false);
        frames.for_each_prefetching(|n, pkt| {
            let n = n % CHUNK;
            bytes = bytes.wrapping_add(pkt.len());
            let way = match begin(pkt) {
                Some(Next::Ip4) => ip4::input::plain(pkt, at, &tables.own)
                    .or_else(|| {
                        ip4::input::plain_but_partial(pkt, at, &tables.own).inspect(|_| partial = true)
                    })
                    .map(|key| {
                        lane4.keys[n] = key;
                        TO_LANE4
                    }),
                Some(Next::Ip6) => ip6::input::plain(pkt, at, &tables.own)
                    .or_else(|| {
                        ip6::input::plain_but_partial(pkt, at, &tables.own).inspect(|_| partial = true)
                    })
                    .map(|key| {
                        lane6.keys[n] = key;
                        TO_LANE6
                    }),
                _ => None,
            };
            ways[n] = way.unwrap_or(ELSEWHERE);
            all |= ways[n];
        });
        *is_partial = partial;
        (all, bytes)
    }

    /// Fills the lanes; `careful` brings the packets that were not usual to where they are to begin.
    #[inline]
    fn sort(&mut self, cpu: &mut Cpu, ways: u8, careful: fn(&mut Cpu, &mut Pkt) -> Next) {
        let mut ways = ways;
        if cpu.tables.looks_closer {
            ways |= self.look_closer(cpu);
        } else if self.is_partial {
            self.count_partial(cpu);
        }
        // The usual chunk is of one family and goes on as it is.
        match ways {
            TO_LANE4 => core::mem::swap(&mut self.frames, &mut self.lane4.pkts),
            TO_LANE6 => core::mem::swap(&mut self.frames, &mut self.lane6.pkts),
            _ => self.split(cpu, careful),
        }
    }

    /// Does what is rarely done with packets that have been found usual. Answers the ways of those that do not go on as such.
    #[inline(never)]
    fn look_closer(&mut self, cpu: &mut Cpu) -> u8 {
        if cpu.tables.judges_checksums {
            self.recognise_checksums(cpu);
        } else if self.is_partial {
            self.count_partial(cpu);
        }
        let mut found = 0;
        for ((pkt, way), key) in self.frames.iter().zip(&mut self.ways).zip(&self.lane6.keys) {
            if *way == TO_LANE6 && ip6::input::is_for_proxy(cpu, pkt, Ipv6Addr::from_bits(*key)) {
                (*way, found) = (TO_LOCAL6, TO_LOCAL6);
            }
        }
        found
    }

    /// Notes what is known of the checksums of packets that have been found usual.
    fn recognise_checksums(&mut self, cpu: &mut Cpu) {
        for (pkt, way) in self.frames.iter_mut().zip(&self.ways) {
            match *way {
                TO_LANE4 => ip4::input::recognise_checksum(cpu, pkt),
                TO_LANE6 => ip6::input::recognise_checksum(cpu, pkt),
                _ => {}
            }
        }
    }

    /// Counts those that have been found usual and whose checksums are partial, as devices have said.
    #[inline(never)]
    fn count_partial(&self, cpu: &mut Cpu) {
        let usual = self.frames.iter().zip(&self.ways).filter(|(_, way)| **way != ELSEWHERE);
        let partial = usual.filter(|(pkt, _)| pkt.flags.has(Flags::CSUM_PARTIAL)).count();
        cpu.counters.add(Count::CsumPartialIn, partial as u64);
    }

    /// Takes the packets apart whose ways differ.
    ///
    /// Drops  [`DropReason::HandoffFull`].
    #[inline(never)]
    fn split(&mut self, cpu: &mut Cpu, careful: fn(&mut Cpu, &mut Pkt) -> Next) {
        let Self { frames, ways, lane4, lane6, .. } = self;
        let mut handed_off = 0;
        frames.take_each(|at, mut pkt| {
            let at = at % CHUNK;
            let (mut key4, mut key6) = (lane4.keys[at], lane6.keys[at]);
            let next = match ways[at] {
                TO_LANE4 => Next::Route4,
                TO_LANE6 => Next::Route6,
                TO_LOCAL6 => firewall::ask(cpu, &mut pkt, Hook::Ingress).unwrap_or(Next::Local6),
                _ => match careful(cpu, &mut pkt) {
                    Next::Ip4 => input::<ip4::Ip4>(cpu, &mut pkt, &mut key4),
                    Next::Ip6 => input::<ip6::Ip6>(cpu, &mut pkt, &mut key6),
                    other => other,
                },
            };
            match next {
                Next::Route4 => lane4.join(cpu, pkt, key4),
                Next::Route6 => lane6.join(cpu, pkt, key6),
                Next::HandOff(owner) => {
                    pkt.resume = cpu.stamp.on(pkt.resume);
                    match cpu.peers.hand_off(owner, pkt) {
                        Ok(()) => handed_off += 1,
                        Err(pkt) => cpu.drop_pkt(pkt, DropReason::HandoffFull),
                    }
                }
                other => dispatch(cpu, pkt, other),
            }
        });
        cpu.counters.add(Count::HandoffOut, handed_off);
    }

    /// Second and third pass over a lane, if there is anything in it.
    #[inline(always)]
    pub(super) fn route<F: Routed>(&mut self, cpu: &mut Cpu) {
        if !F::lane(self).0.pkts.is_empty() {
            self.route_all::<F>(cpu);
        }
    }

    /// Looks all destinations of a lane up, then does what the routes say.
    #[inline(never)]
    fn route_all<F: Routed>(&mut self, cpu: &mut Cpu) {
        let (lane, scratch) = F::lane(self);
        let count = lane.pkts.len();
        // The loops below are better for knowing it.
        if count == 0 {
            return;
        }
        look_for_strays(cpu, &lane.pkts);
        cpu.counters.add(F::RECEIVED, count as u64);
        if cpu.takes_detour {
            return guarded::route::<F>(cpu, lane, scratch);
        }
        let Scratch { hops, next, .. } = scratch;
        F::lookup(&cpu.tables.fib, &lane.keys[..count], &mut hops[..count]);
        if cpu.watched {
            trace::routed(cpu, lane.pkts.iter().next(), hops[0]);
        }
        match forward_usual::<F>(cpu, &mut lane.pkts, hops, next) {
            Some((outif, bytes)) => ifq::output_all(cpu, &mut lane.pkts, outif, bytes),
            None => forward_singly::<F>(cpu, &mut lane.pkts, hops, next),
        }
    }
}

/// Forwards the packets that go to gateways in the usual way; of the others, [`Routed::ROUTE`] is `next`. If all are on
/// their way out by the same interface and nothing is left to be done for any: which, and their bytes.
#[inline(always)]
fn forward_usual<F: Routed>(
    cpu: &mut Cpu,
    pkts: &mut PktVec,
    hops: &[HopId; CHUNK],
    next: &mut [Next; CHUNK],
) -> Option<(IfIndex, usize)> {
    let outif = cpu.adjs.get(hops[0]).map_or(0, |adj| adj.outif);
    let (mut left, mut bytes, mut others) = (0_u64, 0_usize, 0);
    for ((pkt, hop), next) in pkts.iter_mut().zip(hops).zip(next) {
        let is_plain = |pkt: &Pkt| !pkt.flags.any(ifq::SPECIAL);
        let adj = cpu.adjs.gateway(*hop).filter(|adj| is_plain(pkt) && forward::passes::<F>(pkt, adj));
        let Some(adj) = adj else {
            (*next, others) = (F::ROUTE, !0);
            left = left.wrapping_add(1);
            continue;
        };
        bytes = bytes.wrapping_add(pkt.len());
        others |= adj.outif ^ outif;
        *next = forward::go_by::<F>(pkt, adj);
        if !matches!(*next, Next::Output) {
            others = !0;
        }
    }
    let count = pkts.len();
    cpu.counters.add(F::FORWARDED, (count as u64).wrapping_sub(left));
    (others == 0).then_some((outif, bytes.wrapping_add(count.wrapping_mul(HEADER_LEN))))
}

/// Brings each packet to where it goes, those of which that is not known yet step by step.
#[inline(never)]
fn forward_singly<F: Routed>(cpu: &mut Cpu, pkts: &mut PktVec, hops: &[HopId; CHUNK], next: &[Next; CHUNK]) {
    let mut forwarded = 0;
    tcp::fetch(cpu, pkts);
    pkts.take_each(|at, mut pkt| {
        let (hop, next) = (hops[at % CHUNK], next[at % CHUNK]);
        let next = match next == F::ROUTE {
            true if cpu.tables.hops.is_local(hop) => F::LOCAL,
            true => forward::<F>(cpu, &mut pkt, hop, &mut forwarded),
            false => next,
        };
        match next {
            Next::Output => ifq::output(cpu, pkt),
            other => dispatch(cpu, pkt, other),
        }
    });
    cpu.counters.add(F::FORWARDED, forwarded);
}

impl<K: Copy> Lane<K> {
    /// Adds a packet to this destination.
    fn join(&mut self, cpu: &mut Cpu, pkt: Pkt, key: K) {
        self.keys[self.pkts.len() % CHUNK] = key;
        push(cpu, &mut self.pkts, pkt);
    }
}

/// A family with a lane of its own.
pub(super) trait Routed: Cached {
    /// Where packets are that are to be forwarded.
    const ROUTE: Next;

    /// Its lane, and the scratch that a pass over it needs.
    fn lane(work: &mut Work) -> (&mut Lane<Self::Addr>, &mut Scratch);
    /// [`ip4::input::input`], [`ip6::input::input`].
    fn input(cpu: &mut Cpu, pkt: &mut Pkt, key: &mut Self::Addr) -> Next;
}

impl Routed for ip4::Ip4 {
    const ROUTE: Next = Next::Route4;

    fn lane(work: &mut Work) -> (&mut Lane<u32>, &mut Scratch) {
        (&mut work.lane4, &mut work.scratch)
    }

    fn input(cpu: &mut Cpu, pkt: &mut Pkt, key: &mut u32) -> Next {
        ip4::input::input(cpu, pkt, key)
    }
}

impl Routed for ip6::Ip6 {
    const ROUTE: Next = Next::Route6;

    fn lane(work: &mut Work) -> (&mut Lane<u128>, &mut Scratch) {
        (&mut work.lane6, &mut work.scratch)
    }

    fn input(cpu: &mut Cpu, pkt: &mut Pkt, key: &mut u128) -> Next {
        ip6::input::input(cpu, pkt, key)
    }
}

/// The careful way in. What does not come to a lane, the firewall is asked about here.
fn input<F: Routed>(cpu: &mut Cpu, pkt: &mut Pkt, key: &mut F::Addr) -> Next {
    match F::input(cpu, pkt, key) {
        local if local == F::LOCAL => firewall::ask(cpu, pkt, Hook::Ingress).unwrap_or(local),
        other => other,
    }
}

/// Compares the tables under which a packet was handed over with this CPU's.
fn stamp_of(cpu: &Cpu, pkt: &Pkt) -> Option<Age> {
    cpu.stamp.age(pkt.resume)
}

/// Where a packet goes on that was handed over under the tables of this CPU.
fn place(cpu: &mut Cpu, pkt: &mut Pkt) -> Next {
    Resume::place(pkt.resume).unwrap_or_else(|| frame(cpu, pkt))
}

/// Where a packet goes on that was handed over under other tables: it must not meet half of one configuration and half of
/// another. On its way in it has met nothing yet but its interface, which is looked at again; what leaves has met everything;
/// in between it goes no further.
///
/// Drops  [`DropReason::Reconfigured`], [`DropReason::InterfaceGone`], [`DropReason::InterfaceDown`], [`DropReason::Monitor`].
#[cold]
fn place_across(cpu: &mut Cpu, pkt: &mut Pkt, age: Age) -> Next {
    match (Resume::place(pkt.resume), age) {
        (Some(on @ (Next::Output | Next::Send)), _) => on,
        (Some(Next::Local4 | Next::Local6), _) => Next::Drop(DropReason::Reconfigured),
        (_, Age::Newer) => Next::Wait,
        // From us to us: rules of the other CPU have let it out.
        (_, Age::Older) if pkt.flags.has(Flags::LOCAL) => Next::Drop(DropReason::Reconfigured),
        (_, Age::Older) => match cpu.tables.ifnet(pkt.rcvif) {
            None => Next::Drop(DropReason::InterfaceGone),
            Some(Ifnet { up: false, .. }) => Next::Drop(DropReason::InterfaceDown),
            Some(Ifnet { monitor: true, .. }) => Next::Drop(DropReason::Monitor),
            Some(_) => place(cpu, pkt),
        },
    }
}

/// A frame that is not of the usual kind, or not from a ring.
#[cold]
fn frame(cpu: &mut Cpu, pkt: &mut Pkt) -> Next {
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
