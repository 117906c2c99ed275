//! All interleavings of one ring's two ends.
use std::sync::Arc as Counted;

use loom::thread;
use pkt::ring::{Consumer, Producer, ring};

#[test]
fn items_arrive_in_order_while_the_ring_wraps() {
    loom::model(|| {
        let (tx, mut rx) = ring(2);
        let producer = thread::spawn(move || push_and_publish_each(tx, 3));
        for expected in 0..3 {
            assert_eq!(pop(&mut rx), expected);
        }
        assert_eq!(rx.pop(), None);
        producer.join().unwrap();
    });
}

#[test]
fn a_batch_is_seen_whole_or_not_at_all() {
    loom::model(|| {
        let (mut tx, mut rx) = ring(2);
        let producer = thread::spawn(move || {
            (0..2).for_each(|item| tx.push(Box::new(item)).unwrap());
            tx.publish();
        });
        let mut taken = Vec::new();
        let count = rx.drain(4, |item| taken.push(*item));
        assert_eq!(taken, if count == 0 { vec![] } else { vec![0, 1] });
        producer.join().unwrap();
        assert_eq!(rx.drain(4, |item| taken.push(*item)), 2 - count);
        assert_eq!(taken, [0, 1]);
    });
}

#[test]
fn slots_given_back_by_a_drain_are_filled_again() {
    loom::model(|| {
        let (mut tx, mut rx) = ring(2);
        (0..2).for_each(|item| tx.push(item).unwrap());
        tx.publish();
        let producer = thread::spawn(move || {
            let refilled = (2..4).take_while(|&item| tx.push(item).is_ok()).count();
            assert!(refilled != 1, "slots of a batch come back together");
            tx.publish();
            refilled
        });
        let mut taken = Vec::new();
        assert_eq!(rx.drain(2, |item| taken.push(item)), 2);
        let refilled = producer.join().unwrap();
        assert_eq!(rx.drain(4, |item| taken.push(item)), refilled);
        assert_eq!(taken, [0, 1, 2, 3][..2 + refilled]);
    });
}

#[test]
fn an_abandoned_ring_that_is_found_empty_stays_empty() {
    loom::model(|| {
        let (mut tx, mut rx) = ring(2);
        let producer = thread::spawn(move || tx.push(7).unwrap());
        let mut taken = 0;
        while !rx.is_abandoned() {
            taken += rx.drain(2, |item| assert_eq!(item, 7));
            thread::yield_now();
        }
        taken += rx.drain(2, |item| assert_eq!(item, 7));
        assert_eq!(taken, 1);
        producer.join().unwrap();
    });
}

#[test]
fn whichever_end_leaves_last_items_are_dropped_once() {
    loom::model(|| {
        let item = Counted::new(());
        let (mut tx, mut rx) = ring(2);
        let pushed = item.clone();
        let producer = thread::spawn(move || {
            (0..2).for_each(|_| tx.push(pushed.clone()).unwrap());
        });
        drop(rx.pop());
        drop(rx);
        producer.join().unwrap();
        assert_eq!(Counted::strong_count(&item), 1);
    });
}

fn push_and_publish_each(mut tx: Producer<Box<u32>>, count: u32) {
    for item in 0..count {
        while tx.is_full() {
            thread::yield_now();
        }
        tx.push(Box::new(item)).unwrap();
        tx.publish();
    }
}

fn pop(rx: &mut Consumer<Box<u32>>) -> u32 {
    loop {
        match rx.pop() {
            Some(item) => return *item,
            None => thread::yield_now(),
        }
    }
}
