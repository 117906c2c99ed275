//! Unsafe: plays a sender that stalls between claiming a slot and filling it.

use std::{collections::VecDeque, thread};

use proptest::prelude::*;

use super::*;

#[test]
fn messages_of_all_senders_arrive_in_the_order_they_were_sent() {
    let (tx, mut rx) = port(4);
    let other = tx.clone();
    tx.try_send(1).unwrap();
    other.try_send(2).unwrap();
    tx.try_send(3).unwrap();
    assert_eq!((rx.pop(), rx.pop(), rx.pop(), rx.pop()), (Some(1), Some(2), Some(3), None));
}

#[test]
fn a_full_port_gives_the_message_back_until_one_is_taken() {
    let (tx, mut rx) = port(2);
    tx.try_send(1).unwrap();
    tx.try_send(2).unwrap();
    assert_eq!(tx.try_send(3), Err(Full(3)));
    assert_eq!(rx.pop(), Some(1));
    assert_eq!(tx.try_send(3), Ok(()));
}

#[test]
fn the_capacity_is_the_next_power_of_two_and_all_of_it_can_be_used() {
    let large = if cfg!(miri) { (50, 64) } else { (500, 512) };
    for (asked, got) in [(0, 2), (1, 2), (2, 2), (3, 4), large] {
        let (tx, rx) = port(asked);
        assert_eq!((tx.capacity(), rx.capacity()), (got, got));
        assert_eq!((0..).take_while(|&item| tx.try_send(item).is_ok()).count(), got);
    }
}

#[test]
fn a_stalled_sender_ends_the_queue_but_holds_up_no_sender() {
    let (tx, mut rx) = port(4);
    tx.try_send(0).unwrap();
    let stalled_at = tx.shared.claim().unwrap();
    assert_eq!((tx.try_send(2), tx.try_send(3), tx.try_send(4)), (Ok(()), Ok(()), Err(Full(4))));
    assert_eq!((rx.pop(), rx.is_empty(), rx.pop()), (Some(0), true, None));
    assert_eq!((tx.try_send(4), tx.try_send(5)), (Ok(()), Err(Full(5))));
    // SAFETY: claimed above, and filled only here.
    unsafe { tx.shared.fill(stalled_at, 1) };
    assert_eq!(
        (rx.pop(), rx.pop(), rx.pop(), rx.pop(), rx.pop()),
        (Some(1), Some(2), Some(3), Some(4), None)
    );
}

#[test]
fn a_port_whose_receiver_is_gone_takes_no_message_and_keeps_none() {
    let message = Arc::new(());
    let (tx, rx) = port(4);
    tx.try_send(message.clone()).unwrap();
    assert!(!tx.is_abandoned());
    drop(rx);
    assert_eq!(Arc::strong_count(&message), 1);
    assert!(tx.is_abandoned());
    assert!(tx.try_send(message.clone()).is_err());
    assert_eq!(Arc::strong_count(&message), 1);
}

#[test]
fn messages_put_in_while_the_receiver_left_are_dropped_with_the_last_sender() {
    let message = Arc::new(());
    let (tx, mut rx) = port(4);
    tx.try_send(message.clone()).unwrap();
    drop(rx.pop());
    let positions: Vec<usize> = (0..2).filter_map(|_| tx.shared.claim()).collect();
    drop(rx);
    // SAFETY: claimed above, and filled only here.
    positions.iter().for_each(|&position| unsafe { tx.shared.fill(position, message.clone()) });
    assert_eq!(Arc::strong_count(&message), 3);
    drop(tx);
    assert_eq!(Arc::strong_count(&message), 1);
}

#[test]
fn positions_may_wrap_around_the_number_space() {
    let (tx, mut rx) = port(4);
    let near_the_end = usize::MAX - 2;
    rx.head = near_the_end;
    tx.shared.claimed.store(near_the_end, Ordering::Relaxed);
    for position in (0..4).map(|i| near_the_end.wrapping_add(i)) {
        tx.shared.slot(position).sequence.store(position, Ordering::Relaxed);
    }
    for round in 0..3 {
        (0..4).for_each(|item| tx.try_send(Box::new(round + item)).unwrap());
        assert!(tx.try_send(Box::new(99)).is_err());
        (0..4).for_each(|item| assert_eq!(rx.pop().as_deref(), Some(&(round + item))));
        assert!(rx.is_empty());
    }
}

#[test]
fn a_million_messages_arrive_once_and_in_the_order_of_their_sender() {
    const SENDERS: usize = 4;
    let each: u64 = if cfg!(miri) { 100 } else { 250_000 };
    let (tx, mut rx) = port(64);
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let tx = tx.clone();
            thread::spawn(move || (0..each).for_each(|n| send_or_yield(&tx, (sender, [n, n ^ 0xff, !n]))))
        })
        .collect();
    let mut next = [0; SENDERS];
    while next != [each; SENDERS] {
        let Some((sender, [n, mixed, inverse])) = rx.pop() else {
            thread::yield_now();
            continue;
        };
        assert_eq!((n, mixed, inverse), (next[sender], n ^ 0xff, !n));
        next[sender] += 1;
    }
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    assert!(rx.is_empty());
}

fn send_or_yield<T: Send>(tx: &Sender<T>, mut message: T) {
    while let Err(Full(back)) = tx.try_send(message) {
        message = back;
        thread::yield_now();
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// `Some(sender)` sends, `None` takes. Messages are boxes, so that a leak or a double drop is seen by miri.
    #[test]
    fn a_port_is_a_queue(
        log in 1..5u32,
        steps in prop::collection::vec(prop::option::of(0..3usize), 1..if cfg!(miri) { 30 } else { 300 }),
    ) {
        let capacity = 1 << log;
        let (tx, mut rx) = port(capacity);
        let senders = [tx.clone(), tx.clone(), tx];
        let mut model = VecDeque::new();
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                None => assert_eq!(rx.pop().as_deref(), model.pop_front().as_ref()),
                Some(sender) => {
                    let is_full = model.len() == capacity;
                    assert_eq!(senders[sender].try_send(Box::new(n)).is_err(), is_full);
                    if !is_full {
                        model.push_back(n);
                    }
                }
            }
            assert_eq!(rx.is_empty(), model.is_empty());
        }
    }
}
