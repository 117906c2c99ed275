//! Sleep of a netisr's thread: until a wake-up, a device, or a time.

use core::time::Duration;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use dev::Waiter;
use dev::sys::poll::{EventFd, PollFd, PollFlags, wait};
use net::tables::IfIndex;
use pkt::wake::Sleeper;
use tokio::sync::Notify;

use super::log;

/// The devices whose rings a netisr owns, as what its thread waits on. The lock is taken when the thread goes to
/// sleep, and when a device comes or goes.
pub(crate) type Waiters = Arc<Mutex<Vec<(RingName, Waiter)>>>;

/// A ring: its interface, and its number there.
pub(crate) type RingName = (IfIndex, u16);

/// The state of a netisr thread's sleep.
pub(crate) struct SleepState {
    pub(crate) sleeper: Sleeper,
    pub(crate) bell: Arc<EventFd>,
    pub(crate) waiters: Waiters,
    /// Told when a device is gone.
    pub(crate) lost: Arc<Notify>,
}

impl SleepState {
    /// Sleeps until a device, a message, or for so long (`None`: for ever), unless there `is_work` that came at the
    /// last moment. See [`pkt::wake`] for why nothing is missed; devices are looked at once more by the `ppoll` itself.
    pub(crate) fn sleep(&mut self, timeout: Option<Duration>, is_work: impl FnOnce() -> bool) {
        self.sleeper.prepare_sleep();
        if is_work() {
            self.sleeper.cancel();
        } else {
            self.wait(timeout);
            self.sleeper.woken();
        }
    }

    /// The bell is silenced when it is *heard*: a sender that was first may ring it long after the sleeper is up
    /// again, so whether one was first says nothing of the bell, and a bell that stays rung ends every later sleep.
    fn wait(&self, timeout: Option<Duration>) {
        let devices = self.devices();
        let mut fds = vec![PollFd::new(&self.bell, PollFlags::IN)];
        fds.extend(devices.iter().map(|(_, device)| PollFd::new(device, PollFlags::IN)));
        if let Err(why) = wait(&mut fds, timeout) {
            log::warning(&format!("a netisr cannot wait for its devices: {why}"));
        }
        if fds[0].revents().contains(PollFlags::IN)
            && let Err(why) = self.bell.clear()
        {
            log::warning(&format!("the netisr's wake-up: {why}"));
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
            log::debug(&format!("the device of interface {ifindex} is gone"));
        }
        self.lost.notify_one();
    }
}

fn is_broken(found: PollFlags) -> bool {
    found.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) && !found.contains(PollFlags::IN)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// The deadline is never that far away here.
    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    fn rest() -> SleepState {
        let bell = Arc::new(EventFd::new().unwrap());
        let rung = Arc::clone(&bell);
        let sleeper = Sleeper::new(Box::new(move || rung.notify().unwrap()));
        SleepState { sleeper, bell, waiters: Waiters::default(), lost: Arc::default() }
    }

    fn slept(rest: &mut SleepState, timeout: Duration) -> Duration {
        let begun = Instant::now();
        rest.sleep(Some(timeout), || false);
        begun.elapsed()
    }

    #[test]
    fn a_sender_ends_the_sleep() {
        let mut rest = rest();
        let waker = rest.sleeper.waker();
        std::thread::scope(|scope| {
            scope.spawn(move || while !waker.wake_if_sleeping() {});
            assert!(slept(&mut rest, LONG) < LONG);
        });
        assert!(slept(&mut rest, SHORT) >= SHORT);
    }

    #[test]
    fn a_bell_that_is_rung_late_cuts_one_sleep_short_and_no_more() {
        let mut rest = rest();
        let bell = Arc::clone(&rest.bell);
        let rings: [fn(&mut SleepState); 2] = [
            // The sleeper was up already, by its deadline or a device, when a sender that had been first rang.
            |rest| assert!(slept(rest, SHORT) >= SHORT),
            // Or it had not lain down.
            |rest| rest.sleep(None, || true),
        ];
        for up in rings {
            up(&mut rest);
            bell.notify().unwrap();
            assert!(slept(&mut rest, LONG) < LONG, "the bell keeps a ring");
            assert!(slept(&mut rest, SHORT) >= SHORT, "and does not ring for ever");
        }
    }
}
