use proptest::prelude::*;

use super::*;

fn own() -> Measure {
    Measure::new(Expect::All)
}

/// Feeds probes of one flow; each arrives `latency` after its stamp.
fn feed(measure: &mut Measure, seqs: &[u32]) {
    for seq in seqs {
        measure.probe(5_000, &Probe { session: 9, flow: 3, seq: *seq, stamp: 4_000 });
    }
}

#[test]
fn bands_of_latencies_begin_at_powers_of_two_and_half_way_between() {
    for (ns, expected) in [
        (0, 0),
        (300, 0),
        (384, 1),
        (511, 1),
        (512, 2),
        (767, 2),
        (768, 3),
        (1 << 20, 24),
        (u64::MAX, BANDS - 1),
    ] {
        assert_eq!(band(ns), expected, "{ns}");
    }
    let mut measure = own();
    feed(&mut measure, &[0, 1, 2]);
    let mut bands = [0; BANDS];
    measure.add_bands(&mut bands);
    assert_eq!((bands[band(1000)], bands.iter().sum::<u64>()), (3, 3));
}

fn counts(seqs: &[u32]) -> (u64, u64, u64, u64) {
    let mut measure = own();
    feed(&mut measure, seqs);
    (measure.unique(), measure.tally.duplicated, measure.tally.reordered, measure.gaps())
}

#[test]
fn each_way_to_arrive_is_told_from_the_others() {
    for (seqs, unique_dup_reordered_missing) in [
        (&[0, 1, 2, 3][..], (4, 0, 0, 0)),
        (&[0, 1, 3], (3, 0, 0, 1)),
        (&[0, 2, 1, 3], (4, 0, 1, 0)),
        (&[0, 1, 1, 2], (3, 1, 0, 0)),
        (&[0, 3, 1, 2, 1], (4, 1, 2, 0)),
        // a gap is no reordering (RFC 4737 §3.3), and what fills it late is
        (&[0, 9, 10, 11], (4, 0, 0, 8)),
        // the receiver came in the middle, and the first was itself late
        (&[1001, 1000, 1002], (3, 0, 1, 0)),
        // the wrap
        (&[u32::MAX - 1, u32::MAX, 0, 1], (4, 0, 0, 0)),
        (&[u32::MAX, 1, 0], (3, 0, 1, 0)),
        (&[0, u32::MAX], (2, 0, 1, 0)),
    ] {
        assert_eq!(counts(seqs), unique_dup_reordered_missing, "{seqs:?}");
    }
}

#[test]
fn how_far_a_frame_was_displaced_is_said() {
    let mut measure = own();
    feed(&mut measure, &[0, 1, 5, 2]);
    assert_eq!(measure.tally.displacement_max, 4, "6 was expected, 2 came");
}

#[test]
fn what_is_older_than_the_window_is_late_and_no_duplicate() {
    let mut measure = own();
    feed(&mut measure, &[0, 256, 0]);
    assert_eq!((measure.tally.duplicated, measure.tally.too_late, measure.tally.reordered), (0, 1, 1));
    let mut measure = own();
    feed(&mut measure, &[0, 255, 0]);
    assert_eq!((measure.tally.duplicated, measure.tally.too_late), (1, 0));
}

#[test]
fn flows_and_runs_are_kept_apart() {
    let mut measure = own();
    for (session, flow) in [(1, 0), (1, 1), (2, 0)] {
        for seq in 0..3 {
            measure.probe(0, &Probe { session, flow, seq, stamp: 0 });
        }
    }
    let tally = measure.tally;
    assert_eq!((tally.duplicated, tally.reordered, measure.gaps(), measure.flows()), (0, 0, 0, 3));
}

#[test]
fn too_many_runs_or_flows_are_counted_and_not_followed() {
    let probe = |session, flow| Probe { session, flow, seq: 0, stamp: 0 };
    let mut measure = own();
    (1..).take(SESSIONS_MAX + 1).for_each(|session| measure.probe(0, &probe(session, 0)));
    assert_eq!((measure.tally.probes, measure.tally.untracked), (SESSIONS_MAX as u64, 1));
    let mut measure = own();
    for flow in [0, FLOWS_MAX - 1, FLOWS_MAX, u32::MAX] {
        measure.probe(0, &probe(1, flow));
    }
    assert_eq!((measure.tally.probes, measure.tally.untracked), (2, 2));
    measure.probe(0, &probe(2, 0));
    assert_eq!(measure.tally.untracked, 3, "one run has taken all there is");
}

#[test]
fn latency_and_jitter_are_those_of_the_stamps() {
    let mut measure = own();
    for (seq, stamp) in [(0, 9_000), (1, 8_000), (2, 8_500)] {
        measure.probe(10_000, &Probe { session: 1, flow: 0, seq, stamp });
    }
    let latency = measure.latency().unwrap();
    assert_eq!((latency.min, latency.p50), (1_000, 1_500));
    assert!((2_000..=2_001).contains(&latency.max), "{latency:?}");
    assert_eq!((measure.tally.pairs, measure.tally.jitter_sum, measure.tally.jitter_max), (2, 1_500, 1_000));
    assert!(own().latency().is_none());
}

#[test]
fn a_latency_of_more_than_a_minute_counts_as_a_minute() {
    let mut measure = own();
    let now = 100_000_000_000;
    measure.probe(now, &Probe { session: 1, flow: 0, seq: 0, stamp: 1 });
    let max = measure.latency().unwrap().max;
    assert!((LATENCY_MAX_NS..LATENCY_MAX_NS + LATENCY_MAX_NS / 1000).contains(&max), "{max}");
}

#[test]
fn only_frames_of_the_own_run_count() {
    let dst = Addrs::parse("192.0.2.0/24").unwrap();
    let measure = Measure::new(Expect::Own { session: 7, dst });
    let probe = |session| Probe { session, flow: 0, seq: 0, stamp: 0 };
    assert!(measure.is_expected(&probe(7)) && !measure.is_expected(&probe(8)));
    assert!(measure.counts("192.0.2.9".parse().unwrap()) && !measure.counts("192.0.3.9".parse().unwrap()));
}

proptest! {
    /// Whatever arrives: the same as a set of all numbers would say, as long as it is within the window; and two
    /// receivers that share the frames add up to the same numbers of frames.
    #[test]
    fn any_order_is_counted_as_a_set_would(seqs in proptest::collection::vec(0_u32..200, 1..300), start in any::<u32>()) {
        let seqs: Vec<u32> = seqs.into_iter().map(|seq| seq.wrapping_add(start)).collect();
        let distinct = seqs.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
        let (unique, duplicated, reordered, missing) = counts(&seqs);
        prop_assert_eq!((unique, duplicated), (distinct, seqs.len() as u64 - distinct));
        let offsets: std::collections::BTreeSet<u32> = seqs.iter().map(|seq| seq.wrapping_sub(start)).collect();
        let span = u64::from(offsets.last().unwrap() - offsets.first().unwrap()) + 1;
        prop_assert_eq!(missing, span - distinct);
        prop_assert!(reordered < distinct);

        let (mut one, mut two) = (own(), own());
        let (left, right) = seqs.split_at(seqs.len() / 2);
        feed(&mut one, left);
        feed(&mut two, right);
        let frames = one.tally.probes + two.tally.probes;
        one.add(&two);
        prop_assert_eq!(one.tally.probes, frames);
    }
}
