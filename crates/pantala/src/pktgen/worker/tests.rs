use std::collections::VecDeque;

use dev::Waiter;
use net::driver::Caps;
use pkt::Arena;
use wire::ether::Mac;

use super::*;
use crate::daemon::cpus::NewRing;
use crate::pktgen::flows::{Pick, Ranges};
use crate::pktgen::frame::{Headers, Transport};
use crate::pktgen::grammar::{Addrs, Ports};
use crate::pktgen::measure::Expect;
use crate::pktgen::rate::Rate;
use crate::pktgen::sizes::Sizes;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const SESSION: u16 = 77;
const SECOND: u64 = 1_000_000_000;

/// A device that receives what it sends, with room for a few frames.
struct Mirror {
    frames: VecDeque<Pkt>,
    room: usize,
}

impl Driver for Mirror {
    fn rx(&mut self, pool: &mut Pool, into: &mut PktVec, max: usize) -> usize {
        let count = self.frames.len().min(max);
        for pkt in self.frames.drain(..count) {
            into.push(pkt).map_or_else(|pkt| pool.give(pkt), |()| ());
        }
        count
    }

    fn tx(&mut self, _pool: &mut Pool, from: &mut PktVec) {
        let room = self.room - self.frames.len();
        self.frames.extend(from.drain_front(room));
    }

    fn doorbell(&mut self, _pool: &mut Pool) {}

    fn caps(&self) -> Caps {
        Caps { buffers_max: 1, ..Caps::default() }
    }

    fn stats(&self) -> DriverStats {
        DriverStats::default()
    }

    fn close(&mut self, pool: &mut Pool) {
        self.frames.drain(..).for_each(|pkt| pool.give(pkt));
    }
}

fn addrs(is_v4: bool) -> Addrs {
    Addrs::parse(if is_v4 { "192.0.2.0/28" } else { "2001:db8::1-2001:db8::e" }).unwrap()
}

fn source(is_v4: bool, rate: &str, sizes: &str, burst: u32, count: Option<u64>, time_ns: u64) -> Source {
    let port = Ports { first: 9, last: 9 };
    let ranges = Ranges { src: addrs(is_v4), dst: addrs(is_v4), sport: port, dport: port };
    let headers = Headers { is_v4, transport: Transport::Udp, src_mac: MAC, dst_mac: MAC, ttl: 64, tos: 0 };
    Source {
        targets: vec![Target::new(&headers, SESSION)],
        flows: ranges.flows(14, Pick::Step, 1),
        first: 0,
        stride: 1,
        at: 0,
        sizes: SizeOrder::new(Sizes::parse(sizes).unwrap(), 1),
        pacer: Pacer::new(Rate::parse(rate).unwrap(), 0),
        burst,
        left: count,
        time_ns,
        out: PktVec::new(),
        learnt_in: 0,
        is_done: false,
        phases: Phases::default(),
        timeline: None,
    }
}

fn worker(is_v4: bool, room: usize, source: Source) -> Worker {
    let pool = Arena::carve(1, 1024, false).unwrap().pop().unwrap();
    let driver = Box::new(Mirror { frames: VecDeque::new(), room });
    let ring =
        WorkerRing { ring: NewRing { driver, waiter: Waiter::never() }, pool, port: 0, is_file: false };
    let station = Station { mac: MAC, addresses: vec![addrs(is_v4)], except: None };
    let expect = Expect::Own { session: SESSION, dst: addrs(is_v4) };
    let mut worker = Worker::new(ring, station, Measure::new(expect));
    worker.source = Some(source);
    worker
}

#[test]
fn what_is_sent_comes_back_once_and_in_order_however_small_the_ring() {
    for is_v4 in [true, false] {
        for room in [1, 7, 300] {
            let mut worker = worker(is_v4, room, source(is_v4, "max", "imix", 32, Some(3000), u64::MAX));
            if !is_v4 {
                worker.source = Some(source(is_v4, "max", "84,1518", 32, Some(3000), u64::MAX));
            }
            let orders = Orders::default();
            orders.send(now_ns());
            while worker.board.state.load(Ordering::Relaxed) & DONE == 0 {
                worker.send(SEND, &orders);
                worker.receive(|_| {});
            }
            worker.receive(|_| {});
            let arena = Arc::clone(worker.pool.arena());
            let done = worker.close();
            let tally = done.measure.tally;
            assert_eq!((done.sent, done.measure.unique(), done.missing), (3000, 3000, 0));
            assert_eq!(
                (tally.duplicated, tally.reordered, done.measure.gaps(), done.measure.flows()),
                (0, 0, 0, 14)
            );
            assert_eq!((done.sent_bytes, arena.leaked()), (tally.bytes, 0));
        }
    }
}

#[test]
fn frames_too_small_for_a_header_are_counted() {
    let mut worker = worker(false, 300, source(false, "max", "66,84", 32, Some(1000), u64::MAX));
    let orders = Orders::default();
    orders.send(now_ns());
    while worker.board.state.load(Ordering::Relaxed) & DONE == 0 {
        worker.send(SEND, &orders);
        worker.receive(|_| {});
    }
    let done = worker.close();
    let tally = done.measure.tally;
    assert_eq!((tally.plain, tally.probes, done.measure.unique(), done.sent), (500, 500, 1000, 1000));
}

#[test]
fn each_round_of_learning_frames_is_sent_once_and_not_measured() {
    let mut worker = worker(true, 300, source(true, "max", "64", 1, None, SECOND));
    let orders = Orders::default();
    for round in 0..3 {
        orders.learn(round);
        for _ in 0..3 {
            worker.send(LEARN + round, &orders);
            worker.receive(|_| {});
        }
    }
    let done = worker.close();
    assert_eq!((done.measure.tally.learning, done.measure.unique(), done.sent), (3 * 14, 0, 0));
}

#[test]
fn a_solicitation_for_an_own_address_is_answered() {
    for is_v4 in [true, false] {
        let mut worker = worker(is_v4, 300, source(is_v4, "max", "84", 1, None, SECOND));
        let (own, other) = (addrs(is_v4).nth(0), addrs(is_v4).nth(1));
        let question =
            Station { mac: Mac([2, 0, 0, 0, 0, 9]), addresses: Vec::new(), except: None }.ask(own, other);
        worker.say(&question.unwrap());
        let mut seen = Vec::new();
        // the question comes back as it would from another, and then the answer
        worker.receive(|frame| seen.push(frame.to_vec()));
        worker.receive(|frame| seen.push(frame.to_vec()));
        let learned: Vec<_> =
            seen.iter().filter_map(|frame| super::super::station::learned(frame, other)).collect();
        assert_eq!((seen.len(), learned), (2, vec![MAC]));
        assert_eq!(worker.close().missing, 0);
    }
}

/// Virtual time: the source is asked whenever we like, and makes what the rate earns, to the frame.
#[test]
fn a_second_of_a_rate_is_that_many_frames_whatever_the_steps() {
    let mut pool = Arena::carve(1, 1024, false).unwrap().pop().unwrap();
    for (rate, burst, frames) in [
        ("1pps", 1, 1),
        ("1kpps", 1, 1000),
        ("1kpps", 50, 1000),
        ("333.333kpps", 1, 333_333),
        ("512kbit", 1, 1000),
    ] {
        for step in [1_000, 999_983, 40_000_000] {
            let mut source = source(true, rate, "64", burst, None, SECOND);
            let (mut made, mut now) = (0, 5_000);
            while !source.is_done {
                source.make(now, 5_000, &mut pool);
                made += source.out.len();
                source.out.drain().for_each(|pkt| pool.give(pkt));
                // a full vector is emptied at once; else time passes
                now += if source.pacer.is_due(now - 5_000) { 0 } else { step };
            }
            assert_eq!((made, source.pacer.behind_ns()), (frames, 0), "{rate} in steps of {step} ns");
        }
    }
    assert_eq!(pool.free(), pool.total());
}

/// Also what instructions are counted of: `FRAMES` says how many are made.
#[test]
fn frames_are_made_without_end_from_the_same_buffers() {
    let frames: u64 = std::env::var("FRAMES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let mut pool = Arena::carve(1, 512, false).unwrap().pop().unwrap();
    let mut source = source(true, "max", "64", 64, Some(frames), u64::MAX);
    while !source.is_done {
        source.make(1, 0, &mut pool);
        source.out.drain().for_each(|pkt| pool.give(pkt));
    }
    let made: u64 = source.flows.iter().map(|flow| u64::from(flow.sent)).sum();
    assert_eq!((made, pool.free()), (frames, pool.total()));
}
