use std::collections::BTreeMap;

use ipfw::command::{QueueLimit, Scheduler};

use super::*;

/// Queues of these weights into one pipe, by number from 1.
fn queues(scheduler: Scheduler, weights: &[u8]) -> Lab {
    let mut lab = Lab::with(PipeConfig { scheduler: Some(scheduler), ..bandwidth(10 * MBIT) });
    for (number, weight) in (1..).zip(weights) {
        lab.queue(number, QueueConfig { pipe: Some(1), weight: Some(*weight), ..QueueConfig::default() });
    }
    lab
}

/// Sends for a while through all of so many queues, which never run empty; `len` is what their packets are long.
/// Answers the bytes of each.
fn share(lab: &mut Lab, queues: u16, len: impl Fn(u16) -> usize) -> Vec<u64> {
    let end = lab.now + Duration::from_secs(2);
    while lab.now < end {
        for queue in 1..=queues {
            let of = Of { number: queue.into(), ..Of::len(len(queue)) };
            while lab.send(To::Queue(queue), of).is_ok() {}
        }
        lab.run(Duration::from_millis(1));
    }
    let mut bytes = BTreeMap::new();
    for left in &lab.left {
        *bytes.entry(left.number).or_insert(0) += left.len as u64;
    }
    bytes.into_values().collect()
}

#[test]
fn queues_share_a_pipe_by_their_weights_whatever_their_packets_are_long() {
    for scheduler in [Scheduler::Wf2q, Scheduler::Rr] {
        for len in [|_| 1500, |queue| 1500 / usize::from(queue), |queue| 300 * usize::from(queue)] {
            let mut lab = queues(scheduler, &[1, 2, 3]);
            let bytes = share(&mut lab, 3, len);
            let all: u64 = bytes.iter().sum();
            for (weight, bytes) in (1..).zip(bytes) {
                let wanted = all * weight / 6;
                assert!(bytes.abs_diff(wanted) <= 9000, "{scheduler:?}: {bytes} of {wanted}");
            }
        }
    }
}

#[test]
fn what_a_queue_does_not_use_the_others_have() {
    for scheduler in [Scheduler::Wf2q, Scheduler::Rr] {
        let mut lab = queues(scheduler, &[100, 1, 1]);
        let bytes = share(&mut lab, 3, |_| 1500);
        assert!(bytes[0] > 90 * bytes[1], "{bytes:?}");
        // The heavy one falls silent.
        lab.left.clear();
        let end = lab.now + Duration::from_secs(1);
        while lab.now < end {
            for queue in [2, 3] {
                while lab.send(To::Queue(queue), Of { number: queue.into(), ..Of::len(1500) }).is_ok() {}
            }
            lab.run(Duration::from_millis(5));
        }
        let of = |number| lab.left.iter().filter(|left| left.number == number).count();
        assert!(of(2).abs_diff(of(3)) <= 2 && of(2) + of(3) > 750, "{} and {}", of(2), of(3));
    }
}

/// Fair queueing by finish times alone would send ten of the heavy one at once (WF2Q+ is about that).
#[test]
fn a_heavy_queue_does_not_go_ahead_of_its_share() {
    let mut lab = queues(Scheduler::Wf2q, &[10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
    for queue in 1..=11 {
        for _ in 0..11 {
            lab.send(To::Queue(queue), Of { number: queue.into(), ..Of::len(1000) }).unwrap();
        }
    }
    lab.run_out();
    let numbers = &lab.numbers()[1..21];
    let heavy = numbers.chunks(2).filter(|pair| pair.contains(&1)).count();
    assert_eq!(heavy, 10, "every second one: {numbers:?}");
}

#[test]
fn a_queue_that_comes_back_at_once_gets_no_more_than_its_share() {
    let mut lab = queues(Scheduler::Wf2q, &[1, 1]);
    let mut sent = [0_u32; 2];
    for _ in 0..2000 {
        while lab.send(To::Queue(1), Of { number: 1, ..Of::len(1000) }).is_ok() {}
        // Never more than one of the other waits.
        if lab.pipes.show()[0].queues.iter().all(|queue| queue.number != 2 || queue.packets == 0) {
            lab.send(To::Queue(2), Of { number: 2, ..Of::len(1000) }).unwrap();
        }
        lab.run(Duration::from_micros(800));
    }
    lab.left.iter().for_each(|left| sent[left.number as usize - 1] += 1);
    assert!(sent[0].abs_diff(sent[1]) <= 3, "{sent:?}");
}

#[test]
fn the_pipe_itself_takes_part_with_a_weight_of_its_own() {
    let mut lab = queues(Scheduler::Wf2q, &[1]);
    let own = QueueConfig { weight: Some(3), ..QueueConfig::default() };
    lab.pipe(1, PipeConfig { queue: own, ..bandwidth(10 * MBIT) });
    for _ in 0..1000 {
        while lab.send(ONE, Of { number: 3, ..Of::len(1000) }).is_ok() {}
        while lab.send(To::Queue(1), Of { number: 1, ..Of::len(1000) }).is_ok() {}
        lab.run(Duration::from_millis(2));
    }
    let of = |number| lab.left.iter().filter(|left| left.number == number).count();
    assert!((3 * of(1)).abs_diff(of(3)) <= 4, "{} and {}", of(1), of(3));
}

#[test]
fn queues_of_a_fifo_pipe_are_names_of_its_own_queue() {
    let mut lab = queues(Scheduler::Fifo, &[1, 100]);
    for number in 0..30 {
        let queue = u16::try_from(number % 2).unwrap() + 1;
        lab.send(To::Queue(queue), Of { number, ..Of::len(1000) }).unwrap();
    }
    lab.run_out();
    assert_eq!(lab.numbers(), (0..30).collect::<Vec<_>>());
}

const FQ_CODEL: Scheduler = Scheduler::FqCodel {
    target_us: 5000,
    interval_us: 100_000,
    quantum: 1514,
    limit: 400,
    flows: 1024,
    ecn: false,
};

#[test]
fn a_flow_that_comes_seldom_does_not_wait_behind_one_that_fills_the_pipe() {
    for family in FAMILIES {
        let mut lab = Lab::with(PipeConfig { scheduler: Some(FQ_CODEL), ..bandwidth(10 * MBIT) });
        let (mut waited, mut asked) = (Vec::new(), lab.now);
        for round in 0..500 {
            for _ in 0..20 {
                let _ = lab.send(ONE, Of { family, flow: 1, ..Of::len(1500) });
            }
            if round % 10 == 0 {
                asked = lab.now;
                lab.send(ONE, Of { family, flow: 2, number: 2, ..Of::len(100) }).unwrap();
            }
            lab.left.clear();
            lab.run(Duration::from_millis(5));
            waited.extend(lab.left.iter().filter(|left| left.number == 2).map(|left| left.at.since(asked)));
        }
        assert_eq!(waited.len(), 50);
        // One full packet before it, at most two.
        assert!(waited.iter().all(|waited| *waited < Duration::from_micros(2 * 1200 + 100)), "{waited:?}");
        assert!(lab.died.contains(&DropReason::PipeCodel) && lab.died.contains(&DropReason::PipeFull));
    }
}

#[test]
fn flows_of_fq_codel_together_hold_no_more_than_its_limit() {
    let mut lab = Lab::with(PipeConfig { scheduler: Some(FQ_CODEL), ..bandwidth(MBIT) });
    for flow in 0..1000 {
        let _ = lab.send(ONE, Of { flow, ..Of::len(100) });
        assert!(lab.pipes.show()[0].queues[0].packets <= 400);
    }
    assert_eq!(lab.died.len() + 400 + 1, 1000);
}

#[test]
fn red_and_limits_of_queues_are_each_their_own() {
    let mut lab = queues(Scheduler::Wf2q, &[1, 1]);
    let limit = Some(QueueLimit::Packets(3));
    lab.queue(2, QueueConfig { pipe: Some(1), limit, ..QueueConfig::default() });
    let let_in = |lab: &mut Lab, queue| (0..60).filter(|_| lab.send(queue, Of::len(1500)).is_ok()).count();
    assert_eq!([let_in(&mut lab, To::Queue(1)), let_in(&mut lab, To::Queue(2))], [51, 3]);
}
