//! Batches, to devices that cut and to those that do not.

use core::net::{IpAddr, SocketAddr};

use pkt::Gso;

use super::*;
use crate::base::count::Count;
use crate::host::udp::{Bind, Connect, Settings, bind, connect, local};
use crate::link::driver::Caps;
use crate::testkit::{Bench, addr4, addr6};

const PORT: u16 = 5300;

fn families() -> [(IpAddr, IpAddr); 2] {
    [(addr4(1, 1).into(), addr4(1, 9).into()), (addr6(1, 1).into(), addr6(1, 9).into())]
}

fn with_caps(cpus: u16, uso: bool) -> Bench {
    let caps = Caps { tx_csum: uso, tso: uso, uso, buffers_max: 64 };
    Bench::with(1, cpus, |config| config.ifs[0].caps = caps)
}

fn socket_of(bench: &mut Bench, addr: IpAddr) -> Id {
    let settings = Settings { queue_bytes: 1 << 20, ..Settings::default() };
    let wanted = Bind { addr: (addr, PORT).into(), zone: 0, only_v6: false, is_shared: true, settings };
    bench.netisrs.iter_mut().map(|netisr| bind(&mut netisr.cpu, &wanted).unwrap()).next().unwrap()
}

/// The payload of a frame: bytes behind Ethernet's, IP's and UDP's header.
fn payload(frame: &[u8], peer: IpAddr) -> Vec<u8> {
    frame[14 + if peer.is_ipv4() { 28 } else { 48 }..].to_vec()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

#[test]
fn one_buffer_is_many_datagrams_and_a_device_that_can_gets_them_as_super_packets() {
    for (addr, peer) in families() {
        for (uso, cpus) in [(true, 1), (false, 1), (true, 3), (false, 3)] {
            let mut bench = with_caps(cpus, uso);
            let id = socket_of(&mut bench, addr);
            // So that the neighbour is known.
            crate::host::udp::send_to(bench.cpu(), id, SocketAddr::new(peer, 9), b"first").unwrap();
            bench.run();
            bench.forget_sent();
            let bytes = pattern(100 * 1000 + 7);
            let batch =
                [Datagram { to: Some(SocketAddr::new(peer, 9).into()), bytes: &bytes, segment: 1000 }];
            let sent = send_batch(bench.cpu(), id, &batch, |_, error| panic!("{error}"));
            assert_eq!(sent, Ok(1));
            bench.run();
            let frames = bench.sent_frames(1);
            assert_eq!(frames.len(), if uso { 2 } else { 101 }, "64 in the first super-packet");
            for frame in &frames {
                let (gso, size) = if uso { (Gso::Udp, 1000) } else { (Gso::None, 0) };
                assert_eq!((frame.gso, frame.gso_size), (gso, size));
            }
            let whole = frames.iter().flat_map(|frame| payload(&frame.bytes, peer)).collect::<Vec<_>>();
            assert!(whole == bytes);
            assert_eq!(bench.counted(Count::UdpOut), 102);
            assert_eq!(bench.drops(), []);
        }
    }
}

#[test]
fn segments_that_do_not_fit_the_link_are_sent_one_by_one_or_refused() {
    for (addr, peer) in families() {
        let mut bench = with_caps(1, true);
        let id = socket_of(&mut bench, addr);
        let bytes = pattern(4000);
        let batch = [Datagram { to: Some(SocketAddr::new(peer, 9).into()), bytes: &bytes, segment: 2000 }];
        assert_eq!(send_batch(bench.cpu(), id, &batch, |_, error| panic!("{error}")), Ok(1));
        bench.run();
        assert_eq!(bench.sent(1).len(), 4, "two datagrams of two fragments");
        crate::host::udp::change(bench.cpu(), id, |settings| settings.dont_fragment = true).unwrap();
        let mut failures = Vec::new();
        let sent = send_batch(bench.cpu(), id, &batch, |place, error| failures.push((place, error)));
        assert_eq!((sent, failures), (Ok(0), vec![(0, Error::TooBig { mtu: 1500 })]));
    }
}

#[test]
fn a_batch_to_many_says_which_of_them_could_not_be_sent_and_why() {
    for (addr, peer) in families() {
        let mut bench = with_caps(1, false);
        let id = socket_of(&mut bench, addr);
        let other = if addr.is_ipv4() { addr6(1, 9).into() } else { IpAddr::from(addr4(1, 9)) };
        let long = vec![0; 70_000];
        let datagram = |to: SocketAddr, bytes| Datagram { to: Some(to.into()), bytes, segment: 0 };
        let batch = [
            datagram((peer, 1).into(), &b"one"[..]),
            datagram((other, 1).into(), b"of another family"),
            datagram((peer, 0).into(), b"port 0"),
            datagram((peer, 2).into(), &long),
            datagram((peer, 2).into(), b"two"),
            Datagram { to: None, bytes: b"to nobody", segment: 0 },
        ];
        let mut failures = Vec::new();
        let sent = send_batch(bench.cpu(), id, &batch, |place, error| failures.push((place, error)));
        let wanted =
            [(1, Error::BadAddress), (2, Error::BadAddress), (3, Error::TooLong), (5, Error::NotConnected)];
        assert_eq!((sent, &failures[..]), (Ok(2), &wanted[..]));
        bench.run();
        let texts: Vec<_> = bench.sent(1).iter().map(|frame| payload(frame, peer)).collect();
        assert_eq!(texts, [b"one".to_vec(), b"two".to_vec()]);
    }
}

#[test]
fn what_waits_is_read_in_one_call_as_far_as_there_is_room() {
    for (addr, _) in families() {
        for uso in [true, false] {
            let mut bench = with_caps(1, uso);
            let server = socket_of(&mut bench, addr);
            let wanted = Connect {
                remote: (addr, PORT).into(),
                local: None,
                port: None,
                zone: 0,
                settings: Settings::default(),
            };
            let client = connect(bench.cpu(), &wanted).unwrap();
            let bytes = pattern(3000);
            let batch = [Datagram { to: None, bytes: &bytes, segment: 1000 }; 2];
            assert_eq!(send_batch(bench.cpu(), client, &batch, |_, error| panic!("{error}")), Ok(2));
            bench.run();
            let from = local(bench.cpu(), client).unwrap();
            let mut whole = Vec::new();
            let mut read = |bench: &mut Bench, room: usize| {
                recv_batch(bench.cpu(), server, &mut vec![0; room], |received, bytes| {
                    assert_eq!((received.from, received.len), (from, 1000));
                    whole.extend_from_slice(bytes);
                })
            };
            assert_eq!(read(&mut bench, 3500), Ok(3));
            assert_eq!(read(&mut bench, 10_000), Ok(3));
            assert_eq!(read(&mut bench, 10_000), Err(Error::WouldBlock));
            assert!(whole == [&bytes[..], &bytes].concat());
            send_batch(bench.cpu(), client, &batch[..1], |_, _| ()).unwrap();
            bench.run();
            let mut first = Vec::new();
            let count = recv_batch(bench.cpu(), server, &mut [0; 10], |_, bytes| first = bytes.to_vec());
            assert_eq!((count, &first[..]), (Ok(1), &bytes[..10]), "the first is cut, as by recv");
        }
    }
}
