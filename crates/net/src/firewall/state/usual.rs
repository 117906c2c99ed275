//! What nearly all packets of flows that have a state do: they hit it, in few steps. Nothing is done to what must be looked
//! at more closely.

use pkt::Pkt;

use super::{
    Direction, Flow, FlowId, Hash, Judgement, Life, RuleId, Seen, Segment, Settings, State, StateId,
};
use super::{States, end, ms};
use crate::time::Instant;

/// One state and no other, or one binding of NAT: its number and which of all it is. [`Mark::default`] is none's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(in super::super) at: u32,
    pub(in super::super) serial: u32,
}

impl Mark {
    /// None's.
    pub(in super::super) const NONE: Self = Self { at: 0, serial: 0 };
}

/// The state of a packet that is as nearly all are.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct UsualHit {
    pub(in super::super) mark: Mark,
    pub(in super::super) rule: RuleId,
    pub(in super::super) direction: Direction,
    pub(in super::super) bytes: u32,
}

impl Seen {
    /// What matters of a packet that is [`usual`](crate::firewall::subject::usual).
    #[inline]
    pub(in super::super) fn of_usual(pkt: &Pkt) -> Self {
        let bytes = u32::try_from(pkt.len()).unwrap_or(u32::MAX);
        Self { bytes, segment: Segment::of_usual(pkt) }
    }
}

impl States {
    /// The hash of one flow; its bucket is fetched.
    #[inline]
    pub(in super::super) fn hash_ahead(&self, flow: &Flow) -> Hash {
        let hash = self.hash(flow);
        self.index.prefetch(hash.hash);
        hash
    }

    /// Fetches the state that the flow with this hash most likely has, out of a bucket that has been fetched.
    #[inline]
    pub(in super::super) fn fetch(&self, hash: &mut Hash) {
        let Some(at) = self.index.likely(hash.hash) else { return };
        if let Some(state) = self.slab.get(at) {
            hash.likely = at;
            pkt::prefetch_ref(&state.key);
            pkt::prefetch_ref(&state.bytes);
        }
    }

    /// Takes a packet into account that hits a state, known by its mark, so many times at once. False, and nothing has
    /// changed, if it must be looked at more closely: the state is gone or its life is over, or the segment is outside of
    /// the connection's windows, or opens another connection.
    #[inline]
    pub(crate) fn again(
        &mut self,
        mark: Mark,
        direction: Direction,
        seen: &Seen,
        times: u8,
        now: Instant,
    ) -> bool {
        let now_ms = ms(now);
        let state = self.slab.get_mut(mark.at).filter(|state| state.serial == mark.serial);
        let Some(state) = state.filter(|state| state.left_ms(now_ms) > 0) else { return false };
        let Some(life) = state.take_inside(direction, seen, times, now_ms, &self.settings) else {
            return false;
        };
        match life {
            Life::AsItIs => {}
            Life::Longer(seconds) => state.expires = end(now_ms, seconds + state.kind.grace()),
            Life::Anew(seconds) => self.live(mark.at, now_ms, seconds),
        }
        true
    }

    /// [`States::hit`], of a flow's state, if its rule is the right one, and the packet need not be looked at more closely.
    /// `None`, and nothing has changed, if it must be.
    #[inline]
    pub(in super::super) fn hit_usual(
        &mut self,
        flow: &Flow,
        hash: Hash,
        name: FlowId,
        pkt: &Pkt,
        now: Instant,
        mut is_right: impl FnMut(RuleId) -> bool,
    ) -> Option<UsualHit> {
        let now_ms = ms(now);
        let is_it = |state: &State| {
            state.key == flow.key && (state.flow == name || name == FlowId::ANY) && state.left_ms(now_ms) > 0
        };
        let likely = self.slab.get(hash.likely)?;
        let at = if is_it(likely) { hash.likely } else { self.behind(hash, is_it)? };
        let state = self.slab.get_mut(at).filter(|state| is_right(state.rule))?;
        let (direction, seen) = (state.direction(flow), Seen::of_usual(pkt));
        let life = state.take_inside(direction, &seen, 1, now_ms, &self.settings)?;
        let mark = Mark { at, serial: state.serial };
        let hit = UsualHit { mark, rule: state.rule, direction, bytes: seen.bytes };
        match life {
            Life::AsItIs => {}
            Life::Longer(seconds) => state.expires = end(now_ms, seconds + state.kind.grace()),
            Life::Anew(seconds) => self.live(at, now_ms, seconds),
        }
        Some(hit)
    }

    /// The state with this hash that `is_it`, where the likely one is not.
    #[cold]
    fn behind(&self, hash: Hash, is_it: impl Fn(&State) -> bool) -> Option<u32> {
        self.index.find(hash.hash, |at| self.slab.get(at).is_some_and(&is_it))
    }

    /// Counts a packet once more that was taken into account in this turn, if its state is still there and of this name.
    /// Answers the rule that made the state.
    #[inline]
    pub(in super::super) fn count_again(&mut self, mark: Mark, name: FlowId, bytes: u32) -> Option<RuleId> {
        let state = self.slab.get_mut(mark.at)?;
        if state.serial != mark.serial || state.flow != name && name != FlowId::ANY {
            return None;
        }
        state.packets += 1;
        state.bytes += u64::from(bytes);
        Some(state.rule)
    }

    /// What names a state for as long as it is there, and no other state after it as long as [`States::epoch`] is the
    /// same.
    #[inline]
    #[must_use]
    pub(crate) fn mark(&self, id: StateId) -> Mark {
        Mark { at: id.0, serial: self.slab.get(id.0).map_or(0, |state| state.serial) }
    }

    /// Changes when marks begin to repeat themselves.
    #[inline]
    #[must_use]
    pub(crate) const fn epoch(&self) -> u64 {
        self.serial >> 32
    }
}

impl State {
    /// Takes a packet into account, so many times. `None`, and nothing has changed, if it is a segment outside of the
    /// connection's windows, or opens another one where this is closed.
    #[inline(always)]
    fn take_inside(
        &mut self,
        direction: Direction,
        seen: &Seen,
        times: u8,
        now_ms: u64,
        settings: &Settings,
    ) -> Option<Life> {
        let life = match &seen.segment {
            Some(segment) => {
                if segment.is_opening() && self.is_spent(now_ms) {
                    return None;
                }
                let before = self.tcp.marks();
                match self.tcp.take(direction.index(), segment) {
                    Judgement::Outside => return None,
                    judgement => self.go_on(before, judgement, settings),
                }
            }
            None => Life::Longer(settings.life(self.key.proto())),
        };
        self.count(direction, times, seen.bytes);
        Some(life)
    }
}
