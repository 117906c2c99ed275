//! How fast it goes: round trips that a transfer takes.

use super::*;

/// Two ends with room for all there is, so that nothing but the congestion window holds them back.
fn roomy(settings: Settings) -> Pair {
    let buffer = 2 << 20;
    let settings = Settings { receive_buffer: buffer, send_buffer: buffer, nodelay: true, ..settings };
    let mut pair = Pair::begin([settings; 2], 0, 1);
    pair.run_for(3 * DELAY);
    pair.seen.clear();
    pair
}

/// How long it takes until the other end has read `len` bytes.
fn carry(pair: &mut Pair, len: usize) -> Duration {
    let (from, all, mut sent, mut read) = (pair.now, bytes(len), 0, 0);
    let mut into = vec![0; len];
    loop {
        sent += pair.ends[0].send(&all[sent..]);
        read += pair.ends[1].read(&mut into);
        if read == len {
            return pair.now.since(from);
        }
        pair.flush();
        pair.step().unwrap();
    }
}

#[test]
fn a_megabyte_takes_as_many_round_trips_as_doubling_needs() {
    // 691 segments: ten, then twice as many each time, so that the last is in the seventh flight.
    let took = carry(&mut roomy(Settings::default()), 1_000_000);
    assert_eq!(took, 13 * DELAY);
    // Buffers that grow on the way hold it back a little.
    let took = carry(&mut Pair::established(), 1_000_000);
    assert!(took <= 24 * DELAY, "{took:?}");
}

#[test]
fn what_a_timeout_has_found_lost_is_sent_again_in_slow_start() {
    let mut pair = roomy(Settings::default());
    pair.ends[0].send(&bytes(64 * 1448));
    pair.flush();
    pair.run_for(2 * DELAY);
    // Twenty segments are under way, and none arrives.
    pair.wire[1].clear();
    let from = pair.now;
    while pair.ends[1].readable() < 64 * 1448 {
        pair.step().unwrap();
    }
    let took = pair.now.since(from);
    // One segment, two, three …: a window of 20 takes 6 round trips, the 34 that follow 4 more, and the timer 220 ms.
    assert!(took < 220 * MS + 24 * DELAY, "{took:?}");
}
