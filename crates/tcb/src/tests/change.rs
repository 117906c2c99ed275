//! Changes by programs while a connection lives.

use core::time::Duration;

use super::super::*;
use super::lone::Lone;
use super::{DELAY, Pair, bytes, shown};
use crate::settings::Change;
use State::*;

const SECOND: Duration = Duration::from_secs(1);

fn ask_after(idle: u64, interval: u64, count: u8) -> [Change; 4] {
    let seconds = Duration::from_secs;
    [
        Change::KeepIdle(seconds(idle)),
        Change::KeepInterval(seconds(interval)),
        Change::KeepCount(count),
        Change::KeepAlive(true),
    ]
}

#[test]
fn an_idle_peer_is_probed_and_the_connection_ends_without_an_answer() {
    let mut end = Lone::in_state(Established, Settings::default());
    ask_after(15, 5, 2).into_iter().for_each(|change| end.tcb.change(change, end.now));
    let question = ". 0:0(0) ack 1 win 65535".to_owned();
    assert_eq!(
        end.waits(60 * SECOND),
        [(15_000, question.clone()), (20_000, question), (25_000, "R. 1:1(0) ack 1 win 0".to_owned())]
    );
    assert_eq!(end.tcb.ended(), Some(Ended::TimedOut));
}

#[test]
fn an_answered_keepalive_is_repeated_only_after_the_next_idle_time() {
    let mut end = Lone::in_state(Established, Settings::default());
    ask_after(15, 5, 2).into_iter().for_each(|change| end.tcb.change(change, end.now));
    for _ in 0..5 {
        assert_eq!(end.waits(15 * SECOND), [(15_000, ". 0:0(0) ack 1 win 65535".to_owned())]);
        assert!(end.gets(". 1:1(0) ack 1").is_empty());
    }
    end.tcb.change(Change::KeepAlive(false), end.now);
    assert!(end.waits(3600 * SECOND).is_empty());
    assert_eq!(end.tcb.state(), Established);
}

#[test]
fn an_old_segment_that_acknowledges_something_new_is_a_sign_of_life() {
    let mut end = Lone::in_state(Established, Settings::default());
    ask_after(15, 5, 2).into_iter().for_each(|change| end.tcb.change(change, end.now));
    end.tcb.send(b"hello?");
    end.sends();
    // Unacknowledged data is retransmitted, without keepalives.
    assert!(!end.waits(100 * SECOND).is_empty());
    assert_eq!(end.gets(". 0:0(0) ack 7"), [". 7:7(0) ack 1 win 65535"]);
    assert_eq!(end.waits(16 * SECOND), [(15_000, ". 6:6(0) ack 1 win 65535".to_owned())]);
}

#[test]
fn a_question_is_answered_and_changes_nothing() {
    let mut end = Lone::in_state(Established, Settings::default());
    assert_eq!(end.gets(". 0:0(0) ack 1"), [". 1:1(0) ack 1 win 65535"]);
    assert_eq!(end.gets(". 0:1(1) ack 1"), [". 1:1(0) ack 1 win 65535"], "some ask with a byte");
}

#[test]
fn what_stays_unacknowledged_for_longer_than_the_program_wants_ends_it() {
    let mut end = Lone::in_state(Established, Settings::default());
    end.tcb.change(Change::UserTimeout(Some(10 * SECOND)), end.now);
    assert!(end.waits(3600 * SECOND).is_empty(), "nothing is waited for");
    end.tcb.send(b"hello?");
    end.sends();
    assert!(!end.waits(9 * SECOND).is_empty());
    assert_eq!(end.tcb.state(), Established);
    let sent = end.waits(SECOND);
    assert_eq!(sent.last().unwrap(), &(1000, "R. 7:7(0) ack 1 win 0".to_owned()));
    assert_eq!(end.tcb.ended(), Some(Ended::TimedOut));
}

#[test]
fn corked_segments_wait_until_they_are_full_or_the_cork_is_out() {
    let mut pair = Pair::established();
    pair.ends[0].change(Change::Cork(true), pair.now);
    for _ in 0..5 {
        pair.ends[0].send(&bytes(500));
        pair.flush();
    }
    assert_eq!(shown(&pair), ["> . 1(1448) ack 1"]);
    pair.run_for(10 * SECOND);
    assert_eq!(pair.ends[1].readable(), 1448);
    pair.ends[0].change(Change::Cork(false), pair.now);
    pair.flush();
    pair.run_for(DELAY);
    assert_eq!(pair.ends[1].readable(), 2500);
}

#[test]
fn a_corked_segment_waits_as_long_as_it_may_and_each_time_anew() {
    const MOST: Duration = Duration::from_millis(200);
    let mut end = Lone::in_state(Established, Settings::default());
    end.tcb.change(Change::CorkFor(Some(MOST)), end.now);
    end.tcb.send(&bytes(2000));
    assert_eq!(end.sends(), [". 1:1461(1460) ack 1 win 65535"]);
    // While something is under way there is no hurry.
    assert!(end.waits(MOST).is_empty());
    assert!(end.gets(". 1:1(0) ack 1461").is_empty());
    assert!(end.waits(MOST - Duration::from_millis(1)).is_empty());
    end.tcb.send(&bytes(100));
    assert!(end.sends().is_empty());
    assert_eq!(end.waits(MOST), [(1, "P. 1461:2101(640) ack 1 win 65535".to_owned())]);
    assert!(end.gets(". 1:1(0) ack 2101").is_empty());
    end.tcb.send(&bytes(10));
    assert!(end.sends().is_empty());
    end.tcb.change(Change::CorkFor(None), end.now);
    assert_eq!(end.sends(), ["P. 2101:2111(10) ack 1 win 65535"]);
}

#[test]
fn segments_are_acknowledged_at_once_as_long_as_the_program_wants() {
    let mut end = Lone::in_state(Established, Settings::default());
    assert!(end.gets("P. 1:11(10) ack 1").is_empty());
    end.waits(DELAY);
    end.tcb.change(Change::QuickAck(true), end.now);
    assert_eq!(end.gets("P. 11:21(10) ack 1"), [". 1:1(0) ack 21 win 65535"]);
    assert_eq!(end.gets("P. 21:31(10) ack 1"), [". 1:1(0) ack 31 win 65535"]);
    end.tcb.change(Change::QuickAck(false), end.now);
    assert!(end.gets("P. 31:41(10) ack 1").is_empty());
}

#[test]
fn buffers_are_whole_segments_and_never_above_the_bound() {
    let mut end = Lone::in_state(Established, Settings::default());
    end.tcb.change(Change::ReceiveBuffer(100_000), end.now);
    end.tcb.change(Change::SendBuffer(10_000), end.now);
    assert_eq!(
        (end.tcb.receive_buffer(), end.tcb.send_buffer(), end.tcb.writable()),
        (100_740, 10_220, 10_220)
    );
    end.tcb.change(Change::ReceiveBuffer(u32::MAX), end.now);
    assert_eq!(end.tcb.receive_buffer(), 1437 * 1460, "what the window can say, and the rest of a segment");
}

#[test]
fn a_shorter_segment_is_as_long_as_the_program_wants() {
    let mut end = Lone::in_state(Established, Settings::default());
    end.tcb.change(Change::MaxSegment(1000), end.now);
    end.tcb.send(&bytes(2000));
    assert_eq!(end.sends(), [". 1:1001(1000) ack 1 win 65535", "P. 1001:2001(1000) ack 1 win 65535"]);
}

#[test]
fn a_connection_has_as_long_to_come_about_as_the_program_says_last() {
    let mut end = Lone::connects(Settings::default());
    end.tcb.change(Change::EstablishWithin(5 * SECOND), end.now);
    end.waits(5 * SECOND);
    assert_eq!(end.tcb.ended(), Some(Ended::TimedOut));
}
