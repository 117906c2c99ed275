//! The bodies about what a socket is told in vain.

use core::net::Ipv4Addr;
use core::time::Duration;
use std::io::{Error, ErrorKind};

use pantala::sockets::KeepAlive;

use super::datagrams::any;
use crate::sockets::hosts::{Group, Host, Hosts, Link, Opt};

/// Returns the kernel's error numbers.
fn numbers<T>(all: impl IntoIterator<Item = Result<T, Error>>) -> Vec<Option<i32>> {
    all.into_iter().map(|one| one.err().and_then(|why| why.raw_os_error())).collect()
}

pub(crate) fn what_no_connection_can_do_is_refused<F: Hosts>(face: &F) {
    const SECOND: Duration = Duration::from_secs(1);
    let keep = KeepAlive { idle: SECOND, interval: SECOND, count: 1 };
    let long = 40_000 * SECOND;
    let wrong = [
        KeepAlive { idle: Duration::ZERO, ..keep },
        KeepAlive { interval: Duration::ZERO, ..keep },
        KeepAlive { count: 0, ..keep },
        KeepAlive { idle: long, ..keep },
        KeepAlive { interval: long, ..keep },
        KeepAlive { count: 200, ..keep },
    ];
    for addr in face.addrs() {
        let listener = face.bind((addr, 0).into()).unwrap();
        let near = face.connect(F::addr(&listener)).unwrap();
        F::set(&near, Opt::KeepAlive(Some(keep))).unwrap();
        for keep in wrong.map(|keep| Opt::KeepAlive(Some(keep))) {
            assert_eq!(F::set(&near, keep).unwrap_err().kind(), ErrorKind::InvalidInput, "{keep:?}");
            let connects = face.connect_as(F::addr(&listener), &[keep]);
            assert_eq!(connects.err().unwrap().kind(), ErrorKind::InvalidInput, "{keep:?}");
        }
        let none = F::set(&near, Opt::Ttl(0)).err().map(|why| why.kind());
        assert_eq!(none, addr.is_ipv4().then_some(ErrorKind::InvalidInput));
        let socket = face.client_udp(any((addr, 0).into())).unwrap();
        let none = F::set_udp(&socket, Opt::Ttl(0)).err().map(|why| why.kind());
        assert_eq!(none, addr.is_ipv4().then_some(ErrorKind::InvalidInput));
    }
}

pub(crate) fn a_group_that_cannot_be_joined_is_refused<F: Hosts>(face: &F) {
    const INVALID: Option<i32> = Some(22);
    const NO_DEVICE: Option<i32> = Some(19);
    const IN_USE: Option<i32> = Some(98);
    const NOT_AVAILABLE: Option<i32> = Some(99);
    let nowhere = Link { addr: Ipv4Addr::new(203, 0, 113, 9), index: 999 };
    for group in super::groups::GROUPS {
        let (socket, lan) = (face.bind_udp(any((group, 0).into())).unwrap(), face.link(Host::Server, 0));
        let own = face.addrs()[usize::from(group.is_ipv6())];
        let [joins, again] = [(); 2].map(|()| F::group(&socket, Group::Join(group, lan)));
        let elsewhere = F::group(&socket, Group::Join(group, nowhere));
        let leaves = F::group(&socket, Group::Leave(group, nowhere));
        assert_eq!(numbers([joins, again, elsewhere, leaves]), [None, IN_USE, NO_DEVICE, NOT_AVAILABLE]);
        let other = F::group(&socket, Group::Join(own, lan));
        let by = F::group(&socket, Group::By(nowhere));
        let by_none = if group.is_ipv4() { NOT_AVAILABLE } else { NO_DEVICE };
        assert_eq!(numbers([other, by]), [INVALID, by_none], "{group}");
    }
}
