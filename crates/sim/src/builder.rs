//! Packets made by hand.

use core::net::IpAddr;

use pkt::Gso;
use wire::ether::{self, EtherType, Mac};
use wire::ip6_ext::Fragment;
use wire::protocol::Protocol;
use wire::{checksum, icmp4, icmp6, ip4, ip6, tcp, udp};

use crate::frame::{Frame, Partial};

/// Payload bytes of each segment of a [`super_frame`].
pub const SEGMENT_LEN: u16 = 1400;

/// The fields of an IP header that tests choose.
#[derive(Clone, Copy, Debug)]
pub struct Ip {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Must not be fragmented (IPv4).
    pub dont_fragment: bool,
    /// Identification (IPv4, and fragments of IPv6).
    pub id: u16,
    /// The two bits of explicit congestion notification.
    pub ecn: u8,
}

impl Ip {
    /// An ordinary header between two addresses of one family.
    #[must_use]
    pub const fn new(src: IpAddr, dst: IpAddr) -> Self {
        Self { src, dst, ttl: 64, dont_fragment: true, id: 0, ecn: 0 }
    }

    /// With this time to live.
    #[must_use]
    pub const fn ttl(self, ttl: u8) -> Self {
        Self { ttl, ..self }
    }

    /// May be fragmented on the way; `id` names the datagram.
    #[must_use]
    pub const fn may_fragment(self, id: u16) -> Self {
        Self { dont_fragment: false, id, ..self }
    }
}

/// A packet with this payload. Addresses of two families, or too long a payload, make an empty one.
#[must_use]
pub fn packet(ip: Ip, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let Ok(payload_len) = u16::try_from(payload.len()) else { return Vec::new() };
    let mut bytes = vec![0; ip4::HEADER_LEN.max(ip6::HEADER_LEN)];
    let len = match (ip.src, ip.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let (ttl, dont_fragment, id) = (ip.ttl, ip.dont_fragment, ip.id);
            let header = ip4::Header::new(src, dst, protocol, payload_len);
            ip4::Header { ttl, dont_fragment, id, tos: ip.ecn, ..header }.emit(&mut bytes).unwrap_or(0)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = ip6::Header::new(src, dst, protocol, payload_len);
            ip6::Header { hop_limit: ip.ttl, traffic_class: ip.ecn, ..header }.emit(&mut bytes).unwrap_or(0)
        }
        _ => return Vec::new(),
    };
    bytes.truncate(len);
    bytes.extend_from_slice(payload);
    bytes
}

/// A UDP datagram.
#[must_use]
pub fn udp(ip: Ip, ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(udp::HEADER_LEN + payload.len()).unwrap_or(u16::MAX);
    let header = udp::Header { src_port: ports[0], dst_port: ports[1], len, checksum: 0 };
    let header = match (ip.src, ip.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => header.with_checksum_v4(src, dst, payload),
        (IpAddr::V6(src), IpAddr::V6(dst)) => header.with_checksum_v6(src, dst, payload),
        _ => header,
    };
    packet(ip, Protocol::UDP, &[&header.to_bytes(), payload].concat())
}

/// A TCP segment.
#[must_use]
pub fn tcp(ip: Ip, header: &tcp::Header, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; tcp::HEADER_MAX];
    let len = match (ip.src, ip.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => header.emit_v4(src, dst, payload, &mut segment),
        (IpAddr::V6(src), IpAddr::V6(dst)) => header.emit_v6(src, dst, payload, &mut segment),
        _ => return Vec::new(),
    };
    segment.truncate(len.unwrap_or(0));
    segment.extend_from_slice(payload);
    packet(ip, Protocol::TCP, &segment)
}

/// An echo request, or its reply.
#[must_use]
pub fn echo(ip: Ip, is_reply: bool, [id, seq]: [u16; 2], payload: &[u8]) -> Vec<u8> {
    match (ip.src, ip.dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            use icmp6::Message::{EchoReply, EchoRequest};
            let message = if is_reply { EchoReply { id, seq } } else { EchoRequest { id, seq } };
            let header = message.to_bytes(src, dst, payload);
            packet(ip, Protocol::ICMP6, &[&header, payload].concat())
        }
        _ => {
            use icmp4::Message::{EchoReply, EchoRequest};
            let message = if is_reply { EchoReply { id, seq } } else { EchoRequest { id, seq } };
            packet(ip, Protocol::ICMP, &[&message.to_bytes(payload), payload].concat())
        }
    }
}

/// Cuts a packet to fragments whose packets are at most `mtu` bytes long; a packet that fits stays as it is.
#[must_use]
pub fn fragments(packet: &[u8], mtu: usize, id: u32) -> Vec<Vec<u8>> {
    match packet.first().map(|first| first >> 4) {
        _ if packet.len() <= mtu => vec![packet.to_vec()],
        Some(4) => fragments4(packet, mtu),
        _ => fragments6(packet, mtu, id),
    }
}

fn fragments4(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let Ok(header) = ip4::Header::parse(packet) else { return Vec::new() };
    let payload = &packet[header.header_len()..];
    let step = (mtu - header.header_len()) & !7;
    let cut = |(at, part): (usize, &[u8])| {
        let header = ip4::Header {
            payload_len: u16::try_from(part.len()).unwrap_or(0),
            fragment_offset: u16::try_from(at * step).unwrap_or(0),
            more_fragments: at * step + part.len() < payload.len(),
            dont_fragment: false,
            ..header
        };
        let mut bytes = vec![0; header.header_len()];
        header.emit(&mut bytes).unwrap_or(0);
        bytes.extend_from_slice(part);
        bytes
    };
    payload.chunks(step).enumerate().map(cut).collect()
}

fn fragments6(packet: &[u8], mtu: usize, id: u32) -> Vec<Vec<u8>> {
    let Ok(header) = ip6::Header::parse(packet) else { return Vec::new() };
    let payload = &packet[ip6::HEADER_LEN..];
    let step = (mtu - ip6::HEADER_LEN - Fragment::LEN) & !7;
    let cut = |(at, part): (usize, &[u8])| {
        let fragment = Fragment {
            next_header: header.next_header,
            offset: u16::try_from(at * step).unwrap_or(0),
            more: at * step + part.len() < payload.len(),
            id,
        };
        let payload_len = u16::try_from(Fragment::LEN + part.len()).unwrap_or(0);
        let header = ip6::Header { payload_len, next_header: Protocol::FRAGMENT, ..header };
        [&header.to_bytes()[..], &fragment.to_bytes(), part].concat()
    };
    payload.chunks(step).enumerate().map(cut).collect()
}

/// A TCP or UDP super-packet between two ports, with its checksum still partial: a frame as a virtual machine sends it.
#[must_use]
pub fn super_frame(macs: [Mac; 2], ip: Ip, protocol: Protocol, ports: [u16; 2], payload: &[u8]) -> Frame {
    let is_tcp = protocol == Protocol::TCP;
    let mut header = vec![0; if is_tcp { tcp::HEADER_LEN } else { udp::HEADER_LEN }];
    header[..2].copy_from_slice(&ports[0].to_be_bytes());
    header[2..4].copy_from_slice(&ports[1].to_be_bytes());
    let len = u16::try_from(header.len() + payload.len()).unwrap_or(u16::MAX);
    let offset = if is_tcp { tcp::CHECKSUM_OFFSET } else { 6 };
    if is_tcp {
        (header[12], header[13]) = (5 << 4, tcp::Flags::ACK.0);
    } else {
        header[4..6].copy_from_slice(&len.to_be_bytes());
    }
    let (pseudo, ip_len, gso, ethertype) = match (ip.src, ip.dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let pseudo = checksum::partial_v6(src, dst, protocol, len.into());
            (pseudo, ip6::HEADER_LEN, Gso::Tcp6, EtherType::IPV6)
        }
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            (checksum::partial_v4(src, dst, protocol, len), ip4::HEADER_LEN, Gso::Tcp4, EtherType::IPV4)
        }
        _ => return Frame::default(),
    };
    header[offset..offset + 2].copy_from_slice(&pseudo.to_be_bytes());
    let frame =
        Frame::around(macs[0], macs[1], ethertype, &packet(ip, protocol, &[&header, payload].concat()));
    let start = u16::try_from(ether::HEADER_LEN + ip_len).unwrap_or(0);
    let partial = Partial { start, offset: u8::try_from(offset).unwrap_or(0) };
    Frame { partial: Some(partial), gso: if is_tcp { gso } else { Gso::Udp }, gso_size: SEGMENT_LEN, ..frame }
}
