//! Listings of a CPU's part of the pipes.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Members, Own};
use crate::firewall::pipe::lane::Lane;
use crate::firewall::pipe::queue::{Count, Queue};
use crate::firewall::pipe::show::{Listed, PipeState, QueueState, Total};

impl<T> Own<T> {
    /// All lanes, by number.
    pub(in crate::firewall::pipe) fn show(&self) -> Vec<PipeState> {
        let members = Members::of(&self.store.queues);
        let mut states: Vec<PipeState> =
            self.lanes.iter().map(|(at, lane)| self.state(lane, members.of_lane(at))).collect();
        states.sort_by_key(|state| (state.number, Reverse(state.key.is_overflow)));
        states
    }

    fn state(&self, lane: &Lane<T>, members: impl Iterator<Item = u32>) -> PipeState {
        let queues = members.filter_map(|at| self.store.queues.get(at));
        let mut queues: Vec<QueueState> = queues.map(|queue| queue_state(lane, queue)).collect();
        queues.sort_by_key(|queue| queue.number);
        PipeState {
            number: lane.pipe.number,
            key: lane.key,
            bandwidth: lane.pipe.bandwidth,
            flying: lane.in_flight(),
            queues,
        }
    }

    /// Queues in so many places from one on, and the next place.
    pub(in crate::firewall::pipe) fn page(&self, from: u32, places: u32) -> (Vec<Listed>, Option<u32>) {
        let end = self.store.queues.numbers().end;
        let to = end.min(from.saturating_add(places));
        let listed = (from..to).filter_map(|at| {
            let queue = self.store.queues.get(at)?;
            let lane = self.lanes.get(queue.lane)?;
            let flying = if queue.number == 0 { lane.in_flight() } else { 0 };
            let queue = queue_state(lane, queue);
            Some(Listed { pipe: lane.pipe.number, flow: lane.key, flying, queue })
        });
        (listed.collect(), (to < end).then_some(to))
    }

    /// Sums by number, of what there is and of what is gone.
    pub(in crate::firewall::pipe) fn totals(&self) -> Vec<Total> {
        let mut sums: BTreeMap<_, Total> = self.gone.clone();
        for (_, queue) in self.store.queues.iter() {
            let Some(lane) = self.lanes.get(queue.lane) else { continue };
            let QueueState { count, packets, bytes, .. } = queue_state(lane, queue);
            let sum = sum_of(&mut sums, lane.pipe.number, queue.number);
            sum.add(count);
            sum.packets += packets;
            sum.bytes += bytes;
            sum.flows += 1;
        }
        sums.into_values().collect()
    }

    /// Keeps what went through a queue that ends.
    pub(super) fn keep_total(&mut self, at: u32) {
        let Some(queue) = self.store.queues.get(at) else { return };
        // The pipe's own queue is kept before its lane is gone, and then not once more.
        let pipe =
            if queue.number == 0 { self.lanes.get(queue.lane).map(|lane| lane.pipe.number) } else { Some(0) };
        if let Some(pipe) = pipe {
            sum_of(&mut self.gone, pipe, queue.number).add(queue.count);
        }
    }
}

/// The sum that a queue's numbers belong to.
fn sum_of(sums: &mut BTreeMap<(u16, u16), Total>, pipe: u16, queue: u16) -> &mut Total {
    let pipe = if queue == 0 { pipe } else { 0 };
    sums.entry((pipe, queue)).or_insert_with(|| Total { queue, pipe, ..Total::default() })
}

impl Total {
    fn add(&mut self, more: Count) {
        let Count { packets, bytes, drops } = &mut self.count;
        *packets += more.packets;
        *bytes += more.bytes;
        *drops += more.drops;
    }
}

fn queue_state<T>(lane: &Lane<T>, queue: &Queue) -> QueueState {
    let flows = if queue.number == 0 { lane.turns.in_flows() } else { (0, 0) };
    QueueState {
        number: queue.number,
        key: queue.key,
        weight: queue.spec.weight,
        count: queue.count,
        packets: queue.list.len() + flows.0,
        bytes: queue.list.bytes() + flows.1,
    }
}
