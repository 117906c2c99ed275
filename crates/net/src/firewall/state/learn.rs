//! Copies of states, for a dry run: what happens to them there, happens to the copies alone.

use std::sync::Arc;

use super::approx_count::Loose;
use super::entry::{Kind, State, bits};
use super::fastpath::Mark;
use super::key::Flow;
use super::limit::Limits;
use super::{Hash, StateId, States, hash_of, ms, wheel};
use crate::base::collections::wheel::Links;
use crate::base::time::{Duration, Instant};

impl States {
    /// Returns the number of states of all CPUs.
    pub(in super::super) fn loose(&self) -> Arc<Loose> {
        self.share.loose()
    }

    /// Returns the counts of each `limit`.
    pub(in super::super) fn limits(&self) -> Arc<Limits> {
        self.tracks.limits()
    }

    /// Copies the live states of a flow that are not here yet, but for those of redirected flows. `hash` is the flow's hash
    /// among the others.
    pub(in super::super) fn learn(&mut self, others: &Self, flow: &Flow, hash: Hash, now: Instant) {
        let mut found = Vec::new();
        others.index.find(hash.hash, |at| {
            let state =
                others.slab.get(at).filter(|state| state.key == flow.key && state.left_ms(ms(now)) > 0);
            found.extend(state.filter(|state| matches!(state.kind, Kind::Keep | Kind::Limit)).cloned());
            false
        });
        for state in found {
            let own = self.hash(flow);
            if self.find(flow, own, state.flow, now).is_none() {
                self.adopt(state, own, now);
            }
        }
    }

    fn adopt(&mut self, copied: State, hash: Hash, now: Instant) {
        self.serial += 1;
        let due_ms = ms(now) + u64::try_from(copied.left_ms(ms(now))).unwrap_or(0);
        let Some((at, state)) = self.slab.place() else { return };
        *state = State {
            kind: Kind::Keep,
            link: wheel::NIL,
            bits: copied.bits & !bits::HALF_OPEN,
            serial: u32::try_from(self.serial).unwrap_or(1),
            links: Links::default(),
            half_open: [wheel::NIL; 2],
            ..copied
        };
        let Self { slab, index, secret, .. } = self;
        index.insert(hash.hash, at, |at| hash_of(slab, secret, at));
        self.wheel.link(&mut self.slab, at, due_ms);
    }

    /// Returns the state that a mark names.
    pub(in super::super) fn marked(&self, mark: Mark) -> Option<&State> {
        self.get(StateId(mark.at)).filter(|state| state.serial == mark.serial)
    }
}

impl State {
    /// Returns the remaining lifetime.
    #[must_use]
    pub fn left(&self, now: Instant) -> Duration {
        Duration::from_millis(u64::try_from(self.left_ms(ms(now))).unwrap_or(0))
    }
}
