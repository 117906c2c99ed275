use core::net::IpAddr;

use ::wire::tcp::{self, Flags};
use ipfw::rule::Hook;
use pkt::Pkt;

use super::*;
use crate::testkit::{Bench, addr4, addr6, build};

/// Reads a packet as it came in by interface 1.
fn read(bench: &mut Bench, bytes: &[u8]) -> Result<PktInfo, Malformed> {
    let mut pkt: Pkt = bench.cpu().pool.take().unwrap();
    pkt.buffer_mut().fill(0xa5);
    pkt.append(bytes.len()).unwrap().copy_from_slice(bytes);
    let info = PktInfo::read(&pkt, Hook::Ingress, 1, 0);
    bench.cpu().pool.give(pkt);
    info
}

fn pairs() -> [(IpAddr, IpAddr); 2] {
    [(addr4(1, 2).into(), addr4(2, 3).into()), (addr6(1, 2).into(), addr6(2, 3).into())]
}

fn segment(src: IpAddr, dst: IpAddr) -> Vec<u8> {
    let options = tcp::Options::NONE;
    let (src_port, dst_port, flags) = (4000, 80, Flags::SYN);
    let header = tcp::Header { src_port, dst_port, seq: 1, ack: 0, flags, window: 9, urgent: 0, options };
    build::tcp(src, dst, &header, &[7; 20])
}

/// A packet of `src` with a part of `payload`: from `offset`, with or without more to follow.
fn fragment(src: IpAddr, dst: IpAddr, proto: Protocol, offset: u16, more: bool, payload: &[u8]) -> Vec<u8> {
    if src.is_ipv4() {
        let mut packet = build::ip(src, dst, proto, 64, payload);
        let word = (offset / 8) | if more { 0x2000 } else { 0 };
        packet[6..8].copy_from_slice(&word.to_be_bytes());
        build::fix_ip4_checksum(&mut packet);
        return packet;
    }
    let header = ::wire::ip6_ext::Fragment { next_header: proto, offset, more, id: 9 };
    build::ip(src, dst, Protocol::FRAGMENT, 64, &[&header.to_bytes(), payload].concat())
}

#[test]
fn a_segment_is_read_with_addresses_ports_and_flags() {
    let mut bench = Bench::new(2);
    for (src, dst) in pairs() {
        let info = read(&mut bench, &segment(src, dst)).unwrap();
        assert_eq!((info.src_addr(), info.dst_addr()), (src, dst));
        assert_eq!((info.src_port, info.dst_port, info.tcp_flags), (4000, 80, Flags::SYN.0));
        assert_eq!((info.proto, info.part, info.recv), (Protocol::TCP.0, Part::Whole, 1));
        assert_eq!(usize::from(info.l4), if src.is_ipv4() { 20 } else { 40 });
        assert!(info.has_ports() && info.is_tcp() && !info.is_icmp());
    }
}

#[test]
fn an_echo_request_is_read_with_type_and_code() {
    let mut bench = Bench::new(2);
    for (src, dst) in pairs() {
        let info = read(&mut bench, &build::echo_request(src, dst, 1, 2, &[0; 8])).unwrap();
        let kind = if src.is_ipv4() { 8 } else { 128 };
        assert_eq!((info.src_port, info.dst_port), (kind, 0));
        assert!(info.is_icmp() && !info.has_ports());
    }
}

#[test]
fn a_later_fragment_has_no_ports_and_no_flags() {
    let mut bench = Bench::new(2);
    for (src, dst) in pairs() {
        let packet = fragment(src, dst, Protocol::TCP, 1480, true, &[0xff; 40]);
        let info = read(&mut bench, &packet).unwrap();
        assert_eq!((info.part, info.src_port, info.tcp_flags), (Part::Later, 0, 0));
        assert!(!info.has_ports() && !info.is_tcp());
    }
}

#[test]
fn a_first_fragment_is_asked_about_if_the_transport_header_is_in_it() {
    let mut bench = Bench::new(2);
    for (src, dst) in pairs() {
        let tcp = &segment(src, dst)[if src.is_ipv4() { 20 } else { 40 }..];
        let info = read(&mut bench, &fragment(src, dst, Protocol::TCP, 0, true, &tcp[..24])).unwrap();
        assert_eq!((info.part, info.dst_port), (Part::First, 80));
        let tiny = fragment(src, dst, Protocol::TCP, 0, true, &tcp[..16]);
        assert_eq!(read(&mut bench, &tiny).unwrap_err(), Malformed::ShortTransport);
        let none = fragment(src, dst, Protocol::TCP, 0, true, &[]);
        assert_eq!(read(&mut bench, &none).unwrap_err(), Malformed::ShortTransport);
    }
}

#[test]
fn a_fragment_that_would_overwrite_tcps_flags_is_bogus_and_one_of_udp_is_not() {
    let mut bench = Bench::new(2);
    for (src, dst) in pairs() {
        let tiny = fragment(src, dst, Protocol::TCP, 8, false, &[0; 24]);
        assert_eq!(read(&mut bench, &tiny).unwrap_err(), Malformed::TinyFragment);
        assert!(read(&mut bench, &fragment(src, dst, Protocol::UDP, 8, false, &[0; 24])).is_ok());
    }
}

#[test]
fn a_whole_packet_without_all_of_its_transport_header_is_bogus() {
    let mut bench = Bench::new(2);
    let icmp = |src: IpAddr| if src.is_ipv4() { Protocol::ICMP } else { Protocol::ICMP6 };
    for (src, dst) in pairs() {
        for (proto, enough) in [(Protocol::TCP, 20), (Protocol::UDP, 8), (icmp(src), 4), (Protocol::SCTP, 12)]
        {
            let short = build::ip(src, dst, proto, 64, &vec![0; enough - 1]);
            assert_eq!(read(&mut bench, &short).unwrap_err(), Malformed::ShortTransport, "{proto}");
            assert!(read(&mut bench, &build::ip(src, dst, proto, 64, &vec![0; enough])).is_ok(), "{proto}");
        }
        assert!(read(&mut bench, &build::ip(src, dst, Protocol::GRE, 64, &[])).is_ok());
    }
}

#[test]
fn extension_headers_that_end_before_the_upper_layer_are_bogus() {
    let mut bench = Bench::new(2);
    let (src, dst) = pairs()[1];
    let chain = build::ip(src, dst, Protocol::DESTINATION_OPTIONS, 64, &[6, 4, 1, 4, 0, 0, 0, 0]);
    assert_eq!(read(&mut bench, &chain).unwrap_err(), Malformed::HeaderChain);
}
