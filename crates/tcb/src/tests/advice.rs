//! Announced user timeouts (RFC 5482).

use core::time::Duration;

use wire::tcp::UserTimeout;

use super::super::*;
use super::lone::Lone;
use super::{DELAY, MS, Pair, bytes};
use crate::settings::{Change, Uto};
use State::*;

const SECOND: Duration = Duration::from_secs(1);

/// Returns settings that announce so many seconds, if any, and accept the peer's.
fn tells(told: Option<u64>) -> Settings {
    let uto = Uto { is_on: true, told: told.map(Duration::from_secs), ..Uto::default() };
    Settings { uto, ..Settings::default() }
}

fn said(secs: u64) -> Options {
    Options { user_timeout: UserTimeout::of_secs(secs), ..Options::NONE }
}

/// Which segments of `from` had the option, and what they said, each with whether it was a SYN and its payload.
fn told(pair: &Pair, from: usize) -> Vec<(bool, usize, u32)> {
    let of = pair.seen.iter().filter(|(end, ..)| *end == from);
    let of = of.filter_map(|(_, header, len)| Some((header, *len, header.options.user_timeout?)));
    of.map(|(header, len, timeout)| (header.flags.syn(), len, timeout.secs())).collect()
}

/// One that stands and has something under way, after the other end has said `secs`.
fn waiting(settings: Settings, secs: u64) -> Lone {
    let mut end = Lone::in_state(Established, settings);
    assert!(end.gets_with(". 1:1(0) ack 1", said(secs)).is_empty());
    end.tcb.send(b"hello?");
    assert_eq!(end.sends().len(), 1);
    end
}

/// Returns the seconds until it is given up; `None` if that takes more than a day.
fn ends_after(mut end: Lone) -> Option<u64> {
    let from = end.now;
    while end.tcb.state() != Closed && end.now.since(from) < 86_400 * SECOND {
        end.waits(SECOND);
    }
    (end.tcb.state() == Closed).then(|| end.now.since(from).as_secs())
}

#[test]
fn without_the_user_timeout_option_none_is_sent_or_heard() {
    let off = Settings { user_timeout: Some(300 * SECOND), ..Settings::default() };
    let mut pair = Pair::begin([off, tells(Some(500))], 0, 1);
    pair.run_for(3 * DELAY);
    pair.ends[0].send(&bytes(5000));
    pair.flush();
    pair.ends[0].change(Change::UserTimeout(Some(200 * SECOND)), pair.now);
    pair.flush();
    pair.run_for(SECOND);
    assert_eq!(told(&pair, 0), []);
    assert_eq!(told(&pair, 1), [(true, 0, 500), (false, 0, 500)]);
    assert_eq!(pair.ends[0].info().user_timeout, Some(200 * SECOND));
    assert_eq!(pair.ends[0].info().remote_user_timeout, None);
}

#[test]
fn it_is_told_with_the_syn_in_the_first_segment_behind_it_and_when_it_changes() {
    let mut pair = Pair::begin([tells(Some(400)), tells(None)], 0, 1);
    pair.run_for(3 * DELAY);
    assert_eq!(told(&pair, 0), [(true, 0, 400), (false, 0, 400)]);
    let first = pair.seen.iter().find(|(from, header, _)| *from == 0 && !header.flags.syn()).unwrap();
    assert!(first.1.options.user_timeout.is_some(), "it is the first");
    pair.ends[0].send(&bytes(20_000));
    pair.flush();
    pair.run_for(SECOND);
    assert_eq!(told(&pair, 0).len(), 2, "and no other has it");
    pair.ends[0].change(Change::ToldUserTimeout(Some(600 * SECOND)), pair.now);
    pair.ends[1].change(Change::UserTimeout(Some(90 * SECOND + MS)), pair.now);
    pair.flush();
    // What does not change it says nothing.
    pair.ends[0].change(Change::NoDelay(true), pair.now);
    pair.flush();
    pair.run_for(SECOND);
    assert_eq!(told(&pair, 0)[2..], [(false, 0, 600)]);
    assert_eq!(told(&pair, 1), [(false, 0, 91)], "what a program has set is told, and no less of it");
    let heard = pair.ends.each_ref().map(|end| end.info().remote_user_timeout);
    assert_eq!(heard, [Some(91 * SECOND), Some(600 * SECOND)]);
    assert_eq!(pair.ends[1].readable(), 20_000);
}

#[test]
fn beside_data_that_is_sent_at_once_it_goes_first_and_no_segment_is_too_long() {
    let mut pair = Pair::begin([tells(Some(400)), tells(Some(500))], 0, 1);
    pair.longest = 1448;
    pair.ends[0].send(&bytes(10_000));
    pair.ends[1].send(&bytes(10_000));
    pair.run_for(SECOND);
    assert_eq!(pair.ends.each_ref().map(Tcb::readable), [10_000; 2]);
    for from in 0..2 {
        let first = pair.seen.iter().find(|(end, header, _)| *end == from && !header.flags.syn()).unwrap();
        assert_eq!((first.1.options.user_timeout.is_some(), first.2), (true, 0));
    }
}

#[test]
fn it_leaves_room_for_what_is_missing_but_for_the_last_block() {
    let mut end = Lone::connects(tells(None));
    let syn = Options { mss: Some(1460), sack_permitted: true, timestamps: Some((1, 0)), ..Options::NONE };
    end.gets_with("S. 0:0(0) ack 1", syn);
    let stamped = Options { timestamps: Some((1, 0)), ..Options::NONE };
    for at in [101, 301, 501] {
        end.gets_with(&format!(". {at}:{}(100) ack 1", at + 100), stamped);
    }
    end.tcb.change(Change::ToldUserTimeout(Some(300 * SECOND)), end.now);
    let mut sent = Vec::new();
    end.tcb.output(end.now, &mut |out| sent.push(out.header));
    let [header] = &sent[..] else { panic!("{sent:?}") };
    assert_eq!(header.options.user_timeout, UserTimeout::of_secs(300));
    assert_eq!(header.options.sack.as_slice().len(), 2);
    assert_eq!(header.options.len(), 36);
}

#[test]
fn what_the_other_end_says_is_kept_within_our_bounds() {
    for (remote, ours, within) in [
        (1, None, 100),
        (99, None, 100),
        (240, None, 240),
        (240, Some(120), 240),
        (240, Some(500), 500),
        (5000, None, 3600),
        (5000, Some(10_000), 3600),
        (u64::MAX, None, 3600),
    ] {
        let end = waiting(tells(ours), remote);
        assert_eq!(end.tcb.info().user_timeout, Some(Duration::from_secs(within)));
        let after = ends_after(end);
        assert_eq!(after, Some(within), "the other end says {remote} s, we {ours:?}");
    }
}

#[test]
fn it_makes_us_wait_for_longer_than_we_send_again_and_for_shorter() {
    let alone = ends_after(waiting(tells(None), 0)).unwrap();
    assert!((160..300).contains(&alone), "{alone} s, as often as it is sent again");
    assert_eq!(ends_after(waiting(tells(None), 1200)), Some(1200));
    assert_eq!(ends_after(waiting(tells(None), 150)), Some(150));
}

#[test]
fn no_wait_is_shorter_than_that_for_an_answer_to_what_is_sent_again() {
    let mut settings = tells(None);
    settings.uto.least = SECOND;
    let after = ends_after(waiting(settings, 2)).unwrap();
    assert!((2..10).contains(&after), "{after} s");
    settings.rto.min = 20 * SECOND;
    let after = ends_after(waiting(settings, 2)).unwrap();
    assert!((20..100).contains(&after), "{after} s");
}

#[test]
fn a_user_timeout_that_was_set_is_kept_unless_the_socket_yields() {
    let mut end = waiting(tells(None), 1200);
    end.tcb.change(Change::UserTimeout(Some(50 * SECOND)), end.now);
    assert_eq!(ends_after(end), Some(50));
    let mut end = waiting(tells(None), 1200);
    end.tcb.change(Change::UserTimeout(Some(50 * SECOND)), end.now);
    end.tcb.change(Change::YieldsUserTimeout(true), end.now);
    assert_eq!(ends_after(end), Some(1200));
    let mut end = waiting(tells(None), 1200);
    end.tcb.change(Change::TellsUserTimeout(false), end.now);
    assert!(ends_after(end).unwrap() < 1000);
}

#[test]
fn what_comes_where_it_does_not_belong_is_not_heard() {
    let mut end = Lone::in_state(Established, tells(None));
    let heard = |end: &Lone| end.tcb.info().remote_user_timeout;
    // Beyond the window, of an acknowledgment of what was never sent, or with no acknowledgment at all.
    end.gets_with(". 100000:100000(0) ack 1", said(200));
    end.gets_with(". 1:1(0) ack 1000", said(200));
    end.gets_with("P 1:2(1)", said(200));
    assert_eq!(heard(&end), None);
    end.gets_with(". 1:1(0) ack 1", said(200));
    assert_eq!(heard(&end), Some(200 * SECOND));
    end.gets_with(". 1:1(0) ack 1", said(0));
    assert_eq!(heard(&end), Some(200 * SECOND), "nothing is no advice");
    end.gets_with("P. 1:6(5) ack 1", said(300));
    assert_eq!(heard(&end), Some(300 * SECOND), "the last counts, whatever it comes with");
}

#[test]
fn a_syn_is_heard_and_counts_when_the_connection_stands() {
    let syn = Options { mss: Some(1460), ..said(1200) };
    let mut end = Lone::connects(tells(None));
    end.gets_with("S. 0:0(0) ack 1", syn);
    end.tcb.send(b"hello?");
    end.sends();
    assert_eq!(ends_after(end), Some(1200));
    // Both have begun at once: until it stands, it ends when it always has.
    let mut end = Lone::connects(tells(None));
    end.gets_with("S 0:0(0)", syn);
    assert_eq!((end.tcb.state(), end.tcb.info().user_timeout), (SynReceived, None));
    assert_eq!(ends_after(end), Some(180));
}

#[test]
fn keepalive_probes_begin_after_the_peers_user_timeout() {
    let mut end = Lone::in_state(Established, tells(None));
    let ask = [
        Change::KeepIdle(10 * SECOND),
        Change::KeepInterval(5 * SECOND),
        Change::KeepCount(2),
        Change::KeepAlive(true),
    ];
    ask.into_iter().for_each(|change| end.tcb.change(change, end.now));
    end.gets_with(". 1:1(0) ack 1", said(200));
    let asked: Vec<_> = end.waits(1000 * SECOND).into_iter().map(|(at, _)| at / 1000).collect();
    assert_eq!(asked, [205, 210, 215]);
    assert_eq!(end.tcb.ended(), Some(Ended::TimedOut));
}

#[test]
fn a_window_that_stays_closed_ends_nothing_while_the_other_end_answers() {
    let mut end = Lone::in_state(Established, tells(None));
    end.gets_with(". 1:1(0) ack 1", said(150));
    end.tcb.send(&bytes(32_000));
    end.tcb.send(&bytes(32_000));
    end.sends();
    let (mut acks, from) = (0, end.now);
    while end.now.since(from) < 1000 * SECOND {
        // It has taken nothing behind what fills its window, and says so.
        let shut = end.tcb.info().snd_nxt.min(super::lone::OURS + 1 + 32_767);
        let header =
            Header { seq: super::lone::THEIRS.wrapping_add(1), ack: shut, window: 0, ..end.answer() };
        let segment = Segment { header: &header, payload: &[], is_marked: false };
        assert_eq!(end.tcb.arrive(&segment, end.now), Reply::Nothing);
        end.sends();
        end.waits(30 * SECOND);
        acks += 1;
    }
    assert!(acks > 30 && end.tcb.state() == Established, "{:?}", end.tcb.ended());
    // Nor does it stay when no answers come.
    assert!(ends_after(end).is_some_and(|after| after <= 300));
}

#[test]
fn a_program_that_has_gone_is_not_made_to_wait() {
    let mut end = waiting(tells(None), 3000);
    end.tcb.release(end.now);
    end.sends();
    assert!(ends_after(end).is_some_and(|after| after < 1000));
}
