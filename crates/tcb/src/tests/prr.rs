//! Transmission during recovery (RFC 9937).

use wire::tcp::{SackBlock, SackBlocks};

use super::super::*;
use super::bytes;
use super::lone::{Lone, OURS};
use crate::congestion::Algorithm;
use crate::settings::Extensions;

const SEGMENT: u32 = 1460;

/// One that has sent ten segments of 1460 bytes, which is all that its window lets out, and all that there is.
fn sends(algorithm: Algorithm, sack: bool) -> Lone {
    let settings = Settings { algorithm, sack, extensions: Extensions::Off, ..Settings::default() };
    let mut end = Lone::connects(settings);
    end.now = end.now + super::MS * 100;
    let answer = Options { mss: Some(1460), sack_permitted: true, ..Options::NONE };
    end.gets_with("S. 0:0(0) ack 1", answer);
    end.tcb.send(&bytes(14_600));
    assert_eq!(end.sends().len(), 10);
    // Each round trip takes so long, so that reordering is waited out for a quarter of it.
    end.now = end.now + super::MS * 100;
    end
}

/// Returns its output when so many segments are acknowledged, and those from the first to before the second are SACKed.
fn hears(end: &mut Lone, acked: u32, there: core::ops::Range<u32>) -> usize {
    let at = |segment: u32| OURS + 1 + segment * SEGMENT;
    let mut sack = SackBlocks::NONE;
    if !there.is_empty() {
        sack.push(SackBlock { left: at(there.start), right: at(there.end) });
    }
    end.now = end.now + super::MS;
    let text = format!(". 1:1(0) ack {}", 1 + acked * SEGMENT);
    end.gets_with(&text, Options { sack, ..Options::NONE }).len()
}

#[test]
fn what_is_sent_is_to_what_arrives_as_the_window_is_to_what_it_was() {
    for (algorithm, sent) in [
        // Of ten half are left: five for each eight that arrive, until there are five on their way, and then one for each.
        (Algorithm::NewReno, [1, 0, 0, 1, 1, 1]),
        // Seven are left, which are on their way: one for each.
        (Algorithm::Cubic, [1, 1, 1, 1, 1, 1]),
    ] {
        let mut end = sends(algorithm, true);
        assert_eq!([hears(&mut end, 0, 1..2), hears(&mut end, 0, 1..3)], [0, 0]);
        assert_eq!(hears(&mut end, 0, 1..4), 1, "the one that was lost");
        assert!(end.tcb.info().recovers);
        end.tcb.send(&bytes(15_000));
        let then: Vec<_> = (5..=10).map(|until| hears(&mut end, 0, 1..until)).collect();
        assert_eq!(then, sent, "{algorithm:?}");
        let info = end.tcb.info();
        assert_eq!(info.unacknowledged - info.sacked - info.lost, info.snd_ssthresh, "what is under way");
    }
}

#[test]
fn where_much_was_lost_as_much_is_sent_as_arrives_and_one_more_if_that_goes_well() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let mut end = sends(algorithm, true);
        // Of ten the first seven.
        assert_eq!([hears(&mut end, 0, 7..8), hears(&mut end, 0, 7..9)], [0, 0]);
        assert_eq!(hears(&mut end, 0, 7..10), 1, "no burst, though nothing is under way");
        assert_eq!(end.tcb.info().lost, 6 * SEGMENT);
        end.tcb.send(&bytes(15_000));
        assert_eq!([hears(&mut end, 1, 7..10), hears(&mut end, 2, 7..10)], [2, 2]);
        assert_eq!(hears(&mut end, 4, 7..10), 3, "for two that have arrived");
        hears(&mut end, 10, 0..0);
        let info = end.tcb.info();
        assert!(!info.recovers && info.unacknowledged <= info.snd_cwnd);
        assert!(info.unacknowledged + SEGMENT > info.snd_cwnd, "and then all that there is room for");
    }
}

#[test]
fn a_receiver_that_says_only_where_it_waits_is_sent_what_it_waits_for_at_once() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let mut end = sends(algorithm, false);
        assert_eq!([hears(&mut end, 0, 0..0), hears(&mut end, 0, 0..0)], [0, 0]);
        assert_eq!(hears(&mut end, 0, 0..0), 1);
        end.tcb.send(&bytes(15_000));
        let more: usize = (0..5).map(|_| hears(&mut end, 0, 0..0)).sum();
        assert_eq!(more, if algorithm == Algorithm::Cubic { 5 } else { 3 }, "for five that have arrived");
        // Two were lost: the second is sent again when it is known where the other end waits.
        let before = end.tcb.info().tally.retransmitted;
        assert!(hears(&mut end, 4, 0..0) >= 1);
        assert!(end.tcb.info().tally.retransmitted > before && end.tcb.info().recovers);
    }
}

#[test]
fn three_segments_that_one_acknowledgment_names_are_as_good_as_three_acknowledgments() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        let mut end = sends(algorithm, true);
        assert_eq!(hears(&mut end, 0, 1..3), 0, "two may have overtaken it");
        assert_eq!(hears(&mut end, 0, 1..4), 1);
        let mut end = sends(algorithm, true);
        assert_eq!(hears(&mut end, 0, 1..4), 1, "the one that was lost, without waiting");
        assert!(end.tcb.info().recovers);
    }
}
