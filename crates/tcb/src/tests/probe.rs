//! Tail loss probes.

use super::*;

const SEGMENT: usize = 1448;

/// Sends so many segments, of which the last `lost` do not arrive. A round trip takes 20 ms, though the first one took 10:
/// no data waited for the SYN.
fn sends(settings: Settings, segments: usize, lost: usize) -> Pair {
    let mut pair = Pair::begin([settings; 2], 0, 1);
    pair.run_for(3 * DELAY);
    pair.seen.clear();
    pair.ends[0].send(&bytes(segments * SEGMENT));
    pair.flush();
    let arrive = pair.wire[1].len() - lost;
    pair.wire[1].truncate(arrive);
    pair
}

/// Returns the time until the other end can read so much.
fn arrives(pair: &mut Pair, len: usize) -> Duration {
    let from = pair.now;
    while pair.ends[1].readable() < len {
        pair.step().unwrap();
    }
    pair.now.since(from)
}

/// Sends a little more, and waits until it is acknowledged.
fn goes_on(pair: &mut Pair) {
    pair.ends[0].send(b"more");
    pair.flush();
    pair.run_for(10 * DELAY);
}

#[test]
fn a_tail_that_was_lost_is_found_by_a_probe_and_not_by_the_timer() {
    let timer = Settings { tail_loss_probe: false, ..Settings::default() };
    assert!(arrives(&mut sends(timer, 10, 3), 10 * SEGMENT) > 220 * MS);
    let mut pair = sends(Settings::default(), 10, 3);
    // The acknowledgment of seven comes after 20 ms, and the probe goes out two smoothed round trips of 11.25 ms later;
    // that it has come is known 20 ms after that. Of the two that are missing one arrives 10 ms later; the other is sent when
    // that is acknowledged, since nothing else is under way any more.
    assert_eq!(arrives(&mut pair, 10 * SEGMENT), Duration::from_micros(92_500));
    let again = pair.ends[0].tally.retransmitted;
    assert!((3..=4).contains(&again), "the last one, and what was missing before it: {again}");
    assert!(pair.ends[0].congestion.window() >= 2 * 1448, "the window is not that of a timeout");
}

#[test]
fn a_probe_that_has_repaired_a_loss_costs_what_a_loss_costs() {
    let mut pair = sends(Settings::default(), 10, 1);
    arrives(&mut pair, 10 * SEGMENT);
    pair.run_for(6 * DELAY);
    assert_eq!(pair.ends[0].sent.unacknowledged(), 0);
    assert_eq!(pair.ends[0].tally.retransmitted, 1);
    assert_eq!(pair.ends[0].congestion.threshold(), u32::MAX, "it may have come twice");
    goes_on(&mut pair);
    assert!(pair.ends[0].congestion.threshold() < 10 * 1448, "it has not");
}

#[test]
fn a_probe_that_has_come_twice_costs_nothing() {
    let mut pair = sends(Settings::default(), 3, 0);
    pair.step().unwrap();
    pair.wire[0].clear();
    pair.run_for(8 * DELAY);
    assert_eq!((pair.ends[0].tally.retransmitted, pair.ends[0].sent.unacknowledged()), (1, 0));
    goes_on(&mut pair);
    assert_eq!(pair.ends[0].congestion.threshold(), u32::MAX);
}

#[test]
fn something_new_is_a_better_probe_and_needs_no_congestion_window() {
    let mut pair = sends(Settings::default(), 12, 10);
    assert_eq!(pair.seen.len(), 10);
    pair.run_for(2 * DELAY);
    assert_eq!(shown(&pair).last().unwrap(), "> . 14481(1448) ack 1");
    assert_eq!(pair.ends[0].tally.retransmitted, 0);
}

#[test]
fn after_one_probe_the_timer_has_the_word() {
    let mut pair = sends(Settings::default(), 3, 3);
    pair.loss = 1000;
    let rto = pair.ends[0].rtt.rto();
    pair.run_for(2 * DELAY + rto - MS);
    assert_eq!(shown(&pair)[3..], ["> P. 2897(1448) ack 1"]);
    pair.run_for(MS + rto);
    assert_eq!(shown(&pair)[4..], ["> . 1(1448) ack 1"]);
}

#[test]
fn without_sack_nothing_is_probed() {
    let mut pair = sends(Settings { sack: false, ..Settings::default() }, 3, 3);
    pair.run_for(10 * DELAY);
    assert_eq!(pair.seen.len(), 3);
}
