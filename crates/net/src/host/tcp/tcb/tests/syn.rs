//! SYNs: what they offer, when they are sent again, and for how long.

use core::time::Duration;

use super::super::*;
use super::lone::Lone;
use wire::tcp::Options;

/// Returns the headers of unanswered SYNs, each with the milliseconds since the first.
fn syns(settings: Settings) -> Vec<(u128, Header)> {
    let now = Instant::from_ns(1_000_000);
    let mut tcb = Tcb::connect(settings, (4000, 80), 1, Stamps::from(0), now);
    let (mut at, mut sent) = (now, Vec::new());
    while at != Instant::NEVER {
        tcb.expire(at);
        tcb.output(at, &mut |out| sent.push((at.since(now).as_millis(), out.header)));
        at = tcb.deadline();
    }
    assert_eq!(tcb.ended(), Some(Ended::TimedOut));
    sent
}

#[test]
fn a_syn_is_sent_again_after_a_second_and_then_twice_as_long_each_time_with_some_slack() {
    let at = |seconds| {
        let settings = Settings { establish_within: Duration::from_secs(seconds), ..Settings::default() };
        syns(settings).iter().map(|(at, _)| *at).collect::<Vec<_>>()
    };
    assert_eq!(at(5), [0, 1000, 3200]);
    assert_eq!(
        at(363),
        [0, 1000, 3200, 7400, 15_600, 31_800, 64_000, 128_000, 192_000, 256_000, 320_000],
        "at most 64 seconds"
    );
}

#[test]
fn who_gets_no_answer_to_a_syn_tries_for_three_minutes() {
    let all = syns(Settings::default());
    assert_eq!(all.last().map(|(at, _)| *at), Some(128_000), "the next would be behind the third minute");
    let mut end = Lone::begins(Settings::default());
    end.waits(Duration::from_secs(179));
    assert_eq!(end.tcb.ended(), None);
    end.waits(Duration::from_secs(1));
    assert_eq!(end.tcb.ended(), Some(Ended::TimedOut));
}

#[test]
fn marks_are_asked_for_with_the_first_and_as_often_again_as_is_wanted() {
    for ecn_retries in 0..3 {
        let settings = Settings { ecn: Ecn::Active, ecn_retries, ..Settings::default() };
        let asking =
            syns(settings).iter().filter(|(_, syn)| syn.flags.contains(Flags::ECE | Flags::CWR)).count();
        assert_eq!(asking, usize::from(ecn_retries) + 1);
    }
}

#[test]
fn a_syn_that_stays_unanswered_may_leave_its_offers_out() {
    let mss = Options { mss: Some(1460), ..Options::NONE };
    for drops_options in [false, true] {
        let syns = syns(Settings { drops_options, ..Settings::default() });
        let is_plain: Vec<_> = syns.iter().map(|(_, syn)| syn.options == mss).collect();
        assert_eq!(is_plain[..3], [false; 3]);
        assert!(is_plain[3..].iter().all(|is_plain| *is_plain == drops_options));
    }
    let settings = Settings { no_options: true, ..Settings::default() };
    assert!(syns(settings).iter().all(|(_, syn)| syn.options == Options::NONE));
}

#[test]
fn who_offers_nothing_takes_nothing() {
    let mut end = Lone::connects(Settings { no_options: true, ..Settings::default() });
    let all =
        Options { window_scale: Some(7), sack_permitted: true, timestamps: Some((1, 0)), ..Options::NONE };
    assert_eq!(end.gets_with("S. 0:0(0) ack 1", all), [". 1:1(0) ack 1 win 65535"]);
    assert!(!end.tcb.agreed.timestamps && !end.tcb.agreed.sack && end.tcb.agreed.shift == (0, 0));
}
