//! A host that speaks with itself and with neighbours, on one CPU and on several.

use core::net::{IpAddr, SocketAddr};

use wire::ether::HEADER_LEN;
use wire::{icmp4, icmp6, ip4, ip6};

use super::*;
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::host::sock::Error;
use crate::host::tcp;
use crate::ip::ip_tx::IpTxParams;
use crate::testkit::build::{frame_from, ip, udp};
use crate::testkit::{Bench, addr4, addr6};
use crate::turn::cpu::{Cpu, CpuId};

const PORT: u16 = 5300;
const CPUS: [u16; 4] = [1, 2, 3, 8];

mod device;
mod errors;
mod source;

/// Our address, and a neighbour's, of both families.
fn families() -> [(IpAddr, IpAddr); 2] {
    [(addr4(1, 1).into(), addr4(1, 9).into()), (addr6(1, 1).into(), addr6(1, 9).into())]
}

fn any(like: IpAddr) -> IpAddr {
    if like.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() }
}

fn to_bind(addr: IpAddr) -> Bind {
    let settings = Settings::default();
    Bind { addr: (addr, PORT).into(), zone: 0, only_v6: false, is_shared: false, settings }
}

fn to_connect(remote: SocketAddr) -> Connect {
    Connect { remote, local: None, port: None, zone: 0, settings: Settings::default() }
}

/// Makes the socket on each CPU.
fn everywhere(bench: &mut Bench, wanted: &Bind) -> Vec<Id> {
    bench.netisrs.iter_mut().map(|netisr| bind(&mut netisr.cpu, wanted).unwrap()).collect()
}

fn cpu(bench: &mut Bench, at: usize) -> &mut Cpu {
    &mut bench.netisrs[at].cpu
}

/// Reads from the first of the sockets that has something: the CPU, the source, and the bytes.
fn read(bench: &mut Bench, ids: &[Id]) -> Option<(usize, Received, Vec<u8>)> {
    let mut into = vec![0; 70_000];
    ids.iter().enumerate().find_map(|(at, id)| {
        let received = recv(cpu(bench, at), *id, &mut into).ok()?;
        Some((at, received, into[..received.len].to_vec()))
    })
}

fn read_all(bench: &mut Bench, ids: &[Id]) -> Vec<Vec<u8>> {
    core::iter::from_fn(|| read(bench, ids)).map(|(_, _, bytes)| bytes).collect()
}

/// A neighbour sends.
fn hear(bench: &mut Bench, from: (IpAddr, u16), to: (IpAddr, u16), bytes: &[u8]) {
    bench.inject(1, frame_from(1, from.0, &udp(from.0, to.0, (from.1, to.1), bytes)));
    bench.run();
}

#[test]
fn datagrams_of_one_pair_come_to_one_cpu_in_order_and_so_do_the_answers() {
    for (cpus, (addr, _)) in CPUS.into_iter().flat_map(|cpus| families().map(|pair| (cpus, pair))) {
        let mut bench = Bench::with(1, cpus, |_| ());
        let servers = everywhere(&mut bench, &to_bind(any(addr)));
        for from in 0..usize::from(cpus) {
            let client = connect(cpu(&mut bench, from), &to_connect((addr, PORT).into())).unwrap();
            for n in 0..20 {
                send(cpu(&mut bench, from), client, &[n; 100]).unwrap();
            }
            bench.run();
            for n in 0..20 {
                let (at, received, bytes) = read(&mut bench, &servers).unwrap();
                assert_eq!((at, bytes), (from, vec![n; 100]), "the port was chosen so");
                // From another CPU it takes the way of its flow all the same.
                let other = (from + 1) % usize::from(cpus);
                send_to(cpu(&mut bench, other), servers[other], received.from, &[n; 3]).unwrap();
                bench.run();
                assert_eq!(recv(cpu(&mut bench, from), client, &mut [0; 9]).unwrap().len, 3);
            }
            close(cpu(&mut bench, from), client).unwrap();
        }
        assert_eq!(bench.drops(), []);
    }
}

#[test]
fn datagrams_of_the_peer_go_to_the_connected_socket_only() {
    for (addr, peer) in families() {
        let mut bench = Bench::new(1);
        let all = everywhere(&mut bench, &to_bind(any(addr)));
        let one = Connect { port: Some(PORT), ..to_connect((peer, 53).into()) };
        let one = connect(cpu(&mut bench, 0), &one).unwrap();
        hear(&mut bench, (peer, 53), (addr, PORT), b"mine");
        hear(&mut bench, (peer, 54), (addr, PORT), b"not mine");
        assert_eq!(read_all(&mut bench, &[one]), [b"mine".to_vec()]);
        assert_eq!(read_all(&mut bench, &all), [b"not mine".to_vec()]);
        assert_eq!(send(bench.cpu(), all[0], b"x"), Err(Error::NotConnected));
    }
}

#[test]
fn a_socket_of_one_address_has_what_comes_to_it_before_one_of_all() {
    for (addr, peer) in families() {
        let mut bench = Bench::new(2);
        let all = everywhere(&mut bench, &to_bind(any(addr)));
        let own = everywhere(&mut bench, &to_bind(addr));
        let other = if addr.is_ipv4() { addr4(2, 1).into() } else { addr6(2, 1).into() };
        hear(&mut bench, (peer, 1), (addr, PORT), b"own");
        hear(&mut bench, (peer, 1), (other, PORT), b"all");
        assert_eq!(read_all(&mut bench, &own), [b"own".to_vec()]);
        assert_eq!(read_all(&mut bench, &all), [b"all".to_vec()]);
    }
}

#[test]
fn an_ipv6_socket_takes_and_sends_ipv4_too_unless_it_says_no() {
    let (addr, peer) = families()[0];
    for only_v6 in [false, true] {
        let mut bench = Bench::new(1);
        let ids = everywhere(&mut bench, &Bind { only_v6, ..to_bind([0_u16; 8].into()) });
        hear(&mut bench, (peer, 1), (addr, PORT), b"x");
        assert_eq!(read(&mut bench, &ids).is_some(), !only_v6);
        let sent = send_to(bench.cpu(), ids[0], SocketAddr::new(peer, 1), b"y");
        assert_eq!(sent, if only_v6 { Err(Error::BadAddress) } else { Ok(()) });
        bench.run();
    }
}

#[test]
fn sockets_with_reuseport_share_connections_and_one_without_is_refused() {
    for (addr, peer) in families() {
        let mut bench = Bench::new(1);
        let shared = Bind { is_shared: true, ..to_bind(addr) };
        let group = [0; 2].map(|_| bind(bench.cpu(), &shared).unwrap());
        assert_eq!(bind(bench.cpu(), &to_bind(addr)), Err(Error::AddrInUse));
        for port in 1000..1100 {
            hear(&mut bench, (peer, port), (addr, PORT), b"x");
        }
        let [first, second] = group.map(|id| read_all(&mut bench, &[id]).len());
        assert!(first > 10 && second > 10 && first + second == 100, "{first} and {second}");
        close(bench.cpu(), group[0]).unwrap();
        hear(&mut bench, (peer, 1000), (addr, PORT), b"x");
        hear(&mut bench, (peer, 1001), (addr, PORT), b"x");
        assert_eq!(read_all(&mut bench, &group[1..]).len(), 2);
    }
}

#[test]
fn a_free_port_is_found_and_its_socket_is_where_its_datagrams_come() {
    for (addr, peer) in families() {
        let mut bench = Bench::with(1, 2, |_| ());
        let mut wanted = to_bind(any(addr));
        wanted.addr.set_port(0);
        let first = bind(bench.cpu(), &wanted).unwrap();
        wanted.addr = local(bench.cpu(), first).unwrap();
        let ids = [first, bind(cpu(&mut bench, 1), &wanted).unwrap()];
        hear(&mut bench, (peer, 1), (addr, wanted.addr.port()), b"x");
        assert_eq!(read_all(&mut bench, &ids).len(), 1);
    }
}

#[test]
fn what_finds_no_room_is_dropped_and_counted() {
    for (addr, peer) in families() {
        let mut bench = Bench::new(1);
        let ids = everywhere(&mut bench, &to_bind(addr));
        for _ in 0..43 {
            hear(&mut bench, (peer, 1), (addr, PORT), &[7; 1000]);
        }
        assert_eq!(
            ready(bench.cpu(), ids[0]),
            Ready { readable: true, datagrams: 42, bytes: 42_000, failures: 0 }
        );
        assert_eq!(bench.dropped(DropReason::UdpQueueFull), 1);
        assert_eq!(read_all(&mut bench, &ids).len(), 42);
        for _ in 0..=DATAGRAMS_MAX {
            hear(&mut bench, (peer, 1), (addr, PORT), b"");
        }
        assert_eq!(ready(bench.cpu(), ids[0]).datagrams, DATAGRAMS_MAX);
        assert_eq!(bench.dropped(DropReason::UdpQueueFull), 2);
        assert_eq!(bench.buffers_out(), 0, "what waits holds no buffers");
    }
}

#[test]
fn the_longest_datagram_goes_in_pieces_and_arrives_whole() {
    for (cpus, (addr, _)) in CPUS.into_iter().flat_map(|cpus| families().map(|pair| (cpus, pair))) {
        let mut bench = Bench::with(1, cpus, |_| ());
        let mut wanted = to_bind(addr);
        wanted.settings.queue_bytes = QUEUE_BYTES_MAX;
        let ids = everywhere(&mut bench, &wanted);
        let longest: Vec<u8> = (0..65_507).map(|n: u32| n.to_le_bytes()[0]).collect();
        let client = connect(bench.cpu(), &to_connect((addr, PORT).into())).unwrap();
        send(bench.cpu(), client, &longest).unwrap();
        bench.run();
        assert!(read_all(&mut bench, &ids) == [longest]);
        assert_eq!(send(bench.cpu(), client, &[0; 65_528]), Err(Error::TooLong));
        assert_eq!(bench.buffers_out(), 0);
    }
}

#[test]
fn what_is_too_long_for_the_link_goes_in_pieces_unless_it_must_not_be_cut() {
    for (addr, peer) in families() {
        let mut bench = Bench::new(1);
        let mut wanted = to_bind(any(addr));
        let ids = everywhere(&mut bench, &wanted);
        send_to(bench.cpu(), ids[0], SocketAddr::new(peer, 7), &[9; 4000]).unwrap();
        bench.run();
        let pieces = bench.sent(1);
        assert_eq!(pieces.len(), 3);
        wanted.addr.set_port(1);
        wanted.settings.dont_fragment = true;
        let careful = bind(bench.cpu(), &wanted).unwrap();
        let headers = if addr.is_ipv4() { 28 } else { 48 };
        let most = 1500 - headers;
        let mut sent = |len| send_to(bench.cpu(), careful, SocketAddr::new(peer, 7), &vec![0; len]);
        assert_eq!([sent(most), sent(most + 1)], [Ok(()), Err(Error::TooBig { mtu: 1500 })]);
        bench.run();
    }
}

#[test]
fn a_program_reads_from_whom_to_whom_and_how_a_datagram_came() {
    for (addr, peer) in families() {
        let mut bench = Bench::new(1);
        let ids = everywhere(&mut bench, &to_bind(any(addr)));
        let mut packet = udp(peer, addr, (77, PORT), b"wander");
        if addr.is_ipv4() {
            (packet[1], packet[8]) = (0xb8, 3);
            crate::testkit::build::fix_ip4_checksum(&mut packet);
        } else {
            (packet[0], packet[1], packet[7]) = (0x6b, 0x80, 3);
        }
        bench.inject(1, frame_from(1, peer, &packet));
        bench.run();
        let mut into = [0; 3];
        let received = recv(bench.cpu(), ids[0], &mut into).unwrap();
        let tx_params = IpTxParams { hops: 3, class: 0xb8, fib: 0 };
        let expected = Received { len: 6, from: (peer, 77).into(), to: addr, ifindex: 1, tx_params };
        assert_eq!((received, &into), (expected, b"wan"), "the rest is lost");
        assert_eq!(recv(bench.cpu(), ids[0], &mut into), Err(Error::WouldBlock));
    }
}

#[test]
fn a_socket_of_a_routing_table_that_does_not_exist_is_refused_or_sends_nothing() {
    for (addr, peer) in families() {
        let mut bench = Bench::new(1);
        let to = SocketAddr::new(peer, 7);
        let tx_params = IpTxParams { fib: 1, ..IpTxParams::default() };
        let mut wanted = to_bind(addr);
        let id = bind(bench.cpu(), &wanted).unwrap();
        wanted.settings.tx_params = tx_params;
        assert_eq!(bind(bench.cpu(), &wanted), Err(Error::NoTable));
        let settings = wanted.settings;
        let begins = Connect { remote: to, local: None, port: None, zone: 0, settings };
        assert_eq!(connect(bench.cpu(), &begins), Err(Error::NoTable));
        change(bench.cpu(), id, |settings| settings.tx_params = tx_params).unwrap();
        assert_eq!(send_to(bench.cpu(), id, to, b"lost"), Err(Error::NoTable));
        bench.run();
        assert!(bench.sent(1).is_empty());
        // TCP's as well.
        let settings = tcp::settings::Settings::default();
        let begins = tcp::Connect { remote: to, local: None, port: None, zone: 0, settings, tx_params };
        assert_eq!(tcp::connect(bench.cpu(), &begins), Err(Error::NoTable));
        let addr = SocketAddr::new(addr, 80);
        let place =
            tcp::Listen { addr, zone: 0, only_v6: false, backlog: 1, is_shared: false, settings, tx_params };
        assert_eq!(tcp::listen(bench.cpu(), &place), Err(Error::NoTable));
    }
}

#[test]
fn packets_look_as_their_socket_says_and_have_a_checksum() {
    for (addr, peer) in families() {
        let mut bench = Bench::new(1);
        let mut wanted = to_bind(addr);
        wanted.settings.tx_params = IpTxParams { hops: 9, class: 0x20, fib: 0 };
        let ids = everywhere(&mut bench, &wanted);
        send_to(bench.cpu(), ids[0], SocketAddr::new(peer, 7), b"wander").unwrap();
        bench.run();
        let packet = &bench.sent(1)[0][HEADER_LEN..];
        match (addr, peer) {
            (IpAddr::V4(addr), IpAddr::V4(peer)) => {
                let header = ip4::Header::parse(packet).unwrap();
                assert_eq!((header.ttl, header.tos, header.src, header.dst), (9, 0x20, addr, peer));
                assert!(wire::udp::verify_v4(addr, peer, &packet[20..]));
            }
            (IpAddr::V6(addr), IpAddr::V6(peer)) => {
                let header = ip6::Header::parse(packet).unwrap();
                assert_eq!((header.hop_limit, header.traffic_class, header.src), (9, 0x20, addr));
                assert!(wire::udp::verify_v6(addr, peer, &packet[40..]));
            }
            _ => unreachable!(),
        }
    }
}

#[test]
fn a_checksum_that_is_zero_is_sent_as_all_ones() {
    for (addr, peer) in families() {
        let mut bench = Bench::new(1);
        let ids = everywhere(&mut bench, &to_bind(addr));
        let at = if addr.is_ipv4() { 26 } else { 46 };
        let mut sum = |bytes: &[u8]| {
            send_to(bench.cpu(), ids[0], SocketAddr::new(peer, 7), bytes).unwrap();
            bench.run();
            let packet = bench.sent(1)[0][HEADER_LEN..].to_vec();
            [packet[at], packet[at + 1]]
        };
        let first = sum(&[0, 0]);
        assert_eq!(sum(&first), [0xff, 0xff], "the sum of what adds up to nothing");
    }
}

/// An error from `from` about a datagram that we sent.
fn error_about(from: IpAddr, sent: &[u8]) -> Vec<u8> {
    let quoted = &sent[HEADER_LEN..];
    match from {
        IpAddr::V4(_) => {
            let to = ip4::Header::parse(quoted).unwrap().src;
            let message = icmp4::Message::Unreachable { code: icmp4::unreachable::PORT, mtu: 0 };
            let header = message.to_bytes(quoted);
            ip(from, to.into(), wire::Protocol::ICMP, 64, &[&header, quoted].concat())
        }
        IpAddr::V6(src) => {
            let to = ip6::Header::parse(quoted).unwrap().src;
            let message = icmp6::Message::Unreachable { code: icmp6::unreachable::PORT };
            let header = message.to_bytes(src, to, quoted);
            ip(from, to.into(), wire::Protocol::ICMP6, 64, &[&header, quoted].concat())
        }
    }
}

#[test]
fn a_connected_socket_gets_one_port_unreachable_on_any_cpu() {
    for (cpus, (_, peer)) in CPUS.into_iter().flat_map(|cpus| families().map(|pair| (cpus, pair))) {
        let mut bench = Bench::with(1, cpus, |_| ());
        for at in 0..usize::from(cpus) {
            let id = connect(cpu(&mut bench, at), &to_connect((peer, 7).into())).unwrap();
            for len in [10, 4000] {
                send(cpu(&mut bench, at), id, &vec![1; len]).unwrap();
                bench.run();
                let sent = bench.sent(1);
                bench.inject(1, frame_from(1, peer, &error_about(peer, &sent[0])));
                bench.run();
                assert!(ready(cpu(&mut bench, at), id).readable);
                assert_eq!(recv(cpu(&mut bench, at), id, &mut [0; 9]), Err(Error::Refused), "{cpus} {len}");
                assert_eq!(recv(cpu(&mut bench, at), id, &mut [0; 9]), Err(Error::WouldBlock));
            }
        }
    }
}

#[test]
fn an_unconnected_socket_can_ask_which_destination_was_unreachable() {
    for (addr, peer) in families() {
        let mut bench = Bench::new(1);
        let ids = everywhere(&mut bench, &to_bind(addr));
        for port in 0..20 {
            send_to(bench.cpu(), ids[0], SocketAddr::new(peer, 100 + port), b"x").unwrap();
            bench.run();
            let sent = bench.sent(1);
            bench.inject(1, frame_from(1, peer, &error_about(peer, &sent[0])));
            bench.run();
        }
        assert_eq!(recv(bench.cpu(), ids[0], &mut [0; 9]), Err(Error::WouldBlock));
        let failures: Vec<_> = core::iter::from_fn(|| failure(bench.cpu(), ids[0])).collect();
        let last: Vec<_> = (104..120).map(|port| (peer, port).into()).collect();
        assert_eq!(failures.iter().map(|failure| failure.to).collect::<Vec<_>>(), last);
        assert!(failures.iter().all(|failure| failure.error == Error::Refused));
    }
}

#[test]
fn a_neighbour_that_does_not_answer_is_unreachable() {
    for (_, peer) in families() {
        let mut bench = Bench::new(1);
        bench.neighbours_answer = false;
        let id = connect(bench.cpu(), &to_connect((peer, 7).into())).unwrap();
        send(bench.cpu(), id, b"x").unwrap();
        bench.advance(core::time::Duration::from_secs(10));
        assert_eq!(send(bench.cpu(), id, b"x"), Err(Error::HostUnreachable));
    }
}

#[test]
fn an_error_about_an_unsent_packet_is_ignored() {
    for (addr, peer) in families() {
        let mut bench = Bench::new(1);
        let forged = [&[0; HEADER_LEN][..], &udp(addr, peer, (1, 2), b"never sent")].concat();
        bench.inject(1, frame_from(1, peer, &error_about(peer, &forged)));
        bench.run();
        assert_eq!(bench.dropped(DropReason::IcmpUnsolicited), 1);
    }
}

#[test]
fn broadcasts_need_permission_and_reach_all_sockets() {
    let mut bench = Bench::new(1);
    let wanted = Bind { is_shared: true, ..to_bind([0; 4].into()) };
    let ids = [0; 2].map(|_| bind(bench.cpu(), &wanted).unwrap());
    let everybody = [[255, 255, 255, 255], [10, 0, 1, 255]].map(|addr| SocketAddr::new(addr.into(), PORT));
    for to in everybody {
        assert_eq!(send_to(bench.cpu(), ids[0], to, b"x"), Err(Error::NotPermitted));
        change(bench.cpu(), ids[0], |settings| settings.may_broadcast = true).unwrap();
        send_to(bench.cpu(), ids[0], to, b"x").unwrap();
        change(bench.cpu(), ids[0], |settings| settings.may_broadcast = false).unwrap();
        bench.run();
        assert_eq!(bench.sent(1)[0][..6], [0xff; 6]);
        let mut frame = frame_from(1, addr4(1, 9).into(), &udp(addr4(1, 9).into(), to.ip(), (1, PORT), b"y"));
        frame[..6].fill(0xff);
        bench.inject(1, frame);
        bench.run();
        for id in ids {
            assert_eq!(read_all(&mut bench, &[id]), [b"y".to_vec()]);
        }
    }
}

#[test]
fn addresses_that_cannot_be_are_refused() {
    for (addr, peer) in families() {
        let mut bench = Bench::with(1, 3, |_| ());
        let cpu = bench.cpu();
        let stranger = bind(cpu, &to_bind(peer));
        assert_eq!(stranger, Err(Error::AddrNotAvailable));
        let id = bind(cpu, &to_bind(addr)).unwrap();
        let other = families().into_iter().find(|(other, _)| other.is_ipv4() != addr.is_ipv4()).unwrap().1;
        for remote in [(any(addr), 7), (peer, 0), (other, 7)] {
            assert_eq!(send_to(cpu, id, SocketAddr::from(remote), b"x"), Err(Error::BadAddress));
        }
        let foreign = To { local: Some(peer), ..SocketAddr::new(peer, 7).into() };
        assert_eq!(send_to(cpu, id, foreign, b"x"), Err(Error::AddrNotAvailable));
        let with_port = |port| Connect { port: Some(port), ..to_connect((peer, 7).into()) };
        let answers: Vec<_> = (2000..2100).map(|port| connect(cpu, &with_port(port))).collect();
        assert!(answers.contains(&Err(Error::Elsewhere(CpuId(1)))));
        let port = 2000 + u16::try_from(answers.iter().position(Result::is_ok).unwrap()).unwrap();
        assert_eq!(connect(cpu, &with_port(port)), Err(Error::AddrInUse));
    }
}

#[test]
fn there_are_not_more_sockets_than_may_be_and_those_that_go_make_room() {
    for (addr, peer) in families() {
        let mut bench = Bench::new(1);
        let first = bind(bench.cpu(), &to_bind(addr)).unwrap();
        bench.cpu().udp.as_mut().unwrap().room = 3;
        let more = [0; 2].map(|_| connect(bench.cpu(), &to_connect((peer, 7).into())).unwrap());
        assert_eq!(connect(bench.cpu(), &to_connect((peer, 7).into())), Err(Error::TooMany));
        close(bench.cpu(), more[0]).unwrap();
        assert_eq!(close(bench.cpu(), more[0]), Err(Error::NotFound));
        assert!(connect(bench.cpu(), &to_connect((peer, 7).into())).is_ok());
        close(bench.cpu(), first).unwrap();
        hear(&mut bench, (peer, 1), (addr, PORT), b"x");
        assert_eq!(bench.dropped(DropReason::NoPort), 1);
        assert_eq!(bench.counted(Count::UdpTaken), 0);
    }
}

#[test]
fn what_has_extension_headers_comes_to_its_socket_all_the_same() {
    let (addr, peer) = families()[1];
    let mut bench = Bench::with(1, 8, |_| ());
    for at in 0..8 {
        let id = connect(cpu(&mut bench, at), &to_connect((peer, 7).into())).unwrap();
        let port = local(cpu(&mut bench, at), id).unwrap().port();
        let padding = [wire::Protocol::UDP.0, 0, 1, 4, 0, 0, 0, 0];
        let body = [&padding[..], &udp(peer, addr, (7, port), b"x")[40..]].concat();
        bench.inject(1, frame_from(1, peer, &ip(peer, addr, wire::Protocol::DESTINATION_OPTIONS, 64, &body)));
        bench.run();
        assert_eq!(recv(cpu(&mut bench, at), id, &mut [0; 9]).unwrap().len, 1);
    }
}

#[test]
fn what_must_not_be_cut_is_refused_once_a_router_has_said_what_its_link_takes() {
    for (addr, peer) in families() {
        let mut bench = Bench::new(1);
        let settings = Settings { dont_fragment: true, ..Settings::default() };
        let id = connect(bench.cpu(), &Connect { settings, ..to_connect((peer, 7).into()) }).unwrap();
        send(bench.cpu(), id, &[7; 1400]).unwrap();
        bench.forget_sent();
        bench.run();
        let sent = bench.sent(1).remove(0);
        bench.inject(1, frame_from(1, peer, &too_big(peer, addr, 1300, &sent[HEADER_LEN..])));
        bench.run();
        let headers = if peer.is_ipv4() { 28 } else { 48 };
        let most = 1300 - headers;
        assert_eq!(failure(bench.cpu(), id).map(|failure| failure.error), Some(Error::TooBig { mtu: 1300 }));
        let mut sent = |len| send(bench.cpu(), id, &vec![0; len]);
        assert_eq!([sent(most), sent(most + 1)], [Ok(()), Err(Error::TooBig { mtu: 1300 })]);
        bench.run();
    }
}

/// `from` says of `packet` that it was too big.
fn too_big(from: IpAddr, to: IpAddr, mtu: u16, packet: &[u8]) -> Vec<u8> {
    let quote = &packet[..200];
    match (from, to) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = icmp6::Message::PacketTooBig { mtu: mtu.into() }.to_bytes(src, dst, quote);
            ip(from, to, wire::Protocol::ICMP6, 64, &[&header, quote].concat())
        }
        _ => {
            let code = icmp4::unreachable::FRAGMENTATION_NEEDED;
            let header = icmp4::Message::Unreachable { code, mtu }.to_bytes(quote);
            ip(from, to, wire::Protocol::ICMP, 64, &[&header, quote].concat())
        }
    }
}
