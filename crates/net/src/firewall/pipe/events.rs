//! When something happens in which pipe.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::base::time::Instant;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// It can send the next packet.
    Send,
    /// A packet has come to its end.
    Leave,
    /// A packet was held back there for long enough.
    LetGo,
}

/// Soonest first. Each pipe has at most one event of each kind here, so none is ever searched for.
#[derive(Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(Instant, u32, Event)>>,
}

impl Events {
    pub(super) fn set(&mut self, at: Instant, lane: u32, event: Event) {
        self.heap.push(Reverse((at, lane, event)));
    }

    /// When the next one is.
    pub(super) fn next(&self) -> Instant {
        self.heap.peek().map_or(Instant::NEVER, |Reverse((at, ..))| *at)
    }

    /// Returns an event due by `now`.
    pub(super) fn due(&mut self, now: Instant) -> Option<(u32, Event)> {
        if self.next() > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, lane, event))| (lane, event))
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.heap.clear();
    }
}
