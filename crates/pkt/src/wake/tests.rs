use core::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, AtomicUsize},
    time::Duration,
};
use std::{
    sync::{Condvar, Mutex},
    thread,
};

use super::*;
use crate::{mpsc, ring};

/// Counts how often it was rung; a sticky bell that can be waited on, like an eventfd.
#[derive(Clone, Default)]
struct CountingBell(Arc<(Mutex<usize>, Condvar, AtomicUsize)>);

impl CountingBell {
    fn sleeper(&self) -> Sleeper {
        let bell = self.clone();
        Sleeper::new(Box::new(move || bell.ring()))
    }

    fn ring(&self) {
        let (pending, changed, rings) = &*self.0;
        rings.fetch_add(1, Ordering::Relaxed);
        *pending.lock().unwrap() += 1;
        changed.notify_one();
    }

    fn rings(&self) -> usize {
        self.0.2.load(Ordering::Relaxed)
    }

    /// Waits until it has been rung since the last wait. The time is a watchdog's, far above any real wait.
    fn wait(&self) {
        let (pending, changed, _) = &*self.0;
        let (rung, waited) = changed
            .wait_timeout_while(pending.lock().unwrap(), Duration::from_secs(30), |pending| {
                core::mem::take(pending) == 0
            })
            .unwrap();
        drop(rung);
        assert!(!waited.timed_out(), "a wake-up was lost");
    }
}

#[test]
fn a_running_cpu_is_not_rung() {
    let bell = CountingBell::default();
    let sleeper = bell.sleeper();
    assert!(!sleeper.waker().wake_if_sleeping());
    assert_eq!((bell.rings(), sleeper.counters().get(Sleep::Rung)), (0, 0));
}

#[test]
fn a_sleeping_cpu_is_rung_once_however_many_senders_publish() {
    let bell = CountingBell::default();
    let mut sleeper = bell.sleeper();
    let (one, two) = (sleeper.waker(), sleeper.waker());
    sleeper.prepare_sleep();
    assert_eq!(
        (one.wake_if_sleeping(), two.wake_if_sleeping(), one.wake_if_sleeping()),
        (true, false, false)
    );
    assert!(sleeper.woken());
    assert!(!two.wake_if_sleeping());
    assert_eq!(bell.rings(), 1);
}

#[test]
fn a_cpu_that_cancels_its_sleep_is_not_rung() {
    let bell = CountingBell::default();
    let mut sleeper = bell.sleeper();
    sleeper.prepare_sleep();
    assert!(!sleeper.cancel());
    assert!(!sleeper.waker().wake_if_sleeping());
    assert_eq!(bell.rings(), 0);
}

#[test]
fn sleeps_cancellations_and_rings_are_counted() {
    let mut sleeper = CountingBell::default().sleeper();
    let (waker, counters) = (sleeper.waker(), sleeper.counters());
    for rung in [true, false, true] {
        sleeper.prepare_sleep();
        assert_eq!(rung && waker.wake_if_sleeping(), rung);
        assert_eq!(sleeper.woken(), rung, "a deadline is no ring");
    }
    sleeper.prepare_sleep();
    waker.wake_if_sleeping();
    assert!(sleeper.cancel(), "the ring that came too late is reported");
    assert_eq!([Sleep::Slept, Sleep::Cancelled, Sleep::Rung].map(|name| counters.get(name)), [3, 1, 3]);
}

/// After each message the sender waits for the answer, so no later wake-up can hide that one was lost.
#[test]
fn no_wake_up_is_lost_in_a_hundred_thousand_rounds() {
    let rounds: u64 = if cfg!(miri) { 30 } else { 100_000 };
    let bell = CountingBell::default();
    let mut sleeper = bell.sleeper();
    let waker = sleeper.waker();
    let counters = sleeper.counters();
    let (mut tx, mut rx) = ring::ring(4);
    let answered = Arc::new(AtomicU64::new(0));
    let answer = answered.clone();

    let owner = thread::spawn(move || {
        for round in 1..=rounds {
            assert_eq!(next_message(|| rx.pop(), &mut sleeper, &bell), round);
            answer.store(round, Ordering::Release);
        }
        bell.rings()
    });
    for round in 1..=rounds {
        tx.push(round).unwrap();
        tx.publish();
        waker.wake_if_sleeping();
        while answered.load(Ordering::Acquire) < round && !owner.is_finished() {
            thread::yield_now();
        }
        // Arrive at all distances from the moment when the owner goes to sleep.
        (0..round % 211).for_each(|_| spin_loop());
    }
    let rings = owner.join().unwrap();
    assert_eq!(counters.get(Sleep::Rung), rings as u64);
    assert!(counters.get(Sleep::Rung) <= counters.get(Sleep::Slept) + counters.get(Sleep::Cancelled));
}

#[test]
fn no_wake_up_is_lost_between_many_senders_and_a_port() {
    const SENDERS: u64 = 3;
    let each: u64 = if cfg!(miri) { 20 } else { 30_000 };
    let bell = CountingBell::default();
    let mut sleeper = bell.sleeper();
    let (tx, mut rx) = mpsc::port(2);
    let senders: Vec<_> = (0..SENDERS)
        .map(|_| {
            let (tx, waker) = (tx.clone(), sleeper.waker());
            thread::spawn(move || {
                for _ in 0..each {
                    while tx.try_send(()).is_err() {
                        thread::yield_now();
                    }
                    waker.wake_if_sleeping();
                }
            })
        })
        .collect();
    (0..SENDERS * each).for_each(|_| next_message(|| rx.pop(), &mut sleeper, &bell));
    senders.into_iter().for_each(|sender| sender.join().unwrap());
}

/// The owner's part of the dance; taking a message is the look once more.
fn next_message<T>(mut pop: impl FnMut() -> Option<T>, sleeper: &mut Sleeper, bell: &CountingBell) -> T {
    loop {
        if let Some(message) = pop() {
            return message;
        }
        sleeper.prepare_sleep();
        if let Some(message) = pop() {
            sleeper.cancel();
            return message;
        }
        bell.wait();
        sleeper.woken();
    }
}
