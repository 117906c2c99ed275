//! All interleavings (two senders: up to a number of preemptions) of a port.

use std::sync::Arc as Counted;

use loom::{model::Builder, thread};
use pkt::mpsc::{Full, Receiver, Sender, port};

#[test]
fn one_sender_and_the_receiver_share_slots_that_wrap() {
    loom::model(|| {
        let (tx, mut rx) = port(2);
        let sender = thread::spawn(move || (0..3).for_each(|n| send(&tx, (0, n))));
        (0..3).for_each(|n| assert_eq!(receive(&mut rx), (0, n)));
        assert!(rx.pop().is_none());
        sender.join().unwrap();
    });
}

#[test]
fn two_senders_lose_nothing_and_keep_their_order() {
    bounded(3, || {
        let (tx, mut rx) = port(4);
        let senders = [0, 1].map(|sender| {
            let tx = tx.clone();
            thread::spawn(move || (0..2).for_each(|n| tx.try_send(Box::new((sender, n))).unwrap()))
        });
        let mut next = [0, 0];
        for _ in 0..4 {
            let (sender, n) = receive(&mut rx);
            assert_eq!(n, next[sender]);
            next[sender] += 1;
        }
        assert_eq!(next, [2, 2]);
        assert!(rx.pop().is_none());
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn two_senders_that_meet_a_full_port_get_their_messages_back() {
    bounded(3, || {
        let (tx, mut rx) = port(2);
        tx.try_send(Box::new((9, 9))).unwrap();
        let senders = [0, 1].map(|sender| {
            let tx = tx.clone();
            thread::spawn(move || match tx.try_send(Box::new((sender, 0))) {
                Ok(()) => 1,
                Err(Full(message)) => {
                    assert_eq!(*message, (sender, 0));
                    0
                }
            })
        });
        let mut received = usize::from(rx.pop().is_some());
        let sent: usize = 1 + senders.into_iter().map(|sender| sender.join().unwrap()).sum::<usize>();
        while rx.pop().is_some() {
            received += 1;
        }
        assert!(sent >= 2, "one of the two finds the free slot");
        assert_eq!(received, sent);
    });
}

#[test]
fn when_the_receiver_leaves_messages_are_dropped_once() {
    bounded(3, || {
        let message = Counted::new(());
        let (tx, mut rx) = port(2);
        let senders = [tx.clone(), tx].map(|tx| {
            let message = message.clone();
            thread::spawn(move || drop(tx.try_send(message)))
        });
        drop(rx.pop());
        drop(rx);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!(Counted::strong_count(&message), 1);
    });
}

fn bounded(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

type Message = Box<(usize, usize)>;

fn send(tx: &Sender<Message>, message: (usize, usize)) {
    let mut message = Box::new(message);
    while let Err(Full(back)) = tx.try_send(message) {
        message = back;
        thread::yield_now();
    }
}

fn receive(rx: &mut Receiver<Message>) -> (usize, usize) {
    loop {
        match rx.pop() {
            Some(message) => return *message,
            None => thread::yield_now(),
        }
    }
}
