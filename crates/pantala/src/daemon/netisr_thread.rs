//! The thread of one netisr: it turns for ever, and sleeps when there is nothing to do.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use dev::Waiter;
use dev::sys::affinity;
use dev::sys::poll::{EventFd, PollFd, PollFlags, wait};
use net::netisr::Netisr;
use net::tables::IfIndex;
use net::time::Instant;
use pkt::counters::{CounterBlock, Index};
use pkt::wake::Sleeper;

use super::clock::Clock;
use super::idle::Idle;
use super::share::Share;
use super::{log, privileges};

/// The devices whose rings a netisr owns, as what its thread waits on. The lock is taken when the thread goes to
/// sleep, and when a device comes or goes.
pub(crate) type Waiters = Arc<Mutex<Vec<(RingName, Waiter)>>>;

/// A ring: its interface, and its number there.
pub(crate) type RingName = (IfIndex, u16);

/// What the thread counts besides its netisr.
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
    /// The processor to run on.
    pub(crate) processor: usize,
    pub(crate) clock: Clock,
    pub(crate) sleeper: Sleeper,
    pub(crate) bell: Arc<EventFd>,
    pub(crate) waiters: Waiters,
    pub(crate) idle: Idle,
    pub(crate) share: Share,
    pub(crate) busy: CounterBlock<Busy>,
    /// Set, and the bell rung, when the thread is to end.
    pub(crate) stop: Arc<AtomicBool>,
}

impl NetisrThread {
    /// Turns until it is stopped.
    pub(crate) fn run(mut self) {
        if let Err(why) = affinity::pin_to(self.processor) {
            log::warning(&format!("netisr not pinned: {why}"));
        }
        privileges::drop_all();
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
            return self.leave_some(after);
        }
        if turn.deadline > after && self.idle.may_sleep(after) {
            return self.sleep(after, turn.deadline);
        }
        after
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

    /// Sleeps until a device, a message or the deadline. See [`pkt::wake`] for why nothing is missed; devices are
    /// looked at once more by the `ppoll` itself.
    fn sleep(&mut self, now: Instant, deadline: Instant) -> Instant {
        self.sleeper.prepare_sleep();
        let rung = if self.netisr.inbox_is_empty() && self.netisr.may_sleep() {
            self.wait(now, deadline);
            self.sleeper.woken()
        } else {
            self.sleeper.cancel()
        };
        if rung && let Err(why) = self.bell.clear() {
            log::warning(&format!("the netisr's bell: {why}"));
        }
        let after = self.clock.now();
        self.idle.slept(now, after);
        self.share.left(after.since(now));
        after
    }

    fn wait(&self, now: Instant, deadline: Instant) {
        let devices = self.devices();
        let mut fds = vec![PollFd::new(&self.bell, PollFlags::IN)];
        fds.extend(devices.iter().map(|(_, device)| PollFd::new(device, PollFlags::IN)));
        let timeout = (deadline != Instant::NEVER).then(|| deadline.since(now));
        if let Err(why) = wait(&mut fds, timeout) {
            log::warning(&format!("a netisr cannot sleep: {why}"));
        }
        let broken = devices.iter().zip(&fds[1..]).filter(|(_, fd)| is_broken(fd.revents()));
        let broken: Vec<usize> = broken.map(|((at, _), _)| *at).collect();
        if !broken.is_empty() {
            self.stop_waiting_for(&broken);
        }
    }

    /// The devices that are open, by their place among the waiters. To be held while waiting and no longer: a ring
    /// relies on being the only one that holds its device.
    fn devices(&self) -> Vec<(usize, Arc<dyn AsFd + Send + Sync>)> {
        let waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        let open = |(at, (_, waiter)): (usize, &(RingName, Waiter))| Some((at, waiter.descriptor()?));
        waiters.iter().enumerate().filter_map(open).collect()
    }

    /// A device that was taken away is ready for ever: to wait for it would be not to wait. (Only this thread
    /// changes the list, so places are still what they were.)
    fn stop_waiting_for(&self, broken: &[usize]) {
        for at in broken.iter().rev() {
            let ((ifindex, _), _) = self.waiters.lock().unwrap_or_else(PoisonError::into_inner).remove(*at);
            log::warning(&format!("the device of interface {ifindex} is gone"));
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn is_broken(found: PollFlags) -> bool {
    found.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) && !found.contains(PollFlags::IN)
}
