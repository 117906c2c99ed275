//! What is said of a connection.

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
}
