//! Tests for a stack inside the program only.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::thread::scope;
use std::time::Instant;

use pantala::sockets::{Options, PktInfo, Received, aio, blocking};

use crate::sockets::bodies::datagrams::any;
use crate::sockets::socket_api::{Face, Stacks};

/// Time limit of a netisr's report.
const PATIENCE: Duration = Duration::from_secs(20);

fn blocked_calls_fail_with_enetdown_when_the_stack_ends() {
    let Stacks { server, client, stacks: [one, two], .. } = Stacks::new();
    let at: SocketAddr = "192.0.2.1:80".parse().unwrap();
    let listener = blocking::TcpListener::bind(&server, at).unwrap();
    let near = blocking::TcpStream::connect(&client, at).unwrap();
    let (far, _) = listener.accept().unwrap();
    scope(|scope| {
        let accepts = scope.spawn(|| listener.accept().err().unwrap());
        let reads = scope.spawn(move || (&far).read(&mut [0; 8]).unwrap_err());
        one.stop().unwrap();
        assert_eq!(accepts.join().unwrap().kind(), ErrorKind::NetworkDown);
        assert_eq!(reads.join().unwrap().kind(), ErrorKind::NetworkDown);
    });
    assert_eq!(blocking::TcpListener::bind(&server, at).err().unwrap().kind(), ErrorKind::NetworkDown);
    two.stop().unwrap();
    let why = core::iter::repeat_with(|| (&near).write(b"x").err()).find_map(|why| why).unwrap();
    assert_eq!(why.kind(), ErrorKind::BrokenPipe);
}

fn futures_that_are_dropped_leave_nothing() {
    let stacks = Stacks::new();
    let at: SocketAddr = "192.0.2.1:81".parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        for _ in 0..200 {
            // Polled once, and then dropped.
            let connects = aio::TcpStream::connect(&stacks.client, "192.0.2.77:1");
            assert!(tokio::time::timeout(Duration::ZERO, connects).await.is_err());
            let binds = aio::TcpListener::bind(&stacks.server, at);
            drop(tokio::time::timeout(Duration::ZERO, binds).await);
        }
    });
    // The place is free, and no connection is left, as soon as netisrs have done what they were told.
    while blocking::TcpListener::bind(&stacks.server, at).is_err() {}
    let left = |cpu| {
        let count = |netisr: &mut net::netisr::Netisr| {
            netisr.cpu.tcp.as_ref().map_or(0, |pcbs| pcbs.page(0, 9, None).0.len())
        };
        stacks.stacks[1].call(cpu, count).unwrap()
    };
    while left(0) + left(1) > 2 {
        std::thread::yield_now();
    }
}

fn options_are_those_of_a_socket_from_its_first_segment() {
    let stacks = Stacks::new();
    let options = Options::new().nodelay(true).ttl(7).tos(0x20).keepalive(None).backlog(5);
    let at: SocketAddr = "[2001:db8::1]:82".parse().unwrap();
    let listener = blocking::TcpListener::bind_with(&stacks.server, at, &options).unwrap();
    let local: SocketAddr = "[2001:db8::2]:4711".parse().unwrap();
    for _ in 0..2 {
        let near = blocking::TcpStream::connect_with(&stacks.client, at, &options.clone().local(local));
        let near = near.unwrap();
        let (far, peer) = listener.accept().unwrap();
        assert_eq!((peer, near.local_addr().unwrap()), (local, local), "wherever its answers come to");
        // No TIME-WAIT keeps the port.
        near.set_linger(Some(Duration::ZERO)).unwrap();
        drop(near);
        assert_eq!((&far).read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    assert_eq!(stacks.addrs()[1], at.ip());
}

fn connections_beyond_those_handed_over_ahead_wait_where_they_have_come() {
    const COUNT: usize = 100;
    const AHEAD: usize = 32;
    let stacks = Stacks::new();
    let at: SocketAddr = "192.0.2.1:83".parse().unwrap();
    let listener = blocking::TcpListener::bind(&stacks.server, at).unwrap();
    let near: Vec<_> =
        (0..COUNT).map(|_| blocking::TcpStream::connect(&stacks.client, at).unwrap()).collect();
    let waiting = |cpu| {
        let count = |netisr: &mut net::netisr::Netisr| {
            let listeners = netisr.cpu.tcp.as_ref().map(|pcbs| pcbs.page_of_listeners(0, 9).0);
            listeners.into_iter().flatten().map(|listener| listener.waiting).sum::<usize>()
        };
        stacks.stacks[0].call(cpu, count).unwrap()
    };
    while waiting(0) + waiting(1) < COUNT - 2 * AHEAD {
        std::thread::yield_now();
    }
    let mut peers: Vec<_> = (0..COUNT).map(|_| listener.accept().unwrap().1).collect();
    let mut locals: Vec<_> = near.iter().map(|near| near.local_addr().unwrap()).collect();
    peers.sort();
    locals.sort();
    assert_eq!(peers, locals);
    assert_eq!(waiting(0) + waiting(1), 0);
}

fn a_receive_call_returns_interface_destination_and_hop_limit() {
    let stacks = Stacks::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for addr in stacks.addrs() {
        let threads = blocking::UdpSocket::bind(&stacks.server, (addr, 0)).unwrap();
        let tasks = runtime.block_on(aio::UdpSocket::bind(&stacks.server, (addr, 0))).unwrap();
        let client = blocking::UdpSocket::bind(&stacks.client, any((addr, 0).into())).unwrap();
        for (ttl, tos) in [(7, 0x4b), (255, 0)] {
            client.set_ttl(ttl).unwrap();
            client.set_tos(tos).unwrap();
            assert_eq!((client.ttl().unwrap(), client.tos().unwrap()), (ttl, tos));
            client.send_to(b"look", threads.local_addr().unwrap()).unwrap();
            client.send_to(b"look", tasks.local_addr().unwrap()).unwrap();
            let mut into = [0; 8];
            let come = [
                threads.recv_datagram(&mut into).unwrap(),
                runtime.block_on(tasks.recv_datagram(&mut into)).unwrap(),
            ];
            for Received { len, from, ttl: came, tos: with, local, interface } in come {
                assert_eq!(
                    (local, interface),
                    (Some(addr), 1),
                    "to which address of ours, and by which interface"
                );
                assert_eq!(
                    (len, from.port(), came, with),
                    (4, client.local_addr().unwrap().port(), ttl, tos)
                );
            }
        }
    }
}

fn a_datagram_is_sent_from_the_address_that_its_call_names() {
    let stacks = Stacks::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for addr in stacks.addrs() {
        let server = blocking::UdpSocket::bind(&stacks.server, (addr, 0)).unwrap();
        let to = server.local_addr().unwrap();
        let everywhere = any((addr, 0).into());
        let threads = blocking::UdpSocket::bind(&stacks.client, everywhere).unwrap();
        let tasks = runtime.block_on(aio::UdpSocket::bind(&stacks.client, everywhere)).unwrap();
        threads.send_to(b"which", to).unwrap();
        let mut into = [0; 8];
        let own = server.recv_from(&mut into).unwrap().1.ip();
        let info = PktInfo { source: Some(own), interface: 1 };
        threads.send_datagram(b"threads", to, info).unwrap();
        assert_eq!(
            server.recv_from(&mut into).unwrap(),
            (7, (own, threads.local_addr().unwrap().port()).into())
        );
        runtime.block_on(tasks.send_datagram(b"tasks", to, info)).unwrap();
        assert_eq!(server.recv_from(&mut into).unwrap().1.ip(), own);
        // An address that is not ours: the netisr says so.
        threads.send_datagram(b"spoofed", to, PktInfo { source: Some(addr), ..info }).unwrap();
        threads.send_datagram(b"after", to, info).unwrap();
        assert_eq!(server.recv_from(&mut into).unwrap().0, 5);
        let begun = Instant::now();
        let failed = loop {
            if let Some(failed) = threads.take_undelivered() {
                break failed;
            }
            assert!(begun.elapsed() < PATIENCE, "the netisr says nothing");
            std::thread::yield_now();
        };
        assert_eq!(failed.why.kind(), ErrorKind::AddrNotAvailable);
        let long = vec![0; 65_500];
        let refused = threads.send_datagram(&long, to, info).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(90), "there is no room to name the end");
    }
}

fn sockets_that_may_bind_to_any_address_have_one_that_is_not_ours() {
    let stacks = Stacks::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let any = Options::new().bind_any(true);
    for (strange, at) in [("203.0.113.9:53", "192.0.2.1:53"), ("[2001:db8:ffff::9]:53", "[2001:db8::1]:53")] {
        let [strange, at]: [SocketAddr; 2] = [strange, at].map(|addr| addr.parse().unwrap());
        let refused = [
            blocking::UdpSocket::bind(&stacks.client, strange).err(),
            blocking::TcpListener::bind(&stacks.client, strange).err(),
            runtime.block_on(aio::TcpListener::bind(&stacks.client, strange)).err(),
        ];
        for why in refused {
            assert_eq!(why.unwrap().kind(), ErrorKind::AddrNotAvailable);
        }
        let listener = blocking::TcpListener::bind_with(&stacks.client, strange, &any).unwrap();
        assert_eq!(listener.local_addr().unwrap(), strange);
        drop(listener);
        let server = blocking::UdpSocket::bind(&stacks.server, at).unwrap();
        let mut into = [0; 8];
        let threads = blocking::UdpSocket::bind_with(&stacks.client, strange, &any).unwrap();
        threads.send_to(b"threads", at).unwrap();
        assert_eq!(server.recv_from(&mut into).unwrap(), (7, strange));
        drop(threads);
        let tasks = || runtime.block_on(aio::UdpSocket::bind_with(&stacks.client, strange, &any));
        // The place is free as soon as netisrs have done what they were told.
        let tasks = core::iter::repeat_with(tasks).find_map(Result::ok).unwrap();
        runtime.block_on(tasks.send_to(b"tasks", at)).unwrap();
        assert_eq!(server.recv_from(&mut into).unwrap(), (5, strange));
    }
}

harness::tests![
    sockets_that_may_bind_to_any_address_have_one_that_is_not_ours,
    blocked_calls_fail_with_enetdown_when_the_stack_ends,
    futures_that_are_dropped_leave_nothing,
    options_are_those_of_a_socket_from_its_first_segment,
    connections_beyond_those_handed_over_ahead_wait_where_they_have_come,
    a_receive_call_returns_interface_destination_and_hop_limit,
    a_datagram_is_sent_from_the_address_that_its_call_names,
];
