use core::time::Duration;

use net::driver::{Driver, Link};
use net::ringmap::RingMap;
use net::rss::Placement;
use pkt::{Arena, DATA_LEN, Flags, Gso, Pkt, PktVec, Pool};

use super::{End, MemRing, QUEUES_MAX, RING_LEN, wire};
use crate::sys::poll::{PollFd, PollFlags, wait};

const ALLOWANCE: usize = 200;

fn pool() -> Pool {
    Arena::carve(1, 2048, false).unwrap().pop().unwrap()
}

/// A ring and what its CPU has.
struct Host {
    ring: MemRing,
    pool: Pool,
}

fn host(end: &End) -> Host {
    Host { ring: end.open(1, ALLOWANCE).unwrap().pop().unwrap(), pool: pool() }
}

fn hosts() -> [Host; 2] {
    wire(1).unwrap().each_ref().map(host)
}

impl Host {
    /// Sends frames of these lengths; answers how many went.
    fn send(&mut self, lengths: &[usize]) -> usize {
        let mut frames = PktVec::new();
        for (seed, len) in (0..).zip(lengths) {
            assert!(frames.push(frame(&mut self.pool, *len, seed)).is_ok());
        }
        self.ring.tx(&mut self.pool, &mut frames);
        self.ring.doorbell(&mut self.pool);
        let stayed = frames.len();
        self.pool.give_all(&mut frames);
        lengths.len() - stayed
    }

    fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut frames = PktVec::new();
        self.ring.rx(&mut self.pool, &mut frames, 64);
        let bytes = frames.iter().map(|pkt| pkt.fragments().flatten().copied().collect()).collect();
        self.pool.give_all(&mut frames);
        bytes
    }

    /// Closes it, and asserts that nothing is missing.
    fn end(mut self) {
        self.ring.close(&mut self.pool);
        assert_eq!((self.pool.free(), self.pool.charged()), (self.pool.total(), 0));
        assert_eq!(self.pool.arena().leaked(), 0);
    }
}

fn byte(seed: u8, at: usize) -> u8 {
    u8::try_from(at * 7 % 251).unwrap() ^ seed
}

/// A frame in as many buffers as it needs.
fn frame(pool: &mut Pool, len: usize, seed: u8) -> Pkt {
    let bytes: Vec<u8> = (0..len).map(|at| byte(seed, at)).collect();
    let mut parts = bytes.chunks(DATA_LEN).map(|part| {
        let mut pkt = pool.take().unwrap();
        pkt.append(part.len()).unwrap().copy_from_slice(part);
        pkt
    });
    let mut head = parts.next().unwrap();
    parts.for_each(|part| head.chain(part));
    head
}

#[test]
fn frames_arrive_in_order_as_they_were_sent_and_their_buffers_come_home() {
    let [mut a, mut b] = hosts();
    let lengths = [60, 1514, DATA_LEN, DATA_LEN + 1, 65_549];
    assert_eq!(a.send(&lengths), 5);
    let got = b.receive();
    for ((seed, len), frame) in (0..).zip(lengths).zip(&got) {
        assert!((0..len).map(|at| byte(seed, at)).eq(frame.iter().copied()), "{len}");
    }
    assert_eq!(got.len(), 5);
    assert!(a.ring.in_flight() > Some(0) && a.ring.busy());
    a.receive();
    assert_eq!((a.ring.in_flight(), a.ring.busy()), (Some(0), false));
    a.end();
    b.end();
}

#[test]
fn a_super_packet_crosses_whole_with_all_that_is_known_of_it() {
    let [mut a, mut b] = hosts();
    let mut sent = frame(&mut a.pool, 40_000, 1);
    sent.flags.set(Flags::CSUM_PARTIAL.with(Flags::GSO_ECN).with(Flags::LOCAL));
    (sent.gso, sent.gso_size, sent.csum_start, sent.csum_off) = (Gso::Tcp6, 1440, 54, 16);
    let mut frames = PktVec::new();
    assert!(frames.push(sent).is_ok());
    a.ring.tx(&mut a.pool, &mut frames);
    b.ring.rx(&mut b.pool, &mut frames, 1);
    for got in frames.iter() {
        assert_eq!((got.gso, got.gso_size, got.csum_start, got.csum_off), (Gso::Tcp6, 1440, 54, 16));
        assert_eq!(got.flags, Flags::CSUM_PARTIAL.with(Flags::GSO_ECN).with(Flags::ODD));
    }
    b.pool.give_all(&mut frames);
    [a, b].into_iter().for_each(Host::end);
}

#[test]
fn a_wire_has_a_bounded_number_of_queues() {
    assert_eq!(
        [0, 1, QUEUES_MAX, QUEUES_MAX + 1].map(|queues| wire(queues).is_ok()),
        [false, true, true, false]
    );
    let [end, _] = wire(2).unwrap();
    assert_eq!([0, 3, 2].map(|rings| end.open(rings, ALLOWANCE).is_ok()), [false, false, true]);
}

#[test]
fn what_a_full_ring_does_not_take_stays_with_the_sender() {
    let [mut a, mut b] = hosts();
    while a.send(&[60; 64]) == 64 {}
    assert_eq!(a.ring.stats().tx_frames, RING_LEN as u64);
    assert_eq!(b.receive().len(), 64);
    assert_eq!(a.send(&[60; 128]), 64);
    [a, b].into_iter().for_each(Host::end);
}

#[test]
fn a_receiver_without_buffers_takes_nothing_and_looks_again_soon() {
    let [mut a, mut b] = hosts();
    let mut held = PktVec::new();
    a.send(&[60; 250]);
    while b.ring.rx(&mut b.pool, &mut held, 256) > 0 {}
    assert!(held.len() < 250 && b.ring.busy());
    let before = held.len();
    b.pool.give_all(&mut held);
    while b.ring.rx(&mut b.pool, &mut held, 256) > 0 {}
    assert!(before + held.len() == 250 && !b.ring.busy());
    b.pool.give_all(&mut held);
    [a, b].into_iter().for_each(Host::end);
}

#[test]
fn to_an_end_that_is_closed_nothing_is_sent_and_it_can_be_opened_again() {
    let [end, other] = wire(1).unwrap();
    let mut a = host(&end);
    assert_eq!((a.ring.link(), a.send(&[60; 3])), (Link::Down, 0));
    let mut b = host(&other);
    assert_eq!((a.ring.link(), a.send(&[60; 3])), (Link::Up, 3));
    assert!(other.open(1, ALLOWANCE).is_err(), "it is in use");
    assert_eq!(b.send(&[60; 2]), 2);
    b.end();
    assert_eq!(a.ring.link(), Link::Down);
    a.receive();
    assert!(!a.ring.busy());
    let mut b = host(&other);
    assert_eq!((a.ring.link(), a.send(&[60])), (Link::Up, 1));
    assert_eq!(b.receive().len(), 1);
    [a, b].into_iter().for_each(Host::end);
}

#[test]
fn a_sender_that_ends_takes_back_what_nobody_has_received() {
    let [mut a, mut b] = hosts();
    a.send(&[60; 100]);
    b.receive();
    a.end();
    assert!(b.receive().is_empty());
    b.end();
}

#[test]
fn a_sleeping_thread_is_woken_once_and_a_running_one_never() {
    let [mut a, mut b] = hosts();
    let is_rung = |host: &Host| {
        let bell = host.ring.waiter().descriptor().unwrap();
        let mut ask = [PollFd::new(&bell, PollFlags::IN)];
        wait(&mut ask, Some(Duration::ZERO)).unwrap() == 1
    };
    a.send(&[60]);
    assert!(!is_rung(&b) && !b.ring.may_sleep(), "there is something");
    assert_eq!(b.receive().len(), 1);
    assert!(b.ring.may_sleep());
    assert!(!is_rung(&b));
    a.send(&[60]);
    a.send(&[60]);
    assert!(is_rung(&b));
    assert_eq!(a.ring.stats().doorbells, 1);
    assert_eq!(b.receive().len(), 2);
    assert!(!is_rung(&b), "it is heard once");
    [a, b].into_iter().for_each(Host::end);
}

#[test]
fn each_flow_comes_by_the_ring_whose_cpu_owns_it() {
    const CPUS: u16 = 3;
    let [end, other] = wire(4).unwrap();
    let mut a = host(&end);
    let mut rings = other.open(3, ALLOWANCE).unwrap();
    let map = RingMap::alloc(CPUS, 0, None, 3);
    other.steer(&map);
    let mut b = pool();
    for flow in 0..100_u8 {
        let mut frames = PktVec::new();
        let mut sent = a.pool.take().unwrap();
        let packet = sent.append(14 + 28).unwrap();
        packet.fill(0);
        packet[12..14].copy_from_slice(&[8, 0]);
        packet[14..16].copy_from_slice(&[0x45, 0]);
        packet[23] = 17;
        packet[26..30].copy_from_slice(&[192, 0, 2, flow]);
        let owner = Placement::new(CPUS).owner(super::ring::hash(&sent));
        assert!(frames.push(sent).is_ok());
        a.ring.tx(&mut a.pool, &mut frames);
        for (ring, got) in rings.iter_mut().enumerate() {
            let count = got.rx(&mut b, &mut frames, 64);
            assert_eq!(count, usize::from(map.cpu(ring) == owner), "flow {flow}");
        }
        b.give_all(&mut frames);
    }
    rings.iter_mut().for_each(|ring| ring.close(&mut b));
    a.end();
    assert_eq!(b.free(), b.total());
}

#[test]
fn two_threads_pass_frames_and_each_may_end_at_any_time() {
    const ROUNDS: usize = 30;
    let [one, two] = wire(1).unwrap();
    for round in 0..ROUNDS {
        let run = |end: &End, seed: usize| {
            let mut host = host(end);
            let mut got = 0;
            for _ in 0..seed * 37 % 90 {
                host.send(&[60, 1514, 9000]);
                got += host.receive().len();
            }
            host.end();
            got
        };
        std::thread::scope(|scope| {
            let far = scope.spawn(|| run(&two, round + 11));
            run(&one, round + 1);
            far.join().unwrap();
        });
    }
}
