//! A queue of a pipe: what it lets in, and what it loses.

use ipfw::command::QueueLimit;
use pkt::Pkt;

use super::config::{Control, Spec};
use super::key::Key;
use super::red::Red;
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::base::time::Instant;
use crate::out::ifq::codel::{Codel, Source};
use crate::out::ifq::ecn;
use crate::out::ifq::fq_codel::DropSink;
use crate::out::ifq::list::{List, Nodes, Queued};

/// A queue on this CPU.
pub(super) struct Queue {
    /// The lane that it leads to.
    pub(super) lane: u32,
    /// Its number; 0 for what waits in the pipe itself.
    pub(super) number: u16,
    pub(super) key: Key,
    pub(super) hash: u64,
    pub(super) spec: Spec,
    pub(super) list: List,
    red: Red,
    codel: Codel,
    pub(super) turn: Turn,
    pub(super) count: Count,
    /// When a packet last came or went.
    pub(super) used: Instant,
}

/// The scheduler's part of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// WF2Q+: virtual time at which its next packet may begin.
    pub(super) start: u128,
    /// WF2Q+: virtual time at which that would be sent.
    pub(super) finish: u128,
    /// WF2Q+: whether it is empty, but not yet in the virtual time.
    pub(super) is_lingering: bool,
    /// In turn: bytes that it may still send.
    pub(super) deficit: i64,
}

/// The counters of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets that were let in.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that were not let in, or given up later.
    pub drops: u64,
}

/// Packets dropped by a queue, until the CPU counts them.
#[derive(Default)]
pub(super) struct DropList {
    pub(super) pkts: Vec<(Pkt, DropReason)>,
    /// Buffers of those that came since this was last set to 0.
    pub(super) freed: usize,
    /// Packets that were marked.
    pub(super) marked: u64,
    /// Packets that were held back.
    pub(super) moved: u64,
}

impl Queue {
    pub(super) fn new(lane: u32, number: u16, key: Key, hash: u64, spec: Spec, now: Instant) -> Self {
        Self {
            lane,
            number,
            key,
            hash,
            spec,
            list: List::default(),
            red: Red::default(),
            codel: Codel::default(),
            turn: Turn::default(),
            count: Count::default(),
            used: now,
        }
    }

    /// Whether a packet is let in. If the lane `has_flows` of its own, only chance decides here. `missed` is how many
    /// could have been sent in a span.
    ///
    /// Drops  [`DropReason::PipeLoss`], [`DropReason::PipeFull`], [`DropReason::PipeEarly`].
    pub(super) fn admit(
        &mut self,
        has_flows: bool,
        now: Instant,
        secret: &mut Secret,
        missed: impl Fn(core::time::Duration) -> u64,
    ) -> Result<(), DropReason> {
        let Spec { loss, limit, control, .. } = self.spec;
        if happens(loss, secret) {
            return Err(DropReason::PipeLoss);
        }
        if has_flows {
            return Ok(());
        }
        // The packet that crosses the limit of bytes is still let in, so that none is too long for an empty queue.
        let (length, is_full) = match limit {
            QueueLimit::Packets(max) => (self.list.len(), self.list.len() >= max as usize),
            QueueLimit::Bytes(max) => (self.list.bytes(), self.list.bytes() >= max as usize),
        };
        if is_full {
            return Err(DropReason::PipeFull);
        }
        if let Control::Red(law) = control {
            let missed = if self.list.is_empty() { missed(now.since(self.used)) } else { 0 };
            if self.red.drops(&law, length, missed, draw(secret)) {
                return Err(DropReason::PipeEarly);
            }
        }
        Ok(())
    }

    /// Counts a packet that is let in.
    pub(super) fn enters(&mut self, now: Instant, len: usize) {
        self.used = now;
        self.count.packets += 1;
        self.count.bytes += len as u64;
    }

    /// The next packet; none if CoDel drops all.
    ///
    /// Drops  [`DropReason::PipeCodel`].
    pub(super) fn pop<T>(
        &mut self,
        now: Instant,
        nodes: &mut Nodes<T>,
        dropped_list: &mut DropList,
    ) -> Option<Queued<T>> {
        self.used = self.used.max(now);
        let Control::Codel { law, ecn } = self.spec.control else { return self.list.pop(nodes) };
        let Self { list, codel, count, .. } = self;
        codel.pop(now, &law, &mut Feed { list, nodes, sink: dropped_list.of(ecn, count) })
    }
}

/// Whether something happens whose chance is this, of 2³²; the largest is always.
pub(super) fn happens(chance: u32, secret: &mut Secret) -> bool {
    chance > 0 && (chance == u32::MAX || draw(secret) < chance)
}

fn draw(secret: &mut Secret) -> u32 {
    u32::try_from(secret.draw() >> 32).unwrap_or(0)
}

impl DropList {
    /// The list of packets that queues dropped.
    pub(super) const fn of<'a>(&'a mut self, ecn: bool, count: &'a mut Count) -> QueueDrops<'a> {
        QueueDrops { dropped_list: self, count, ecn }
    }

    pub(super) fn push(&mut self, pkt: Pkt, reason: DropReason) {
        self.freed += buffers(&pkt);
        self.pkts.push((pkt, reason));
    }
}

/// Buffers that a packet holds, by its bytes.
pub(super) fn buffers(pkt: &Pkt) -> usize {
    1 + pkt.len() / pkt::DATA_LEN
}

/// The list of packets that one queue dropped.
pub(super) struct QueueDrops<'a> {
    dropped_list: &'a mut DropList,
    count: &'a mut Count,
    /// Whether packets are marked that can be.
    ecn: bool,
}

impl<T> DropSink<T> for QueueDrops<'_> {
    fn late(&mut self, queued: Queued<T>) {
        self.count.drops += 1;
        self.dropped_list.push(queued.pkt, DropReason::PipeCodel);
    }

    fn shed(&mut self, queued: Queued<T>) {
        self.count.drops += 1;
        self.dropped_list.push(queued.pkt, DropReason::PipeFull);
    }

    fn mark(&mut self, pkt: &mut Pkt) -> bool {
        let is_ip4 = pkt.window(0)[0] >> 4 == 4;
        let is_marked = self.ecn && ecn::mark(pkt, 0, is_ip4);
        self.dropped_list.marked += u64::from(is_marked);
        is_marked
    }
}

/// A queue that CoDel watches.
struct Feed<'a, T> {
    list: &'a mut List,
    nodes: &'a mut Nodes<T>,
    sink: QueueDrops<'a>,
}

impl<T> Source<T> for Feed<'_, T> {
    fn pop(&mut self) -> Option<Queued<T>> {
        self.list.pop(self.nodes)
    }

    fn bytes(&self) -> usize {
        self.list.bytes()
    }

    fn drop_pkt(&mut self, late: Queued<T>) {
        self.sink.late(late);
    }

    fn mark(&mut self, pkt: &mut Pkt) -> bool {
        DropSink::<T>::mark(&mut self.sink, pkt)
    }
}
