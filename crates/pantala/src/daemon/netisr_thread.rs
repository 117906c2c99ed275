//! The thread of one netisr: it turns for ever, and sleeps when there is nothing to do.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;

use dev::sys::affinity;
use net::netisr::Netisr;
use net::time::Instant;
use pkt::counters::{CounterBlock, Index};

use super::clock::Clock;
use super::cpu_share::Share;
use super::idle::Idle;
use super::log;
use super::privileges::{self, Role};
use super::report::Reporter;
use super::sleep::SleepState;
use crate::config::Seccomp;

/// Counters of the thread besides its netisr's.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Busy {
    /// Nanoseconds spent in turns that found something to do.
    Ns,
    /// Nanoseconds left to other threads in between.
    LeftNs,
}

impl Index for Busy {
    const COUNT: usize = 2;

    fn index(self) -> usize {
        self as usize
    }
}

/// All that the thread needs.
pub(crate) struct NetisrThread {
    pub(crate) netisr: Netisr,
    /// The processor to stay on.
    pub(crate) pinned_to: Option<usize>,
    pub(crate) clock: Clock,
    pub(crate) rest: SleepState,
    pub(crate) idle: Idle,
    pub(crate) share: Share,
    pub(crate) busy: CounterBlock<Busy>,
    pub(crate) reporter: Reporter,
    /// Action on other system calls.
    pub(crate) seccomp: Seccomp,
    /// Set, and the bell rung, when the thread is to end.
    pub(crate) stop: Arc<AtomicBool>,
}

impl NetisrThread {
    /// Turns until it is stopped.
    pub(crate) fn run(mut self) {
        if let Some(processor) = self.pinned_to
            && let Err(why) = affinity::pin_to(processor)
        {
            log::warning(&format!("netisr not pinned: {why}"));
        }
        privileges::drop_all_and_confine(Role::Netisr, self.seccomp);
        let mut now = self.clock.now();
        while !self.stop.load(Ordering::Relaxed) {
            now = self.turn(now);
        }
    }

    /// One turn, and a rest if there was nothing to do; answers what time it is.
    fn turn(&mut self, now: Instant) -> Instant {
        let turn = self.netisr.turn(now);
        let after = self.clock.now();
        if turn.worked > 0 {
            let took = after.since(now);
            self.busy.add(Busy::Ns, nanos(took));
            self.netisr.feedback(took);
            self.idle.worked();
            self.reporter.worked();
            self.report(after);
            return self.leave_some(after);
        }
        self.report(after);
        let deadline = turn.deadline.min(self.reporter.deadline());
        if deadline > after && self.idle.may_sleep(after) {
            return self.sleep(after, deadline);
        }
        after
    }

    fn report(&mut self, now: Instant) {
        let Self { reporter, netisr, clock, .. } = self;
        reporter.report(netisr, now, || clock.now());
    }

    /// Leaves other threads their share, once that is long enough to be worth a sleep from which nothing wakes.
    fn leave_some(&mut self, now: Instant) -> Instant {
        let Some(pause) = self.share.due() else { return now };
        std::thread::sleep(pause);
        let after = self.clock.now();
        self.share.left(after.since(now));
        self.busy.add(Busy::LeftNs, nanos(after.since(now)));
        after
    }

    /// Sleeps until a device, a message or the deadline.
    fn sleep(&mut self, now: Instant, deadline: Instant) -> Instant {
        let timeout = (deadline != Instant::NEVER).then(|| deadline.since(now));
        let netisr = &mut self.netisr;
        self.rest.sleep(timeout, || !(netisr.inbox_is_empty() && netisr.may_sleep()));
        let after = self.clock.now();
        self.idle.slept(now, after);
        self.share.left(after.since(now));
        after
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
