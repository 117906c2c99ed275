use super::*;
use crate::out::ifq::backlog::{Backlog, Limits};
use crate::out::ifq::{Discipline, QueueSpec};

/// A queue of so many packets, and its lab.
struct Queue {
    lab: Lab,
    backlog: Backlog,
}

fn limits(discipline: Discipline, packets_max: usize) -> Limits {
    Limits {
        spec: QueueSpec { packets_max, ..QueueSpec::of(discipline) },
        frame_max: FULL,
        buffers_max: usize::MAX,
    }
}

impl Queue {
    fn new(limits: Limits) -> Self {
        let (mut lab, mut backlog) = (Lab::new(), Backlog::default());
        backlog.configure(limits, &mut lab.around());
        Self { lab, backlog }
    }

    fn push(&mut self, pkt: Pkt) {
        self.backlog.push(pkt, &mut self.lab.around());
    }

    fn normal(&mut self, number: u8) {
        let pkt = self.lab.packet(Of::flow(1).len(100).number(number));
        self.push(pkt);
    }

    fn urgent(&mut self, number: u8) {
        let pkt = self.lab.urgent(Of::flow(2).len(100).number(number));
        self.push(pkt);
    }

    /// Numbers of what leaves.
    fn leave(&mut self) -> Vec<u8> {
        let mut numbers = Vec::new();
        while let Some(pkt) = self.backlog.pop(self.lab.now, &mut self.lab.victims) {
            numbers.push(self.lab.end(pkt).1);
        }
        assert!(self.backlog.is_empty());
        numbers
    }

    /// Numbers of what was dropped; all because the queue was full.
    fn dropped(&mut self) -> Vec<u8> {
        let dropped_list = self.lab.dropped_list();
        assert!(dropped_list.iter().all(|(reason, ..)| *reason == DropReason::IfqFull));
        dropped_list.into_iter().map(|(.., number)| number).collect()
    }
}

#[test]
fn a_full_fifo_drops_its_oldest_for_the_newest() {
    let mut queue = Queue::new(limits(Discipline::Fifo, 4));
    (1..=6).for_each(|number| queue.normal(number));
    assert_eq!(queue.dropped(), [1, 2]);
    assert_eq!(queue.leave(), [3, 4, 5, 6]);
}

#[test]
fn a_fifo_is_full_of_bytes_too() {
    let bytes =
        Limits { spec: QueueSpec { bytes_max: 350, ..QueueSpec::FIFO }, ..limits(Discipline::Fifo, 100) };
    let mut queue = Queue::new(Limits { spec: bytes.spec, ..bytes });
    (1..=4).for_each(|number| queue.normal(number));
    assert_eq!(queue.dropped(), [1]);
    assert_eq!(queue.leave(), [2, 3, 4]);
}

#[test]
fn a_packet_longer_than_the_whole_queue_is_dropped_itself() {
    let mut queue = Queue::new(Limits {
        spec: QueueSpec { bytes_max: 350, ..QueueSpec::FIFO },
        ..limits(Discipline::Fifo, 9)
    });
    queue.normal(1);
    let long = queue.lab.packet(Of::flow(1).number(2));
    queue.push(long);
    assert_eq!(queue.dropped(), [1, 2]);
}

#[test]
fn what_must_not_wait_survives_a_full_queue_until_it_is_half_of_it() {
    for discipline in Discipline::ALL {
        let mut queue = Queue::new(limits(discipline, 8));
        (1..=8).for_each(|number| queue.normal(number));
        (101..=104).for_each(|number| queue.urgent(number));
        assert_eq!(queue.dropped(), [1, 2, 3, 4], "{discipline:?}");
        queue.urgent(105);
        assert_eq!(queue.dropped(), [105], "the priority list holds half: {discipline:?}");
        let mut left = queue.leave();
        left.sort_unstable();
        assert_eq!(left, [5, 6, 7, 8, 101, 102, 103, 104], "{discipline:?}");
    }
}

#[test]
fn an_ordinary_packet_never_evicts_what_must_not_wait() {
    let mut queue = Queue::new(limits(Discipline::Fifo, 2));
    queue.urgent(101);
    queue.urgent(102);
    queue.normal(1);
    assert_eq!(queue.dropped(), [1]);
    assert_eq!(queue.leave(), [101, 102]);
}

#[test]
fn what_must_not_wait_goes_first_but_does_not_stop_the_others() {
    for discipline in Discipline::ALL {
        let mut queue = Queue::new(limits(discipline, 100));
        (1..=3).for_each(|number| queue.normal(number));
        (101..=108).for_each(|number| queue.urgent(number));
        assert_eq!(queue.leave(), [101, 102, 103, 1, 104, 105, 106, 2, 107, 108, 3], "{discipline:?}");
    }
}

#[test]
fn a_queue_keeps_no_more_than_its_share_of_the_buffers() {
    for discipline in Discipline::ALL {
        let mut queue = Queue::new(Limits { buffers_max: 5, ..limits(discipline, 10_000) });
        for number in 0..100 {
            queue.normal(number);
            assert!(queue.backlog.len() <= 5);
        }
        assert_eq!(queue.dropped().len() + queue.leave().len(), 100);
    }
}

#[test]
fn while_receive_rings_run_short_a_standing_queue_does_not_grow() {
    for discipline in Discipline::ALL {
        let mut queue = Queue::new(limits(discipline, 1000));
        (0..100).for_each(|number| queue.normal(number));
        queue.lab.short_max = 50;
        (0..10).for_each(|number| queue.normal(number));
        assert_eq!(queue.backlog.len(), 110, "it may be a burst");
        queue.lab.pass(Duration::from_millis(11));
        (100..200).for_each(|number| queue.normal(number));
        assert!((25..=110).contains(&queue.backlog.len()), "{discipline:?}: {}", queue.backlog.len());
        queue.lab.short_max = usize::MAX;
        (0..100).for_each(|number| queue.normal(number));
        assert!(queue.backlog.len() > 110, "{discipline:?}");
        queue.dropped();
        queue.leave();
    }
}

#[test]
fn another_discipline_takes_over_what_waits() {
    let mut queue = Queue::new(limits(Discipline::Fifo, 100));
    (1..=5).for_each(|number| queue.normal(number));
    queue.urgent(101);
    queue.backlog.configure(limits(Discipline::FqCodel, 100), &mut queue.lab.around());
    assert_eq!(queue.leave(), [101, 1, 2, 3, 4, 5]);
    assert!(queue.dropped().is_empty());
}
