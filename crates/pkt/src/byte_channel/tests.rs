use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// Both ends of one lane.
struct Lane {
    near: (Writer, Reader),
    far: (Writer, Reader),
}

fn lane(capacity: usize) -> Lane {
    let (near, far) = lanes(1, capacity).unwrap();
    Lane { near: near.take(0).unwrap(), far: far.take(0).unwrap() }
}

/// Cases of a property: miri is slow.
const CASES: u32 = if cfg!(miri) { 2 } else { 256 };
const ACTS_MAX: usize = if cfg!(miri) { 20 } else { 80 };

#[derive(Clone, Debug)]
enum Act {
    Write(Vec<u8>),
    Read(usize),
    InPlace(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Act::Write),
        (0..40_usize).prop_map(Act::Read),
        (0..40_usize).prop_map(Act::InPlace),
    ];
    proptest::collection::vec(act, 0..ACTS_MAX)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_is_what_a_queue_is(acts in acts()) {
        let Lane { near: (mut tx, _), far: (_, mut rx) } = lane(32);
        let mut queue = VecDeque::new();
        for act in acts {
            match act {
                Act::Write(bytes) => {
                    let room = 32 - queue.len();
                    prop_assert_eq!(tx.write(&bytes), Ok(bytes.len().min(room)));
                    queue.extend(bytes.iter().take(room));
                    prop_assert!(!tx.publish(), "nobody waits");
                }
                Act::Read(len) => {
                    let mut into = vec![0; len];
                    let count = rx.read(&mut into).unwrap();
                    let expected: Vec<u8> = queue.drain(..len.min(queue.len())).collect();
                    prop_assert_eq!(&into[..count], expected);
                    prop_assert_eq!(rx.release(), Ok(false));
                }
                Act::InPlace(len) => {
                    let all = rx.read_in_place(|pieces| (len, pieces.concat())).unwrap();
                    prop_assert_eq!(all, queue.iter().copied().collect::<Vec<u8>>());
                    queue.drain(..len.min(queue.len()));
                    prop_assert_eq!(rx.release(), Ok(false));
                }
            }
            prop_assert_eq!(rx.len(), Ok(queue.len()));
        }
    }
}

#[test]
fn what_is_written_is_seen_when_it_is_published_and_its_place_is_free_when_it_is_given_back() {
    let Lane { near: (mut tx, _), far: (_, mut rx) } = lane(4);
    assert_eq!(tx.write(b"abcdef"), Ok(4));
    assert_eq!((rx.is_empty(), tx.is_drained()), (Ok(true), Ok(true)), "nothing was published");
    assert!(!tx.publish());
    assert_eq!((rx.read(&mut [0; 3]), tx.free(), tx.is_drained()), (Ok(3), Ok(0), Ok(false)));
    assert_eq!((rx.release(), tx.free(), rx.len()), (Ok(false), Ok(3), Ok(1)));
    assert_eq!((rx.read(&mut [0; 3]), rx.release(), tx.is_drained()), (Ok(1), Ok(false), Ok(true)));
}

#[test]
fn the_streams_of_a_lane_and_those_of_others_do_not_meet() {
    let (near, far) = lanes(3, 8).unwrap();
    let mut nears: Vec<_> = (0..3).map(|lane| near.take(lane).unwrap()).collect();
    let mut fars: Vec<_> = (0..3).map(|lane| far.take(lane).unwrap()).collect();
    for (n, (near, far)) in (0..).zip(nears.iter_mut().zip(&mut fars)) {
        assert_eq!((near.0.write(&[n; 8]), far.0.write(&[n | 16; 8])), (Ok(8), Ok(8)));
        assert!(!near.0.publish() && !far.0.publish());
    }
    for (n, (near, far)) in (0..).zip(nears.iter_mut().zip(&mut fars)) {
        let (mut there, mut back) = ([0; 9], [0; 9]);
        assert_eq!((far.1.read(&mut there), near.1.read(&mut back)), (Ok(8), Ok(8)));
        assert_eq!((&there[..8], &back[..8]), (&[n; 8][..], &[n | 16; 8][..]));
    }
}

#[test]
fn the_end_of_a_stream_is_found_behind_its_last_byte() {
    let Lane { near: (mut tx, _), far: (_, mut rx) } = lane(8);
    assert_eq!((tx.write(b"last"), rx.end()), (Ok(4), Ok(None)));
    assert!(!tx.finish(7));
    assert_eq!((rx.end(), rx.how()), (Ok(None), 7), "it is known, and not yet reached");
    assert_eq!((rx.read(&mut [0; 8]), rx.end()), (Ok(4), Ok(Some(7))));
    assert_eq!(rx.waits(), Ok(true), "there is nothing that it has not seen");
}

#[test]
fn a_reader_that_waits_is_told_once_and_others_not_at_all() {
    let Lane { near: (mut tx, _), far: (_, mut rx) } = lane(8);
    let write = |tx: &mut Writer| {
        tx.write(b"x").unwrap();
        tx.publish()
    };
    assert!(!write(&mut tx));
    assert_eq!(rx.waits(), Ok(false), "there is something");
    assert_eq!((rx.read(&mut [0; 8]), rx.waits()), (Ok(1), Ok(true)));
    assert_eq!([write(&mut tx), write(&mut tx)], [true, false]);
    assert_eq!((rx.read(&mut [0; 8]), rx.waits()), (Ok(2), Ok(true)));
    assert!(tx.finish(1), "an end is news, too");
    assert_eq!(rx.waits(), Ok(false));
    assert!(!tx.publish(), "there is nothing to publish");
}

#[test]
fn a_writer_that_waits_is_told_once_when_half_of_the_ring_is_free() {
    let Lane { near: (mut tx, _), far: (_, mut rx) } = lane(8);
    assert_eq!(tx.waits(), Ok(false), "there is room");
    assert_eq!(tx.write(&[1; 8]), Ok(8));
    assert!(!tx.publish());
    assert_eq!(tx.waits(), Ok(true));
    let mut read = |len: usize| (rx.read(&mut vec![0; len]), rx.release());
    assert_eq!([read(3), read(1), read(4)], [(Ok(3), Ok(false)), (Ok(1), Ok(true)), (Ok(4), Ok(false))]);
    assert_eq!(read(1), (Ok(0), Ok(false)));
}

#[test]
fn a_writer_that_needs_more_than_half_is_told_of_each_part_until_so_much_is_free() {
    let Lane { near: (mut tx, _), far: (_, mut rx) } = lane(8);
    assert_eq!(tx.write(&[1; 8]), Ok(8));
    assert!(!tx.publish());
    for part in [4, 2, 1] {
        assert_eq!(tx.waits_for(7), Ok(true));
        assert_eq!((rx.read(&mut vec![0; part]), rx.release()), (Ok(part), Ok(true)));
    }
    assert_eq!(tx.waits_for(7), Ok(false), "there is room");
}

#[test]
fn a_lane_is_taken_once_by_each_end_and_is_free_when_both_have_left_it() {
    let (near, far) = lanes(2, 8).unwrap();
    assert!(far.take(0).is_none(), "it was not begun");
    assert!(near.take(2).is_none() && far.take(2).is_none(), "there is none");
    let (mut tx, rx) = near.take(1).unwrap();
    let (far_tx, mut far_rx) = far.take(1).unwrap();
    assert!(near.take(1).is_none() && far.take(1).is_none());
    assert_eq!(tx.write(b"before"), Ok(6));
    assert!(!tx.finish(9));
    drop(tx);
    assert!(far_rx.is_abandoned() && !far_tx.is_abandoned() && !rx.is_abandoned());
    assert_eq!(far_rx.read(&mut [0; 8]), Ok(6), "what was published is there still");
    drop((rx, far_tx));
    assert!(near.take(1).is_none() && far.take(1).is_none(), "the far reader has it still");
    drop(far_rx);
    assert!(far.take(1).is_none(), "it was begun once");
    let (tx, mut rx) = near.take(1).unwrap();
    assert_eq!((tx.free(), rx.len(), rx.end()), (Ok(8), Ok(0), Ok(None)), "nothing is left of before");
    assert!(!tx.is_abandoned(), "the far end has not taken it yet");
    let (_, mut far_rx) = far.take(1).unwrap();
    assert_eq!((far_rx.len(), far_rx.end()), (Ok(0), Ok(None)));
    assert_eq!((tx.lane(), tx.is_abandoned(), rx.is_abandoned()), (1, false, true), "its far writer is gone");
}

#[test]
fn an_end_may_leave_before_the_other_has_come() {
    let (near, far) = lanes(1, 8).unwrap();
    let (mut tx, rx) = near.take(0).unwrap();
    assert_eq!(tx.write(b"hello"), Ok(5));
    assert!(!tx.publish());
    drop((tx, rx));
    let (tx, mut rx) = far.take(0).unwrap();
    assert!(tx.is_abandoned() && rx.is_abandoned());
    assert_eq!(rx.read(&mut [0; 8]), Ok(5));
}

#[test]
fn positions_that_cannot_be_are_found_before_a_byte_is_touched() {
    for wrong in [9, 1 << 40, usize::MAX / 2, usize::MAX] {
        let Lane { near: (tx, _rx), far: (_tx, mut far_rx) } = lane(8);
        tx.forge().say(wrong);
        assert_eq!(far_rx.len(), Err(Broken));
        assert_eq!(far_rx.read(&mut [0; 8]), Err(Broken));
        assert_eq!(far_rx.waits(), Err(Broken));
    }
    for wrong in [1, 9, 1 << 40, usize::MAX / 2, 8_usize.wrapping_neg() - 1] {
        let Lane { near: (_tx, rx), far: (mut far_tx, _rx) } = lane(8);
        rx.forge().say(wrong);
        assert_eq!(far_tx.free(), Err(Broken));
        assert_eq!(far_tx.write(b"x"), Err(Broken));
        assert_eq!(far_tx.waits(), Err(Broken));
    }
}

#[test]
fn a_position_that_goes_back_is_found_as_soon_as_it_matters() {
    let Lane { near: (mut tx, _), far: (_, mut rx) } = lane(8);
    assert_eq!(tx.write(&[1; 8]), Ok(8));
    assert!(!tx.publish());
    assert_eq!(rx.read(&mut [0; 5]), Ok(5));
    let forger = tx.forge();
    forger.say(4);
    assert_eq!((rx.len(), rx.release()), (Err(Broken), Err(Broken)));
    forger.say(5);
    assert_eq!(rx.len(), Ok(0));
}

#[test]
fn a_lane_that_carried_much_gives_its_memory_back_and_is_zero() {
    let len = if cfg!(miri) { 32 } else { 64 } << 10;
    let (near, far) = lanes(2, len).unwrap();
    for lane in [0, 1] {
        let (mut tx, _) = near.take(lane).unwrap();
        let (_, rx) = far.take(lane).unwrap();
        assert_eq!(tx.write(&vec![7; len]), Ok(len));
        assert!(!tx.publish());
        near.tidy(lane);
        drop((tx, rx));
        near.tidy(lane);
        // What is said to be there was never written since.
        let (tx, _) = near.take(lane).unwrap();
        let (_, mut rx) = far.take(lane).unwrap();
        tx.forge().say(len);
        // As a whole: miri takes its time for each byte that it is shown.
        assert_eq!(rx.read_in_place(|pieces| (0, pieces.concat() == vec![0; len])), Ok(true));
    }
    near.tidy(2);
}

#[test]
fn so_many_lanes_that_no_memory_has_their_addresses_are_refused() {
    assert!(matches!(lanes(u32::MAX, 1 << 40), Err(TooLarge)));
    assert!(matches!(lanes(1, usize::MAX), Err(TooLarge)));
    assert!(lanes(0, 0).unwrap().0.take(0).is_none());
}
