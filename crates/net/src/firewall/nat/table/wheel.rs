//! When to look whether a binding has ended.
//!
//! A packet only writes down until when its binding lives. When the hand comes to a binding that has not ended, it is hung
//! where it will, or as far ahead as the wheel goes.

use super::slab::Slab;
use super::{NONE, Tick};

/// Ticks of a round.
const SLOTS: u32 = 128;
/// Set in what stands for a slot where else a binding does.
const SLOT: u32 = 1 << 31;

pub(super) struct Wheel {
    slots: [u32; SLOTS as usize],
    /// The tick whose slot is looked at.
    hand: Tick,
}

impl Default for Wheel {
    fn default() -> Self {
        Self { slots: [NONE; SLOTS as usize], hand: Tick(0) }
    }
}

impl Wheel {
    /// Nothing hangs: the hand goes to `now`.
    pub(super) const fn start(&mut self, now: Tick) {
        self.hand = now;
    }

    /// When something may be due again.
    pub(super) fn next(&self) -> Tick {
        let ahead = (0..SLOTS).find(|n| self.slots[self.slot(*n)] != NONE);
        Tick(self.hand.0.saturating_add(ahead.unwrap_or(0)))
    }

    /// A binding that may have ended.
    pub(super) fn due(&mut self, now: Tick) -> Option<u32> {
        while self.slots[self.slot(0)] == NONE {
            if self.hand >= now {
                return None;
            }
            self.hand.0 += 1;
        }
        (self.hand <= now).then(|| self.slots[self.slot(0)])
    }

    /// Hangs a binding where it is looked at after `expires`.
    pub(super) fn insert(&mut self, slab: &mut Slab, at: u32, expires: Tick) {
        let ahead = expires.0.saturating_sub(self.hand.0).saturating_add(1).min(SLOTS - 1);
        let slot = self.slot(ahead);
        let next = core::mem::replace(&mut self.slots[slot], at);
        let links = slab.links(at);
        links.next = next;
        links.prev = SLOT | u32::try_from(slot).unwrap_or(0);
        if next != NONE {
            slab.links(next).prev = at;
        }
    }

    pub(super) fn remove(&mut self, slab: &mut Slab, at: u32) {
        let links = *slab.links(at);
        self.point(slab, links.prev, links.next);
        if links.next != NONE {
            slab.links(links.next).prev = links.prev;
        }
    }

    /// Makes what points to `old` point to `new`.
    pub(super) fn replace(&mut self, slab: &mut Slab, old: u32, new: u32) {
        let links = *slab.links(old);
        self.point(slab, links.prev, new);
        if links.next != NONE {
            slab.links(links.next).prev = new;
        }
    }

    fn point(&mut self, slab: &mut Slab, prev: u32, to: u32) {
        if prev & SLOT == 0 {
            slab.links(prev).next = to;
        } else {
            self.slots[(prev & !SLOT) as usize] = to;
        }
    }

    const fn slot(&self, ahead: u32) -> usize {
        (self.hand.0.wrapping_add(ahead) % SLOTS) as usize
    }
}
