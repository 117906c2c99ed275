//! Paths that swallow long segments, and do not say so.

use super::super::*;
use super::{DELAY, Pair, bytes};

/// A connection over a path that carries segments of up to `longest` bytes, which is found out while it carries these.
fn carry(settings: Settings, longest: usize, len: usize) -> Pair {
    let mut pair = Pair::begin([settings; 2], 0, 1);
    pair.longest = longest;
    let all = bytes(len);
    assert!(pair.transfer(&all) == all);
    pair
}

/// Returns the length of the longest of the last data segments that arrived.
fn last(pair: &Pair) -> usize {
    let tail = pair.seen.iter().rev().filter(|(from, _, len)| *from == 0 && *len <= pair.longest);
    tail.take(50).map(|(_, _, len)| *len).max().unwrap()
}

#[test]
fn a_path_that_swallows_long_segments_carries_all_and_it_is_found_out_how_long_they_may_be() {
    // Of 1460 bytes twelve are timestamps.
    for longest in [1447, 1400, 1300, 1201, 1190, 1188, 900, 524] {
        let pair = carry(Settings::default(), longest, 600_000);
        let (found, wasted) = (last(&pair), pair.seen.iter().filter(|(.., len)| *len > longest).count());
        assert!(found <= longest && found + 8 >= longest, "{found} of {longest}");
        assert!(wasted < 60, "{wasted} segments too long for {longest}");
    }
}

#[test]
fn a_path_that_carries_all_is_never_doubted_and_one_that_carries_nothing_for_a_while_not_for_long() {
    let pair = carry(Settings::default(), 1448, 200_000);
    assert!(pair.seen.iter().all(|(_, _, len)| *len <= 1448) && pair.ends[0].info().tally.retransmitted == 0);
    for outage in [3, 20, 80] {
        let mut pair = Pair::established();
        pair.ends[0].send(&bytes(20_000));
        pair.flush();
        pair.longest = 0;
        pair.run_for(core::time::Duration::from_secs(outage));
        pair.longest = usize::MAX;
        pair.run_for(core::time::Duration::from_secs(130));
        let all = bytes(200_000);
        let mut sent = 0;
        while sent < all.len() {
            sent += pair.ends[0].send(&all[sent..]);
            pair.ends[1].read(&mut [0; 5000]);
            pair.flush();
            pair.step().unwrap();
        }
        assert_eq!(last(&pair), 1448, "after {outage} s");
    }
}

#[test]
fn a_probe_that_vanishes_costs_no_window() {
    // As one that follows a connection that has found it out.
    let settings = Settings { path_mss: 1012, path_mss_max: 1460, ..Settings::default() };
    let pair = carry(settings, 1000, 300_000);
    assert!(pair.seen.iter().any(|(.., len)| *len > 1000), "it was tried");
    assert_eq!((last(&pair), pair.ends[0].info().snd_ssthresh), (1000, u32::MAX));
}

#[test]
fn without_path_mtu_discovery_segments_are_never_shortened() {
    let settings = Settings { path_probes: false, ..Settings::default() };
    let mut pair = Pair::begin([settings; 2], 0, 1);
    pair.longest = 1300;
    pair.run_for(3 * DELAY);
    pair.ends[0].send(&bytes(20_000));
    pair.flush();
    pair.run_for(core::time::Duration::from_secs(60));
    assert_eq!(pair.ends[1].readable(), 0);
    assert!(pair.seen.iter().all(|(from, _, len)| *from == 1 || *len == 0 || *len >= 1184));
}

#[test]
fn what_a_router_says_bounds_what_is_tried() {
    let mut end = super::lone::Lone::in_state(State::Established, Settings::default());
    let known = Settings { path_mss: 1000, path_mss_max: 1460, ..Settings::default() };
    end.tcb.path = Path::of(&known, end.now);
    end.tcb.send(&bytes(10));
    end.sends();
    let seq = end.tcb.info().snd_una;
    end.tcb.path_error(seq, PathError::TooBig(1200), end.now);
    assert_eq!(end.tcb.path.longest_tried(), Some(1200));
}
