//! A CPU as the world schedules it: what a thread does in the shell.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use net::netisr::{Netisr, Shared, Turn};
use net::time::{Duration, Instant};
use pkt::wake::Sleeper;

use crate::mem::Wakeup;

/// A CPU.
pub struct SimCpu {
    /// Its part of the stack.
    pub netisr: Netisr,
    /// Its shared part.
    pub shared: Shared,
    /// Makes it turn.
    pub bell: Wakeup,
    /// Duration of its turns.
    pub cost: Cost,
    /// Packets, messages and timers of the turn that had most of them.
    pub busiest: usize,
    /// Turns so far.
    pub turns: u64,
    sleeper: Sleeper,
    /// Busy until then.
    ready_at: Instant,
    /// Asleep, until then at the latest.
    asleep: Option<Instant>,
}

/// The duration of a turn in virtual time.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Fixed part of any turn.
    pub turn: Duration,
    /// More for each packet, message and timer.
    pub item: Duration,
}

impl Default for Cost {
    fn default() -> Self {
        Self { turn: Duration::from_nanos(200), item: Duration::from_nanos(100) }
    }
}

/// Makes the sleepers and wakers of the CPUs.
pub(super) fn sleepers(cpus: u16) -> Vec<(Sleeper, Wakeup)> {
    let sleeper = |_| {
        let bell = Wakeup::default();
        let rung: Arc<AtomicBool> = Arc::clone(&bell);
        (Sleeper::new(Box::new(move || rung.store(true, Ordering::Relaxed))), bell)
    };
    (0..cpus).map(sleeper).collect()
}

impl SimCpu {
    pub(super) fn new(netisr: Netisr, shared: Shared, sleeper: Sleeper, bell: Wakeup) -> Self {
        let (cost, ready_at) = (Cost::default(), Instant::START);
        Self { netisr, shared, bell, cost, busiest: 0, turns: 0, sleeper, ready_at, asleep: None }
    }

    /// When it turns next: at once if it is awake or the bell rang, else when it wanted to be woken.
    #[must_use]
    pub fn next_turn(&self) -> Instant {
        let wanted = if self.bell.load(Ordering::Relaxed) { Instant::START } else { self.wakes_at() };
        self.ready_at.max(wanted)
    }

    /// Keeps it from turning before `at`: another task has the processor.
    pub fn stall_until(&mut self, at: Instant) {
        self.ready_at = self.ready_at.max(at);
    }

    /// Whether it sleeps.
    #[must_use]
    pub const fn is_asleep(&self) -> bool {
        self.asleep.is_some()
    }

    /// Turns once, and then sleeps if there was nothing to do.
    pub fn turn(&mut self, now: Instant) -> Turn {
        if self.asleep.take().is_some() {
            self.sleeper.woken();
        }
        self.bell.store(false, Ordering::Relaxed);
        let turn = self.netisr.turn(now);
        self.busiest = self.busiest.max(turn.worked);
        self.turns += 1;
        let worked = u32::try_from(turn.worked).unwrap_or(u32::MAX);
        let took = self.cost.turn + self.cost.item * worked;
        self.ready_at = now + took;
        self.netisr.feedback(took);
        if turn.worked == 0 {
            self.sleep(turn.deadline);
        }
        turn
    }

    fn wakes_at(&self) -> Instant {
        self.asleep.unwrap_or(Instant::START)
    }

    /// Looks once more, and sleeps: the dance that the threads of the shell do.
    fn sleep(&mut self, deadline: Instant) {
        self.sleeper.prepare_sleep();
        if self.netisr.inbox_is_empty() {
            self.asleep = Some(deadline);
        } else {
            self.sleeper.cancel();
        }
    }
}
