//! One CPU's offloaded flows: which flows of the cache become records of a [`FlowTable`], and what becomes of those.
//!
//! A flow is offloaded after some packets, if its entry holds for all of them and nothing wants to see each. Anything that
//! would make the entry stale makes all records stale, of all CPUs, before another packet is looked at here. What records
//! count is added to rules, states, bindings and interfaces a few times a second, so that these live as long as their flows.
//!
//! Without rules the route alone decides: the first flow to a destination makes a record for all of them, and for other destinations
//! that are looked up alike.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use pkt::Pkt;
use wire::Protocol;

use super::offload::{BITS_V4, BITS_V6, Ends, FlowTable, Forwarded, OffloadedFlow, RecordId, Refused, Scope};
use super::{Cached, CachedPath, Flows, basis};
use crate::base::count::{Count, IfCount};
use crate::base::time::Instant;
use crate::fib::{Prefix, To};
use crate::firewall::{Hooks, Known, Lookups, Met};
use crate::turn::cpu::Cpu;
use crate::turn::netisr::{CHUNK, Netisr, bits};
use crate::turn::timers::Timer;

/// Packets after which a flow is offloaded unless told otherwise.
pub const AFTER_DEFAULT: u8 = 4;
/// Flows that one CPU offloads at once.
pub const OFFLOADED_MAX: usize = 1 << 20;
/// Packets between attempts to offload a flow that was refused.
const AGAIN: u8 = 128;
/// Interval at which the counters of all records are read.
const EVERY: Duration = Duration::from_millis(250);
/// Records whose counters are read in one turn.
const PER_TURN: usize = 1024;
/// Time without a packet after which a flow is offloaded no more …
const IDLE: Duration = Duration::from_secs(10);
/// … and when others have found no room.
const IDLE_WHEN_FULL: Duration = Duration::from_secs(1);

/// One CPU's offloaded flows.
pub struct Offloader {
    table: Box<dyn FlowTable>,
    after: u8,
    /// The generation of all records.
    generation: u32,
    records: Vec<Held>,
    /// Where reading goes on.
    hand: usize,
    is_full: bool,
    timer_is_set: bool,
}

/// A record, and what its packets are taken into account in.
struct Held {
    record: RecordId,
    flow: OffloadedFlow,
    met: Met,
    known: Known,
    how: Lookups,
    counted: Forwarded,
    /// When its counters were last found changed.
    used: Instant,
}

/// A flow that a driver forwards, for listings.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// The flow.
    pub flow: OffloadedFlow,
    /// Packets that have gone by its record.
    pub forwarded: Forwarded,
}

impl Offloader {
    fn new(table: Box<dyn FlowTable>, after: u8) -> Self {
        let generation = table.generation();
        Self {
            table,
            after: after.clamp(1, AGAIN - 1),
            generation,
            records: Vec::new(),
            hand: 0,
            is_full: false,
            timer_is_set: false,
        }
    }
}

/// Moves the records of one flow cache to another one, ended.
pub(crate) fn move_to(cpu: &mut Cpu, before: Option<Box<Flows>>) {
    let offloader = before.and_then(|mut flows| flows.offloader.take());
    let Some(mut offloader) = offloader else { return };
    end_all(cpu, &mut offloader);
    cpu.offloads = cpu.flows.is_some();
    if let Some(flows) = &mut cpu.flows {
        flows.offloader = Some(offloader);
    }
}

impl Netisr {
    /// Lets drivers forward flows of the flow cache from now on, after so many packets of each; `None` ends it. Without a flow
    /// cache nothing happens.
    pub fn set_offload(&mut self, table: Option<Box<dyn FlowTable>>, after: u8) {
        let cpu = &mut self.cpu;
        let Some(mut flows) = cpu.flows.take() else { return };
        if let Some(mut before) = flows.offloader.take() {
            end_all(cpu, &mut before);
        }
        flows.offloader = table.map(|table| Box::new(Offloader::new(table, after)));
        cpu.offloads = flows.offloader.is_some();
        cpu.flows = Some(flows);
    }

    /// Returns the flows of this CPU that drivers forward, as many as `most`.
    #[must_use]
    pub fn offloaded(&self, most: usize) -> Vec<Listed> {
        let offloader = self.cpu.flows.as_ref().and_then(|flows| flows.offloader.as_ref());
        let Some(offloader) = offloader else { return Vec::new() };
        let listed = |held: &Held| {
            let forwarded = offloader.table.counted(held.record);
            Listed { flow: held.flow, forwarded }
        };
        offloader.records.iter().take(most).map(listed).collect()
    }
}

/// Offloads those flows of a chunk that have had their packets: the positions in `hits`, where entries of this `generation`
/// have been followed.
#[cold]
#[inline(never)]
pub(super) fn consider<F: Cached>(
    cpu: &mut Cpu,
    flows: &mut Flows,
    pkts: &[Pkt],
    hits: u64,
    generation: u32,
) {
    let Some(mut offloader) = flows.offloader.take() else { return };
    settle(cpu, flows, &mut offloader);
    let is_valid = flows.basis == basis(cpu);
    let all = u64::MAX >> (CHUNK - pkts.len().clamp(1, CHUNK));
    for at in bits(hits & all) {
        let (cache, verdicts) = F::cache(flows);
        let (place, key) = (cache.found[at % CHUNK], cache.keys[at % CHUNK]);
        let Some(way) = place.and_then(|place| cache.table.get_mut(place, generation)) else { continue };
        way.tries = if way.tries >= 2 * (AGAIN - 1) { AGAIN } else { way.tries + 1 };
        if !is_valid || way.tries != offloader.after && way.tries != AGAIN {
            continue;
        }
        let way = *way;
        let met = verdicts.met(way.verdict).copied();
        let outcome = met.map(|met| offload::<F>(cpu, &mut offloader, &pkts[at], (&key, &way, met)));
        if let (Some(Ok(())), Some(place)) = (outcome, place) {
            F::cache(flows).0.table.release(place, cpu.now);
        }
        cpu.count(match outcome {
            Some(Ok(())) => Count::OffloadInserted,
            Some(Err(why)) => why,
            None => Count::OffloadNotOpen,
        });
    }
    flows.offloader = Some(offloader);
}

/// Adds the record of one flow; a counter says why not.
fn offload<F: Cached>(
    cpu: &mut Cpu,
    offloader: &mut Offloader,
    pkt: &Pkt,
    (key, way, met): (&F::Key, &CachedPath, Met),
) -> Result<(), Count> {
    if cpu.watched {
        return Err(Count::OffloadWatched);
    }
    if cpu.firewall.as_ref().is_some_and(|firewall| firewall.refuses_offload(&met)) {
        return Err(Count::OffloadRefused);
    }
    if offloader.records.len() >= OFFLOADED_MAX {
        offloader.is_full = true;
        return Err(Count::OffloadFull);
    }
    let (before, protocol, class, rcvif) = F::parts(key);
    let header = pkt.window(wire::ether::HEADER_LEN);
    let after = F::ends(header);
    // A packet that leaves where it came from is worth a redirect.
    if rcvif == way.outif || !is_of_family::<F>(pkt, header, &before) {
        return Err(Count::OffloadNoDevice);
    }
    let flow = OffloadedFlow {
        generation: offloader.generation,
        scope: Scope::Flow,
        rcvif,
        protocol,
        class,
        before,
        after,
        outif: way.outif,
        link: way.addrs,
        mtu: way.mtu,
    };
    let alone = is_route_alone(cpu, way);
    let flow = if alone { to_destination(cpu, pkt, flow) } else { flow };
    let now = cpu.now;
    let may_go = match &cpu.firewall {
        _ if way.how.is_nothing() => true,
        Some(firewall) => firewall.may_release(&met, &way.known, way.how, now),
        None => false,
    };
    if !may_go {
        return Err(Count::OffloadNotOpen);
    }
    match offloader.table.insert(&flow) {
        Ok(record) => {
            let (known, how, counted) = (way.known, way.how, Forwarded::default());
            cpu.firewall.iter_mut().for_each(|firewall| firewall.release(&known, how));
            offloader.records.push(Held { record, flow, met, known, how, counted, used: now });
            offloader.set_timer(cpu);
            Ok(())
        }
        Err(Refused::Interface) => Err(Count::OffloadNoDevice),
        Err(Refused::Full | Refused::HopsFull) => {
            offloader.is_full = true;
            Err(Count::OffloadFull)
        }
        Err(Refused::Busy | Refused::Known) => Err(Count::OffloadBusy),
    }
}

/// Whether nothing but the route has decided.
fn is_route_alone(cpu: &Cpu, way: &CachedPath) -> bool {
    cpu.hooks == Hooks::default() && way.how.is_nothing()
}

/// The record for all packets that are routed as those of a flow are; that of the flow, if others to its destination may not be.
fn to_destination(cpu: &Cpu, pkt: &Pkt, flow: OffloadedFlow) -> OffloadedFlow {
    let fib = cpu.tables.fib_for(pkt);
    let dst = flow.before.dst;
    let bits = match cpu.tables.hops.get(fib.lookup(dst)).to {
        To::Group(_) => return flow,
        To::Gateway { .. } => common_bits(dst, fib.block_len(dst)),
        // Each has its own neighbour.
        _ => common_bits(dst, u8::MAX),
    };
    let src = if dst.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let dst = Prefix::new(dst, bits).map_or(dst, Prefix::addr);
    let ends = Ends { src, dst, src_port: 0, dst_port: 0 };
    OffloadedFlow {
        scope: Scope::Destination(bits),
        protocol: 0,
        class: 0,
        before: ends,
        after: ends,
        ..flow
    }
}

/// Bits of a destination that others of the same record have in common with it, if so many decide about the route. Addresses that no
/// router forwards to have other bits, but for those of IPv6 that begin with zeros.
//= https://www.rfc-editor.org/rfc/rfc4291#section-2.5.3
fn common_bits(dst: IpAddr, decide: u8) -> u8 {
    let (all, whole) = match dst {
        IpAddr::V4(_) => (&BITS_V4[..], 32),
        IpAddr::V6(dst) if dst.to_bits() >> 96 == 0 => (&[][..], 128),
        IpAddr::V6(_) => (&BITS_V6[..], 128),
    };
    all.iter().copied().find(|bits| *bits >= decide).unwrap_or(whole)
}

/// Whether a packet that has its link header again is of the family that it was of.
fn is_of_family<F: Cached>(pkt: &Pkt, header: &[u8; pkt::WINDOW], before: &Ends) -> bool {
    let version = if before.src.is_ipv4() { 4 } else { 6 };
    let frame = pkt.window(0);
    u16::from_be_bytes([frame[12], frame[13]]) == F::ETHERTYPE.0 && header[0] >> 4 == version
}

/// At the end of a turn: ends all records if anything that they were made of has changed.
#[cold]
#[inline(never)]
pub(crate) fn roll_up(cpu: &mut Cpu) {
    let Some(mut flows) = cpu.flows.take() else { return };
    if let Some(mut offloader) = flows.offloader.take() {
        settle(cpu, &flows, &mut offloader);
        flows.offloader = Some(offloader);
    }
    cpu.flows = Some(flows);
}

/// Ends all records if they are stale, or something wants to see packets. Afterwards the generation of new ones is known, which
/// was read before what they depend on.
fn settle(cpu: &mut Cpu, flows: &Flows, offloader: &mut Offloader) {
    let generation = offloader.table.generation();
    let is_stale = generation != offloader.generation;
    if offloader.records.is_empty() {
        offloader.generation = generation;
        return;
    }
    if !is_stale && !cpu.watched && flows.basis == basis(cpu) {
        return;
    }
    if !is_stale {
        offloader.table.invalidate();
    }
    offloader.generation = offloader.table.generation();
    let ended = offloader.records.len() as u64;
    end_all(cpu, offloader);
    cpu.counters.add(Count::OffloadStale, ended);
}

fn end_all(cpu: &mut Cpu, offloader: &mut Offloader) {
    let now = cpu.now;
    for mut held in core::mem::take(&mut offloader.records) {
        let counted = offloader.table.counted(held.record);
        offloader.table.remove(held.record);
        take_into_account(cpu, &mut held, counted, now);
    }
    offloader.hand = 0;
}

/// Reads the counters of some records, and ends those of flows that are over or idle.
pub(crate) fn timer(cpu: &mut Cpu) {
    let Some(mut flows) = cpu.flows.take() else { return };
    if let Some(mut offloader) = flows.offloader.take() {
        offloader.timer_is_set = false;
        settle(cpu, &flows, &mut offloader);
        offloader.read_some(cpu);
        flows.offloader = Some(offloader);
    }
    cpu.flows = Some(flows);
}

impl Offloader {
    fn read_some(&mut self, cpu: &mut Cpu) {
        let now = cpu.now;
        let idle = if self.is_full { IDLE_WHEN_FULL } else { IDLE };
        for _ in 0..PER_TURN {
            let Some(held) = self.records.get_mut(self.hand) else { break };
            let counted = self.table.counted(held.record);
            let is_alive = take_into_account(cpu, held, counted, now);
            let is_idle = now.since(held.used) > idle;
            if is_alive && !is_idle {
                self.hand += 1;
                continue;
            }
            let held = self.records.swap_remove(self.hand);
            self.table.remove(held.record);
            cpu.count(if is_alive { Count::OffloadEvicted } else { Count::OffloadEnded });
        }
        let is_round_over = self.hand >= self.records.len();
        if is_round_over {
            (self.hand, self.is_full) = (0, false);
        }
        if !self.records.is_empty() {
            let wait = if is_round_over { EVERY } else { Duration::ZERO };
            self.timer_is_set = true;
            cpu.timers.set(now + wait, Timer::Offload);
        }
    }

    fn set_timer(&mut self, cpu: &mut Cpu) {
        if !core::mem::replace(&mut self.timer_is_set, true) {
            cpu.timers.set(cpu.now + EVERY, Timer::Offload);
        }
    }
}

/// Counts what has gone by a record since it was last looked at. False if its flow is over, or its packets have to be seen
/// again.
fn take_into_account(cpu: &mut Cpu, held: &mut Held, counted: Forwarded, now: Instant) -> bool {
    let packets = counted.packets.wrapping_sub(held.counted.packets);
    let bytes = counted.bytes.wrapping_sub(held.counted.bytes);
    held.counted = counted;
    let OffloadedFlow { rcvif, outif, protocol, before, .. } = held.flow;
    if packets > 0 {
        held.used = now;
        let frames = bytes + packets * wire::ether::HEADER_LEN as u64;
        let [received, forwarded] = if before.src.is_ipv4() {
            [Count::Ip4In, Count::Ip4Forwarded]
        } else {
            [Count::Ip6In, Count::Ip6Forwarded]
        };
        for count in [Count::RxPackets, Count::FlowOffloaded, received, forwarded] {
            cpu.counters.add(count, packets);
        }
        for (ifindex, what, n) in [
            (rcvif, IfCount::RxPackets, packets),
            (rcvif, IfCount::RxBytes, frames),
            (outif, IfCount::TxPackets, packets),
            (outif, IfCount::TxBytes, frames),
        ] {
            cpu.counters.add_if(ifindex, what, n);
        }
    }
    let is_tcp = protocol == Protocol::TCP.0;
    cpu.firewall.as_mut().is_none_or(|firewall| {
        firewall.forwarded(&held.met, (&held.known, held.how), is_tcp, (packets, bytes), now)
    })
}

#[cfg(test)]
mod tests;
