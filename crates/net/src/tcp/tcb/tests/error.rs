//! What routers say.

use core::time::Duration;

use super::super::*;
use super::lone::{Lone, OURS};
use super::{DELAY, Pair, bytes};
use State::*;

#[test]
fn a_hard_error_about_what_is_under_way_ends_what_does_not_stand_yet() {
    let mut end = Lone::in_state(SynSent, Settings::default());
    for seq in [OURS - 1, OURS + 1] {
        end.tcb.path_error(seq, PathError::Hard);
        assert_eq!(end.tcb.state(), SynSent, "it is not about our SYN");
    }
    end.tcb.path_error(OURS, PathError::Soft);
    assert_eq!(end.tcb.state(), SynSent);
    end.tcb.path_error(OURS, PathError::Hard);
    assert_eq!((end.tcb.state(), end.tcb.ended()), (Closed, Some(Ended::Refused)));
}

#[test]
fn where_errors_end_nothing_a_hard_one_is_only_the_reason_for_the_silence() {
    let mut end = Lone::in_state(SynSent, Settings { icmp_may_rst: false, ..Settings::default() });
    end.tcb.path_error(OURS, PathError::Hard);
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
        end.tcb.path_error(OURS + 1, error);
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
    end.tcb.path_error(OURS + 1, PathError::Soft);
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
    pair.ends[0].path_error(una, PathError::TooBig(1000));
    // A router that says less than any path takes lies, and one that says more says nothing.
    pair.ends[0].path_error(una, PathError::TooBig(2000));
    pair.seen.clear();
    pair.flush();
    let lens: Vec<_> = pair.seen.iter().map(|(_, _, len)| *len).collect();
    assert_eq!(lens, [988, 988, 988, 988, 48]);
    assert_eq!(pair.ends[0].info().snd_cwnd, cwnd, "that was no congestion");
    pair.run_for(20 * DELAY);
    assert_eq!(pair.ends[1].readable(), 4000);
    pair.ends[0].path_error(pair.ends[0].info().snd_nxt - 1, PathError::TooBig(68));
    assert_eq!(pair.ends[0].info().snd_mss, 988, "it is not about what is under way");
    pair.ends[0].send(b"x");
    pair.flush();
    pair.ends[0].path_error(pair.ends[0].info().snd_una, PathError::TooBig(68));
    assert_eq!(pair.ends[0].info().snd_mss, 216 - 12);
}

#[test]
fn what_was_no_longer_than_the_path_takes_was_not_dropped_for_that() {
    let mut end = Lone::connects(Settings::default());
    end.tcb.path_error(OURS, PathError::TooBig(1200));
    assert!(end.sends().is_empty(), "a SYN is short");
    for (count, again) in [(1250, 0), (1251, 2)] {
        let mut end = Lone::in_state(Established, Settings::default());
        end.tcb.send(&bytes(count));
        end.sends();
        end.tcb.path_error(OURS + 1, PathError::TooBig(1250));
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

#[test]
fn what_routers_say_of_the_path_is_told_once_for_the_next_connection() {
    let mut end = Lone::in_state(Established, Settings::default());
    end.tcb.send(&bytes(1460));
    end.sends();
    assert_eq!(end.tcb.told_path(), None);
    end.tcb.path_error(OURS + 1, PathError::TooBig(1160));
    assert_eq!((end.tcb.told_path(), end.tcb.told_path()), (Some(1160), None));
}

#[test]
fn a_reset_is_a_refusal_only_to_who_has_begun() {
    let mut begun = Lone::in_state(SynReceived, Settings::default());
    begun.gets("R 1:1(0)");
    let mut listened = Lone::answers(Settings::default());
    listened.gets("R 1:1(0)");
    assert_eq!([begun, listened].map(|end| end.tcb.ended()), [Some(Ended::Refused), Some(Ended::Reset)]);
}
