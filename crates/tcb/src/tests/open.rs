//! Data with the SYN.

use core::time::Duration;

use wire::tcp::{Cookie, Options};

use super::super::*;
use super::bytes;
use super::lone::Lone;
use State::*;

/// An end that has sent a hundred bytes with this cookie, and what went out.
fn opens(cookie: Cookie) -> (Lone, Vec<String>) {
    let mut end = Lone::begins(Settings::default());
    end.tcb.open_fast(cookie, 1460);
    assert_eq!(end.tcb.send(&bytes(100)), 100);
    let sent = end.sends();
    (end, sent)
}

fn cookie() -> Cookie {
    Cookie::new(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap()
}

#[test]
fn a_request_brings_a_cookie_and_no_data_goes_with_it() {
    let (mut end, sent) = opens(Cookie::REQUEST);
    assert_eq!(sent, ["S 0:0(0) win 65535"]);
    let answer = Options { mss: Some(1460), fast_open: Some(cookie()), ..Options::NONE };
    assert_eq!(end.gets_with("S. 0:0(0) ack 1", answer), ["P. 1:101(100) ack 1 win 65535"]);
    assert_eq!(end.tcb.opened(), Some(Opened { cookie: Some(cookie()), taken: None, mss: Some(1460) }));
    assert_eq!(end.tcb.opened(), None, "it is told once");
}

#[test]
fn with_a_cookie_data_goes_with_the_syn() {
    let (mut end, sent) = opens(cookie());
    assert_eq!(sent, ["S 0:100(100) win 65535"]);
    assert_eq!(end.gets("S. 0:0(0) ack 101"), [". 101:101(0) ack 1 win 65535"]);
    assert_eq!((end.tcb.state(), end.tcb.info().unacknowledged), (Established, 0));
    assert_eq!(end.tcb.opened(), Some(Opened { cookie: None, taken: Some(100), mss: Some(1460) }));
    end.tcb.send(b"more");
    assert_eq!(end.sends(), ["P. 101:105(4) ack 1 win 65535"]);
}

#[test]
fn data_that_was_not_taken_is_sent_again_at_once_and_is_no_loss() {
    let (mut end, _) = opens(cookie());
    assert_eq!(end.gets("S. 0:0(0) ack 1"), ["P. 1:101(100) ack 1 win 65535"]);
    assert_eq!(end.tcb.opened(), Some(Opened { cookie: None, taken: None, mss: Some(1460) }));
    assert_eq!((end.tcb.info().snd_cwnd, end.tcb.info().tally.retransmitted), (14_600, 0));
    assert!(end.gets(". 1:1(0) ack 101").is_empty());
    assert_eq!(end.tcb.info().unacknowledged, 0);
}

#[test]
fn the_end_of_data_that_was_not_taken_waits_for_no_company_but_what_follows_does() {
    let mut end = Lone::begins(Settings::default());
    end.tcb.open_fast(cookie(), 1460);
    end.tcb.send(&bytes(1300));
    assert_eq!(end.sends(), ["S 0:1300(1300) win 65535"]);
    let answer = Options { mss: Some(1000), ..Options::NONE };
    let again = [". 1:1001(1000) ack 1 win 65535", "P. 1001:1301(300) ack 1 win 65535"];
    assert_eq!(end.gets_with("S. 0:0(0) ack 1", answer), again);
    end.tcb.send(b"more");
    assert!(end.sends().is_empty());
    assert_eq!(end.gets(". 1:1(0) ack 1301"), ["P. 1301:1305(4) ack 1 win 65535"]);
}

#[test]
fn an_unanswered_syn_is_retransmitted_without_new_options() {
    let (mut end, _) = opens(cookie());
    assert_eq!(end.waits(Duration::from_secs(1)), [(1000, "S 0:0(0) win 65535".to_owned())]);
    assert_eq!(end.tcb.opened(), Some(Opened { cookie: None, taken: None, mss: None }));
    assert_eq!(end.gets("S. 0:0(0) ack 1"), ["P. 1:101(100) ack 1 win 65535"]);
}

#[test]
fn the_first_syn_may_have_arrived_after_all() {
    let (mut end, _) = opens(cookie());
    end.waits(Duration::from_secs(1));
    assert!(end.tcb.opened().is_some_and(|opened| opened.taken.is_none()), "nothing has come");
    assert_eq!(end.gets("S. 0:0(0) ack 102"), ["R 102"], "so much was never sent");
    assert_eq!(end.gets("S. 0:0(0) ack 101"), [". 101:101(0) ack 1 win 65535"]);
    assert_eq!((end.tcb.state(), end.tcb.info().unsent), (Established, 0));
    assert_eq!(end.tcb.opened(), Some(Opened { cookie: None, taken: Some(100), mss: Some(1460) }));
}

#[test]
fn what_does_not_fit_into_the_syn_follows() {
    let mut end = Lone::begins(Settings::default());
    end.tcb.open_fast(cookie(), 1460);
    end.tcb.send(&bytes(3000));
    // 40 bytes of options: mss, scale, SACK, timestamps, cookie, and two to fill up.
    assert_eq!(end.sends(), ["S 0:1428(1428) win 65535"]);
    let sent = end.gets("S. 0:0(0) ack 1429");
    assert_eq!(sent, [". 1429:2889(1460) ack 1 win 65535", "P. 2889:3001(112) ack 1 win 65535"]);
}

#[test]
fn no_more_goes_with_the_syn_than_the_other_end_has_said_that_it_takes() {
    let mut end = Lone::begins(Settings::default());
    end.tcb.open_fast(cookie(), 940);
    end.tcb.send(&bytes(3000));
    assert_eq!(end.sends(), ["S 0:908(908) win 65535"], "options are counted");
    let answer = Options { mss: Some(1000), ..Options::NONE };
    let rest = [". 909:1909(1000)", ". 1909:2909(1000)", "P. 2909:3001(92)"]
        .map(|piece| format!("{piece} ack 1 win 65535"));
    assert_eq!(end.gets_with("S. 0:0(0) ack 909", answer), rest);
    assert_eq!(end.tcb.opened().and_then(|opened| opened.mss), Some(1000));
}

#[test]
fn where_both_begin_at_once_the_other_end_may_have_taken_what_went_with_our_syn() {
    let (mut end, sent) = opens(cookie());
    assert_eq!(sent, ["S 0:100(100) win 65535"]);
    assert_eq!(end.gets("S 0:0(0)"), ["S. 0:0(0) ack 1 win 65535"]);
    assert_eq!(end.gets(". 1:1(0) ack 102"), ["R 102"], "so much was never sent");
    assert!(end.gets(". 1:1(0) ack 101").is_empty());
    assert_eq!((end.tcb.state(), end.tcb.info().unacknowledged, end.tcb.info().unsent), (Established, 0, 0));
    end.tcb.send(b"more");
    assert_eq!(end.sends(), ["P. 101:105(4) ack 1 win 65535"]);
}

#[test]
fn a_listener_that_takes_data_with_the_syn_may_answer_before_the_connection_stands() {
    let (mut end, sent, options) = Lone::answers_early(b"hello", cookie());
    assert_eq!(sent, ["S. 0:0(0) ack 6 win 65530", "P. 1:6(5) ack 6 win 65530"]);
    assert_eq!((options.fast_open, end.tcb.readable(), end.tcb.state()), (Some(cookie()), 5, SynReceived));
    assert!(end.gets(". 6:6(0) ack 6").is_empty());
    assert_eq!((end.tcb.state(), end.tcb.info().unacknowledged), (Established, 0));
}
