//! Installation of states.

use wire::Protocol;

use super::entry::bits;
use super::limit::{Group, Outside};
use super::tcp::{Phase, Track};
use super::{
    Flow, Hash, Kind, Limit, New, RuleId, SERIAL, Seen, Segment, State, StateError, StateId, States,
    TRACK_LOOKS,
};
use super::{end, hash_of, ms, wheel};
use crate::base::collections::wheel::Links;
use crate::base::count::{Count, Counters};
use crate::base::time::Instant;
use crate::firewall::ruleset::FlowId;

impl States {
    /// Makes a state of a packet's flow, with the packet as its first. If there is a live one of this name, the packet is
    /// one more of that; a dead one is gone.
    ///
    /// # Errors
    ///
    /// All of [`StateError`].
    pub fn install(
        &mut self,
        flow: &Flow,
        hash: Hash,
        new: New,
        seen: &Seen,
        now: Instant,
        counters: &mut Counters,
    ) -> Result<StateId, StateError> {
        if let Some(old) = self.lookup(flow, hash, new.flow) {
            if let Some(hit) = self.hit(flow, hash.likely(StateId(old)), new.flow, seen, now, counters) {
                return Ok(hit.id);
            }
            self.remove(StateId(old), now);
        }
        self.install_new(flow, hash, new, seen, now, counters)
    }

    /// Whether a flow can be given a state of this name that is its only one: it has none, or the packet opens another
    /// connection where that one was closed, which is gone then. If not, nothing has changed.
    #[inline]
    pub(in super::super) fn makes_way(
        &mut self,
        flow: &Flow,
        hash: Hash,
        name: FlowId,
        seen: &Seen,
        now: Instant,
        counters: &mut Counters,
    ) -> bool {
        match self.lookup_that(hash, |state| state.key == flow.key) {
            None => true,
            Some(old) => self.recycle(old, hash, name, seen, now, counters),
        }
    }

    #[inline(never)]
    fn recycle(
        &mut self,
        old: u32,
        hash: Hash,
        name: FlowId,
        seen: &Seen,
        now: Instant,
        counters: &mut Counters,
    ) -> bool {
        let Some(state) = self.slab.get(old) else { return false };
        let opens = seen.segment.as_ref().is_some_and(Segment::is_opening);
        let is_alike = state.flow == name && state.kind == Kind::Keep && state.link == wheel::NIL;
        let is_over = opens && state.is_spent(ms(now));
        let is_counted = state.left_ms(ms(now)) > 0;
        let is_only = || {
            let other = |at: u32| at != old && self.slab.get(at).is_some_and(|other| other.key == state.key);
            self.index.find(hash.hash, other).is_none()
        };
        if !is_alike || !is_over || !is_only() {
            return false;
        }
        counters.add(Count::StateRecycled, is_counted.into());
        self.remove(StateId(old), now);
        true
    }

    /// [`States::install`], of a flow that has no state of this name.
    pub(in super::super) fn install_new(
        &mut self,
        flow: &Flow,
        hash: Hash,
        new: New,
        seen: &Seen,
        now: Instant,
        counters: &mut Counters,
    ) -> Result<StateId, StateError> {
        let tcp = seen.segment.as_ref().map_or_else(Track::default, Track::begin);
        let (kind, phase) = (if new.limit.is_some() { Kind::Limit } else { new.kind }, tcp.phase());
        // A slave waits for its master's end.
        let is_half_open = phase == Phase::Opening && kind != Kind::RedirectSlave;
        if is_half_open {
            self.make_half_room(now, counters);
        }
        self.make_room(now, counters)?;
        let link = match new.limit {
            Some(limit) => self.join(flow, new.rule, limit, now, counters)?,
            None => wheel::NIL,
        };
        let is_behind = self.has_pairs() && self.lookup(flow, hash, FlowId::REDIRECT).is_some();
        let behind = if is_behind { bits::REDIRECTED } else { 0 };
        self.serial += 1 + u64::from(self.serial & SERIAL == SERIAL);
        let life = match Protocol(flow.key.proto()) {
            Protocol::TCP => self.settings.life_of(phase),
            Protocol(other) => self.settings.life(other),
        } + kind.grace();
        let Some((at, state)) = self.slab.place() else {
            self.tracks.leave(link, ms(now));
            return Err(StateError::NoMemory);
        };
        *state = State {
            key: flow.key,
            rule: new.rule,
            flow: new.flow,
            kind,
            link,
            bits: behind | if flow.is_downward { bits::DOWNWARD } else { 0 },
            expires: end(ms(now), life),
            packets: 1,
            bytes: seen.bytes.into(),
            tcp,
            serial: (self.serial & SERIAL) as u32,
            links: Links::default(),
            half_open: [wheel::NIL; 2],
        };
        state.set_stage(phase);
        let due_ms = ms(now) + (u64::from(life) * 1000).saturating_sub(state.kept_ms(&self.settings));
        self.tracks.name(link, at);
        self.share.add();
        counters.add(Count::StateInstalled, 1);
        let Self { slab, index, secret, .. } = self;
        index.insert(hash.hash, at, |at| hash_of(slab, secret, at));
        self.wheel.link(&mut self.slab, at, due_ms);
        if is_half_open {
            self.half_open.push(&mut self.slab, at);
        }
        if let Some(pair) = new.pair
            && !self.tie(StateId(at), pair)
        {
            self.remove(StateId(at), now);
            return Err(StateError::NoMemory);
        }
        Ok(StateId(at))
    }

    /// A membership in the group that a state to be belongs to, if its limit has not been reached. If it has, states of
    /// the group that are over make room; where there are as many groups as may be, empty ones and those of half-open
    /// connections do.
    fn join(
        &mut self,
        flow: &Flow,
        rule: RuleId,
        limit: Limit,
        now: Instant,
        counters: &mut Counters,
    ) -> Result<u32, StateError> {
        let group = Group::of(rule, flow, limit.mask);
        let tracks_max = self.settings.track_max;
        let mut joined = self.tracks.join(&group, limit.max, tracks_max);
        if joined == Err(Outside::Limit) && self.end_spent(&group, now) > 0 {
            joined = self.tracks.join(&group, limit.max, tracks_max);
        }
        if joined == Err(Outside::Full) {
            let join = |states: &mut Self| {
                joined = states.tracks.join(&group, limit.max, tracks_max);
                joined != Err(Outside::Full)
            };
            self.make_track_room(now, counters, join);
        }
        joined.map_err(|outside| match outside {
            Outside::Limit => {
                counters.add(Count::TrackLimit, 1);
                StateError::Limit
            }
            Outside::Full => {
                counters.add(Count::TrackOverflow, 1);
                StateError::Tracks
            }
        })
    }

    /// Ends states of a group that are over, as far as they are this CPU's. Answers how many.
    #[cold]
    fn end_spent(&mut self, group: &Group, now: Instant) -> usize {
        let mut found = core::mem::take(&mut self.found);
        let is_spent = |at: &u32| self.slab.get(*at).is_some_and(|state| state.is_spent(ms(now)));
        found.extend(self.tracks.states(group).take(TRACK_LOOKS).filter(is_spent));
        let ended = found.len();
        found.drain(..).for_each(|at| self.remove(StateId(at), now));
        self.found = found;
        ended
    }
}
