//! How fast it goes: round trips that a transfer takes.

use wire::tcp::SackBlock;

use super::lone::{Lone, OURS};
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

/// One end that has sent ten segments of fourteen, with blocks of SACK or without, and a round trip of 20 ms.
fn ten_of_fourteen(sack: bool) -> Lone {
    let mut end = Lone::connects(Settings { sack, ..Settings::default() });
    end.waits(20 * MS);
    end.gets_with("S. 0:0(0) ack 1", Options { mss: Some(1460), sack_permitted: sack, ..Options::NONE });
    end.tcb.send(&bytes(14 * 1460));
    assert_eq!(end.sends().len(), 10);
    end.waits(20 * MS);
    end
}

/// It hears again that the other end waits for the first segment; if `sack`, that it has those up to `behind`.
fn misses_the_first(end: &mut Lone, sack: bool, behind: u32) -> Vec<String> {
    let mut blocks = Options::NONE;
    if sack {
        blocks.sack.push(SackBlock { left: OURS + 1461, right: OURS + 1 + behind * 1460 });
    }
    end.gets_with(". 1:1(0) ack 1", blocks)
}

/// Limited transmit (RFC 3042).
#[test]
fn each_of_the_first_two_duplicates_lets_a_new_segment_out_and_the_third_repairs() {
    for sack in [false, true] {
        let mut end = ten_of_fourteen(sack);
        let window = end.tcb.congestion.window();
        let first = misses_the_first(&mut end, sack, 2);
        let second = misses_the_first(&mut end, sack, 3);
        assert_eq!(first, [". 14601:16061(1460) ack 1 win 65535"], "{sack}");
        assert_eq!(second, [". 16061:17521(1460) ack 1 win 65535"], "{sack}");
        assert_eq!(end.tcb.congestion.window(), window, "which stays as it is");
        let third = misses_the_first(&mut end, sack, 4);
        assert_eq!(third[0], ". 1:1461(1460) ack 1 win 65535", "{sack}");
    }
}
