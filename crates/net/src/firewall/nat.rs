//! Translation of addresses and ports.
//!
//! A packet is [read](headers) once, its binding [found](table), and its ends are [changed in place](rewrite). A new flow
//! gets a [port](ports) whose replies come to the CPU that has the binding, so no CPU asks another. What is
//! [redirected](redirect) needs no binding, nor do [prefixes](nptv6) that are exchanged. `docs/design/adr/0013` says why.

pub mod fuzz_bodies;
pub mod instance;
pub mod nat64;
pub mod nptv6;
pub mod ports;
pub mod redirect;
pub mod rewrite;
pub mod headers;
pub mod spec;
pub mod table;

use std::sync::Arc;

use pkt::Pkt;

use self::instance::{Here, Instance, Verdict};
use self::spec::Spec;
use self::table::BindingDirection;
use super::state::Mark;
use crate::base::count::Counters;
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::base::time::Instant;

/// Instances that a CPU may have.
pub const INSTANCES_MAX: usize = 256;

/// The instances on one CPU, by number.
#[derive(Default)]
pub struct Nat {
    instances: Vec<Instance>,
}

impl Nat {
    /// Makes an instance, or changes how it translates. False if there are as many as there may be.
    pub fn configure(&mut self, spec: Arc<Spec>, secret: &mut Secret) -> bool {
        match self.place(spec.number) {
            Ok(at) => self.instances[at].set_spec(spec, secret),
            Err(_) if self.instances.len() >= INSTANCES_MAX => return false,
            Err(at) => self.instances.insert(at, Instance::new(spec, secret)),
        }
        true
    }

    /// Takes an instance away, and all that it remembers. False if there is none.
    pub fn delete(&mut self, number: u16) -> bool {
        self.place(number).is_ok_and(|at| {
            self.instances.remove(at);
            true
        })
    }

    /// An instance.
    #[must_use]
    pub fn get(&self, number: u16) -> Option<&Instance> {
        self.place(number).ok().and_then(|at| self.instances.get(at))
    }

    /// Copies what instances of the same numbers remember of a packet.
    pub(super) fn learn(&mut self, other: &Self, pkt: &Pkt, now: Instant) {
        for instance in &mut self.instances {
            if let Some(other) = other.get(instance.spec().number) {
                instance.learn(other, pkt, now);
            }
        }
    }

    /// All instances.
    pub fn iter(&self) -> impl Iterator<Item = &Instance> {
        self.instances.iter()
    }

    /// Translates a packet by an instance ([`Instance::translate`]); what no instance has is left as it is.
    pub fn translate(
        &mut self,
        number: u16,
        here: &mut Here<'_>,
        pkt: &mut Pkt,
        direction: BindingDirection,
    ) -> Verdict {
        let at = self.place(number);
        let instance = at.ok().and_then(|at| self.instances.get_mut(at));
        instance.map_or(Verdict::Untouched, |instance| instance.translate(here, pkt, direction))
    }

    /// Translates a packet by the first instance that does (`nat global`).
    pub fn translate_by_any(
        &mut self,
        here: &mut Here<'_>,
        pkt: &mut Pkt,
        direction: BindingDirection,
    ) -> Verdict {
        let mut unasked = Verdict::Untouched;
        for instance in &mut self.instances {
            match instance.translate(here, pkt, direction) {
                Verdict::Untouched => {}
                // Another one may know it.
                Verdict::Drop(DropReason::NatDenied) => unasked = Verdict::Drop(DropReason::NatDenied),
                verdict => return verdict,
            }
        }
        unasked
    }

    /// Ends what has ended, looking at `budget` bindings at the most. Answers at how many it has looked: when at all
    /// of them, there may be more to do at once.
    pub fn expire(&mut self, now: Instant, budget: usize) -> usize {
        let mut left = budget;
        for instance in &mut self.instances {
            left -= instance.expire(now, left);
        }
        budget - left
    }

    /// When there will be something to do for [`Nat::expire`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.instances.iter().filter_map(|instance| instance.table().deadline()).min()
    }

    /// The binding by which an instance has translated the last packet that it was asked about, if that was one as nearly
    /// all are.
    pub(super) fn bound(&self, number: u16) -> Option<Mark> {
        self.get(number)?.bound()
    }

    /// Translates another packet of a flow, by the binding that its last one had, if it `hits` its state. False, and nothing
    /// has changed, if the instance must be asked.
    #[inline]
    pub(super) fn translate_again(
        &mut self,
        number: u16,
        counters: &mut Counters,
        now: Instant,
        pkt: &mut Pkt,
        (binding, direction): (Mark, BindingDirection),
        hits: impl FnOnce(&Pkt) -> bool,
    ) -> bool {
        let at = self.place(number);
        let instance = at.ok().and_then(|at| self.instances.get_mut(at));
        instance
            .is_some_and(|instance| instance.translate_again(counters, now, pkt, (binding, direction), hits))
    }

    /// Whether the binding of this mark is alive.
    pub(super) fn is_bound(&self, number: u16, binding: Mark, now: Instant) -> bool {
        self.get(number).is_some_and(|instance| instance.is_bound(binding, now))
    }

    /// Keeps a binding alive whose packets go where only their number is known; false if it is gone.
    pub(super) fn forwarded(
        &mut self,
        number: u16,
        (binding, direction): (Mark, BindingDirection),
        is_tcp: bool,
        packets: u64,
        now: Instant,
    ) -> bool {
        let at = self.place(number);
        let instance = at.ok().and_then(|at| self.instances.get_mut(at));
        instance.is_some_and(|instance| instance.forwarded((binding, direction), is_tcp, packets, now))
    }

    /// Changes when marks of bindings begin to repeat themselves.
    pub(super) fn epoch(&self) -> u64 {
        self.instances.iter().map(|instance| instance.table().epoch()).sum()
    }

    fn place(&self, number: u16) -> Result<usize, usize> {
        self.instances.binary_search_by_key(&number, |instance| instance.spec().number)
    }
}
