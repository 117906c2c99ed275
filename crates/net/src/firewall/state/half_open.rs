//! Half-open connections: the states of TCP whose handshake is not complete, oldest first. They have a budget of their
//! own, a part of `state_max`, so a flood of SYNs never fills the table.
//!
//! At the budget the oldest one makes room. A client that completes its handshake before its CPU has seen as many other
//! SYNs as the budget allows gets in, however long the flood lasts; an established connection is in no such list. Each CPU
//! has an equal part of the budget, so all of them together keep to it without a count that they would share.

use super::entry::bits;
use super::tcp::Phase;
use super::{Kind, StateId, States};
use crate::base::collections::slab::Slab;
use crate::base::collections::wheel::NIL;
use crate::base::count::{Count, Counters};
use crate::base::time::Instant;
use crate::firewall::state::entry::State;

/// Half-open states that end for one, at the most: the budget may have been lowered, and a count be hard to place.
const EVICTIONS_MAX: usize = 16;
/// Half-open states that are looked at, at the most, to find one that is alone in what a `limit` counts.
const LOOKS: usize = 64;

/// The list of one CPU.
#[derive(Debug)]
pub(super) struct HalfOpen {
    oldest: u32,
    newest: u32,
    len: usize,
}

impl HalfOpen {
    /// Nothing.
    pub(super) const fn new() -> Self {
        Self { oldest: NIL, newest: NIL, len: 0 }
    }

    /// Adds a state as the newest.
    pub(super) fn push(&mut self, slab: &mut Slab<State>, at: u32) {
        let Some(state) = slab.get_mut(at) else { return };
        state.bits |= bits::HALF_OPEN;
        state.half_open = [self.newest, NIL];
        match slab.get_mut(self.newest) {
            Some(before) => before.half_open[1] = at,
            None => self.oldest = at,
        }
        self.newest = at;
        self.len += 1;
    }

    /// Takes a state out, if it is in.
    pub(super) fn remove(&mut self, slab: &mut Slab<State>, at: u32) {
        let Some(state) = slab.get_mut(at).filter(|state| state.bits & bits::HALF_OPEN != 0) else { return };
        state.bits &= !bits::HALF_OPEN;
        let [older, newer] = state.half_open;
        match slab.get_mut(older) {
            Some(older) => older.half_open[1] = newer,
            None => self.oldest = newer,
        }
        match slab.get_mut(newer) {
            Some(newer) => newer.half_open[0] = older,
            None => self.newest = older,
        }
        self.len -= 1;
    }

    /// The states, oldest first.
    fn iter<'a>(&self, slab: &'a Slab<State>) -> impl Iterator<Item = (u32, &'a State)> + use<'a> {
        let state = |at: u32| Some((at, slab.get(at)?));
        core::iter::successors(state(self.oldest), move |(_, before)| state(before.half_open[1]))
    }
}

impl States {
    /// Half-open connections that have a state here.
    #[must_use]
    pub const fn half_open(&self) -> usize {
        self.half_open.len
    }

    /// Makes room for a half-open connection: while there are as many as may be, the oldest ends.
    pub(super) fn make_half_room(&mut self, now: Instant, counters: &mut Counters) {
        let max = self.share.half_open_max();
        for _ in 0..EVICTIONS_MAX {
            if self.half_open.len < max {
                return;
            }
            self.evict(self.half_open.oldest, now, counters);
        }
    }

    /// Makes room for a group of states that a `limit` counts, if `fits` says afterwards that there is none yet: empty
    /// groups are forgotten before their time, and half-open connections that are alone in theirs end, oldest first.
    /// Answers whether there is room.
    #[cold]
    pub(super) fn make_track_room(
        &mut self,
        now: Instant,
        counters: &mut Counters,
        mut fits: impl FnMut(&mut Self) -> bool,
    ) -> bool {
        for _ in 0..EVICTIONS_MAX {
            if !self.tracks.forget_oldest() {
                let Some(at) = self.oldest_alone() else { return false };
                self.evict(at, now, counters);
                self.tracks.forget_oldest();
            }
            if fits(self) {
                return true;
            }
        }
        false
    }

    /// After a packet: a connection that is open, or over, is not half-open any more.
    pub(super) fn settle_half_open(&mut self, at: u32) {
        let is_over = |state: &State| state.bits & bits::HALF_OPEN != 0 && state.stage() != Phase::Opening;
        if self.slab.get(at).is_some_and(is_over) {
            self.half_open.remove(&mut self.slab, at);
        }
    }

    /// The oldest half-open connection that is alone in what a `limit` counts.
    fn oldest_alone(&self) -> Option<u32> {
        let is_alone = |state: &State| state.kind == Kind::Limit && self.tracks.is_alone(state.link);
        let mut looks = self.half_open.iter(&self.slab).take(LOOKS);
        looks.find_map(|(at, state)| is_alone(state).then_some(at))
    }

    fn evict(&mut self, at: u32, now: Instant, counters: &mut Counters) {
        self.remove(StateId(at), now);
        counters.add(Count::StateHalfOpenEvicted, 1);
    }
}
