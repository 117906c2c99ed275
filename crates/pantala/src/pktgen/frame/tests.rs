use core::net::IpAddr;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};

use super::*;
use crate::pktgen::flows::{Pick, Ranges};
use crate::pktgen::grammar::{Addrs, Ports};

fn headers(is_v4: bool, transport: Transport) -> Headers {
    let (src_mac, dst_mac) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
    Headers { is_v4, transport, src_mac, dst_mac, ttl: 61, tos: 0xb8 }
}

fn flows(is_v4: bool, count: u32) -> Vec<Flow> {
    let (src, dst) = if is_v4 { ("192.0.2.0/24", "0.0.0.0/0") } else { ("2001:db8::/64", "::/0") };
    let ports = Ports { first: 0, last: u16::MAX };
    let ranges = Ranges {
        src: Addrs::parse(src).unwrap(),
        dst: Addrs::parse(dst).unwrap(),
        sport: ports,
        dport: ports,
    };
    ranges.flows(count, Pick::Random, 3)
}

/// Checks a frame with etherparse, which shares no line with us.
fn check(frame: &[u8], flow: &Flow, probe: Option<Probe>) {
    let packet = SlicedPacket::from_ethernet(frame).unwrap();
    let (src, dst): (IpAddr, IpAddr) = match packet.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert_eq!(usize::from(header.total_len), frame.len() - 14);
            assert!(header.dont_fragment);
            assert_eq!(
                (header.time_to_live, ip.header().dcp().value() << 2 | ip.header().ecn().value()),
                (61, 0xb8)
            );
            (header.source.into(), header.destination.into())
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header().to_header();
            assert_eq!(usize::from(header.payload_length), frame.len() - 54);
            assert_eq!((header.hop_limit, header.traffic_class), (61, 0xb8));
            (header.source.into(), header.destination.into())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!((super::super::flows::octets(src), super::super::flows::octets(dst)), (flow.src, flow.dst));
    let pseudo =
        |ports: [u16; 2]| assert_eq!([ports[0].to_be_bytes(), ports[1].to_be_bytes()].concat(), flow.ports);
    let payload = match packet.transport.as_ref().unwrap() {
        TransportSlice::Udp(udp) => {
            let (header, payload) = (udp.to_header(), udp.payload());
            pseudo([header.source_port, header.destination_port]);
            let right = match packet.net.as_ref().unwrap() {
                NetSlice::Ipv4(ip) => header.calc_checksum_ipv4(&ip.header().to_header(), payload).unwrap(),
                NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), payload).unwrap(),
                other => panic!("{other:?}"),
            };
            assert_eq!(header.checksum, right);
            payload
        }
        TransportSlice::Tcp(tcp) => {
            let (header, payload) = (tcp.to_header(), tcp.payload());
            pseudo([header.source_port, header.destination_port]);
            assert!(header.syn && header.ack && !header.fin);
            let right = match packet.net.as_ref().unwrap() {
                NetSlice::Ipv4(ip) => header.calc_checksum_ipv4(&ip.header().to_header(), payload).unwrap(),
                NetSlice::Ipv6(ip) => header.calc_checksum_ipv6(&ip.header().to_header(), payload).unwrap(),
                other => panic!("{other:?}"),
            };
            assert_eq!(header.checksum, right);
            payload
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(Probe::parse(payload), probe);
    assert!(payload.iter().skip(payload::LEN).all(|byte| *byte == 0));
}

#[test]
fn frames_are_right_in_the_eyes_of_another_parser_for_both_families_and_protocols_at_all_sizes() {
    for is_v4 in [true, false] {
        for transport in [Transport::Udp, Transport::Tcp(tcp::Flags(tcp::Flags::SYN.0 | tcp::Flags::ACK.0))] {
            let headers = headers(is_v4, transport);
            let template = Template::new(&headers, 0xbeef);
            let flows = flows(is_v4, 64);
            let least = Headers::size_min(is_v4, transport);
            for size in least..=SIZE_MAX {
                let number = u32::from(size) % 64;
                let flow = &flows[number as usize];
                let mut frame = vec![0xa5; usize::from(size - FCS_LEN)];
                let (seq, stamp) = (u32::from(size) * 70_001, u64::from(size) << 33);
                let measured = template.write(flow, number, seq, stamp, &mut frame);
                assert_eq!(measured, size >= Headers::size_measured(is_v4, transport));
                let probe = Probe { session: 0xbeef, flow: number, seq, stamp: stamp & 0xffff_ffff_ffff };
                check(&frame, flow, measured.then_some(probe));
                assert_eq!(payload::look(&frame) == payload::Seen::Probe(probe), measured);
            }
        }
    }
}

#[test]
fn a_udp_checksum_is_never_zero() {
    // Among many frames some would have it by chance: one in 65536.
    let template = Template::new(&headers(true, Transport::Udp), 1);
    let flow = flows(true, 1)[0];
    let mut frame = [0; 60];
    let mut ones = 0;
    for seq in 0..300_000 {
        template.write(&flow, 0, seq, 0, &mut frame);
        assert_ne!(frame[40..42], [0, 0]);
        ones += u32::from(frame[40..42] == [0xff, 0xff]);
    }
    assert!(ones > 0, "the case was met");
}

#[test]
fn the_smallest_frames_are_those_of_the_headers() {
    let tcp = Transport::Tcp(tcp::Flags::SYN);
    let both =
        |is_v4, transport| (Headers::size_min(is_v4, transport), Headers::size_measured(is_v4, transport));
    assert_eq!(both(true, Transport::Udp), (64, 64));
    assert_eq!(both(true, tcp), (64, 76));
    assert_eq!(both(false, Transport::Udp), (66, 84));
    assert_eq!(both(false, tcp), (78, 96));
}
