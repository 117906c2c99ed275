//! IPv6 hosts that speak to hosts of IPv4: NAT64 (RFC 6146), in the words of RFC 7915.
//!
//! ```text
//!   2001:db8::5 port 4000 ──▶ 64:ff9b::198.51.100.7 port 80        a packet of IPv6, to an address that has one of IPv4 in it
//!            │ binding, as of NAT44          │ prefix
//!   192.0.2.1 port 23456 ──▶ 198.51.100.7 port 80                  goes on as one of IPv4, from one of the pool
//! ```
//!
//! A flow is bound as one of [NAT44](super::table) is, and its port chosen in the same way: so that answers, which are of
//! IPv4 and hash otherwise, come to the CPU that has the binding.

mod header;
mod icmp;
pub mod prefix;
pub mod spec;

use core::net::Ipv4Addr;
use std::sync::Arc;

use pkt::Pkt;
use wire::Protocol;

use self::header::AddrPair;
use self::spec::Spec;
use super::headers::{End, Kind, Shape, Side};
use super::instance::{Here, IDS_MAX, Totals, Verdict, elsewhere, has_ports};
use super::ports::{Ask, Ports, fold};
use super::table::{Binding, BindingDirection, By, Id, Key, Oldest, Table, Tick};
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::base::time::Instant;
use crate::ip::ip6::headers;
use crate::link::tables::Tables;

/// The instances on one CPU, in the order of their names.
#[derive(Default)]
pub struct Nat64 {
    instances: Vec<Instance>,
}

/// An instance on one CPU.
pub struct Instance {
    spec: Arc<Spec>,
    table: Table,
    totals: Totals,
}

/// Why a packet is not translated.
const NO_WORD: Verdict = Verdict::Drop(DropReason::Nat64Untranslatable);

impl Nat64 {
    /// Returns the configurations of its instances, shared with the other CPUs.
    pub(in super::super) fn specs(&self) -> Vec<Arc<Spec>> {
        self.instances.iter().map(|instance| Arc::clone(&instance.spec)).collect()
    }

    /// Has these instances and no others. One that was there before goes on with its bindings, unless others see other
    /// addresses now.
    pub fn configure(&mut self, specs: &[Arc<Spec>], secret: &mut Secret) {
        let mut before = core::mem::take(&mut self.instances);
        for spec in specs {
            let old = before.iter().position(|instance| instance.spec.is_like(spec));
            self.instances.push(match old {
                Some(at) => Instance { spec: Arc::clone(spec), ..before.swap_remove(at) },
                None => Instance::new(Arc::clone(spec), secret),
            });
        }
    }

    /// All instances.
    pub fn iter(&self) -> impl Iterator<Item = &Instance> {
        self.instances.iter()
    }

    /// An instance.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Instance> {
        self.instances.iter().find(|instance| instance.spec.name == name)
    }

    /// Translates a packet by an instance, into the other family.
    pub(crate) fn translate(
        &mut self,
        name: &str,
        here: &mut Here<'_>,
        tables: &Tables,
        pkt: &mut Pkt,
    ) -> Verdict {
        let instance = self.instances.iter_mut().find(|instance| instance.spec.name == name);
        instance.map_or(Verdict::Untouched, |instance| instance.translate(here, tables, pkt))
    }

    /// Translates an error that was made here about a packet that any instance had translated.
    pub(crate) fn translate_own(&mut self, here: &mut Here<'_>, tables: &Tables, pkt: &mut Pkt) -> Verdict {
        let mut verdicts = self.instances.iter_mut().map(|instance| instance.translate(here, tables, pkt));
        verdicts.find(|verdict| *verdict != Verdict::Untouched).unwrap_or(Verdict::Untouched)
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.instances.is_empty()
    }

    /// Ends what has ended, as [`super::Nat::expire`].
    pub fn expire(&mut self, now: Instant, budget: usize) -> usize {
        let mut left = budget;
        for instance in &mut self.instances {
            left -= instance.table.expire(Tick::at(now), left);
        }
        budget - left
    }

    /// When there will be something to do for [`Nat64::expire`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.instances.iter().filter_map(|instance| instance.table.deadline()).min()
    }
}

impl Instance {
    fn new(spec: Arc<Spec>, secret: &mut Secret) -> Self {
        Self { table: Table::new(spec.max, secret), spec, totals: Totals::default() }
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
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

    /// Translates a packet that came in: of IPv6, if it goes to an address with one of IPv4 in it; of IPv4, if it goes to
    /// one of the pool.
    ///
    /// # Spec
    /// RFC 6146 §3.5: with address- and port-dependent filtering, and mappings that are the same for all remote ends
    /// where the prefix is one of 32 or 96 bits.
    fn translate(&mut self, here: &mut Here<'_>, tables: &Tables, pkt: &mut Pkt) -> Verdict {
        let Some(shape) = Shape::read(pkt.head()) else { return Verdict::Drop(DropReason::NatMalformed) };
        let verdict = if shape.is_ip4 {
            self.inward(here, tables, pkt, &shape)
        } else {
            self.outward(here, tables, pkt, &shape)
        };
        if let Verdict::Owner(_) = verdict {
            here.counters.add(Count::NatHandoffs, 1);
        }
        verdict
    }

    fn outward(&mut self, here: &mut Here<'_>, tables: &Tables, pkt: &mut Pkt, shape: &Shape) -> Verdict {
        let Some(addr) = self.spec.prefix.take(shape.dst.addr) else { return Verdict::Untouched };
        //= https://www.rfc-editor.org/rfc/rfc6146#section-3.5
        //# If the incoming packet's source IPv6 address contains a prefix Pref64::/n, the packet MUST be dropped
        if self.spec.prefix.take(shape.src.addr).is_some() {
            return NO_WORD;
        }
        if !self.spec.may_speak_to(Ipv4Addr::from_bits(addr)) {
            return Verdict::Refuse(DropReason::Nat64Untranslatable);
        }
        if !shape.is_whole {
            return Verdict::Reassemble;
        }
        let dst = End { addr: addr.into(), port: shape.dst.port };
        match shape.kind {
            _ if !is_translatable(pkt.head()) => NO_WORD,
            Kind::Error => self.error_outward(here, pkt, shape, dst),
            Kind::Tcp(_) | Kind::Udp | Kind::Query => match self.bind(here, shape, shape.as_remote(dst)) {
                Ok(src) => self.cross(here, tables, pkt, shape, AddrPair { src, dst }),
                Err(verdict) => verdict,
            },
            Kind::Other | Kind::Later => NO_WORD,
        }
    }

    /// On as a packet of IPv4; if others see another host of IPv6 at its destination, back as one of IPv6.
    fn cross(
        &mut self,
        here: &mut Here<'_>,
        tables: &Tables,
        pkt: &mut Pkt,
        shape: &Shape,
        ends: AddrPair,
    ) -> Verdict {
        here.counters.add(Count::NatOut, 1);
        if header::to_ip4(pkt, shape, ends, identification(here)).is_none() {
            return NO_WORD;
        }
        //= https://www.rfc-editor.org/rfc/rfc6146#section-3.8
        let turned = Shape::read(pkt.head()).map_or(NO_WORD, |shape| self.inward(here, tables, pkt, &shape));
        match turned {
            Verdict::Untouched => Verdict::Translated,
            Verdict::Translated => {
                here.counters.add(Count::NatHairpins, 1);
                Verdict::Translated
            }
            other => other,
        }
    }

    fn inward(&mut self, here: &mut Here<'_>, tables: &Tables, pkt: &mut Pkt, shape: &Shape) -> Verdict {
        let Some(dst) = u32::try_from(shape.dst.addr).ok().filter(|addr| self.spec.is_outside(*addr)) else {
            return Verdict::Untouched;
        };
        // An unsolicited packet may be for this host, if the address is its own.
        let is_ours = tables.is_ours(Ipv4Addr::from_bits(dst).into());
        let unasked = if is_ours { Verdict::Untouched } else { Verdict::Drop(DropReason::NatDenied) };
        match shape.kind {
            _ if !shape.is_whole => Verdict::Reassemble,
            Kind::Error => self.error_inward(here, pkt, shape, unasked),
            Kind::Tcp(_) | Kind::Udp | Kind::Query => {
                let remote = shape.remote(Side::Src);
                if let Some(id) = self.find(By::Outside, shape.dst, remote, shape.protocol, here.now) {
                    let dst = self.pass(id, BindingDirection::In, shape.kind, here.now).inside();
                    let ends = AddrPair { src: self.put(shape.src), dst };
                    here.counters.add(Count::NatIn, 1);
                    return header::to_ip6(pkt, shape, ends).map_or(NO_WORD, |()| Verdict::Translated);
                }
                elsewhere(here, shape, shape.dst.addr, remote).map_or(unasked, Verdict::Owner)
            }
            Kind::Other | Kind::Later => unasked,
        }
    }

    /// An error from IPv6 about what came from IPv4. Of a router, which has no address there, it comes from the one that
    /// stands for the host.
    fn error_outward(&mut self, here: &mut Here<'_>, pkt: &mut Pkt, shape: &Shape, dst: End) -> Verdict {
        let quote = shape.quote(pkt.head()).filter(|quote| quote.src.addr == shape.dst.addr);
        let Some(quote) = quote else { return Verdict::Drop(DropReason::NatUnknown) };
        let from = End { addr: dst.addr, port: quote.src.port };
        let (remote, addr) = (quote.as_remote(from), self.spec.outside(quote.dst.addr).into());
        if let Some(owner) = elsewhere(here, &quote, addr, remote) {
            return Verdict::Owner(owner);
        }
        let Some(id) = self.find(By::Inside, quote.dst, remote, quote.protocol, here.now) else {
            return Verdict::Drop(DropReason::NatUnknown);
        };
        let outside = self.table.get(id).outside();
        let src = self.spec.prefix.take(shape.src.addr).map_or(outside.addr, u128::from);
        let outer = AddrPair { src: End { addr: src, port: 0 }, dst };
        let inner = AddrPair { src: quote.beside(from, outside), dst: outside };
        here.counters.add(Count::NatErrors, 1);
        let done = icmp::error_to_ip4(pkt, [shape, &quote], outer, inner, identification(here));
        done.map_or(NO_WORD, |()| Verdict::Translated)
    }

    /// An error from IPv4 about what was sent there.
    fn error_inward(
        &mut self,
        here: &mut Here<'_>,
        pkt: &mut Pkt,
        shape: &Shape,
        unasked: Verdict,
    ) -> Verdict {
        let quote = shape.quote(pkt.head()).filter(|quote| quote.src.addr == shape.dst.addr);
        let Some(quote) = quote else { return unasked };
        let remote = quote.remote(Side::Dst);
        if let Some(owner) = elsewhere(here, &quote, quote.src.addr, remote) {
            return Verdict::Owner(owner);
        }
        let Some(id) = self.find(By::Outside, quote.src, remote, quote.protocol, here.now) else {
            return unasked;
        };
        let inside = self.table.get(id).inside();
        let outer = AddrPair { src: self.put(shape.src), dst: inside };
        let inner = AddrPair { src: inside, dst: quote.beside(self.put(quote.dst), inside) };
        here.counters.add(Count::NatErrors, 1);
        let done = icmp::error_to_ip6(pkt, [shape, &quote], outer, inner);
        done.map_or(NO_WORD, |()| Verdict::Translated)
    }

    /// Binds the source of a packet to `remote` if needed; returns its IPv4 source.
    fn bind(&mut self, here: &mut Here<'_>, shape: &Shape, remote: End) -> Result<End, Verdict> {
        if let Some(id) = self.find(By::Inside, shape.src, remote, shape.protocol, here.now) {
            return Ok(self.pass(id, BindingDirection::Out, shape.kind, here.now).outside());
        }
        self.begin(here, shape, remote)
    }

    #[cold]
    fn begin(&mut self, here: &mut Here<'_>, shape: &Shape, remote: End) -> Result<End, Verdict> {
        let addr = self.spec.outside(shape.src.addr).into();
        if let Some(owner) = elsewhere(here, shape, addr, remote) {
            return Err(Verdict::Owner(owner));
        }
        let Some(port) = self.port(here, shape, addr, remote) else {
            self.totals.no_port += 1;
            return Err(Verdict::Refuse(DropReason::NatExhausted));
        };
        let (outside, now) = (End { addr, port }, Tick::at(here.now));
        let mut binding = Binding::new(shape.src, outside, remote, in_ip4(shape.protocol));
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
    fn port(&mut self, here: &mut Here<'_>, shape: &Shape, addr: u128, remote: End) -> Option<u16> {
        let Self { spec, table, .. } = self;
        let (protocol, now) = (in_ip4(shape.protocol), Tick::at(here.now));
        let seed = spec.seed(shape.src, protocol);
        let mut oldest = Oldest::default();
        let mut is_free = |port: &u16| {
            let key = Key { end: End { addr, port: *port }, remote, protocol };
            let taken = table.find(By::Outside, &key, now);
            taken.inspect(|id| oldest.meet(table.get(*id))).is_none()
        };
        if !has_ports(shape.protocol) {
            let [first, second, ..] = seed.to_le_bytes();
            return (0..IDS_MAX).map(|n| u16::from_le_bytes([first, second]).wrapping_add(n)).find(is_free);
        }
        // What the prefix adds to the hashes of all remote ends is as if the inside end had it.
        let about_prefix = spec.prefix.fold();
        let ask = Ask {
            inside: fold(shape.src.addr) ^ shape.src.port ^ about_prefix.unwrap_or(0),
            outside: fold(addr),
            remote: fold(remote.addr) ^ remote.port,
            is_plain: about_prefix.is_some(),
            keep: None,
            range: spec.range.clone(),
            seed,
            dice: here.secret.draw(),
        };
        let free = Ports::new(here.placement, here.cpu).candidates(&ask).find(&mut is_free);
        free.or_else(|| table.evict(oldest, now, here.counters))
    }

    fn find(&mut self, by: By, end: End, remote: End, protocol: Protocol, now: Instant) -> Option<Id> {
        self.table.find(by, &Key { end, remote, protocol: in_ip4(protocol) }, Tick::at(now))
    }

    fn pass(&mut self, id: Id, direction: BindingDirection, kind: Kind, now: Instant) -> &Binding {
        let binding = self.table.get_mut(id);
        binding.pass(direction, kind, Tick::at(now), &self.spec.lifetimes);
        binding
    }

    /// An end of IPv4, as IPv6 sees it.
    fn put(&self, end: End) -> End {
        End { addr: self.spec.prefix.put(u32::try_from(end.addr).unwrap_or(0)), ..end }
    }
}

/// The protocol as IPv4 knows it, under which flows are bound.
const fn in_ip4(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::ICMP6 => Protocol::ICMP.0,
        other => other.0,
    }
}

/// Whether the headers between that of IPv6 and the upper layer are such that IPv4 can do without.
//= https://www.rfc-editor.org/rfc/rfc7915#section-5.1
//# If a Routing header with a non-zero Segments Left field is present, then the packet MUST NOT be translated
fn is_translatable(packet: &[u8]) -> bool {
    headers::each(packet).all(|(protocol, at)| match protocol {
        Protocol::AH => false,
        Protocol::ROUTING => packet.get(at + 3) == Some(&0),
        _ => true,
    })
}

/// Draws an unpredictable identification, most likely unique at the time.
//= https://www.rfc-editor.org/rfc/rfc7739#section-5.2
fn identification(here: &mut Here<'_>) -> u16 {
    let [a, b, ..] = here.secret.draw().to_le_bytes();
    u16::from_le_bytes([a, b])
}

#[cfg(test)]
mod tests;
