//! First in, first out.

use std::collections::VecDeque;

use super::list::Queued;

/// Packets in the order in which they came.
#[derive(Default)]
pub(super) struct Fifo {
    pkts: VecDeque<Queued>,
    bytes: usize,
}

impl Fifo {
    pub(super) fn push(&mut self, queued: Queued) {
        self.bytes += queued.pkt.len();
        self.pkts.push_back(queued);
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let queued = self.pkts.pop_front()?;
        self.bytes -= queued.pkt.len();
        Some(queued)
    }

    pub(super) fn len(&self) -> usize {
        self.pkts.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}
