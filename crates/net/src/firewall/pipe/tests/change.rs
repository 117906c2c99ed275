use ipfw::command::{Aqm, QueueLimit, Reorder, Scheduler};

use super::*;

const SCHEDULERS: [Option<Scheduler>; 5] =
    [None, Some(Scheduler::Fifo), Some(Scheduler::Wf2q), Some(Scheduler::Rr), Some(fq_codel(100))];

const fn fq_codel(limit: u32) -> Scheduler {
    let (target_us, interval_us) = (5000, 100_000);
    Scheduler::FqCodel { target_us, interval_us, quantum: 1514, limit, flows: 16, ecn: false }
}

#[test]
fn what_waits_survives_any_change_of_a_pipe_in_its_order() {
    // The last one would not let so many in.
    let targets = [&SCHEDULERS[..], &[Some(fq_codel(10))]].concat();
    for (from, to) in SCHEDULERS.iter().flat_map(|from| targets.iter().map(move |to| (*from, *to))) {
        for family in FAMILIES {
            let mut lab = Lab::with(PipeConfig { scheduler: from, ..bandwidth(8000) });
            (0..40).for_each(|number| lab.send(ONE, Of { family, number, ..Of::len(100) }).unwrap());
            let queue = QueueConfig { limit: Some(QueueLimit::Packets(1)), ..QueueConfig::default() };
            lab.pipe(1, PipeConfig { scheduler: to, queue, ..bandwidth(80 * MBIT) });
            lab.run(Duration::from_secs(2));
            assert_eq!(lab.numbers(), (0..40).collect::<Vec<_>>(), "{from:?} {to:?}");
        }
    }
}

#[test]
fn what_is_being_sent_goes_on_as_fast_as_the_pipe_is_now() {
    for (new, wanted_ms) in [(16_000, 550), (4000, 1900), (0, 100)] {
        let mut lab = Lab::with(bandwidth(8000));
        let begin = lab.now;
        // A second for the first; a tenth of it is over.
        (0..2).for_each(|_| lab.send(ONE, Of::len(1000)).unwrap());
        lab.run(Duration::from_millis(100));
        lab.pipe(1, bandwidth(new));
        lab.run_out();
        let second_ms = 8_000_000_u64.checked_div(new).unwrap_or(0);
        let wanted = [wanted_ms, wanted_ms + second_ms].map(|ms| ms * 1_000_000);
        assert_eq!(lab.times(begin), wanted, "at {new} bit/s");
    }
}

#[test]
fn a_changed_delay_holds_for_what_is_on_its_way() {
    for (delay, wanted) in [(10, 110), (500, 500)] {
        let mut lab = Lab::with(PipeConfig { delay_ms: Some(200), ..PipeConfig::default() });
        let begin = lab.now;
        lab.send(ONE, Of::len(100)).unwrap();
        lab.run(Duration::from_millis(110));
        lab.pipe(1, PipeConfig { delay_ms: Some(delay), ..PipeConfig::default() });
        lab.run_out();
        assert_eq!(lab.times(begin), [wanted * 1_000_000]);
    }
}

#[test]
fn what_waits_in_flows_leaves_when_the_mask_is_another_one() {
    for family in FAMILIES {
        for (old, new) in [(by_source(), FlowMask::default()), (FlowMask::default(), by_source())] {
            let config = |mask| QueueConfig { mask, ..QueueConfig::default() };
            let mut lab = Lab::with(PipeConfig { queue: config(old), ..bandwidth(MBIT) });
            lab.pipe(2, bandwidth(MBIT));
            lab.queue(1, QueueConfig { pipe: Some(2), ..config(old) });
            let send = |lab: &mut Lab| {
                for flow in 1..=10 {
                    lab.send(ONE, Of { family, flow, ..Of::len(100) }).unwrap();
                    lab.send(To::Queue(1), Of { family, flow, ..Of::len(100) }).unwrap();
                }
            };
            send(&mut lab);
            lab.pipe(1, PipeConfig { queue: config(new), ..bandwidth(MBIT) });
            lab.queue(1, QueueConfig { pipe: Some(2), ..config(new) });
            send(&mut lab);
            lab.run(Duration::from_secs(1));
            assert_eq!(lab.left.len(), 40);
            let lanes = lab.pipes.show().iter().filter(|state| state.number == 1).count();
            assert_eq!(lanes, if new == by_source() { 10 } else { 1 }, "the old ones are gone");
        }
    }
}

#[test]
fn what_waits_in_a_deleted_pipe_dies_and_its_buffers_come_home() {
    for scheduler in SCHEDULERS {
        let mut lab = Lab::with(PipeConfig { scheduler, delay_ms: Some(100), ..bandwidth(MBIT) });
        lab.queue(1, QueueConfig { pipe: Some(1), ..QueueConfig::default() });
        for number in 0..20 {
            lab.send(ONE, Of { number, ..Of::len(125) }).unwrap();
            lab.send(To::Queue(1), Of { number, ..Of::len(125) }).unwrap();
        }
        lab.run(Duration::from_millis(10));
        lab.delete(1, false);
        assert_eq!(lab.died, [DropReason::PipeGone; 40], "{scheduler:?}");
        assert_eq!((lab.pipes.held(), lab.pool.free()), (0, BUFFERS));
        assert_eq!(lab.send(ONE, Of::len(100)), Err(DropReason::PipeGone));
        lab.run_out();
        lab.pipe(1, bandwidth(MBIT));
        lab.send(To::Queue(1), Of::len(125)).unwrap();
        lab.run_out();
        assert_eq!(lab.left.len(), 1, "it can be made anew");
    }
}

#[test]
fn what_waits_in_a_deleted_queue_dies_and_the_others_go_on() {
    let mut lab = Lab::with(bandwidth(MBIT));
    for number in [1, 2] {
        lab.queue(number, QueueConfig { pipe: Some(1), ..QueueConfig::default() });
    }
    for number in 0..20 {
        lab.send(To::Queue(1), Of { number, ..Of::len(125) }).unwrap();
        lab.send(To::Queue(2), Of { number: 100 + number, ..Of::len(125) }).unwrap();
    }
    lab.delete(1, true);
    assert!(lab.died.len() >= 18 && lab.died.iter().all(|reason| *reason == DropReason::PipeGone));
    lab.run_out();
    assert_eq!(lab.left.len() + lab.died.len(), 40);
    let others: Vec<u32> = lab.numbers().into_iter().filter(|number| *number >= 100).collect();
    assert_eq!(others, (100..120).collect::<Vec<_>>());
}

#[test]
fn whatever_happens_no_buffer_is_lost_and_no_pipe_stands_still() {
    for seed in 0..60 {
        let mut lab = Lab::new();
        let mut dice = Secret::new(seed);
        let mut sent = 0;
        for _ in 0..600 {
            step(&mut lab, &mut dice, &mut sent);
            assert!(lab.pipes.held() <= BUFFERS / SHARE);
        }
        let wait = lab.now + Duration::from_secs(1000);
        lab.run_to(wait);
        assert_eq!(sent, lab.left.len() + lab.died.len(), "seed {seed}");
        assert_eq!((lab.pipes.held(), lab.pool.free()), (0, BUFFERS), "seed {seed}");
    }
}

/// Does a random operation.
fn step(lab: &mut Lab, dice: &mut Secret, sent: &mut usize) {
    let mut below = |n: u64| usize::try_from(dice.below(n)).unwrap();
    let number = u16::try_from(1 + below(3)).unwrap();
    let to = if below(2) == 0 { To::Pipe(number) } else { To::Queue(number) };
    match below(20) {
        0 => {
            let queue = queue_config(&mut below);
            let config = PipeConfig {
                scheduler: [&SCHEDULERS[..], &[Some(fq_codel(10))]].concat()[below(6)],
                delay_ms: Some([0, 1, 50][below(3)]),
                burst: Some([0, 5000][below(2)]),
                reorder: [None, Some(Reorder { share: 1 << 30, by: 1 + u8::try_from(below(9)).unwrap() })]
                    [below(2)],
                queue,
                ..bandwidth([0, 100_000, 10 * MBIT, GBIT][below(4)])
            };
            lab.pipe(number, config);
        }
        1 => {
            let pipe = Some(u16::try_from(1 + below(3)).unwrap());
            let config = QueueConfig { pipe, ..queue_config(&mut below) };
            lab.queue(number, config);
        }
        2 => {
            if lab.config.delete(number, below(2) == 0) {
                lab.configure();
            }
        }
        3..=8 => lab.run(Duration::from_micros(below(20_000) as u64)),
        _ => {
            let (flow, len) = (u16::try_from(below(40)).unwrap(), 40 + below(1460));
            for family in FAMILIES {
                let of = Of { family, flow, ecn: 2, ..Of::len(len) };
                *sent += (0..8).filter(|_| lab.send(to, of).is_ok()).count();
            }
        }
    }
}

fn queue_config(below: &mut impl FnMut(u64) -> usize) -> QueueConfig {
    let codel = Aqm::Codel { target_us: 500, interval_us: 5000, ecn: below(2) == 0 };
    let red = Aqm::Red { weight: 0.1, min: 5, max: 15, max_p: 0.5, gentle: below(2) == 0 };
    QueueConfig {
        weight: Some(u8::try_from(1 + below(100)).unwrap()),
        mask: if below(2) == 0 { by_source() } else { FlowMask::default() },
        buckets: Some(1),
        aqm: [None, Some(red), Some(codel)][below(3)],
        limit: [None, Some(QueueLimit::Bytes(20_000))][below(2)],
        ..QueueConfig::default()
    }
}
