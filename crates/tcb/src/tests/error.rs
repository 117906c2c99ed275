//! ICMP errors.

use core::time::Duration;

use super::super::*;
use super::lone::{Lone, OURS};
use super::{DELAY, Pair, bytes};
use State::*;

#[test]
fn a_hard_error_about_what_is_under_way_ends_what_does_not_stand_yet() {
    let mut end = Lone::in_state(SynSent, Settings::default());
    for seq in [OURS - 1, OURS + 1] {
        end.tcb.path_error(seq, PathError::Hard, end.now);
        assert_eq!(end.tcb.state(), SynSent, "it is not about our SYN");
    }
    end.tcb.path_error(OURS, PathError::Soft, end.now);
    assert_eq!(end.tcb.state(), SynSent);
    end.tcb.path_error(OURS, PathError::Hard, end.now);
    assert_eq!((end.tcb.state(), end.tcb.ended()), (Closed, Some(Ended::Refused)));
}

#[test]
fn where_errors_end_nothing_a_hard_one_is_only_the_reason_for_the_silence() {
    let mut end = Lone::in_state(SynSent, Settings { icmp_may_rst: false, ..Settings::default() });
    end.tcb.path_error(OURS, PathError::Hard, end.now);
    assert_eq!(end.tcb.state(), SynSent);
    end.waits(Duration::from_secs(181));
    assert_eq!(end.tcb.ended(), Some(Ended::Unreachable));
}

#[test]
fn a_connection_that_stands_goes_on_and_the_error_is_told_if_it_ends_in_silence() {
    for error in [PathError::Hard, PathError::Soft] {
        let mut end = Lone::in_state(Established, Settings::default());
        end.tcb.send(b"hello?");
        end.sends();
        end.tcb.path_error(OURS + 1, error, end.now);
        assert_eq!(end.tcb.state(), Established);
        end.waits(Duration::from_secs(3600));
        assert_eq!(end.tcb.ended(), Some(Ended::Unreachable));
    }
}

#[test]
fn an_answer_takes_the_doubt_away() {
    let mut end = Lone::in_state(Established, Settings::default());
    end.tcb.send(b"hello?");
    end.sends();
    end.tcb.path_error(OURS + 1, PathError::Soft, end.now);
    assert!(end.gets(". 1:1(0) ack 7").is_empty());
    end.tcb.send(b"hello?");
    end.sends();
    end.waits(Duration::from_secs(3600));
    assert_eq!(end.tcb.ended(), Some(Ended::TimedOut));
}

#[test]
fn segments_that_are_too_long_for_the_path_are_sent_again_shorter() {
    let mut pair = Pair::established();
    let cwnd = pair.ends[0].info().snd_cwnd;
    pair.ends[0].send(&bytes(4000));
    pair.flush();
    pair.wire[1].clear();
    let una = pair.ends[0].info().snd_una;
    let (seq, now) = (una, pair.now);
    pair.ends[0].path_error(seq, PathError::TooBig(1000), now);
    // A router that says less than any path takes lies, and one that says more says nothing.
    let (seq, now) = (una, pair.now);
    pair.ends[0].path_error(seq, PathError::TooBig(2000), now);
    pair.seen.clear();
    pair.flush();
    let lens: Vec<_> = pair.seen.iter().map(|(_, _, len)| *len).collect();
    assert_eq!(lens, [988, 988, 988, 988, 48]);
    assert_eq!(pair.ends[0].info().snd_cwnd, cwnd, "that was no congestion");
    pair.run_for(20 * DELAY);
    assert_eq!(pair.ends[1].readable(), 4000);
    let (seq, now) = (pair.ends[0].info().snd_nxt - 1, pair.now);
    pair.ends[0].path_error(seq, PathError::TooBig(68), now);
    assert_eq!(pair.ends[0].info().snd_mss, 988, "it is not about what is under way");
    pair.ends[0].send(b"x");
    pair.flush();
    let (seq, now) = (pair.ends[0].info().snd_una, pair.now);
    pair.ends[0].path_error(seq, PathError::TooBig(68), now);
    assert_eq!(pair.ends[0].info().snd_mss, 216 - 12);
}

#[test]
fn what_was_no_longer_than_the_path_takes_was_not_dropped_for_that() {
    let mut end = Lone::connects(Settings::default());
    end.tcb.path_error(OURS, PathError::TooBig(1200), end.now);
    assert!(end.sends().is_empty(), "a SYN is short");
    for (count, again) in [(1250, 0), (1251, 2)] {
        let mut end = Lone::in_state(Established, Settings::default());
        end.tcb.send(&bytes(count));
        end.sends();
        end.tcb.path_error(OURS + 1, PathError::TooBig(1250), end.now);
        assert_eq!(end.sends().len(), again, "{count}");
    }
}

#[test]
fn from_the_third_repetition_in_vain_on_each_doubts_the_first_hop_until_something_is_heard() {
    let settings = Settings { tail_loss_probe: false, ..Settings::default() };
    for state in [SynSent, Established] {
        let mut end = Lone::in_state(state, settings);
        end.tcb.send(b"hello?");
        end.sends();
        let repeats = |end: &mut Lone| {
            end.now = end.tcb.deadline();
            end.tcb.expire(end.now);
            assert_eq!(end.sends().len(), 1, "{state:?}");
            end.tcb.doubts()
        };
        assert_eq!([(); 5].map(|()| repeats(&mut end)), [false, false, true, true, true], "{state:?}");
        assert!(!end.tcb.doubts(), "said once");
        if state == Established {
            end.gets(". 1:1(0) ack 7");
            end.tcb.send(b"and now?");
            end.sends();
            assert_eq!([(); 3].map(|()| repeats(&mut end)), [false, false, true]);
        }
    }
}

/// A connection that has measured its round trip, and whose full segment has left.
fn with_a_full_segment() -> Pair {
    let mut pair = Pair::established();
    pair.ends[0].send(&bytes(1000));
    pair.flush();
    pair.run_for(10 * DELAY);
    pair.ends[0].send(&bytes(2 * 1448));
    pair.flush();
    assert_eq!(pair.ends[0].told_path(), None);
    pair
}

fn tell(pair: &mut Pair, mss: u16) {
    let (seq, now) = (pair.ends[0].info().snd_una, pair.now);
    pair.ends[0].path_error(seq, PathError::TooBig(mss), now);
}

#[test]
fn what_routers_say_of_the_path_is_told_once_when_shorter_segments_have_arrived_and_the_long_one_has_not() {
    let mut pair = with_a_full_segment();
    pair.wire[1].clear();
    tell(&mut pair, 1160);
    assert_eq!(pair.ends[0].told_path(), None, "it may be a lie");
    pair.flush();
    pair.run_for(10 * DELAY);
    assert_eq!((pair.ends[0].told_path(), pair.ends[0].told_path()), (Some(1160), None));
    assert_eq!(pair.ends[0].info().path_mss, 1160);
}

#[test]
fn a_router_that_says_of_a_segment_that_arrives_that_it_was_too_long_is_not_believed_by_others_and_not_for_long()
 {
    let mut pair = with_a_full_segment();
    // The segment is there, and its acknowledgment nearly here.
    pair.run_for(DELAY);
    pair.run_for(DELAY * 9 / 10);
    tell(&mut pair, 216);
    assert_eq!(pair.ends[0].info().path_mss, 216);
    pair.run_for(20 * DELAY);
    assert_eq!((pair.ends[0].told_path(), pair.ends[0].info().path_mss), (None, 1460));
}

#[test]
fn a_reset_means_refused_only_in_syn_sent() {
    let mut begun = Lone::in_state(SynReceived, Settings::default());
    begun.gets("R 1:1(0)");
    let mut listened = Lone::answers(Settings::default());
    listened.gets("R 1:1(0)");
    assert_eq!([begun, listened].map(|end| end.tcb.ended()), [Some(Ended::Refused), Some(Ended::Reset)]);
}
