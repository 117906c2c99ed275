//! Packets from the host, read as a script would write them.

use core::net::IpAddr;

use drill::packet::{
    Cookie, Direction, Ecn, Flags, Icmp, IcmpCode, IcmpKind, Ip, Md5, Packet, Payload, Ports, Quote,
    SackBlock, Seq, SeqStart, Tcp, TcpOption, TcpOptions,
};
use drill::script::{At, Pos};
use wire::protocol::Protocol;
use wire::{icmp4, icmp6, ip4, ip6, tcp, udp};

use super::conn::{Conn, FourTuple};
use super::signature;

/// A packet as it was on the wire: the numbers are its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Its ports; of a message, those of the packet that it quotes, turned round.
    pub(super) ports: Ports,
    /// Its packet.
    pub(super) packet: Packet,
    /// The bytes of a segment.
    pub(super) bytes: Vec<u8>,
}

fn at<T>(value: T) -> At<T> {
    At::new(Pos::default(), value)
}

impl Seen {
    /// Reads a packet. Whether signatures are right is seen with the `secret`; without, they are just numbers.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn read(bytes: &[u8], secret: Option<&[u8]>) -> Result<Self, String> {
        let mut seen = match bytes.first().map(|first| first >> 4) {
            Some(6) => Self::ip6(bytes),
            _ => Self::ip4(bytes),
        }?;
        if let (Payload::Tcp(tcp), Some(secret)) = (&mut seen.packet.payload, secret) {
            judge(tcp, bytes, secret);
        }
        Ok(seen)
    }

    fn ip4(bytes: &[u8]) -> Result<Self, String> {
        let view = ip4::View::new(bytes).map_err(|error| error.to_string())?;
        if !view.verify_checksum() {
            return Err("its IPv4 checksum is wrong".to_owned());
        }
        let ip = fields(view.tos(), view.ttl(), None);
        upper(ip, (view.src().into(), view.dst().into()), view.protocol(), view.payload())
    }

    fn ip6(bytes: &[u8]) -> Result<Self, String> {
        let view = ip6::View::new(bytes).map_err(|error| error.to_string())?;
        let ip = fields(view.traffic_class(), view.hop_limit(), Some(view.flow_label()));
        upper(ip, (view.src().into(), view.dst().into()), view.next_header(), view.payload())
    }

    /// The packet with the numbers that the script has for its own.
    pub(super) fn in_script(&self, conn: &Conn) -> Packet {
        let mut packet = self.packet.clone();
        match &mut packet.payload {
            Payload::Tcp(tcp) => translate(tcp, conn),
            Payload::Icmp(Icmp { quote: Some(At { value: Quote::Tcp(seq), .. }), .. }) => {
                if let SeqStart::Relative(start) = &mut seq.start {
                    *start = start.wrapping_sub(conn.remote_isn);
                }
            }
            Payload::Icmp(_) | Payload::Udp(_) => {}
        }
        packet
    }
}

fn fields(tos: u8, ttl: u8, flow_label: Option<u32>) -> Ip {
    let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(tos & 3)];
    Ip { dscp: Some(at(tos >> 2)), ecn: Some(at(ecn)), ttl: Some(at(ttl)), flow_label: flow_label.map(at) }
}

fn upper(ip: Ip, ends: (IpAddr, IpAddr), protocol: Protocol, body: &[u8]) -> Result<Seen, String> {
    let mut bytes = Vec::new();
    let (ports, payload) = match protocol {
        Protocol::TCP => {
            bytes = tcp::View::new(body).map_err(|error| error.to_string())?.payload().to_vec();
            segment(ends, body)?
        }
        Protocol::UDP => datagram(ends, body)?,
        Protocol::ICMP => {
            message(false, body, icmp4::Message::parse(body).map_err(|error| error.to_string())?.1)?
        }
        Protocol::ICMP6 => message(true, body, message6(ends, body)?)?,
        other => return Err(format!("its protocol is {}", other.0)),
    };
    let packet = Packet { pos: Pos::default(), direction: Direction::Outbound, ip, ports: None, payload };
    Ok(Seen { ports, packet, bytes })
}

fn segment(ends: (IpAddr, IpAddr), body: &[u8]) -> Result<(Ports, Payload), String> {
    let view = tcp::View::new(body).map_err(|error| error.to_string())?;
    let is_intact = match ends {
        (IpAddr::V4(src), IpAddr::V4(dst)) => view.verify_v4(src, dst),
        (IpAddr::V6(src), IpAddr::V6(dst)) => view.verify_v6(src, dst),
        _ => false,
    };
    if !is_intact {
        return Err("its TCP checksum is wrong".to_owned());
    }
    // The view knows eight flags; the ninth is the bit before them.
    let flags = Flags(u16::from(body[12] & 1) << 8 | u16::from(view.flags().0));
    let len = u16::try_from(view.payload().len()).unwrap_or(u16::MAX);
    let tcp = Tcp {
        flags: at(flags),
        seq: at(Seq { start: SeqStart::Relative(view.seq()), len }),
        ack: Some(at(view.ack())),
        window: Some(at(view.window())),
        urgent: Some(at(view.urgent())),
        options: at(TcpOptions::List(options(view.option_bytes())?)),
    };
    Ok((Ports { src: view.src_port(), dst: view.dst_port() }, Payload::Tcp(tcp)))
}

fn datagram(ends: (IpAddr, IpAddr), body: &[u8]) -> Result<(Ports, Payload), String> {
    let header = udp::Header::parse(body).map_err(|error| error.to_string())?;
    let is_intact = match ends {
        (IpAddr::V4(src), IpAddr::V4(dst)) => header.checksum == 0 || udp::verify_v4(src, dst, body),
        (IpAddr::V6(src), IpAddr::V6(dst)) => udp::verify_v6(src, dst, body),
        _ => false,
    };
    if !is_intact {
        return Err("its UDP checksum is wrong".to_owned());
    }
    let len = usize::from(header.len).saturating_sub(udp::HEADER_LEN);
    let ports = Ports { src: header.src_port, dst: header.dst_port };
    Ok((ports, Payload::Udp(at(u16::try_from(len).unwrap_or(u16::MAX)))))
}

fn message6(ends: (IpAddr, IpAddr), body: &[u8]) -> Result<&[u8], String> {
    let (IpAddr::V6(src), IpAddr::V6(dst)) = ends else { return Ok(&[]) };
    Ok(icmp6::Message::parse(src, dst, body).map_err(|error| error.to_string())?.1)
}

fn message(is_ipv6: bool, body: &[u8], quoted: &[u8]) -> Result<(Ports, Payload), String> {
    let &[kind, code, _, _, a, b, c, d, ..] = body else { return Err("it is short".to_owned()) };
    let reports_mtu = if is_ipv6 { kind == 2 } else { kind == 3 && code == 4 };
    let is_echo = if is_ipv6 { matches!(kind, 128 | 129) } else { matches!(kind, 0 | 8) };
    let (ports, quote) = if is_echo { (Ports { src: 0, dst: 0 }, None) } else { quote(is_ipv6, quoted)? };
    let icmp = Icmp {
        kind: at(IcmpKind::Number(kind)),
        code: Some(at(IcmpCode::Number(code))),
        mtu: reports_mtu.then(|| at(u32::from_be_bytes([a, b, c, d]))),
        id: is_echo.then(|| at(u16::from_be_bytes([a, b]))),
        quote: quote.map(at),
    };
    Ok((ports, Payload::Icmp(icmp)))
}

/// Returns the quote of a message, and the ports of a packet that would answer it.
fn quote(is_ipv6: bool, quoted: &[u8]) -> Result<(Ports, Option<Quote>), String> {
    let (protocol, len, body) = if is_ipv6 {
        let view = ip6::View::new_quoted(quoted).map_err(|error| error.to_string())?;
        (view.next_header(), usize::from(view.payload_len()), quoted.get(ip6::HEADER_LEN..))
    } else {
        let view = ip4::View::new_quoted(quoted).map_err(|error| error.to_string())?;
        let header = view.header_len();
        (view.protocol(), usize::from(view.total_len()).saturating_sub(header), quoted.get(header..))
    };
    let body = body.unwrap_or_default();
    let &[s0, s1, d0, d1, q0, q1, q2, q3, ..] = body else { return Err("it quotes too little".to_owned()) };
    let ports = Ports { src: u16::from_be_bytes([d0, d1]), dst: u16::from_be_bytes([s0, s1]) };
    let short = |len: usize| u16::try_from(len).unwrap_or(u16::MAX);
    Ok(match protocol {
        Protocol::TCP => {
            let header = body.get(12).map_or(tcp::HEADER_LEN, |byte| usize::from(byte >> 4) * 4);
            let start = SeqStart::Relative(u32::from_be_bytes([q0, q1, q2, q3]));
            (ports, Some(Quote::Tcp(Seq { start, len: short(len.saturating_sub(header)) })))
        }
        Protocol::UDP => (ports, Some(Quote::Udp(short(len.saturating_sub(udp::HEADER_LEN))))),
        _ => (Ports { src: 0, dst: 0 }, Some(Quote::Raw(short(len)))),
    })
}

/// TCP options, padding included, one by one.
fn options(mut bytes: &[u8]) -> Result<Vec<At<TcpOption>>, String> {
    let mut list = Vec::new();
    while let Some((&kind, rest)) = bytes.split_first() {
        if kind <= 1 {
            list.push(at(if kind == 0 { TcpOption::Eol } else { TcpOption::Nop }));
            bytes = rest;
            continue;
        }
        let len = usize::from(*rest.first().ok_or("an option without length")?);
        let body = bytes.get(2..len).ok_or_else(|| format!("option {kind} with length {len}"))?;
        list.push(at(option(kind, body).ok_or_else(|| format!("option {kind} with {len} bytes"))?));
        bytes = bytes.get(len..).unwrap_or_default();
    }
    Ok(list)
}

fn option(kind: u8, body: &[u8]) -> Option<TcpOption> {
    let word = |bytes: &[u8]| bytes.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes));
    Some(match (kind, body) {
        (2, &[a, b]) => TcpOption::Mss(u16::from_be_bytes([a, b])),
        (3, &[shift]) => TcpOption::WindowScale(Some(shift)),
        (4, []) => TcpOption::SackPermitted,
        (5, blocks) if blocks.len() % 8 == 0 => {
            let block = |edges: &[u8]| Some(SackBlock { left: word(edges)?, right: word(edges.get(4..)?)? });
            TcpOption::Sack(blocks.chunks(8).filter_map(block).collect())
        }
        (8, stamps) if stamps.len() == 8 => {
            let (val, ecr) = (word(stamps), word(stamps.get(4..)?)?);
            TcpOption::Timestamps { val, ecr, ecr_absolute: false }
        }
        (19, digest) => TcpOption::Md5(Md5::Digest(digest.try_into().ok()?)),
        (28, &[a, b]) => TcpOption::UserTimeout(u16::from_be_bytes([a, b])),
        (34, cookie) => TcpOption::FastOpen(Cookie::Bytes(cookie.to_vec())),
        (254, [0xf9, 0x89, cookie @ ..]) => TcpOption::FastOpenExp(Cookie::Bytes(cookie.to_vec())),
        _ => return None,
    })
}

/// Says of signatures whether they are right.
fn judge(tcp: &mut Tcp, packet: &[u8], secret: &[u8]) {
    let TcpOptions::List(list) = &mut tcp.options.value else { return };
    let right = signed(packet, secret);
    for option in list {
        if let TcpOption::Md5(md5) = &mut option.value {
            *md5 = if right.map(Md5::Digest).as_ref() == Some(md5) { Md5::Valid } else { Md5::Invalid };
        }
    }
}

/// The signature that a packet should have.
fn signed(packet: &[u8], secret: &[u8]) -> Option<[u8; 16]> {
    let (src, dst, segment): (IpAddr, IpAddr, _) = match packet.first()? >> 4 {
        6 => {
            ip6::View::new(packet).ok().map(|view| (view.src().into(), view.dst().into(), view.payload()))?
        }
        _ => {
            ip4::View::new(packet).ok().map(|view| (view.src().into(), view.dst().into(), view.payload()))?
        }
    };
    Some(signature::of(segment, FourTuple { src: (src, 0), dst: (dst, 0) }, secret))
}

/// Puts the script's numbers in the place of those on the wire.
fn translate(tcp: &mut Tcp, conn: &Conn) {
    let flags = tcp.flags.value;
    if let SeqStart::Relative(start) = &mut tcp.seq.value.start {
        *start = start.wrapping_sub(conn.local_offset(flags));
    }
    let offset = conn.remote_offset(flags);
    if let Some(ack) = tcp.ack.as_mut().filter(|_| flags.contains(Flags::ACK)) {
        ack.value = ack.value.wrapping_sub(offset);
    }
    let TcpOptions::List(list) = &mut tcp.options.value else { return };
    for option in list {
        match &mut option.value {
            TcpOption::Sack(blocks) => blocks.iter_mut().for_each(|block| {
                block.left = block.left.wrapping_sub(offset);
                block.right = block.right.wrapping_sub(offset);
            }),
            TcpOption::Timestamps { val, .. } => *val = val.map(|val| conn.script_stamp(val)),
            _ => {}
        }
    }
}
