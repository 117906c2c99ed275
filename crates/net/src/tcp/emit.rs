//! From a segment to a packet.

use core::net::IpAddr;

use pkt::{DATA_LEN, Flags as Facts, Pkt};
use wire::checksum::Sum;
use wire::tcp::{CHECKSUM_OFFSET, Header};
use wire::{Protocol, ip4, ip6};

use super::tcb::Out;
use crate::count::Count;
use crate::cpu::Cpu;
use crate::pcb::Ends;
use crate::{ip4 as inet4, ip6 as inet6};

/// The field of congestion notification (RFC 3168 §5), and ECT(0) in it.
const ECN: u8 = 0b11;
const ECT_0: u8 = 0b10;

/// How packets of a conversation look to routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Time to live, or hop limit.
    pub hops: u8,
    /// Type of service, or traffic class. The two bits of congestion notification are the connection's own.
    pub class: u8,
}

impl Default for Look {
    fn default() -> Self {
        Self { hops: 64, class: 0 }
    }
}

/// Sends a segment of the conversation between `ends`. One that finds no buffer is lost, as on a wire.
pub(super) fn send(cpu: &mut Cpu, ends: &Ends, look: Look, out: &Out<'_>) {
    let Some(mut pkt) = put_payload(cpu, out.payload) else { return cpu.count(Count::TcpNoBuffer) };
    let marks = if out.may_be_marked { ECT_0 } else { 0 };
    let look = Look { class: look.class & !ECN | marks, ..look };
    if put_headers(&mut pkt, &out.header, ends, look).is_none() {
        cpu.count(Count::TcpNoBuffer);
        return cpu.pool.give(pkt);
    }
    pkt.outif = ends.zone;
    cpu.count(Count::TcpOut);
    match ends.local {
        IpAddr::V4(_) => inet4::output::output(cpu, pkt),
        IpAddr::V6(_) => inet6::output::output(cpu, pkt),
    }
}

/// A packet of the pieces, in as many buffers as it takes.
fn put_payload(cpu: &mut Cpu, pieces: [&[u8]; 2]) -> Option<Pkt> {
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
        let len = piece.len().min(DATA_LEN - pkt.head_len());
        if let Some((now, later)) = piece.split_at_checked(len)
            && let Ok(room) = pkt.append(len)
        {
            room.copy_from_slice(now);
            *piece = later;
        }
    }
}

/// Writes both headers in front of the payload. The checksum is left to the device, or to whoever does it instead.
fn put_headers(pkt: &mut Pkt, tcp: &Header, ends: &Ends, look: Look) -> Option<()> {
    let segment = pkt.prepend(tcp.header_len()).ok()?;
    tcp.emit(segment).ok()?;
    let len = u16::try_from(pkt.len()).ok()?;
    let (sum, header_len) = match (ends.local, ends.remote) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let ip = ip4::Header::new(src, dst, Protocol::TCP, len);
            let ip = ip4::Header { ttl: look.hops, tos: look.class, ..ip };
            ip.emit(pkt.prepend(ip4::HEADER_LEN).ok()?).ok()?;
            (Sum::pseudo_v4(src, dst, Protocol::TCP, len), ip4::HEADER_LEN)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let ip = ip6::Header::new(src, dst, Protocol::TCP, len);
            let ip = ip6::Header { hop_limit: look.hops, traffic_class: look.class, ..ip };
            ip.emit(pkt.prepend(ip6::HEADER_LEN).ok()?).ok()?;
            (Sum::pseudo_v6(src, dst, Protocol::TCP, len.into()), ip6::HEADER_LEN)
        }
        _ => return None,
    };
    let field = pkt.head_mut().get_mut(header_len + CHECKSUM_OFFSET..)?.first_chunk_mut()?;
    *field = sum.folded().to_be_bytes();
    pkt.flags.set(Facts::CSUM_PARTIAL);
    (pkt.csum_start, pkt.csum_off) = (u16::try_from(header_len).ok()?, u16::try_from(CHECKSUM_OFFSET).ok()?);
    Some(())
}
