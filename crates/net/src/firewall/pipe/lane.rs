//! A pipe on this CPU: its queues, its sending end, and the line behind that.

use std::sync::Arc;

use super::clock::Clock;
use super::config::Pipe;
use super::events::{Event, Events};
use super::key::Key;
use super::queue::buffers;
use super::reorder::ReorderQueue;
use super::sched::{Store, Turns};
use crate::base::secret::Secret;
use crate::base::time::Instant;
use crate::out::ifq::list::{List, Queued};

/// A pipe, or that of one flow of it, on this CPU.
pub(super) struct Lane<T> {
    pub(super) pipe: Arc<Pipe>,
    /// The pipe's position in the configuration.
    pub(super) position: usize,
    pub(super) key: Key,
    pub(super) hash: u64,
    /// The queue of what was sent to the pipe itself.
    pub(super) own: u32,
    /// Queues that lead here, its own among them.
    pub(super) members: usize,
    pub(super) turns: Turns<T>,
    pub(super) clock: Clock,
    /// Packets in flight: since when they are sent.
    pub(super) line: List,
    /// Packets held back at its end.
    pub(super) strays: ReorderQueue<T>,
    /// Buffers that it holds.
    pub(super) held: usize,
    /// Whether new packets come here; else it ends when it is empty.
    pub(super) is_found: bool,
    /// Whether there is an event of each kind.
    sends: bool,
    leaves: bool,
    lets_go: bool,
}

impl<T> Lane<T> {
    pub(super) fn new(pipe: Arc<Pipe>, position: usize, key: Key, hash: u64, own: u32, clock: Clock) -> Self {
        let turns = Turns::new(&pipe.turns);
        Self {
            pipe,
            position,
            key,
            hash,
            own,
            members: 1,
            turns,
            clock,
            line: List::default(),
            strays: ReorderQueue::default(),
            held: 0,
            is_found: true,
            sends: false,
            leaves: false,
            lets_go: false,
        }
    }

    /// Whether it is that of one flow, which may be forgotten.
    pub(super) fn is_flow(&self) -> bool {
        self.key != Key::default() && !self.key.is_overflow
    }

    /// Adds a packet that was let in.
    ///
    /// Drops  [`PipeFull`](crate::base::drop::DropReason::PipeFull): another one, if it has flows of its own.
    pub(super) fn push(&mut self, store: &mut Store<T>, queue: u32, queued: Queued<T>, flow: u64) {
        self.held += buffers(&queued.pkt);
        self.turns.make_room(store, self.own);
        self.turns.push(store, queue, queued, flow);
    }

    /// Sends what its turn was by now, `steps` packets at the most; answers how many.
    ///
    /// Drops  [`PipeCodel`](crate::base::drop::DropReason::PipeCodel).
    pub(super) fn send(&mut self, store: &mut Store<T>, now: Instant, steps: usize) -> usize {
        for step in 0..steps {
            if self.clock.free_at() > now {
                return step;
            }
            // When it was free, not when we look: then it does not matter how often that is.
            let Some(queued) = self.turns.pop(store, self.own, self.clock.turn(now)) else { return step };
            let since = self.clock.send(now, queued.since, queued.pkt.len());
            self.line.push(&mut store.nodes, Queued { since, ..queued });
        }
        steps
    }

    /// A packet that has come to the end of the line, and is not held back there any more.
    pub(super) fn leave(
        &mut self,
        store: &mut Store<T>,
        now: Instant,
        secret: &mut Secret,
    ) -> Option<Queued<T>> {
        let queued = self.next(store, now, secret)?;
        self.held -= buffers(&queued.pkt);
        Some(queued)
    }

    fn next(&mut self, store: &mut Store<T>, now: Instant, secret: &mut Secret) -> Option<Queued<T>> {
        loop {
            let (stray, due) = (self.strays.next_leaves(), self.next_due(store));
            if stray.min(due) > now {
                return None;
            }
            if stray <= due {
                return self.strays.leave(stray);
            }
            let queued = self.line.pop(&mut store.nodes)?;
            let Some(leaving) = self.strays.hold(queued, due, self.pipe.reorder, secret) else {
                store.dropped_list.moved += 1;
                continue;
            };
            self.strays.overtaken();
            return Some(leaving);
        }
    }

    /// When the next packet is at the end of the line.
    fn next_due(&self, store: &Store<T>) -> Instant {
        self.line.first(&store.nodes).map_or(Instant::NEVER, |queued| queued.since + self.pipe.delay)
    }

    /// An event of this lane was taken out.
    pub(super) const fn took(&mut self, event: Event) {
        match event {
            Event::Send => self.sends = false,
            Event::Leave => self.leaves = false,
            Event::LetGo => self.lets_go = false,
        }
    }

    /// Enters what happens next, as far as it is not.
    pub(super) fn plan(&mut self, store: &Store<T>, at: u32, events: &mut Events) {
        if !self.sends && !self.turns.is_empty(store, self.own) {
            self.sends = true;
            events.set(self.clock.free_at(), at, Event::Send);
        }
        if !self.leaves && !self.line.is_empty() {
            self.leaves = true;
            events.set(self.next_due(store), at, Event::Leave);
        }
        if !self.lets_go && !self.strays.is_empty() {
            self.lets_go = true;
            events.set(self.strays.next_leaves(), at, Event::LetGo);
        }
    }

    /// Forgets that there were events.
    pub(super) const fn unplanned(&mut self) {
        (self.sends, self.leaves, self.lets_go) = (false, false, false);
    }

    /// Packets that are being sent, on their way, or held back at its end.
    pub(super) const fn in_flight(&self) -> usize {
        self.line.len() + self.strays.len()
    }

    /// Whether nothing is in it.
    pub(super) fn is_empty(&self, store: &Store<T>) -> bool {
        self.in_flight() == 0 && self.turns.is_empty(store, self.own)
    }
}
