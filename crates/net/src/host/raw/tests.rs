mod groups;

use core::net::IpAddr;
use core::time::Duration;

use wire::Protocol;

use super::*;
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::host::dgram::{QUEUE_BYTES, Settings, To};
use crate::host::sock::Error;
use crate::ip::ip_tx::IpTxParams;
use crate::testkit::build::{echo_request, frame, ip, neighbour_advert, udp};
use crate::testkit::{Bench, addr4, addr6, peer_mac};

/// Our address, and a neighbour's, of both families.
fn families() -> [(IpAddr, IpAddr); 2] {
    [(addr4(1, 1).into(), addr4(1, 9).into()), (addr6(1, 1).into(), addr6(1, 9).into())]
}

fn any(of: IpAddr) -> IpAddr {
    if of.is_ipv4() {
        core::net::Ipv4Addr::UNSPECIFIED.into()
    } else {
        core::net::Ipv6Addr::UNSPECIFIED.into()
    }
}

/// All but what neighbours say of each other meanwhile.
const MESSAGES: Filter = Filter::PASS_ALL.block(135).block(136);

/// A socket of the family of `addr`.
fn wanted(addr: IpAddr) -> Open {
    let (filter, settings) = (MESSAGES, Settings::default());
    Open { local: any(addr), remote: None, zone: 0, filter, settings }
}

/// The types of an echo request and its reply.
fn echo(of: IpAddr) -> (u8, u8) {
    if of.is_ipv4() { (8, 0) } else { (128, 129) }
}

/// Returns the queue of a socket: source, destination, hop limit, and bytes.
fn heard(bench: &mut Bench, id: Id) -> Vec<(IpAddr, IpAddr, u8, Vec<u8>)> {
    let mut into = [0; 2000];
    let next = || {
        let got = recv(bench.cpu(), id, &mut into).ok()?;
        assert_eq!((got.from.port(), got.ifindex), (0, 1));
        Some((got.from.ip(), got.to, got.tx_params.hops, into[..got.len].to_vec()))
    };
    core::iter::from_fn(next).collect()
}

fn kinds(bench: &mut Bench, id: Id) -> Vec<u8> {
    heard(bench, id).into_iter().map(|(.., bytes)| bytes[0]).collect()
}

/// A message of ours of type `kind` with a checksum that is right for IPv4.
fn message(kind: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = [&[kind, 0, 0, 0][..], rest].concat();
    let sum = wire::checksum::Sum::new().bytes(&bytes).checksum();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Makes a neighbour's message that is not answered: an unsolicited reply, or an unknown type.
fn from_peer(ours: IpAddr, peer: IpAddr, kind: u8, rest: &[u8]) -> Vec<u8> {
    let mut bytes = message(kind, rest);
    let protocol = match (peer, ours) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            bytes[2..4].fill(0);
            let len = u32::try_from(bytes.len()).unwrap();
            let sum = wire::checksum::Sum::pseudo_v6(src, dst, Protocol::ICMP6, len).bytes(&bytes).checksum();
            bytes[2..4].copy_from_slice(&sum.to_be_bytes());
            Protocol::ICMP6
        }
        _ => Protocol::ICMP,
    };
    frame(1, &ip(peer, ours, protocol, 77, &bytes))
}

#[test]
fn an_echo_request_is_shown_and_answered_all_the_same() {
    for (ours, peer) in families() {
        let mut bench = Bench::new(1);
        let id = open(bench.cpu(), &wanted(ours)).unwrap();
        let request = echo_request(peer, ours, 7, 1, b"who");
        bench.inject(1, frame(1, &request));
        bench.run();
        let header = if ours.is_ipv4() { 20 } else { 40 };
        assert_eq!(heard(&mut bench, id), [(peer, ours, 64, request[header..].to_vec())]);
        assert_eq!(bench.sent(1).len(), 1, "the answer");
        assert_eq!(bench.counted(Count::IcmpRawTaken), 1);
    }
}

#[test]
fn what_a_socket_has_taken_did_not_come_in_vain() {
    for (ours, peer) in families() {
        let mut bench = Bench::new(1);
        let (_, reply) = echo(ours);
        bench.inject(1, from_peer(ours, peer, reply, &[0, 7, 0, 1]));
        bench.run();
        assert_eq!(bench.dropped(DropReason::IcmpUnsolicited), 1, "nobody waits");
        let id = open(bench.cpu(), &wanted(ours)).unwrap();
        for kind in [reply, 200] {
            bench.inject(1, from_peer(ours, peer, kind, &[0, 7, 0, 1]));
        }
        bench.run();
        assert_eq!(kinds(&mut bench, id), [reply, 200]);
        assert_eq!(bench.drops(), [(DropReason::IcmpUnsolicited, 1)]);
    }
}

#[test]
fn a_socket_is_shown_what_its_filter_lets_pass_from_whom_it_speaks_with_to_where_it_waits() {
    for (ours, peer) in families() {
        let mut bench = Bench::new(1);
        let (request, reply) = echo(ours);
        let other = if ours.is_ipv4() { addr4(1, 8).into() } else { addr6(1, 8).into() };
        let all = wanted(ours);
        let sockets = [
            Open { filter: MESSAGES.block(request), ..all },
            Open { filter: Filter::BLOCK_ALL.pass(request), ..all },
            Open { remote: Some(peer), ..all },
            Open { remote: Some(other), ..all },
            Open { local: ours, ..all },
        ];
        let ids = sockets.map(|wanted| open(bench.cpu(), &wanted).unwrap());
        bench.inject(1, frame(1, &echo_request(peer, ours, 7, 1, b"who")));
        bench.inject(1, from_peer(ours, peer, reply, &[0, 7, 0, 1]));
        bench.run();
        let seen = ids.map(|id| kinds(&mut bench, id));
        assert_eq!(seen, [vec![reply], vec![request], vec![request, reply], vec![], vec![request, reply]]);
        set_filter(bench.cpu(), ids[4], Filter::BLOCK_ALL).unwrap();
        bench.inject(1, frame(1, &echo_request(peer, ours, 7, 2, b"who")));
        bench.run();
        assert!(kinds(&mut bench, ids[4]).is_empty());
    }
}

#[test]
fn messages_of_the_other_family_and_broken_ones_are_not_shown() {
    let [(ours4, peer4), (ours6, peer6)] = families();
    for (ours, peer, other, other_peer) in [(ours4, peer4, ours6, peer6), (ours6, peer6, ours4, peer4)] {
        let mut bench = Bench::new(1);
        let id = open(bench.cpu(), &wanted(ours)).unwrap();
        bench.inject(1, frame(1, &echo_request(other_peer, other, 7, 1, b"who")));
        let mut broken = from_peer(ours, peer, 200, &[1, 2, 3, 4]);
        *broken.last_mut().unwrap() ^= 1;
        bench.inject(1, broken);
        bench.run();
        assert!(heard(&mut bench, id).is_empty());
        assert_eq!(bench.dropped(DropReason::IcmpBadChecksum), 1);
    }
}

#[test]
fn what_is_sent_has_the_program_s_body_and_over_ipv6_a_checksum() {
    for (ours, peer) in families() {
        let mut bench = Bench::new(1);
        let settings =
            Settings { tx_params: IpTxParams { hops: 3, class: 0x20, fib: 0 }, ..Settings::default() };
        let id = open(bench.cpu(), &Open { remote: Some(peer), settings, ..wanted(ours) }).unwrap();
        let (request, _) = echo(ours);
        let mut sent = message(request, &[0, 7, 0, 1, 9, 9, 9]);
        if ours.is_ipv6() {
            sent[2..4].copy_from_slice(&[0xaa, 0xaa]);
        }
        send(bench.cpu(), id, &sent).unwrap();
        bench.run();
        let frames = bench.sent(1);
        let packet = &frames[0][14..];
        match (ours, peer) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let header = wire::ip4::Header::parse(packet).unwrap();
                assert_eq!((header.src, header.dst, header.ttl, header.tos), (src, dst, 3, 0x20));
                assert_eq!(packet[20..], sent);
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let header = wire::ip6::Header::parse(packet).unwrap();
                assert_eq!((header.src, header.dst), (src, dst));
                assert_eq!((header.hop_limit, header.traffic_class), (3, 0x20));
                assert!(wire::icmp6::verify(src, dst, &packet[40..]));
                assert_eq!((packet[40], &packet[44..]), (request, &sent[4..]));
            }
            _ => unreachable!(),
        }
        assert_eq!(bench.counted(Count::IcmpRawOut), 1);
    }
}

#[test]
fn errors_about_what_was_sent_are_shown() {
    for (ours, peer) in families() {
        let mut bench = Bench::new(1);
        let id = open(bench.cpu(), &wanted(ours)).unwrap();
        let (kind, quoted) = match ours {
            IpAddr::V4(_) => (11, udp(ours, peer, (4000, 33_434), b"ttl")),
            IpAddr::V6(_) => (3, udp(ours, peer, (4000, 33_434), b"ttl")),
        };
        let router = if ours.is_ipv4() { addr4(1, 77).into() } else { addr6(1, 77).into() };
        let rest = [&[0; 4][..], &quoted].concat();
        bench.inject(1, from_peer(ours, router, kind, &rest));
        bench.run();
        let all = heard(&mut bench, id);
        assert_eq!((all.len(), all[0].0, &all[0].3[8..]), (1, router, &quoted[..]));
        assert!(bench.drops().is_empty(), "{:?}", bench.drops());
    }
}

#[test]
fn neighbour_discovery_and_what_is_said_of_groups_are_shown_too() {
    let mut bench = Bench::new(1);
    let all = Open { filter: Filter::PASS_ALL, ..wanted(addr6(1, 1).into()) };
    let id = open(bench.cpu(), &all).unwrap();
    let peer = addr6(1, 9);
    let advert = neighbour_advert(peer, addr6(1, 1), peer_mac(peer.into()));
    bench.inject(1, frame(1, &advert));
    bench.run();
    assert_eq!(kinds(&mut bench, id), [136]);
}

#[test]
fn what_cannot_be_opened_or_sent_is_refused() {
    for (ours, peer) in families() {
        let mut bench = Bench::new(1);
        let all = wanted(ours);
        let (other, none) =
            if ours.is_ipv4() { (addr6(1, 9).into(), any(ours)) } else { (addr4(1, 9).into(), any(ours)) };
        for (wanted, error) in [
            (Open { local: peer, ..all }, Error::AddrNotAvailable),
            (Open { remote: Some(other), ..all }, Error::BadAddress),
            (Open { remote: Some(none), ..all }, Error::BadAddress),
        ] {
            assert_eq!(open(bench.cpu(), &wanted), Err(error));
        }
        let id = open(bench.cpu(), &all).unwrap();
        let to = |remote: IpAddr| To::from(core::net::SocketAddr::from((remote, 0)));
        assert_eq!(send(bench.cpu(), id, &message(8, &[0; 4])), Err(Error::NotConnected));
        assert_eq!(send_to(bench.cpu(), id, to(peer), &[8, 0, 0]), Err(Error::BadMessage));
        assert_eq!(send_to(bench.cpu(), id, to(other), &message(8, &[])), Err(Error::BadAddress));
        assert_eq!(send_to(bench.cpu(), id, to(peer), &[0; 70_000]), Err(Error::TooLong));
        close(bench.cpu(), id).unwrap();
        assert_eq!(send_to(bench.cpu(), id, to(peer), &message(8, &[])), Err(Error::NotFound));
        assert_eq!(close(bench.cpu(), id), Err(Error::NotFound));
    }
}

#[test]
fn a_flood_that_nobody_reads_takes_a_bounded_place_and_is_answered() {
    for (ours, peer) in families() {
        let mut bench = Bench::new(1);
        let id = open(bench.cpu(), &wanted(ours)).unwrap();
        let count = QUEUE_BYTES / 1000 + 20;
        for seq in 0..count {
            bench.inject(1, frame(1, &echo_request(peer, ours, 7, u16::try_from(seq).unwrap(), &[1; 992])));
            bench.run();
        }
        assert_eq!(ready(bench.cpu(), id), Ready { messages: 42, bytes: 42_000 });
        assert_eq!(bench.counted(Count::IcmpRawFull), count as u64 - 42);
        assert_eq!(bench.sent(1).len(), count, "whoever reads or not");
    }
}

#[test]
fn as_many_sockets_as_there_may_be_and_no_more() {
    let mut bench = Bench::new(1);
    let wanted = wanted(addr4(1, 1).into());
    let ids: Vec<_> = (0..SOCKETS_MAX).map(|_| open(bench.cpu(), &wanted).unwrap()).collect();
    assert_eq!(open(bench.cpu(), &wanted), Err(Error::TooMany));
    close(bench.cpu(), ids[3]).unwrap();
    assert!(open(bench.cpu(), &wanted).is_ok_and(|id| id != ids[3]), "the place, under another name");
    let sockets = bench.cpu().raw.as_deref().unwrap();
    let (first, next) = sockets.page(0, 60);
    let (second, end) = sockets.page(next.unwrap(), 60);
    assert_eq!((first.len(), second.len(), end), (60, 4, None));
}

#[test]
fn a_socket_of_a_program_is_told_once_and_closed_with_it() {
    use crate::host::app::{App, AppContext, Handle};
    struct Reads(Open, std::sync::mpsc::Sender<(u32, usize)>);
    impl App for Reads {
        fn begin(&mut self, cx: &mut AppContext<'_>) -> Result<(), Error> {
            let socket = open(cx.cpu, &self.0)?;
            cx.hold_raw(socket, 9);
            Ok(())
        }
        fn messages(&mut self, cx: &mut AppContext<'_>, socket: Handle<Id>) {
            // One at a time, to see that what is left is not forgotten.
            if let Ok(got) = recv(cx.cpu, socket.id, &mut [0; 100]) {
                self.1.send((socket.key, got.len)).unwrap();
                cx.again_raw(socket.id);
            }
        }
    }
    for (ours, peer) in families() {
        let mut bench = Bench::new(1);
        let (sender, told) = std::sync::mpsc::channel();
        let program = bench.netisrs[0].begin(Box::new(Reads(wanted(ours), sender))).unwrap();
        for seq in 0..3 {
            bench.inject(1, frame(1, &echo_request(peer, ours, 7, seq, &[0; 4])));
        }
        bench.advance(Duration::from_millis(1));
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [(9, 12); 3]);
        bench.netisrs[0].end(program);
        bench.run();
        assert_eq!(bench.cpu().raw.as_deref().unwrap().page(0, 10).0, []);
    }
}
