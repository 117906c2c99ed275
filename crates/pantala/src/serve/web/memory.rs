//! Memory held by connections for their readers, and the readers' pace.

use net::app::AppContext;
use net::tcp;

use super::{Step, Web};
use crate::serve::budget::Pace;
use crate::serve::connection::Stage;
use crate::serve::counters::Hit;

/// As much memory is held for readers as may be.
const REFUSED: u16 = 503;
/// A connection is charged again within a round, and at once if it holds so much more or less.
const CHARGED_ANEW: u64 = 16 << 10;

impl Web {
    /// Whether a connection may hold so much more.
    pub(super) fn admits(&mut self, key: u32, more: u64) -> bool {
        let client = self.visits.get_mut(key).map(|visit| visit.client);
        client.is_none_or(|client| self.budget.admits(client, more))
    }

    /// There is no memory for what is asked for.
    pub(super) fn refuse(&mut self, cx: &AppContext<'_>, key: u32) -> Step {
        self.hits.inc(Hit::Refused);
        self.answer(cx, key, Err(REFUSED), None)
    }

    /// Takes into account what a connection holds whose reader is waited for.
    pub(super) fn charge_waiting(&mut self, cx: &AppContext<'_>, key: u32) {
        let Some(visit) = self.visits.get_mut(key) else { return };
        if matches!(visit.stage, Stage::Sends(_)) {
            let memory = tcp::connection(cx.cpu, visit.id).map_or(0, |(_, tcb)| tcb.memory() as u64);
            let held = visit.held() + memory;
            if held.abs_diff(visit.charged) >= CHARGED_ANEW {
                self.budget.set(visit.client, &mut visit.charged, held);
            }
        }
    }

    /// Looks at what a connection holds, and at how its reader gets on.
    pub(super) fn review(&mut self, cx: &mut AppContext<'_>, key: u32) {
        let now = cx.now();
        let Some(visit) = self.visits.get_mut(key) else { return };
        if !visit.has_moved && visit.charged == 0 {
            return;
        }
        let id = visit.id;
        let Some((_, tcb)) = tcp::connection(cx.cpu, id) else { return };
        let (queued, is_over) = (tcb.queued() as u64, tcb.is_finished());
        let held = visit.held() + tcb.memory() as u64;
        self.budget.set(visit.client, &mut visit.charged, held);
        visit.has_moved = false;
        if queued == 0 {
            visit.pace = Pace::new(visit.sent, now);
            if is_over && matches!(visit.stage, Stage::Ends) {
                self.close(cx, key, id);
            }
            return;
        }
        let taken = visit.sent.saturating_sub(queued);
        if let Some(wrong) = visit.pace.goes_on((taken, visit.sent), visit.client, &self.budget, now) {
            self.hits.inc(wrong);
            self.abort(cx, key);
        } else if matches!(visit.stage, Stage::Sends(_)) {
            // It takes what was sent, though perhaps there is no room for more yet.
            visit.deadline = now + self.budget.limits.stall;
        }
    }
}
