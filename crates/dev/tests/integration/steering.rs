//! The steering program against a reference: run by the kernel on made-up frames, and on a real TAP.

use std::net::UdpSocket;

use dev::bpf::prog::Kind;
use dev::bpf::steering::{self, Link, Steer};
use dev::netlink::Rtnetlink;
use dev::sys::tun::Tap;

use net::ringmap::RingMap;
use net::rss;

use crate::support::{is_root, netns};

const IP4: u16 = 0x0800;
const IP6: u16 = 0x86dd;
const ARP: u16 = 0x0806;

/// A small generator, so that a failure repeats (xorshift64*).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 33) % n
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next().to_be_bytes()[0]).collect()
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

/// Random bytes with a random, mostly sensible, header in front; often cut short. Answers where it begins.
fn random_frame(rng: &mut Rng) -> (Vec<u8>, usize) {
    let len = 14 + usize::try_from(rng.below(120)).unwrap();
    let mut f = rng.bytes(len.max(90));
    let tags = rng.one_of(&[0, 0, 1, 2]);
    let l3 = 14 + 4 * tags;
    (12..l3 - 2).step_by(4).for_each(|at| f[at..at + 2].copy_from_slice(&[0x81, 0x00]));
    let ether_type: u16 = rng.one_of(&[IP4, IP4, IP6, IP6, ARP, 0x88b5]);
    f[l3 - 2..l3].copy_from_slice(&ether_type.to_be_bytes());
    match ether_type {
        IP4 => header4(rng, &mut f[l3..]),
        IP6 => header6(rng, &mut f[l3..]),
        _ => f[l3 + 14..l3 + 18].iter_mut().for_each(|b| *b *= u8::from(len % 2 == 0)),
    }
    // Test runs refuse frames whose IP header is cut, but look at the untagged ones only.
    let shortest = match (tags, ether_type) {
        (0, IP4) => 34,
        (0, IP6) => 54,
        _ => 14,
    };
    f.truncate(len.max(shortest));
    (f, l3)
}

fn header4(rng: &mut Rng, ip: &mut [u8]) {
    ip[0] = 0x40 | rng.one_of(&[5, 5, 6, 15]);
    ip[6..8].copy_from_slice(&rng.one_of(&[0_u16, 0, 0x4000, 0x2000, 0x0001, 0x1fff]).to_be_bytes());
    ip[9] = rng.one_of(&[6, 6, 17, 17, 1, 50]);
}

fn header6(rng: &mut Rng, ip: &mut [u8]) {
    ip[6] = rng.one_of(&[6, 17, 58, 58, 58, 44, 0]);
    ip[40] = rng.one_of(&[128, 132, 133, 134, 135, 135, 136, 137, 138]);
    let unspecified = rng.below(3) == 0;
    ip[8..24].iter_mut().for_each(|b| *b *= u8::from(!unspecified));
}

/// The stack's own hash of a frame; `None` if the frame ends before what is hashed.
fn hash_of_the_stack(frame: &[u8], l3: usize) -> Option<u16> {
    let mut window = [0; 64];
    let packet = &frame[l3.min(frame.len())..];
    let len = packet.len().min(64);
    window[..len].copy_from_slice(&packet[..len]);
    let ether_type = u16::from_be_bytes(frame.get(l3 - 2..l3)?.try_into().unwrap());
    match ether_type {
        _ if l3 > 18 => None,
        IP4 => (len >= needed4(&window)).then(|| rss::hash4(&window)),
        IP6 => (len >= needed6(&window)).then(|| rss::hash6(&window)),
        ARP => (len >= if window[14..18] == [0; 4] { 28 } else { 18 }).then(|| rss::hash_arp(&window)),
        _ => None,
    }
}

/// Up to where an IPv4 packet is looked at.
fn needed4(ip: &[u8; 64]) -> usize {
    let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0;
    let ports = usize::from(ip[0] & 15) * 4 + 4;
    if matches!(ip[9], 6 | 17) && !fragment { ports.max(20) } else { 20 }
}

/// Up to where an IPv6 packet is looked at.
fn needed6(ip: &[u8; 64]) -> usize {
    match (ip[6], ip[40]) {
        (58, 136) => 64,
        (58, 133..=137) if ip[8..24] == [0; 16] => 64,
        (58, _) => 41,
        (6 | 17, _) => 44,
        _ => 40,
    }
}

/// The symmetric Toeplitz hash, bit by bit from its definition.
fn toeplitz(input: &[u8]) -> u16 {
    let bits = input.iter().flat_map(|byte| (0..8).rev().map(move |b| byte >> b & 1));
    bits.zip(0_u32..).fold(0, |hash, (bit, i)| if bit == 1 { hash ^ 0x6d5a_u16.rotate_left(i) } else { hash })
}

fn the_stack_agrees_with_the_definition_of_the_hash() {
    let mut ip = [0; 64];
    ip[0] = 0x45;
    ip[9] = 17;
    ip[12..24].copy_from_slice(&[66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6]);
    assert_eq!((toeplitz(&ip[12..24]), rss::hash4(&ip)), (0x9fcc, 0x9fcc));
    ip[9] = 1;
    assert_eq!((toeplitz(&ip[12..20]), rss::hash4(&ip)), (0x0a59, 0x0a59));
}

/// For more rings than CPUs, fewer, grids that rings fill and grids that they do not; and for many CPUs.
fn the_kernel_finds_the_ring_of_the_redirect_table() {
    if !is_root() {
        return;
    }
    let mut rng = Rng(0x5eed_0123_4567_89ab);
    for (cpus, rings) in [(2, 8), (4, 4), (4, 2), (5, 4), (12, 8), (24, 16), (7, 3), (48, 48), (100, 30)] {
        let map = RingMap::alloc(cpus, 1, None, rings);
        let table = map.redirect_table(512).unwrap();
        let program = steering::load_as(Kind::Classifier, Steer::by(&map, Link::Ethernet)).unwrap();
        for _ in 0..2000 {
            let (frame, l3) = random_frame(&mut rng);
            let hash = hash_of_the_stack(&frame, l3).unwrap_or(0);
            let ring = u32::from(table[usize::from(hash) % table.len()]);
            assert_eq!(program.test_run(&frame).unwrap(), ring, "{cpus} CPUs, {rings} rings, hash {hash}");
        }
    }
}

fn the_kernel_computes_our_hash_on_thousands_of_random_frames() {
    if !is_root() {
        return;
    }
    let program =
        steering::load_as(Kind::Classifier, Steer { buckets: 128, spread: None, link: Link::Ethernet })
            .unwrap();
    let mut rng = Rng(0x0dd_b1a5_e5ba_d5ed);
    let mut seen = [0_u32; 128];
    for round in 0..20_000 {
        let (frame, l3) = random_frame(&mut rng);
        let got = program.test_run(&frame).unwrap();
        let expected = hash_of_the_stack(&frame, l3).map_or(0, |hash| u32::from(hash & 127));
        assert_eq!(got, expected, "round {round}: {frame:02x?}");
        seen[got as usize] += 1;
    }
    assert!(seen.iter().all(|&n| n > 0), "every entry of the table is reached: {seen:?}");
}

fn a_tap_delivers_each_datagram_on_the_queue_of_its_hash() {
    if !is_root() {
        return;
    }
    let ns = netns("steer");
    ns.run(|| {
        let tap = Tap::open("t0", 3).unwrap();
        let program = steering::load(Steer::by(&RingMap::alloc(3, 0, None, 3), Link::Ethernet)).unwrap();
        tap.steer(&program).unwrap();
        let mut nl = Rtnetlink::open().unwrap();
        nl.add_address("t0", "10.7.0.1/16".parse().unwrap()).unwrap();
        nl.set_up("t0", true).unwrap();
        let socket = UdpSocket::bind("10.7.0.1:0").unwrap();
        socket.set_broadcast(true).unwrap();
        // Broadcast and multicast need no neighbour.
        for host in 1..=60_u8 {
            socket.send_to(&[host], (core::net::Ipv4Addr::new(239, 1, 2, host), 9)).unwrap();
        }
        let mut counts = [0; 3];
        for (number, queue) in tap.queues.iter().enumerate() {
            let mut buffer = [0_u8; 2048];
            while let Some(len) = queue.readv(&mut [std::io::IoSliceMut::new(&mut buffer)]).unwrap() {
                let frame = &buffer[12..len];
                let hash = hash_of_the_stack(frame, 14).unwrap_or(0);
                assert_eq!(usize::from(hash & 127) % 3, number, "{frame:02x?}");
                counts[number] += usize::from(frame[23] == 17);
            }
        }
        assert_eq!(counts.iter().sum::<usize>(), 60);
        assert!(counts.iter().all(|&n| n > 0), "{counts:?}");
    })
    .unwrap();
}

harness::tests![
    the_stack_agrees_with_the_definition_of_the_hash,
    the_kernel_finds_the_ring_of_the_redirect_table,
    the_kernel_computes_our_hash_on_thousands_of_random_frames,
    a_tap_delivers_each_datagram_on_the_queue_of_its_hash,
];
