//! Input of a station.

use core::net::IpAddr;

use pkt::Gso;
use wire::bpdu::{self, Bpdu};
use wire::ip6_ext::Fragment;
use wire::protocol::Protocol;
use wire::{EtherType, icmp4, icmp6, ip4, ip6, tcp, udp};

use super::{Content, IcmpError, Station, builder};
use crate::builder::Ip;
use crate::frame::Frame;
use net::time::Instant;

/// Extension headers that a station looks behind.
const EXTENSIONS_MAX: usize = 8;

/// Where a payload came from.
#[derive(Clone, Copy)]
struct Envelope {
    src: IpAddr,
    dst: IpAddr,
    ttl: u8,
    ecn: u8,
    protocol: Protocol,
}

impl Station {
    /// Takes a frame from the cable. What it answers is sent when it is polled.
    pub fn receive(&mut self, now: Instant, frame: Frame) {
        self.now = now;
        let of_vlan = |frame: Frame, (tpid, tci): &(EtherType, u16)| frame.untagged(*tpid, *tci & 0x0fff);
        let Some(frame) = self.tags.iter().try_fold(frame, of_vlan) else { return };
        let header = frame.header();
        if header.ethertype.is_tag() {
            return;
        }
        if self.mute || (!header.dst.is_multicast() && header.dst != self.mac) {
            return;
        }
        let (gso, gso_size) = (frame.gso, usize::from(frame.gso_size));
        let frame = frame.completed();
        match header.ethertype {
            EtherType::ARP => self.arp(frame.packet()),
            EtherType::IPV4 => self.ip4(frame.packet(), (gso, gso_size)),
            EtherType::IPV6 => self.ip6(frame.packet(), (gso, gso_size), header.src),
            // A station takes no part in a spanning tree, but reads what bridges say.
            len if header.dst == bpdu::GROUP => {
                let unit = frame.packet().get(..usize::from(len.0)).unwrap_or_default();
                if let Err(error) = Bpdu::parse(unit) {
                    self.complain(format!("to the group of bridges: {error}"));
                }
            }
            other => self.complain(format!("a frame of type {:04x}", other.0)),
        }
    }

    fn ip4(&mut self, packet: &[u8], gso: (Gso, usize)) {
        let header = match ip4::Header::parse(packet) {
            Ok(header) => header,
            Err(error) => return self.complain(format!("IPv4: {error}")),
        };
        let dst = header.dst;
        if !self.has(dst.into()) && !dst.is_broadcast() && !dst.is_multicast() {
            return self.complain(format!("IPv4 for {dst}"));
        }
        let (at, len) = (header.header_len(), usize::from(header.payload_len));
        let payload = packet.get(at..at + len).unwrap_or_default();
        let from = Envelope {
            src: header.src.into(),
            dst: dst.into(),
            ttl: header.ttl,
            ecn: header.tos & 3,
            protocol: header.protocol,
        };
        if header.more_fragments || header.fragment_offset > 0 {
            let key = (from.src, from.dst, header.protocol.0, header.id.into());
            let whole = self.gather.add(key, header.fragment_offset.into(), header.more_fragments, payload);
            return whole.into_iter().for_each(|whole| self.upper(from, &whole, gso));
        }
        self.upper(from, payload, gso);
    }

    fn ip6(&mut self, packet: &[u8], gso: (Gso, usize), link_src: wire::Mac) {
        let header = match ip6::Header::parse(packet) {
            Ok(header) => header,
            Err(error) => return self.complain(format!("IPv6: {error}")),
        };
        if !self.has(header.dst.into()) && !header.dst.is_multicast() {
            return self.complain(format!("IPv6 for {}", header.dst));
        }
        let end = ip6::HEADER_LEN + usize::from(header.payload_len);
        let mut payload = packet.get(ip6::HEADER_LEN..end).unwrap_or_default().to_vec();
        let mut from = Envelope {
            src: header.src.into(),
            dst: header.dst.into(),
            ttl: header.hop_limit,
            ecn: header.traffic_class & 3,
            protocol: header.next_header,
        };
        for _ in 0..EXTENSIONS_MAX {
            match self.behind(&mut from, &payload) {
                Behind::Extension(rest) => payload = rest,
                Behind::Nothing => return,
                Behind::Upper => break,
            }
        }
        if from.protocol == Protocol::ICMP6 && is_nd(&payload) {
            let intact = icmp6::verify(header.src, header.dst, &payload);
            if header.hop_limit != wire::nd::HOP_LIMIT || !intact {
                return self.complain("neighbour discovery with a bad hop limit or checksum");
            }
            return self.nd(header.src, &payload, link_src);
        }
        self.upper(from, &payload, gso);
    }

    /// Looks behind one extension header.
    fn behind(&mut self, from: &mut Envelope, payload: &[u8]) -> Behind {
        match from.protocol {
            Protocol::FRAGMENT => {
                let Some((head, data)) = payload.split_first_chunk() else { return Behind::Nothing };
                let fragment = Fragment::from_bytes(head);
                let key = (from.src, from.dst, 0, fragment.id);
                from.protocol = fragment.next_header;
                let whole = self.gather.add(key, fragment.offset.into(), fragment.more, data);
                whole.map_or(Behind::Nothing, Behind::Extension)
            }
            Protocol::HOP_BY_HOP | Protocol::DESTINATION_OPTIONS | Protocol::ROUTING => {
                let &[next, units, ..] = payload else { return Behind::Nothing };
                from.protocol = Protocol(next);
                let rest = payload.get((usize::from(units) + 1) * 8..);
                rest.map_or(Behind::Nothing, |rest| Behind::Extension(rest.to_vec()))
            }
            _ => Behind::Upper,
        }
    }

    fn upper(&mut self, from: Envelope, payload: &[u8], gso: (Gso, usize)) {
        match from.protocol {
            Protocol::UDP => self.udp(from, payload, gso),
            Protocol::ICMP | Protocol::ICMP6 => self.icmp(from, payload),
            Protocol::TCP => self.tcp(from, payload),
            other => self.hear(from.src, from.dst, from.ttl, Content::Other(other.0)),
        }
    }

    fn udp(&mut self, from: Envelope, datagram: &[u8], (gso, gso_size): (Gso, usize)) {
        let Ok(header) = udp::Header::parse(datagram) else { return self.complain("malformed UDP") };
        let whole = datagram.get(..usize::from(header.len)).unwrap_or(datagram);
        let intact = match (from.src, from.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => udp::verify_v4(src, dst, whole),
            (IpAddr::V6(src), IpAddr::V6(dst)) => udp::verify_v6(src, dst, whole),
            _ => false,
        };
        if gso == Gso::None && !intact {
            return self.complain(format!("UDP checksum from {}", from.src));
        }
        let payload = whole.get(udp::HEADER_LEN..).unwrap_or_default();
        let step = if gso == Gso::None { payload.len() } else { gso_size };
        let ports = [header.src_port, header.dst_port];
        let mut is_flow = true;
        for part in payload.chunks(step.max(1)) {
            is_flow &= self.is_of_flow((from.src, ports), part, from.ecn);
        }
        if !is_flow || payload.is_empty() {
            self.hear(from.src, from.dst, from.ttl, Content::Udp { ports, len: payload.len() });
        }
    }

    fn tcp(&mut self, from: Envelope, segment: &[u8]) {
        let Ok(view) = tcp::View::new(segment) else { return self.complain("malformed TCP") };
        let intact = match (from.src, from.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => view.verify_v4(src, dst),
            (IpAddr::V6(src), IpAddr::V6(dst)) => view.verify_v6(src, dst),
            _ => false,
        };
        if !intact {
            return self.complain(format!("TCP checksum from {}", from.src));
        }
        let (ports, numbers) = ([view.src_port(), view.dst_port()], [view.seq(), view.ack()]);
        let (flags, window, len) = (view.flags().0, view.window(), view.payload().len());
        self.hear(from.src, from.dst, from.ttl, Content::Tcp { ports, flags, len, numbers, window });
    }

    fn icmp(&mut self, from: Envelope, message: &[u8]) {
        let what = match (from.src, from.dst) {
            (IpAddr::V4(_), _) => understand4(message),
            (IpAddr::V6(src), IpAddr::V6(dst)) => understand6(src, dst, message),
            _ => None,
        };
        let Some(what) = what else {
            return self.complain(format!("ICMP from {} is malformed or corrupt", from.src));
        };
        if let Content::EchoRequest { id, seq, .. } = what
            && !from.dst.is_multicast()
        {
            let ip = Ip { id: self.next_id, dont_fragment: false, ..Ip::new(from.dst, from.src) };
            self.send(builder::echo(ip, true, [id, seq], message.get(8..).unwrap_or_default()));
        }
        self.hear(from.src, from.dst, from.ttl, what);
    }
}

enum Behind {
    /// Bytes behind the header.
    Extension(Vec<u8>),
    /// Nothing, or not yet.
    Nothing,
    /// It was none.
    Upper,
}

fn is_nd(message: &[u8]) -> bool {
    message.first().is_some_and(|kind| (133..=137).contains(kind))
}

fn understand4(bytes: &[u8]) -> Option<Content> {
    use icmp4::Message;
    let (message, payload) = Message::parse(bytes).ok()?;
    let len = payload.len();
    let error = match message {
        Message::EchoReply { id, seq } => return Some(Content::EchoReply { id, seq, len }),
        Message::EchoRequest { id, seq } => return Some(Content::EchoRequest { id, seq, len }),
        Message::TimeExceeded { code: icmp4::time_exceeded::IN_TRANSIT } => IcmpError::TimeExceeded,
        Message::TimeExceeded { .. } => IcmpError::ReassemblyTime,
        Message::Unreachable { code, mtu } => unreachable4(code, mtu),
        other => IcmpError::Other(other.kind(), other.code()),
    };
    let quoted = ip4::View::new_quoted(payload).ok()?;
    let ports = ports(quoted.payload());
    Some(Content::Error { error, about: quoted.dst().into(), ports })
}

fn unreachable4(code: u8, mtu: u16) -> IcmpError {
    use icmp4::unreachable as is;
    match code {
        is::NET => IcmpError::NoRoute,
        is::HOST => IcmpError::Host,
        is::PROTOCOL => IcmpError::Protocol,
        is::PORT => IcmpError::Port,
        is::FRAGMENTATION_NEEDED => IcmpError::TooBig(mtu.into()),
        is::NET_PROHIBITED | is::HOST_PROHIBITED | is::ADMIN_PROHIBITED => IcmpError::Prohibited,
        other => IcmpError::Other(3, other),
    }
}

fn understand6(src: core::net::Ipv6Addr, dst: core::net::Ipv6Addr, bytes: &[u8]) -> Option<Content> {
    use icmp6::{Message, parameter_problem, unreachable as is};
    let (message, payload) = Message::parse(src, dst, bytes).ok()?;
    let len = payload.len();
    let error = match message {
        Message::EchoReply { id, seq } => return Some(Content::EchoReply { id, seq, len }),
        Message::EchoRequest { id, seq } => return Some(Content::EchoRequest { id, seq, len }),
        Message::Other { kind, .. } if !icmp6::is_error(kind) => return Some(Content::Other(kind)),
        Message::TimeExceeded { code: icmp6::time_exceeded::IN_TRANSIT } => IcmpError::TimeExceeded,
        Message::TimeExceeded { .. } => IcmpError::ReassemblyTime,
        Message::PacketTooBig { mtu } => IcmpError::TooBig(mtu),
        Message::Unreachable { code: is::NO_ROUTE } => IcmpError::NoRoute,
        Message::Unreachable { code: is::ADDRESS } => IcmpError::Host,
        Message::Unreachable { code: is::PORT } => IcmpError::Port,
        Message::Unreachable { code: is::ADMIN_PROHIBITED | is::REJECT_ROUTE } => IcmpError::Prohibited,
        Message::ParameterProblem { code: parameter_problem::UNKNOWN_NEXT_HEADER, .. } => IcmpError::Protocol,
        other => IcmpError::Other(other.kind(), other.code()),
    };
    let quoted = ip6::View::new_quoted(payload).ok()?;
    Some(Content::Error { error, about: quoted.dst().into(), ports: ports(quoted.payload()) })
}

/// Returns the ports of UDP and TCP.
fn ports(payload: &[u8]) -> [u16; 2] {
    match payload {
        &[a, b, c, d, ..] => [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])],
        _ => [0; 2],
    }
}
