//! The way out for IPv6 packets, whole or, from here only, in pieces.

use core::net::IpAddr;

use pkt::{Flags, Gso, Pkt};
use wire::Protocol;
use wire::ip6::HEADER_LEN;
use wire::ip6_ext::Fragment;

use super::{Ip6, src};
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::ip::output::{self, Source};
use crate::link::tables::{HOP_LIMIT, Learned};
use crate::out::offload;
use crate::turn::cpu::Cpu;
use crate::turn::next::Resume;

/// Sends a packet that was made here: `pkt` starts with a whole IPv6 header. Towards a link-local or multicast
/// destination `pkt.outif` says by which interface. See [`output::send`].
pub fn output(cpu: &mut Cpu, pkt: Pkt) {
    output::send::<Ip6>(cpu, pkt);
}

impl Source for Ip6 {
    const AGAIN: Resume = Resume::Ip6;
    const SENT: Count = Count::Ip6Out;
    const HEADER_LEN: usize = HEADER_LEN;
    const LEAST: usize = crate::ip::pmtu::LEAST_V6;

    fn src(pkt: &Pkt) -> IpAddr {
        src(pkt).into()
    }

    fn finish(_: &mut Cpu, _: &mut Pkt) {}

    //= https://www.rfc-editor.org/rfc/rfc4861#section-6.3.2
    fn suit(pkt: &mut Pkt, learned: &Learned) {
        let hop_limit = &mut pkt.window_mut(0)[7];
        if *hop_limit == HOP_LIMIT {
            *hop_limit = learned.hop_limit.unwrap_or(HOP_LIMIT);
        }
    }

    fn cut(cpu: &mut Cpu, pkt: Pkt, mtu: u32, next_hop: IpAddr) {
        cut(cpu, pkt, mtu, next_hop);
    }
}

/// Sends a packet in pieces, all or none.
///
/// What is made here has no extension headers, so all behind the IPv6 header can be cut.
///
/// Drops  [`DropReason::TooBig`], [`DropReason::OffloadMalformed`], [`DropReason::NoBuffer`].
fn cut(cpu: &mut Cpu, mut pkt: Pkt, mtu: u32, next_hop: IpAddr) {
    let next_header = Protocol(pkt.window(0)[6]);
    if pkt.gso == Gso::Udp || next_header.is_ip6_extension() {
        return cpu.drop_pkt(pkt, DropReason::TooBig);
    }
    if pkt.flags.has(Flags::CSUM_PARTIAL) && !offload::complete(&mut pkt) {
        return cpu.drop_pkt(pkt, DropReason::OffloadMalformed);
    }
    let Some(pieces) = pieces(cpu, &pkt, mtu, next_header) else {
        return cpu.drop_pkt(pkt, DropReason::NoBuffer);
    };
    cpu.pool.give(pkt);
    cpu.count(Count::Ip6Fragmented);
    cpu.counters.add(Count::Ip6FragmentsMade, pieces.len() as u64);
    pieces.into_iter().for_each(|piece| output::link(cpu, piece, next_hop));
}

/// The pieces of a packet, each at most `mtu` bytes long.
///
/// The identification is random, so that it cannot be predicted.
//= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
//= https://www.rfc-editor.org/rfc/rfc7739#section-5.3
fn pieces(cpu: &mut Cpu, pkt: &Pkt, mtu: u32, next_header: Protocol) -> Option<Vec<Pkt>> {
    let room = (mtu as usize).saturating_sub(HEADER_LEN + Fragment::LEN) & !7;
    let total = pkt.len() - HEADER_LEN;
    let id = u32::try_from(cpu.secret.draw() & 0xffff_ffff).unwrap_or_default();
    let mut pieces = Vec::new();
    for at in (0..total).step_by(room.max(8)) {
        let len = room.max(8).min(total - at);
        let offset = u16::try_from(at).unwrap_or(u16::MAX);
        let fragment = Fragment { next_header, offset, more: at + len < total, id };
        let Some(piece) = offload::copy(cpu, pkt, &header(pkt, &fragment, len), HEADER_LEN + at, len) else {
            pieces.into_iter().for_each(|piece| cpu.pool.give(piece));
            return None;
        };
        pieces.push(piece);
    }
    Some(pieces)
}

/// The IPv6 header of a piece with `len` bytes of data, and its fragment header.
fn header(pkt: &Pkt, fragment: &Fragment, len: usize) -> [u8; HEADER_LEN + Fragment::LEN] {
    let mut header = [0; HEADER_LEN + Fragment::LEN];
    let payload_len = u16::try_from(Fragment::LEN + len).unwrap_or(u16::MAX);
    header[..HEADER_LEN].copy_from_slice(&pkt.window(0)[..HEADER_LEN]);
    header[4..6].copy_from_slice(&payload_len.to_be_bytes());
    header[6] = Protocol::FRAGMENT.0;
    header[HEADER_LEN..].copy_from_slice(&fragment.to_bytes());
    header
}
