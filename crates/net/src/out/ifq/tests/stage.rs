use super::*;
use crate::out::ifq::backlog::Limits;
use crate::out::ifq::stage::{Ifq, Rest, Sent};
use crate::out::ifq::{Discipline, DoorbellAt, QueueSpec};

/// A queue in front of a ring with so much room.
struct Out {
    lab: Lab,
    ifq: Ifq,
    room: usize,
    /// Bytes that the ring says it holds; it says nothing if none.
    in_flight: Option<usize>,
    /// Times that the ring was offered something.
    offers: usize,
    sent: Vec<u8>,
}

impl Out {
    fn new(discipline: Discipline) -> Self {
        let (mut lab, mut ifq) = (Lab::new(), Ifq::default());
        let limits = Limits { spec: QueueSpec::of(discipline), frame_max: FULL, buffers_max: 1024 };
        ifq.open(limits, &mut lab.around());
        Self { lab, ifq, room: usize::MAX, in_flight: None, offers: 0, sent: Vec::new() }
    }

    fn stage(&mut self, len: usize, number: u8) {
        let pkt = self.lab.packet(Of::flow(1).len(len).number(number));
        if let Err(pkt) = self.ifq.stage(pkt) {
            self.ifq.unstage(&mut self.lab.around());
            assert!(self.ifq.stage(pkt).map_err(|pkt| self.lab.end(pkt)).is_ok());
        }
    }

    fn send(&mut self) -> Sent {
        let Self { lab, ifq, room, in_flight, offers, sent } = self;
        let Lab { pool, secret, victims, now, short_max } = lab;
        ifq.send(*in_flight, &mut Around { now: *now, secret, victims, short_max: *short_max }, |pkts| {
            *offers += 1;
            for pkt in pkts.drain_front(*room) {
                *room -= 1;
                *in_flight = in_flight.map(|bytes| bytes + pkt.len());
                sent.push(pkt.head()[pkt.len() - 1]);
                pool.give(pkt);
            }
        })
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        for pkt in self.ifq.empty() {
            self.lab.end(pkt);
        }
    }
}

#[test]
fn sixteen_packets_or_a_full_frame_are_due_before_the_roll_up() {
    let mut out = Out::new(Discipline::Fifo);
    for number in 0..15 {
        out.stage(64, number);
        assert!(!out.ifq.is_due(DoorbellAt::default()));
    }
    out.stage(64, 15);
    assert!(out.ifq.is_due(DoorbellAt::default()));
    out.send();
    assert_eq!((out.offers, out.sent.len()), (1, 16));
    assert!(!out.ifq.is_due(DoorbellAt::default()) && out.ifq.is_empty());
    out.stage(1499, 0);
    assert!(!out.ifq.is_due(DoorbellAt::default()));
    out.stage(64, 0);
    assert!(out.ifq.is_due(DoorbellAt::default()), "1500 bytes");
}

#[test]
fn the_doorbell_is_due_as_soon_as_either_threshold_is_reached() {
    let mut out = Out::new(Discipline::Fifo);
    for number in 0..4 {
        out.stage(64, number);
    }
    for (packets, bytes, is_due) in [(5, 1500, false), (4, 1500, true), (5, 256, true), (5, 257, false)] {
        assert_eq!(out.ifq.is_due(DoorbellAt { packets, bytes }), is_due, "{packets} packets, {bytes} bytes");
    }
}

#[test]
fn what_a_full_ring_leaves_goes_first_the_next_time() {
    for discipline in Discipline::ALL {
        let mut out = Out::new(discipline);
        (0..10).for_each(|number| out.stage(64, number));
        out.room = 4;
        let sent = out.send();
        assert_eq!((sent.packets, sent.bytes, sent.rest), (4, 4 * 64, Rest::Queued));
        (10..20).for_each(|number| out.stage(64, number));
        out.room = 3;
        out.send();
        out.room = 100;
        let sent = out.send();
        assert_eq!((sent.packets, sent.rest), (13, Rest::None));
        assert_eq!(out.sent, (0..20).collect::<Vec<_>>(), "{discipline:?}");
    }
}

#[test]
fn a_stage_that_is_full_is_queued_and_nothing_is_lost_or_overtaken() {
    for discipline in Discipline::ALL {
        let mut out = Out::new(discipline);
        (0..700_u32).for_each(|number| out.stage(64, u8::try_from(number % 256).unwrap()));
        assert_eq!(out.send().packets, 700);
        assert!(out.sent.iter().zip((0..=255).cycle()).all(|(sent, number)| *sent == number));
        assert_eq!(out.sent.len(), 700);
    }
}

#[test]
fn at_the_byte_limit_packets_wait_although_the_ring_has_room() {
    let mut out = Out::new(Discipline::Fifo);
    out.in_flight = Some(0);
    (0..10).for_each(|number| out.stage(1000, number));
    let sent = out.send();
    // Two full frames, and one that goes beyond.
    assert_eq!((sent.packets, sent.rest), (4, Rest::Queued));
    assert_eq!(out.send().packets, 0, "nothing has been sent");
    out.in_flight = Some(0);
    out.lab.pass(Duration::from_millis(1));
    assert!(out.send().packets >= 4, "it ran dry");
    out.in_flight = Some(0);
    out.send();
    assert_eq!(out.sent, (0..10).collect::<Vec<_>>());
}

#[test]
fn a_ring_that_does_not_say_what_it_holds_has_no_byte_limit() {
    let mut out = Out::new(Discipline::Fifo);
    (0..200).for_each(|number| out.stage(1514, number));
    assert_eq!((out.send().packets, out.offers), (200, 1));
    assert_eq!((out.ifq.state().byte_limit, out.ifq.state().in_flight), (None, 0));
}

#[test]
fn a_closed_queue_lets_nothing_in_and_gives_back_all_in_order() {
    let mut out = Out::new(Discipline::FqCodel);
    (0..10).for_each(|number| out.stage(64, number));
    out.room = 4;
    out.send();
    (10..20).for_each(|number| out.stage(64, number));
    out.ifq.close();
    let pkt = out.lab.packet(Of::flow(1));
    let pkt = out.ifq.stage(pkt).expect_err("closed");
    out.lab.end(pkt);
    let numbers: Vec<_> = out.ifq.empty().into_iter().map(|pkt| out.lab.end(pkt).1).collect();
    assert_eq!(numbers, (4..20).collect::<Vec<_>>());
    assert!(out.ifq.is_empty());
}

#[test]
fn a_ring_of_another_cpu_begins_with_a_limit_of_its_own() {
    let mut out = Out::new(Discipline::Fifo);
    out.in_flight = Some(0);
    for _ in 0..20 {
        (0..200).for_each(|number| out.stage(1514, number));
        out.in_flight = Some(0);
        out.lab.pass(Duration::from_millis(1));
        out.send();
    }
    assert!(out.ifq.state().byte_limit > Some(100_000));
    out.ifq.connect(crate::out::ifq::Via::Ring(3));
    assert_eq!(out.ifq.state().byte_limit, Some(2 * FULL));
    out.lab.dropped_list();
}
