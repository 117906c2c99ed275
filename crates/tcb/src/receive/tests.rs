use proptest::prelude::*;

use super::*;

const START: Seq = Seq(u32::MAX - 500);

fn receive() -> Receive {
    Receive::new(START)
}

fn block(left: u32, right: u32) -> (u32, u32) {
    (left, right)
}

/// Returns the blocks, in bytes from the start.
fn said(receive: &mut Receive, max: usize) -> Vec<(u32, u32)> {
    let blocks = receive.sack(max);
    blocks.as_slice().iter().map(|b| block(Seq(b.left).since(START), Seq(b.right).since(START))).collect()
}

/// The byte that stands there.
fn byte(at: u32) -> u8 {
    u8::try_from(at % 251).unwrap()
}

fn arrive(receive: &mut Receive, from: u32, to: u32) -> Arrived {
    let bytes: Vec<u8> = (from..to).map(byte).collect();
    receive.arrive(START + from, &bytes, false).unwrap()
}

#[test]
fn what_comes_in_order_is_readable_at_once_and_nothing_is_odd() {
    let mut receive = receive();
    for at in 0..10 {
        let arrived = arrive(&mut receive, at * 100, at * 100 + 100);
        assert_eq!(arrived, Arrived { readable: 100, finished: false, is_odd: false });
    }
    assert_eq!((receive.next(), receive.readable()), (START + 1000, 1000));
    let mut out = [0; 1500];
    assert_eq!(receive.peek(0, &mut out), 1000);
    assert!((0..1000).all(|at| out[at as usize] == byte(at)));
    receive.consume(1000);
    assert_eq!((receive.readable(), receive.pieces(0, usize::MAX).concat()), (0, vec![]));
    assert_eq!(said(&mut receive, 4), []);
}

#[test]
fn blocks_are_said_the_one_that_changed_last_first() {
    let mut receive = receive();
    arrive(&mut receive, 0, 100);
    for (from, to) in [(200, 300), (400, 500), (600, 700)] {
        assert!(arrive(&mut receive, from, to).is_odd);
    }
    assert_eq!(said(&mut receive, 3), [(600, 700), (400, 500), (200, 300)]);
    arrive(&mut receive, 300, 320);
    assert_eq!(said(&mut receive, 3), [(200, 320), (600, 700), (400, 500)]);
    arrive(&mut receive, 500, 600);
    assert_eq!(said(&mut receive, 4), [(400, 700), (200, 320)]);
    assert_eq!(said(&mut receive, 1), [(400, 700)]);
    let arrived = arrive(&mut receive, 100, 200);
    assert_eq!(arrived, Arrived { readable: 220, finished: false, is_odd: true });
    assert_eq!(said(&mut receive, 4), [(400, 700)]);
}

#[test]
fn the_first_bytes_that_came_twice_are_said_once() {
    let mut receive = receive();
    arrive(&mut receive, 0, 100);
    for (from, to) in [(200, 300), (400, 500), (600, 700)] {
        arrive(&mut receive, from, to);
    }
    arrive(&mut receive, 100, 550);
    assert_eq!(said(&mut receive, 4), [(200, 300), (600, 700)]);
    assert_eq!(said(&mut receive, 4), [(600, 700)]);
    arrive(&mut receive, 0, 800);
    assert_eq!(said(&mut receive, 4), [(0, 550)]);
    // Old from front to back.
    assert!(arrive(&mut receive, 300, 400).is_odd);
    assert_eq!(said(&mut receive, 4), [(300, 400)]);
}

#[test]
fn what_came_twice_in_pieces_that_follow_each_other_is_said_as_one() {
    let mut receive = receive();
    arrive(&mut receive, 500, 600);
    assert_eq!(said(&mut receive, 4), [(500, 600)]);
    // One packet in two buffers, which fills the gap.
    arrive(&mut receive, 0, 550);
    arrive(&mut receive, 550, 900);
    assert_eq!(said(&mut receive, 4), [(500, 600)]);
    // Two packets of old, and one from elsewhere.
    arrive(&mut receive, 100, 200);
    arrive(&mut receive, 200, 300);
    assert_eq!(said(&mut receive, 4), [(100, 300)]);
    arrive(&mut receive, 100, 200);
    arrive(&mut receive, 400, 500);
    assert_eq!(said(&mut receive, 4), [(400, 500)]);
}

#[test]
fn a_block_around_what_came_twice_follows_it() {
    let mut receive = receive();
    arrive(&mut receive, 200, 400);
    arrive(&mut receive, 500, 600);
    arrive(&mut receive, 250, 350);
    assert_eq!(said(&mut receive, 4), [(250, 350), (200, 400), (500, 600)]);
}

#[test]
fn the_end_comes_when_all_before_it_has() {
    let mut receive = receive();
    let fin = receive.arrive(START + 100, &[1; 50], true).unwrap();
    assert_eq!(fin, Arrived { readable: 0, finished: false, is_odd: true });
    let arrived = arrive(&mut receive, 0, 100);
    assert_eq!(arrived, Arrived { readable: 150, finished: true, is_odd: true });
    assert_eq!((receive.next(), receive.readable()), (START + 151, 150));
    // Again, and more than there can be.
    assert!(!receive.arrive(START + 100, &[1; 50], true).unwrap().finished);
    assert!(!receive.arrive(START + 151, &[1; 50], true).unwrap().finished);
    assert_eq!((receive.next(), receive.readable()), (START + 151, 150));
    receive.consume(150);
    assert_eq!(receive.readable(), 0);
}

#[test]
fn an_end_without_bytes_ends_the_stream_in_order() {
    let mut receive = receive();
    arrive(&mut receive, 0, 10);
    let fin = receive.arrive(START + 10, &[], true).unwrap();
    assert_eq!(fin, Arrived { readable: 0, finished: true, is_odd: false });
    assert!(receive.is_finished());
}

#[test]
fn of_too_many_blocks_the_last_is_refused_and_the_stream_goes_on() {
    let mut receive = receive();
    let blocks = u32::try_from(BLOCKS_MAX).unwrap();
    for at in 0..blocks {
        arrive(&mut receive, at * 10 + 5, at * 10 + 6);
    }
    assert_eq!(receive.arrive(START + blocks * 10 + 5, &[1], false), Err(TooManyGaps));
    // What touches a block needs no place of its own.
    arrive(&mut receive, blocks * 10 - 4, blocks * 10);
    for at in 0..blocks {
        arrive(&mut receive, at * 10, at * 10 + 10);
    }
    assert_eq!((receive.readable(), receive.has_gap()), (BLOCKS_MAX * 10, false));
    assert_eq!(receive.pieces(0, usize::MAX).concat(), (0..blocks * 10).map(byte).collect::<Vec<_>>());
}

#[test]
fn an_end_that_comes_early_waits_for_the_bytes_before_it() {
    let mut receive = receive();
    let early = receive.arrive(START + 10, &[], true).unwrap();
    assert_eq!((early.readable, early.finished, early.is_odd), (0, false, true));
    assert!(!receive.has_gap() && said(&mut receive, 4).is_empty(), "it is no byte");
    // Nothing comes behind the end, and the end does not move.
    arrive(&mut receive, 12, 15);
    receive.arrive(START + 5, &[byte(5); 3], true).unwrap();
    assert!(!arrive(&mut receive, 0, 8).finished);
    assert!(arrive(&mut receive, 8, 15).finished);
    assert_eq!((receive.readable(), receive.next()), (10, START + 11));
}

#[test]
fn an_end_before_bytes_that_have_come_is_none() {
    let mut receive = receive();
    arrive(&mut receive, 10, 20);
    receive.arrive(START + 15, &[], true).unwrap();
    assert!(!arrive(&mut receive, 0, 10).finished);
    assert_eq!(receive.readable(), 20);
}

proptest! {
    /// Segments of a stream in any order, cut in any way, with reading in between.
    #[test]
    fn the_bytes_are_those_that_were_sent(
        segments in proptest::collection::vec((0..2000_u32, 1..300_u32, 0..400_usize), 1..80),
    ) {
        let mut receive = receive();
        let mut there = [false; 2400];
        let mut read = Vec::new();
        for (from, len, reads) in segments {
            let bytes: Vec<u8> = (from..from + len).map(byte).collect();
            if receive.arrive(START + from, &bytes, false).is_ok() {
                there[from as usize..][..len as usize].fill(true);
            }
            let next = there.iter().position(|there| !there).unwrap();
            prop_assert_eq!(receive.next().since(START) as usize, next);
            prop_assert_eq!(receive.readable(), next - read.len());
            // Each block is there, and its neighbours are not.
            for (left, right) in said(&mut receive, 4).into_iter().filter(|(left, _)| *left as usize > next) {
                prop_assert!(there[left as usize..right as usize].iter().all(|there| *there));
            }
            let mut out = vec![0; reads];
            let count = receive.peek(0, &mut out);
            receive.consume(count);
            read.extend_from_slice(&out[..count]);
        }
        read.extend(receive.pieces(0, usize::MAX).concat());
        let sent: Vec<u8> = (0..u32::try_from(read.len()).unwrap()).map(byte).collect();
        prop_assert_eq!(read, sent);
    }
}
