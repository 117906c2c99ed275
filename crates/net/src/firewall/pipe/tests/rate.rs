use super::*;

/// When the last bit of `bytes` is sent, nanoseconds after the first.
fn sent_after(bytes: u64, bandwidth: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(bandwidth)).unwrap()
}

#[test]
fn a_full_pipe_sends_its_bandwidth_to_the_nanosecond() {
    let slow = [8000, 56_000, MBIT, 3 * MBIT + 1];
    let fast = [GBIT, 7 * GBIT + 3, 100 * GBIT];
    for (bandwidth, packets) in slow.map(|b| (b, 500)).into_iter().chain(fast.map(|b| (b, 50_000))) {
        for len in [64, 577, 1500] {
            for family in FAMILIES {
                let mut lab = Lab::with(super::bandwidth(bandwidth));
                let (begin, of) = (lab.now, Of { family, ..Of::len(len) });
                for _ in 0..20 {
                    lab.send(ONE, of).unwrap();
                }
                while lab.left.len() < packets {
                    let before = lab.left.len();
                    lab.now = lab.pipes.own.next().max(lab.now);
                    lab.due(1);
                    (before..lab.left.len()).for_each(|_| lab.send(ONE, of).unwrap());
                }
                let times = lab.times(begin);
                for (n, at) in (1..).zip(times) {
                    assert_eq!(at, sent_after(n * len as u64, bandwidth), "packet {n} at {bandwidth} bit/s");
                }
            }
        }
    }
}

#[test]
fn a_rarely_polled_account_grants_as_much_as_an_often_polled_one() {
    let mut lab = Lab::with(bandwidth(100 * MBIT));
    let begin = lab.now;
    // A packet of 1250 bytes takes 100 µs; the queue of 50 holds out for 5 ms.
    for _ in 0..1000 {
        while lab.send(ONE, Of::len(1250)).is_ok() {}
        lab.now = lab.now + Duration::from_millis(3);
        lab.due(1000);
    }
    let (sent, span) = (lab.left.len() as u64, lab.now.since(begin).as_micros() / 100);
    assert!(u128::from(sent).abs_diff(span) <= 1, "{sent} packets of {span}");
}

#[test]
fn an_idle_pipe_accumulates_no_debt() {
    let mut lab = Lab::with(bandwidth(MBIT));
    lab.run(Duration::from_secs(10));
    let begin = lab.now;
    (0..3).for_each(|_| lab.send(ONE, Of::len(125)).unwrap());
    lab.run_out();
    assert_eq!(lab.times(begin), [1_000_000, 2_000_000, 3_000_000]);
}

#[test]
fn a_packet_leaves_when_it_is_sent_and_the_delay_has_passed_not_earlier_and_not_later() {
    for family in FAMILIES {
        for (bandwidth, sent_ns) in [(0, 0), (8 * MBIT, 1_000_000)] {
            let delay = PipeConfig { delay_ms: Some(30), ..super::bandwidth(bandwidth) };
            let mut lab = Lab::with(delay);
            let begin = lab.now;
            lab.send(ONE, Of { family, ..Of::len(1000) }).unwrap();
            lab.run(Duration::from_millis(10));
            lab.send(ONE, Of { family, ..Of::len(1000) }).unwrap();
            lab.run_out();
            assert_eq!(lab.times(begin), [30_000_000 + sent_ns, 40_000_000 + sent_ns]);
        }
    }
}

#[test]
fn the_longest_delay_that_can_be_said_is_kept() {
    let delay_ms = Some(ipfw::limit::DELAY_MAX_MS);
    let mut lab = Lab::with(PipeConfig { delay_ms, ..PipeConfig::default() });
    let begin = lab.now;
    lab.send(ONE, Of::len(125)).unwrap();
    lab.run(Duration::from_secs(61));
    assert_eq!(lab.times(begin), [60_000_000_000]);
}

#[test]
fn without_bandwidth_and_delay_a_packet_leaves_at_once() {
    let mut lab = Lab::with(PipeConfig::default());
    let begin = lab.now;
    (0..100).for_each(|_| lab.send(ONE, Of::len(1500)).unwrap());
    assert!(lab.pipes.deadline() <= lab.now + WAKE);
    lab.due(1000);
    assert_eq!(lab.times(begin), [0; 100]);
}

#[test]
fn a_burst_passes_at_once_after_an_idle_time_and_then_the_bandwidth_holds() {
    let burst = PipeConfig { burst: Some(5000), ..bandwidth(8 * MBIT) };
    let mut lab = Lab::with(burst);
    for _ in 0..2 {
        lab.run(Duration::from_secs(1));
        let begin = lab.now;
        lab.left.clear();
        (0..8).for_each(|_| lab.send(ONE, Of::len(1000)).unwrap());
        lab.run_out();
        assert_eq!(lab.times(begin), [0, 0, 0, 0, 0, 1_000_000, 2_000_000, 3_000_000]);
    }
}

#[test]
fn a_sleeping_cpu_is_woken_at_most_every_50_microseconds_and_misses_nothing() {
    let mut lab = Lab::with(bandwidth(GBIT));
    let mut wakes: Vec<u64> = Vec::new();
    let begin = lab.now;
    while lab.left.len() < 2000 {
        while lab.send(ONE, Of::len(1500)).is_ok() {}
        lab.now = lab.pipes.deadline();
        lab.due(1000);
        wakes.push(lab.now.ns());
    }
    assert!(wakes.windows(2).all(|pair| pair[1] - pair[0] >= 50_000));
    let wanted = lab.now.since(begin).as_nanos() / 12_000;
    assert!((lab.left.len() as u128).abs_diff(wanted) <= 1, "{} packets of {wanted}", lab.left.len());
}

#[test]
fn one_call_takes_no_more_steps_than_it_may_and_the_rest_is_due_at_once() {
    let mut lab = Lab::with(PipeConfig { delay_ms: Some(1), ..PipeConfig::default() });
    (0..100).for_each(|number| lab.send(ONE, Of { number, ..Of::len(100) }).unwrap());
    lab.now = lab.now + Duration::from_millis(1);
    for _ in 0..10 {
        assert!(lab.due(10) <= 10);
        assert!(lab.left.len() == 100 || lab.pipes.deadline() <= lab.now);
    }
    lab.due(1000);
    assert_eq!(lab.numbers(), (0..100).collect::<Vec<_>>());
}
