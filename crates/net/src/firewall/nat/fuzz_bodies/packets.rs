//! Packets of all kinds of both families, made of choices.

use core::net::IpAddr;

use wire::ip6_ext::Fragment;
use wire::{Protocol, icmp4, icmp6, ip4, ip6, tcp, udp};

use super::super::headers::{Kind, Shape};

/// The kind of packet to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketKind {
    Tcp,
    Udp,
    /// Without a checksum: IPv4's alone.
    UdpBare,
    Echo,
}

/// A packet from one end to another; those of an echo have the first port as its identifier.
pub(super) fn packet(what: PacketKind, src: (IpAddr, u16), dst: (IpAddr, u16), payload: &[u8]) -> Vec<u8> {
    match what {
        PacketKind::Tcp => segment(src, dst, payload),
        PacketKind::Udp | PacketKind::UdpBare => datagram(src, dst, payload, what == PacketKind::UdpBare),
        PacketKind::Echo => echo(src.0, dst.0, src.1, payload),
    }
}

fn segment(src: (IpAddr, u16), dst: (IpAddr, u16), payload: &[u8]) -> Vec<u8> {
    let [flags, window, ..] = *payload else { return segment(src, dst, &[0x10, 1]) };
    let header = tcp::Header {
        src_port: src.1,
        dst_port: dst.1,
        seq: 1,
        ack: 2,
        flags: tcp::Flags(flags),
        window: window.into(),
        urgent: 0,
        options: tcp::Options::NONE,
    };
    let mut bytes = vec![0; tcp::HEADER_MAX];
    let len = match (src.0, dst.0) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => header.emit_v4(src, dst, payload, &mut bytes),
        (IpAddr::V6(src), IpAddr::V6(dst)) => header.emit_v6(src, dst, payload, &mut bytes),
        _ => return Vec::new(),
    };
    bytes.truncate(len.unwrap_or(0));
    bytes.extend_from_slice(payload);
    ip(src.0, dst.0, Protocol::TCP, &bytes)
}

fn datagram(src: (IpAddr, u16), dst: (IpAddr, u16), payload: &[u8], is_bare: bool) -> Vec<u8> {
    let len = u16::try_from(udp::HEADER_LEN + payload.len()).unwrap_or(0);
    let header = udp::Header { src_port: src.1, dst_port: dst.1, len, checksum: 0 };
    let header = match (src.0, dst.0) {
        (IpAddr::V4(src), IpAddr::V4(dst)) if !is_bare => header.with_checksum_v4(src, dst, payload),
        (IpAddr::V6(src), IpAddr::V6(dst)) => header.with_checksum_v6(src, dst, payload),
        _ => header,
    };
    ip(src.0, dst.0, Protocol::UDP, &[&header.to_bytes(), payload].concat())
}

fn echo(src: IpAddr, dst: IpAddr, id: u16, payload: &[u8]) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = icmp6::Message::EchoRequest { id, seq: 3 }.to_bytes(from, to, payload);
            ip(src, dst, Protocol::ICMP6, &[&header, payload].concat())
        }
        _ => {
            let header = icmp4::Message::EchoRequest { id, seq: 3 }.to_bytes(payload);
            ip(src, dst, Protocol::ICMP, &[&header, payload].concat())
        }
    }
}

/// An error about a packet, as much of it as is quoted.
pub(super) fn error(src: IpAddr, dst: IpAddr, quote: &[u8]) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = icmp6::Message::PacketTooBig { mtu: 1280 }.to_bytes(from, to, quote);
            ip(src, dst, Protocol::ICMP6, &[&header, quote].concat())
        }
        _ => {
            let header = icmp4::Message::Unreachable { code: 4, mtu: 576 }.to_bytes(quote);
            ip(src, dst, Protocol::ICMP, &[&header, quote].concat())
        }
    }
}

/// An IP packet; of addresses of two families, an empty one.
pub(super) fn ip(src: IpAddr, dst: IpAddr, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap_or(0);
    let mut bytes = vec![0; ip4::HEADER_LEN.max(ip6::HEADER_LEN)];
    let header = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => ip4::Header::new(src, dst, protocol, len).emit(&mut bytes).ok(),
        (IpAddr::V6(src), IpAddr::V6(dst)) => ip6::Header::new(src, dst, protocol, len).emit(&mut bytes).ok(),
        _ => return Vec::new(),
    };
    bytes.truncate(header.unwrap_or(0));
    bytes.extend_from_slice(payload);
    bytes
}

/// The first fragment of a packet, of so many bytes, or the rest of it.
pub(super) fn fragment(packet: &[u8], cut: usize, is_first: bool) -> Vec<u8> {
    let offset = if is_first { 0 } else { u16::try_from(cut).unwrap_or(0) };
    let part = |payload: &[u8]| if is_first { payload[..cut].to_vec() } else { payload[cut..].to_vec() };
    if let Ok(header) = ip4::Header::parse(packet) {
        let part = part(&packet[ip4::HEADER_LEN..]);
        let header = ip4::Header {
            payload_len: u16::try_from(part.len()).unwrap_or(0),
            fragment_offset: offset,
            more_fragments: is_first,
            dont_fragment: false,
            ..header
        };
        let mut bytes = vec![0; ip4::HEADER_LEN];
        header.emit(&mut bytes).unwrap_or(0);
        return [bytes, part].concat();
    }
    let Ok(header) = ip6::Header::parse(packet) else { return Vec::new() };
    let between = Fragment { next_header: header.next_header, offset, more: is_first, id: 9 };
    let part = part(&packet[ip6::HEADER_LEN..]);
    ip(header.src.into(), header.dst.into(), Protocol::FRAGMENT, &[&between.to_bytes()[..], &part].concat())
}

/// Mirrors a packet: ends are exchanged, those of its quote as well. No sum changes by it.
pub(super) fn mirrored(packet: &[u8]) -> Vec<u8> {
    let mut bytes = packet.to_vec();
    let Some(shape) = Shape::read(packet) else { return bytes };
    swap(&mut bytes, &shape);
    if let Some(quote) = shape.quote(packet).filter(|_| shape.kind == Kind::Error) {
        swap(&mut bytes, &quote);
    }
    bytes
}

fn swap(bytes: &mut [u8], shape: &Shape) {
    let (at, len) =
        (usize::from(shape.at) + if shape.is_ip4 { 12 } else { 8 }, if shape.is_ip4 { 4 } else { 16 });
    exchange(bytes, at, len);
    if matches!(shape.kind, Kind::Tcp(_) | Kind::Udp) {
        exchange(bytes, shape.l4.into(), 2);
    }
}

/// Exchanges two fields that stand side by side.
fn exchange(bytes: &mut [u8], at: usize, len: usize) {
    if let Some(both) = bytes.get_mut(at..at + 2 * len) {
        both.rotate_left(len);
    }
}
