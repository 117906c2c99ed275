use core::panic::AssertUnwindSafe;
use std::{collections::VecDeque, panic::catch_unwind, thread};

use proptest::prelude::*;

use super::*;

fn filled(capacity: usize, items: core::ops::Range<u64>) -> (Producer<u64>, Consumer<u64>) {
    let (mut tx, rx) = ring(capacity);
    items.for_each(|item| tx.push(item).unwrap());
    tx.publish();
    (tx, rx)
}

#[test]
fn what_is_staged_is_not_seen_before_it_is_published() {
    let (mut tx, mut rx) = ring(4);
    tx.push(1).unwrap();
    assert_eq!((tx.staged(), rx.len(), rx.is_empty(), rx.pop()), (1, 0, true, None));
    assert_eq!((tx.publish(), tx.staged(), tx.publish()), (1, 0, 0));
    assert_eq!((rx.len(), rx.is_empty(), rx.pop()), (1, false, Some(1)));
}

#[test]
fn a_full_ring_gives_the_item_back_until_the_consumer_has_taken_one() {
    let (mut tx, mut rx) = filled(4, 0..4);
    assert!(tx.is_full());
    assert_eq!((tx.push(4), tx.free()), (Err(4), 0));
    assert_eq!(rx.pop(), Some(0));
    assert_eq!((tx.push(4), tx.free()), (Ok(()), 0));
}

#[test]
fn the_capacity_is_the_next_power_of_two_and_all_of_it_can_be_used() {
    for (asked, got) in [(0, 1), (1, 1), (2, 2), (3, 4), (500, 512)] {
        let (mut tx, rx) = ring(asked);
        assert_eq!((tx.capacity(), rx.capacity(), tx.free()), (got, got, got));
        assert_eq!((0..).take_while(|&item| tx.push(item).is_ok()).count(), got);
    }
}

#[test]
fn drain_takes_at_most_max_and_gives_the_slots_back_together() {
    let (mut tx, mut rx) = filled(4, 0..4);
    let mut free_while_draining = Vec::new();
    let taken = rx.drain(3, |item| free_while_draining.push((item, tx.free())));
    assert_eq!((taken, free_while_draining), (3, vec![(0, 0), (1, 0), (2, 0)]));
    assert_eq!((tx.free(), rx.drain(9, |item| assert_eq!(item, 3)), rx.drain(9, |_| ())), (3, 1, 0));
}

#[test]
fn a_panic_in_drain_loses_only_the_items_it_has_seen() {
    let (mut tx, mut rx) = filled(4, 0..4);
    let eats_one = AssertUnwindSafe(|| rx.drain(4, |item| assert_eq!(item, 0)));
    assert!(catch_unwind(eats_one).is_err());
    assert_eq!((tx.free(), rx.pop(), rx.pop(), rx.pop()), (2, Some(2), Some(3), None));
}

#[test]
fn items_left_in_the_ring_are_dropped_once() {
    let item = Arc::new(());
    let (mut tx, mut rx) = ring(8);
    (0..6).for_each(|_| tx.push(item.clone()).unwrap());
    tx.publish();
    (0..2).for_each(|_| drop(rx.pop()));
    tx.push(item.clone()).unwrap();
    assert_eq!(Arc::strong_count(&item), 1 + 5);
    drop((tx, rx));
    assert_eq!(Arc::strong_count(&item), 1);
}

#[test]
fn a_producer_that_leaves_publishes_what_it_has_staged() {
    let (mut tx, mut rx) = ring(4);
    tx.push(7).unwrap();
    assert!(!rx.is_abandoned());
    drop(tx);
    assert!(rx.is_abandoned());
    assert_eq!((rx.pop(), rx.pop()), (Some(7), None));
}

#[test]
fn a_producer_sees_that_the_consumer_has_left() {
    let (tx, rx) = ring::<u64>(4);
    assert!(!tx.is_abandoned());
    drop(rx);
    assert!(tx.is_abandoned());
}

#[test]
fn indices_may_wrap_around_the_number_space() {
    let (mut tx, mut rx) = ring(4);
    let near_the_end = usize::MAX - 1;
    (tx.tail, tx.published, tx.head_seen) = (near_the_end, near_the_end, near_the_end);
    (rx.head, rx.tail_seen) = (near_the_end, near_the_end);
    tx.shared.producer.index.store(near_the_end, Ordering::Relaxed);
    tx.shared.consumer.index.store(near_the_end, Ordering::Relaxed);
    for round in 0..3 {
        (0..4).for_each(|item| tx.push(Box::new(round + item)).unwrap());
        assert!(tx.push(Box::new(99)).is_err());
        assert_eq!((tx.publish(), rx.len()), (4, 4));
        let mut expected = round..;
        assert_eq!(rx.drain(4, |item| assert_eq!(Some(*item), expected.next())), 4);
    }
}

#[test]
fn a_million_items_cross_threads_in_order() {
    let count: u64 = if cfg!(miri) { 500 } else { 1_000_000 };
    let (mut tx, mut rx) = ring(64);
    let producer = thread::spawn(move || {
        for item in 0..count {
            let mut message = big(item);
            while let Err(back) = tx.push(message) {
                message = back;
                tx.publish();
                thread::yield_now();
            }
            if item % 13 == 0 {
                tx.publish();
            }
        }
    });
    let mut next = 0;
    while !(rx.is_abandoned() && rx.is_empty()) {
        let taken = rx.drain(32, |message| {
            assert_eq!(message, big(next));
            next += 1;
        });
        if taken == 0 {
            thread::yield_now();
        }
    }
    producer.join().unwrap();
    assert_eq!(next, count);
}

/// A message of several lines, so that a slot seen half-written would show.
fn big(item: u64) -> [u64; 20] {
    core::array::from_fn(|i| item.wrapping_mul(i as u64 + 1))
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Publish,
    Pop,
    Drain(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..6usize).prop_map(Step::Push),
        Just(Step::Publish),
        Just(Step::Pop),
        (0..6usize).prop_map(Step::Drain),
    ];
    prop::collection::vec(step, 1..if cfg!(miri) { 20 } else { 200 })
}

/// A model of a ring with two queues. Items are boxes, so that a leak or a double drop is seen by miri.
struct Model {
    capacity: usize,
    staged: VecDeque<u32>,
    published: VecDeque<u32>,
    next: u32,
}

impl Model {
    fn apply(&mut self, step: &Step, tx: &mut Producer<Box<u32>>, rx: &mut Consumer<Box<u32>>) {
        match *step {
            Step::Push(count) => (0..count).for_each(|_| self.push(tx)),
            Step::Publish => {
                assert_eq!(tx.publish(), self.staged.len());
                self.published.append(&mut self.staged);
            }
            Step::Pop => assert_eq!(rx.pop().map(|item| *item), self.published.pop_front()),
            Step::Drain(max) => {
                let expected: Vec<u32> = self.published.drain(..max.min(self.published.len())).collect();
                let mut taken = Vec::new();
                assert_eq!(rx.drain(max, |item| taken.push(*item)), expected.len());
                assert_eq!(taken, expected);
            }
        }
        assert_eq!(tx.free(), self.capacity - self.staged.len() - self.published.len());
        assert_eq!((tx.staged(), rx.len()), (self.staged.len(), self.published.len()));
        assert_eq!(rx.is_empty(), self.published.is_empty());
    }

    fn push(&mut self, tx: &mut Producer<Box<u32>>) {
        let is_full = self.staged.len() + self.published.len() == self.capacity;
        assert_eq!(tx.push(Box::new(self.next)).is_err(), is_full);
        if !is_full {
            self.staged.push_back(self.next);
        }
        self.next += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_ring_is_two_queues(log in 0..5u32, steps in steps()) {
        let capacity = 1 << log;
        let (mut tx, mut rx) = ring(capacity);
        let mut model = Model { capacity, staged: VecDeque::new(), published: VecDeque::new(), next: 0 };
        steps.iter().for_each(|step| model.apply(step, &mut tx, &mut rx));
    }
}

/// Compiles only if an end may go to another thread.
#[test]
fn the_ends_can_be_sent() {
    fn can_be_sent<T: Send>(_: &T) {}
    let (tx, rx) = ring::<Option<Cell<u8>>>(1);
    can_be_sent(&tx);
    can_be_sent(&rx);
}
