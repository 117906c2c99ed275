//! Segments received in each state, by their place in the window: RFC 9293 §3.10.7.3 and §3.10.7.4 with RFC 5961.

use core::time::Duration;

use super::super::*;
use super::lone::Lone;
use crate::settings::Extensions;
use State::*;

/// `RCV.NXT` and the form of our acknowledgments, in each state with a window.
const STATES: [(State, u32, &str); 8] = [
    (SynReceived, 1, ". 1:1(0) ack 1 win 65535"),
    (Established, 1, ". 1:1(0) ack 1 win 65535"),
    (CloseWait, 2, ". 1:1(0) ack 2 win 65535"),
    (FinWait1, 1, ". 2:2(0) ack 1 win 65535"),
    (FinWait2, 1, ". 2:2(0) ack 1 win 65535"),
    (Closing, 2, ". 2:2(0) ack 2 win 65535"),
    (LastAck, 2, ". 2:2(0) ack 2 win 65535"),
    (TimeWait, 2, ". 2:2(0) ack 2 win 65535"),
];

/// Before the window, at its first place, behind that, at its last place and behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Where {
    Before,
    First,
    Inside,
    Last,
    Behind,
}

const WHERE: [Where; 5] = [Where::Before, Where::First, Where::Inside, Where::Last, Where::Behind];

impl Where {
    /// Buffers of 64 KiB are rounded up to 45 segments; in TIME-WAIT there is what was said.
    fn of(self, state: State, next: u32) -> u32 {
        let window = if state == TimeWait { 65_535 } else { 65_700 };
        match self {
            Self::Before => next - 1,
            Self::First => next,
            Self::Inside => next + 10,
            Self::Last => next + window - 1,
            Self::Behind => next + window,
        }
    }
}

#[test]
fn a_reset_counts_at_the_first_place_alone_or_in_the_old_days_in_the_whole_window() {
    for (state, next, ack) in STATES {
        for (at, insecure) in WHERE.into_iter().flat_map(|at| [(at, false), (at, true)]) {
            let settings = Settings { insecure_rst: insecure, ..Settings::default() };
            let mut end = Lone::in_state(state, settings);
            let seq = at.of(state, next);
            let sent = end.gets(&format!("R {seq}:{seq}(0)"));
            let is_inside = !matches!(at, Where::Before | Where::Behind);
            let ends = state != TimeWait && (at == Where::First || insecure && is_inside);
            let is_challenged = state != TimeWait && is_inside && !ends;
            let refused = if state == SynReceived { Ended::Refused } else { Ended::Reset };
            assert_eq!(end.tcb.ended(), ends.then_some(refused), "{state:?} {at:?} {insecure}");
            assert_eq!(end.tcb.state(), if ends { Closed } else { state }, "{state:?} {at:?} {insecure}");
            assert_eq!(sent, Vec::from_iter(is_challenged.then_some(ack)), "{state:?} {at:?} {insecure}");
        }
    }
}

#[test]
fn a_syn_is_challenged_wherever_it_is_or_in_the_old_days_resets_in_the_window() {
    for (state, next, ack) in STATES.into_iter().filter(|(state, ..)| *state != SynReceived) {
        for (at, insecure) in WHERE.into_iter().flat_map(|at| [(at, false), (at, true)]) {
            let settings = Settings { insecure_syn: insecure, ..Settings::default() };
            let mut end = Lone::in_state(state, settings);
            let seq = at.of(state, next);
            let sent = end.gets(&format!("S {seq}:{seq}(0)"));
            let resets = insecure && !matches!(at, Where::Before | Where::Behind);
            let reset = format!("R{}", ack.replace("win 65535", "win 0"));
            assert_eq!(sent, [if resets { &reset } else { ack }], "{state:?} {at:?} {insecure}");
            assert_eq!(end.tcb.ended(), resets.then_some(Ended::Reset), "{state:?} {at:?} {insecure}");
        }
    }
}

#[test]
fn what_lies_outside_the_window_is_acknowledged_and_not_taken() {
    for (state, next, _) in STATES.into_iter().filter(|(state, ..)| *state != SynReceived) {
        for at in [Where::Before, Where::Behind] {
            let mut end = Lone::in_state(state, Settings::default());
            let seq = at.of(state, next);
            let sent = end.gets(&format!(". {seq}:{seq}(0) ack 1"));
            assert_eq!(sent.len(), 1, "{state:?} {at:?}");
            assert!(sent[0].contains(&format!("ack {next} win 65535")), "{state:?} {at:?} {sent:?}");
            assert_eq!(end.tcb.state(), state);
        }
    }
}

#[test]
fn before_an_answer_only_an_answer_or_another_beginning_counts() {
    let cases: [(&str, &[&str], State); 9] = [
        (". 0:3(3) ack 1", &[], SynSent),
        (". 0:0(0) ack 0", &["R 0"], SynSent),
        ("F. 0:3(3) ack 2", &["R 2"], SynSent),
        ("S. 0:3(3) ack 2", &["R 2"], SynSent),
        ("R 0:3(3)", &[], SynSent),
        ("R. 2:2(0) ack 2", &[], SynSent),
        ("R. 1:4(3) ack 1", &[], Closed),
        ("S. 0:0(0) ack 1", &[". 1:1(0) ack 1 win 65535"], Established),
        ("S 0:0(0)", &["S. 0:0(0) ack 1 win 65535"], SynReceived),
    ];
    for (text, sent, state) in cases {
        let mut end = Lone::in_state(SynSent, Settings::default());
        assert_eq!(
            (end.gets(text), end.tcb.state()),
            (sent.iter().map(ToString::to_string).collect(), state),
            "{text}"
        );
        assert_eq!(end.tcb.ended(), (state == Closed).then_some(Ended::Refused), "{text}");
    }
}

#[test]
fn what_comes_with_a_syn_that_crosses_ours_is_read_when_the_connection_stands() {
    let mut end = Lone::in_state(SynSent, Settings::default());
    assert_eq!(end.gets("SF 0:3(3)"), ["S. 0:0(0) ack 1 win 65535"]);
    assert_eq!((end.tcb.state(), end.tcb.readable()), (SynReceived, 0));
    assert!(end.gets(". 4:4(0) ack 1").is_empty());
    assert_eq!((end.tcb.state(), end.tcb.readable()), (Established, 3));
    end.tcb.close();
    assert_eq!(end.sends(), ["F. 1:1(0) ack 4 win 65535"], "the end did not count");
    assert_eq!(end.gets("F. 4:4(0) ack 2"), [". 2:2(0) ack 5 win 65535"]);
}

#[test]
fn a_syn_with_fin_to_a_closed_port_creates_nothing() {
    let mut end = Lone::in_state(SynSent, Settings { drop_synfin: true, ..Settings::default() });
    assert!(end.gets("SF 0:3(3)").is_empty());
    assert_eq!(end.tcb.state(), SynSent);
}

#[test]
fn a_listener_s_connection_takes_what_its_answer_has_said() {
    for (seq, ends) in [(65_535, true), (65_536, false)] {
        let mut end = Lone::answers(Settings { insecure_rst: true, ..Settings::default() });
        assert!(end.gets(&format!("R {seq}:{seq}(0)")).is_empty());
        assert_eq!(end.tcb.state() == Closed, ends);
        assert_eq!(end.tcb.receive_buffer(), 65_536);
    }
    let mut end = Lone::answers(Settings::default());
    assert!(end.gets(". 1:1(0) ack 1").is_empty());
    assert_eq!(end.tcb.receive_buffer(), 65_700, "whole segments, when it is known how long they are");
}

#[test]
fn in_time_wait_only_what_is_not_the_last_acknowledgment_is_answered() {
    let cases = [
        (". 2:2(0) ack 2", false),
        (". 3:3(0) ack 2", true),
        (". 65536:65536(0) ack 2", true),
        ("F. 1:1(0) ack 2", true),
        ("F. 3:3(0) ack 2", true),
        ("F 1:1(0)", false),
        ("F 3:3(0)", false),
        ("SF 1:1(0)", true),
        ("S. 1:1(0) ack 0", true),
    ];
    for (text, is_answered) in cases {
        let mut end = Lone::in_state(TimeWait, Settings::default());
        let answer = is_answered.then(|| ". 2:2(0) ack 2 win 65535".to_owned());
        assert_eq!((end.gets(text), end.tcb.state()), (Vec::from_iter(answer), TimeWait), "{text}");
    }
}

#[test]
fn an_end_that_crosses_ours_is_acknowledged_by_sending_ours_again() {
    let mut end = Lone::in_state(FinWait1, Settings::default());
    assert_eq!(end.gets("F. 1:1(0) ack 1"), ["F. 1:1(0) ack 2 win 65535"]);
    // The other end does so too: its end is old, and what it acknowledges is new.
    assert_eq!(end.gets("F. 1:1(0) ack 2"), [". 2:2(0) ack 2 win 65535"]);
    assert_eq!(end.tcb.state(), TimeWait);
}

#[test]
fn a_closed_end_with_unread_or_further_data_sends_a_reset() {
    let mut end = Lone::in_state(Established, Settings::default());
    assert!(end.gets("P. 1:11(10) ack 1").is_empty());
    end.tcb.release(end.now);
    assert_eq!(end.sends(), ["R. 1:1(0) ack 11 win 0"]);

    let mut end = Lone::in_state(Established, Settings::default());
    end.tcb.release(end.now);
    assert_eq!(end.sends(), ["F. 1:1(0) ack 1 win 65535"]);
    assert_eq!(end.gets("P. 1:11(10) ack 2"), ["R 2"]);
    assert_eq!(end.tcb.state(), Closed);

    // Without D-SACK, it takes no more.
    let mut end = Lone::in_state(Established, Settings { resets_unread: false, ..Settings::default() });
    assert!(end.gets("P. 1:11(10) ack 1").is_empty());
    end.tcb.release(end.now);
    assert_eq!(end.sends(), ["F. 1:1(0) ack 11 win 65535"]);
    assert_eq!(end.gets("P. 11:21(10) ack 2"), ["R 2"]);

    let mut end = Lone::in_state(FinWait2, Settings::default());
    assert!(end.gets("P. 1:11(10) ack 2").is_empty(), "half closed, somebody still reads");
    assert_eq!(end.tcb.readable(), 10);
}

#[test]
fn a_closed_connection_leaves_fin_wait_2_after_its_timeout() {
    let settings = Settings { fin_wait_2: Duration::from_secs(60), ..Settings::default() };
    for is_released in [false, true] {
        let mut end = Lone::in_state(FinWait2, settings);
        if is_released {
            end.tcb.release(end.now);
        }
        assert!(end.waits(Duration::from_secs(59)).is_empty());
        assert_eq!(end.tcb.state(), FinWait2);
        assert!(end.waits(Duration::from_secs(1)).is_empty());
        assert_eq!(end.tcb.state(), if is_released { Closed } else { FinWait2 });
    }
}

#[test]
fn what_is_not_acceptable_and_brings_nothing_is_answered_five_times_a_second_in_each_state() {
    for (state, next, _) in STATES.into_iter().filter(|(state, ..)| *state != SynReceived) {
        let (behind, before) = (Where::Behind.of(state, next), next - 1);
        let empty = format!(". {behind}:{behind}(0) ack 1");
        for text in [empty, format!("S {behind}:{behind}(0)"), format!(". {before}:{before}(0) ack 1")] {
            let mut end = Lone::in_state(state, Settings::default());
            let count = |end: &mut Lone| (0..20).map(|_| end.gets(&text).len()).sum::<usize>();
            assert_eq!(count(&mut end), 5, "{state:?} {text}");
            end.now = end.now + Duration::from_millis(900);
            assert_eq!(count(&mut end), 0, "{state:?} {text}");
            end.now = end.now + Duration::from_millis(100);
            assert_eq!(count(&mut end), 5, "{state:?} {text}");
        }
        // Bytes that come again are lost acknowledgments, and each is told.
        let mut end = Lone::in_state(state, Settings::default());
        let again = format!("P. {before}:{next}(1) ack 1");
        assert!((0..20).all(|_| end.gets(&again).len() == 1), "{state:?}");
    }
}

#[test]
fn acknowledgments_of_what_was_never_sent_and_resets_in_the_window_share_one_budget() {
    let mut end = Lone::in_state(Established, Settings::default());
    let texts = ["R 2:2(0)", ". 1:1(0) ack 9", "S 1:1(0)", "R 3:3(0)", ". 1:1(0) ack 100"];
    assert!(texts.iter().all(|text| end.gets(text) == [". 1:1(0) ack 1 win 65535"]));
    assert!(texts.iter().all(|text| end.gets(text).is_empty()));
    assert_eq!(end.tcb.state(), Established);
}

#[test]
fn two_ends_that_were_driven_apart_soon_stop_answering_each_other() {
    // Without timestamps, by which what is forged here would be known.
    let plain = Settings { extensions: Extensions::Off, ..Settings::default() };
    let mut pair = super::Pair::begin([plain; 2], 0, 1);
    pair.run_for(3 * super::DELAY);
    let mut flying = Vec::new();
    let headers = [1, 0].map(|from| {
        let end: &Tcb = &pair.ends[from];
        end.header(Flags::ACK, end.sent.behind())
    });
    for (to, header) in headers.into_iter().enumerate() {
        let forged = Segment { header: &header, payload: b"of neither", is_marked: false };
        assert_eq!(pair.ends[to].arrive(&forged, pair.now), Reply::Nothing);
        let end = &pair.ends[to];
        flying.push((1 - to, end.header(Flags::ACK, end.sent.behind())));
    }
    let mut answers = 0;
    while let Some((to, header)) = flying.pop() {
        let segment = Segment { header: &header, payload: &[], is_marked: false };
        if pair.ends[to].arrive(&segment, pair.now) == Reply::Challenge {
            pair.ends[to].challenge(pair.now);
        }
        let came = flying.len();
        pair.ends[to].output(pair.now, &mut |out| flying.push((1 - to, out.header)));
        answers += flying.len() - came;
        assert!(answers < 1000, "for ever");
    }
    assert_eq!(answers, 10, "five of each");
}
