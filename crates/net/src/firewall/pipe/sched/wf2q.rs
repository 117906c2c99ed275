//! By weight, and smoothly: each queue is served as if it had a pipe of its own that is as wide as its share.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Store;
use crate::base::time::Instant;
use crate::firewall::pipe::queue::Queue;
use crate::firewall::pipe::slab::Slab;
use crate::out::ifq::list::{Nodes, Queued};

/// One byte at weight 1, in virtual time.
const BYTE: u64 = 1 << 32;

/// Queues in virtual time, which goes on by the bytes of a packet divided by the weights of all queues whenever one is
/// sent.
///
/// Of the queues whose next packet would have begun in pipes of their own, the one whose packet would end first is
/// next. Each queue is in at most one of the first two heaps.
///
/// # Spec
/// J. C. R. Bennett, H. Zhang: Hierarchical Packet Fair Queueing Algorithms, 1997, §3.4 (WF2Q+).
#[derive(Default)]
pub(in crate::firewall::pipe) struct Wf2q {
    now: u128,
    /// Sum of the weights of the queues that wait or linger.
    weights: u32,
    /// Queues whose next packet has begun, by its end.
    ready: BinaryHeap<Reverse<(u128, u32)>>,
    /// Queues whose next packet begins later.
    later: BinaryHeap<Reverse<(u128, u32)>>,
    /// Empty queues that in pipes of their own would still be sending until then. A queue that comes back
    /// leaves its entry behind.
    lingering: BinaryHeap<Reverse<(u128, u32)>>,
}

impl Wf2q {
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.later.is_empty()
    }

    /// A queue that was empty has a packet.
    pub(super) fn joins<T>(&mut self, at: u32, queue: &mut Queue, nodes: &Nodes<T>) {
        if !core::mem::take(&mut queue.turn.is_lingering) {
            self.weights += queue.spec.weight;
        }
        queue.turn.start = self.now.max(queue.turn.finish);
        self.plan(at, queue, nodes);
    }

    /// The next packet of the queue whose turn it is.
    pub(super) fn pop<T>(&mut self, now: Instant, store: &mut Store<T>) -> Option<Queued<T>> {
        loop {
            self.begin(&store.queues);
            let Reverse((_, at)) = self.ready.pop()?;
            let Store { queues, nodes, dropped_list } = store;
            let Some(queue) = queues.get_mut(at) else { continue };
            let popped = queue.pop(now, nodes, dropped_list);
            // CoDel may have dropped the one that was planned.
            let bytes = popped.as_ref().map_or(0, |queued| queued.pkt.len() as u64);
            queue.turn.finish = queue.turn.start + span(bytes, queue.spec.weight);
            self.now += span(bytes, self.weights);
            if queue.list.is_empty() {
                queue.turn.is_lingering = true;
                self.lingering.push(Reverse((queue.turn.finish, at)));
            } else {
                queue.turn.start = queue.turn.finish;
                self.plan(at, queue, nodes);
            }
            self.forget(&mut store.queues);
            if popped.is_some() {
                return popped;
            }
        }
    }

    /// Enters the next packet of a queue.
    fn plan<T>(&mut self, at: u32, queue: &mut Queue, nodes: &Nodes<T>) {
        let bytes = queue.list.first(nodes).map_or(0, |queued| queued.pkt.len() as u64);
        queue.turn.finish = queue.turn.start + span(bytes, queue.spec.weight);
        if queue.turn.start <= self.now {
            self.ready.push(Reverse((queue.turn.finish, at)));
        } else {
            self.later.push(Reverse((queue.turn.start, at)));
        }
    }
    /// Makes ready what has begun; if nothing has, time goes on until something does.
    fn begin(&mut self, queues: &Slab<Queue>) {
        if self.ready.is_empty()
            && let Some(Reverse((start, _))) = self.later.peek()
        {
            self.now = self.now.max(*start);
        }
        while let Some(Reverse((start, at))) = self.later.peek().copied()
            && start <= self.now
        {
            self.later.pop();
            if let Some(queue) = queues.get(at) {
                self.ready.push(Reverse((queue.turn.finish, at)));
            }
        }
    }

    /// Forgets queues that would have sent all by now; all of them, if nothing waits.
    fn forget(&mut self, queues: &mut Slab<Queue>) {
        let is_idle = self.is_empty();
        while let Some(Reverse((finish, at))) = self.lingering.peek().copied()
            && (is_idle || finish <= self.now)
        {
            self.lingering.pop();
            self.now = self.now.max(finish);
            let left =
                queues.get_mut(at).filter(|queue| queue.turn.is_lingering && queue.turn.finish == finish);
            if let Some(queue) = left {
                queue.turn.is_lingering = false;
                self.weights -= queue.spec.weight;
            }
        }
    }
}

/// Returns the virtual time of some bytes at a weight.
fn span(bytes: u64, weight: u32) -> u128 {
    u128::from(bytes) * u128::from(BYTE / u64::from(weight.max(1)))
}
