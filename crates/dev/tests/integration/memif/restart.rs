//! Peers that come and go.

use dev::memif::{Role, State};
use net::driver::{Driver, Link};

use crate::memif::end::{End, Place, exists, frame, pair, until};

fn either_end_may_go_and_come_back() {
    for gone in [0, 1] {
        let place = Place::new();
        let [master, slave] = pair(&place, |options| options.rings = 2);
        let (mut stays, goes) = if gone == 0 { (slave, master) } else { (master, slave) };
        stays.send(0, &[frame(100, 1)]); // it lies in the ring when the peer goes
        drop(goes);
        until("it is down", || stays.is_down());
        assert_eq!(stays.status().state, State::Waiting);
        assert_eq!(stays.send(1, &[frame(100, 2), frame(100, 3)]), 2, "taken, and refused");
        assert_eq!(stays.rings[1].stats().tx_errors, 2);
        for round in 2..5 {
            let role = if gone == 0 { Role::Master } else { Role::Slave };
            let mut options = place.options(role);
            options.rings = 2;
            let mut back = End::open(options);
            until("both are up", || stays.is_up() && back.is_up());
            assert_eq!(stays.status().connects, round);
            for ring in [0, 1] {
                stays.send(ring, &[frame(100, ring)]);
                assert_eq!(back.receive(ring, 1), [frame(100, ring)]);
                back.send(ring, &[frame(100, ring)]);
                assert_eq!(stays.receive(ring, 1), [frame(100, ring)]);
            }
            drop(back);
            until("it is down", || stays.is_down());
        }
    }
}

fn a_slave_waits_for_a_master_that_comes_later() {
    let place = Place::new();
    let mut slave = End::open(place.options(Role::Slave));
    until("it has tried", || slave.last_fault().is_some());
    assert!(
        slave.last_fault().unwrap().to_string().starts_with("cannot connect to "),
        "{:?}",
        slave.status()
    );
    assert!(slave.status().failed_connects > 0);
    assert_eq!((slave.status().ends, slave.rings[0].link()), (0, Link::Down));
    let mut master = End::open(place.options(Role::Master));
    until("both are up", || slave.is_up() && master.is_up());
}

fn an_owner_that_sleeps_hears_of_the_peer() {
    use std::os::fd::AsFd;
    let place = Place::new();
    let mut master = End::open(place.options(Role::Master));
    assert!(master.rings[0].may_sleep());
    let _slave = End::open(place.options(Role::Slave));
    let device = master.rings[0].waiter().descriptor().unwrap();
    let fd = device.as_fd();
    let mut fds = [dev::sys::poll::PollFd::new(&fd, dev::sys::poll::PollFlags::IN)];
    let woken = dev::sys::poll::wait(&mut fds, Some(core::time::Duration::from_secs(10))).unwrap();
    assert_eq!(woken, 1);
    master.turn();
    assert_eq!(master.rings[0].link(), Link::Up);
}

fn a_ring_that_is_moved_to_another_cpu_keeps_its_peer() {
    let place = Place::new();
    let mut ends = pair(&place, |_| ());
    ends[1].send(0, &[frame(100, 1)]);
    let End { rings, pool, .. } = &mut ends[0];
    rings[0].leave(pool);
    let other = pkt::Arena::carve(1, 64, false).unwrap().pop().unwrap();
    let before = core::mem::replace(pool, other);
    assert_eq!(before.free(), before.total());
    assert_eq!(ends[0].receive(0, 1), [frame(100, 1)]);
}

fn a_closed_interface_leaves_no_socket_and_says_farewell() {
    let place = Place::new();
    let [mut master, slave] = pair(&place, |_| ());
    assert!(exists(&place.socket()));
    master.port = None;
    assert!(!exists(&place.socket()));
    until("the slave knows", || slave.status().state == State::Waiting);
    assert_eq!(slave.status().ends, 1);
    until("rings are down", || {
        master.turn();
        master.rings[0].link() == Link::Down
    });
}

harness::tests![
    either_end_may_go_and_come_back,
    a_slave_waits_for_a_master_that_comes_later,
    an_owner_that_sleeps_hears_of_the_peer,
    a_ring_that_is_moved_to_another_cpu_keeps_its_peer,
    a_closed_interface_leaves_no_socket_and_says_farewell,
];
