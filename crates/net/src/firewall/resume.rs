//! On from a hook, for packets that did not go on at once.

use core::net::IpAddr;

use ipfw::rule::Hook;
use pkt::{Flags, Pkt};

use super::{ask, shape};
use crate::base::drop::DropReason;
use crate::fib::{Metrics, flow_hash};
use crate::ip::bridge_io;
use crate::ip::forward;
use crate::ip::icmp::is_one_host;
use crate::ip::ip4::Ip4;
use crate::ip::ip6::Ip6;
use crate::ip::l4;
use crate::ip::neigh;
use crate::ip::output::{self, Route, Source};
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;
use crate::turn::netisr::dispatch;
use crate::turn::next::Next;

/// Takes a packet on behind a hook at which rules have let it pass: to `via`, if a rule has named that next hop, else
/// where its route leads.
///
/// Next   [`Next::Local4`], [`Next::Local6`], [`Next::Output`], [`Next::Resolve`], [`Next::Answer`].
/// Drops  [`DropReason::NoRoute`] and others of [`forward`].
pub(super) fn go(cpu: &mut Cpu, pkt: Pkt, hook: Hook, via: Option<IpAddr>) {
    if hook.is_layer2() {
        return bridge_io::resume(cpu, pkt);
    }
    if l4::is_ip4(&pkt) { go_on::<Ip4>(cpu, pkt, hook, via) } else { go_on::<Ip6>(cpu, pkt, hook, via) }
}

/// On from the first hook.
pub(crate) fn go_onward(cpu: &mut Cpu, pkt: Pkt) {
    go(cpu, pkt, Hook::Ingress, None);
}

fn go_on<F: Source>(cpu: &mut Cpu, mut pkt: Pkt, hook: Hook, via: Option<IpAddr>) {
    match (hook, via) {
        (Hook::LocalIn, _) => {
            pkt.flags.set(Flags::ASKED);
            dispatch(cpu, pkt, F::LOCAL);
        }
        (Hook::Ingress, None) => {
            let dst = F::dst(&pkt);
            let next = if is_one_host(cpu, dst) {
                let hop = cpu.tables.fib_for(&pkt).lookup(dst);
                forward::step_by_step::<F>(cpu, &mut pkt, hop)
            } else {
                F::LOCAL
            };
            dispatch(cpu, pkt, next);
        }
        (Hook::LocalOut, None) => output::leave::<F>(cpu, pkt),
        _ => by_way::<F>(cpu, pkt, hook, via),
    }
}

/// To a next hop that must be found first.
fn by_way<F: Source>(cpu: &mut Cpu, pkt: Pkt, hook: Hook, via: Option<IpAddr>) {
    let to = via.unwrap_or_else(|| F::dst(&pkt));
    match output::route(&cpu.tables, cpu.tables.fib_of(&pkt), to, pkt.outif, || flow_hash(&pkt)) {
        Ok(Route::Link { ifindex, next_hop, metrics }) => {
            by_link::<F>(cpu, pkt, hook, ifindex, next_hop, metrics)
        }
        Ok(Route::Local) if hook == Hook::Ingress => dispatch(cpu, pkt, F::LOCAL),
        Ok(Route::Local) => cpu.drop_pkt(pkt, DropReason::NoRoute),
        Err(reason) => cpu.drop_pkt(pkt, reason),
    }
}

fn by_link<F: Source>(
    cpu: &mut Cpu,
    mut pkt: Pkt,
    hook: Hook,
    ifindex: IfIndex,
    next_hop: IpAddr,
    metrics: Metrics,
) {
    match hook {
        Hook::Ingress | Hook::LocalIn => {
            match forward::transit::<F>(cpu, &mut pkt, ifindex, Some(next_hop), metrics) {
                Next::Resolve => neigh::hold_for(cpu, pkt, next_hop),
                Next::Shape(route) => shape(cpu, pkt, route, Some(next_hop)),
                next => dispatch(cpu, pkt, next),
            }
        }
        Hook::LocalOut => output::to_link::<F>(cpu, pkt, ifindex, next_hop, metrics),
        Hook::Layer2 | Hook::Frame => bridge_io::resume(cpu, pkt),
        Hook::Forward | Hook::Egress => {
            pkt.outif = ifindex;
            match if hook == Hook::Forward { ask(cpu, &mut pkt, Hook::Egress) } else { None } {
                Some(Next::Shape(route)) => shape(cpu, pkt, route, Some(next_hop)),
                Some(next) => dispatch(cpu, pkt, next),
                None => output::to_fitting_link::<F>(cpu, pkt, next_hop, metrics),
            }
        }
    }
}
