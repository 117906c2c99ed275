//! All states, a piece at a time: to show them, and to end many.
//!
//! States never move, so a place in the table is a cursor: a reader that goes on from it sees no state twice, and every state
//! that is there all the time. Those that come meanwhile may be missed.

use super::limit::Group;
use super::{State, StateId, States};
use crate::base::collections::slab::Slab;
use crate::base::collections::wheel::ms;
use crate::base::time::Instant;

/// The remaining lifetime of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Seconds, rounded up; 0 if it has expired and was not collected yet.
    pub seconds: u32,
}

impl States {
    /// Shows the states in `most` places from `cursor` on (0 at first). Answers the next cursor; `None` at the end.
    pub fn list(
        &self,
        cursor: u32,
        most: u32,
        now: Instant,
        mut visit: impl FnMut(&State, Left),
    ) -> Option<u32> {
        let to = until(&self.slab, cursor, most);
        for at in (cursor..to).filter(|at| self.slab.is_used(*at)) {
            if let Some(state) = self.slab.get(at) {
                let seconds = u32::try_from(state.left_ms(ms(now))).unwrap_or(0).div_ceil(1000);
                visit(state, Left { seconds });
            }
        }
        ((to as usize) < self.slab.end()).then_some(to)
    }

    /// Ends those states in `most` places from `cursor` on (0 at first) that `may_go`: those of a deleted rule, or all.
    /// Answers the next cursor; `None` at the end.
    pub fn end(
        &mut self,
        cursor: u32,
        most: u32,
        now: Instant,
        mut may_go: impl FnMut(&State) -> bool,
    ) -> Option<u32> {
        let to = until(&self.slab, cursor, most);
        for at in cursor..to {
            if self.slab.is_used(at) && self.slab.get(at).is_some_and(&mut may_go) {
                self.remove(StateId(at), now);
            }
        }
        ((to as usize) < self.slab.end()).then_some(to)
    }

    /// Shows groups that a `limit` counts, with their states on this CPU; as [`States::list`].
    pub fn list_tracks(&self, cursor: u32, most: u32, visit: impl FnMut(&Group, u32)) -> Option<u32> {
        self.tracks.list(cursor, most, visit)
    }
}

/// The end of a piece of the table.
fn until(slab: &Slab<State>, cursor: u32, most: u32) -> u32 {
    u32::try_from(slab.end()).unwrap_or(u32::MAX).min(cursor.saturating_add(most))
}
