//! Frames that are nearly right: every kind that the stack reads, with something changed.

use core::net::{IpAddr, Ipv6Addr};

use wire::EtherType;
use wire::arp;
use wire::ether::Mac;
use wire::icmp6::kind;
use wire::ip6_ext::Fragment;
use wire::protocol::Protocol;
use wire::{ip6, tcp};

use crate::builder::{self, Ip};
use crate::frame::Frame;
use crate::plan::Family;
use crate::random::Random;
use crate::station::nd_packet;

/// A source of broken frames.
pub struct Mutator {
    random: Random,
    corpus: Vec<Frame>,
}

/// Values at which programs go wrong.
const EDGES: [u8; 9] = [0, 1, 4, 5, 0x3f, 0x40, 0x7f, 0x80, 0xff];
/// Bytes of the longest frame that is sent.
const FRAME_MAX: usize = 1514;

impl Mutator {
    /// Broken frames from host `src` of network `net` to its host 1, and beyond it to host 2 of network `net + 1`.
    #[must_use]
    pub fn new(random: Random, net: u8, src: u8, macs: [Mac; 2]) -> Self {
        let mut corpus = Vec::new();
        for family in Family::BOTH {
            for to in [family.addr(net, 1), family.addr(net + 1, 2)] {
                let ip = Ip::new(family.addr(net, src), to);
                corpus.extend(packets(ip).iter().flat_map(|packet| frames(packet, macs)));
            }
        }
        corpus.extend(arps(net, src, macs));
        Self { random, corpus }
    }

    /// The next one; one in eight is intact.
    pub fn next_frame(&mut self) -> Frame {
        let mut frame = self.corpus[self.random.below(self.corpus.len())].clone();
        for _ in 0..self.random.below(8).min(4) {
            self.change(&mut frame.bytes);
        }
        frame.bytes.truncate(FRAME_MAX);
        frame
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        // Most of the headers are in front, and Ethernet's own fields hide what is behind.
        let front = if self.random.below(4) == 0 { bytes.len() } else { bytes.len().min(90) };
        let at = self.random.between(12.min(front), front.max(12)).min(bytes.len().saturating_sub(1));
        match self.random.below(7) {
            0 => bytes.truncate(at),
            1 => bytes.extend((0..at).map(|_| 0xa5)),
            2 => self.splice(bytes, at),
            3 => drop(bytes.drain(at..(at + 4).min(bytes.len()))),
            4 | 5 => set(bytes, at, self.random.byte()),
            _ => set(bytes, at, EDGES[self.random.below(EDGES.len())]),
        }
        self.mend(bytes);
    }

    /// Puts the rest of another frame behind the front of this one.
    fn splice(&mut self, bytes: &mut Vec<u8>, at: usize) {
        bytes.truncate(at);
        let other = &self.corpus[self.random.below(self.corpus.len())];
        bytes.extend_from_slice(other.bytes.get(at..).unwrap_or_default());
    }

    /// Mends the IPv4 header's checksum half of the time, so that what is behind it is reached.
    fn mend(&mut self, bytes: &mut [u8]) {
        let is_v4 = bytes.get(12..14) == Some(&[8, 0]);
        let Some(header_len) = bytes.get(14).map(|first| usize::from(first & 15) * 4) else { return };
        if !is_v4 || self.random.below(2) == 0 {
            return;
        }
        if let Some(header) = bytes.get_mut(14..14 + header_len)
            && let Some(field) = header.get_mut(10..12)
        {
            field.fill(0);
            let sum = wire::checksum::Sum::new().bytes(header).checksum();
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

fn set(bytes: &mut [u8], at: usize, value: u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = value;
    }
}

/// Packets of all kinds between two addresses.
fn packets(ip: Ip) -> Vec<Vec<u8>> {
    let payload: Vec<u8> = (0..64).collect();
    let small = ip.may_fragment(99);
    let udp = builder::udp(ip, [5, 53], &payload);
    let long = builder::udp(small, [5, 53], &[7; 3000]);
    let mut list = vec![
        udp.clone(),
        builder::udp(ip.ttl(1), [5, 53], &payload),
        builder::echo(ip, false, [1, 1], &payload),
        builder::echo(ip, true, [1, 1], &payload),
        syn(ip),
        builder::packet(ip, Protocol(253), &payload),
    ];
    list.extend(builder::fragments(&long, 1280, 99));
    match (ip.src, ip.dst) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => list.extend(packets6(src, dst, &udp)),
        _ => list.extend(options4(&udp)),
    }
    list
}

fn syn(ip: Ip) -> Vec<u8> {
    let mut segment = [0; tcp::HEADER_LEN];
    segment[..4].copy_from_slice(&[0x13, 0x88, 0, 80]);
    (segment[12], segment[13]) = (5 << 4, tcp::Flags::SYN.0);
    let len = u16::try_from(tcp::HEADER_LEN).unwrap_or(0);
    let pseudo = match (ip.src, ip.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => wire::checksum::Sum::pseudo_v4(src, dst, Protocol::TCP, len),
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            wire::checksum::Sum::pseudo_v6(src, dst, Protocol::TCP, len.into())
        }
        _ => wire::checksum::Sum::new(),
    };
    let sum = pseudo.bytes(&segment).checksum();
    segment[tcp::CHECKSUM_OFFSET..tcp::CHECKSUM_OFFSET + 2].copy_from_slice(&sum.to_be_bytes());
    builder::packet(ip, Protocol::TCP, &segment)
}

/// A packet with a record route, a time stamp and a source route.
fn options4(packet: &[u8]) -> Vec<Vec<u8>> {
    let with = |options: &[u8]| {
        let mut bytes = [&packet[..20], options, &packet[20..]].concat();
        bytes[0] = 0x45 + u8::try_from(options.len() / 4).unwrap_or(0);
        let len = u16::try_from(bytes.len()).unwrap_or(0);
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        bytes
    };
    vec![
        with(&[7, 7, 4, 0, 0, 0, 0, 0]),
        with(&[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        with(&[131, 7, 4, 10, 0, 1, 1, 0]),
        with(&[148, 4, 0, 0]),
    ]
}

/// Packets with extension headers, and neighbour discovery.
fn packets6(src: Ipv6Addr, dst: Ipv6Addr, udp: &[u8]) -> Vec<Vec<u8>> {
    let with = |next: Protocol, header: &[u8]| {
        let mut bytes = [&udp[..ip6::HEADER_LEN], header, &udp[ip6::HEADER_LEN..]].concat();
        bytes[6] = next.0;
        let len = u16::try_from(bytes.len() - ip6::HEADER_LEN).unwrap_or(0);
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
        bytes
    };
    let udp_next = Protocol::UDP.0;
    let atomic = Fragment { next_header: Protocol::UDP, offset: 0, more: false, id: 5 };
    let routing = [&[udp_next, 2, 0, 1, 0, 0, 0, 0][..], &dst.octets()].concat();
    let chain = [Protocol::DESTINATION_OPTIONS.0, 0, 5, 2, 0, 0, 1, 0, udp_next, 0, 1, 4, 0, 0, 0, 0];
    let mut list = vec![
        with(Protocol::HOP_BY_HOP, &[udp_next, 0, 5, 2, 0, 0, 1, 0]),
        with(Protocol::HOP_BY_HOP, &[udp_next, 0, 0xc7, 4, 0, 0, 0, 0]),
        with(Protocol::HOP_BY_HOP, &chain),
        with(Protocol::DESTINATION_OPTIONS, &[udp_next, 0, 1, 4, 0, 0, 0, 0]),
        with(Protocol::ROUTING, &routing),
        with(Protocol::FRAGMENT, &atomic.to_bytes()),
        with(Protocol::NO_NEXT, &[]),
    ];
    let mac = Mac([2, 9, 9, 9, 9, 9]);
    for message in kind::ROUTER_SOLICIT..=kind::REDIRECT {
        list.push(nd_packet(src, dst, [message, 0x60], dst, (1 + message % 2, mac)));
        let group = wire::addr::solicited_node_multicast(dst);
        list.push(nd_packet(Ipv6Addr::UNSPECIFIED, group, [message, 0], dst, (1, mac)));
    }
    list
}

/// A packet to the router, to everybody, and in an 802.1Q tag.
fn frames(packet: &[u8], [src, dst]: [Mac; 2]) -> Vec<Frame> {
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let ethertype = if is_v4 { EtherType::IPV4 } else { EtherType::IPV6 };
    let tagged = [&[0, 0][..], &ethertype.0.to_be_bytes(), packet].concat();
    vec![
        Frame::around(src, dst, ethertype, packet),
        Frame::around(src, Mac::BROADCAST, ethertype, packet),
        Frame::around(src, dst, EtherType::VLAN, &tagged),
    ]
}

fn arps(net: u8, src: u8, [mac, router]: [Mac; 2]) -> Vec<Frame> {
    let addr = |host| match Family::V4.addr(net, host) {
        IpAddr::V4(addr) => addr,
        IpAddr::V6(_) => core::net::Ipv4Addr::UNSPECIFIED,
    };
    let request = arp::Packet::request(mac, addr(src), addr(1));
    let probe = arp::Packet::request(mac, core::net::Ipv4Addr::UNSPECIFIED, addr(1));
    let reply = arp::Packet::request(router, addr(1), addr(src)).reply(mac);
    [request, probe, reply]
        .iter()
        .flat_map(|packet| {
            let bytes = packet.to_bytes();
            [router, Mac::BROADCAST].map(|to| Frame::around(mac, to, EtherType::ARP, &bytes))
        })
        .collect()
}
