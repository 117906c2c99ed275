use ipfw::command::{Aqm, QueueLimit};

use super::*;

fn queue(queue: QueueConfig) -> PipeConfig {
    PipeConfig { queue, ..bandwidth(MBIT) }
}

/// Returns how many of `packets` are admitted.
fn let_in(lab: &mut Lab, packets: usize, of: Of) -> usize {
    (0..packets).filter(|_| lab.send(ONE, of).is_ok()).count()
}

#[test]
fn a_queue_has_fifty_slots_or_what_was_said_and_the_newest_is_dropped() {
    for (limit, slots) in [(None, 50), (Some(1), 1), (Some(100), 100), (Some(101), 50), (Some(0), 50)] {
        let limit = limit.map(QueueLimit::Packets);
        let mut lab = Lab::with(queue(QueueConfig { limit, ..QueueConfig::default() }));
        // One is being sent.
        assert_eq!(let_in(&mut lab, 200, Of::len(1500)), slots + 1);
        assert_eq!(lab.send(ONE, Of::len(64)), Err(DropReason::PipeFull));
        assert_eq!(lab.pipes.show()[0].queues[0].count.drops, (200 - slots) as u64);
    }
}

#[test]
fn a_queue_of_bytes_takes_the_packet_that_crosses_the_limit_and_none_after() {
    let limit = Some(QueueLimit::Bytes(4500));
    let mut lab = Lab::with(queue(QueueConfig { limit, ..QueueConfig::default() }));
    assert_eq!(let_in(&mut lab, 10, Of::len(1000)), 1 + 5);
    lab.run_out();
    let limit = Some(QueueLimit::Bytes(u32::MAX));
    lab.pipe(1, queue(QueueConfig { limit, ..QueueConfig::default() }));
    assert_eq!(let_in(&mut lab, 1000, Of::len(2000)), 1 + 525, "a mebibyte at the most");
}

#[test]
fn as_many_packets_are_lost_by_chance_as_was_asked_for() {
    for percent in [1, 50, 90] {
        let (share, loss) = (f64::from(percent) / 100.0, Some(u32::MAX / 100 * percent));
        let mut lab = Lab::with(PipeConfig {
            queue: QueueConfig { loss, ..QueueConfig::default() },
            ..PipeConfig::default()
        });
        let mut lost = 0.0;
        for _ in 0..20_000 {
            lost += f64::from(u8::from(lab.send(ONE, Of::len(64)) == Err(DropReason::PipeLoss)));
            lab.due(10);
        }
        // Six standard deviations.
        let deviation = (20_000.0 * share * (1.0 - share)).sqrt();
        assert!((lost - 20_000.0 * share).abs() < 6.0 * deviation, "{lost} of 20000 at {share}");
    }
    let all = QueueConfig { loss: Some(u32::MAX), ..QueueConfig::default() };
    let mut lab = Lab::with(PipeConfig { queue: all, ..PipeConfig::default() });
    assert_eq!(let_in(&mut lab, 1000, Of::len(64)), 0);
}

#[test]
fn noerror_says_so_of_each_drop() {
    for noerror in [false, true] {
        let limit = Some(QueueLimit::Packets(1));
        let mut lab = Lab::with(queue(QueueConfig { limit, noerror, ..QueueConfig::default() }));
        let_in(&mut lab, 2, Of::len(100));
        let pkt = packet(&mut lab.pool, Of::len(100));
        let info = info(Of::len(100));
        let refused = lab.pipes.enqueue(ONE, &info, pkt, 0, lab.now, &mut lab.secret);
        let Err(Refused::Drop { pkt, reason, is_silent }) = refused else { panic!("it is full") };
        lab.pool.give(pkt);
        assert_eq!((reason, is_silent), (DropReason::PipeFull, noerror));
    }
}

#[test]
fn red_drops_before_the_queue_is_full() {
    for gentle in [false, true] {
        let aqm = Some(Aqm::Red { weight: 0.1, min: 5, max: 20, max_p: 0.2, gentle });
        let mut lab = Lab::with(queue(QueueConfig { aqm, ..QueueConfig::default() }));
        let mut early = 0;
        for _ in 0..2000 {
            // Twice what can be sent.
            for _ in 0..2 {
                match lab.send(ONE, Of::len(125)) {
                    Err(DropReason::PipeFull) => panic!("longer than it should ever be"),
                    Err(reason) => early += usize::from(reason == DropReason::PipeEarly),
                    Ok(()) => {}
                }
            }
            lab.run(Duration::from_millis(1));
        }
        assert!((1900..2100).contains(&early), "what cannot be sent: {early}");
        let waiting = lab.pipes.show()[0].queues[0].packets;
        assert!((5..45).contains(&waiting), "{waiting}");
    }
}

#[test]
fn codel_drops_what_waited_too_long_or_marks_it() {
    for family in FAMILIES {
        for ecn in [false, true] {
            let aqm = Some(Aqm::Codel { target_us: 5000, interval_us: 100_000, ecn });
            let limit = Some(QueueLimit::Packets(100));
            let mut lab = Lab::with(queue(QueueConfig { aqm, limit, ..QueueConfig::default() }));
            let of = Of { family, ecn: 2, ..Of::len(125) };
            (0..40).for_each(|_| lab.send(ONE, of).unwrap());
            for _ in 0..1000 {
                let _ = lab.send(ONE, of);
                lab.run(Duration::from_millis(1));
            }
            let marked = lab.pipes.marked();
            if ecn {
                assert!(marked > 5 && lab.died.is_empty(), "{marked}");
            } else {
                assert!(marked == 0 && lab.died.len() > 5);
                assert!(lab.died.iter().all(|reason| *reason == DropReason::PipeCodel));
            }
        }
    }
}

#[test]
fn pipes_leave_most_buffers_to_others_and_one_pipe_leaves_as_many_to_other_pipes() {
    let delay = PipeConfig { delay_ms: Some(1000), ..PipeConfig::default() };
    let mut lab = Lab::with(delay.clone());
    lab.pipe(2, delay);
    assert_eq!(let_in(&mut lab, BUFFERS / 2, Of::len(100)), BUFFERS / SHARE / 2);
    assert_eq!(lab.send(ONE, Of::len(100)), Err(DropReason::PipeBuffers));
    assert_eq!(lab.send(To::Pipe(2), Of::len(100)), Ok(()), "there is room for others");
    let others = (0..BUFFERS / 2).filter(|_| lab.send(To::Pipe(2), Of::len(100)).is_ok()).count();
    assert!(others > BUFFERS / SHARE / 8 && lab.pipes.held() <= BUFFERS / SHARE);
    lab.run_out();
    assert_eq!(lab.pipes.held(), 0);
}

#[test]
fn a_rule_that_names_no_pipe_loses_its_packets() {
    let mut lab = Lab::with(bandwidth(MBIT));
    lab.queue(3, QueueConfig { pipe: Some(4), ..QueueConfig::default() });
    for to in [To::Pipe(2), To::Pipe(0), To::Pipe(u16::MAX), To::Queue(1), To::Queue(3)] {
        assert_eq!(lab.send(to, Of::len(100)), Err(DropReason::PipeGone), "{to:?}");
    }
    lab.pipe(4, bandwidth(MBIT));
    assert_eq!(lab.send(To::Queue(3), Of::len(100)), Ok(()), "the pipe may come later");
}

#[test]
fn a_configuration_that_cannot_be_is_refused_and_changes_nothing() {
    let mut config = Config::new(1);
    assert_eq!(config.set_pipe(0, &PipeConfig::default()), Err(ConfigError::Number));
    assert_eq!(config.set_queue(1, &QueueConfig::default()), Err(ConfigError::NoPipe));
    assert!(!config.delete(1, false) && config.pipe(1).is_none());
}

#[test]
fn as_many_pipes_as_there_may_be_and_no_more() {
    let mut config = Config::new(1);
    let first = u16::MAX - 4095;
    for number in first..=u16::MAX {
        config.set_pipe(number, &PipeConfig::default()).unwrap();
        config.set_queue(number, &QueueConfig { pipe: Some(1), ..QueueConfig::default() }).unwrap();
    }
    assert_eq!(config.set_pipe(1, &PipeConfig::default()), Err(ConfigError::TooMany));
    let queue = QueueConfig { pipe: Some(1), ..QueueConfig::default() };
    assert_eq!(config.set_queue(1, &queue), Err(ConfigError::TooMany));
    assert!(config.delete(first + 7, false));
    config.set_pipe(1, &PipeConfig::default()).unwrap();
    for number in [1, first, first + 6, first + 8, u16::MAX] {
        assert_eq!(config.pipe(number).unwrap().number, number);
    }
}
