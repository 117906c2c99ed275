use super::*;
use crate::out::ifq::retry::Retry;

#[test]
fn a_ring_that_moves_is_tried_again_soon_and_one_that_does_not_ever_later() {
    let (mut retry, mut now, mut tries) = (Retry::default(), Instant::START, 0);
    retry.pushed_back(now, true);
    assert_eq!(retry.at(), now + Duration::from_micros(100));
    let end = now + Duration::from_secs(10);
    while now < end {
        now = retry.at();
        retry.pushed_back(now, false);
        tries += 1;
    }
    assert!((100..120).contains(&tries), "{tries} times in 10 s");
    retry.pushed_back(now, true);
    assert_eq!(retry.at(), now + Duration::from_micros(100), "as soon as it moves");
}

#[test]
fn only_a_ring_that_stands_for_ten_milliseconds_is_stuck() {
    let (mut retry, mut now) = (Retry::default(), Instant::from_ns(1 << 40));
    assert!(!retry.pushed_back(now, true));
    let start = now;
    while now.since(start) < Duration::from_millis(10) {
        assert!(!retry.pushed_back(now, false));
        now = retry.at();
    }
    assert!(retry.pushed_back(now, false));
    assert!(!retry.pushed_back(now, false), "asked at its time only, however often the CPU turns");
}
