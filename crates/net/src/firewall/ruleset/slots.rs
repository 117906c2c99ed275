//! Places that outlive rulesets: which rule has which.

use std::collections::VecDeque;

use super::RuleId;

/// Assigns a slot to each rule, and takes slots back. A slot that changes hands has a new epoch, so that a holder
/// of the old rule is not led to the new one.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    /// The epoch of each place that was ever taken.
    epochs: Vec<u16>,
    /// Free slots; the one that has been free for longest is taken first.
    free: VecDeque<u16>,
}

impl Slots {
    /// A place, if there is one.
    pub(super) fn take(&mut self) -> Option<RuleId> {
        if self.epochs.len() < usize::from(u16::MAX)
            && self.free.len() < MARGIN
            && let Ok(slot) = u16::try_from(self.epochs.len())
        {
            self.epochs.push(0);
            return Some(RuleId { slot, epoch: 0 });
        }
        let slot = self.free.pop_front()?;
        Some(RuleId { slot, epoch: *self.epochs.get(usize::from(slot))? })
    }

    /// Takes a place back.
    pub(super) fn give(&mut self, id: RuleId) {
        if let Some(epoch) = self.epochs.get_mut(usize::from(id.slot)) {
            *epoch = epoch.wrapping_add(1);
            self.free.push_back(id.slot);
        }
    }

    /// Gives up what another list of places, a clone of this one, has taken since: nothing is led to what had it.
    pub(super) fn skip(&mut self, other: &Self) {
        let new = self.epochs.len()..other.epochs.len();
        self.free.extend(new.filter_map(|slot| u16::try_from(slot).ok()));
        self.epochs.resize(self.epochs.len().max(other.epochs.len()), 0);
        for slot in &self.free {
            let at = usize::from(*slot);
            if let (Some(epoch), Some(taken)) = (self.epochs.get_mut(at), other.epochs.get(at)) {
                *epoch = taken.wrapping_add(1);
            }
        }
    }
}

/// Places that rest before one is taken again, while there are new ones: epochs have 16 bits, and must not come round
/// while a state of old still remembers one.
const MARGIN: usize = 256;
