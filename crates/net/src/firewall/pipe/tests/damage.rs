use ipfw::command::Reorder;
use ipfw::limit::REORDER_MAX;

use super::reorder::HELD_MAX;
use super::*;

fn reordering(share: u32, by: u8) -> PipeConfig {
    let delay_ms = Some(5);
    PipeConfig { delay_ms, reorder: Some(Reorder { share, by }), ..PipeConfig::default() }
}

/// Sends packets with numbers from 0 on, a tenth of a millisecond apart, and answers in which order they left.
fn order(lab: &mut Lab, family: Family, packets: u32) -> Vec<u32> {
    for number in 0..packets {
        lab.send(ONE, Of { family, number, ..Of::len(100) }).unwrap();
        lab.run(Duration::from_micros(100));
    }
    lab.run_out();
    lab.numbers()
}

/// By how many packets that came later each was overtaken, in the order of their numbers.
fn overtaken(left: &[u32]) -> Vec<usize> {
    let mut all = vec![0; left.len()];
    for (at, number) in left.iter().enumerate() {
        all[*number as usize] = left[..at].iter().filter(|earlier| *earlier > number).count();
    }
    all
}

#[test]
fn as_many_packets_are_overtaken_as_was_asked_for_and_none_moves_further() {
    for (percent, by) in [(1, 3), (10, 1), (30, 5), (100, 3), (100, REORDER_MAX)] {
        for family in FAMILIES {
            let share = if percent == 100 { u32::MAX } else { u32::MAX / 100 * percent };
            let mut lab = Lab::with(reordering(share, by));
            let left = order(&mut lab, family, 5000);
            let mut sorted = left.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..5000), "all leave, once");
            let moved = lab.pipes.moved();
            let (wanted, by) = (u64::from(percent) * 50, u64::from(by));
            assert!(
                moved <= 5000 && (percent == 100 || moved.abs_diff(wanted) < 100 + wanted / 4),
                "{moved}"
            );
            for (number, times) in overtaken(&left).into_iter().enumerate() {
                assert!(times as u64 <= by, "{number} by {times} of {by}");
            }
            for (at, number) in (0_u64..).zip(&left) {
                assert!(at.abs_diff((*number).into()) <= by, "{number} left as number {at}, and {by} may be");
            }
            let late = overtaken(&left).into_iter().filter(|times| *times > 0).count() as u64;
            assert!(late > 0 && late <= moved, "{late} of {moved}");
        }
    }
}

#[test]
fn a_packet_that_nobody_overtakes_leaves_fifty_milliseconds_late_however_soon_others_come_after_that() {
    let mut lab = Lab::with(reordering(u32::MAX, 1));
    let begin = lab.now;
    lab.send(ONE, Of::len(100)).unwrap();
    lab.run(Duration::from_millis(56));
    assert_eq!(lab.times(begin), [55_000_000]);
    assert_eq!(HELD_MAX, Duration::from_millis(50));
    // While one is held back, the next ones are as soon as ever.
    lab.left.clear();
    let begin = lab.now;
    (0..3).for_each(|number| lab.send(ONE, Of { number, ..Of::len(100) }).unwrap());
    lab.run(Duration::from_millis(20));
    assert_eq!((lab.numbers(), lab.times(begin)), (vec![1, 0], vec![5_000_000; 2]));
    lab.run_out();
    assert_eq!((lab.numbers(), lab.times(begin)[2]), (vec![1, 0, 2], 55_000_000));
}

#[test]
fn what_is_held_back_is_held_in_a_pipe_that_changes_and_dies_with_one_that_goes() {
    for family in FAMILIES {
        let mut lab = Lab::with(reordering(u32::MAX, 100));
        (0..100).for_each(|number| lab.send(ONE, Of { family, number, ..Of::len(100) }).unwrap());
        lab.run(Duration::from_millis(10));
        assert_eq!((lab.left.len(), lab.pipes.show()[0].flying, lab.pipes.held()), (0, 100, 100));
        lab.pipe(1, reordering(0, 1));
        lab.send(ONE, Of { family, number: 100, ..Of::len(100) }).unwrap();
        lab.run(Duration::from_millis(10));
        assert_eq!(lab.left[0].number, 100, "in its order now, and past all");
        lab.delete(1, false);
        assert_eq!(lab.left.len() + lab.died.len(), 101);
        assert_eq!((lab.pipes.held(), lab.pool.free()), (0, BUFFERS));
    }
}

#[test]
fn the_same_secret_does_the_same_damage_and_another_one_does_other() {
    let run = |key| {
        let mut lab = Lab::with(PipeConfig { duplicate: Some(1 << 30), ..reordering(1 << 30, 5) });
        lab.secret = Secret::new(key);
        let copies: Vec<_> = (0..100).map(|_| lab.pipes.copies(ONE, &mut lab.secret)).collect();
        (order(&mut lab, Family::V4, 200), copies)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
    assert_ne!(run(1).1, run(2).1);
}

#[test]
fn as_many_packets_are_to_be_copied_as_was_asked_for_those_of_queues_too() {
    for (chance, wanted) in [(0, 0..=0), (u32::MAX / 10, 1800..=2200), (u32::MAX, 20_000..=20_000)] {
        let mut lab = Lab::with(PipeConfig { duplicate: Some(chance), ..PipeConfig::default() });
        lab.queue(7, QueueConfig { pipe: Some(1), ..QueueConfig::default() });
        for to in [ONE, To::Queue(7)] {
            let copies = (0..20_000).filter(|_| lab.pipes.copies(to, &mut lab.secret)).count();
            assert!(wanted.contains(&copies), "{copies} of 20000 at {chance}");
        }
        assert!((0..100).all(|_| !lab.pipes.copies(To::Pipe(2), &mut lab.secret)), "there is no such pipe");
    }
}
