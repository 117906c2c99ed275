//! Bound addresses before listening, or connecting; and accept queues of closed listeners.

use super::*;

/// Flags, time to live and class of the only packet that was sent.
fn answer(bench: &mut Bench) -> Option<(Flags, u8, u8)> {
    let sent = bench.sent(1);
    assert!(sent.len() <= 1);
    let packet = &sent.first()?[14..];
    let (at, hops, class) = match packet[0] >> 4 {
        4 => (20, packet[8], packet[1]),
        _ => (40, packet[7], packet[0] << 4 | packet[1] >> 4),
    };
    Some((wire::tcp::View::new(&packet[at..]).unwrap().flags(), hops, class))
}

fn hosts() -> [(IpAddr, IpAddr); 2] {
    [(addr4(1, 9).into(), addr4(1, 1).into()), (addr6(1, 9).into(), addr6(1, 1).into())]
}

#[test]
fn a_bound_socket_refuses_connections_until_it_listens() {
    for (them, us) in hosts() {
        let mut bench = Bench::new(1);
        let ask = |bench: &mut Bench| {
            bench.inject(1, syn(them, us, 5000));
            bench.run();
            answer(bench)
        };
        let refused = |hops, class| Some((Flags::RST | Flags::ACK, hops, class));
        assert_eq!(ask(&mut bench), refused(64, 0), "there is no place");
        let place =
            Listen { tx_params: IpTxParams { hops: 4, class: 0x28, fib: 0 }, ..listen_on((us, 80).into()) };
        let id = bind(bench.cpu(), &place).unwrap();
        assert_eq!(ask(&mut bench), refused(4, 0x28));
        // What marks congestion is not of a reset.
        set_listener_tx_params(bench.cpu(), id, IpTxParams { hops: 7, class: 0x2b, fib: 0 }).unwrap();
        assert_eq!(ask(&mut bench), refused(7, 0x28));
        open(bench.cpu(), id, 1, Settings::default()).unwrap();
        assert_eq!(ask(&mut bench), Some((Flags::SYN | Flags::ACK, 7, 0x28)));
        unlisten(bench.cpu(), id);
        assert_eq!(open(bench.cpu(), id, 1, Settings::default()), Err(Error::NotFound));
        assert_eq!(
            (local(bench.cpu(), id), set_listener_tx_params(bench.cpu(), id, place.tx_params)),
            (None, Err(Error::NotFound))
        );
    }
}

#[test]
fn a_bound_address_is_exclusive_and_takes_no_connections_of_other_listeners() {
    for addr in families() {
        let any: IpAddr = if addr.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
        let mut host = Host::new(1, addr, |listen| listen.addr.set_ip(any));
        let own = listen_on(host.addr);
        let id = bind(host.cpu(0), &own).unwrap();
        assert_eq!(bind(host.cpu(0), &own), Err(Error::AddrInUse));
        assert_eq!(listen(host.cpu(0), &own), Err(Error::AddrInUse));
        assert_eq!(accept(host.cpu(0), id), Err(Error::WouldBlock));
        host.pair(0);
        // Of a group, too, only listening sockets.
        let shared = Listen { is_shared: true, addr: (addr, 81).into(), ..own };
        let [_, listener] = [bind(host.cpu(0), &shared), listen(host.cpu(0), &shared)].map(Result::unwrap);
        host.addr = shared.addr;
        host.listeners = vec![listener];
        for _ in 0..8 {
            host.pair(0);
        }
    }
}

#[test]
fn bind_to_port_zero_picks_a_free_port_and_connect_uses_the_bound_one() {
    for addr in families() {
        let mut host = Host::new(2, addr, |_| ());
        let mut wants = listen_on((addr, 0).into());
        let first = bind(host.cpu(0), &wants).unwrap();
        wants.addr = local(host.cpu(0), first).unwrap();
        assert!(crate::host::pcb::EPHEMERAL.contains(&wants.addr.port()));
        assert!(bind(host.cpu(1), &wants).is_ok());
        let wanted = Connect { port: Some(wants.addr.port()), ..connector(host.addr) };
        let mut begun = connect(host.cpu(0), &wanted);
        let owner = if let Err(Error::Elsewhere(owner)) = begun { owner.index() } else { 0 };
        if owner != 0 {
            begun = connect(host.cpu(owner), &wanted);
        }
        let client = (owner, begun.unwrap());
        host.bench.run();
        let server = host.accept().unwrap();
        assert_eq!(connection(host.cpu(server.0), server.1).unwrap().0.remote(), wants.addr);
        assert!(host.carry(client, server, b"here") == b"here");
        assert_eq!(connect(host.cpu(owner), &wanted), Err(Error::AddrInUse));
    }
}

#[test]
fn a_program_is_told_of_32_connections_that_wait_and_of_the_others_when_it_asks_again() {
    for addr in families() {
        let mut host = Host::new(1, addr, |listen| listen.backlog = 256);
        let listener = host.listeners[0];
        for _ in 0..50 {
            host.connect(0);
            host.bench.run();
        }
        let told = |host: &mut Host| {
            let told = waiting(host.cpu(0), listener).unwrap();
            (0..told).for_each(|_| assert!(host.accept().is_some()));
            told
        };
        assert_eq!([told(&mut host), told(&mut host), told(&mut host)], [32, 18, 0]);
        unlisten(host.cpu(0), listener);
        assert_eq!(waiting(host.cpu(0), listener), Err(Error::NotFound));
    }
    for (most, told) in [(0, 40), (5, 5)] {
        let change = |listen: &mut Listen| (listen.backlog, listen.settings.reported_max) = (256, most);
        let mut host = Host::new(1, addr4(1, 1).into(), change);
        for _ in 0..40 {
            host.connect(0);
            host.bench.run();
        }
        let listener = host.listeners[0];
        assert_eq!(waiting(host.cpu(0), listener), Ok(told));
    }
}

#[test]
fn no_backlog_is_longer_than_the_longest_and_each_holds_one() {
    for (backlog, longest, stand) in [(1000, 3, 3), (2, 3, 2), (0, 3, 1), (5, 0, 1)] {
        let change = |listen: &mut Listen| (listen.backlog, listen.settings.backlog_max) = (backlog, longest);
        let mut host = Host::new(1, addr4(1, 1).into(), change);
        for _ in 0..6 {
            host.connect(0);
        }
        host.bench.run();
        assert_eq!(host.bench.counted(Count::TcpAccepts), stand);
    }
}

#[test]
fn a_connect_without_room_for_a_connection_fails() {
    for addr in families() {
        let mut host = Host::new(1, addr, |_| ());
        host.pair(0);
        host.cpu(0).tcp.as_mut().unwrap().room.0 = 3;
        let client = host.connect(0);
        host.bench.run();
        assert_eq!(host.bench.counted(Count::TcpTooMany), 1);
        assert_eq!(send(host.cpu(0), client.1, b"x"), Err(Error::Reset));
        assert!(half_open(host.cpu(0)).next().is_none());
    }
}

#[test]
fn tcp_refuses_multicast_and_broadcast_addresses() {
    for many in ["224.0.0.1", "255.255.255.255", "ff02::1"] {
        let mut host = Host::new(1, addr4(1, 1).into(), |_| ());
        let addr = SocketAddr::new(many.parse().unwrap(), 80);
        assert_eq!(connect(host.cpu(0), &connector(addr)), Err(Error::BadAddress));
        assert_eq!(bind(host.cpu(0), &listen_on(addr)), Err(Error::BadAddress));
    }
    for nobody in ["0.0.0.0", "::"] {
        let mut host = Host::new(1, addr4(1, 1).into(), |_| ());
        let addr = SocketAddr::new(nobody.parse().unwrap(), 80);
        assert_eq!(connect(host.cpu(0), &connector(addr)), Err(Error::BadAddress));
    }
}

#[test]
fn options_of_a_listener_apply_to_later_connections_only() {
    for addr in families() {
        let mut host = Host::new(1, addr, |_| ());
        let room = |host: &mut Host, (at, id): End| {
            connection(host.cpu(at), id).map(|(_, tcb)| tcb.writable()).unwrap()
        };
        let settings = |send_buffer| Settings { send_buffer, tunes_send: false, ..Settings::default() };
        let id = host.listeners[0];
        let [_, first] = host.pair(0);
        open(host.cpu(0), id, 10, settings(1000)).unwrap();
        let [_, second] = host.pair(0);
        let change = |told: &mut Settings| *told = settings(1200);
        host.cpu(0).tcp.as_mut().unwrap().listeners.each(change);
        let [_, third] = host.pair(0);
        let rooms = [first, second, third].map(|end| room(&mut host, end));
        assert_eq!(rooms[1..], [1000, 1200]);
        assert!(rooms[0] > 1200, "{rooms:?}: as it was when it began");
    }
}
