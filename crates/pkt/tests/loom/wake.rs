//! The whole dance of sleep and wake-up, in all interleavings (many senders: up to a number of preemptions).
//! A lost wake-up shows as a deadlock.
use loom::{
    model::Builder,
    sync::{Arc, Condvar, Mutex},
    thread,
};
use pkt::{
    mpsc::port,
    ring::ring,
    wake::{Sleep, Sleeper},
};

#[test]
fn a_message_in_a_ring_never_finds_the_owner_asleep() {
    loom::model(|| {
        let bell = Bell::default();
        let mut sleeper = bell.sleeper();
        let waker = sleeper.waker();
        let (mut tx, mut rx) = ring(2);
        let sender = thread::spawn(move || {
            for item in 0..2 {
                tx.push(item).unwrap();
                tx.publish();
                waker.wake_if_sleeping();
            }
        });
        for item in 0..2 {
            sleep_until(&mut sleeper, &bell, || rx.is_empty());
            assert_eq!(rx.pop(), Some(item));
        }
        sender.join().unwrap();
        assert_eq!(sleeper.counters().get(Sleep::Rung), bell.rings());
    });
}

#[test]
fn one_of_two_senders_to_different_queues_rings() {
    bounded(3, || {
        let bell = Bell::default();
        let mut sleeper = bell.sleeper();
        let (mut tx, mut rx) = ring(2);
        let (port_tx, mut port_rx) = port(2);
        let (waker, port_waker) = (sleeper.waker(), sleeper.waker());
        let senders = [
            thread::spawn(move || {
                tx.push(1).unwrap();
                tx.publish();
                waker.wake_if_sleeping();
            }),
            thread::spawn(move || {
                port_tx.try_send(2).unwrap();
                port_waker.wake_if_sleeping();
            }),
        ];
        let mut sum = 0;
        while sum != 3 {
            sleep_until(&mut sleeper, &bell, || rx.is_empty() && port_rx.is_empty());
            sum += rx.pop().unwrap_or(0) + port_rx.pop().unwrap_or(0);
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!(sleeper.counters().get(Sleep::Rung), bell.rings());
    });
}

/// Two senders in one port: the first may stall in its push while the second finishes and rings.
#[test]
fn a_sender_stalled_in_a_port_does_not_cost_a_wake_up() {
    bounded(3, || {
        let bell = Bell::default();
        let mut sleeper = bell.sleeper();
        let (tx, mut rx) = port(2);
        let senders = [0, 1].map(|item| {
            let (tx, waker) = (tx.clone(), sleeper.waker());
            thread::spawn(move || {
                tx.try_send(item).unwrap();
                waker.wake_if_sleeping();
            })
        });
        for _ in 0..2 {
            sleep_until(&mut sleeper, &bell, || rx.is_empty());
            assert!(rx.pop().is_some());
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!(sleeper.counters().get(Sleep::Rung), bell.rings());
    });
}

/// The owner's part of the dance. Without a deadline: only a bell ends the wait.
fn sleep_until(sleeper: &mut Sleeper, bell: &Bell, nothing_waits: impl Fn() -> bool) {
    while nothing_waits() {
        sleeper.prepare_sleep();
        if !nothing_waits() {
            sleeper.cancel();
            return;
        }
        bell.wait();
        sleeper.woken();
    }
}

/// The shell's eventfd: it keeps a wake-up that comes before the wait.
#[derive(Clone, Default)]
struct Bell(Arc<(Mutex<Rings>, Condvar)>);

#[derive(Default)]
struct Rings {
    pending: bool,
    total: u64,
}

impl Bell {
    fn sleeper(&self) -> Sleeper {
        let bell = self.clone();
        Sleeper::new(Box::new(move || bell.ring()))
    }

    fn ring(&self) {
        let mut rings = self.0.0.lock().unwrap();
        rings.pending = true;
        rings.total += 1;
        drop(rings);
        self.0.1.notify_one();
    }

    fn wait(&self) {
        let mut rings = self.0.0.lock().unwrap();
        while !rings.pending {
            rings = self.0.1.wait(rings).unwrap();
        }
        rings.pending = false;
    }

    fn rings(&self) -> u64 {
        self.0.0.lock().unwrap().total
    }
}

fn bounded(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
