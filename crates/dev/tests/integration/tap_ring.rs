//! The TAP driver between kernels.

use core::time::Duration;
use std::thread;

use dev::bpf::steering::{self, Steer};
use dev::netlink::Rtnetlink;
use dev::sys::{sockopt, tun::Tap};
use dev::tap::TapRing;
use net::driver::{Driver, Link};
use net::ringmap::RingMap;
use net::rss;
use pkt::{DATA_LEN, Flags, Gso, PktVec, Pool};

use crate::support::cable::{
    Cable, Host, bytes_of, close_all, give_all, hosts, packet, pool, receive, send, tcp_exchange, udp_echo,
};
use crate::support::port::{frame, until};
use crate::support::{is_root, netns};

const ALLOWANCE: usize = 4096;

/// TAP interfaces in the namespaces of the hosts, with their addresses, and a ring over the only queue of each: the second
/// makes a system call for each frame.
fn rings_of(hosts: &[Host; 2]) -> [TapRing; 2] {
    let [a, b] = hosts.each_ref().map(|host| {
        let mut tap = host.ns.run(|| Tap::open("t0", 1)).unwrap().unwrap();
        host.configure("t0");
        TapRing::new(tap.queues.remove(0), tap.offload, ALLOWANCE)
    });
    [a, b.without_batches()]
}

/// Runs `body` with a silent TAP of so many queues in a namespace, up, with the address 10.9.0.1/24; and again with one whose
/// rings make a system call for each frame.
fn with_rings(test: &str, queues: usize, allowance: usize, body: impl Fn(Vec<TapRing>, &mut Pool) + Sync) {
    if !is_root() {
        return;
    }
    for (batches, test) in [(true, test.to_owned()), (false, format!("{test}-one"))] {
        netns(&test)
            .run(|| {
                let tap = Tap::open("t0", queues).unwrap();
                let count = u16::try_from(queues).unwrap();
                let steer = Steer::by(&RingMap::alloc(count, 0, None, count), steering::Link::Ethernet);
                tap.steer(&steering::load(steer).unwrap()).unwrap();
                let mut nl = Rtnetlink::open().unwrap();
                nl.set_mac("t0", [2, 0, 0, 0, 0, 1]).unwrap();
                nl.add_address("t0", "10.9.0.1/24".parse().unwrap()).unwrap();
                nl.set_up("t0", true).unwrap();
                let offload = tap.offload;
                let rings = tap.queues.into_iter().map(|queue| {
                    let ring = TapRing::new(queue, offload, allowance);
                    if batches { ring } else { ring.without_batches() }
                });
                let mut pool = pool(2048);
                body(rings.collect(), &mut pool);
                assert_eq!((pool.free(), pool.arena().leaked()), (pool.total(), 0), "all buffers are back");
            })
            .unwrap();
    }
}

/// Sends a multicast datagram, for which no neighbour is asked, out of the TAP of this namespace.
fn multicast(payload: &[u8], port: u16, segment: Option<i32>) {
    let socket = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
    if let Some(bytes) = segment {
        sockopt::set_int(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, bytes).unwrap();
    }
    socket.send_to(payload, ("239.1.2.3", port)).unwrap();
}

/// A frame for the kernel of this namespace with a datagram for this port.
fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
    let len = |headers: usize| u16::try_from(headers + payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0]);
    frame.extend(len(28));
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1]);
    let checksum = wire::checksum::Sum::new().bytes(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame.extend([0, 9]);
    frame.extend(port.to_be_bytes());
    frame.extend(len(8));
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

fn is_udp(frame: &[u8]) -> bool {
    frame[12..14] == [8, 0] && frame[23] == 17
}

/// Receives until a UDP datagram has come, which is the last of those answered.
fn until_udp(ring: &mut TapRing, pool: &mut Pool) -> Vec<pkt::Pkt> {
    receive(ring, pool, |all| all.iter().any(|pkt| is_udp(pkt.head())))
}

fn two_kernels_talk_tcp_in_super_packets_with_checksums_undone() {
    if !is_root() {
        return;
    }
    let hosts = hosts("tapr-tcp");
    let [mut a, mut b] = rings_of(&hosts);
    let mut cable = Cable::new(pool(8192));
    for family in [0, 1] {
        let exchange = tcp_exchange(&hosts, family, 4 << 20);
        let ((), there, back) = cable.while_working(&mut a, &mut b, exchange);
        for seen in [there, back] {
            assert!(seen.longest > 32_000 && seen.super_packets > 50, "{seen:?}");
            assert!(seen.partial >= seen.super_packets && seen.lost == 0, "{seen:?}");
        }
    }
    assert_eq!((a.stats().tx_errors, b.stats().tx_errors), (0, 0));
    close_all(&mut cable.pool, &mut [&mut a, &mut b]);
}

fn datagrams_of_all_sizes_cross_and_come_back() {
    if !is_root() {
        return;
    }
    let hosts = hosts("tapr-udp");
    let [mut a, mut b] = rings_of(&hosts);
    let mut cable = Cable::new(pool(8192));
    for host in &hosts {
        host.netlink().set_mtu("t0", 9000).unwrap();
    }
    for family in [0, 1] {
        let echo = udp_echo(&hosts, family, &[1, 18, 1472, 1986, 2005, 2006, 2007, 4054, 8952, 65_000]);
        let ((), there, _) = cable.while_working(&mut a, &mut b, echo);
        assert!(there.longest > 4 * DATA_LEN, "{there:?}");
    }
    close_all(&mut cable.pool, &mut [&mut a, &mut b]);
}

fn many_datagrams_in_one_super_packet_are_cut_by_the_receiving_kernel() {
    if !is_root() {
        return;
    }
    let hosts = hosts("tapr-uso");
    let [mut a, mut b] = rings_of(&hosts);
    let mut cable = Cable::new(pool(8192));
    for family in [0, 1] {
        let (from, to) = (hosts[0].udp(hosts[0].ip[family]), hosts[1].udp(hosts[1].ip[family]));
        let at = to.local_addr().unwrap();
        sockopt::set_int(&from, libc::SOL_UDP, libc::UDP_SEGMENT, 1400).unwrap();
        let work = thread::spawn(move || {
            from.send_to(&[7; 40 * 1400], at).unwrap();
            let mut got = [0; 2000];
            (0..40).map(|_| to.recv(&mut got).unwrap()).collect::<Vec<_>>()
        });
        let (lengths, there, _) = cable.while_working(&mut a, &mut b, work);
        assert_eq!(lengths, [1400; 40]);
        assert_eq!(there.super_packets, 1);
    }
    close_all(&mut cable.pool, &mut [&mut a, &mut b]);
}

fn a_super_packet_is_described_as_the_kernel_made_it() {
    with_rings("tapr-desc", 1, ALLOWANCE, |mut rings, pool| {
        multicast(&[7; 20 * 1000], 9, Some(1000));
        let got = until_udp(&mut rings[0], pool);
        let pkt = got.last().unwrap();
        assert_eq!((pkt.gso, pkt.gso_size, pkt.len()), (Gso::Udp, 1000, 42 + 20_000));
        assert!(pkt.flags.has(Flags::CSUM_PARTIAL));
        assert_eq!((pkt.csum_start, pkt.csum_off, pkt.buffers()), (34, 6, 10));
        give_all(pool, got);
        rings[0].close(pool);
    });
}

fn a_ring_at_its_allowance_drops_what_is_too_long_and_goes_on_when_buffers_come_back() {
    const LEAST: usize = 33 + 16;
    with_rings("tapr-allow", 1, LEAST, |mut rings, pool| {
        let ring = &mut rings[0];
        let mut held = Vec::new();
        // Small frames until the ring has but two buffers left.
        while held.len() < LEAST - 2 {
            multicast(b"x", 9, None);
            held.extend(until_udp(ring, pool));
        }
        let spared = held.split_off(LEAST - 2);
        give_all(pool, spared);
        multicast(&[7; 20_000], 9, Some(1000));
        let mut vec = PktVec::new();
        until(|| {
            ring.rx(pool, &mut vec, 64);
            ring.stats().rx_dropped == 1
        });
        give_all(pool, vec.drain());
        multicast(b"small", 9, None);
        let got = until_udp(ring, pool);
        assert_eq!(bytes_of(got.last().unwrap()).len(), 42 + 5);
        give_all(pool, got);
        give_all(pool, held);
        ring.close(pool);
    });
}

fn many_frames_take_few_system_calls_and_keep_their_order() {
    const FRAMES: usize = 200;
    with_rings("tapr-many", 1, ALLOWANCE, |mut rings, pool| {
        let ring = &mut rings[0];
        // Long ones, which take more than one buffer, among short ones; and after so many short ones that none is expected.
        let is_long = |at: usize| at < 40 && at.is_multiple_of(7) || at == 35 + 65 || at > 190;
        let len = |at: usize| if is_long(at) { 4000 + at * 20 } else { 100 + at };
        let payload = |at: usize| vec![u8::try_from(at).unwrap(); len(at)];
        (0..FRAMES).for_each(|at| multicast(&payload(at), 9, Some(1400)));
        let count = |all: &[pkt::Pkt]| all.iter().filter(|pkt| is_udp(pkt.head())).count();
        let got = receive(ring, pool, |all| count(all) == FRAMES);
        let got: Vec<_> = got
            .into_iter()
            .filter_map(|pkt| {
                let bytes = bytes_of(&pkt);
                pool.give(pkt);
                is_udp(&bytes).then(|| bytes[42..].to_vec())
            })
            .collect();
        assert!(got.iter().enumerate().all(|(at, bytes)| *bytes == payload(at)), "all, whole and in order");

        let socket = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let port = socket.local_addr().unwrap().port();
        let before = ring.stats();
        let mut bytes = [0; 10_000];
        // As many at once as the socket's buffer holds.
        for some in (0..FRAMES).collect::<Vec<_>>().chunks(40) {
            let pkts: Vec<_> = some.iter().map(|at| packet(pool, &datagram(port, &payload(*at)))).collect();
            send(ring, pool, pkts);
            for at in some {
                let len = socket.recv(&mut bytes).unwrap();
                assert!(bytes[..len] == payload(*at), "the one sent as number {at}, whole");
            }
        }
        let (sent, calls) =
            (ring.stats().tx_frames - before.tx_frames, ring.stats().doorbells - before.doorbells);
        assert_eq!(sent, FRAMES as u64);
        assert!(if ring.has_batches() { calls < sent / 8 } else { calls == sent }, "{calls} calls");
        ring.close(pool);
    });
}

fn a_link_that_is_down_loses_what_is_sent_and_recovers() {
    with_rings("tapr-down", 1, ALLOWANCE, |mut rings, pool| {
        let ring = &mut rings[0];
        let mut nl = Rtnetlink::open().unwrap();
        assert_eq!(ring.link(), Link::Up);
        nl.set_up("t0", false).unwrap();
        assert_eq!(ring.link(), Link::Down);
        let lost = packet(pool, &frame(1, 60));
        send(ring, pool, [lost]);
        assert_eq!((ring.stats().tx_frames, ring.stats().tx_errors), (0, 1));
        nl.set_up("t0", true).unwrap();
        assert_eq!(ring.link(), Link::Up);
        multicast(b"again", 9, None);
        let got = until_udp(ring, pool);
        give_all(pool, got);
        ring.close(pool);
    });
}

fn an_interface_that_is_deleted_is_gone_for_reader_and_writer_and_nobody_waits_on_it() {
    with_rings("tapr-gone", 1, ALLOWANCE, |mut rings, pool| {
        let ring = &mut rings[0];
        let waiter = ring.waiter();
        let mut vec = PktVec::new();
        ring.rx(pool, &mut vec, 64);
        assert!(waiter.descriptor().is_some());
        Rtnetlink::open().unwrap().delete_link("t0").unwrap();
        assert_eq!(ring.link(), Link::Gone);
        give_all(pool, vec.drain());
        assert_eq!(ring.rx(pool, &mut vec, 64), 0);
        assert!(waiter.descriptor().is_none(), "it would be ready for ever");
        vec.push(packet(pool, &frame(1, 60))).unwrap();
        ring.tx(pool, &mut vec);
        assert_eq!((ring.link(), vec.len()), (Link::Gone, 1), "what stays is the caller's");
        give_all(pool, vec.drain());
        ring.close(pool);
    });
}

fn each_queue_gets_the_frames_of_its_hash() {
    with_rings("tapr-queues", 2, ALLOWANCE, |mut rings, pool| {
        (1..=100).for_each(|port| multicast(b"x", port, None));
        let (mut vec, mut counts) = (PktVec::new(), [0; 2]);
        until(|| {
            for (queue, ring) in rings.iter_mut().enumerate() {
                ring.rx(pool, &mut vec, 64);
                for pkt in vec.drain() {
                    if is_udp(pkt.head()) {
                        assert_eq!(usize::from(rss::hash4(pkt.window(14))) % 2, queue);
                        counts[queue] += 1;
                    }
                    pool.give(pkt);
                }
            }
            counts.iter().sum::<usize>() == 100
        });
        assert!(counts.iter().all(|&count| count > 20), "{counts:?}");
        rings.iter_mut().for_each(|ring| ring.close(pool));
    });
}

harness::tests![
    two_kernels_talk_tcp_in_super_packets_with_checksums_undone,
    datagrams_of_all_sizes_cross_and_come_back,
    many_datagrams_in_one_super_packet_are_cut_by_the_receiving_kernel,
    a_super_packet_is_described_as_the_kernel_made_it,
    a_ring_at_its_allowance_drops_what_is_too_long_and_goes_on_when_buffers_come_back,
    many_frames_take_few_system_calls_and_keep_their_order,
    a_link_that_is_down_loses_what_is_sent_and_recovers,
    an_interface_that_is_deleted_is_gone_for_reader_and_writer_and_nobody_waits_on_it,
    each_queue_gets_the_frames_of_its_hash,
];
