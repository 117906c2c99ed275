//! In turn, by weight: deficit round robin.

use std::collections::VecDeque;

use super::Store;
use crate::base::time::Instant;
use crate::firewall::pipe::queue::Queue;
use crate::out::ifq::list::Queued;

/// Bytes that a queue of weight 1 may send in its turn: a full-sized packet.
const QUANTUM: i64 = 1500;

/// Queues that wait, in the order of their turns.
///
/// # Spec
/// M. Shreedhar, G. Varghese: Efficient Fair Queueing using Deficit Round Robin, 1995. A queue may send as long as it
/// is not in debt, so that the length of its next packet need not be known.
#[derive(Default)]
pub(in crate::firewall::pipe) struct Rr {
    waiting: VecDeque<u32>,
}

impl Rr {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A queue that was empty has a packet. What it owes from before it still owes.
    pub(super) fn joins(&mut self, at: u32, queue: &mut Queue) {
        queue.turn.deficit = queue.turn.deficit.min(0) + quantum(queue);
        self.waiting.push_back(at);
    }

    /// The next packet of the queue whose turn it is.
    pub(super) fn pop<T>(&mut self, now: Instant, store: &mut Store<T>) -> Option<Queued<T>> {
        loop {
            let at = *self.waiting.front()?;
            let Store { queues, nodes, dropped_list } = store;
            let Some(queue) = queues.get_mut(at) else {
                self.waiting.pop_front();
                continue;
            };
            if queue.turn.deficit <= 0 {
                queue.turn.deficit += quantum(queue);
                self.waiting.rotate_left(1);
                continue;
            }
            let popped = queue.pop(now, nodes, dropped_list);
            let bytes = popped.as_ref().map_or(0, |queued| queued.pkt.len());
            queue.turn.deficit -= i64::try_from(bytes).unwrap_or(i64::MAX);
            if queue.list.is_empty() {
                self.waiting.pop_front();
            }
            if popped.is_some() {
                return popped;
            }
        }
    }
}

fn quantum(queue: &Queue) -> i64 {
    QUANTUM * i64::from(queue.spec.weight)
}
