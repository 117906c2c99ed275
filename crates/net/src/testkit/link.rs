//! Neighbours' messages, in either family: one body for ARP and neighbour discovery.

use core::net::{IpAddr, Ipv6Addr};

use wire::addr::solicited_node_multicast;
use wire::arp::{Operation, Packet};
use wire::ether::{HEADER_LEN, Mac};
use wire::nd::{Envelope, Message, NeighborAdvert, Opt};
use wire::{Protocol, nd};

use super::{Bench, addr4, addr6, build, mac};
use crate::ip::ip6;
use crate::link::tables::IfIndex;

/// IPv4 with ARP, or IPv6 with neighbour discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

pub(crate) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

impl Family {
    /// Host `host` on the link of interface `i`; host 1 is the stack.
    pub(crate) fn addr(self, i: IfIndex, host: u8) -> IpAddr {
        match self {
            Self::V4 => addr4(i, host).into(),
            Self::V6 => addr6(i, host.into()).into(),
        }
    }
}

/// A frame of address resolution from the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A request.
    Asked { to: Mac, source: IpAddr, target: IpAddr },
    /// I have `target`.
    Answered { to: Mac, target: IpAddr, mac: Option<Mac> },
}

/// An ARP packet in its frame, from `from`.
pub(crate) fn arp(from: Mac, to: Mac, packet: &Packet) -> Vec<u8> {
    build::ether(to, from, 0x0806, &packet.to_bytes())
}

/// A neighbour discovery message with its IPv6 header.
pub(crate) fn nd_packet(src: Ipv6Addr, dst: Ipv6Addr, message: &Message, options: &[Opt<'_>]) -> Vec<u8> {
    let mut body = vec![0; 128];
    let len = message.emit(src, dst, options.iter().copied(), &mut body).expect("room");
    build::ip(src.into(), dst.into(), Protocol::ICMP6, nd::HOP_LIMIT, &body[..len])
}

/// Makes a request for `target`, from the neighbour at `source` with link address `from`.
pub(crate) fn question(from: Mac, source: IpAddr, target: IpAddr) -> Vec<u8> {
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            arp(from, Mac::BROADCAST, &Packet::request(from, source, target))
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            let options = [Opt::SourceLinkAddr(from)];
            let options = if source.is_unspecified() { &[][..] } else { &options };
            let group = solicited_node_multicast(target);
            let packet = nd_packet(source, group, &Message::NeighborSolicit { target }, options);
            build::ether(wire::addr::multicast_mac_v6(group).unwrap(), from, 0x86dd, &packet)
        }
        _ => panic!("addresses of two families"),
    }
}

/// Makes a question of reachability for `target`, from the neighbour at `source`, to the link address that it knows.
pub(crate) fn question_to(to: Mac, from: Mac, source: IpAddr, target: IpAddr) -> Vec<u8> {
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => arp(from, to, &Packet::request(from, source, target)),
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            let packet =
                nd_packet(source, target, &Message::NeighborSolicit { target }, &[Opt::SourceLinkAddr(from)]);
            build::ether(to, from, 0x86dd, &packet)
        }
        _ => panic!("addresses of two families"),
    }
}

/// The answer to us on interface `i` that `target` has link address `from`.
pub(crate) fn answer(i: IfIndex, from: Mac, target: IpAddr) -> Vec<u8> {
    match target {
        IpAddr::V4(target) => {
            let (target_mac, target_ip) = (mac(i), addr4(i, 1));
            let reply = Packet {
                operation: Operation::Reply,
                sender_mac: from,
                sender_ip: target,
                target_mac,
                target_ip,
            };
            arp(from, mac(i), &reply)
        }
        IpAddr::V6(target) => {
            let packet = build::neighbour_advert(target, addr6(i, 1), from);
            build::ether(mac(i), from, 0x86dd, &packet)
        }
    }
}

/// Makes an unsolicited announcement of `target`.
pub(crate) fn claim(from: Mac, target: IpAddr) -> Vec<u8> {
    match target {
        IpAddr::V4(addr) => arp(from, Mac::BROADCAST, &Packet::request(from, addr, addr)),
        IpAddr::V6(target) => {
            let advert = NeighborAdvert { router: false, solicited: false, replace: true, target };
            let message = Message::NeighborAdvert(advert);
            let packet = nd_packet(target, wire::addr::ALL_NODES, &message, &[Opt::TargetLinkAddr(from)]);
            build::ether(Mac([0x33, 0x33, 0, 0, 0, 1]), from, 0x86dd, &packet)
        }
    }
}

/// Reads a frame of ARP or neighbour discovery.
pub(crate) fn said(frame: &[u8]) -> Option<Said> {
    let (header, packet) = frame.split_at_checked(HEADER_LEN)?;
    let to = Mac(*header.first_chunk()?);
    match header[12..] {
        [0x08, 0x06] => Packet::parse(packet).ok().map(|arp| said_arp(to, &arp)),
        [0x86, 0xdd] => said_nd(to, packet),
        _ => None,
    }
}

fn said_arp(to: Mac, arp: &Packet) -> Said {
    match arp.operation {
        Operation::Request => Said::Asked { to, source: arp.sender_ip.into(), target: arp.target_ip.into() },
        Operation::Reply => Said::Answered { to, target: arp.sender_ip.into(), mac: Some(arp.sender_mac) },
    }
}

fn said_nd(to: Mac, packet: &[u8]) -> Option<Said> {
    let header =
        wire::ip6::Header::parse(packet).ok().filter(|header| header.next_header == Protocol::ICMP6)?;
    let envelope = Envelope { src: header.src, dst: header.dst, hop_limit: header.hop_limit };
    assert!(wire::icmp6::verify(header.src, header.dst, &packet[40..]), "the checksum is right");
    match Message::parse(&envelope, &packet[40..]).ok()? {
        (Message::NeighborSolicit { target }, _) => {
            Some(Said::Asked { to, source: header.src.into(), target: target.into() })
        }
        (Message::NeighborAdvert(advert), options) => {
            let target = advert.target.into();
            Some(Said::Answered { to, target, mac: options.target_link_addr() })
        }
        _ => None,
    }
}

impl Bench {
    /// Lets interface `i` receive a frame of ARP or neighbour discovery, and the stack do what follows at once.
    ///
    /// Neighbour discovery is brought to its door directly, so that these tests are about nothing else.
    pub(crate) fn hear(&mut self, i: IfIndex, frame: &[u8]) {
        if frame[12..14] == [0x08, 0x06] {
            self.inject(i, frame.to_vec());
        } else {
            let cpu = self.cpu();
            let mut pkt = cpu.pool.take().expect("a buffer");
            pkt.append(frame.len()).expect("room").copy_from_slice(frame);
            pkt.trim_front(HEADER_LEN);
            (pkt.rcvif, pkt.l4, pkt.proto) = (i, 40, Protocol::ICMP6.0);
            ip6::nd::input(cpu, pkt);
        }
        self.run();
    }

    /// Returns requests and replies on interface `i`; other frames are discarded.
    pub(crate) fn said(&mut self, i: IfIndex) -> Vec<Said> {
        self.sent(i).iter().filter_map(|frame| said(frame)).collect()
    }
}
