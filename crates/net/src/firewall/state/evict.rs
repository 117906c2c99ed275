//! Room for one more state, when there are as many as may be.

use super::tcp::Phase;
use super::{StateError, StateId, States};
use crate::base::collections::wheel::ms;
use crate::base::count::{Count, Counters};
use crate::base::time::Instant;

/// States that are looked at, at the most, to make room for one.
pub(super) const REAP_LOOKS: usize = 256;
/// States that go then, at the least, if so many can.
const REAP_MIN: u64 = 8;
/// Pause after a search in vain, milliseconds.
const REAP_PAUSE_MS: u64 = 250;

impl States {
    /// Room for one more, if there is any or can be made.
    #[inline]
    pub(super) fn make_room(&mut self, now: Instant, counters: &mut Counters) -> Result<(), StateError> {
        if self.share.has_room(self.settings.state_max) { Ok(()) } else { self.find_room(now, counters) }
    }

    #[cold]
    fn find_room(&mut self, now: Instant, counters: &mut Counters) -> Result<(), StateError> {
        let max = u64::from(self.settings.state_max);
        let pause = ms(now) / REAP_PAUSE_MS + 1;
        let total = self.share.refresh();
        if total < max {
            return Ok(());
        }
        if self.in_vain != pause {
            let reaped = self.reap_some(now, (total - max + 1).max(REAP_MIN), counters);
            self.in_vain = if reaped == 0 { pause } else { 0 };
        }
        if self.share.refresh() < max {
            return Ok(());
        }
        counters.add(Count::StateOverflow, 1);
        Err(StateError::Full { ask_all: self.share.may_ask(now) })
    }

    /// Ends a bounded number of expendable states: the tables are full. Returns how many.
    pub fn reap(&mut self, now: Instant, counters: &mut Counters) -> usize {
        self.reap_some(now, REAP_LOOKS as u64, counters)
    }

    /// Dead and closed ones go, and connections that have taken half of their time to open. All of these are due soon.
    fn reap_some(&mut self, now: Instant, wanted: u64, counters: &mut Counters) -> usize {
        let patience_ms = u64::from(self.settings.syn_lifetime) * 500;
        let mut found = core::mem::take(&mut self.found);
        self.wheel.soon(&mut self.slab, ms(now) + patience_ms, REAP_LOOKS, &mut found);
        let mut reaped = 0;
        for at in found.drain(..) {
            let Some(state) = self.slab.get(at) else { continue };
            let left_ms = u64::try_from(state.left_ms(ms(now))).unwrap_or(0);
            let is_late = state.phase() == Some(Phase::Opening) && left_ms <= patience_ms;
            if reaped < wanted && (is_late || state.is_spent(ms(now))) {
                self.remove(StateId(at), now);
                reaped += 1;
            } else if left_ms.saturating_sub(state.kept_ms(&self.settings)) > patience_ms {
                // Its life is longer than when the wheel was told.
                self.wheel.unlink(&mut self.slab, at);
                self.wheel.link(&mut self.slab, at, ms(now) + left_ms);
            }
        }
        self.found = found;
        let count = if reaped == 0 { Count::StateReapFailed } else { Count::StateReap };
        counters.add(count, reaped.max(1));
        usize::try_from(reaped).unwrap_or(usize::MAX)
    }
}
