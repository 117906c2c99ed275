//! Two ends of ours.

use std::os::fd::AsFd;

use dev::memif::{Hub, Options, Role, State};
use dev::sys::poll::{PollFd, PollFlags, wait};
use net::driver::{Driver, Link};

use crate::memif::end::{End, Place, exists, frame, pair, until};

fn frames_of_all_lengths_cross_both_ways() {
    let place = Place::new();
    let mut ends = pair(&place, |_| ());
    let lengths =
        [14, 15, 31, 32, 42, 60, 63, 64, 65, 127, 128, 129, 1514, 2047, 2048, 2049, 4096, 9018, 65_549];
    for from in [0, 1] {
        for (seed, len) in lengths.into_iter().enumerate() {
            let sent = vec![frame(len, seed)];
            assert_eq!(ends[from].send(0, &sent), 1);
            assert_eq!(ends[1 - from].receive(0, 1), sent, "{len}");
        }
    }
    for end in &ends {
        assert_eq!((end.rings[0].stats().rx_frames, end.rings[0].stats().tx_frames), (19, 19));
        assert_eq!((end.rings[0].stats().rx_errors, end.rings[0].stats().tx_errors), (0, 0));
    }
}

fn short_buffers_carry_long_frames_in_many_pieces_and_headers_come_first() {
    let place = Place::new();
    let mut ends = pair(&place, |options| options.buffer_size = 256);
    for from in [0, 1] {
        let sent = vec![frame(60, 1), frame(1514, 2), frame(9018, 3)];
        assert_eq!(ends[from].send(0, &sent), 3);
        let mut got = Vec::new();
        until("frames come", || {
            got.extend(ends[1 - from].rx(0));
            got.len() == 3
        });
        for (pkt, sent) in got.into_iter().zip(sent) {
            assert_eq!(pkt.head(), &sent[..sent.len().min(pkt::DATA_LEN)]);
            assert_eq!(pkt.buffers(), sent.len().div_ceil(pkt::DATA_LEN));
            ends[1 - from].pool.give(pkt);
        }
    }
    // 65549 bytes are more than 64 pieces of 256.
    assert_eq!(ends[0].send(0, &[frame(65_549, 4)]), 1);
    assert_eq!(ends[0].rings[0].stats().tx_errors, 1);
}

fn a_full_ring_takes_no_more_and_loses_nothing() {
    let place = Place::new();
    let mut ends = pair(&place, |options| options.ring_size = 16);
    for from in [0, 1] {
        let frames: Vec<_> = (0..20).map(|seed| frame(100, seed)).collect();
        assert_eq!(ends[from].send(0, &frames), 16);
        assert_eq!(ends[from].rings[0].stats().tx_full, 1);
        assert_eq!(ends[from].send(0, &frames[16..]), 0);
        assert_eq!(ends[1 - from].receive(0, 16), frames[..16]);
        assert_eq!(ends[from].send(0, &frames[16..]), 4);
        assert_eq!(ends[1 - from].receive(0, 4), frames[16..]);
    }
}

fn what_the_peer_has_not_taken_is_in_flight() {
    let place = Place::new();
    let mut ends = pair(&place, |options| (options.ring_size, options.buffer_size) = (16, 2048));
    for from in [0, 1] {
        for round in 0..40 {
            assert_eq!(ends[from].rings[0].in_flight(), Some(0), "{round}");
            let (short, long) = (frame(100, round), frame(5000, round));
            assert_eq!(ends[from].send(0, &[short.clone(), long.clone()]), 2);
            assert_eq!(ends[from].rings[0].in_flight(), Some(5100));
            let full: Vec<_> = (0..12).map(|seed| frame(60, seed)).collect();
            assert_eq!(ends[from].send(0, &full), 12);
            assert_eq!(ends[from].rings[0].in_flight(), Some(5100 + 12 * 60));
            assert_eq!(ends[1 - from].receive(0, 14).len(), 14);
        }
    }
}

fn indices_wrap_as_often_as_they_like() {
    let place = Place::new();
    let mut ends = pair(&place, |options| options.ring_size = 64);
    let frames: Vec<_> = (0..60).map(|seed| frame(60 + seed, seed)).collect();
    for round in 0..1200 {
        let from = round % 2;
        assert_eq!(ends[from].send(0, &frames), 60);
        assert_eq!(ends[1 - from].receive(0, 60).len(), 60);
    }
    assert_eq!(ends[0].rings[0].stats().tx_frames, 36_000);
}

fn a_burst_is_one_doorbell() {
    let place = Place::new();
    let mut ends = pair(&place, |_| ());
    let frames: Vec<_> = (0..100).map(|seed| frame(64, seed)).collect();
    ends[0].send(0, &frames);
    ends[0].rings[0].doorbell(&mut ends[0].pool);
    assert_eq!(ends[0].rings[0].stats().doorbells, 1);
    ends[1].receive(0, 100);
}

fn several_rings_are_each_their_own() {
    let place = Place::new();
    let mut ends = pair(&place, |options| options.rings = 4);
    for from in [0, 1] {
        for ring in 0..4 {
            ends[from].send(ring, &[frame(100, ring)]);
        }
        for ring in 0..4 {
            assert_eq!(ends[1 - from].receive(ring, 1), [frame(100, ring)]);
        }
    }
    assert_eq!(ends[0].status().rings, 4);
}

fn without_buffers_frames_wait_in_the_ring() {
    let place = Place::new();
    let mut ends = pair(&place, |_| ());
    let frames: Vec<_> = (0..20).map(|seed| frame(100, seed)).collect();
    for from in [0, 1] {
        let to = 1 - from;
        ends[from].send(0, &frames);
        // A quarter of the pool is for others.
        let few = ends[to].pool.total() / 4 + 10;
        let taken: Vec<_> = (few..ends[to].pool.free()).filter_map(|_| ends[to].pool.take()).collect();
        let first = ends[to].rx(0);
        assert_eq!((first.len(), ends[to].rx(0).len()), (10, 0));
        assert!(ends[to].rings[0].busy() && ends[to].rings[0].may_sleep());
        first.into_iter().chain(taken).for_each(|pkt| ends[to].pool.give(pkt));
        assert_eq!(ends[to].receive(0, 10), frames[10..]);
        assert!(!ends[to].rings[0].busy());
    }
}

fn a_sleeper_is_woken_by_the_first_frame_and_by_no_other() {
    let place = Place::new();
    let mut ends = pair(&place, |_| ());
    for from in [0, 1] {
        let to = 1 - from;
        let waiter = ends[to].rings[0].waiter();
        let rings = |what| {
            let device = waiter.descriptor().unwrap();
            wait(&mut [PollFd::new(&device.as_fd(), PollFlags::IN)], Some(what)).unwrap() == 1
        };
        let (now, soon) = (core::time::Duration::ZERO, core::time::Duration::from_secs(5));
        ends[from].send(0, &[frame(60, 0)]);
        assert!(!rings(now), "awake: nobody rings");
        assert!(!ends[to].rings[0].may_sleep(), "something is there already");
        ends[to].receive(0, 1);
        assert!(ends[to].rings[0].may_sleep() && !rings(now));
        ends[from].send(0, &[frame(60, 1)]);
        assert!(rings(soon), "asleep: woken");
        ends[to].receive(0, 1);
        ends[from].send(0, &[frame(60, 2)]);
        assert!(!rings(now), "awake again");
        ends[to].receive(0, 1);
    }
}

fn interfaces_share_a_socket_by_their_ids() {
    let place = Place::new();
    let mut hub = Hub::start(|| (), Box::new(|_, _| ())).unwrap();
    let [mut one, mut two] = [1, 2].map(|id| {
        let mut options = place.options(Role::Master);
        (options.id, options.name) = (id, format!("m{id}"));
        hub.open(options).unwrap()
    });
    let mut slaves = [2, 1].map(|id| {
        let mut options = place.options(Role::Slave);
        (options.id, options.name) = (id, format!("s{id}"));
        End::open(options)
    });
    until("both are up", || slaves.iter_mut().all(End::is_up));
    let mut pool = pkt::Arena::carve(1, 16, false).unwrap().pop().unwrap();
    let mut up = |ring: &mut dyn Driver| {
        ring.rx(&mut pool, &mut pkt::PktVec::new(), 1);
        ring.link() == Link::Up
    };
    until("both are up here", || up(&mut one.1[0]) && up(&mut two.1[0]));
    assert_eq!((one.0.status().peer_interface, two.0.status().peer_interface), ("s1".into(), "s2".into()));
    assert_eq!(slaves[0].status().peer_interface, "m2");
    assert!(slaves[0].status().peer.starts_with("pantala "));

    let again = hub.open(place.options(Role::Master));
    assert!(again.is_ok(), "id 0 is free");
    let mut taken = place.options(Role::Master);
    taken.id = 1;
    assert_eq!(hub.open(taken).err().unwrap().kind(), std::io::ErrorKind::AddrInUse);
    drop((one, two));
    assert!(exists(&place.socket()), "one still listens");
    drop(again);
    assert!(!exists(&place.socket()));
}

fn a_secret_is_asked_for_and_must_be_the_same() {
    let place = Place::new();
    let with = |role, secret: Option<&str>| {
        let mut options = place.options(role);
        options.secret = secret.map(str::to_owned);
        End::open(options)
    };
    let mut master = with(Role::Master, Some("open sesame"));
    for wrong in [None, Some("open"), Some("open sesame!")] {
        let slave = with(Role::Slave, wrong);
        until("it is refused", || slave.status().ends > 0);
        assert_eq!(slave.last_fault().unwrap().to_string(), "the peer disconnected: wrong secret");
    }
    assert_eq!(master.last_fault().unwrap().to_string(), "wrong secret");
    let mut slave = with(Role::Slave, Some("open sesame"));
    until("it is let in", || slave.is_up() && master.is_up());
}

fn options_out_of_bounds_are_refused() {
    let place = Place::new();
    let mut hub = Hub::start(|| (), Box::new(|_, _| ())).unwrap();
    let good = place.options(Role::Master);
    let changes: [fn(&mut Options); 9] = [
        |o| o.rings = 0,
        |o| o.rings = 65,
        |o| o.ring_size = 1000,
        |o| o.ring_size = 8,
        |o| o.ring_size = 32_768,
        |o| o.buffer_size = 100,
        |o| o.buffer_size = 70_000,
        |o| o.secret = Some("x".repeat(24)),
        |o| (o.rings, o.ring_size) = (64, 16_384),
    ];
    for change in changes {
        let mut options = good.clone();
        change(&mut options);
        assert_eq!(hub.open(options).err().unwrap().kind(), std::io::ErrorKind::InvalidInput);
    }
    let mut long = good;
    long.socket = place.socket().join("x".repeat(200));
    assert!(hub.open(long).is_err());
}

fn a_stale_unix_socket_is_replaced_and_a_live_one_is_not() {
    let place = Place::new();
    {
        let stale = std::os::unix::net::UnixListener::bind(place.socket()).unwrap();
        let mut hub = Hub::start(|| (), Box::new(|_, _| ())).unwrap();
        assert!(hub.open(place.options(Role::Master)).is_err(), "somebody listens");
        drop(stale); // its file stays
    }
    let mut other = Hub::start(|| (), Box::new(|_, _| ())).unwrap();
    let (port, _rings) = other.open(place.options(Role::Master)).unwrap();
    assert_eq!(port.status().state, State::Waiting);
    let mut third = Hub::start(|| (), Box::new(|_, _| ())).unwrap();
    assert_eq!(third.open(place.options(Role::Master)).err().unwrap().kind(), std::io::ErrorKind::AddrInUse);
}

harness::tests![
    frames_of_all_lengths_cross_both_ways,
    short_buffers_carry_long_frames_in_many_pieces_and_headers_come_first,
    a_full_ring_takes_no_more_and_loses_nothing,
    what_the_peer_has_not_taken_is_in_flight,
    indices_wrap_as_often_as_they_like,
    a_burst_is_one_doorbell,
    several_rings_are_each_their_own,
    without_buffers_frames_wait_in_the_ring,
    a_sleeper_is_woken_by_the_first_frame_and_by_no_other,
    interfaces_share_a_socket_by_their_ids,
    a_secret_is_asked_for_and_must_be_the_same,
    options_out_of_bounds_are_refused,
    a_stale_unix_socket_is_replaced_and_a_live_one_is_not,
];
