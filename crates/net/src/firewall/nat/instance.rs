//! One instance on one CPU: what it does with a packet.

use std::sync::Arc;

use pkt::Pkt;
use wire::Protocol;
use wire::toeplitz::symmetric;

use super::headers::{End, Kind, Shape, Side};
use super::ports::{Ask, Ports, fold};
use super::rewrite::translate;
use super::spec::Spec;
use super::table::{Binding, BindingDirection, By, Id, Key, Oldest, Table, Tick};
use crate::base::count::{Count, Counters};
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::base::time::Instant;
use crate::firewall::state::Mark;
use crate::turn::cpu::CpuId;
use crate::turn::rss::Placement;

mod error;
mod hairpin;
mod fastpath;

/// Where and when a packet is translated.
pub struct Here<'a> {
    /// The time of this turn.
    pub now: Instant,
    /// This CPU.
    pub cpu: CpuId,
    /// Placement of flows on CPUs.
    pub placement: Placement,
    /// Random numbers.
    pub secret: &'a mut Secret,
    /// Numbers for people.
    pub counters: &'a mut Counters,
}

/// The verdict on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has other ends now, and no hash.
    Translated,
    /// It is not the instance's: it goes on as it is.
    Untouched,
    /// Its binding is, or will be, this CPU's: hand it over as it is, and ask there.
    Owner(CpuId),
    /// It is a fragment: reassemble the datagram, and ask on the CPU that it then belongs to.
    Reassemble,
    /// It dies.
    Drop(DropReason),
    /// It dies, and its sender is told that the host is unreachable.
    Refuse(DropReason),
}

/// An instance on one CPU.
pub struct Instance {
    spec: Arc<Spec>,
    table: Table,
    totals: Totals,
    /// The binding of the last packet, if it was a usual one.
    bound: Option<Id>,
}

/// Counts of flows on one CPU, since the instance was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bindings that were made.
    pub begun: u64,
    /// Packets refused because the interface whose address it has has none.
    pub no_address: u64,
    /// Packets refused because no port was left for their remote end.
    pub no_port: u64,
    /// Packets refused because there were as many bindings as there may be.
    pub no_room: u64,
}

impl Instance {
    /// An instance without bindings.
    #[must_use]
    pub fn new(spec: Arc<Spec>, secret: &mut Secret) -> Self {
        Self { table: Table::new(spec.max, secret), spec, totals: Totals::default(), bound: None }
    }

    /// Returns its configuration.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Returns its configuration, shared with the other CPUs.
    pub(in super::super) fn shared_spec(&self) -> Arc<Spec> {
        Arc::clone(&self.spec)
    }

    /// Returns its bindings.
    #[must_use]
    pub const fn table(&self) -> &Table {
        &self.table
    }

    /// Returns its counts.
    #[must_use]
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// The binding by which the last packet was translated, if that was a usual one.
    pub(in super::super) fn bound(&self) -> Option<Mark> {
        self.bound.map(|id| self.table.mark(id))
    }

    /// Translates otherwise from now on. Flows go on as they were, unless the address is another and the instance is one
    /// that then forgets them (`reset`).
    pub fn set_spec(&mut self, spec: Arc<Spec>, secret: &mut Secret) {
        if spec.reset && spec.addr != self.spec.addr {
            self.table = Table::new(spec.max, secret);
        }
        self.table.set_max(spec.max);
        self.spec = spec;
    }

    /// Copies the bindings of another instance that a packet would find; room is left for as many as there.
    pub(in super::super) fn learn(&mut self, other: &Self, pkt: &Pkt, now: Instant) {
        let now = Tick::at(now);
        self.table.set_max(other.table.max().saturating_sub(other.table.len()) + self.table.len());
        let Some(shape) = Shape::read(pkt.head()).filter(|shape| shape.is_ip4) else { return };
        let protocol = shape.protocol.0;
        let out = Key { end: shape.src, remote: shape.remote(Side::Dst), protocol };
        let back = Key { end: shape.dst, remote: shape.remote(Side::Src), protocol };
        for (by, key) in [(By::Inside, out), (By::Outside, back)] {
            let Some(binding) = other.table.peek(by, &key, now) else { continue };
            if self.table.find(by, &key, now).is_none() {
                self.table.set_max(self.table.max() + 1);
                // There is room for it.
                let _ = self.table.insert(binding, now);
            }
        }
    }

    /// Ends what has ended, looking at `budget` bindings at the most. Answers at how many it has looked.
    pub fn expire(&mut self, now: Instant, budget: usize) -> usize {
        self.table.expire(Tick::at(now), budget)
    }

    /// Translates a packet that goes through the outside interface: `Out` of it, or that came `In` by it. One that came in
    /// by another interface, and goes to an address that others see, is taken as one from inside to inside.
    ///
    /// Reads and writes the packet's headers, as far as they are in its first buffer. IPv6 is left as it is.
    pub fn translate(&mut self, here: &mut Here<'_>, pkt: &mut Pkt, direction: BindingDirection) -> Verdict {
        self.bound = self.translate_bound(here, pkt, direction);
        if self.bound.is_some() {
            return Verdict::Translated;
        }
        if self.spec.proxy_only || pkt.window(0)[0] >> 4 != 4 {
            return Verdict::Untouched;
        }
        let Some(shape) = Shape::read(pkt.head()) else { return Verdict::Drop(DropReason::NatMalformed) };
        let verdict = match (direction, self.spec.reverse) {
            (BindingDirection::Out, false) | (BindingDirection::In, true) => self.outward(here, pkt, &shape),
            (BindingDirection::In, false) | (BindingDirection::Out, true) => self.inward(here, pkt, &shape),
        };
        if let Verdict::Owner(_) = verdict {
            here.counters.add(Count::NatHandoffs, 1);
        }
        verdict
    }

    fn outward(&mut self, here: &mut Here<'_>, pkt: &mut Pkt, shape: &Shape) -> Verdict {
        let spec = &*self.spec;
        let is_inside = spec.has_source(shape.src.addr) || spec.redirects.has_target(shape.src.addr);
        // Our own errors may be about what went inside.
        let is_own_error = shape.kind == Kind::Error && spec.is_outside(shape.src.addr);
        if !(is_inside || is_own_error) {
            return Verdict::Untouched;
        }
        if !shape.is_whole {
            return Verdict::Reassemble;
        }
        if shape.kind == Kind::Error {
            return self.error_outward(here, pkt, shape);
        }
        if spec.is_outside(shape.dst.addr) {
            return self.hairpin(here, pkt, shape);
        }
        let protocol = shape.protocol.0;
        if let Some(outside) = spec.redirects.outward(protocol, shape.src, shape.remote(Side::Dst)) {
            translate(pkt, shape, Side::Src, outside);
            here.counters.add(Count::NatRedirected, 1);
            return Verdict::Translated;
        }
        if !spec.has_source(shape.src.addr) {
            return Verdict::Untouched;
        }
        match self.bind(here, shape, shape.remote(Side::Dst), true) {
            Ok(outside) => {
                translate(pkt, shape, Side::Src, outside);
                here.counters.add(Count::NatOut, 1);
                Verdict::Translated
            }
            Err(verdict) => verdict,
        }
    }

    fn inward(&mut self, here: &mut Here<'_>, pkt: &mut Pkt, shape: &Shape) -> Verdict {
        let spec = &*self.spec;
        if !spec.is_outside(shape.dst.addr) {
            // To a host inside by its own address, or past the instance: unsolicited, too.
            let is_passing = spec.reverse || spec.is_from_inside(pkt.rcvif);
            return if is_passing { Verdict::Untouched } else { self.unasked() };
        }
        if !shape.is_whole {
            return Verdict::Reassemble;
        }
        if shape.kind == Kind::Error {
            return self.error_inward(here, pkt, shape);
        }
        if spec.is_from_inside(pkt.rcvif) {
            return self.hairpin(here, pkt, shape);
        }
        let (remote, protocol) = (shape.remote(Side::Src), shape.protocol.0);
        if let Some(id) = self.find(By::Outside, shape.dst, remote, protocol, here.now) {
            let inside = self.pass(id, BindingDirection::In, shape.kind, here.now).inside();
            translate(pkt, shape, Side::Dst, inside);
            here.counters.add(Count::NatIn, 1);
            return Verdict::Translated;
        }
        if let Some(inside) = self.spec.redirects.inward(protocol, shape.dst, remote) {
            translate(pkt, shape, Side::Dst, inside);
            here.counters.add(Count::NatRedirected, 1);
            return Verdict::Translated;
        }
        if let Some(owner) = elsewhere(here, shape, shape.dst.addr, remote) {
            return Verdict::Owner(owner);
        }
        self.unasked()
    }

    /// Returns the verdict on an unsolicited packet.
    fn unasked(&self) -> Verdict {
        if self.spec.deny_in { Verdict::Drop(DropReason::NatDenied) } else { Verdict::Untouched }
    }

    /// The outside end of the flow from `shape`'s source to `remote`, which is bound now if it was not. `is_plain`: the
    /// packet is sent to `remote`, and not to what is redirected there.
    fn bind(
        &mut self,
        here: &mut Here<'_>,
        shape: &Shape,
        remote: End,
        is_plain: bool,
    ) -> Result<End, Verdict> {
        if let Some(id) = self.find(By::Inside, shape.src, remote, shape.protocol.0, here.now) {
            return Ok(self.pass(id, BindingDirection::Out, shape.kind, here.now).outside());
        }
        self.begin(here, shape, remote, is_plain)
    }

    #[cold]
    fn begin(
        &mut self,
        here: &mut Here<'_>,
        shape: &Shape,
        remote: End,
        is_plain: bool,
    ) -> Result<End, Verdict> {
        let Some(addr) = self.spec.addr.map(u128::from) else {
            self.totals.no_address += 1;
            return Err(Verdict::Refuse(DropReason::NatNoAddress));
        };
        if let Some(owner) = elsewhere(here, shape, addr, remote) {
            return Err(Verdict::Owner(owner));
        }
        let Some(port) = self.port(here, shape, addr, remote, is_plain) else {
            self.totals.no_port += 1;
            return Err(Verdict::Refuse(DropReason::NatExhausted));
        };
        let outside = End { addr, port };
        let mut binding = Binding::new(shape.src, outside, remote, shape.protocol.0);
        let now = Tick::at(here.now);
        binding.pass(BindingDirection::Out, shape.kind, now, &self.spec.lifetimes);
        if self.table.insert_or_evict(binding, now, here.secret, here.counters).is_err() {
            self.totals.no_room += 1;
            return Err(Verdict::Refuse(DropReason::NatFull));
        }
        self.totals.begun += 1;
        here.counters.add(Count::NatBindings, 1);
        Ok(outside)
    }

    /// A port, or identifier, that is free for this remote end. If none is, the oldest of the half-open connections that have
    /// those ports makes room.
    fn port(
        &mut self,
        here: &mut Here<'_>,
        shape: &Shape,
        addr: u128,
        remote: End,
        is_plain: bool,
    ) -> Option<u16> {
        let Self { spec, table, .. } = self;
        let protocol = shape.protocol.0;
        let seed = spec.seed(shape.src, protocol);
        let is_own = shape.src.addr == addr;
        let keep = (spec.same_ports || is_own).then_some(shape.src.port);
        let now = Tick::at(here.now);
        let mut oldest = Oldest::default();
        let mut is_free = |port: &u16| {
            let end = End { addr, port: *port };
            if spec.redirects.has_port(protocol, end) {
                return false;
            }
            let taken = table.find(By::Outside, &Key { end, remote, protocol }, now);
            taken.inspect(|id| oldest.meet(table.get(*id))).is_none()
        };
        let free = match shape.kind {
            Kind::Tcp(_) | Kind::Udp => {
                let ask = Ask {
                    inside: fold(shape.src.addr) ^ shape.src.port,
                    outside: fold(addr),
                    remote: fold(remote.addr) ^ remote.port,
                    is_plain,
                    keep,
                    range: spec.range.clone(),
                    seed,
                    dice: here.secret.draw(),
                };
                let mut candidates = Ports::new(here.placement, here.cpu).candidates(&ask);
                // What this host sends itself keeps its port, also one that is not for others.
                keep.filter(|port| is_own && is_free(port)).or_else(|| candidates.find(&mut is_free))
            }
            Kind::Query => {
                let [first, second, ..] = seed.to_le_bytes();
                let first = u16::from_le_bytes([first, second]);
                keep.into_iter().chain((0..IDS_MAX).map(|n| first.wrapping_add(n))).find(is_free)
            }
            _ => Some(0).filter(is_free),
        };
        free.or_else(|| table.evict(oldest, now, here.counters))
    }

    fn find(&mut self, by: By, end: End, remote: End, protocol: u8, now: Instant) -> Option<Id> {
        self.table.find(by, &Key { end, remote, protocol }, Tick::at(now))
    }

    fn pass(&mut self, id: Id, direction: BindingDirection, kind: Kind, now: Instant) -> &Binding {
        let binding = self.table.get_mut(id);
        binding.pass(direction, kind, Tick::at(now), &self.spec.lifetimes);
        binding
    }
}

/// Identifiers that are tried for a query.
pub(super) const IDS_MAX: u16 = 256;

/// The CPU that has the bindings of such a packet, if it is another one. What has ports is where it is placed; what has
/// none is where its answers are, to the outside address.
pub(super) fn elsewhere(here: &Here<'_>, shape: &Shape, outside: u128, remote: End) -> Option<CpuId> {
    if here.placement.cpus() == 1 {
        return None;
    }
    let hash = if has_ports(shape.protocol) {
        fold(shape.src.addr) ^ fold(shape.dst.addr) ^ shape.src.port ^ shape.dst.port
    } else {
        fold(outside) ^ fold(remote.addr)
    };
    Some(here.placement.owner(symmetric(hash))).filter(|owner| *owner != here.cpu)
}

/// Whether a protocol's packets are placed by their ports.
pub(super) const fn has_ports(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::TCP | Protocol::UDP)
}

#[cfg(test)]
mod tests;
