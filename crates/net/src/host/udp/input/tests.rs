use core::net::IpAddr;

use super::*;
use crate::link::tables::Rxcsum;
use crate::testkit::build::{fix_ip4_checksum, frame, udp};
use crate::testkit::{Bench, Frame, addr4, addr6};
use pkt::Flags;

/// Source, our address, and the length of the network header, for both families.
fn families() -> [(IpAddr, IpAddr, usize); 2] {
    [(addr4(1, 9).into(), addr4(1, 1).into(), 20), (addr6(1, 9).into(), addr6(1, 1).into(), 40)]
}

/// Returns the number of replies to a datagram, and the drop reasons of others.
fn fate(bench: &mut Bench, frame: impl Into<Frame>) -> (usize, Vec<DropReason>) {
    let before = bench.drops();
    bench.inject(1, frame);
    bench.run();
    let died = bench.drops().into_iter().filter(|drop| !before.contains(drop)).map(|(reason, _)| reason);
    (bench.sent(1).len(), died.collect())
}

#[test]
fn a_datagram_to_a_closed_port_is_answered() {
    for (src, dst, _) in families() {
        let mut bench = Bench::new(1);
        for payload in [&b""[..], b"x", b"wander"] {
            let answer = fate(&mut bench, frame(1, &udp(src, dst, (1000, 53), payload)));
            assert_eq!(answer, (1, vec![DropReason::NoPort]));
        }
        assert_eq!(bench.counted(Count::UdpIn), 3);
    }
}

#[test]
fn a_datagram_of_an_impossible_length_or_to_port_0_dies() {
    for (src, dst, at) in families() {
        let good = udp(src, dst, (1000, 53), b"wander");
        for len in [0u16, 7, 15, 0xffff] {
            let mut packet = good.clone();
            packet[at + 4..at + 6].copy_from_slice(&len.to_be_bytes());
            assert_eq!(fate(&mut Bench::new(1), frame(1, &packet)), (0, vec![DropReason::UdpMalformed]));
        }
        let nowhere = udp(src, dst, (1000, 0), b"wander");
        assert_eq!(fate(&mut Bench::new(1), frame(1, &nowhere)), (0, vec![DropReason::UdpMalformed]));
    }
}

#[test]
fn a_datagram_without_room_for_its_header_dies() {
    for (src, dst, _) in families() {
        for len in [0, 1, 7] {
            let packet = crate::testkit::build::ip(src, dst, Protocol::UDP, 64, &[0; 7][..len]);
            assert_eq!(fate(&mut Bench::new(1), frame(1, &packet)), (0, vec![DropReason::UdpMalformed]));
        }
    }
}

#[test]
fn a_datagram_may_be_shorter_than_its_packet() {
    for (src, dst, at) in families() {
        let mut packet = udp(src, dst, (1000, 53), b"wander");
        packet.extend_from_slice(b"junk");
        if at == 20 {
            packet[3] += 4;
            fix_ip4_checksum(&mut packet);
        } else {
            packet[5] += 4;
        }
        assert_eq!(fate(&mut Bench::new(1), frame(1, &packet)), (1, vec![DropReason::NoPort]));
    }
}

#[test]
fn a_broken_datagram_dies_unless_the_device_is_trusted() {
    for (src, dst, at) in families() {
        let mut packet = udp(src, dst, (1000, 53), b"wander");
        packet[at + 9] ^= 1;
        let broken = || Frame::from(frame(1, &packet));
        let dies = (0, vec![DropReason::UdpBadChecksum]);
        let lives = (1, vec![DropReason::NoPort]);
        assert_eq!(fate(&mut Bench::new(1), broken()), dies);
        let good = Frame { flags: Flags::CSUM_GOOD, ..broken() };
        assert_eq!(fate(&mut Bench::new(1), good), lives);
        let mut trusting = Bench::with(1, 1, |config| config.ifs[0].rxcsum = Rxcsum::Trust);
        assert_eq!(fate(&mut trusting, broken()), lives);
        let partial = Some((u16::try_from(14 + at).unwrap(), 6));
        assert_eq!(fate(&mut Bench::new(1), Frame { partial, ..broken() }), lives);
    }
}

#[test]
fn a_datagram_without_a_checksum_lives_in_ipv4_only() {
    for (src, dst, at) in families() {
        let mut packet = udp(src, dst, (1000, 53), b"wander");
        packet[at + 6..at + 8].fill(0);
        let expected =
            if at == 20 { (1, vec![DropReason::NoPort]) } else { (0, vec![DropReason::UdpBadChecksum]) };
        assert_eq!(fate(&mut Bench::new(1), frame(1, &packet)), expected);
    }
}

#[test]
fn a_datagram_in_several_buffers_is_summed_over_all() {
    for (src, dst, _) in families() {
        let mut bench = Bench::with(1, 1, |config| config.ifs[0].mtu = 9000);
        let mut packet = udp(src, dst, (1000, 53), &[0x5a; 6001]);
        assert_eq!(fate(&mut bench, frame(1, &packet)), (1, vec![DropReason::NoPort]));
        packet[5000] ^= 1;
        assert_eq!(fate(&mut bench, frame(1, &packet)), (0, vec![DropReason::UdpBadChecksum]));
    }
}
