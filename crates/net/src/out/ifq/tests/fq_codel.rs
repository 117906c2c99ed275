use super::*;
use crate::out::ifq::FLOWS;
use crate::out::ifq::codel::Law;
use crate::out::ifq::fq_codel::{FqCodel, flow_of};
use crate::out::ifq::list::Queued;

const LAW: Law = Law { target: Duration::from_millis(5), interval: Duration::from_millis(100), mtu: FULL };

struct Queue {
    lab: Lab,
    flows: FqCodel,
}

impl Queue {
    fn new() -> Self {
        Self { lab: Lab::new(), flows: FqCodel::default() }
    }

    fn push(&mut self, of: Of) {
        let pkt = self.lab.packet(of);
        let flow = flow_of(&pkt, &self.lab.secret);
        self.flows.push(Queued { pkt, since: self.lab.now, tag: () }, flow);
    }

    /// Flow and number of the next that leaves.
    fn pop(&mut self) -> Option<(u16, u8)> {
        let queued = self.flows.pop(self.lab.now, &LAW, &mut self.lab.victims)?;
        Some(self.lab.end(queued.pkt))
    }

    fn leave(&mut self) -> Vec<(u16, u8)> {
        core::iter::from_fn(|| self.pop()).collect()
    }
}

#[test]
fn two_flows_that_always_queue_share_bytes_not_packets() {
    for family in [Family::V4, Family::V6] {
        let mut queue = Queue::new();
        for _ in 0..60 {
            queue.push(Of { family, ..Of::flow(1) });
            (0..10).for_each(|_| queue.push(Of { family, ..Of::flow(2).len(151) }));
        }
        let (mut big, mut small) = (0, 0);
        for _ in 0..300 {
            match queue.pop().unwrap() {
                (1, _) => big += FULL,
                _ => small += 151,
            }
        }
        assert!(big.abs_diff(small) <= 2 * FULL, "{big} and {small} bytes");
        queue.leave();
    }
}

#[test]
fn a_flow_that_comes_seldom_goes_before_those_that_queue() {
    for family in [Family::V4, Family::V6] {
        let mut queue = Queue::new();
        (0..100).for_each(|_| queue.push(Of { family, ..Of::flow(1) }));
        assert_eq!(queue.pop().unwrap().0, 1);
        for number in 0..10 {
            queue.push(Of { family, ..Of::flow(2).len(100).number(number) });
            assert_eq!(queue.pop(), Some((2, number)), "at once");
            assert_eq!(queue.pop().unwrap().0, 1);
            assert_eq!(queue.pop().unwrap().0, 1);
        }
        queue.leave();
    }
}

/// RFC 8290 §4.2: a flow that emptied while it was new is not new again at once.
#[test]
fn a_flow_that_sends_a_packet_whenever_it_ran_empty_does_not_starve_the_others() {
    let mut queue = Queue::new();
    (0..50).for_each(|_| queue.push(Of::flow(1)));
    queue.pop();
    let mut served = [0; 2];
    for _ in 0..40 {
        // Always there when its turn has come: with two packets, so that it has gone empty only after the second.
        queue.push(Of::flow(2).len(1000));
        let (flow, _) = queue.pop().unwrap();
        served[usize::from(flow) - 1] += 1;
    }
    assert!(served[0] >= 12, "flow 1 was served {} times of 40", served[0]);
    queue.leave();
}

#[test]
fn a_flow_keeps_its_order() {
    let mut queue = Queue::new();
    for number in 0..200 {
        queue.push(Of::flow(1).len(300).number(number));
        queue.push(Of::flow(2).len(900).number(number));
    }
    let left = queue.leave();
    for flow in [1, 2] {
        let numbers: Vec<_> = left.iter().filter(|(of, _)| *of == flow).map(|(_, number)| *number).collect();
        assert_eq!(numbers, (0..200).collect::<Vec<_>>());
    }
}

#[test]
fn when_it_is_full_the_fattest_flow_loses_half_of_its_oldest_packets_but_64_at_the_most() {
    for (fat, lost) in [(30, 15), (500, 64)] {
        let mut queue = Queue::new();
        (0..fat).for_each(|number| queue.push(Of::flow(1).number(u8::try_from(number % 250).unwrap())));
        (0..10).for_each(|number| queue.push(Of::flow(2).number(number)));
        assert!(queue.flows.shed(&mut queue.lab.victims));
        let dropped_list = queue.lab.dropped_list();
        let oldest: Vec<_> = (0..lost).map(|number| (DropReason::IfqFull, 1, number)).collect();
        assert_eq!(dropped_list, oldest);
        assert_eq!(queue.flows.len(), fat - usize::from(lost) + 10);
        queue.leave();
    }
}

#[test]
fn an_empty_one_has_nothing_to_give_up() {
    let mut queue = Queue::new();
    assert!(!queue.flows.shed(&mut queue.lab.victims));
    queue.push(Of::flow(1));
    assert!(queue.flows.shed(&mut queue.lab.victims));
    assert!(!queue.flows.shed(&mut queue.lab.victims));
    assert_eq!((queue.flows.len(), queue.flows.bytes(), queue.flows.flows()), (0, 0, 0));
    assert_eq!(queue.pop(), None);
}

#[test]
fn more_flows_than_there_are_queues_share_them_and_all_leave() {
    let mut queue = Queue::new();
    let flows = u16::try_from(3 * FLOWS).unwrap();
    (1..=flows).for_each(|flow| queue.push(Of::flow(flow).len(100)));
    assert!(queue.flows.flows() <= FLOWS);
    assert_eq!(queue.leave().len(), usize::from(flows));
    assert_eq!((queue.flows.len(), queue.flows.bytes()), (0, 0));
}

#[test]
fn knowing_the_placement_hash_does_not_reveal_the_queue() {
    let of = |key| {
        let mut queue = Queue::new();
        queue.lab.secret = Secret::new(key);
        (1..=64).for_each(|flow| queue.push(Of::flow(flow).len(100)));
        let apart = queue.flows.flows();
        queue.leave();
        apart
    };
    // Flows that meet under one key are apart under another.
    let spread: Vec<_> = (1..=8).map(of).collect();
    assert!(spread.iter().all(|apart| (55..=64).contains(apart)), "{spread:?}");
    assert!(spread.iter().any(|apart| *apart != spread[0]), "{spread:?}");
}

#[test]
fn fragments_of_one_datagram_share_a_queue() {
    let mut queue = Queue::new();
    for at in 0..4_u8 {
        let mut pkt = queue.lab.packet(Of::flow(u16::from(at)).len(100).number(at));
        pkt.head_mut()[20..22].copy_from_slice(&[0x20, at]);
        let flow = flow_of(&pkt, &queue.lab.secret);
        queue.flows.push(Queued { pkt, since: queue.lab.now, tag: () }, flow);
    }
    assert_eq!(queue.flows.flows(), 1);
    assert_eq!(queue.leave().iter().map(|(_, number)| *number).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

/// Each flow has a CoDel of its own: only the one that stays too long is told.
#[test]
fn the_flow_that_builds_a_queue_is_told_and_no_other() {
    for (ecn, marks) in [(0, false), (2, true)] {
        for family in [Family::V4, Family::V6] {
            let mut queue = Queue::new();
            (0..30).for_each(|_| queue.push(Of { family, ecn, ..Of::flow(1) }));
            for _ in 0..400 {
                queue.push(Of { family, ecn, ..Of::flow(1) });
                queue.push(Of { family, ecn, ..Of::flow(2).len(100) });
                queue.lab.pass(Duration::from_millis(1));
                queue.pop();
                queue.pop();
            }
            let (marked, dropped_list) = (queue.lab.victims.marked(), queue.lab.dropped_list());
            assert!(marked + dropped_list.len() > 3 && (marked > 0) == marks, "{marked} marked");
            assert!(
                dropped_list.iter().all(|(reason, flow, _)| (*reason, *flow) == (DropReason::IfqCodel, 1))
            );
            assert!(!marks || dropped_list.is_empty());
            queue.leave();
        }
    }
}

#[test]
fn memory_is_used_again_and_does_not_grow_with_time() {
    let mut queue = Queue::new();
    for round in 0..1000_u16 {
        (0..3).for_each(|n| queue.push(Of::flow(round.wrapping_mul(3) + n).len(100)));
        queue.leave();
    }
    assert!(queue.flows.capacity() <= 4, "{}", queue.flows.capacity());
}
