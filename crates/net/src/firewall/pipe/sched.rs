//! Schedulers: how the queues of a pipe share it.

mod rr;
mod wf2q;

use self::rr::Rr;
use self::wf2q::Wf2q;
use super::config;
use super::queue::{Count, DropList, Queue, Turn};
use super::slab::Slab;
use crate::base::drop::DropReason;
use crate::base::time::{Duration, Instant};
use crate::out::ifq::codel::Law;
use crate::out::ifq::fq_codel::FqCodel;
use crate::out::ifq::list::{Nodes, Queued};

/// All queues of a CPU, their packets, and those given up.
pub(super) struct Store<T> {
    pub(super) queues: Slab<Queue>,
    pub(super) nodes: Nodes<T>,
    pub(super) dropped_list: DropList,
}

/// The scheduler of a pipe's queues.
pub(super) enum Turns<T> {
    /// There is only one queue.
    Fifo,
    Wf2q(Wf2q),
    Rr(Rr),
    /// Flows of its own; the pipe's queue only counts.
    FqCodel {
        flows: Box<FqCodel<T>>,
        law: Law,
        packets_max: usize,
        ecn: bool,
    },
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { queues: Slab::default(), nodes: Nodes::default(), dropped_list: DropList::default() }
    }
}

impl<T> Turns<T> {
    pub(super) fn new(how: &config::Turns) -> Self {
        match *how {
            config::Turns::Fifo => Self::Fifo,
            config::Turns::Wf2q => Self::Wf2q(Wf2q::default()),
            config::Turns::Rr => Self::Rr(Rr::default()),
            config::Turns::FqCodel { law, quantum, packets_max, flows, ecn } => {
                Self::FqCodel { flows: Box::new(FqCodel::new(flows, quantum)), law, packets_max, ecn }
            }
        }
    }

    /// Whether queues that lead to the pipe stay apart in it.
    pub(super) const fn tells_queues_apart(&self) -> bool {
        matches!(self, Self::Wf2q(_) | Self::Rr(_))
    }

    /// Whether it admits packets itself.
    pub(super) const fn has_flows(&self) -> bool {
        matches!(self, Self::FqCodel { .. })
    }

    /// Makes room for one more packet, if it admits packets itself; `own` is the pipe's own queue.
    ///
    /// Drops  [`DropReason::PipeFull`].
    pub(super) fn make_room(&mut self, store: &mut Store<T>, own: u32) {
        let Self::FqCodel { flows, packets_max, ecn, .. } = self else { return };
        if flows.len() >= *packets_max
            && let Some(queue) = store.queues.get_mut(own)
        {
            flows.shed(&mut store.dropped_list.of(*ecn, &mut queue.count));
        }
    }

    /// Adds a packet to a queue. `flow` is any number that the packets of a flow have in common.
    pub(super) fn push(&mut self, store: &mut Store<T>, at: u32, queued: Queued<T>, flow: u64) {
        let Store { queues, nodes, dropped_list } = store;
        let Some(queue) = queues.get_mut(at) else {
            return dropped_list.push(queued.pkt, DropReason::PipeGone);
        };
        match self {
            Self::FqCodel { flows, .. } => flows.push(queued, flow),
            Self::Fifo => queue.list.push(nodes, queued),
            Self::Wf2q(_) | Self::Rr(_) => {
                let joins = queue.list.is_empty();
                queue.list.push(nodes, queued);
                if joins {
                    self.joins(at, queue, nodes);
                }
            }
        }
    }

    /// The next packet; `own` is the pipe's own queue.
    pub(super) fn pop(&mut self, store: &mut Store<T>, own: u32, now: Instant) -> Option<Queued<T>> {
        let Store { queues, nodes, dropped_list } = store;
        match self {
            Self::Fifo => queues.get_mut(own)?.pop(now, nodes, dropped_list),
            Self::Wf2q(wf2q) => wf2q.pop(now, store),
            Self::Rr(rr) => rr.pop(now, store),
            Self::FqCodel { flows, law, ecn, .. } => {
                flows.pop(now, law, &mut dropped_list.of(*ecn, &mut queues.get_mut(own)?.count))
            }
        }
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self, store: &Store<T>, own: u32) -> bool {
        match self {
            Self::Fifo => store.queues.get(own).is_none_or(|queue| queue.list.is_empty()),
            Self::Wf2q(wf2q) => wf2q.is_empty(),
            Self::Rr(rr) => rr.is_empty(),
            Self::FqCodel { flows, .. } => flows.len() == 0,
        }
    }

    /// Packets and bytes of flows of its own.
    pub(super) fn in_flows(&self) -> (usize, usize) {
        match self {
            Self::FqCodel { flows, .. } => (flows.len(), flows.bytes()),
            _ => (0, 0),
        }
    }

    /// Takes a packet out of its own flows, without a judgement of how long it waited.
    pub(super) fn take_any(&mut self) -> Option<Queued<T>> {
        let Self::FqCodel { flows, .. } = self else { return None };
        let patient = Law { target: Duration::MAX, interval: Duration::MAX, mtu: usize::MAX };
        let mut nobody = Count::default();
        flows.pop(Instant::START, &patient, &mut DropList::default().of(false, &mut nobody))
    }

    /// Forgets whose turn it was: queues changed, or some went.
    pub(super) fn reset(&mut self) {
        match self {
            Self::Wf2q(wf2q) => *wf2q = Wf2q::default(),
            Self::Rr(rr) => *rr = Rr::default(),
            Self::Fifo | Self::FqCodel { .. } => {}
        }
    }

    /// A queue takes part again after [`Self::reset`].
    pub(super) fn rejoin(&mut self, at: u32, queue: &mut Queue, nodes: &Nodes<T>) {
        queue.turn = Turn::default();
        if !queue.list.is_empty() {
            self.joins(at, queue, nodes);
        }
    }

    /// A queue that was empty has a packet.
    fn joins(&mut self, at: u32, queue: &mut Queue, nodes: &Nodes<T>) {
        match self {
            Self::Wf2q(wf2q) => wf2q.joins(at, queue, nodes),
            Self::Rr(rr) => rr.joins(at, queue),
            Self::Fifo | Self::FqCodel { .. } => {}
        }
    }
}
