//! Another configuration, and the end of lanes and queues.

use std::sync::Arc;

use pkt::Pkt;

use super::{Head, Members, Own};
use crate::base::drop::DropReason;
use crate::base::time::Instant;
use crate::firewall::pipe::config::{Config, Pipe};
use crate::firewall::pipe::lane::Lane;
use crate::firewall::pipe::sched::Turns;
use crate::out::ifq::list::Queued;

impl<T> Own<T> {
    /// Gives all lanes and queues their new shape.
    ///
    /// Drops  [`DropReason::PipeGone`].
    pub(in crate::firewall::pipe) fn configure(&mut self, old: &Config, new: &Config, now: Instant) {
        for at in self.store.queues.numbers() {
            self.change_queue(at, old, new);
        }
        let members = Members::of(&self.store.queues);
        for at in self.lanes.numbers() {
            let Some(lane) = self.lanes.get(at) else { continue };
            match new.pipe(lane.pipe.number) {
                None => self.end_lane(at, &members),
                Some(pipe) if Arc::ptr_eq(pipe, &lane.pipe) => {}
                Some(pipe) => self.change_lane(at, pipe, &members, now),
            }
        }
        self.replan(new);
        self.gone.retain(|(pipe, queue), _| match queue {
            0 => new.pipe(*pipe).is_some(),
            queue => new.queue(*queue).is_some(),
        });
    }

    /// Rebuilds the schedule and the events.
    fn replan(&mut self, new: &Config) {
        let Self { lanes, store, .. } = self;
        for at in lanes.numbers() {
            lanes.get_mut(at).into_iter().for_each(|lane| lane.turns.reset());
        }
        for at in store.queues.numbers() {
            let Some(queue) = store.queues.get_mut(at) else { continue };
            let Some(lane) = lanes.get_mut(queue.lane) else { continue };
            lane.turns.rejoin(at, queue, &store.nodes);
        }
        self.heads = vec![Head::default(); new.pipes()];
        self.events.clear();
        for at in self.lanes.numbers() {
            let Self { lanes, store, events, heads, .. } = self;
            let Some(lane) = lanes.get_mut(at) else { continue };
            lane.unplanned();
            lane.plan(store, at, events);
            lane.position = new.pipe_position(lane.pipe.number).unwrap_or(usize::MAX);
            let head = heads.get_mut(lane.position);
            match head.filter(|_| lane.is_found) {
                Some(head) if lane.is_flow() => head.flows += 1,
                Some(head) => head.lane = Some(at),
                None => {}
            }
            self.end_if_left(at);
        }
    }

    /// A queue that leads elsewhere now, or tells flows apart by other bits, is not found any more, and ends when it is
    /// empty.
    fn change_queue(&mut self, at: u32, old: &Config, new: &Config) {
        let Some(queue) = self.store.queues.get_mut(at).filter(|queue| queue.number != 0) else { return };
        let number = queue.number;
        let Some(config) = new.queue(number) else {
            self.empty_queue(at);
            return self.remove_queue(at);
        };
        queue.spec = config.spec;
        let is_same =
            old.queue(number).is_some_and(|old| (old.pipe, old.flows) == (config.pipe, config.flows));
        if !is_same {
            self.lose_queue(at);
        }
    }

    /// A lane gets another shape. If it told flows apart by other bits, it is not found any more, and ends when it is
    /// empty.
    fn change_lane(&mut self, at: u32, pipe: &Arc<Pipe>, members: &Members, now: Instant) {
        let flow = self.lanes.get(at).filter(|lane| lane.is_flow()).map(|lane| lane.hash);
        let clock = self.clock(pipe, flow);
        let Self { lanes, store, .. } = self;
        let Some(lane) = lanes.get_mut(at) else { return };
        lane.clock.change(now, clock);
        // At most one packet is being sent: the next one is taken when it is over.
        if let Some(sending) = lane.line.last_mut(&mut store.nodes).filter(|queued| queued.since > now) {
            sending.since = lane.clock.sent_at();
        }
        let old = core::mem::replace(&mut lane.pipe, Arc::clone(pipe));
        let own = lane.own;
        if let Some(queue) = store.queues.get_mut(own) {
            queue.spec = pipe.spec;
        }
        if old.flows != pipe.flows {
            self.lose_lane(at);
        }
        if old.turns != pipe.turns {
            self.change_turns(at, pipe, members);
        }
    }

    /// Queues stay as they are if both know them; else what waits goes to the pipe's own queue, in its order.
    fn change_turns(&mut self, at: u32, pipe: &Pipe, members: &Members) {
        let new = Turns::new(&pipe.turns);
        let knows_queues = |lane: &Lane<T>| lane.turns.tells_queues_apart() && new.tells_queues_apart();
        let stays = self.lanes.get(at).is_some_and(knows_queues);
        let waiting = if stays { Vec::new() } else { self.take_waiting(at, members) };
        let Self { lanes, store, .. } = self;
        let Some(lane) = lanes.get_mut(at) else { return };
        lane.turns = new;
        for queued in waiting {
            lane.turns.push(store, lane.own, queued, 0);
        }
    }

    /// Takes out all that waits for its turn in a lane, oldest first.
    fn take_waiting(&mut self, at: u32, members: &Members) -> Vec<Queued<T>> {
        let Self { lanes, store, .. } = self;
        let Some(lane) = lanes.get_mut(at) else { return Vec::new() };
        let mut waiting: Vec<Queued<T>> = core::iter::from_fn(|| lane.turns.take_any()).collect();
        for queue in members.of_lane(at) {
            let Some(queue) = store.queues.get_mut(queue) else { continue };
            waiting.extend(core::iter::from_fn(|| queue.list.pop(&mut store.nodes)));
        }
        waiting.sort_by_key(|queued| queued.since);
        waiting
    }

    /// Drops the packets of a queue.
    fn empty_queue(&mut self, at: u32) {
        let Self { store, .. } = self;
        let Some(queue) = store.queues.get_mut(at) else { return };
        let lane = queue.lane;
        while let Some(queued) = queue.list.pop(&mut store.nodes) {
            queue.count.drops += 1;
            store.dropped_list.push(queued.pkt, DropReason::PipeGone);
        }
        self.settle(lane);
    }

    /// Drops the packets of a lane, and ends it.
    fn end_lane(&mut self, at: u32, members: &Members) {
        let waiting = self.take_waiting(at, members);
        let Self { lanes, store, .. } = self;
        let Some(lane) = lanes.get_mut(at) else { return };
        let line = core::iter::from_fn(|| lane.line.pop(&mut store.nodes));
        for queued in lane.strays.drain().chain(line).chain(waiting) {
            store.dropped_list.pkts.push((queued.pkt, DropReason::PipeGone));
        }
        self.held -= core::mem::take(&mut lane.held);
        let own = lane.own;
        members.of_lane(at).filter(|queue| *queue != own).for_each(|queue| self.remove_queue(queue));
        self.remove_lane(at);
    }

    /// Ends a lane that is not found any more, if it is empty.
    pub(super) fn end_if_left(&mut self, at: u32) {
        let is_left = |lane: &Lane<T>| !lane.is_found && lane.is_empty(&self.store);
        if self.lanes.get(at).is_some_and(is_left) {
            self.remove_lane(at);
        }
    }

    /// Ends an empty lane, with its queues.
    pub(super) fn remove_lane(&mut self, at: u32) {
        self.lose_lane(at);
        if let Some(own) = self.lanes.get(at).map(|lane| lane.own) {
            self.keep_total(own);
        }
        let Some(mut lane) = self.lanes.remove(at) else { return };
        lane.clock.release();
        if lane.members == 1 {
            self.store.queues.remove(lane.own);
            return;
        }
        for number in self.store.queues.numbers() {
            if self.store.queues.get(number).is_some_and(|queue| queue.lane == at) {
                self.remove_queue(number);
            }
        }
    }

    /// Ends an empty queue.
    pub(super) fn remove_queue(&mut self, at: u32) {
        self.lose_queue(at);
        self.keep_total(at);
        let Some(queue) = self.store.queues.remove(at) else { return };
        if let Some(lane) = self.lanes.get_mut(queue.lane) {
            lane.members -= 1;
        }
    }

    /// A lane is not found any more.
    fn lose_lane(&mut self, at: u32) {
        let Some(lane) = self.lanes.get_mut(at) else { return };
        if core::mem::replace(&mut lane.is_found, false)
            && let Ok(entry) = self.lane_of.find_entry(lane.hash, |it| *it == at)
        {
            entry.remove();
            if let Some(head) = self.heads.get_mut(lane.position) {
                head.flows = head.flows.saturating_sub(1);
            }
        }
    }

    /// A queue is not found any more.
    fn lose_queue(&mut self, at: u32) {
        let Some(queue) = self.store.queues.get(at) else { return };
        if let Ok(entry) = self.queue_of.find_entry(queue.hash, |it| *it == at) {
            entry.remove();
        }
    }

    /// Takes all packets out.
    pub(in crate::firewall::pipe) fn drain(&mut self) -> Vec<Pkt> {
        let members = Members::of(&self.store.queues);
        for at in self.lanes.numbers() {
            self.end_lane(at, &members);
        }
        self.events.clear();
        self.heads.clear();
        self.store.dropped_list.pkts.drain(..).map(|(pkt, _)| pkt).collect()
    }
}
