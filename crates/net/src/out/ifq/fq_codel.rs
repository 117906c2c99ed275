//! Fair queueing with controlled delay: flows take turns, byte by byte, and each is watched by a CoDel of its own.

mod flow;

use std::collections::VecDeque;

use pkt::Pkt;

use self::flow::Flow;
pub(super) use self::flow::flow_of;
use super::codel::{Law, Source};
use super::list::{Nodes, Queued};
use crate::base::time::Instant;

/// Flows that are told apart; more share.
//= https://www.rfc-editor.org/rfc/rfc8290#section-5.2.3
pub const FLOWS: usize = 1024;
/// Bytes that a flow may send when it is its turn: a full-sized frame.
//= https://www.rfc-editor.org/rfc/rfc8290#section-5.2.2
const QUANTUM: u32 = 1514;
/// Packets dropped at once from the flow that fills the queue, so that the search for it is rare.
const SHED_MAX: usize = 64;

/// The receiver of packets that the queues drop.
pub(crate) trait DropSink<T = ()> {
    /// A packet that waited too long.
    fn late(&mut self, queued: Queued<T>);
    /// A packet that made room.
    fn shed(&mut self, queued: Queued<T>);
    /// Marks a packet instead; false if its flow does not understand marks.
    fn mark(&mut self, pkt: &mut Pkt) -> bool;
}

/// The queues of all flows.
///
/// # Spec
/// RFC 8290 §4.
pub(crate) struct FqCodel<T = ()> {
    flows: Box<[Flow]>,
    nodes: Nodes<T>,
    /// Flows that began to queue since they were last served: first in turn.
    new: VecDeque<u16>,
    /// The others that queue.
    old: VecDeque<u16>,
    packets: usize,
    bytes: usize,
    /// Bytes that a flow may send when it is its turn.
    quantum: i64,
}

impl<T> Default for FqCodel<T> {
    fn default() -> Self {
        Self::new(FLOWS, QUANTUM)
    }
}

impl<T> FqCodel<T> {
    /// Queues of so many flows, 1 to 65,536, that may each send so many bytes in their turn.
    pub(crate) fn new(flows: usize, quantum: u32) -> Self {
        let flows = flows.clamp(1, 1 << 16);
        Self {
            flows: (0..flows).map(|_| Flow::default()).collect(),
            nodes: Nodes::default(),
            new: VecDeque::with_capacity(flows),
            old: VecDeque::with_capacity(flows),
            packets: 0,
            bytes: 0,
            quantum: i64::from(quantum.max(1)),
        }
    }

    /// Adds a packet. `flow` is any number: flows that have the same share a queue.
    //= https://www.rfc-editor.org/rfc/rfc8290#section-4.1
    pub(crate) fn push(&mut self, queued: Queued<T>, flow: u64) {
        let at = u16::try_from(flow % self.flows.len() as u64).unwrap_or(0);
        self.packets += 1;
        self.bytes += queued.pkt.len();
        let flow = &mut self.flows[usize::from(at)];
        flow.list.push(&mut self.nodes, queued);
        if !flow.is_listed {
            (flow.is_listed, flow.deficit) = (true, self.quantum);
            self.new.push_back(at);
        }
    }

    /// The next packet of the flow whose turn it is.
    //= https://www.rfc-editor.org/rfc/rfc8290#section-4.2
    pub(crate) fn pop(&mut self, now: Instant, law: &Law, sink: &mut impl DropSink<T>) -> Option<Queued<T>> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let at = *list.front()?;
            let flow = &mut self.flows[usize::from(at)];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                list.pop_front();
                self.old.push_back(at);
                continue;
            }
            let Self { nodes, packets, bytes, .. } = self;
            let mut queue = Feed { flow, nodes, packets, bytes, sink };
            let mut codel = queue.flow.codel;
            let queued = codel.pop(now, law, &mut queue);
            flow.codel = codel;
            match queued {
                Some(queued) => {
                    flow.deficit -= i64::try_from(queued.pkt.len()).unwrap_or(i64::MAX);
                    return Some(queued);
                }
                None => self.ran_empty(at, is_new),
            }
        }
    }

    /// A flow that has nothing more leaves; a new one queues once as an old one first, lest it be new again and again
    /// and starve the others.
    fn ran_empty(&mut self, at: u16, is_new: bool) {
        let list = if is_new { &mut self.new } else { &mut self.old };
        list.pop_front();
        if is_new && !self.old.is_empty() {
            self.old.push_back(at);
        } else {
            self.flows[usize::from(at)].is_listed = false;
        }
    }

    /// Makes room: drops half of what the flow with most bytes has, its oldest packets. False if there was none.
    //= https://www.rfc-editor.org/rfc/rfc8290#section-4.1.3
    pub(crate) fn shed(&mut self, sink: &mut impl DropSink<T>) -> bool {
        let Some(flow) = self.flows.iter_mut().max_by_key(|flow| flow.list.bytes()) else { return false };
        let half = flow.list.bytes() / 2;
        let mut queue =
            Feed { flow, nodes: &mut self.nodes, packets: &mut self.packets, bytes: &mut self.bytes, sink };
        for dropped in 0..SHED_MAX {
            if dropped > 0 && queue.flow.list.bytes() <= half {
                break;
            }
            let Some(queued) = queue.pop() else { return dropped > 0 };
            queue.sink.shed(queued);
        }
        true
    }

    pub(crate) const fn len(&self) -> usize {
        self.packets
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Packets that there is memory for.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// Flows that queue.
    pub(crate) fn flows(&self) -> usize {
        self.flows.iter().filter(|flow| !flow.list.is_empty()).count()
    }
}

/// One flow's packets, and all that is counted along.
struct Feed<'a, T, G> {
    flow: &'a mut Flow,
    nodes: &'a mut Nodes<T>,
    packets: &'a mut usize,
    bytes: &'a mut usize,
    sink: &'a mut G,
}

impl<T, G: DropSink<T>> Source<T> for Feed<'_, T, G> {
    fn pop(&mut self) -> Option<Queued<T>> {
        let queued = self.flow.list.pop(self.nodes)?;
        *self.packets -= 1;
        *self.bytes -= queued.pkt.len();
        Some(queued)
    }

    /// Bytes of all flows: a link that is shared by many flows of one packet each is congested too.
    fn bytes(&self) -> usize {
        *self.bytes
    }

    fn drop_pkt(&mut self, late: Queued<T>) {
        self.sink.late(late);
    }

    fn mark(&mut self, pkt: &mut Pkt) -> bool {
        self.sink.mark(pkt)
    }
}
