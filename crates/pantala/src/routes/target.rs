//! Where routes of a source lead.

use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::Arc;

use net::fib::{Hop, MEMBERS_MAX, Metrics, To};
use wire::rtnetlink::{self, NextHop, NextHopKind};

/// Different targets that routes of a source may have.
pub(crate) const TARGETS_MAX: usize = 1 << 16;
/// Next hops with a number that a source may have.
pub(crate) const OBJECTS_MAX: usize = 1 << 16;
/// Members of a group, and hops of a route, that are looked at.
const HOPS_MAX: usize = 256;
/// Groups in groups that are followed.
const DEPTH_MAX: u8 = 4;

/// A next hop in the words of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RawHop {
    pub(crate) to: RawTo,
    /// Number of the interface there; 0 if it is not said.
    pub(crate) ifindex: u32,
    pub(crate) weight: u32,
    /// Bytes of the largest packet; 0 if it is not said.
    pub(crate) mtu: u32,
}

/// Where a next hop leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RawTo {
    /// To a gateway.
    Via(IpAddr),
    /// To the link: the destination is the neighbour.
    Link,
    /// To a next hop that has a number.
    Object(ObjectId),
    /// To a refusal.
    Reject,
    /// To a blackhole.
    Blackhole,
    /// Nowhere that this stack could send to.
    Unsupported,
}

/// A number that the source has given a next hop, and the resynchronisation in which it did: after a restart the same number
/// may be that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ObjectId {
    pub(crate) round: u16,
    pub(crate) id: u32,
}

/// A number of a [`Target`].
pub(super) type TargetId = u32;

/// All targets of a source, each once.
#[derive(Default)]
pub(super) struct Targets {
    by_hops: HashMap<Box<[RawHop]>, TargetId>,
    all: Vec<Target>,
    free: Vec<TargetId>,
    /// Targets that were made since the last resolution.
    new: Vec<TargetId>,
    objects: HashMap<ObjectId, Object>,
    /// Whether what targets depend on has changed since then.
    is_stale: bool,
}

/// A target.
#[derive(Default)]
struct Target {
    spec: Box<[RawHop]>,
    /// Where it leads with the interfaces that are up here.
    hops: Arc<[Hop]>,
    /// Paths that have it.
    uses: u32,
}

/// A next hop that has a number.
#[derive(Debug, PartialEq, Eq)]
enum Object {
    Hop(RawHop),
    /// Members and their weights.
    Group(Box<[(ObjectId, u32)]>),
}

/// The limit is reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

impl RawHop {
    /// Reads a hop of rtnetlink.
    pub(crate) fn of(hop: &rtnetlink::Hop, mtu: u32) -> Self {
        let to = match hop.via {
            _ if hop.is_dead || hop.is_encapsulated => RawTo::Unsupported,
            Some(via) if via.is_unspecified() => RawTo::Link,
            Some(via) => RawTo::Via(via),
            None => RawTo::Link,
        };
        Self { to, ifindex: hop.ifindex, weight: hop.weight, mtu }
    }

    /// One that is no gateway and no link.
    pub(crate) const fn to(to: RawTo, mtu: u32) -> Self {
        Self { to, ifindex: 0, weight: 1, mtu }
    }

    /// Whether both are the same place, whatever their weights.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        (self.to, self.ifindex) == (other.to, other.ifindex)
    }
}

impl Targets {
    /// The number of a target, with one use more.
    pub(super) fn take(&mut self, spec: &[RawHop]) -> Result<TargetId, Full> {
        if let Some(id) = self.by_hops.get(spec).copied() {
            self.all[id as usize].uses += 1;
            return Ok(id);
        }
        if self.by_hops.len() >= TARGETS_MAX {
            return Err(Full);
        }
        let target = Target { spec: spec.into(), hops: Arc::default(), uses: 1 };
        let id = match self.free.pop() {
            Some(id) => {
                self.all[id as usize] = target;
                id
            }
            None => {
                self.all.push(target);
                TargetId::try_from(self.all.len() - 1).unwrap_or(TargetId::MAX)
            }
        };
        self.by_hops.insert(spec.into(), id);
        self.new.push(id);
        Ok(id)
    }

    /// Takes a use away; the target goes with its last.
    pub(super) fn release(&mut self, id: TargetId) {
        let Some(target) = self.all.get_mut(id as usize) else { return };
        target.uses = target.uses.saturating_sub(1);
        if target.uses == 0 {
            let gone = core::mem::take(target);
            self.by_hops.remove(&gone.spec);
            self.free.push(id);
        }
    }

    /// Returns a target in the words of the source.
    pub(super) fn spec(&self, id: TargetId) -> &[RawHop] {
        self.all.get(id as usize).map_or(&[], |target| &target.spec)
    }

    /// Where a target leads, as it was resolved last.
    pub(super) fn hops(&self, id: TargetId) -> &Arc<[Hop]> {
        static NONE: std::sync::LazyLock<Arc<[Hop]>> = std::sync::LazyLock::new(Arc::default);
        self.all.get(id as usize).map_or(&NONE, |target| &target.hops)
    }

    /// Takes in a next hop that has a number, which may be known already.
    pub(super) fn set_object(&mut self, next: &NextHop<'_>, round: u16) -> Result<(), Full> {
        let id = |id| ObjectId { round, id };
        let object = match next.kind {
            NextHopKind::Hop(hop) => Object::Hop(RawHop::of(&hop, 0)),
            NextHopKind::Blackhole => Object::Hop(RawHop::to(RawTo::Blackhole, 0)),
            NextHopKind::Group(members) => {
                Object::Group(members.take(HOPS_MAX).map(|member| (id(member.id), member.weight)).collect())
            }
        };
        let key = id(next.id);
        if self.objects.len() >= OBJECTS_MAX && !self.objects.contains_key(&key) {
            return Err(Full);
        }
        let before = self.objects.get(&key);
        self.is_stale |= before != Some(&object);
        self.objects.insert(key, object);
        Ok(())
    }

    /// Forgets a next hop that has a number; routes to it lead nowhere.
    pub(super) fn end_object(&mut self, id: ObjectId) {
        self.is_stale |= self.objects.remove(&id).is_some();
    }

    /// Forgets next hops that were told in other resynchronisations than this.
    pub(super) fn forget_objects_but_of(&mut self, round: u16) {
        let before = self.objects.len();
        self.objects.retain(|id, _| id.round == round);
        self.is_stale |= self.objects.len() != before;
    }

    /// Returns a target in the numbers of another resynchronisation; none if they are those of other next hops there.
    pub(super) fn renewed(&self, id: TargetId, round: u16) -> Option<Vec<RawHop>> {
        let renewed = |hop: &RawHop| match hop.to {
            RawTo::Object(old) => {
                let new = ObjectId { round, id: old.id };
                self.is_same(old, new, DEPTH_MAX).then_some(RawHop { to: RawTo::Object(new), ..*hop })
            }
            _ => Some(*hop),
        };
        self.spec(id).iter().map(renewed).collect()
    }

    /// Whether two numbers, of different resynchronisations, are those of the same next hops.
    fn is_same(&self, one: ObjectId, other: ObjectId, depth: u8) -> bool {
        match (self.objects.get(&one), self.objects.get(&other)) {
            (Some(Object::Hop(one)), Some(Object::Hop(other))) => one == other,
            (Some(Object::Group(one)), Some(Object::Group(other))) if depth > 0 => {
                let is_same = |((one, share), (other, other_share)): (&(ObjectId, u32), &(ObjectId, u32))| {
                    share == other_share && self.is_same(*one, *other, depth - 1)
                };
                one.len() == other.len() && one.iter().zip(other).all(is_same)
            }
            _ => false,
        }
    }

    /// Notes that interfaces have changed.
    pub(super) fn is_to_be_resolved(&mut self) {
        self.is_stale = true;
    }

    /// Works out where new targets lead and, if anything has changed, all others; returns the others that lead elsewhere now.
    pub(super) fn resolve(&mut self, lead: &dyn Fn(&RawHop) -> Option<To>) -> Vec<TargetId> {
        let new = core::mem::take(&mut self.new);
        for id in &new {
            let hops = self.resolved(self.spec(*id), lead);
            if let Some(target) = self.all.get_mut(*id as usize) {
                target.hops = hops;
            }
        }
        if !core::mem::take(&mut self.is_stale) {
            return Vec::new();
        }
        let mut changed = Vec::new();
        for (at, id) in (0..self.all.len()).zip(0..) {
            let hops = self.resolved(&self.all[at].spec, lead);
            if hops != self.all[at].hops {
                self.all[at].hops = hops;
                changed.push(id);
            }
        }
        changed
    }

    /// Where all targets would lead, by their numbers.
    pub(super) fn all_resolved(&self, lead: &dyn Fn(&RawHop) -> Option<To>) -> Vec<Arc<[Hop]>> {
        self.all.iter().map(|target| self.resolved(&target.spec, lead)).collect()
    }

    /// Paths that have a target.
    pub(super) fn uses(&self, id: TargetId) -> u32 {
        self.all.get(id as usize).map_or(0, |target| target.uses)
    }

    /// Targets, and next hops that have a number.
    pub(super) fn usage(&self) -> (usize, usize) {
        (self.by_hops.len(), self.objects.len())
    }

    fn resolved(&self, spec: &[RawHop], lead: &dyn Fn(&RawHop) -> Option<To>) -> Arc<[Hop]> {
        let mut found: Vec<(Hop, u32)> = Vec::new();
        for raw in spec.iter().take(HOPS_MAX) {
            self.follow(raw, raw.weight, raw.mtu, DEPTH_MAX, lead, &mut found);
        }
        shares(found)
    }

    fn follow(
        &self,
        raw: &RawHop,
        weight: u32,
        mtu: u32,
        depth: u8,
        lead: &dyn Fn(&RawHop) -> Option<To>,
        found: &mut Vec<(Hop, u32)>,
    ) {
        let RawTo::Object(id) = raw.to else {
            let metrics = Metrics { mtu, ..Metrics::default() };
            found.extend(lead(raw).map(|to| (Hop { to, metrics }, weight)));
            return;
        };
        if depth == 0 || found.len() >= HOPS_MAX {
            return;
        }
        match self.objects.get(&id) {
            Some(Object::Hop(hop)) => self.follow(hop, weight, mtu, depth - 1, lead, found),
            Some(Object::Group(members)) => {
                for (id, weight) in members {
                    let member = RawHop::to(RawTo::Object(*id), mtu);
                    self.follow(&member, *weight, mtu, depth - 1, lead, found);
                }
            }
            // It may be told later.
            None => {}
        }
    }
}

/// Names each hop as often as its weight says, in the smallest numbers that say the same, and at most as often as a group may
/// have members: heavy hops lose precision first, and none its last share.
fn shares(mut found: Vec<(Hop, u32)>) -> Arc<[Hop]> {
    found.truncate(MEMBERS_MAX);
    let total: u64 = found.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let divisor = found.iter().fold(0, |divisor, (_, weight)| gcd(divisor, *weight)).max(1);
    let room = MEMBERS_MAX as u64;
    let share = |weight: u32| {
        if total / u64::from(divisor) <= room {
            u64::from(weight / divisor).max(1)
        } else {
            let spare = room - found.len() as u64;
            1 + u64::from(weight) * spare / total.max(1)
        }
    };
    let each = found.iter().flat_map(|(hop, weight)| {
        core::iter::repeat_n(*hop, usize::try_from(share(*weight)).unwrap_or(MEMBERS_MAX))
    });
    each.take(MEMBERS_MAX).collect()
}

const fn gcd(a: u32, b: u32) -> u32 {
    let (mut a, mut b) = (a, b);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(weights: &[u32]) -> Vec<usize> {
        let hop = |index| Hop::from(To::OnLink { ifindex: index });
        let found = (0..).zip(weights).map(|(index, weight)| (hop(index), *weight)).collect();
        let shares = shares(found);
        (0..).zip(weights).map(|(index, _)| shares.iter().filter(|own| **own == hop(index)).count()).collect()
    }

    #[test]
    fn weights_become_shares_in_the_smallest_numbers() {
        assert_eq!(shared(&[1]), [1]);
        assert_eq!(shared(&[200]), [1]);
        assert_eq!(shared(&[2, 4, 2]), [1, 2, 1]);
        assert_eq!(shared(&[256, 1]), [62, 1]);
        assert_eq!(shared(&[1; 100]), [[1; 64].as_slice(), &[0; 36]].concat());
        for weights in [[255, 254, 3], [65_536, 1, 1], [100, 33, 33]] {
            let shares = shared(&weights);
            assert!(shares.iter().all(|share| *share > 0) && shares.iter().sum::<usize>() <= MEMBERS_MAX);
        }
    }
}
