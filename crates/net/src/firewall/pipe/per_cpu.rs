//! A CPU's part of the pipes: lanes, their queues, and events.

mod change;
mod list;
mod place;

use std::collections::BTreeMap;

use hashbrown::HashTable;
use pkt::Pkt;

#[cfg(test)]
pub(super) use self::place::FLOWS_MAX;
pub(super) use self::place::QueuePath;
use super::events::{Event, Events};
use super::lane::Lane;
use super::queue::{Queue, buffers};
use super::sched::Store;
use super::show::Total;
use super::slab::Slab;
use crate::base::drop::DropReason;
use crate::base::secret::Secret;
use crate::base::time::Instant;
use crate::out::ifq::list::Queued;
use crate::turn::cpu::CpuId;

/// Packets that are sent at the most when another one comes, because it was their turn before.
const CATCH_UP: usize = 64;

/// All lanes of a CPU.
pub(super) struct Own<T> {
    pub(super) id: CpuId,
    cpus: u16,
    pub(super) store: Store<T>,
    lanes: Slab<Lane<T>>,
    /// Lanes of flows, by pipe and key.
    lane_of: HashTable<u32>,
    /// Queues that are not their lane's own, by lane, number and key.
    queue_of: HashTable<u32>,
    /// By position in the configuration.
    heads: Vec<Head>,
    events: Events,
    /// Buffers that are held, and that may be.
    held: usize,
    held_max: usize,
    /// Buffers that may be held while a receive ring runs short.
    short_max: usize,
    /// Totals of removed queues, by the number of the pipe and of the queue, one of which is 0: counters
    /// never decrease. Only configured ones are kept.
    gone: BTreeMap<(u16, u16), Total>,
    /// Where the search for idle lanes and queues goes on.
    hand: (u32, u32),
}

/// A pipe of the configuration.
#[derive(Clone, Copy, Default)]
struct Head {
    /// Its lane for all that has none of its own.
    lane: Option<u32>,
    /// Lanes of its flows.
    flows: usize,
}

impl<T> Own<T> {
    pub(super) fn new(id: CpuId, cpus: u16, held_max: usize) -> Self {
        Self {
            id,
            cpus,
            store: Store::default(),
            lanes: Slab::default(),
            lane_of: HashTable::new(),
            queue_of: HashTable::new(),
            heads: Vec::new(),
            events: Events::default(),
            held: 0,
            held_max,
            short_max: usize::MAX,
            gone: BTreeMap::new(),
            hand: (0, 0),
        }
    }

    pub(super) const fn shortage(&mut self, allowance: Option<usize>) {
        self.short_max = match allowance {
            Some(allowance) => allowance / 2,
            None => usize::MAX,
        };
    }

    /// Admits a packet in so many buffers; if not, returns the reason, and whether it is silent.
    pub(super) fn admit(
        &mut self,
        lane: u32,
        queue: u32,
        buffers: usize,
        now: Instant,
        secret: &mut Secret,
    ) -> Result<(), (DropReason, bool)> {
        self.send(lane, now, CATCH_UP);
        let free = self.held_max.min(self.short_max).saturating_sub(self.held);
        let (Some(lane), Some(queue)) = (self.lanes.get(lane), self.store.queues.get_mut(queue)) else {
            return Err((DropReason::PipeGone, false));
        };
        let admitted = if lane.held + buffers > free {
            Err(DropReason::PipeBuffers)
        } else {
            queue.admit(lane.turns.has_flows(), now, secret, |span| lane.clock.missed(span))
        };
        admitted.map_err(|reason| {
            queue.count.drops += 1;
            (reason, queue.spec.is_silent)
        })
    }

    /// Adds a packet that is let in. `flow` is asked for if the lane tells flows apart by itself.
    pub(super) fn push(
        &mut self,
        at: u32,
        queue: u32,
        pkt: Pkt,
        ticket: T,
        now: Instant,
        flow: impl FnOnce() -> u64,
    ) {
        let Self { lanes, store, held, .. } = self;
        let (Some(lane), Some(into)) = (lanes.get_mut(at), store.queues.get_mut(queue)) else {
            return store.dropped_list.pkts.push((pkt, DropReason::PipeGone));
        };
        into.enters(now, pkt.len());
        *held += buffers(&pkt);
        let flow = if lane.turns.has_flows() { flow() } else { 0 };
        lane.push(store, queue, Queued { pkt, since: now, tag: ticket }, flow);
        self.send(at, now, CATCH_UP);
        self.plan(at);
    }

    /// Does what is due, in so many steps at the most; answers how many it took.
    pub(super) fn run(
        &mut self,
        now: Instant,
        budget: usize,
        secret: &mut Secret,
        out: &mut Vec<(Pkt, T)>,
    ) -> usize {
        let mut left = budget;
        while left > 0
            && let Some((at, event)) = self.events.due(now)
        {
            left -= 1;
            let Some(lane) = self.lanes.get_mut(at) else { continue };
            lane.took(event);
            match event {
                Event::Send => left -= self.send(at, now, left + 1).saturating_sub(1),
                Event::Leave | Event::LetGo => {
                    left -= self.leave(at, now, left + 1, secret, out).saturating_sub(1);
                }
            }
            self.plan(at);
            self.end_if_left(at);
        }
        budget - left
    }

    /// Sends what its turn was by now, so many packets at the most; answers how many.
    fn send(&mut self, at: u32, now: Instant, steps: usize) -> usize {
        let Self { lanes, store, .. } = self;
        let sent = lanes.get_mut(at).map_or(0, |lane| lane.send(store, now, steps));
        self.settle(at);
        sent
    }

    /// Takes out what has come to the end of its line; answers how many.
    fn leave(
        &mut self,
        at: u32,
        now: Instant,
        steps: usize,
        secret: &mut Secret,
        out: &mut Vec<(Pkt, T)>,
    ) -> usize {
        let Self { lanes, store, held, .. } = self;
        let Some(lane) = lanes.get_mut(at) else { return 0 };
        for step in 0..steps {
            let Some(Queued { pkt, tag, .. }) = lane.leave(store, now, secret) else { return step };
            *held -= buffers(&pkt);
            out.push((pkt, tag));
        }
        steps
    }

    /// Accounts for what a lane's queues gave up.
    fn settle(&mut self, at: u32) {
        let freed = core::mem::take(&mut self.store.dropped_list.freed);
        if freed > 0
            && let Some(lane) = self.lanes.get_mut(at)
        {
            lane.held -= freed;
            self.held -= freed;
        }
    }

    fn plan(&mut self, at: u32) {
        let Self { lanes, store, events, .. } = self;
        if let Some(lane) = lanes.get_mut(at) {
            lane.plan(store, at, events);
        }
    }

    /// When something happens next.
    pub(super) fn next(&self) -> Instant {
        self.events.next()
    }

    /// Buffers that are held.
    pub(super) const fn held(&self) -> usize {
        self.held
    }
}

/// Which queues lead to which lane: sorted pairs of both.
struct Members(Vec<(u32, u32)>);

impl Members {
    fn of(queues: &Slab<Queue>) -> Self {
        let mut pairs: Vec<_> = queues.iter().map(|(at, queue)| (queue.lane, at)).collect();
        pairs.sort_unstable();
        Self(pairs)
    }

    fn of_lane(&self, lane: u32) -> impl Iterator<Item = u32> {
        let first = self.0.partition_point(|(of, _)| *of < lane);
        self.0[first..].iter().take_while(move |(of, _)| *of == lane).map(|(_, queue)| *queue)
    }
}
