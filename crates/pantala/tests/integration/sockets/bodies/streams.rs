//! The bodies.

use core::net::{Ipv6Addr, SocketAddr};
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::thread::scope;

use crate::sockets::socket_api::{Face, Terms};

const SHORT: Duration = Duration::from_millis(20);
/// Longest time without progress before a test has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A listener at each address, and what is done with it.
fn each<F: Face>(face: &F, what: impl Fn(F::Listener, SocketAddr)) {
    for addr in face.addrs() {
        let listener = face.bind((addr, 0).into()).unwrap();
        let at = F::addr(&listener);
        assert_eq!(at.ip(), addr);
        what(listener, at);
    }
}

/// Both ends of a connection, at each address.
fn each_pair<F: Face>(face: &F, what: impl Fn(F::Stream, F::Stream)) {
    each(face, |listener, at| {
        let near = face.connect(at).unwrap();
        let (far, _) = F::accept(&listener).unwrap();
        what(near, far);
    });
}

fn bytes(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(37) ^ at >> 8 ^ salt).to_le_bytes()[0]).collect()
}

pub(crate) fn what_is_sent_comes_back_and_the_end_behind_it<F: Face>(face: &F) {
    each_pair(face, |near, mut far| {
        let sent = bytes(3_000_000, 1);
        scope(|scope| {
            scope.spawn(move || {
                let mut buf = vec![0; 10_000];
                loop {
                    match far.read(&mut buf).unwrap() {
                        0 => return,
                        count => far.write_all(&buf[..count]).unwrap(),
                    }
                }
            });
            let mut writer = F::clone(&near);
            let all = &sent;
            scope.spawn(move || {
                writer.write_all(all).unwrap();
                F::shutdown(&writer, Shutdown::Write).unwrap();
            });
            let (mut near, mut back) = (near, Vec::new());
            near.read_to_end(&mut back).unwrap();
            assert!(back == sent, "{} of {} bytes came back", back.len(), sent.len());
            assert_eq!(near.read(&mut [0; 8]).unwrap(), 0, "the end stays the end");
            assert!(near.write(b"x").is_err(), "it was shut");
        });
    });
}

pub(crate) fn many_connections_at_once_are_each_their_own<F: Face>(face: &F) {
    const COUNT: usize = 100;
    each(face, |listener, at| {
        scope(|scope| {
            scope.spawn(move || {
                let all: Vec<_> = (0..COUNT).map(|_| F::accept(&listener).unwrap()).collect();
                for (mut far, peer) in all {
                    assert_eq!(F::ends(&far), [at, peer]);
                    let mut buf = Vec::new();
                    far.read_to_end(&mut buf).unwrap();
                    far.write_all(&buf).unwrap();
                }
            });
            let near: Vec<_> = (0..COUNT).map(|_| face.connect(at).unwrap()).collect();
            for (salt, mut near) in near.iter().map(F::clone).enumerate() {
                assert_eq!(F::ends(&near)[1], at);
                near.write_all(&bytes(2000, salt)).unwrap();
                F::shutdown(&near, Shutdown::Write).unwrap();
            }
            for (salt, mut near) in near.into_iter().enumerate() {
                let mut back = Vec::new();
                near.read_to_end(&mut back).unwrap();
                assert!(back == bytes(2000, salt));
            }
        });
    });
}

pub(crate) fn a_port_without_a_listener_refuses<F: Face>(face: &F) {
    each(face, |listener, at| {
        drop(listener);
        // To drop a listener of a stack is to tell netisrs, which are quick, but not asked.
        let why = core::iter::repeat_with(|| face.connect(at).err()).find_map(|why| why).unwrap();
        assert_eq!(why.kind(), ErrorKind::ConnectionRefused);
    });
}

pub(crate) fn an_address_is_bound_once_and_only_if_it_is_ours<F: Face>(face: &F) {
    each(face, |listener, at| {
        let again = face.bind(at).err().unwrap();
        assert_eq!((again.kind(), again.raw_os_error()), (ErrorKind::AddrInUse, Some(98)));
        drop(listener);
        drop(face.bind(at).unwrap());
    });
    let foreign = face.bind(([198, 51, 100, 7], 0).into()).err().unwrap();
    assert_eq!((foreign.kind(), foreign.raw_os_error()), (ErrorKind::AddrNotAvailable, Some(99)));
}

pub(crate) fn a_read_waits_no_longer_than_it_may<F: Face>(face: &F) {
    each_pair(face, |mut near, mut far| {
        F::set_read_timeout(&near, Some(SHORT)).unwrap();
        assert_eq!(near.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        far.write_all(b"late").unwrap();
        F::set_read_timeout(&near, None).unwrap();
        assert_eq!(near.read(&mut [0; 8]).unwrap(), 4);
    });
}

pub(crate) fn what_cannot_be_done_at_once_is_not_waited_for<F: Face>(face: &F) {
    each(face, |listener, at| {
        F::set_listener_nonblocking(&listener);
        assert_eq!(F::accept(&listener).err().unwrap().kind(), ErrorKind::WouldBlock);
        let mut near = face.connect(at).unwrap();
        let (mut far, _) = loop {
            match F::accept(&listener) {
                Ok(accepted) => break accepted,
                Err(why) => assert_eq!(why.kind(), ErrorKind::WouldBlock),
            }
        };
        F::set_nonblocking(&near, true);
        F::set_nonblocking(&far, false);
        assert_eq!(near.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut sent = 0;
        let full = loop {
            match near.write(&[7; 100_000]) {
                Ok(count) => sent += count,
                Err(why) => break why,
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        assert!(sent > 0);
        F::set_nonblocking(&near, false);
        F::shutdown(&near, Shutdown::Write).unwrap();
        let mut all = Vec::new();
        far.read_to_end(&mut all).unwrap();
        assert!(all.len() == sent && all.iter().all(|byte| *byte == 7));
    });
}

pub(crate) fn close_with_unread_data_resets_the_connection<F: Face>(face: &F) {
    each_pair(face, |mut near, far| {
        near.write_all(b"never read").unwrap();
        assert_eq!(F::peek(&far, &mut [0; 16]).unwrap(), 10);
        drop(far);
        assert_eq!(near.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(near.read(&mut [0; 8]).unwrap(), 0, "it was said once");
        assert_eq!(near.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

pub(crate) fn shutdown_wakes_a_blocked_reader<F: Face>(face: &F) {
    each_pair(face, |near, far| {
        let mut reader = F::clone(&near);
        scope(|scope| {
            let read = scope.spawn(move || reader.read(&mut [0; 8]).unwrap());
            F::shutdown(&near, Shutdown::Read).unwrap();
            assert_eq!(read.join().unwrap(), 0);
        });
        drop(far);
    });
}

pub(crate) fn a_peek_takes_nothing<F: Face>(face: &F) {
    each_pair(face, |mut near, mut far| {
        near.write_all(b"look").unwrap();
        let mut seen = [0; 8];
        assert_eq!(F::peek(&far, &mut seen).unwrap(), 4);
        assert_eq!((far.read(&mut seen).unwrap(), &seen[..4]), (4, &b"look"[..]));
    });
}

pub(crate) fn a_clone_is_the_same_connection<F: Face>(face: &F) {
    each_pair(face, |mut near, mut far| {
        let copy = F::clone(&near);
        assert_eq!(F::ends(&copy), F::ends(&near));
        drop(copy);
        near.write_all(b"goes on").unwrap();
        assert_eq!(far.read(&mut [0; 8]).unwrap(), 7);
        drop(near);
        assert_eq!(far.read(&mut [0; 8]).unwrap(), 0, "the last was dropped");
    });
}

pub(crate) fn no_timeout_is_not_a_timeout<F: Face>(face: &F) {
    each_pair(face, |near, _| {
        let none = F::set_read_timeout(&near, Some(Duration::ZERO)).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::InvalidInput);
    });
}

pub(crate) fn close_with_linger_zero_resets_the_connection<F: Face>(face: &F) {
    each_pair(face, |mut near, far| {
        F::linger_not_at_all(&far);
        drop(far);
        assert_eq!(near.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

pub(crate) fn a_listener_is_for_both_families_unless_it_says_so<F: Face>(face: &F) {
    let [four, six] = face.addrs();
    for only_v6 in [false, true] {
        let listener = face.bind_with((Ipv6Addr::UNSPECIFIED, 0).into(), Terms { only_v6, is_shared: false });
        let listener = listener.unwrap();
        let port = F::addr(&listener).port();
        drop((face.connect((six, port).into()).unwrap(), F::accept(&listener).unwrap()));
        match face.connect((four, port).into()) {
            Err(why) => assert_eq!((why.kind(), only_v6), (ErrorKind::ConnectionRefused, true)),
            Ok(near) => {
                assert!(!only_v6);
                drop((near, F::accept(&listener).unwrap()));
            }
        }
    }
}

pub(crate) fn an_address_is_shared_only_with_reuseport_on_all_sockets<F: Face>(face: &F) {
    let shared = Terms { is_shared: true, only_v6: false };
    for addr in face.addrs() {
        let first = face.bind_with((addr, 0).into(), shared).unwrap();
        let at = F::addr(&first);
        let second = face.bind_with(at, shared).unwrap();
        assert_eq!(face.bind(at).err().unwrap().kind(), ErrorKind::AddrInUse);
        // Either of them is asked as long as it is there; a stack may hear a moment later that one was dropped.
        drop(first);
        F::set_listener_nonblocking(&second);
        let begun = std::time::Instant::now();
        let mut tried = Vec::new();
        while F::accept(&second).is_err() {
            assert!(begun.elapsed() < PATIENCE);
            tried.push(face.connect(at));
        }
    }
}
