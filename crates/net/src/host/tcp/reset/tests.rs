use core::net::IpAddr;

use super::*;
use crate::testkit::build::{ether, frame, ip, tcp};
use crate::testkit::{Bench, addr4, addr6, mac};
use wire::Mac;

/// Source, our address, and the length of the network header, for both families.
fn families() -> [(IpAddr, IpAddr, usize); 2] {
    [(addr4(1, 9).into(), addr4(1, 1).into(), 20), (addr6(1, 9).into(), addr6(1, 1).into(), 40)]
}

fn segment(flags: Flags) -> Header {
    Header {
        src_port: 4000,
        dst_port: 80,
        seq: u32::MAX - 1,
        ack: 5000,
        flags,
        window: 1000,
        urgent: 0,
        options: Options::NONE,
    }
}

/// The one reset that was sent, if any, with a checksum that is right.
fn reset(bench: &mut Bench) -> Option<(Flags, u32, u32, (u16, u16))> {
    let sent = bench.sent(1);
    assert!(sent.len() <= 1);
    let packet = &sent.first()?[14..];
    let (at, src, dst): (usize, IpAddr, IpAddr) = if packet[0] >> 4 == 4 {
        (20, addr4(1, 1).into(), addr4(1, 9).into())
    } else {
        (40, addr6(1, 1).into(), addr6(1, 9).into())
    };
    let view = View::new(&packet[at..]).unwrap();
    assert!(match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => view.verify_v4(src, dst),
        (IpAddr::V6(src), IpAddr::V6(dst)) => view.verify_v6(src, dst),
        _ => false,
    });
    Some((view.flags(), view.seq(), view.ack(), (view.src_port(), view.dst_port())))
}

#[test]
fn a_segment_to_a_closed_port_is_reset() {
    let rst_ack = Flags::RST | Flags::ACK;
    for (src, dst, _) in families() {
        let mut bench = Bench::new(1);
        for (flags, payload, expected) in [
            // Without an acknowledgment what is acknowledged is all that came, across the end of the numbers.
            (Flags::SYN, 0, (rst_ack, 0, u32::MAX)),
            (Flags::SYN | Flags::FIN, 0, (rst_ack, 0, 0)),
            (Flags::FIN, 10, (rst_ack, 0, 9)),
            (Flags::NONE, 0, (rst_ack, 0, u32::MAX - 1)),
            // With one, the reset stands where it says.
            (Flags::ACK, 10, (Flags::RST, 5000, 0)),
            (Flags::SYN | Flags::ACK, 0, (Flags::RST, 5000, 0)),
        ] {
            bench.inject(1, frame(1, &tcp(src, dst, &segment(flags), &vec![1; payload])));
            bench.run();
            let (flags, seq, ack) = expected;
            assert_eq!(reset(&mut bench), Some((flags, seq, ack, (80, 4000))));
        }
        assert_eq!(bench.counted(Count::TcpResetsSent), 6);
        assert_eq!(bench.dropped(DropReason::NoPort), 6);
    }
}

#[test]
fn a_reset_is_not_answered() {
    for (src, dst, _) in families() {
        let mut bench = Bench::new(1);
        for flags in [Flags::RST, Flags::RST | Flags::ACK, Flags::RST | Flags::SYN] {
            bench.inject(1, frame(1, &tcp(src, dst, &segment(flags), b"")));
        }
        bench.run();
        assert_eq!((reset(&mut bench), bench.dropped(DropReason::NoPort)), (None, 3));
    }
}

#[test]
fn a_segment_to_many_is_not_answered() {
    let all = core::net::Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let to = [
        (addr4(1, 9).into(), IpAddr::from(addr4(1, 255)), Mac::BROADCAST, 0x0800),
        (addr4(1, 9).into(), core::net::Ipv4Addr::BROADCAST.into(), Mac::BROADCAST, 0x0800),
        (addr4(1, 9).into(), core::net::Ipv4Addr::new(224, 0, 0, 1).into(), mac(1), 0x0800),
        (addr6(1, 9).into(), all.into(), Mac([0x33, 0x33, 0, 0, 0, 1]), 0x86dd),
    ];
    for (src, dst, link, ethertype) in to {
        let mut bench = Bench::new(1);
        let packet = tcp(src, dst, &segment(Flags::SYN), b"");
        bench.inject(1, ether(link, Mac([6, 0, 0, 0, 0, 9]), ethertype, &packet));
        bench.run();
        assert_eq!((reset(&mut bench), bench.dropped(DropReason::NoPort)), (None, 1), "{dst}");
    }
}

#[test]
fn a_broken_segment_is_not_answered() {
    for (src, dst, at) in families() {
        let mut bench = Bench::new(1);
        let good = tcp(src, dst, &segment(Flags::SYN), b"wander");
        let mut broken = good.clone();
        broken[at + 22] ^= 1;
        bench.inject(1, frame(1, &broken));
        for offset in [0x00, 0x40, 0xf0] {
            let mut malformed = good.clone();
            malformed[at + 12] = offset;
            bench.inject(1, frame(1, &malformed));
        }
        bench.inject(1, frame(1, &ip(src, dst, Protocol::TCP, 64, &[0; 19])));
        bench.run();
        assert_eq!(reset(&mut bench), None);
        assert_eq!(bench.dropped(DropReason::TcpBadChecksum), 1);
        assert_eq!(bench.dropped(DropReason::TcpMalformed), 4);
    }
}

#[test]
fn a_scan_is_answered_no_faster_than_the_limit() {
    for (src, dst, _) in families() {
        let mut bench = Bench::new(1);
        bench.inject(1, frame(1, &tcp(src, dst, &segment(Flags::SYN), b"")));
        bench.run();
        for _ in 0..3000 {
            bench.inject(1, frame(1, &tcp(src, dst, &segment(Flags::SYN), b"")));
        }
        bench.run();
        let sent = bench.sent(1).len();
        assert!((50..=100).contains(&sent), "{sent}");
        assert_eq!(bench.counted(Count::TcpResetsLimited), 3001 - sent as u64);
    }
}
