use super::*;
use crate::out::ifq::codel::{Codel, Law, Source};
use crate::out::ifq::ecn::mark_frame;
use crate::out::ifq::list::Queued;
use std::collections::VecDeque;

const LAW: Law = Law { target: Duration::from_millis(5), interval: Duration::from_millis(100), mtu: FULL };

/// A queue that is a queue.
#[derive(Default)]
struct Plain {
    pkts: VecDeque<Queued>,
    bytes: usize,
    dropped: Vec<Pkt>,
    marked: usize,
}

impl Source for Plain {
    fn pop(&mut self) -> Option<Queued> {
        let queued = self.pkts.pop_front()?;
        self.bytes -= queued.pkt.len();
        Some(queued)
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn drop_pkt(&mut self, late: Queued) {
        self.dropped.push(late.pkt);
    }

    fn mark(&mut self, pkt: &mut Pkt) -> bool {
        let is_marked = mark_frame(pkt);
        self.marked += usize::from(is_marked);
        is_marked
    }
}

/// A bottleneck that sends a frame each millisecond.
struct Line {
    lab: Lab,
    codel: Codel,
    queue: Plain,
    /// When frames were dropped, milliseconds.
    drops: Vec<u64>,
}

impl Line {
    fn new() -> Self {
        Self { lab: Lab::new(), codel: Codel::default(), queue: Plain::default(), drops: Vec::new() }
    }

    /// A millisecond with `arriving` frames; answers how long the frame waited that left.
    fn tick(&mut self, arriving: usize, of: Of) -> Option<Duration> {
        for _ in 0..arriving {
            let pkt = self.lab.packet(of);
            self.queue.bytes += pkt.len();
            self.queue.pkts.push_back(Queued { pkt, since: self.lab.now, tag: () });
        }
        self.lab.pass(Duration::from_millis(1));
        let waited: Vec<_> = self.queue.pkts.iter().map(|queued| self.lab.now.since(queued.since)).collect();
        let pkt = self.codel.pop(self.lab.now, &LAW, &mut self.queue);
        for pkt in self.queue.dropped.drain(..) {
            self.drops.push(self.lab.now.ns() / 1_000_000);
            self.lab.pool.give(pkt);
        }
        pkt.map(|queued| {
            self.lab.pool.give(queued.pkt);
            waited[waited.len() - self.queue.pkts.len() - 1]
        })
    }

    fn end(mut self) -> Vec<u64> {
        while let Some(queued) = self.queue.pop() {
            self.lab.pool.give(queued.pkt);
        }
        core::mem::take(&mut self.drops)
    }
}

#[test]
fn a_queue_that_comes_and_goes_is_left_alone() {
    let mut line = Line::new();
    for burst in 0..50 {
        line.tick(40, Of::flow(1));
        for _ in 0..60 {
            line.tick(usize::from(burst == 99), Of::flow(1));
        }
    }
    assert!(line.end().is_empty());
}

#[test]
fn a_queue_that_stays_loses_its_first_frame_after_an_interval_and_then_ever_more() {
    let mut line = Line::new();
    line.tick(50, Of::flow(1));
    for _ in 0..1000 {
        line.tick(1, Of::flow(1));
    }
    let drops = line.end();
    let first = drops[0];
    assert!((100..=107).contains(&first), "the first after target and interval: {first}");
    // From drop to drop: the interval divided by the root of the number of drops (RFC 8289 §4.3).
    for (n, wanted) in [(1, 100), (2, 171), (3, 228), (4, 278)] {
        let after = drops[n] - first;
        assert!(after.abs_diff(wanted) <= 2, "drop {n} after {after} ms, not {wanted}");
    }
}

#[test]
fn standing_delay_comes_down_to_the_target() {
    let mut line = Line::new();
    line.tick(60, Of::flow(1));
    // A sender that slows down by one frame for each that it loses, as TCP does.
    let mut before = 0;
    for _ in 0..20_000 {
        let lost = line.drops.len() - before;
        before = line.drops.len();
        line.tick(1_usize.saturating_sub(lost), Of::flow(1));
    }
    let waited: Vec<_> = (0..500).filter_map(|_| line.tick(1, Of::flow(1))).collect();
    let mean = waited.iter().sum::<Duration>() / u32::try_from(waited.len()).unwrap();
    assert!(mean <= LAW.target + Duration::from_millis(2), "{mean:?}");
    line.end();
}

#[test]
fn nothing_is_dropped_while_no_more_than_a_full_frame_waits() {
    let mut line = Line::new();
    for _ in 0..200 {
        // Ever late, but never more than one behind.
        line.tick(2, Of::flow(1).len(FULL));
        line.lab.pass(Duration::from_secs(1));
        line.tick(0, Of::flow(1));
    }
    assert!(line.end().is_empty());
}

#[test]
fn where_dropping_ended_a_moment_ago_it_goes_on_as_often_as_it_was() {
    let mut line = Line::new();
    line.tick(50, Of::flow(1));
    for _ in 0..2000 {
        line.tick(1, Of::flow(1));
    }
    let often = line.drops.len();
    while !line.queue.pkts.is_empty() {
        line.tick(0, Of::flow(1));
    }
    line.drops.clear();
    line.tick(50, Of::flow(1));
    for _ in 0..200 {
        line.tick(1, Of::flow(1));
    }
    let drops = line.end();
    assert!(often > 10);
    assert!(drops.len() > 3 && drops[1] - drops[0] < 50, "not from the beginning again: {drops:?}");
}

#[test]
fn flows_that_understand_marks_are_marked_and_lose_nothing() {
    for family in [Family::V4, Family::V6] {
        for ecn in [1, 2] {
            let mut line = Line::new();
            let of = Of { family, ecn, ..Of::flow(1) };
            line.tick(50, of);
            for _ in 0..500 {
                line.tick(1, of);
            }
            let marked = line.queue.marked;
            assert!(marked > 3, "{marked}");
            assert!(line.end().is_empty());
        }
    }
}
