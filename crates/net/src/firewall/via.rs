//! `fwd`: packets that go to another next hop than their route's.

use core::net::IpAddr;

use hashbrown::HashMap;
use ipfw::rule::Hook;
use pkt::Pkt;

use super::ask;
use crate::cpu::Cpu;
use crate::drop::DropReason;
use crate::fib::flow_hash;
use crate::forward::{self, Family};
use crate::ip4::Ip4;
use crate::ip6::Ip6;
use crate::neigh;
use crate::netisr::dispatch;
use crate::next::Next;
use crate::output::{self, Source, Way};
use crate::secret::Secret;
use crate::upper;

/// Next hops that one CPU's rules and tables may name. A packet to another dies as if there were no route.
pub const VIAS_MAX: usize = 1 << 12;

/// A next hop that a rule named, and the hook at which it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via {
    /// Its place among those of this CPU.
    at: u16,
    hook: Hook,
}

/// The next hops that rules have named on this CPU: a packet is told a number in place of an address.
pub(super) struct Vias {
    addrs: Vec<IpAddr>,
    places: HashMap<IpAddr, u16, Secret>,
}

impl Vias {
    pub(super) fn new(key: u128) -> Self {
        Self { addrs: Vec::new(), places: HashMap::with_hasher(Secret::new(key)) }
    }

    /// The number of a next hop; `None` if there are too many.
    pub(super) fn number(&mut self, to: IpAddr, hook: Hook) -> Option<Via> {
        let known = self.places.get(&to).copied();
        let at = known.or_else(|| {
            let at = u16::try_from(self.addrs.len()).ok().filter(|_| self.addrs.len() < VIAS_MAX)?;
            self.addrs.push(to);
            self.places.insert(to, at);
            Some(at)
        })?;
        Some(Via { at, hook })
    }

    fn addr(&self, via: Via) -> Option<IpAddr> {
        self.addrs.get(usize::from(via.at)).copied()
    }
}

/// Sends a packet to the next hop that a rule named, on from the hook at which it did. The packet is not changed: its
/// hop count goes down as if its route led there, and one of our own addresses gives it to us.
///
/// Next   [`Next::Local4`], [`Next::Local6`], [`Next::Output`], [`Next::Resolve`], [`Next::Answer`].
/// Drops  [`DropReason::NoRoute`] and others of [`forward`].
pub fn send(cpu: &mut Cpu, pkt: Pkt, via: Via) {
    let Some(to) = cpu.firewall.as_ref().and_then(|firewall| firewall.vias.addr(via)) else {
        return cpu.bury(pkt, DropReason::NoRoute);
    };
    if upper::is_ip4(&pkt) {
        send_on::<Ip4>(cpu, pkt, to, via.hook)
    } else {
        send_on::<Ip6>(cpu, pkt, to, via.hook)
    }
}

fn send_on<F: Source>(cpu: &mut Cpu, mut pkt: Pkt, to: IpAddr, hook: Hook) {
    let way = match output::way(&cpu.tables, to, pkt.outif, || flow_hash(&pkt)) {
        Ok(way) => way,
        Err(reason) => return cpu.bury(pkt, reason),
    };
    let Way::Link { ifindex, next_hop, metrics } = way else {
        let next = if hook == Hook::Ingress { <F as Family>::LOCAL } else { Next::Drop(DropReason::NoRoute) };
        return dispatch(cpu, pkt, next);
    };
    match hook {
        Hook::Ingress | Hook::LocalIn => {
            match forward::transit::<F>(cpu, &mut pkt, ifindex, Some(next_hop), metrics) {
                Next::Resolve => neigh::hold_for(cpu, pkt, next_hop),
                next => dispatch(cpu, pkt, next),
            }
        }
        Hook::LocalOut => output::to_link::<F>(cpu, pkt, ifindex, next_hop, metrics),
        Hook::Forward | Hook::Egress => {
            pkt.outif = ifindex;
            let asked = if hook == Hook::Forward { ask(cpu, &mut pkt, Hook::Egress) } else { None };
            match asked {
                Some(next) => dispatch(cpu, pkt, next),
                None => output::to_fitting_link::<F>(cpu, pkt, next_hop, metrics),
            }
        }
    }
}
