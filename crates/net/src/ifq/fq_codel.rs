//! Fair queueing with controlled delay: flows take turns, byte by byte, and each is watched by a CoDel of its own.

mod flow;

use std::collections::VecDeque;

use pkt::Pkt;

use self::flow::{Flow, Nodes, flow_of};
use super::Victims;
use super::codel::{Law, Queued, Source};
use crate::drop::DropReason;
use crate::secret::Secret;
use crate::time::Instant;

/// Flows that are told apart; more share.
//= https://www.rfc-editor.org/rfc/rfc8290#section-5.2.3
pub const FLOWS: usize = 1024;
/// Bytes that a flow may send when it is its turn: a full-sized frame.
//= https://www.rfc-editor.org/rfc/rfc8290#section-5.2.2
const QUANTUM: i64 = 1514;
/// Packets dropped at once from the flow that fills the queue, so that the search for it is rare.
const SHED_MAX: usize = 64;

/// The queues of all flows.
///
/// # Spec
/// RFC 8290 §4.
pub(super) struct FqCodel {
    flows: Box<[Flow]>,
    nodes: Nodes,
    /// Flows that began to queue since they were last served: first in turn.
    new: VecDeque<u16>,
    /// The others that queue.
    old: VecDeque<u16>,
    packets: usize,
    bytes: usize,
}

impl Default for FqCodel {
    fn default() -> Self {
        Self {
            flows: (0..FLOWS).map(|_| Flow::default()).collect(),
            nodes: Nodes::default(),
            new: VecDeque::with_capacity(FLOWS),
            old: VecDeque::with_capacity(FLOWS),
            packets: 0,
            bytes: 0,
        }
    }
}

impl FqCodel {
    //= https://www.rfc-editor.org/rfc/rfc8290#section-4.1
    pub(super) fn push(&mut self, queued: Queued, secret: &Secret) {
        let at = flow_of(&queued.pkt, secret);
        self.packets += 1;
        self.bytes += queued.pkt.len();
        let flow = &mut self.flows[usize::from(at)];
        flow.push(&mut self.nodes, queued);
        if !flow.is_listed {
            (flow.is_listed, flow.deficit) = (true, QUANTUM);
            self.new.push_back(at);
        }
    }

    /// The next packet of the flow whose turn it is.
    //= https://www.rfc-editor.org/rfc/rfc8290#section-4.2
    pub(super) fn pop(&mut self, now: Instant, law: &Law, victims: &mut Victims) -> Option<Pkt> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let at = *list.front()?;
            let flow = &mut self.flows[usize::from(at)];
            if flow.deficit <= 0 {
                flow.deficit += QUANTUM;
                list.pop_front();
                self.old.push_back(at);
                continue;
            }
            let Self { nodes, packets, bytes, .. } = self;
            let mut queue = Feed { flow, nodes, packets, bytes, victims };
            let mut codel = queue.flow.codel;
            let pkt = codel.pop(now, law, &mut queue);
            flow.codel = codel;
            match pkt {
                Some(pkt) => {
                    flow.deficit -= i64::try_from(pkt.len()).unwrap_or(i64::MAX);
                    return Some(pkt);
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
    pub(super) fn shed(&mut self, victims: &mut Victims) -> bool {
        let Some(flow) = self.flows.iter_mut().max_by_key(|flow| flow.bytes) else { return false };
        let half = flow.bytes / 2;
        let mut queue = Feed {
            flow,
            nodes: &mut self.nodes,
            packets: &mut self.packets,
            bytes: &mut self.bytes,
            victims,
        };
        for dropped in 0..SHED_MAX {
            if dropped > 0 && queue.flow.bytes <= half {
                break;
            }
            let Some(Queued { pkt, .. }) = queue.pop() else { return dropped > 0 };
            queue.victims.push(pkt, DropReason::IfqFull);
        }
        true
    }

    pub(super) const fn len(&self) -> usize {
        self.packets
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Packets that there is memory for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// Flows that queue.
    pub(super) fn flows(&self) -> usize {
        self.flows.iter().filter(|flow| flow.bytes > 0).count()
    }
}

/// One flow's packets, and all that is counted along.
struct Feed<'a> {
    flow: &'a mut Flow,
    nodes: &'a mut Nodes,
    packets: &'a mut usize,
    bytes: &'a mut usize,
    victims: &'a mut Victims,
}

impl Source for Feed<'_> {
    fn pop(&mut self) -> Option<Queued> {
        let queued = self.flow.pop(self.nodes)?;
        *self.packets -= 1;
        *self.bytes -= queued.pkt.len();
        Some(queued)
    }

    /// Of all flows: a link that is shared by many flows of one packet each is congested too.
    fn bytes(&self) -> usize {
        *self.bytes
    }

    fn bury(&mut self, pkt: Pkt) {
        self.victims.push(pkt, DropReason::IfqCodel);
    }

    fn mark(&mut self, pkt: &Pkt) {
        self.victims.mark(pkt.outif);
    }
}
