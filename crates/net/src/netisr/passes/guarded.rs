//! The passes over a lane where something stands between a packet and its route: the firewall, or the flow cache.

use ipfw::rule::Hook;
use pkt::PktVec;

use super::super::{CHUNK, dispatch};
use super::{Lane, Routed, Scratch, forward_singly, forward_usual, push};
use crate::cpu::Cpu;
use crate::fib::{HopId, flow_hash};
use crate::forward;
use crate::next::Next;
use crate::tables::IfIndex;
use crate::{firewall, flow, ifq};

/// Asks, looks all destinations up, asks again, and sends on.
#[inline(never)]
pub(super) fn route<F: Routed>(cpu: &mut Cpu, lane: &mut Lane<F::Addr>, scratch: &mut Scratch) {
    if cpu.hooks.has(Hook::Ingress) {
        admit::<F>(cpu, lane, scratch);
    }
    let Scratch { hops, next, .. } = scratch;
    if cpu.flows.is_some() && !cpu.hooks.has_outward() {
        return by_flow::<F>(cpu, &mut lane.pkts, hops, next);
    }
    let count = lane.pkts.len();
    F::lookup(&cpu.tables.fib, &lane.keys[..count], &mut hops[..count]);
    if cpu.hooks.has_outward() {
        return forward_asking::<F>(cpu, &mut lane.pkts, hops, next);
    }
    match forward_usual::<F>(cpu, &mut lane.pkts, hops, next) {
        Some((outif, bytes)) => ifq::output_all(cpu, &mut lane.pkts, outif, bytes),
        None => forward_singly::<F>(cpu, &mut lane.pkts, hops, next),
    }
}

/// Asks the firewall about what came in. What goes on stays in the lane, under the address that it has now.
fn admit<F: Routed>(cpu: &mut Cpu, lane: &mut Lane<F::Addr>, scratch: &mut Scratch) {
    let Scratch { next, passed, .. } = scratch;
    next[..lane.pkts.len()].fill(F::ROUTE);
    let all_go_on = firewall::ask_all(cpu, Hook::Ingress, &mut lane.pkts, next, F::ROUTE);
    if !all_go_on {
        lane.pkts.take_each(|at, pkt| match next[at % CHUNK] {
            go_on if go_on == F::ROUTE => push(cpu, passed, pkt),
            other => dispatch(cpu, pkt, other),
        });
        core::mem::swap(&mut lane.pkts, passed);
    }
    for (key, pkt) in lane.keys.iter_mut().zip(lane.pkts.iter()) {
        *key = F::addr(pkt);
    }
}

/// Forwards, and asks the firewall on the way out, before anything of the link is put on.
fn forward_asking<F: Routed>(
    cpu: &mut Cpu,
    pkts: &mut PktVec,
    hops: &mut [HopId; CHUNK],
    next: &mut [Next; CHUNK],
) {
    for ((pkt, hop), next) in pkts.iter_mut().zip(&mut *hops).zip(&mut *next) {
        // Of a group the member is chosen now: rules may change what the choice depends on.
        *hop = cpu.tables.hops.member(*hop, || flow_hash(pkt));
        *next = match cpu.adjs.get(*hop).filter(|adj| forward::passes::<F>(pkt, adj)) {
            Some(adj) => {
                pkt.outif = adj.outif;
                Next::Output
            }
            None => F::ROUTE,
        };
    }
    for hook in [Hook::Forward, Hook::Egress] {
        firewall::ask_all(cpu, hook, pkts, next, Next::Output);
    }
    let mut forwarded = 0;
    for ((pkt, hop), next) in pkts.iter_mut().zip(&*hops).zip(&mut *next) {
        if matches!(*next, Next::Output) {
            *next = forward::link::<F>(cpu, pkt, *hop);
            forwarded += 1;
        }
    }
    cpu.counters.add(F::FORWARDED, forwarded);
    send::<F>(cpu, pkts, hops, next);
}

/// The same with the flow cache, which looks up only what it does not know.
fn by_flow<F: Routed>(cpu: &mut Cpu, pkts: &mut PktVec, hops: &[HopId; CHUNK], next: &mut [Next; CHUNK]) {
    if let Some(mut flows) = cpu.flows.take() {
        flow::forward::<F>(cpu, &mut flows, pkts, next);
        cpu.flows = Some(flows);
    }
    send::<F>(cpu, pkts, hops, next);
}

/// Sends each packet where `next` says; those that are still to be routed, step by step, so that each is asked about.
fn send<F: Routed>(cpu: &mut Cpu, pkts: &mut PktVec, hops: &[HopId; CHUNK], next: &[Next; CHUNK]) {
    if let Some((outif, bytes)) = together(pkts, next) {
        return ifq::output_all(cpu, pkts, outif, bytes);
    }
    pkts.take_each(|at, mut pkt| {
        let next = match next[at % CHUNK] {
            route if route == F::ROUTE => forward::step_by_step::<F>(cpu, &mut pkt, hops[at % CHUNK]),
            known => known,
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
