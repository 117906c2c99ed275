//! Bindings of one instance on one CPU, found from inside and from outside.
//!
//! ```text
//!   inside end, remote end ──▶ chain ──┐
//!                                      ├──▶ binding, 64 bytes ◀── wheel, by when it may end
//!  outside end, remote end ──▶ chain ──┘
//! ```
//!
//! Bindings lie side by side: the last takes the place of one that ends. So memory goes back as bindings end, and to read
//! them all is to read an array. Chains are split and joined one at a time, so no packet waits for a table to grow.

mod binding;
mod index;
mod evict;
mod slab;
mod wheel;

use wire::Protocol;

use super::headers::End;
use crate::base::secret::{Secret, fold};
use crate::base::time::Instant;
use crate::firewall::state::Mark;

pub use binding::{Binding, BindingDirection, Lifetimes};
use binding::{Links, NONE};
pub use evict::Oldest;
use index::Index;
use slab::Slab;
use wheel::Wheel;

/// Time in units of 2³⁰ nanoseconds, which are 1.07 seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(pub(super) u32);

impl Tick {
    /// The tick of a moment.
    #[must_use]
    pub fn at(now: Instant) -> Self {
        Self(u32::try_from(now.ns() >> 30).unwrap_or(u32::MAX))
    }

    /// When the tick begins.
    #[must_use]
    pub fn begin(self) -> Instant {
        Instant::from_ns(u64::from(self.0) << 30)
    }
}

/// From where a binding is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By its inside end.
    Inside = 0,
    /// By its outside end.
    Outside = 1,
}

/// The key of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The inside or the outside end.
    pub end: End,
    /// Remote end.
    pub remote: End,
    /// The upper layer's protocol.
    pub protocol: u8,
}

/// The place of a binding, until another one ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(u32);

/// There are as many bindings as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The bindings.
pub struct Table {
    slab: Slab,
    index: [Index; 2],
    wheel: Wheel,
    secret: [u64; 4],
    max: usize,
    by_protocol: ByProtocol,
    /// Bindings that have ever been made, and more: of the lower half, none is 0.
    serial: u64,
}

/// Bits of its number that a binding stores; 0 is no binding's.
const SERIAL: u64 = u32::MAX as u64;

/// Numbers of bindings by protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByProtocol {
    /// Queries of ICMP.
    pub icmp: usize,
    /// TCP.
    pub tcp: usize,
    /// UDP.
    pub udp: usize,
    /// Whatever has no ports.
    pub other: usize,
}

impl ByProtocol {
    const fn of(&mut self, protocol: u8) -> &mut usize {
        match Protocol(protocol) {
            Protocol::ICMP => &mut self.icmp,
            Protocol::TCP => &mut self.tcp,
            Protocol::UDP => &mut self.udp,
            _ => &mut self.other,
        }
    }
}

impl Table {
    /// Room for `max` bindings; memory is taken as they come.
    #[must_use]
    pub fn new(max: usize, secret: &mut Secret) -> Self {
        Self {
            slab: Slab::default(),
            index: [Index::default(), Index::default()],
            wheel: Wheel::default(),
            secret: core::array::from_fn(|_| secret.draw()),
            max: max.min(NONE as usize / 2),
            by_protocol: ByProtocol::default(),
            serial: 0,
        }
    }

    /// Bindings there are, some of which may have just ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the numbers of bindings by protocol.
    #[must_use]
    pub const fn by_protocol(&self) -> ByProtocol {
        self.by_protocol
    }

    /// Bindings there may be.
    #[must_use]
    pub const fn max(&self) -> usize {
        self.max
    }

    /// Room for `max` bindings from now on. What is beyond them ends in its time.
    pub fn set_max(&mut self, max: usize) {
        self.max = max.min(NONE as usize / 2);
    }

    /// Bytes that are taken, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slab.bytes() + self.index.iter().map(Index::bytes).sum::<usize>()
    }

    /// The live binding that has this key. One that is found to have ended is taken away.
    #[inline]
    pub fn find(&mut self, by: By, key: &Key, now: Tick) -> Option<Id> {
        let at = self.position(by, key)?;
        if self.slab.get(at).0.expires < now {
            self.remove(Id(at));
            return None;
        }
        Some(Id(at))
    }

    /// Returns a copy of the live binding that has this key.
    pub(super) fn peek(&self, by: By, key: &Key, now: Tick) -> Option<Binding> {
        let (binding, _) = self.slab.get(self.position(by, key)?);
        (binding.expires >= now).then_some(*binding)
    }

    #[inline]
    fn position(&self, by: By, key: &Key) -> Option<u32> {
        let hash = key.hash(&self.secret);
        let mut at = self.index[by as usize].first(hash);
        while at != NONE {
            let (binding, links) = self.slab.get(at);
            if binding.is(by, key) {
                return Some(at);
            }
            at = links.chain[by as usize];
        }
        None
    }

    /// A binding.
    #[inline]
    #[must_use]
    pub fn get(&self, id: Id) -> &Binding {
        self.slab.get(id.0).0
    }

    /// Returns a mark that names this binding, and no later one in its place as long as [`Table::epoch`] is the
    /// same.
    pub(in super::super) fn mark(&self, id: Id) -> Mark {
        Mark { at: id.0, serial: self.get(id).serial }
    }

    /// The binding of this mark, if it is alive and still in its place.
    #[inline]
    pub(super) fn marked(&self, mark: Mark, now: Tick) -> Option<Id> {
        let is_place = (mark.at as usize) < self.len();
        let binding = is_place.then(|| self.get(Id(mark.at)))?;
        (binding.serial == mark.serial && binding.expires >= now).then_some(Id(mark.at))
    }

    /// Changes when marks begin to repeat themselves.
    pub(super) const fn epoch(&self) -> u64 {
        self.serial >> 32
    }

    /// A binding, to change. What it is found by must stay.
    #[inline]
    pub(super) fn get_mut(&mut self, id: Id) -> &mut Binding {
        self.slab.get_mut(id.0).0
    }

    /// Adds a binding. That there is none with its keys is for the caller to know.
    ///
    /// # Errors
    ///
    /// [`Full`].
    pub fn insert(&mut self, mut binding: Binding, now: Tick) -> Result<Id, Full> {
        if self.len() >= self.max {
            return Err(Full);
        }
        self.serial += 1 + u64::from(self.serial & SERIAL == SERIAL);
        binding.serial = u32::try_from(self.serial & SERIAL).unwrap_or(0);
        if self.is_empty() {
            self.wheel.start(now);
        }
        let expires = binding.expires;
        *self.by_protocol.of(binding.protocol()) += 1;
        let at = self.slab.push(binding);
        for by in [By::Inside, By::Outside] {
            let hash = self.hash(by, at);
            self.index[by as usize].insert(&mut self.slab, by, hash, at);
        }
        self.wheel.insert(&mut self.slab, at, expires);
        self.grow();
        Ok(Id(at))
    }

    /// Takes a binding away.
    pub fn remove(&mut self, id: Id) {
        *self.by_protocol.of(self.get(id).protocol()) -= 1;
        for by in [By::Inside, By::Outside] {
            let hash = self.hash(by, id.0);
            self.index[by as usize].remove(&mut self.slab, by, hash, id.0);
        }
        self.wheel.remove(&mut self.slab, id.0);
        self.fill(id.0);
        self.shrink();
    }

    /// Takes away what has ended, and answers how many bindings it looked at: at most `budget`, so that the rest is for
    /// the next turn.
    pub fn expire(&mut self, now: Tick, budget: usize) -> usize {
        for looked_at in 0..budget {
            let Some(at) = self.wheel.due(now) else { return looked_at };
            let expires = self.slab.get(at).0.expires;
            if expires < now {
                self.remove(Id(at));
            } else {
                self.wheel.remove(&mut self.slab, at);
                self.wheel.insert(&mut self.slab, at, expires);
            }
        }
        budget
    }

    /// When there will be something to do for [`Table::expire`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        (!self.is_empty()).then(|| self.wheel.next().begin())
    }

    /// Bindings from the `from`th on, as they lie: changes between two looks may show one twice or never.
    pub fn iter_from(&self, from: usize) -> impl Iterator<Item = &Binding> {
        (from..self.len()).filter_map(|at| Some(self.slab.get(u32::try_from(at).ok()?).0))
    }

    /// The last binding takes the place of one that is in no list any more.
    fn fill(&mut self, hole: u32) {
        let last = self.slab.last();
        if hole != last {
            for by in [By::Inside, By::Outside] {
                let hash = self.hash(by, last);
                self.index[by as usize].replace(&mut self.slab, by, hash, last, hole);
            }
            self.wheel.replace(&mut self.slab, last, hole);
            self.slab.copy(last, hole);
        }
        self.slab.pop();
    }

    fn grow(&mut self) {
        let Self { slab, index, secret, .. } = self;
        for (index, by) in index.iter_mut().zip([By::Inside, By::Outside]) {
            index.grow(slab, by, |binding| binding.key(by).hash(secret));
        }
    }

    fn shrink(&mut self) {
        let Self { slab, index, .. } = self;
        for (index, by) in index.iter_mut().zip([By::Inside, By::Outside]) {
            index.shrink(slab, by);
        }
    }

    fn hash(&self, by: By, at: u32) -> u32 {
        self.slab.get(at).0.key(by).hash(&self.secret)
    }
}

impl Key {
    /// Hashes with a secret key, so that collisions cannot be chosen.
    #[inline]
    fn hash(&self, secret: &[u64; 4]) -> u32 {
        let [high, low] = halves(self.end.addr);
        let [_, remote] = halves(self.remote.addr);
        // A remote end is of IPv4.
        let about = remote | u64::from(self.end.port) << 32 | u64::from(self.remote.port) << 48;
        let hash = fold(low ^ secret[0], about ^ secret[1]) ^ u64::from(self.protocol);
        // An IPv4 address has nothing there.
        let hash = if high == 0 { hash } else { hash ^ fold(high ^ secret[2], secret[1]) };
        let [.., a, b, c, d] = fold(hash ^ secret[2], secret[3]).to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

#[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
const fn halves(addr: u128) -> [u64; 2] {
    [(addr >> 64) as u64, addr as u64]
}

#[cfg(test)]
mod tests;
