//! Packets for tests: one body for both families, the addresses decide.

use core::net::{IpAddr, Ipv6Addr};

use wire::ether::Mac;
use wire::{Protocol, icmp4, icmp6, ip4, ip6, nd, tcp, udp};

use super::{mac, peer_mac};
use crate::link::tables::IfIndex;

/// A frame around a network packet.
pub(crate) fn ether(dst: Mac, src: Mac, ethertype: u16, packet: &[u8]) -> Vec<u8> {
    [&dst.0[..], &src.0, &ethertype.to_be_bytes(), packet].concat()
}

/// A frame with an IP packet from a host on the link of interface `i` to the stack's link address.
pub(crate) fn frame(i: IfIndex, packet: &[u8]) -> Vec<u8> {
    ether(mac(i), Mac([6, 9, 9, 9, 9, 9]), ethertype(packet), packet)
}

/// A frame with an IP packet from the neighbour `from`.
pub(crate) fn frame_from(i: IfIndex, from: IpAddr, packet: &[u8]) -> Vec<u8> {
    ether(mac(i), peer_mac(from), ethertype(packet), packet)
}

fn ethertype(packet: &[u8]) -> u16 {
    if packet.first().is_some_and(|first| first >> 4 == 6) { 0x86dd } else { 0x0800 }
}

/// An IP packet; not to be fragmented on the way, if that can be said.
pub(crate) fn ip(src: IpAddr, dst: IpAddr, protocol: Protocol, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).expect("a payload that fits");
    let mut packet = vec![0; 60];
    let header_len = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            ip4::Header { ttl, ..ip4::Header::new(src, dst, protocol, len) }.emit(&mut packet).unwrap()
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = ip6::Header { hop_limit: ttl, ..ip6::Header::new(src, dst, protocol, len) };
            header.emit(&mut packet).unwrap()
        }
        _ => panic!("addresses of two families"),
    };
    packet.truncate(header_len);
    packet.extend_from_slice(payload);
    packet
}

/// A UDP datagram with its IP header.
pub(crate) fn udp(src: IpAddr, dst: IpAddr, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(udp::HEADER_LEN + payload.len()).expect("a datagram that fits");
    let header = udp::Header { src_port: ports.0, dst_port: ports.1, len, checksum: 0 };
    let header = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => header.with_checksum_v4(src, dst, payload),
        (IpAddr::V6(src), IpAddr::V6(dst)) => header.with_checksum_v6(src, dst, payload),
        _ => panic!("addresses of two families"),
    };
    ip(src, dst, Protocol::UDP, 64, &[&header.to_bytes(), payload].concat())
}

/// A TCP segment with its IP header.
pub(crate) fn tcp(src: IpAddr, dst: IpAddr, header: &tcp::Header, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; 60];
    let len = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => header.emit_v4(src, dst, payload, &mut segment).unwrap(),
        (IpAddr::V6(src), IpAddr::V6(dst)) => header.emit_v6(src, dst, payload, &mut segment).unwrap(),
        _ => panic!("addresses of two families"),
    };
    segment.truncate(len);
    segment.extend_from_slice(payload);
    ip(src, dst, Protocol::TCP, 64, &segment)
}

/// An ICMP or ICMPv6 echo request with its IP header.
pub(crate) fn echo_request(src: IpAddr, dst: IpAddr, id: u16, seq: u16, payload: &[u8]) -> Vec<u8> {
    let (protocol, header) = match (src, dst) {
        (IpAddr::V4(_), IpAddr::V4(_)) => {
            (Protocol::ICMP, icmp4::Message::EchoRequest { id, seq }.to_bytes(payload))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            (Protocol::ICMP6, icmp6::Message::EchoRequest { id, seq }.to_bytes(src, dst, payload))
        }
        _ => panic!("addresses of two families"),
    };
    ip(src, dst, protocol, 64, &[&header, payload].concat())
}

/// A neighbour advertisement with its IPv6 header; to one host it is the answer to a question.
pub(crate) fn neighbour_advert(target: Ipv6Addr, to: Ipv6Addr, mac: Mac) -> Vec<u8> {
    let advert = nd::NeighborAdvert { router: false, solicited: !to.is_multicast(), replace: true, target };
    let mut body = vec![0; 64];
    let options = [nd::Opt::TargetLinkAddr(mac)];
    let len = nd::Message::NeighborAdvert(advert).emit(target, to, options, &mut body).expect("room");
    ip(target.into(), to.into(), Protocol::ICMP6, nd::HOP_LIMIT, &body[..len])
}

/// Makes the checksum of the IPv4 header at the front of `packet` right again.
pub(crate) fn fix_ip4_checksum(packet: &mut [u8]) {
    let len = usize::from(packet[0] & 0xf) * 4;
    packet[10..12].fill(0);
    let sum = wire::checksum::Sum::new().bytes(&packet[..len]).checksum();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The packet with one hop less, as a router forwards it.
pub(crate) fn forwarded(mut packet: Vec<u8>) -> Vec<u8> {
    match packet[0] >> 4 {
        4 => {
            packet[8] -= 1;
            fix_ip4_checksum(&mut packet);
        }
        _ => packet[7] -= 1,
    }
    packet
}
