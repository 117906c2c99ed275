//! The steering program against a reference: run by the kernel on made-up frames, and on a real TAP.

#![cfg(test)]

mod support;

use std::net::UdpSocket;

use dev::bpf::prog::Kind;
use dev::bpf::steering;
use dev::netlink::Rtnetlink;
use dev::sys::tun::Tap;

use support::{is_root, netns};

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

/// Random bytes with a random, mostly sensible, Ethernet and IP header in front; often cut short.
fn random_frame(rng: &mut Rng) -> Vec<u8> {
    let len = 14 + usize::try_from(rng.below(100)).unwrap();
    let mut f = rng.bytes(len.max(60));
    let mut l3 = 14;
    let tags = rng.one_of(&[0, 0, 1, 2]);
    for _ in 0..tags {
        f[l3 - 2..l3].copy_from_slice(&[0x81, 0x00]);
        l3 += 4;
    }
    let ether_type: u16 = rng.one_of(&[0x0800, 0x0800, 0x86dd, 0x86dd, 0x0806]);
    f[l3 - 2..l3].copy_from_slice(&ether_type.to_be_bytes());
    let protocol = rng.one_of(&[6, 6, 6, 17, 1, 44, 0]);
    if ether_type == 0x0800 {
        f[l3] = 0x40 | rng.one_of(&[5, 5, 6, 15]);
        f[l3 + 6..l3 + 8]
            .copy_from_slice(&rng.one_of(&[0_u16, 0, 0x4000, 0x2000, 0x0001, 0x1fff]).to_be_bytes());
        f[l3 + 9] = protocol;
    } else {
        f[l3 + 6] = protocol;
    }
    // Test runs refuse frames whose IP header is cut, but look at the untagged ones only.
    let shortest = match (tags, ether_type) {
        (0, 0x0800) => 34,
        (0, 0x86dd) => 54,
        _ => 14,
    };
    f.truncate(len.max(shortest));
    f
}

/// Which bytes of a frame are hashed; `None` if it is cut short, or neither IPv4 nor IPv6.
fn tuple(f: &[u8]) -> Option<Vec<u8>> {
    let tagged = f.get(12..14)? == [0x81, 0x00];
    let (kind, ip) = if tagged { (f.get(16..18)?, f.get(18..)?) } else { (&f[12..14], f.get(14..)?) };
    let (mut addresses, ports_at) = match kind {
        [0x08, 0x00] => {
            let addresses = ip.get(12..20)?.to_vec();
            let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0;
            let at = usize::from(ip[0] & 15) * 4;
            (addresses, (ip[9] == 6 && !fragment).then_some(at))
        }
        [0x86, 0xdd] => (ip.get(8..40)?.to_vec(), (ip[6] == 6).then_some(40)),
        _ => return None,
    };
    if let Some(at) = ports_at {
        addresses.extend_from_slice(ip.get(at..at + 4)?);
    }
    Some(addresses)
}

/// The symmetric Toeplitz hash, bit by bit from its definition.
fn toeplitz(input: &[u8]) -> u16 {
    let bits = input.iter().flat_map(|byte| (0..8).rev().map(move |b| byte >> b & 1));
    bits.zip(0_u32..).fold(0, |hash, (bit, i)| if bit == 1 { hash ^ 0x6d5a_u16.rotate_left(i) } else { hash })
}

fn expected(frame: &[u8]) -> u32 {
    tuple(frame).map_or(0, |t| u32::from(toeplitz(&t) & 127))
}

#[test]
fn the_reference_agrees_with_the_published_vectors() {
    let v4 = |a: [u8; 4], b: [u8; 4], ports: &[u8]| toeplitz(&[&a[..], &b[..], ports].concat());
    assert_eq!(v4([66, 9, 149, 187], [161, 142, 100, 80], &[]), 0x0a59);
    assert_eq!(v4([66, 9, 149, 187], [161, 142, 100, 80], &[0x0a, 0xea, 0x06, 0xe6]), 0x9fcc);
    assert_eq!(v4([192, 168, 1, 1], [192, 168, 1, 2], &[]), 0xadfb);
}

#[test]
fn the_kernel_computes_our_hash_on_thousands_of_random_frames() {
    if !is_root("steering") {
        return;
    }
    let program = steering::load_as(Kind::Classifier, 128).unwrap();
    let mut rng = Rng(0x0dd_b1a5_e5ba_d5ed);
    let mut seen = [0_u32; 128];
    for round in 0..20_000 {
        let frame = random_frame(&mut rng);
        let got = program.test_run(&frame).unwrap();
        assert_eq!(got, expected(&frame), "round {round}: {frame:02x?}");
        seen[got as usize] += 1;
    }
    assert!(seen.iter().all(|&n| n > 0), "every entry of the table is reached: {seen:?}");
}

#[test]
fn a_tap_delivers_each_datagram_on_the_queue_of_its_hash() {
    if !is_root("steering_tap") {
        return;
    }
    let ns = netns("steer");
    ns.run(|| {
        let tap = Tap::open("t0", 3).unwrap();
        let program = steering::load(128).unwrap();
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
                assert_eq!(expected(frame) as usize % 3, number, "{frame:02x?}");
                counts[number] += usize::from(frame[23] == 17);
            }
        }
        assert_eq!(counts.iter().sum::<usize>(), 60);
        assert!(counts.iter().all(|&n| n > 0), "{counts:?}");
    })
    .unwrap();
}
