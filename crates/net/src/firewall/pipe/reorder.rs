//! The end of a pipe that changes the order of its packets: some are held back there, so that others overtake them.
//!
//! How many overtake a packet is drawn when it is held back, and it leaves right behind the last of them. If they do not
//! come, it leaves [`HELD_MAX`] after its time. There are never more held back than one of them may be overtaken by: so a
//! packet moves by no more than that, forward or backward, whatever share of them is held back.

use super::config::Reorder;
use super::queue::happens;
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::out::ifq::list::Queued;

/// Longest time that a packet is held back.
pub(super) const HELD_MAX: Duration = Duration::from_millis(50);

/// Packets that are held back, the oldest first.
pub(super) struct ReorderQueue<T> {
    held: Vec<HeldPacket<T>>,
}

struct HeldPacket<T> {
    queued: Queued<T>,
    /// Packets that are still to overtake it.
    by: u32,
    /// When it leaves even so.
    until: Instant,
}

impl<T> Default for ReorderQueue<T> {
    fn default() -> Self {
        Self { held: Vec::new() }
    }
}

impl<T> ReorderQueue<T> {
    /// A packet whose time has come, at `due`: held back if chance wants it so, else given back to leave.
    pub(super) fn hold(
        &mut self,
        queued: Queued<T>,
        due: Instant,
        law: Reorder,
        secret: &mut Secret,
    ) -> Option<Queued<T>> {
        if self.held.len() >= law.by as usize || !happens(law.share, secret) {
            return Some(queued);
        }
        let by = 1 + u32::try_from(secret.below(law.by.into())).unwrap_or(0);
        self.held.push(HeldPacket { queued, by, until: due + HELD_MAX });
        None
    }

    /// A packet has left that came behind all of them.
    pub(super) fn overtaken(&mut self) {
        self.overtaken_up_to(self.held.len());
    }

    fn overtaken_up_to(&mut self, at: usize) {
        self.held.iter_mut().take(at).for_each(|stray| stray.by = stray.by.saturating_sub(1));
    }

    /// When the next one leaves.
    pub(super) fn next_leaves(&self) -> Instant {
        let leaves = |stray: &HeldPacket<T>| if stray.by == 0 { Instant::START } else { stray.until };
        self.held.iter().map(leaves).min().unwrap_or(Instant::NEVER)
    }

    /// One that leaves by `now`.
    pub(super) fn leave(&mut self, now: Instant) -> Option<Queued<T>> {
        let at = self.held.iter().position(|stray| stray.by == 0 || stray.until <= now)?;
        self.overtaken_up_to(at);
        Some(self.held.remove(at).queued)
    }

    /// All of them.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Queued<T>> {
        self.held.drain(..).map(|stray| stray.queued)
    }

    pub(super) const fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}
