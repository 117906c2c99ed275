//! Timestamps and window scaling (RFC 7323).

use super::lone::Lone;
use super::*;

/// A connection whose segments bear timestamps; the other end's clock shows 1.
fn stamped(settings: Settings) -> Lone {
    let mut end = Lone::connects(settings);
    end.gets_with("S. 0:0(0) ack 1", Options { mss: Some(1460), ..at(1) });
    end
}

fn at(stamp: u32) -> Options {
    Options { timestamps: Some((stamp, 0)), ..Options::NONE }
}

/// The timestamp that is echoed now.
fn echo(end: &mut Lone) -> u32 {
    end.tcb.options(end.now).timestamps.unwrap().1
}

#[test]
fn an_acknowledgment_of_unsent_data_does_not_update_ts_recent() {
    let mut end = stamped(Settings::default());
    for ack in [9999, u32::MAX - 70_000] {
        end.gets_with(&format!(". 1:1(0) ack {ack}"), at(200_000));
        assert_eq!(echo(&mut end), 1, "{ack}");
    }
    end.gets_with("P. 1:2(1) ack 1", at(2));
    assert_eq!((echo(&mut end), end.tcb.readable()), (2, 1));
}

#[test]
fn a_segment_without_the_agreed_timestamp_is_dropped_unless_that_is_to_be_tolerated() {
    for takes_unstamped in [false, true] {
        let mut end = stamped(Settings { takes_unstamped, ..Settings::default() });
        end.gets("P. 1:2(1) ack 1");
        assert_eq!(end.tcb.readable(), usize::from(takes_unstamped));
        // What bears one is held to those before it all the same.
        end.gets_with("P. 2:3(1) ack 1", at(0));
        assert_eq!(end.tcb.readable(), usize::from(takes_unstamped));
    }
}

#[test]
fn a_reset_bears_a_timestamp_if_segments_do() {
    for extensions in [Extensions::Both, Extensions::Scale] {
        let mut end = stamped(Settings { extensions, ..Settings::default() });
        end.gets_with("P. 1:2(1) ack 1", at(7));
        let mut unread = None;
        end.tcb.release(end.now);
        end.tcb.output(end.now, &mut |out| unread = Some(out.header));
        let unread = unread.unwrap();
        assert!(unread.flags.rst());
        let mut end = stamped(Settings { extensions, ..Settings::default() });
        end.gets_with("P. 1:2(1) ack 1", at(7));
        let aborted = end.tcb.abort(end.now).unwrap();
        let echo = extensions.stamps().then_some(7);
        assert_eq!([unread, aborted].map(|reset| reset.options.timestamps.map(|(_, echo)| echo)), [echo; 2]);
    }
}

#[test]
fn of_the_two_extensions_each_can_be_offered_and_taken_up_alone() {
    let all = [Extensions::Off, Extensions::Both, Extensions::Scale, Extensions::Stamps];
    for (ours, theirs) in all.into_iter().flat_map(|ours| all.map(|theirs| (ours, theirs))) {
        let settings = [ours, theirs].map(|extensions| Settings { extensions, ..Settings::default() });
        let mut pair = Pair::begin(settings, 0, 1);
        let sent = bytes(100_000);
        assert!(pair.transfer(&sent) == sent);
        let [syn, answer] = [0, 1].map(|at| pair.seen[at].1.options);
        let offered = (syn.window_scale.is_some(), syn.timestamps.is_some());
        assert_eq!(offered, (ours.scales(), ours.stamps()), "{ours:?}");
        let agreed = (answer.window_scale.is_some(), answer.timestamps.is_some());
        let both = (ours.scales() && theirs.scales(), ours.stamps() && theirs.stamps());
        assert_eq!(agreed, both, "{ours:?} and {theirs:?}");
    }
}

#[test]
fn after_a_spurious_timeout_the_next_wait_is_as_long_as_the_late_answer_took() {
    let rto_after = |is_spurious: bool| {
        let mut end = Lone::connects(Settings { tail_loss_probe: false, ..Settings::default() });
        let stamp = |end: &mut Lone| end.tcb.options(end.now).timestamps.unwrap().0;
        end.now = end.now + MS * 100;
        let options = Options { mss: Some(1460), timestamps: Some((1, 0)), ..Options::NONE };
        end.gets_with("S. 0:0(0) ack 1", options);
        let sent = stamp(&mut end);
        end.tcb.send(&bytes(1000));
        assert_eq!(end.sends().len(), 1);
        end.now = end.tcb.deadline();
        end.tcb.expire(end.now);
        assert_eq!(end.sends().len(), 1, "sent again");
        assert!(end.tcb.info().by_timer);
        let again = stamp(&mut end);
        end.now = end.now + MS * 100;
        let echo = if is_spurious { sent } else { again };
        end.gets_with(". 1:1(0) ack 1001", Options { timestamps: Some((2, echo)), ..Options::NONE });
        end.tcb.info()
    };
    let (late, lost) = (rto_after(true), rto_after(false));
    let took = late.rtt.unwrap();
    assert!(took > MS * 500, "the smoothed round trip is that of the late answer: {took:?}");
    assert!(late.rto >= took * 3, "and the wait counts half of it as variation: {:?}", late.rto);
    assert!(lost.rto < took, "where the segment was lost, nothing is known of a longer path: {:?}", lost.rto);
}
