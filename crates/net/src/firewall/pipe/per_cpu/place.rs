//! Where a packet goes: which pipe, whose CPU, which lane, which queue.

use std::sync::Arc;

use pkt::Pkt;

use super::{Head, Own};
use crate::base::time::{Duration, Instant};
use crate::firewall::pipe::To;
use crate::firewall::pipe::clock::Clock;
use crate::firewall::pipe::config::{self, Config, Pipe};
use crate::firewall::pipe::key::Key;
use crate::firewall::pipe::lane::Lane;
use crate::firewall::pipe::queue::Queue;
use crate::firewall::pipe::shared_rate::WHOLE;
use crate::firewall::pkt_info::PktInfo;
use crate::turn::cpu::CpuId;

/// Lanes, and queues, that a CPU has at the most.
pub(in crate::firewall::pipe) const FLOWS_MAX: usize = 65_536;
// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Option<Lane<Pkt>>>() <= 304 && size_of::<Option<Queue>>() <= 304);
/// A flow that was idle for so long may be forgotten.
const IDLE: Duration = Duration::from_secs(1);
/// Lanes and queues that are looked at to forget them: for each new one, and when there is no room.
const LOOK: u32 = 4;
const LOOK_FULL: u32 = 64;

/// Where a packet goes.
pub(in crate::firewall::pipe) struct QueuePath<'a> {
    config: &'a Config,
    pipe: &'a Arc<Pipe>,
    /// The pipe's position in the configuration.
    position: usize,
    /// The queue; none if it goes to the pipe itself.
    queue: Option<&'a config::Queue>,
    /// Which of the pipe's flows, and of the queue's.
    key: Key,
    queue_key: Key,
    /// Hash of pipe and key, if it has flows.
    hash: u64,
}

impl<'a> QueuePath<'a> {
    /// The way to a pipe or queue; none if there is no such, or the queue leads nowhere.
    pub(in crate::firewall::pipe) fn find(
        config: &'a Config,
        to: To,
        info: &PktInfo,
        pkt: &Pkt,
    ) -> Option<Self> {
        let (number, queue) = match to {
            To::Pipe(number) => (number, None),
            To::Queue(number) => {
                let queue = config.queue(number)?;
                (queue.pipe, Some(&**queue))
            }
        };
        let position = config.pipe_position(number)?;
        let pipe = config.pipe_at(position)?;
        let key_of = |flows: &config::Flows| {
            if flows.is_one { Key::default() } else { Key::of(&flows.mask, info, pkt) }
        };
        let key = key_of(&pipe.flows);
        let queue_key = queue.map_or_else(Key::default, |queue| key_of(&queue.flows));
        let hash = if pipe.flows.is_one { 0 } else { config.hash((0, number), &key) };
        Some(Self { config, pipe, position, queue, key, queue_key, hash })
    }

    /// A number that the packets of a flow have in common, whatever the masks say.
    pub(in crate::firewall::pipe) fn flow(&self, info: &PktInfo) -> u64 {
        let PktInfo { src, dst, proto, src_port, dst_port, .. } = *info;
        self.config.hash((0, 0), &Key { src, dst, proto, src_port, dst_port, ..Key::default() })
    }
}

impl<T> Own<T> {
    /// The CPU that the pipe is on, if that is another one.
    pub(in crate::firewall::pipe) fn elsewhere(&self, path: &QueuePath<'_>) -> Option<CpuId> {
        if !path.pipe.is_exact || self.cpus == 1 {
            return None;
        }
        let number = if path.pipe.flows.is_one { u64::from(path.pipe.number) } else { path.hash };
        let owner = CpuId(u16::try_from(number % u64::from(self.cpus)).unwrap_or(0));
        (owner != self.id).then_some(owner)
    }

    /// The lane and queue of a packet; they are made if they are not there.
    pub(in crate::firewall::pipe) fn place(&mut self, path: &QueuePath<'_>, now: Instant) -> (u32, u32) {
        let at = self.lane(path, now);
        let Some(lane) = self.lanes.get(at) else { return (at, u32::MAX) };
        match path.queue {
            Some(queue) if lane.turns.tells_queues_apart() => (at, self.queue(at, path, queue, now)),
            _ => (at, lane.own),
        }
    }

    fn lane(&mut self, path: &QueuePath<'_>, now: Instant) -> u32 {
        let head = self.heads.get(path.position).copied().unwrap_or_default();
        if !path.pipe.flows.is_one {
            let is_it = |at: &u32| {
                let lane = self.lanes.get(*at);
                lane.is_some_and(|lane| lane.pipe.number == path.pipe.number && lane.key == path.key)
            };
            if let Some(at) = self.lane_of.find(path.hash, is_it) {
                return *at;
            }
            if self.has_room_for_lane(path, now) {
                return self.new_lane(path, path.key, now);
            }
        }
        let key = if path.pipe.flows.is_one { Key::default() } else { Key::OVERFLOW };
        head.lane.unwrap_or_else(|| self.new_lane(path, key, now))
    }

    #[cold]
    fn has_room_for_lane(&mut self, path: &QueuePath<'_>, now: Instant) -> bool {
        for look in [LOOK, LOOK_FULL] {
            self.forget_lanes(now, look);
            let flows = self.heads.get(path.position).map_or(0, |head| head.flows);
            if flows < path.pipe.flows.max && self.lanes.len() < FLOWS_MAX {
                return true;
            }
        }
        false
    }

    #[cold]
    fn new_lane(&mut self, path: &QueuePath<'_>, key: Key, now: Instant) -> u32 {
        let is_flow = !path.pipe.flows.is_one && !key.is_overflow;
        let own = self.store.queues.insert(Queue::new(u32::MAX, 0, key, 0, path.pipe.spec, now));
        let clock = self.clock(path.pipe, is_flow.then_some(path.hash));
        let at =
            self.lanes.insert(Lane::new(Arc::clone(path.pipe), path.position, key, path.hash, own, clock));
        if let Some(queue) = self.store.queues.get_mut(own) {
            queue.lane = at;
        }
        self.heads.resize(self.heads.len().max(path.position + 1), Head::default());
        let head = &mut self.heads[path.position];
        if is_flow {
            head.flows += 1;
            let lanes = &self.lanes;
            let hash_of = |at: &u32| lanes.get(*at).map_or(0, |lane| lane.hash);
            self.lane_of.insert_unique(path.hash, at, hash_of);
        } else {
            head.lane = Some(at);
        }
        at
    }

    /// The clock of a lane: of the flow with this hash, or of the pipe as a whole.
    pub(super) fn clock(&self, pipe: &Arc<Pipe>, flow: Option<u64>) -> Clock {
        let is_shared = self.cpus > 1 && !pipe.is_exact && pipe.bandwidth > 0;
        let shared = is_shared.then(|| {
            let slot = flow.map_or(WHOLE, |hash| pipe.accounts.claim(hash));
            (Arc::clone(&pipe.accounts), slot)
        });
        Clock::new(pipe.bandwidth, pipe.burst, shared)
    }

    fn queue(&mut self, lane: u32, path: &QueuePath<'_>, queue: &config::Queue, now: Instant) -> u32 {
        let key = path.queue_key;
        if let Some(at) = self.find_queue(lane, path, queue.number, key) {
            return at;
        }
        if key == Key::default() || self.has_room_for_queue(lane, queue, now) {
            return self.new_queue(lane, path, queue, key, now);
        }
        let there = self.find_queue(lane, path, queue.number, Key::OVERFLOW);
        there.unwrap_or_else(|| self.new_queue(lane, path, queue, Key::OVERFLOW, now))
    }

    fn find_queue(&self, lane: u32, path: &QueuePath<'_>, number: u16, key: Key) -> Option<u32> {
        let is_it = |at: &u32| {
            let queue = self.store.queues.get(*at);
            queue.is_some_and(|queue| queue.lane == lane && queue.number == number && queue.key == key)
        };
        self.queue_of.find(path.config.hash((lane, number), &key), is_it).copied()
    }

    #[cold]
    fn has_room_for_queue(&mut self, lane: u32, queue: &config::Queue, now: Instant) -> bool {
        for look in [LOOK, LOOK_FULL] {
            self.forget_queues(now, look);
            let members = self.lanes.get(lane).map_or(0, |lane| lane.members);
            if members <= queue.flows.max && self.store.queues.len() < 2 * FLOWS_MAX {
                return true;
            }
        }
        false
    }

    #[cold]
    fn new_queue(
        &mut self,
        lane: u32,
        path: &QueuePath<'_>,
        queue: &config::Queue,
        key: Key,
        now: Instant,
    ) -> u32 {
        let hash = path.config.hash((lane, queue.number), &key);
        let at = self.store.queues.insert(Queue::new(lane, queue.number, key, hash, queue.spec, now));
        let queues = &self.store.queues;
        self.queue_of.insert_unique(hash, at, |at| queues.get(*at).map_or(0, |queue| queue.hash));
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.members += 1;
        }
        at
    }

    /// Forgets some of those queues of flows that are idle.
    fn forget_queues(&mut self, now: Instant, look: u32) {
        for _ in 0..look {
            let at = turn(&mut self.hand.1, self.store.queues.numbers().end);
            let Some(queue) = self.store.queues.get(at) else { continue };
            let is_in_flow = || self.lanes.get(queue.lane).is_some_and(Lane::is_flow);
            let is_flow = queue.number != 0 && (queue.key != Key::default() || is_in_flow());
            let is_idle = queue.list.is_empty() && !queue.turn.is_lingering && now.since(queue.used) >= IDLE;
            if is_flow && is_idle {
                self.remove_queue(at);
            }
        }
    }

    /// Forgets some of those lanes of flows that are idle, and whose queues are forgotten.
    fn forget_lanes(&mut self, now: Instant, look: u32) {
        self.forget_queues(now, look);
        for _ in 0..look {
            let at = turn(&mut self.hand.0, self.lanes.numbers().end);
            let Some(lane) = self.lanes.get(at) else { continue };
            let used = self.store.queues.get(lane.own).map_or(Instant::START, |queue| queue.used);
            let is_idle = now.since(used.max(lane.clock.free_at())) >= IDLE && lane.is_empty(&self.store);
            if lane.is_flow() && lane.members == 1 && is_idle {
                self.remove_lane(at);
            }
        }
    }
}

/// The number under a hand that goes round `end` numbers.
const fn turn(hand: &mut u32, end: u32) -> u32 {
    let at = if *hand < end { *hand } else { 0 };
    *hand = at + 1;
    at
}
