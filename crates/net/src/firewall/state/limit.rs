//! `limit`: states that agree in what a rule names are counted, exactly, on all CPUs together.
//!
//! The count is one word that the CPUs share ([`Tally`]); each CPU keeps a *track* of its own states under it, so that
//! when the limit is reached it can end those of them that are over. Unlike [`Loose`](super::Loose), this may be never
//! wrong by one: limits are small.

use core::hash::BuildHasher;
use std::collections::VecDeque;
use std::sync::Arc;

use ipfw::rule::LimitMask;
use pkt::shared_limit::{self, Tally};

use super::key::{End, Flow};
use crate::base::collections::index::{self, Index};
use crate::base::collections::slab::Slab;
use crate::base::collections::wheel::NIL;
use crate::base::secret::Secret;
use crate::firewall::ruleset::RuleId;

/// At most so many states that agree with a packet in what `mask` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Fields that they share, besides rule, protocol and family.
    pub mask: LimitMask,
    /// The limit.
    pub max: u16,
}

/// Groups of counts that go on from others: a packet makes few.
const ABOVE_MAX: usize = 16;

/// The counts that all CPUs share.
pub struct Limits {
    tally: Tally,
    /// All CPUs must hash alike.
    key: Secret,
    /// Counts that these go on from, and do not change.
    below: Option<Arc<Self>>,
}

/// The fields that the states of a track share. Those outside of the limit are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Group {
    /// The rule that limits them.
    pub rule: RuleId,
    /// Whether they are IPv4's.
    pub is_ip4: bool,
    /// Their protocol.
    pub proto: u8,
    /// Source.
    pub src: End,
    /// Destination.
    pub dst: End,
}

/// One CPU's tracks.
pub(super) struct Tracks {
    slab: Slab<Track>,
    index: Index,
    members: Slab<Member>,
    /// Empty ones, and when each became empty, in milliseconds: soonest first. Each is in it once.
    empty: VecDeque<(u32, u64)>,
    limits: Arc<Limits>,
}

#[derive(Debug, Default)]
struct Track {
    group: Group,
    hash: u64,
    /// States.
    len: u32,
    /// The first of its members.
    first: u32,
    empty_since: u64,
    is_queued: bool,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Track>() <= 112);

/// A state in a track's list.
#[derive(Debug)]
struct Member {
    state: u32,
    track: u32,
    prev: u32,
    next: u32,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Member>() <= 16);

impl Default for Member {
    fn default() -> Self {
        Self { state: NIL, track: NIL, prev: NIL, next: NIL }
    }
}

/// Why a state cannot join its track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outside {
    /// There are as many as may be.
    Limit,
    /// There are as many tracks as may be, or no place for another count.
    Full,
}

impl Limits {
    /// No counts, and room for at least `tracks` on all CPUs together.
    #[must_use]
    pub fn new(secret: &Secret, tracks: usize) -> Arc<Self> {
        let key = u128::from(secret.hash_one("limit 0")) << 64 | u128::from(secret.hash_one("limit 1"));
        Arc::new(Self { tally: Tally::new(tracks), key: Secret::new(key), below: None })
    }

    /// Counts on from other counts, which do not change with these.
    #[must_use]
    pub fn above(other: &Arc<Self>) -> Arc<Self> {
        let key = Secret::new(u128::from(other.key.hash_one("above")));
        Arc::new(Self { tally: Tally::new(ABOVE_MAX), key, below: Some(Arc::clone(other)) })
    }

    /// States of a group on all CPUs.
    #[must_use]
    pub fn count(&self, group: &Group) -> u16 {
        let below = self.below.as_ref().map_or(0, |below| below.count(group));
        below.saturating_add(self.tally.get(self.key.hash_one(group)))
    }

    /// Returns the part of `max` that is left above the counts that these go on from.
    fn left(&self, group: &Group, max: u16) -> u16 {
        self.below.as_ref().map_or(max, |below| max.saturating_sub(below.count(group)))
    }
}

impl Group {
    /// The one that a state made by `flow`'s packet would belong to.
    #[must_use]
    pub fn of(rule: RuleId, flow: &Flow, mask: LimitMask) -> Self {
        let [src, dst] = flow.ends();
        let end = |end: End, addr: bool, port: bool| End {
            addr: if addr { end.addr } else { 0 },
            port: if port { end.port } else { 0 },
        };
        Self {
            rule,
            is_ip4: flow.key.is_ip4(),
            proto: flow.key.proto(),
            src: end(src, mask.src_addr, mask.src_port),
            dst: end(dst, mask.dst_addr, mask.dst_port),
        }
    }
}

impl Tracks {
    pub(super) fn new(limits: Arc<Limits>) -> Self {
        Self { slab: Slab::new(), index: Index::new(), members: Slab::new(), empty: VecDeque::new(), limits }
    }

    /// Returns the counts of all CPUs.
    pub(super) fn limits(&self) -> Arc<Limits> {
        Arc::clone(&self.limits)
    }

    pub(super) const fn len(&self) -> usize {
        self.slab.len()
    }

    /// Bytes taken.
    pub(super) fn memory(&self) -> usize {
        let Self { slab, index, members, empty, .. } = self;
        slab.places() * size_of::<Track>()
            + members.places() * size_of::<Member>()
            + index.places() * index::BUCKET
            + empty.capacity() * size_of::<(u32, u64)>()
    }

    /// Makes a state that is still to be made a member of its track; answers the number of the membership, and
    /// [`Tracks::name`] says whose it is.
    pub(super) fn join(&mut self, group: &Group, max: u16, tracks_max: u32) -> Result<u32, Outside> {
        let hash = self.limits.key.hash_one(group);
        let track = self.find(hash, group);
        if track.is_none() && self.slab.len() >= tracks_max as usize {
            return Err(Outside::Full);
        }
        let left = self.limits.left(group, max);
        self.limits.tally.take(hash, left).map_err(|refused| match refused {
            shared_limit::Refused::Limit => Outside::Limit,
            shared_limit::Refused::Busy | shared_limit::Refused::Full => Outside::Full,
        })?;
        let joined = track.or_else(|| self.make(hash, group)).and_then(|track| self.enter(track));
        if joined.is_none() {
            self.limits.tally.give(hash);
        }
        joined.ok_or(Outside::Full)
    }

    /// Says which state has the membership.
    pub(super) fn name(&mut self, member: u32, state: u32) {
        if let Some(member) = self.members.get_mut(member) {
            member.state = state;
        }
    }

    /// Ends a membership.
    pub(super) fn leave(&mut self, member: u32, now_ms: u64) {
        if !self.members.is_used(member) {
            return;
        }
        let Some(&Member { track: at, prev, next, .. }) = self.members.get(member) else { return };
        self.members.remove(member);
        if let Some(next) = self.members.get_mut(next) {
            next.prev = prev;
        }
        let Some(track) = self.slab.get_mut(at) else { return };
        match self.members.get_mut(prev) {
            Some(prev) => prev.next = next,
            None => track.first = next,
        }
        track.len -= 1;
        self.limits.tally.give(track.hash);
        if track.len == 0 {
            track.empty_since = now_ms;
            if !core::mem::replace(&mut track.is_queued, true) {
                self.empty.push_back((at, now_ms));
            }
        }
    }

    /// States of this CPU in a group, newest first.
    pub(super) fn states(&self, group: &Group) -> impl Iterator<Item = u32> {
        let track = self.find(self.limits.key.hash_one(group), group).and_then(|at| self.slab.get(at));
        let first = track.and_then(|track| self.members.get(track.first));
        core::iter::successors(first, |member| self.members.get(member.next)).map(|member| member.state)
    }

    /// Forgets tracks that have been empty for `life_ms`, `budget` of them at the most. Answers how many were looked at.
    pub(super) fn tick(&mut self, now_ms: u64, life_ms: u64, budget: usize) -> usize {
        for done in 0..budget {
            let Some(&(at, _)) = self.empty.front().filter(|(_, since)| since + life_ms <= now_ms) else {
                return done;
            };
            self.empty.pop_front();
            let Some(track) = self.slab.get_mut(at) else { continue };
            track.is_queued = false;
            if track.len > 0 {
                continue;
            }
            if track.empty_since + life_ms > now_ms {
                // It was used in the meantime.
                track.is_queued = true;
                let since = track.empty_since;
                self.empty.push_back((at, since));
                continue;
            }
            self.forget(at);
        }
        budget
    }

    /// Forgets the track that has been empty longest, however long that is. Answers whether there was one.
    pub(super) fn forget_oldest(&mut self) -> bool {
        while let Some((at, _)) = self.empty.pop_front() {
            let Some(track) = self.slab.get_mut(at) else { continue };
            track.is_queued = false;
            if track.len == 0 {
                self.forget(at);
                return true;
            }
        }
        false
    }

    /// Whether a membership is the only one in its track.
    pub(super) fn is_alone(&self, member: u32) -> bool {
        let track = self.members.get(member).and_then(|member| self.slab.get(member.track));
        track.is_some_and(|track| track.len == 1)
    }

    fn forget(&mut self, at: u32) {
        let Self { slab, index, .. } = self;
        let hash_of = |at: u32| slab.get(at).map_or(0, |track| track.hash);
        index.remove(hash_of(at), at, hash_of);
        self.slab.remove(at);
    }

    /// When [`Tracks::tick`] has something to do, in milliseconds.
    pub(super) fn due_ms(&self, life_ms: u64) -> Option<u64> {
        self.empty.front().map(|(_, since)| since + life_ms)
    }

    /// Tracks from number `from` on: `visit` is given up to `most` places. Answers where to go on.
    pub(super) fn list(&self, from: u32, most: u32, mut visit: impl FnMut(&Group, u32)) -> Option<u32> {
        let end = u32::try_from(self.slab.end()).unwrap_or(u32::MAX);
        let to = end.min(from.saturating_add(most));
        for at in (from..to).filter(|at| self.slab.is_used(*at)) {
            if let Some(track) = self.slab.get(at) {
                visit(&track.group, track.len);
            }
        }
        (to < end).then_some(to)
    }

    fn find(&self, hash: u64, group: &Group) -> Option<u32> {
        self.index.find(hash, |at| self.slab.get(at).is_some_and(|track| track.group == *group))
    }

    fn make(&mut self, hash: u64, group: &Group) -> Option<u32> {
        let track = Track { group: *group, hash, first: NIL, ..Track::default() };
        let at = self.slab.insert(track)?;
        let Self { slab, index, .. } = self;
        index.insert(hash, at, |at| slab.get(at).map_or(0, |track| track.hash));
        Some(at)
    }

    fn enter(&mut self, at: u32) -> Option<u32> {
        let track = self.slab.get_mut(at)?;
        let member = self.members.insert(Member { state: NIL, track: at, prev: NIL, next: track.first })?;
        if let Some(first) = self.members.get_mut(track.first) {
            first.prev = member;
        }
        track.first = member;
        track.len += 1;
        Some(member)
    }
}

impl core::fmt::Debug for Limits {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The key stays secret.
        f.debug_struct("Limits").finish_non_exhaustive()
    }
}
