//! The common case of packets with a state: they hit it, in few steps. Packets that need a closer look are
//! left untouched.

use pkt::{Note, Pkt};
use wire::Protocol;

use super::entry::bits;
use super::key::Key;
use super::{
    Direction, Flow, FlowId, Hash, Judgement, Life, RuleId, Seen, Segment, Settings, State, StateId,
};
use super::{States, ms};
use crate::base::collections::index::{Index, Place};
use crate::base::collections::slab::Slab;
use crate::base::time::Instant;

/// One state and no other, or one binding of NAT: its number and which of all it is. [`Mark::default`] is none's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(in super::super) at: u32,
    pub(in super::super) serial: u32,
}

impl Mark {
    /// None's.
    pub(in super::super) const NONE: Self = Self { at: 0, serial: 0 };

    /// Returns the note of a packet that has hit this state, with which replies find the state directly.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the upper bits of a serial number are left out")]
    pub(in super::super) const fn noted(self, direction: Direction) -> Note {
        let back = if matches!(direction, Direction::Reverse) { BACK } else { 0 };
        let bits = (self.serial >> 16) as u8 & !BACK | back;
        Note { at: self.at, serial: self.serial as u16, bits }
    }

    /// Whether this is what a note was made of.
    #[inline]
    const fn is_noted(self, note: Note) -> bool {
        let Note { serial, bits, .. } = self.noted(Direction::Forward);
        self.at == note.at && serial == note.serial && bits == note.bits & !BACK
    }
}

/// Bit of a note: its packet goes back to the state's origin. The others are of the serial number.
const BACK: u8 = 1 << 7;

/// The note for what goes the other way.
#[inline]
pub(crate) const fn answering(note: Note) -> Note {
    Note { bits: note.bits ^ BACK, ..note }
}

/// The state of a packet that is as nearly all are.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct UsualHit {
    pub(in super::super) mark: Mark,
    pub(in super::super) rule: RuleId,
    pub(in super::super) direction: Direction,
    pub(in super::super) bytes: u32,
}

impl UsualHit {
    /// Returns the packet's note from now on.
    #[inline]
    pub(in super::super) fn note(&self) -> Note {
        self.mark.noted(self.direction)
    }
}

impl Seen {
    /// Reads a [`usual`](crate::firewall::pkt_info::usual) packet.
    #[inline]
    pub(in super::super) fn of_usual(pkt: &Pkt) -> Self {
        let bytes = u32::try_from(pkt.len()).unwrap_or(u32::MAX);
        Self { bytes, segment: Segment::of_usual(pkt) }
    }

    /// Reads a packet whose flow is known.
    #[inline(always)]
    pub(in super::super) fn of_flow(key: &Key, pkt: &Pkt) -> Self {
        let bytes = u32::try_from(pkt.len()).unwrap_or(u32::MAX);
        let is_tcp = key.proto() == Protocol::TCP.0;
        Self { bytes, segment: if is_tcp { Some(Segment::of_plain(pkt, key.is_ip4())) } else { None } }
    }
}

impl States {
    /// The hash of one flow; its bucket is fetched.
    #[inline]
    pub(in super::super) fn hash_ahead(&self, flow: &Flow) -> (Hash, Place) {
        let hash = self.hash(flow);
        (hash, self.index.prefetch(hash.hash))
    }

    /// Fetches the state that the flow with this hash most likely has, out of a bucket that has been fetched.
    #[inline]
    pub(in super::super) fn fetch(&self, hash: &mut Hash, place: Place) {
        let Some(at) = self.index.likely_at(place, hash.hash) else { return };
        if let Some(state) = self.slab.get(at) {
            hash.likely = at;
            pkt::prefetch_ref(&state.key);
            pkt::prefetch_ref(&state.bytes);
        }
    }

    /// Takes a packet into account that hits a state, known by its mark, so many times at once. `None`, and nothing has
    /// changed, if it must be looked at more closely: the state is gone or its life is over, or the segment is outside of
    /// the connection's windows, or opens another connection. Answers whether the connection is closed by both ends now, or
    /// reset.
    #[inline]
    pub(crate) fn again(
        &mut self,
        mark: Mark,
        direction: Direction,
        seen: &Seen,
        times: u8,
        now: Instant,
    ) -> Option<bool> {
        let now_ms = ms(now);
        let state = self.slab.get_mut(mark.at).filter(|state| state.serial == mark.serial)?;
        if state.left_ms(now_ms) <= 0 {
            return None;
        }
        let life = state.take_inside(direction, seen, times, now_ms, &self.settings)?;
        let is_over = state.is_closed_by_both();
        if let Some(wait) = state.live(life, now_ms, &self.settings) {
            self.hasten(mark.at, now_ms + wait);
        }
        Some(is_over)
    }

    /// Whether the packets of a state may go where only their number is known ([`Self::forwarded`]): it is not gone, and its
    /// connection is open.
    pub(crate) fn may_release(&self, mark: Mark, now: Instant) -> bool {
        self.slab.get(mark.at).is_some_and(|state| state.may_be_out_of_sight(mark, ms(now)))
    }

    /// Lets them go there.
    pub(crate) fn release(&mut self, mark: Mark) {
        let state = self.slab.get_mut(mark.at).filter(|state| state.serial == mark.serial);
        state.into_iter().for_each(|state| state.tcp.release());
    }

    /// Counts packets that went where only their number is known, each of which would have hit the state so many times, and
    /// keeps it alive if there were any. False if it is gone, or its connection is not open any more: it must see the next
    /// ones.
    pub(crate) fn forwarded(
        &mut self,
        mark: Mark,
        direction: Direction,
        (packets, bytes): (u64, u64),
        times: u8,
        now: Instant,
    ) -> bool {
        let (now_ms, settings) = (ms(now), self.settings);
        let state = self.slab.get_mut(mark.at).filter(|state| state.may_be_out_of_sight(mark, now_ms));
        let Some(state) = state else { return false };
        if packets > 0 {
            state.packets += packets * u64::from(times);
            state.bytes += bytes * u64::from(times);
            state.count(direction, 0, 0);
            let life = match state.phase() {
                Some(phase) => settings.life_of(phase),
                None => settings.life(state.key.proto()),
            };
            state.live(Life::Longer(life), now_ms, &settings);
        }
        true
    }

    /// [`States::hit`], of a flow's state, if its rule is the right one, and the packet need not be looked at more closely.
    /// `None`, and nothing has changed, if it must be. One that the state has judged before in this turn is only counted.
    #[inline]
    pub(in super::super) fn hit_usual(
        &mut self,
        flow: &Flow,
        (hash, judge): (Hash, Mark),
        name: FlowId,
        pkt: &Pkt,
        now: Instant,
        mut is_right: impl FnMut(RuleId) -> bool,
    ) -> Option<UsualHit> {
        let now_ms = ms(now);
        let Self { slab, index, settings, .. } = self;
        let mut at = hash.likely;
        let mut state = slab.get_mut(at)?;
        if !state.is_alive(flow, name, now_ms) {
            at = behind(slab, index, hash, flow, name, now_ms)?;
            state = slab.get_mut(at)?;
        }
        if !is_right(state.rule) {
            return None;
        }
        let (mark, direction) = (Mark { at, serial: state.serial }, state.direction(flow));
        if mark == judge {
            let hit = state.hit(mark, direction, pkt);
            state.count(direction, 1, hit.bytes);
            return Some(hit);
        }
        let hit = state.hit(mark, direction, pkt);
        if let Some(wait) = state.take_usual(direction, pkt, now_ms, settings)? {
            self.hasten(at, now_ms + wait);
        }
        Some(hit)
    }

    /// [`States::hit_usual`], of a packet that was made here in answer to one that has left its note.
    #[inline]
    pub(in super::super) fn hit_noted(
        &mut self,
        note: Note,
        name: FlowId,
        pkt: &Pkt,
        now: Instant,
        is_right: impl FnOnce(RuleId) -> bool,
    ) -> Option<UsualHit> {
        let now_ms = ms(now);
        let direction = if note.bits & BACK == 0 { Direction::Forward } else { Direction::Reverse };
        let Self { slab, settings, .. } = self;
        let state = slab.get_mut(note.at)?;
        let mark = Mark { at: note.at, serial: state.serial };
        let is_it = mark.is_noted(note)
            && state.is_of(direction, pkt)
            && (state.flow == name || name == FlowId::ANY)
            && state.left_ms(now_ms) > 0
            && is_right(state.rule);
        if !is_it {
            return None;
        }
        debug_assert_eq!(
            Flow::usual(pkt).map(|flow| (flow.key, state.direction(&flow))),
            Some((state.key, direction))
        );
        let hit = state.hit(mark, direction, pkt);
        if let Some(wait) = state.take_usual(direction, pkt, now_ms, settings)? {
            self.hasten(mark.at, now_ms + wait);
        }
        Some(hit)
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

    /// Returns a mark that names this state, and no later one in its place as long as [`States::epoch`] is the
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

/// The live state of a flow with this hash, where the likely one is not.
#[cold]
#[inline(never)]
fn behind(
    slab: &Slab<State>,
    index: &Index,
    hash: Hash,
    flow: &Flow,
    name: FlowId,
    now_ms: u64,
) -> Option<u32> {
    index.find(hash.hash, |at| slab.get(at).is_some_and(|state| state.is_alive(flow, name, now_ms)))
}

impl State {
    /// Whether it is a flow's, of this name or any, and its life is not over.
    #[inline(always)]
    fn is_alive(&self, flow: &Flow, name: FlowId, now_ms: u64) -> bool {
        self.key == flow.key && (self.flow == name || name == FlowId::ANY) && self.left_ms(now_ms) > 0
    }

    /// Whether it is the one of this mark, and its packets need not be looked at one by one.
    fn may_be_out_of_sight(&self, mark: Mark, now_ms: u64) -> bool {
        let is_plain = matches!(self.kind, super::Kind::Keep | super::Kind::Limit);
        let is_open = matches!(self.phase(), None | Some(super::Phase::Established));
        self.serial == mark.serial && self.left_ms(now_ms) > 0 && is_plain && is_open
    }

    /// Describes the hit of a usual packet.
    #[inline(always)]
    fn hit(&self, mark: Mark, direction: Direction, pkt: &Pkt) -> UsualHit {
        let bytes = u32::try_from(pkt.len()).unwrap_or(u32::MAX);
        UsualHit { mark, rule: self.rule, direction, bytes }
    }

    /// Takes a usual packet into account. `None`, and nothing has changed, if it must be looked at more closely. Answers how
    /// long the wheel may wait, if that is shorter than it was. Not inlined: the loop over a chunk has no registers for it.
    #[inline(never)]
    fn take_usual(
        &mut self,
        direction: Direction,
        pkt: &Pkt,
        now_ms: u64,
        settings: &Settings,
    ) -> Option<Option<u64>> {
        if let Some(segment) = Segment::of_running(&self.key, pkt)
            && let Some((judgement, is_marked)) = self.tcp.take_running(direction.index(), &segment)
        {
            let life = self.go_on(is_marked, judgement, settings);
            self.count(direction, 1, u32::try_from(pkt.len()).unwrap_or(u32::MAX));
            return Some(self.live(life, now_ms, settings));
        }
        self.take_other(direction, pkt, now_ms, settings)
    }

    /// [`Self::take_usual`] of a packet that is no segment within an open connection.
    #[inline(never)]
    fn take_other(
        &mut self,
        direction: Direction,
        pkt: &Pkt,
        now_ms: u64,
        settings: &Settings,
    ) -> Option<Option<u64>> {
        let seen = Seen::of_flow(&self.key, pkt);
        let life = self.take_inside(direction, &seen, 1, now_ms, settings)?;
        Some(self.live(life, now_ms, settings))
    }

    /// Whether a usual packet that goes this way is of the flow. A note alone does not say so: it has 23 bits of the number of
    /// its state, and a connection may keep it while as many others come and go.
    #[inline]
    fn is_of(&self, direction: Direction, pkt: &Pkt) -> bool {
        let is_downward = (self.bits & bits::DOWNWARD != 0) == (direction == Direction::Forward);
        self.key.is_of(pkt, is_downward)
    }

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
                    judgement => self.go_on(before != self.tcp.marks(), judgement, settings),
                }
            }
            None => Life::Longer(settings.life(self.key.proto())),
        };
        self.count(direction, times, seen.bytes);
        Some(life)
    }
}
