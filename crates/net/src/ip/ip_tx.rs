//! From what an upper layer has to say to a packet.

use core::net::IpAddr;

use pkt::{DATA_LEN, Flags as Facts, Pkt};
use wire::checksum::Sum;
use wire::{Protocol, ip4, ip6, tcp};

use crate::base::four_tuple::FourTuple;
use crate::fib::{FibIndex, mark};
use crate::ip::{ip4 as inet4, ip6 as inet6, l4};
use crate::turn::cpu::Cpu;

/// IP header fields of a conversation's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// One register, whose parts need no shifting together.
#[repr(align(4))]
pub struct IpTxParams {
    /// Time to live, or hop limit.
    pub hops: u8,
    /// Type of service, or traffic class. The two bits of congestion notification are the connection's own.
    pub class: u8,
    /// Routing table.
    pub fib: FibIndex,
}

impl IpTxParams {
    /// Sets the bits of congestion notification (RFC 3168 §5).
    #[must_use]
    pub(crate) const fn with_ecn(self, ecn: u8) -> Self {
        Self { class: self.class & !0b11 | ecn, ..self }
    }
}

impl Default for IpTxParams {
    fn default() -> Self {
        Self { hops: 64, class: 0, fib: 0 }
    }
}

/// A packet of the pieces, in as many buffers as it takes.
pub(crate) fn payload(cpu: &mut Cpu, pieces: [&[u8]; 2]) -> Option<Pkt> {
    let mut whole = cpu.pool.take()?;
    let [mut first, mut second] = pieces;
    fill(&mut whole, &mut first, &mut second);
    while !first.is_empty() || !second.is_empty() {
        let Some(mut next) = cpu.pool.take() else {
            cpu.pool.give(whole);
            return None;
        };
        fill(&mut next, &mut first, &mut second);
        whole.chain(next);
    }
    Some(whole)
}

/// Moves as much as one buffer holds.
fn fill<'a>(pkt: &mut Pkt, first: &mut &'a [u8], second: &mut &'a [u8]) {
    for piece in [first, second] {
        if piece.is_empty() {
            continue;
        }
        let len = piece.len().min(DATA_LEN - pkt.head_len());
        if let Some((now, later)) = piece.split_at_checked(len)
            && let Ok(room) = pkt.append(len)
        {
            room.copy_from_slice(now);
            *piece = later;
        }
    }
}

/// Writes the network header in front of an upper layer whose checksum stands `checksum_at` bytes into it. That is left to
/// the device, or to the stage that replaces it. `None` if it is too long.
pub(crate) fn put_network(
    pkt: &mut Pkt,
    (protocol, checksum_at): (Protocol, usize),
    ends: &FourTuple,
    tx_params: IpTxParams,
    dont_fragment: bool,
) -> Option<()> {
    let (sum, header_len) = put_ip(pkt, protocol, ends, tx_params, dont_fragment)?;
    let field = pkt.head_mut().get_mut(header_len + checksum_at..)?.first_chunk_mut()?;
    *field = sum.folded().to_be_bytes();
    pkt.flags.set(Facts::CSUM_PARTIAL);
    (pkt.csum_start, pkt.csum_off) = (u16::try_from(header_len).ok()?, u8::try_from(checksum_at).ok()?);
    Some(())
}

/// Writes the network header in front of an upper layer, and answers the sum of the pseudo-header and the length of what it
/// has written. `None` if it is too long.
pub(crate) fn put_ip(
    pkt: &mut Pkt,
    protocol: Protocol,
    ends: &FourTuple,
    tx_params: IpTxParams,
    dont_fragment: bool,
) -> Option<(Sum, usize)> {
    let len = u16::try_from(pkt.len()).ok()?;
    pkt.outif = ends.zone;
    pkt.fib = mark(tx_params.fib);
    Some(match (ends.local, ends.remote) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let ip = ip4::Header::new(src, dst, protocol, len);
            let ip = ip4::Header { ttl: tx_params.hops, tos: tx_params.class, dont_fragment, ..ip };
            pkt.prepend_array(&ip.plain()?).ok()?;
            (Sum::pseudo_v4(src, dst, protocol, len), ip4::HEADER_LEN)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let ip = ip6::Header::new(src, dst, protocol, len);
            let ip = ip6::Header { hop_limit: tx_params.hops, traffic_class: tx_params.class, ..ip };
            ip.emit(pkt.prepend(ip6::HEADER_LEN).ok()?).ok()?;
            (Sum::pseudo_v6(src, dst, protocol, len.into()), ip6::HEADER_LEN)
        }
        _ => return None,
    })
}

/// Writes a segment without payload, and its network header, into an empty buffer.
pub(crate) fn put_segment(
    pkt: &mut Pkt,
    tcp: &tcp::Header,
    way: (IpAddr, IpAddr),
    tx_params: IpTxParams,
) -> Option<()> {
    pkt.fib = mark(tx_params.fib);
    let segment = pkt.append(tcp.header_len()).ok()?;
    let len = u16::try_from(tcp.header_len()).ok()?;
    match way {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            tcp.emit_v4(from, to, &[], segment).ok()?;
            let ip = ip4::Header::new(from, to, Protocol::TCP, len);
            let ip = ip4::Header { ttl: tx_params.hops, tos: tx_params.class, ..ip };
            ip.emit(pkt.prepend(ip4::HEADER_LEN).ok()?).ok()?;
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            tcp.emit_v6(from, to, &[], segment).ok()?;
            let ip = ip6::Header::new(from, to, Protocol::TCP, len);
            let ip = ip6::Header { hop_limit: tx_params.hops, traffic_class: tx_params.class, ..ip };
            ip.emit(pkt.prepend(ip6::HEADER_LEN).ok()?).ok()?;
        }
        _ => return None,
    }
    Some(())
}

/// Sends a packet that has its network header.
pub(crate) fn output(cpu: &mut Cpu, pkt: Pkt) {
    if l4::is_ip4(&pkt) { inet4::output::output(cpu, pkt) } else { inet6::output::output(cpu, pkt) }
}
