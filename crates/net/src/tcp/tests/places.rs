//! Places that somebody has before he listens there, or connects from there.

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
fn a_place_refuses_what_comes_in_its_own_look_until_somebody_listens_there() {
    for (them, us) in hosts() {
        let mut bench = Bench::new(1);
        let ask = |bench: &mut Bench| {
            bench.inject(1, syn(them, us, 5000));
            bench.run();
            answer(bench)
        };
        let refused = |hops, class| Some((Flags::RST | Flags::ACK, hops, class));
        assert_eq!(ask(&mut bench), refused(64, 0), "there is no place");
        let place = Listen { look: Look { hops: 4, class: 0x28 }, ..listen_on((us, 80).into()) };
        let id = bind(bench.cpu(), &place).unwrap();
        assert_eq!(ask(&mut bench), refused(4, 0x28));
        // What marks congestion is not of a reset.
        set_place_look(bench.cpu(), id, Look { hops: 7, class: 0x2b }).unwrap();
        assert_eq!(ask(&mut bench), refused(7, 0x28));
        open(bench.cpu(), id, 1, Settings::default()).unwrap();
        assert_eq!(ask(&mut bench), Some((Flags::SYN | Flags::ACK, 7, 0x28)));
        unlisten(bench.cpu(), id);
        assert_eq!(open(bench.cpu(), id, 1, Settings::default()), Err(Error::NotFound));
        assert_eq!(
            (local(bench.cpu(), id), set_place_look(bench.cpu(), id, place.look)),
            (None, Err(Error::NotFound))
        );
    }
}

#[test]
fn a_place_is_had_once_and_takes_no_connections_of_who_listens_beside_it() {
    for addr in families() {
        let any: IpAddr = if addr.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
        let mut host = Host::new(1, addr, |listen| listen.addr.set_ip(any));
        let own = listen_on(host.addr);
        let id = bind(host.cpu(0), &own).unwrap();
        assert_eq!(bind(host.cpu(0), &own), Err(Error::AddrInUse));
        assert_eq!(listen(host.cpu(0), &own), Err(Error::AddrInUse));
        assert_eq!(accept(host.cpu(0), id), Err(Error::WouldBlock));
        host.pair(0);
        // Of a group, too, only those who listen.
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
fn a_place_without_a_port_has_one_that_nobody_has_and_connections_come_from_a_place() {
    for addr in families() {
        let mut host = Host::new(2, addr, |_| ());
        let mut wants = listen_on((addr, 0).into());
        let first = bind(host.cpu(0), &wants).unwrap();
        wants.addr = local(host.cpu(0), first).unwrap();
        assert!(crate::pcb::EPHEMERAL.contains(&wants.addr.port()));
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
