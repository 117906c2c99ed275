//! Packets to the host, as bytes.

use core::net::IpAddr;

use drill::packet::{
    Cookie, Flags, Icmp, Ip, Md5, Packet, Payload, Quote, Seq, SeqStart, Tcp, TcpOption, TcpOptions,
};
use wire::checksum::Sum;
use wire::protocol::Protocol;
use wire::{icmp4, icmp6, ip4, ip6};

use super::conn::{Conn, FourTuple, first_byte};
use super::pattern::Stream;
use super::signature;
use crate::builder;

/// Time to live of a packet whose script says nothing of it.
const TTL: u8 = 255;
/// Bytes behind the IP header that an ICMP message quotes of a segment (RFC 792).
const QUOTED: usize = 8;
/// Where a TCP header has its checksum.
const CHECKSUM: usize = 16;

/// The bytes of a packet that goes `tuple`; sequence numbers and time stamps are those that `conn` has for the script's.
/// Signatures are made with the `secret`.
pub(super) fn packet(
    script: &Packet,
    tuple: FourTuple,
    conn: &Conn,
    secret: Option<&[u8]>,
) -> Result<Vec<u8>, String> {
    let (protocol, body) = match &script.payload {
        Payload::Tcp(tcp) => (Protocol::TCP, segment(tcp, tuple, conn, secret)?),
        Payload::Udp(len) => return Ok(craft_udp(&script.ip, tuple, usize::from(len.value))),
        Payload::Icmp(message) => icmp(message, tuple, conn)?,
    };
    Ok(ip(&script.ip, tuple, protocol, &body))
}

/// A packet with this payload.
fn ip(fields: &Ip, tuple: FourTuple, protocol: Protocol, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).unwrap_or(u16::MAX);
    let ecn = fields.ecn.and_then(|ecn| ecn.bits()).unwrap_or(0);
    let tos = fields.dscp.map_or(0, |dscp| dscp.value) << 2 | ecn;
    let ttl = fields.ttl.map_or(TTL, |ttl| ttl.value);
    let header = match (tuple.src.0, tuple.dst.0) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut bytes = vec![0; ip4::HEADER_LEN];
            let header = ip4::Header { tos, ttl, ..ip4::Header::new(src, dst, protocol, len) };
            // There is room for a header without options.
            _ = header.emit(&mut bytes);
            bytes
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let flow_label = fields.flow_label.map_or(0, |label| label.value);
            let header = ip6::Header::new(src, dst, protocol, len);
            ip6::Header { traffic_class: tos, hop_limit: ttl, flow_label, ..header }.to_bytes().to_vec()
        }
        _ => Vec::new(),
    };
    [&header, body].concat()
}

fn craft_udp(fields: &Ip, tuple: FourTuple, len: usize) -> Vec<u8> {
    let header = builder::Ip::new(tuple.src.0, tuple.dst.0);
    let whole = builder::udp(header, [tuple.src.1, tuple.dst.1], &Stream::ToHost.bytes(0, len));
    let behind = if tuple.src.0.is_ipv6() { ip6::HEADER_LEN } else { ip4::HEADER_LEN };
    ip(fields, tuple, Protocol::UDP, whole.get(behind..).unwrap_or_default())
}

fn segment(tcp: &Tcp, tuple: FourTuple, conn: &Conn, secret: Option<&[u8]>) -> Result<Vec<u8>, String> {
    let flags = tcp.flags.value;
    let seq = conn.remote_seq(tcp).ok_or("a packet to the stack needs a sequence number")?;
    let ack = tcp.ack.map_or(0, |ack| ack.value);
    let ack = if flags.contains(Flags::ACK) { ack.wrapping_add(conn.local_offset(flags)) } else { ack };
    let options = options(tcp, conn)?;
    let words = u16::try_from(5 + options.len() / 4).unwrap_or(15);
    let mut bytes = Vec::with_capacity(60 + usize::from(tcp.seq.len));
    bytes.extend(tuple.src.1.to_be_bytes());
    bytes.extend(tuple.dst.1.to_be_bytes());
    bytes.extend(seq.to_be_bytes());
    bytes.extend(ack.to_be_bytes());
    bytes.extend((words << 12 | flags.0).to_be_bytes());
    bytes.extend(tcp.window.map_or(0, |window| window.value).to_be_bytes());
    bytes.extend([0; 2]);
    bytes.extend(tcp.urgent.map_or(0, |urgent| urgent.value).to_be_bytes());
    bytes.extend(options);
    bytes.extend(Stream::ToHost.bytes(first_byte(seq, flags), tcp.seq.len.into()));
    sign(tcp, &mut bytes, tuple, secret)?;
    let sum = checksum(tuple, Protocol::TCP, &bytes);
    bytes[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    Ok(bytes)
}

/// Puts the signature in its place that the script asks for: the right one, or one of which each bit is wrong.
fn sign(tcp: &Tcp, bytes: &mut [u8], tuple: FourTuple, secret: Option<&[u8]>) -> Result<(), String> {
    let TcpOptions::List(list) = &tcp.options.value else { return Ok(()) };
    let asked = list.iter().find_map(|option| match &option.value {
        TcpOption::Md5(md5 @ (Md5::Valid | Md5::Invalid)) => Some(md5),
        _ => None,
    });
    let Some(asked) = asked else { return Ok(()) };
    let secret = secret.ok_or("a signature needs --tcp_md5_secret")?;
    let right = signature::of(bytes, tuple, secret);
    if let Some(place) = signature::place(bytes) {
        *place = if *asked == Md5::Valid { right } else { right.map(|byte| !byte) };
    }
    Ok(())
}

/// The checksum of what is behind the IP header.
pub(super) fn checksum(tuple: FourTuple, protocol: Protocol, bytes: &[u8]) -> u16 {
    let pseudo = match (tuple.src.0, tuple.dst.0) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            Sum::pseudo_v4(src, dst, protocol, u16::try_from(bytes.len()).unwrap_or(u16::MAX))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            Sum::pseudo_v6(src, dst, protocol, u32::try_from(bytes.len()).unwrap_or(u32::MAX))
        }
        _ => Sum::new(),
    };
    pseudo.bytes(bytes).checksum()
}

fn options(tcp: &Tcp, conn: &Conn) -> Result<Vec<u8>, String> {
    let TcpOptions::List(list) = &tcp.options.value else {
        return Err("a packet to the stack needs its options".to_owned());
    };
    let mut bytes = Vec::new();
    for option in list {
        bytes.extend(self::option(&option.value, tcp.flags.value, conn)?);
    }
    Ok(bytes)
}

fn option(option: &TcpOption, flags: Flags, conn: &Conn) -> Result<Vec<u8>, String> {
    Ok(match option {
        TcpOption::Eol => vec![0],
        TcpOption::Nop => vec![1],
        TcpOption::Mss(mss) => [&[2, 4][..], &mss.to_be_bytes()].concat(),
        TcpOption::WindowScale(shift) => vec![3, 3, shift.ok_or("the window scale is not known")?],
        TcpOption::SackPermitted => vec![4, 2],
        TcpOption::Sack(blocks) => {
            let offset = conn.local_offset(flags);
            let edges = blocks.iter().flat_map(|block| [block.left, block.right]);
            with_len(5, &edges.flat_map(|edge| edge.wrapping_add(offset).to_be_bytes()).collect::<Vec<_>>())
        }
        TcpOption::Timestamps { val, ecr, ecr_absolute } => {
            let val = val.ok_or("the time stamp is not known")?;
            let is_mapped = flags.contains(Flags::ACK) && !ecr_absolute;
            let echo = if is_mapped { conn.live_stamp(*ecr) } else { Some(*ecr) };
            let echo =
                echo.ok_or_else(|| format!("no time stamp {ecr} was expected that could be echoed"))?;
            with_len(8, &[val.to_be_bytes(), echo.to_be_bytes()].concat())
        }
        TcpOption::FastOpen(cookie) => with_len(34, known(cookie)?),
        TcpOption::FastOpenExp(cookie) => with_len(254, &[&[0xf9, 0x89], known(cookie)?].concat()),
        TcpOption::Md5(Md5::Digest(digest)) => with_len(19, digest),
        TcpOption::UserTimeout(field) => with_len(28, &field.to_be_bytes()),
        // It is made when all else is there.
        TcpOption::Md5(Md5::Valid | Md5::Invalid) => with_len(19, &[0; 16]),
        TcpOption::AccEcn(_) => return Err("options of accurate ECN cannot be made".to_owned()),
    })
}

fn with_len(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, u8::try_from(body.len() + 2).unwrap_or(u8::MAX)], body].concat()
}

fn known(cookie: &Cookie) -> Result<&[u8], String> {
    match cookie {
        Cookie::Bytes(bytes) => Ok(bytes),
        Cookie::Name(name) => Err(format!("{name} is not defined")),
    }
}

/// A message from the other end about a packet that the host has sent.
fn icmp(icmp: &Icmp, tuple: FourTuple, conn: &Conn) -> Result<(Protocol, Vec<u8>), String> {
    let is_ipv6 = tuple.src.0.is_ipv6();
    let kind = icmp.kind.value;
    let number = kind.number(is_ipv6).ok_or("there is no such message in this version of IP")?;
    let code = icmp.code.map(|code| code.number(kind, is_ipv6).ok_or("this message has no such code"));
    let code = code.transpose()?.unwrap_or(0);
    let quote = quote(icmp.quote.map(|quote| quote.value), tuple.back(), conn)?;
    let [a, b, c, d] = match (icmp.mtu, icmp.id) {
        (Some(mtu), _) => mtu.to_be_bytes(),
        (None, Some(id)) => (u32::from(id.value) << 16).to_be_bytes(),
        (None, None) => [0; 4],
    };
    let mut bytes = [&[number, code, 0, 0, a, b, c, d], &quote[..]].concat();
    let sum =
        if is_ipv6 { checksum(tuple, Protocol::ICMP6, &bytes) } else { Sum::new().bytes(&bytes).checksum() };
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    debug_assert!(bytes.len() >= icmp4::HEADER_LEN.max(icmp6::HEADER_LEN), "a header");
    Ok((if is_ipv6 { Protocol::ICMP6 } else { Protocol::ICMP }, bytes))
}

/// A packet of the host that goes `tuple`, as far as routers quote it.
fn quote(quote: Option<Quote>, tuple: FourTuple, conn: &Conn) -> Result<Vec<u8>, String> {
    let ports = [tuple.src.1.to_be_bytes(), tuple.dst.1.to_be_bytes()].concat();
    let (protocol, head, len) =
        match quote.unwrap_or(Quote::Tcp(Seq { start: SeqStart::Relative(0), len: 0 })) {
            Quote::Tcp(seq) => {
                let SeqStart::Relative(start) = seq.start else {
                    return Err("a quoted segment has a relative sequence number".to_owned());
                };
                let start = start.wrapping_add(conn.local_offset(Flags::default()));
                (Protocol::TCP, [&ports[..], &start.to_be_bytes()].concat(), 20 + seq.len)
            }
            Quote::Udp(len) => {
                let whole = len + 8;
                (Protocol::UDP, [&ports[..], &whole.to_be_bytes(), &[0; 2]].concat(), whole)
            }
            Quote::Raw(len) => (Protocol(255), vec![0; QUOTED], len),
        };
    let whole = ip(&Ip::default(), tuple, protocol, &vec![0; len.into()]);
    let header = if tuple.src.0.is_ipv6() { ip6::HEADER_LEN } else { ip4::HEADER_LEN };
    Ok([whole.get(..header).unwrap_or_default(), &head].concat())
}
