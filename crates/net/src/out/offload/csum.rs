//! Partial checksums: found when they come in, completed when the device cannot.

use pkt::{Flags, Gso, Pkt};
use wire::checksum::{Sum, never_zero};
use wire::{Protocol, tcp};

use crate::base::count::Count;
use crate::link::tables::Rxcsum;
use crate::turn::cpu::Cpu;

/// Where UDP's checksum stands in its header.
const UDP_CHECKSUM: u8 = 6;
/// Where TCP's checksum stands in its header.
const TCP_CHECKSUM: u8 = 16;
const _: () = assert!(TCP_CHECKSUM as usize == tcp::CHECKSUM_OFFSET);

/// Notes what the interface and its device say of the transport checksum, and answers whether it must be looked at to
/// know if it is partial.
#[inline]
pub fn may_be_partial(cpu: &mut Cpu, pkt: &mut Pkt) -> bool {
    if pkt.flags.has(Flags::CSUM_PARTIAL) || pkt.gso != Gso::None {
        count(cpu, pkt);
        return false;
    }
    match cpu.tables.ifnet(pkt.rcvif).map(|ifnet| ifnet.rxcsum) {
        Some(Rxcsum::Complete) => !pkt.flags.has(Flags::CSUM_GOOD) && field_of(pkt.proto).is_some(),
        Some(Rxcsum::Trust) => {
            pkt.flags.set(Flags::CSUM_GOOD);
            false
        }
        Some(Rxcsum::Verify) | None => false,
    }
}

/// Devices that hand over super-packets say what of them is partial.
fn count(cpu: &mut Cpu, pkt: &Pkt) {
    cpu.counters.add(Count::CsumPartialIn, u64::from(pkt.flags.has(Flags::CSUM_PARTIAL)));
    cpu.counters.add(Count::GsoIn, u64::from(pkt.gso != Gso::None));
}

/// Marks a packet whose checksum is partial: whose field holds `partial`, the sum of its pseudo-header.
///
/// One intact packet in 65 536 has that as its full checksum by chance. It is marked too, and comes to no harm:
/// completing sums the segment with the field in it, so what results is the checksum of the segment as it stands,
/// which for an intact packet is the one it had.
pub fn recognise(cpu: &mut Cpu, pkt: &mut Pkt, partial: u16) {
    let Some(offset) = field_of(pkt.proto) else { return };
    let at = usize::from(pkt.l4) + usize::from(offset);
    let field = pkt.head().get(at..).and_then(<[u8]>::first_chunk);
    if field.is_some_and(|field| u16::from_be_bytes(*field) == partial) {
        pkt.flags.set(Flags::CSUM_PARTIAL);
        (pkt.csum_start, pkt.csum_off) = (pkt.l4, offset);
        cpu.count(Count::CsumPartialIn);
    }
}

const fn field_of(protocol: u8) -> Option<u8> {
    match Protocol(protocol) {
        Protocol::TCP => Some(TCP_CHECKSUM),
        Protocol::UDP => Some(UDP_CHECKSUM),
        _ => None,
    }
}

/// Completes a partial checksum: sums from `csum_start` to the end of the packet, all its buffers. False, and nothing
/// is changed, if the field does not lie in the packet's first buffer.
pub fn complete(pkt: &mut Pkt) -> bool {
    let start = usize::from(pkt.csum_start);
    let at = start + usize::from(pkt.csum_off);
    let checksum = never_zero(sum(pkt, start).checksum());
    let Some(field) = pkt.head_mut().get_mut(at..).and_then(<[u8]>::first_chunk_mut) else { return false };
    *field = checksum.to_be_bytes();
    pkt.flags.clear(Flags::CSUM_PARTIAL);
    pkt.flags.set(Flags::CSUM_GOOD);
    true
}

/// The sum of the packet's bytes from `start`, which lies in the first buffer.
pub(crate) fn sum(pkt: &Pkt, start: usize) -> Sum {
    let mut parts = pkt.fragments();
    let head = parts.next().and_then(|head| head.get(start..)).unwrap_or_default();
    parts.fold(Sum::new().bytes(head), Sum::bytes)
}
