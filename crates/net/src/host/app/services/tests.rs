//! Services, as connections and datagrams of the same host see them.

use core::net::{IpAddr, SocketAddr};

use super::*;
use crate::host::tcp::Connect;
use crate::ip::group;
use crate::testkit::{Bench, addr4, addr6};

const PORT: u16 = 7;

fn families() -> [IpAddr; 2] {
    [addr4(1, 1).into(), addr6(1, 1).into()]
}

fn bench(program: impl App + 'static) -> Bench {
    let mut bench = Bench::new(1);
    bench.netisrs[0].begin(Box::new(program)).unwrap();
    bench
}

fn service(kind: Kind, addr: IpAddr) -> Bench {
    bench(Service::new(kind, (addr, PORT).into(), Settings::default()))
}

fn connect(bench: &mut Bench, remote: SocketAddr) -> Id {
    let (settings, tx_params) = (Settings::default(), IpTxParams::default());
    let wanted = Connect { remote, local: None, port: None, zone: 0, settings, tx_params };
    tcp::connect(bench.cpu(), &wanted).unwrap()
}

/// Reads on until there are so many bytes, or the stream ends.
fn read(bench: &mut Bench, id: Id, wanted: usize) -> Vec<u8> {
    let (mut all, mut part) = (Vec::new(), vec![0; 5000]);
    while all.len() < wanted {
        bench.run();
        match tcp::read(bench.cpu(), id, &mut part) {
            Ok(0) => break,
            Ok(count) => all.extend_from_slice(&part[..count]),
            Err(error) => assert_eq!(error, Error::WouldBlock),
        }
    }
    all
}

#[test]
fn a_service_begins_at_the_address_of_one_that_was_ended_in_the_same_turn() {
    for addr in families() {
        let mut bench = service(Kind::Echo, addr);
        let again = || Box::new(Service::new(Kind::Echo, (addr, PORT).into(), Settings::default()));
        let netisr = &mut bench.netisrs[0];
        assert_eq!(netisr.begin(again()).unwrap_err(), Error::AddrInUse);
        let second = Service::new(Kind::Echo, (addr, PORT + 1).into(), Settings::default());
        let second = netisr.begin(Box::new(second)).unwrap();
        netisr.end(second);
        let third = Service::new(Kind::Echo, (addr, PORT + 1).into(), Settings::default());
        netisr.begin(Box::new(third)).unwrap();
    }
}

#[test]
fn characters_come_in_lines_of_72_each_begun_one_later_until_the_other_end_sends_no_more() {
    for addr in families() {
        let mut bench = service(Kind::Chargen, addr);
        let id = connect(&mut bench, (addr, PORT).into());
        let mut all = read(&mut bench, id, 500_000);
        assert_eq!(tcp::send(bench.cpu(), id, b"what?"), Ok(5));
        assert_eq!(tcp::shutdown(bench.cpu(), id), Ok(()));
        all.extend(read(&mut bench, id, usize::MAX));
        let lines: Vec<_> = all.chunks_exact(74).collect();
        assert!(lines.len() > 6000);
        for (number, line) in lines.into_iter().enumerate() {
            assert_eq!((usize::from(line[0]), &line[72..]), (32 + number % 95, &b"\r\n"[..]));
            let follows = |pair: &[u8]| pair[1] == pair[0] + 1 || pair == [b'~', b' '];
            assert!(line[..72].windows(2).all(follows), "{}", String::from_utf8_lossy(line));
        }
    }
}

#[test]
fn a_datagram_is_answered_by_one_no_longer_and_not_if_a_service_may_have_sent_it() {
    for addr in families() {
        for (kind, lens) in
            [(Kind::Echo, vec![600, 3]), (Kind::Discard, vec![]), (Kind::Chargen, vec![512, 3])]
        {
            let mut bench = service(kind, addr);
            for (port, lens) in [(4000, lens), (1023, vec![])] {
                let bind = udp::Bind {
                    addr: (addr, port).into(),
                    zone: 0,
                    only_v6: false,
                    is_shared: false,
                    settings: udp::Settings::default(),
                };
                let socket = udp::bind(bench.cpu(), &bind).unwrap();
                for len in [600, 3] {
                    assert!(
                        udp::send_to(bench.cpu(), socket, SocketAddr::from((addr, PORT)), &vec![7; len])
                            .is_ok()
                    );
                }
                bench.run();
                let mut into = [0; 1000];
                let come: Vec<_> =
                    core::iter::from_fn(|| udp::recv(bench.cpu(), socket, &mut into).ok()).collect();
                assert_eq!(
                    come.iter().map(|got| got.len).collect::<Vec<_>>(),
                    lens,
                    "{kind:?} to port {port}"
                );
            }
        }
    }
}

#[test]
fn a_relay_with_an_unreachable_target_resets_its_client() {
    for (addr, nowhere) in families().into_iter().zip(["192.0.2.1:7", "[2001:db8:ffff::1]:7"]) {
        for (to, counted) in [(nowhere.parse().unwrap(), 1), (SocketAddr::new(addr, 4), 0)] {
            let mut bench = bench(Relay::new((addr, PORT).into(), to));
            let id = connect(&mut bench, (addr, PORT).into());
            bench.run();
            assert_eq!(tcp::read(bench.cpu(), id, &mut [0]), Err(Error::Reset), "to {to}");
            assert_eq!(bench.counted(base::count::Count::TcpRelaysRefused), counted);
        }
    }
}

#[test]
fn a_relay_holds_as_many_pairs_as_may_be_and_resets_the_next() {
    let addr: IpAddr = addr4(1, 1).into();
    let mut relay = Relay::new((addr, PORT).into(), (addr, 9).into());
    relay.fill();
    let mut bench = bench(relay);
    let id = connect(&mut bench, (addr, PORT).into());
    bench.run();
    assert_eq!(tcp::read(bench.cpu(), id, &mut [0]), Err(Error::Reset));
    assert_eq!(bench.counted(base::count::Count::TcpRelaysRefused), 1);
}

#[test]
fn a_service_at_a_group_hears_what_is_sent_to_it_on_every_link_as_long_as_it_runs() {
    for (group, ours) in
        ["239.1.2.3", "ff05::123"].map(|group| group.parse::<IpAddr>().unwrap()).into_iter().zip(families())
    {
        let mut bench = Bench::new(2);
        let service = Service::new(Kind::Echo, (group, PORT).into(), Settings::default());
        let id = bench.netisrs[0].begin(Box::new(service)).unwrap();
        bench.run();
        let is_member = |bench: &mut Bench| {
            [1, 2].map(|ifindex| group::is_joined(bench.cpu(), group::Key { ifindex, group }))
        };
        assert_eq!(is_member(&mut bench), [true; 2]);
        let bind = udp::Bind {
            addr: (ours, 4000).into(),
            zone: 0,
            only_v6: false,
            is_shared: false,
            settings: udp::Settings::default(),
        };
        let asks = udp::bind(bench.cpu(), &bind).unwrap();
        udp::send_to(bench.cpu(), asks, SocketAddr::from((group, PORT)), b"who?").unwrap();
        bench.run();
        assert_eq!(
            udp::recv(bench.cpu(), asks, &mut [0; 9]).map(|got| (got.len, got.from)),
            Ok((4, (ours, PORT).into()))
        );
        bench.netisrs[0].end(id);
        bench.run();
        assert_eq!(is_member(&mut bench), [false; 2]);
    }
}
