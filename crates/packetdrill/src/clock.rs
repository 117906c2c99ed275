//! Virtual time, and threads that wait in it.

use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use sim::drill::Outcome;

use crate::errno::Code;

/// Real time that a waiting thread allows another thread to ask for the time after its call was
/// done. packetdrill asks at once; other threads are not waited for any longer.
const ASKS_WITHIN: Duration = Duration::from_secs(1);
/// While no thread calls anything, time passes for waiting calls as real time does, in steps of
/// this length: packetdrill waits for a call to be done before it makes the next one that may wait, or ends.
const IDLE: Duration = Duration::from_millis(250);
/// Step of time for a thread that polls the clock. packetdrill sleeps until shortly before an event and then polls until its
/// time has come: its second thread does so before a call that may wait, while the first one waits for that thread.
const TICK: Duration = Duration::from_micros(1);

/// Something that goes on while time passes.
pub(crate) trait World {
    /// The time since the beginning.
    fn now(&self) -> Duration;
    /// Lets time pass until something happens, but not beyond `until`; answers whether that came first.
    fn step(&mut self, until: Duration) -> bool;
}

/// A world, and threads that wait for its events. Time passes while a thread sleeps or polls the clock, and while the thread
/// that made the world waits.
pub(crate) struct Clock<W> {
    inner: Mutex<Inner<W>>,
    turned: Condvar,
    first: ThreadId,
    patience: Duration,
}

struct Inner<W> {
    world: W,
    /// Counts the rounds in which waiting threads were woken.
    round: u64,
    /// Waiting threads.
    asleep: usize,
    /// Threads that have not looked again yet.
    to_look: usize,
    /// Times at which waiting threads look again though no event happens.
    alarms: Vec<Duration>,
    /// Counts what threads do.
    visits: u64,
    /// Threads that were served, and have not asked for the time since.
    served: Vec<ThreadId>,
}

impl<W: World> Inner<W> {
    /// The end of a step towards `until`.
    fn target(&self, until: Duration) -> Duration {
        let now = self.world.now();
        self.alarms.iter().copied().filter(|alarm| *alarm > now).fold(until, Duration::min)
    }
}

type Held<'a, W> = MutexGuard<'a, Inner<W>>;

impl<W: World> Clock<W> {
    /// At the beginning. A thread that waits gives up after `patience`.
    pub(crate) fn new(world: W, patience: Duration) -> Self {
        let inner = Inner {
            world,
            round: 0,
            asleep: 0,
            to_look: 0,
            alarms: Vec::new(),
            visits: 0,
            served: Vec::new(),
        };
        Self { inner: Mutex::new(inner), turned: Condvar::new(), first: thread::current().id(), patience }
    }

    fn hold(&self) -> Held<'_, W> {
        let mut held = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        held.visits += 1;
        held
    }

    /// Does something that need not wait. Threads that wait for its effect are served before this returns.
    pub(crate) fn with<R>(&self, what: impl FnOnce(&mut W) -> R) -> R {
        let mut held = self.hold();
        let done = what(&mut held.world);
        held = self.serve(held);
        drop(held);
        done
    }

    /// The time since the beginning. It advances with each call, except for a thread that asks when its call was done.
    pub(crate) fn time(&self) -> Duration {
        let mut held = self.hold();
        let me = thread::current().id();
        if let Some(at) = held.served.iter().position(|served| *served == me) {
            held.served.swap_remove(at);
            self.turned.notify_all();
            return held.world.now();
        }
        let until = held.world.now() + TICK;
        held = self.pass(held, until);
        held.world.now()
    }

    /// Lets time pass.
    pub(crate) fn sleep(&self, span: Duration) {
        let mut held = self.hold();
        let until = held.world.now() + span;
        held = self.pass(held, until);
        drop(held);
    }

    /// Waits until there is an answer, or `None` if that takes longer than patience allows.
    pub(crate) fn await_answer<R>(&self, mut ask: impl FnMut(&mut W) -> Option<R>) -> Option<R> {
        let mut held = self.hold();
        let until = held.world.now() + self.patience;
        loop {
            if let Some(answer) = ask(&mut held.world) {
                return Some(answer);
            }
            if held.world.now() >= until {
                return None;
            }
            held = self.step(held, until);
        }
    }

    /// Makes a call, again and again until it need not wait any more, at the latest at `alarm`, when it must not.
    pub(crate) fn wait<R>(
        &self,
        alarm: Option<Duration>,
        mut ask: impl FnMut(&mut W) -> Outcome<R>,
    ) -> Result<R, Code> {
        let me = thread::current().id();
        let mut held = self.hold();
        let give_up = held.world.now() + self.patience;
        if me != self.first {
            return self.doze(held, alarm, ask);
        }
        loop {
            if let Outcome::Done(result) = ask(&mut held.world) {
                drop(self.serve(held));
                return result.map_err(Code::from);
            }
            // No other thread lets time pass.
            if held.world.now() >= give_up {
                return Err(Code(libc::EINTR));
            }
            let until = alarm.map_or(give_up, |alarm| alarm.min(give_up));
            held = self.step(held, until);
        }
    }

    /// Sleeps between the times that it asks.
    fn doze<R>(
        &self,
        mut held: Held<'_, W>,
        alarm: Option<Duration>,
        mut ask: impl FnMut(&mut W) -> Outcome<R>,
    ) -> Result<R, Code> {
        if let Outcome::Done(result) = ask(&mut held.world) {
            return result.map_err(Code::from);
        }
        held.asleep += 1;
        held.alarms.extend(alarm);
        loop {
            let (round, visits) = (held.round, held.visits);
            let woken = self.turned.wait_timeout_while(held, IDLE, |inner| inner.round == round);
            held = woken.unwrap_or_else(PoisonError::into_inner).0;
            let is_asked = held.round != round;
            if !is_asked && held.visits == visits {
                let until = held.world.now() + IDLE;
                let target = held.target(until);
                held.world.step(target);
            }
            let outcome = ask(&mut held.world);
            held.to_look -= usize::from(is_asked);
            if let Outcome::Done(result) = outcome {
                held.asleep -= 1;
                if let Some(at) = held.alarms.iter().position(|known| Some(*known) == alarm) {
                    held.alarms.swap_remove(at);
                }
                held.served.push(thread::current().id());
                self.turned.notify_all();
                return result.map_err(Code::from);
            }
            self.turned.notify_all();
        }
    }

    fn pass<'a>(&'a self, mut held: Held<'a, W>, until: Duration) -> Held<'a, W> {
        loop {
            let target = held.target(until);
            let is_busy = held.world.step(target);
            held = self.serve(held);
            if !is_busy && target >= until {
                return held;
            }
        }
    }

    fn step<'a>(&'a self, mut held: Held<'a, W>, until: Duration) -> Held<'a, W> {
        let target = held.target(until);
        held.world.step(target);
        self.serve(held)
    }

    /// Wakes waiting threads, and waits until all have looked, and until those served know the time.
    fn serve<'a>(&'a self, mut held: Held<'a, W>) -> Held<'a, W> {
        // A thread does not wait for itself.
        if held.asleep == 0 || held.served.contains(&thread::current().id()) {
            return held;
        }
        held.round += 1;
        held.to_look = held.asleep;
        self.turned.notify_all();
        held =
            self.turned.wait_while(held, |inner| inner.to_look > 0).unwrap_or_else(PoisonError::into_inner);
        let asked = self.turned.wait_timeout_while(held, ASKS_WITHIN, |inner| !inner.served.is_empty());
        held = asked.unwrap_or_else(PoisonError::into_inner).0;
        held.served.clear();
        held
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sim::drill::Errno;

    use super::*;

    /// Something happens each second.
    struct Bell(Duration);

    impl World for Bell {
        fn now(&self) -> Duration {
            self.0
        }

        fn step(&mut self, until: Duration) -> bool {
            let next = Duration::from_secs(self.0.as_secs() + 1);
            self.0 = next.min(until);
            next <= until
        }
    }

    fn clock() -> Clock<Bell> {
        Clock::new(Bell(Duration::ZERO), Duration::from_secs(100))
    }

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn rings(at: Duration) -> impl FnMut(&mut Bell) -> Outcome<Duration> {
        move |bell| if bell.0 >= at { Outcome::Done(Ok(bell.0)) } else { Outcome::Waits }
    }

    #[test]
    fn time_passes_while_the_first_thread_sleeps_or_waits_and_a_bit_when_it_asks() {
        let clock = clock();
        assert_eq!(clock.time(), TICK);
        clock.sleep(secs(5));
        assert_eq!(clock.time(), secs(5) + 2 * TICK);
        assert_eq!(clock.wait(None, rings(secs(7))), Ok(secs(7)));
        assert_eq!(clock.wait(None, rings(secs(700))), Err(Code(libc::EINTR)));
        assert_eq!(clock.await_answer(|bell| (bell.0 >= secs(110)).then_some(())), Some(()));
        assert_eq!(clock.await_answer(|_| None::<()>), None);
        let errno = |_: &mut Bell| Outcome::<()>::Done(Err(Errno("EBADF")));
        assert_eq!(clock.wait(None, errno), Err(Code(libc::EBADF)));
    }

    #[test]
    fn time_passes_for_another_thread_that_asks_or_sleeps_while_the_first_one_waits_for_it() {
        let clock = Arc::new(clock());
        let other = Arc::clone(&clock);
        let asks = thread::spawn(move || {
            let times = [other.time(), other.time()];
            other.sleep(secs(50));
            (times, other.time())
        });
        assert_eq!(asks.join().unwrap(), ([TICK, 2 * TICK], secs(50) + 3 * TICK));
    }

    #[test]
    fn time_passes_for_a_waiting_thread_while_the_first_does_nothing() {
        let clock = Arc::new(clock());
        let other = Arc::clone(&clock);
        let waits = thread::spawn(move || (other.wait(None, rings(IDLE)), other.time()));
        let (done, when) = waits.join().unwrap();
        assert_eq!(done, Ok(when));
        assert!(when >= IDLE, "{when:?}");
    }

    #[test]
    fn a_blocked_thread_is_woken_at_the_time_of_its_event() {
        let clock = Arc::new(clock());
        let call = |alarm, at| {
            let clock = Arc::clone(&clock);
            thread::spawn(move || {
                let done = clock.wait(alarm, rings(at));
                (done, clock.time())
            })
        };
        let waits = [call(None, secs(3)), call(Some(secs(4) + TICK), secs(4) + TICK)];
        while clock.hold().asleep < 2 {
            thread::yield_now();
        }
        clock.sleep(secs(50));
        let [first, second] = waits.map(|wait| wait.join().unwrap());
        assert_eq!(first, (Ok(secs(3)), secs(3)));
        assert_eq!(second, (Ok(secs(4) + TICK), secs(4) + TICK));
        assert!(clock.time() > secs(50), "a thread that was kept waiting for a CPU has let some pass itself");
        assert!(clock.hold().alarms.is_empty());
    }
}
