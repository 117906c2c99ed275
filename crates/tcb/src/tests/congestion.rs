//! Duration of transfers: round trips.

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

/// Returns the time until the other end has read `len` bytes.
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

/// An end without RACK that has sent `segments` of 1000 bytes, all in one round trip.
fn counting(segments: u32, settings: Settings) -> Lone {
    let settings = Settings { rack: false, tail_loss_probe: false, mss_max: 1000, ..settings };
    let settings = Settings { initial_segments: segments, send_buffer: 1 << 20, nodelay: true, ..settings };
    let mut end = Lone::connects(settings);
    let options = Options { mss: Some(1000), sack_permitted: true, window_scale: Some(6), ..Options::NONE };
    end.gets_with("S. 0:0(0) ack 1", options);
    end.tcb.send(&bytes(200_000));
    assert_eq!(end.sends().len(), segments as usize);
    end
}

/// The other end has what stands between two bytes of ours, behind a gap.
fn has(end: &mut Lone, left: u32, right: u32) -> Vec<String> {
    let mut options = Options::NONE;
    options.sack.push(SackBlock { left: OURS + left, right: OURS + right });
    end.gets_with(". 1:1(0) ack 1", options)
}

/// Returns how many segments overtake the first until it is retransmitted; each lets another out.
fn overtaken(segments: u32, settings: Settings) -> u32 {
    let mut end = counting(segments, settings);
    let window = end.tcb.info().snd_cwnd;
    for count in 1..segments {
        let sent = has(&mut end, 1001, 1001 + count * 1000);
        if end.tcb.info().recovers {
            assert!(sent[0].contains(" 1:1001(1000)"), "{sent:?}");
            return count;
        }
        assert_eq!((sent.len(), end.tcb.info().snd_cwnd), (1, window), "extended limited transmit");
    }
    panic!("never");
}

#[test]
fn with_more_under_way_more_reordering_is_waited_out_up_to_sixteen_segments() {
    let ncr = Settings::default();
    assert_eq!(overtaken(4, ncr), 3);
    // Each that is overtaken lets a new one out, so that there is more under way each time.
    assert_eq!(overtaken(10, ncr), 8);
    assert_eq!(overtaken(20, ncr), 16);
    assert_eq!(overtaken(30, ncr), 16);
    assert_eq!(overtaken(30, Settings { ncr: false, ..ncr }), 3);
}

#[test]
fn three_gaps_are_as_good_as_three_segments_and_what_was_sent_again_is_not_lost_again() {
    let settings = Settings { ncr: false, ..Settings::default() };
    let mut end = counting(12, settings);
    let mut sent = Vec::new();
    for at in [2001, 4001, 6001] {
        assert!(!end.tcb.info().recovers);
        sent = has(&mut end, at, at + 100);
    }
    let again = |sent: &[String]| sent.iter().filter(|text| text.contains(" 1:1001(1000)")).count();
    assert_eq!((end.tcb.info().recovers, again(&sent)), (true, 1));
    assert_eq!(again(&has(&mut end, 7001, 11_001)), 0);
}

#[test]
fn what_comes_late_but_comes_costs_no_window_where_reordering_is_waited_out() {
    for (ncr, is_reduced) in [(true, false), (false, true)] {
        let mut end = counting(20, Settings { ncr, ..Settings::default() });
        let window = end.tcb.info().snd_cwnd;
        for count in 1..8 {
            has(&mut end, 1001, 1001 + count * 1000);
        }
        end.gets(". 1:1(0) ack 9001");
        let info = end.tcb.info();
        assert_eq!((info.snd_cwnd < window, info.tally.retransmitted > 0), (is_reduced, is_reduced));
    }
}

#[test]
fn with_signature_and_timestamps_there_is_no_sack_and_duplicates_are_counted() {
    let settings = Settings { signs: true, ..Settings::default() };
    let mut end = Lone::connects(settings);
    let stamps = Options { timestamps: Some((1, 0)), ..Options::NONE };
    end.gets_with("S. 0:0(0) ack 1", Options { mss: Some(1460), sack_permitted: true, ..stamps });
    end.tcb.send(&bytes(14 * 1460));
    assert_eq!(end.sends().len(), 10);
    let sent = [(); 3].map(|()| end.gets_with(". 1:1(0) ack 1", stamps));
    assert!(sent[2][0].starts_with(". 1:1429(1428)"), "{sent:?}");
    end.gets_with("P. 1001:1101(100) ack 1", stamps);
    let now = end.now;
    assert!(end.tcb.options(now).sack.as_slice().is_empty());
    // Without timestamps there is room for two.
    let mut end = Lone::connects(Settings { extensions: Extensions::Off, ..settings });
    end.gets_with("S. 0:0(0) ack 1", Options { mss: Some(1460), sack_permitted: true, ..Options::NONE });
    for at in [1001, 3001, 5001] {
        end.gets(&format!("P. {at}:{}(100) ack 1", at + 100));
    }
    let options = end.tcb.options(now);
    assert_eq!((options.sack.as_slice().len(), options.len()), (2, 40));
}

#[test]
fn a_loss_in_a_window_that_was_reduced_for_a_mark_does_not_reduce_it_again() {
    let settings =
        Settings { ecn: Ecn::Active, extensions: Extensions::Off, sack: false, ..Settings::default() };
    let mut end = Lone::connects(settings);
    end.gets("SE. 0:0(0) ack 1");
    end.tcb.send(&bytes(20_000));
    end.sends();
    let before = end.tcb.info().snd_cwnd;
    end.gets("E. 1:1(0) ack 1461");
    let reduced = end.tcb.info().snd_cwnd;
    assert!(reduced < before, "{reduced} of {before}");
    let sent: Vec<_> = (0..3).flat_map(|_| end.gets(". 1:1(0) ack 1461")).collect();
    assert!(end.tcb.info().recovers && sent.iter().any(|text| text.contains(" 1461:2921(1460)")), "{sent:?}");
    assert_eq!(end.tcb.info().snd_cwnd, reduced);
    // What was under way when the mark was heard has come: what is lost now is another matter.
    end.gets(". 1:1(0) ack 14601");
    end.tcb.send(&bytes(20_000));
    end.sends();
    let grown = end.tcb.info().snd_cwnd;
    (0..3).for_each(|_| _ = end.gets(". 1:1(0) ack 14601"));
    assert!(end.tcb.info().recovers && end.tcb.info().snd_cwnd < grown);
}

/// A connection with segments of 1000 bytes, of which nothing is under way yet.
fn with_thousands() -> Lone {
    let mut end =
        Lone::connects(Settings { extensions: Extensions::Off, sack: false, ..Settings::default() });
    end.gets_with("S. 0:0(0) ack 1", Options { mss: Some(1000), ..Options::NONE });
    assert_eq!(end.tcb.info().snd_cwnd, 10_000);
    end
}

#[test]
fn in_slow_start_the_window_grows_to_twice_of_what_the_program_has_had_under_way() {
    for (sent, grown) in [(4000, 10_000), (5000, 10_000), (6000, 12_000), (9000, 18_000), (10_000, 20_000)] {
        let mut end = with_thousands();
        end.tcb.send(&bytes(sent));
        end.sends();
        for ack in (2001..=sent).step_by(2000).chain([sent + 1]) {
            end.gets(&format!(". 1:1(0) ack {ack}"));
        }
        assert_eq!(end.tcb.info().snd_cwnd, grown, "{sent} bytes");
    }
}

#[test]
fn what_was_used_of_the_window_long_ago_does_not_let_it_grow() {
    let mut end = with_thousands();
    end.tcb.send(&bytes(10_000));
    end.sends();
    end.gets(". 1:1(0) ack 10001");
    assert_eq!(end.tcb.info().snd_cwnd, 20_000);
    for piece in 1..20_u32 {
        end.tcb.send(&bytes(1000));
        end.sends();
        end.gets(&format!(". 1:1(0) ack {}", 10_001 + 1000 * piece));
    }
    assert_eq!(end.tcb.info().snd_cwnd, 20_000);
}

#[test]
fn what_leaves_as_one_for_the_device_to_cut_is_pushed_though_more_waits() {
    let settings = Settings { super_bytes: 60_000, ..Settings::default() };
    for (settings, flags) in [(settings, "P."), (Settings::default(), ".")] {
        let mut end = Lone::connects(Settings { extensions: Extensions::Off, sack: false, ..settings });
        end.gets("S. 0:0(0) ack 1");
        end.tcb.send(&bytes(30_000));
        let first = end.sends().remove(0);
        assert!(first.starts_with(&format!("{flags} 1:")), "{first}");
    }
}
