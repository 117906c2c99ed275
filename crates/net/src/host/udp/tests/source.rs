//! The address and the interface that a datagram is sent from, as far as its program names them.

use super::*;
use crate::host::raw;
use crate::link::tables::IfAddr;

/// Another address of interface 1, less like the peer's than the first, and one that is not ours.
fn others(like: IpAddr) -> (IpAddr, IpAddr) {
    match like {
        IpAddr::V4(_) => (addr4(1, 65).into(), addr4(1, 77).into()),
        IpAddr::V6(_) => (addr6(1, 65).into(), addr6(1, 77).into()),
    }
}

/// A stack with two addresses on interface 1.
fn bench(cpus: u16) -> Bench {
    Bench::with(2, cpus, |config| {
        let own = [(addr4(1, 65).into(), 24), (addr6(1, 65).into(), 64)];
        let own = own.map(|(addr, prefix_len)| IfAddr { addr, prefix_len });
        config.ifs[0].addrs.extend(own);
    })
}

/// The source address of the one packet that left by interface `i`.
fn source(bench: &mut Bench, i: u16) -> IpAddr {
    bench.run();
    let sent = bench.sent(i);
    assert_eq!(sent.len(), 1);
    match sent[0][HEADER_LEN] >> 4 {
        4 => ip4::Header::parse(&sent[0][HEADER_LEN..]).unwrap().src.into(),
        _ => ip6::Header::parse(&sent[0][HEADER_LEN..]).unwrap().src.into(),
    }
}

#[test]
fn a_datagram_is_sent_from_the_address_of_ours_that_its_program_names() {
    for (cpus, (addr, peer)) in CPUS.into_iter().flat_map(|cpus| families().map(|pair| (cpus, pair))) {
        let (other, strange) = others(addr);
        // Bound to all addresses, to one of them, and to the other one.
        for bound in [any(addr), addr, other] {
            let mut bench = bench(cpus);
            let ids = everywhere(&mut bench, &to_bind(bound));
            let mut send_from = |local: Option<IpAddr>| {
                let to = To { remote: (peer, 7).into(), local, zone: 0 };
                send_to(cpu(&mut bench, 0), ids[0], to, b"hello").map(|()| source(&mut bench, 1))
            };
            assert_eq!(send_from(None), Ok(if bound.is_unspecified() { addr } else { bound }));
            assert_eq!(send_from(Some(addr)), Ok(addr));
            assert_eq!(send_from(Some(other)), Ok(other));
            assert_eq!(send_from(Some(any(addr))), send_from(None), "no address is named");
            assert_eq!(send_from(Some(strange)), Err(Error::AddrNotAvailable));
            let of_the_other_family = if addr.is_ipv4() { addr6(1, 1).into() } else { addr4(1, 1).into() };
            assert_eq!(send_from(Some(of_the_other_family)), Err(Error::BadAddress));
        }
        // A connected socket names another address for one datagram; an echo request does so, too.
        let mut bench = bench(cpus);
        let wanted = Connect { local: Some(addr), ..to_connect((peer, 7).into()) };
        let id = connect(cpu(&mut bench, 0), &wanted).unwrap();
        let to = To { remote: (peer, 7).into(), local: Some(other), zone: 0 };
        send_to(cpu(&mut bench, 0), id, to, b"hello").unwrap();
        assert_eq!(source(&mut bench, 1), other);
        let open = raw::Open {
            local: any(addr),
            remote: None,
            zone: 0,
            filter: raw::Filter::PASS_ALL,
            settings: Settings::default(),
        };
        let raw = raw::open(cpu(&mut bench, 0), &open).unwrap();
        let message = [if addr.is_ipv4() { 8 } else { 128 }, 0, 0, 0, 0, 0, 0, 0];
        raw::send_to(cpu(&mut bench, 0), raw, to, &message).unwrap();
        assert_eq!(source(&mut bench, 1), other);
        let to = To { local: Some(strange), ..to };
        assert_eq!(raw::send_to(cpu(&mut bench, 0), raw, to, &message), Err(Error::AddrNotAvailable));
    }
}

#[test]
fn a_datagram_to_a_group_leaves_by_the_interface_that_its_program_names() {
    let groups: [IpAddr; 2] = ["224.0.0.251".parse().unwrap(), "ff02::fb".parse().unwrap()];
    for ((addr, _), group) in families().into_iter().zip(groups) {
        for ifindex in [1, 2] {
            let mut bench = bench(2);
            let ids = everywhere(&mut bench, &to_bind(any(addr)));
            let to = To { remote: (group, 5353).into(), local: None, zone: ifindex };
            send_to(cpu(&mut bench, 0), ids[0], to, b"hello").unwrap();
            bench.run();
            let left = [1, 2].map(|i| bench.sent(i).iter().filter(|frame| frame.ends_with(b"hello")).count());
            assert_eq!(left, if ifindex == 1 { [1, 0] } else { [0, 1] }, "{group}");
        }
    }
}

#[test]
fn a_socket_that_may_bind_to_any_address_sends_from_one_that_is_not_ours() {
    for (addr, peer) in families() {
        let (_, strange) = others(addr);
        let mut bench = bench(2);
        let mut wanted = to_bind(strange);
        assert_eq!(bind(cpu(&mut bench, 0), &wanted), Err(Error::AddrNotAvailable));
        wanted.settings.bind_any = true;
        let ids = everywhere(&mut bench, &wanted);
        send_to(cpu(&mut bench, 0), ids[0], SocketAddr::new(peer, 7), b"hello").unwrap();
        assert_eq!(source(&mut bench, 1), strange);
        let group = if addr.is_ipv4() { [224, 0, 0, 9].into() } else { "ff02::9".parse().unwrap() };
        let to = To { remote: (peer, 7).into(), local: Some(group), zone: 0 };
        assert_eq!(send_to(cpu(&mut bench, 0), ids[0], to, b"hello"), Err(Error::AddrNotAvailable));
    }
}
