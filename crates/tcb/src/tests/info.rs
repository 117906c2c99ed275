//! Connection information.

use core::time::Duration;

use super::super::*;
use super::{DELAY, Pair, bytes};

#[test]
fn it_says_what_was_agreed_and_what_is_under_way() {
    let mut pair = Pair::established();
    pair.ends[0].send(&bytes(20_000));
    pair.flush();
    let info = pair.ends[0].info();
    assert_eq!(
        (info.state, info.timestamps, info.sack, info.window_scale),
        (State::Established, true, true, Some((6, 6)))
    );
    assert_eq!((info.snd_mss, info.snd_cwnd, info.snd_ssthresh), (1448, 14_480, u32::MAX));
    assert_eq!((info.unacknowledged, info.unsent), (14_480, 5520));
    assert_eq!((info.snd_nxt.wrapping_sub(info.snd_una), info.backoffs, info.recovers), (14_480, 0, false));
    assert_eq!((info.rtt, info.rtt_least), (Some(DELAY), Some(DELAY)));
    assert_eq!(info.snd_wnd, 65_535);
    pair.run_for(20 * DELAY);
    let [ours, theirs] = [pair.ends[0].info(), pair.ends[1].info()];
    assert_eq!((ours.tally.bytes_acknowledged, theirs.tally.bytes_received), (20_000, 20_000));
    assert_eq!((ours.tally.data_segments_out, theirs.tally.data_segments_in), (14, 14));
    assert_eq!((ours.snd_una, theirs.rcv_nxt), (theirs.rcv_nxt, ours.snd_nxt));
    assert_eq!(
        (ours.tally.retransmitted, theirs.tally.out_of_order, theirs.rcv_wnd),
        (0, 0, 65_700 - 20_000)
    );
}

#[test]
fn it_says_what_was_lost_and_sent_again() {
    let mut pair = Pair::established();
    pair.ends[0].send(&bytes(14_480));
    pair.flush();
    pair.wire[1].remove(2);
    while pair.ends[1].readable() < 14_480 {
        pair.step().unwrap();
    }
    let [ours, theirs] = [pair.ends[0].info(), pair.ends[1].info()];
    assert!(ours.recovers && ours.snd_ssthresh < 14_480 && ours.sacked > 0);
    assert_eq!((ours.tally.retransmitted, theirs.tally.out_of_order), (1, 7));
    let news = [0, 1].map(|end| pair.ends[end].take_news());
    let none = HostCounts::default();
    assert_eq!(news, [Some(HostCounts { again: 1, ..none }), Some(HostCounts { out_of_order: 7, ..none })]);
    assert_eq!([0, 1].map(|end| pair.ends[end].take_news()), [None; 2], "it is told once");
}

#[test]
fn it_says_how_long_it_has_waited_for_what() {
    let fixed = Settings { tunes_receive: false, ..Settings::default() };
    let mut pair = Pair::begin([Settings::default(), fixed], 0, 1);
    pair.run_for(3 * DELAY);
    let since = pair.now;
    let times = |pair: &Pair| pair.ends[0].times(pair.now);
    assert_eq!((times(&pair).busy, pair.ends[0].info().tally.delivered), (Duration::ZERO, 1));
    // Nearly all that the other end takes, whose program reads nothing for a while.
    for _ in 0..2 {
        pair.ends[0].send(&bytes(32_000));
        pair.flush();
        pair.run_for(20 * DELAY);
    }
    let open = times(&pair);
    assert!((4 * DELAY..20 * DELAY).contains(&open.busy) && open.shut_out == Duration::ZERO, "{open:?}");
    assert!(open.ack_came < 20 * DELAY && open.data_sent > open.ack_came, "{open:?}");
    pair.ends[0].send(&bytes(10_000));
    pair.flush();
    pair.run_for(100 * DELAY);
    let shut = times(&pair);
    assert!(shut.shut_out > 80 * DELAY && shut.busy >= shut.shut_out + open.busy, "{shut:?}");
    while pair.ends[1].read(&mut [0; 4000]) > 0 {}
    pair.flush();
    pair.run_for(20 * DELAY);
    let after = times(&pair);
    assert!(after.shut_out < shut.shut_out + 4 * DELAY && after.full == Duration::ZERO, "{after:?}");
    assert!(after.data_came >= pair.now.since(since), "no data ever came");
    let [ours, theirs] = pair.ends.each_ref().map(|end| end.info().tally);
    assert_eq!((theirs.bytes_received, pair.ends[0].queued()), (74_000, 0));
    assert!((52..=70).contains(&ours.delivered), "{} segments, and the SYN", ours.delivered);
    assert_eq!(ours.delivered_marked, 0);
    assert_eq!(pair.ends[1].times(pair.now).busy, Duration::ZERO, "it has sent nothing");
}
