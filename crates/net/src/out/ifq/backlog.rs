//! Packets waiting because the ring pushed back: the priority list, and behind it the discipline.

use pkt::{Flags, Pkt};

use super::PendingDrops;
use super::codel::Law;
use super::fifo::Fifo;
use super::fq_codel::{FqCodel, flow_of};
use super::list::Queued;
use super::stage::Around;
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::base::time::{Duration, Instant};
use crate::link::tables::{Discipline, QueueSpec};

/// Priority packets that go before one other, if both wait: a ping flood does not stop the others.
const PRIORITY_RUN: u32 = 3;

/// A queue that has not been empty for so long is not just a burst.
const STANDING: Duration = Duration::from_millis(10);

/// The packets of one interface that wait.
#[derive(Default)]
pub(super) struct Backlog {
    limits: Limits,
    /// Packets that must not wait ([`Flags::PRIORITY`]).
    priority: Fifo,
    /// Packets that went from there in a row.
    run: u32,
    /// When it was empty last.
    since: Instant,
    normal: Normal,
}

/// The limits of a backlog.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) spec: QueueSpec,
    /// Bytes of a full-sized frame.
    pub(super) frame_max: usize,
    /// Packets that one queue may keep from the CPU's pool.
    pub(super) buffers_max: usize,
}

enum Normal {
    Fifo(Fifo),
    /// Made when the first packet waits.
    FqCodel(Option<Box<FqCodel>>),
}

impl Backlog {
    /// Changes discipline and limits; what waits already goes to the new one, in the order in which it would have left.
    pub(super) fn configure(&mut self, limits: Limits, around: &mut Around<'_>) {
        let old = core::mem::replace(&mut self.limits, limits);
        if old.spec.discipline == limits.spec.discipline {
            return;
        }
        let all: Vec<Pkt> = core::iter::from_fn(|| self.take_any()).collect();
        self.normal = Normal::of(limits.spec.discipline);
        all.into_iter().for_each(|pkt| self.push(pkt, around));
    }

    /// Adds a packet. When the backlog is full, older ones give way; a packet of the priority list only to others, and
    /// only as long as that list is not half of all.
    ///
    /// Drops  [`DropReason::IfqFull`].
    pub(super) fn push(&mut self, pkt: Pkt, around: &mut Around<'_>) {
        let Around { now, secret, victims, short_max } = around;
        let is_priority = pkt.flags.has(Flags::PRIORITY);
        if self.is_empty() {
            self.since = *now;
        }
        if self.normal.len() >= *short_max && now.since(self.since) > STANDING {
            self.normal.shed(victims);
        }
        while self.is_full(pkt.len()) {
            let may_evict = !is_priority || self.priority_may_evict();
            if !may_evict || !self.normal.shed(victims) {
                return victims.push(pkt, DropReason::IfqFull);
            }
        }
        let queued = Queued { pkt, since: *now, tag: () };
        if is_priority {
            self.priority.push(queued);
        } else {
            self.normal.push(queued, secret);
        }
    }

    /// The packet that goes next.
    ///
    /// Drops  [`DropReason::IfqCodel`].
    pub(super) fn pop(&mut self, now: Instant, victims: &mut PendingDrops) -> Option<Pkt> {
        if self.priority.len() > 0 && (self.run < PRIORITY_RUN || self.normal.len() == 0) {
            self.run += 1;
            return self.priority.pop().map(|queued| queued.pkt);
        }
        self.run = 0;
        let QueueSpec { target, interval, .. } = self.limits.spec;
        let law = Law { target, interval, mtu: self.limits.frame_max };
        self.normal.pop(now, &law, victims).or_else(|| self.priority.pop().map(|queued| queued.pkt))
    }

    /// A packet that goes early in any case, whatever has become of it.
    pub(super) fn take_any(&mut self) -> Option<Pkt> {
        self.priority.pop().map(|queued| queued.pkt).or_else(|| self.normal.take_any())
    }

    /// Whether `bytes` more would be too many.
    fn is_full(&self, bytes: usize) -> bool {
        self.len() >= self.packets_max() || self.bytes() + bytes > self.bytes_max()
    }

    fn priority_may_evict(&self) -> bool {
        self.priority.len() * 2 < self.packets_max() && self.priority.bytes() * 2 < self.bytes_max()
    }

    pub(super) fn packets_max(&self) -> usize {
        self.limits.spec.packets_max.min(self.limits.buffers_max).max(1)
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.limits.spec.bytes_max.min(self.limits.buffers_max.saturating_mul(pkt::DATA_LEN)).max(1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Packets that wait.
    pub(super) fn len(&self) -> usize {
        self.priority.len() + self.normal.len()
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.priority.bytes() + self.normal.bytes()
    }

    /// Flows that wait, if they are told apart.
    pub(super) fn flows(&self) -> usize {
        match &self.normal {
            Normal::FqCodel(Some(queues)) => queues.flows(),
            _ => 0,
        }
    }

    pub(super) const fn discipline(&self) -> Discipline {
        self.limits.spec.discipline
    }
}

impl Normal {
    fn of(discipline: Discipline) -> Self {
        match discipline {
            Discipline::Fifo => Self::Fifo(Fifo::default()),
            Discipline::FqCodel => Self::FqCodel(None),
        }
    }

    fn push(&mut self, queued: Queued, secret: &Secret) {
        match self {
            Self::Fifo(fifo) => fifo.push(queued),
            Self::FqCodel(queues) => {
                let flow = flow_of(&queued.pkt, secret);
                queues.get_or_insert_default().push(queued, flow);
            }
        }
    }

    fn pop(&mut self, now: Instant, law: &Law, victims: &mut PendingDrops) -> Option<Pkt> {
        match self {
            Self::Fifo(fifo) => fifo.pop().map(|queued| queued.pkt),
            Self::FqCodel(queues) => queues.as_mut()?.pop(now, law, victims).map(|queued| queued.pkt),
        }
    }

    /// Takes a packet without a judgement of how long it waited.
    fn take_any(&mut self) -> Option<Pkt> {
        let patient = Law { target: Duration::MAX, interval: Duration::MAX, mtu: usize::MAX };
        self.pop(Instant::START, &patient, &mut PendingDrops::default())
    }

    /// Drops something old; false if there is nothing.
    fn shed(&mut self, victims: &mut PendingDrops) -> bool {
        match self {
            Self::Fifo(fifo) => {
                let oldest = fifo.pop().map(|oldest| victims.push(oldest.pkt, DropReason::IfqFull));
                oldest.is_some()
            }
            Self::FqCodel(queues) => queues.as_mut().is_some_and(|queues| queues.shed(victims)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Fifo(fifo) => fifo.len(),
            Self::FqCodel(queues) => queues.as_ref().map_or(0, |queues| queues.len()),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Fifo(fifo) => fifo.bytes(),
            Self::FqCodel(queues) => queues.as_ref().map_or(0, |queues| queues.bytes()),
        }
    }
}

impl Default for Normal {
    fn default() -> Self {
        Self::of(Discipline::default())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { spec: QueueSpec::default(), frame_max: 1514, buffers_max: usize::MAX }
    }
}
