//! The passes over a lane where something stands between a packet and its route: the firewall, or the flow cache.
//!
//! Packets keep their positions until the last pass: words with a bit for each say which of them a pass is about.

use ipfw::rule::Hook;
use pkt::{Pkt, PktVec};

use super::super::{CHUNK, bits, dispatch};
use super::{Lane, Routed, Scratch, forward_singly, forward_usual};
use crate::fib::{HopId, flow_hash};
use crate::flow::Flows;
use crate::ip::forward;
use crate::link::tables::{IfIndex, Tables};
use crate::out::ifq;
use crate::turn::cpu::Cpu;
use crate::turn::next::Next;
use crate::turn::trace;
use crate::{firewall, flow};

/// Looks those packets of a lane up again that are not routed by table 0.
#[cold]
#[inline(never)]
fn look_up_by_table<F: Routed>(tables: &Tables, pkts: &PktVec, hops: &mut [HopId; CHUNK]) {
    for (pkt, hop) in pkts.iter().zip(hops) {
        let fib = tables.fib_of(pkt);
        if fib != 0 {
            *hop = tables.fib.table(fib).lookup(F::dst(pkt));
        }
    }
}

/// Asks, looks all destinations up, asks again, and sends on.
#[inline(never)]
pub(super) fn route<F: Routed>(cpu: &mut Cpu, lane: &mut Lane<F::Addr>, scratch: &mut Scratch) {
    let Scratch { hops, next } = scratch;
    let count = lane.pkts.len();
    next[..count].fill(F::ROUTE);
    // A host that does not forward has no flows to remember.
    let forwards = cpu.tables.forwarding;
    if forwards && let Some(mut flows) = cpu.flows.take() {
        by_flow::<F>(cpu, &mut flows, lane.pkts.iter_mut().into_slice(), hops, next);
        cpu.flows = Some(flows);
        return send::<F>(cpu, &mut lane.pkts, hops, next);
    }
    firewall::begin(cpu, count, false);
    let all = u64::MAX >> (CHUNK - count.clamp(1, CHUNK));
    let mut which = all;
    if cpu.hooks.has(Hook::Ingress) {
        let pkts = lane.pkts.iter_mut().into_slice();
        which = firewall::ask_all(cpu, Hook::Ingress, pkts, next, all);
        for (key, pkt) in lane.keys.iter_mut().zip(lane.pkts.iter()) {
            *key = F::addr(pkt);
        }
    }
    if which != 0 {
        F::lookup(&cpu.tables.fib, &lane.keys[..count], &mut hops[..count]);
        if !cpu.tables.fib.is_alone() {
            look_up_by_table::<F>(&cpu.tables, &lane.pkts, hops);
        }
        if cpu.watched {
            trace::routed(cpu, lane.pkts.iter().next(), hops[0]);
        }
    }
    let is_asked_again = forwards && cpu.hooks.has_outward();
    if is_asked_again {
        forward_asking::<F>(cpu, lane.pkts.iter_mut().into_slice(), hops, next, which);
    }
    if is_asked_again || which != all {
        return send::<F>(cpu, &mut lane.pkts, hops, next);
    }
    match forward_usual::<F>(cpu, &mut lane.pkts, hops, next) {
        Some((outif, bytes)) => ifq::output_all(cpu, &mut lane.pkts, outif, bytes),
        None => forward_singly::<F>(cpu, &mut lane.pkts, hops, next),
    }
}

/// Forwards, and asks the firewall on the way out, before anything of the link is put on.
fn forward_asking<F: Routed>(
    cpu: &mut Cpu,
    pkts: &mut [Pkt],
    hops: &mut [HopId; CHUNK],
    next: &mut [Next; CHUNK],
    which: u64,
) {
    let mut passing = 0;
    for at in bits(which) {
        let (pkt, hop) = (&mut pkts[at], &mut hops[at % CHUNK]);
        // Of a group the member is chosen now: rules may change what the choice depends on.
        *hop = cpu.tables.hops.member(*hop, || flow_hash(pkt));
        if let Some(adj) = cpu.adjs.get(*hop).filter(|adj| forward::passes::<F>(pkt, adj)) {
            pkt.outif = adj.outif;
            next[at % CHUNK] = Next::Output;
            passing |= 1 << at;
        }
    }
    for hook in [Hook::Forward, Hook::Egress] {
        passing = firewall::ask_all(cpu, hook, pkts, next, passing);
    }
    for at in bits(passing) {
        next[at % CHUNK] = forward::link::<F>(cpu, &mut pkts[at], hops[at % CHUNK]);
    }
    cpu.counters.add(F::FORWARDED, passing.count_ones().into());
}

/// Does so with the flow cache: only packets of unknown flows are judged and looked up.
fn by_flow<F: Routed>(
    cpu: &mut Cpu,
    flows: &mut Flows,
    pkts: &mut [Pkt],
    hops: &mut [HopId; CHUNK],
    next: &mut [Next; CHUNK],
) {
    let missed = flow::forward::<F>(cpu, flows, pkts, next);
    if missed != 0 {
        forward_missed::<F>(cpu, flows, pkts, hops, next, missed);
    }
}

#[inline(never)]
fn forward_missed<F: Routed>(
    cpu: &mut Cpu,
    flows: &mut Flows,
    pkts: &mut [Pkt],
    hops: &mut [HopId; CHUNK],
    next: &mut [Next; CHUNK],
    missed: u64,
) {
    firewall::begin(cpu, pkts.len(), true);
    let which = firewall::ask_all(cpu, Hook::Ingress, pkts, next, missed);
    flow::lookup::<F>(&cpu.tables, flows, pkts, hops, which);
    if cpu.watched && which & 1 != 0 {
        trace::routed(cpu, pkts.first(), hops[0]);
    }
    forward_asking::<F>(cpu, pkts, hops, next, which);
    for at in bits(which) {
        let (hop, pkt) = (hops[at % CHUNK], &mut pkts[at]);
        let mut is_known = true;
        if next[at % CHUNK] == F::ROUTE {
            next[at % CHUNK] = forward::step_by_step::<F>(cpu, pkt, hop);
            // What it has met on the way out is not written down.
            is_known = !cpu.hooks.has_outward();
        }
        if is_known && next[at % CHUNK] == Next::Output {
            flow::learn::<F>(cpu, flows, at, &pkts[at], hop);
        }
    }
}

/// Sends each packet where `next` says; those that are still to be routed, step by step, so that each is asked about.
fn send<F: Routed>(cpu: &mut Cpu, pkts: &mut PktVec, hops: &[HopId; CHUNK], next: &[Next; CHUNK]) {
    if let Some((outif, bytes)) = together(pkts, next) {
        return ifq::output_all(cpu, pkts, outif, bytes);
    }
    pkts.take_each(|at, mut pkt| {
        let (hop, next) = (hops[at % CHUNK], next[at % CHUNK]);
        let next = match next == F::ROUTE {
            true if cpu.tables.hops.is_local(hop) => F::LOCAL,
            true => forward::step_by_step::<F>(cpu, &mut pkt, hop),
            false => next,
        };
        match next {
            Next::Output => ifq::output(cpu, pkt),
            other => dispatch(cpu, pkt, other),
        }
    });
}

/// If all packets are on their way out by the same interface and nothing is left to be done for any: which, and their
/// bytes.
fn together(pkts: &PktVec, next: &[Next; CHUNK]) -> Option<(IfIndex, usize)> {
    let outif = pkts.iter().next()?.outif;
    let (mut others, mut bytes) = (false, 0_usize);
    for (pkt, next) in pkts.iter().zip(next) {
        others |= !matches!(*next, Next::Output) || pkt.outif != outif || pkt.flags.any(ifq::SPECIAL);
        bytes = bytes.wrapping_add(pkt.len());
    }
    (!others).then_some((outif, bytes))
}
