//! Checksums and segmentation that a device cannot do.

mod csum;
mod segment;

use pkt::{Flags, Gso, Pkt};

pub(crate) use self::csum::sum;
pub use self::csum::{complete, may_be_partial, recognise};
pub use self::segment::segment_len;
use crate::base::count::Count;
use crate::base::drop::DropReason;
use crate::link::driver::Caps;
use crate::out::ifq;
use crate::turn::cpu::Cpu;

/// Whether something must be done to the frame before the device can take it.
#[inline]
#[must_use]
pub fn is_needed(pkt: &Pkt, caps: Caps) -> bool {
    let csum = pkt.flags.has(Flags::CSUM_PARTIAL) && !caps.tx_csum;
    csum || (pkt.gso != Gso::None && !takes_gso(pkt.gso, caps)) || has_too_many_buffers(pkt, caps)
}

const fn takes_gso(gso: Gso, caps: Caps) -> bool {
    match gso {
        Gso::None => true,
        // The device finishes each segment's checksum, or it could not have cut it.
        Gso::Tcp4 | Gso::Tcp6 => caps.tso && caps.tx_csum,
        Gso::Udp => caps.uso && caps.tx_csum,
    }
}

fn has_too_many_buffers(pkt: &Pkt, caps: Caps) -> bool {
    pkt.is_chained() && pkt.buffers() > caps.buffers_max.max(1)
}

/// Does for a frame what the device cannot, and queues what results.
///
/// Next   [`ifq::enqueue`].
/// Drops  [`DropReason::OffloadMalformed`], [`DropReason::NoBuffer`], [`DropReason::TooManyBuffers`].
pub fn output(cpu: &mut Cpu, pkt: Pkt, caps: Caps) {
    let cut = pkt.gso != Gso::None && (!takes_gso(pkt.gso, caps) || has_too_many_buffers(&pkt, caps));
    if !cut {
        return finish(cpu, pkt, caps);
    }
    match segment::segment(cpu, &pkt) {
        Ok(segments) => {
            cpu.count(Count::GsoSegmented);
            cpu.counters.add(Count::GsoSegmentsMade, segments.len() as u64);
            cpu.pool.give(pkt);
            segments.into_iter().for_each(|segment| finish(cpu, segment, caps));
        }
        Err(reason) => cpu.drop_pkt(pkt, reason),
    }
}

/// The last steps for one frame: its checksum, and the number of its buffers.
fn finish(cpu: &mut Cpu, mut pkt: Pkt, caps: Caps) {
    if pkt.flags.has(Flags::CSUM_PARTIAL) && !caps.tx_csum {
        if !complete(&mut pkt) {
            return cpu.drop_pkt(pkt, DropReason::OffloadMalformed);
        }
        cpu.count(Count::CsumCompleted);
    }
    if has_too_many_buffers(&pkt, caps) {
        return linearise(cpu, pkt);
    }
    ifq::enqueue(cpu, pkt);
}

/// Copies a chained frame into one buffer, if it fits one.
fn linearise(cpu: &mut Cpu, pkt: Pkt) {
    if pkt.len() > pkt::DATA_LEN {
        return cpu.drop_pkt(pkt, DropReason::TooManyBuffers);
    }
    let Some(whole) = copy(cpu, &pkt, &[], 0, pkt.len()) else {
        return cpu.drop_pkt(pkt, DropReason::NoBuffer);
    };
    cpu.pool.give(pkt);
    ifq::enqueue(cpu, whole);
}

/// A new packet of `header`, and behind it `len` bytes of `pkt` from `at`; in as many buffers as it takes. What is
/// known of `pkt` is known of it too, but that it is a super-packet.
pub(crate) fn copy(cpu: &mut Cpu, pkt: &Pkt, header: &[u8], at: usize, len: usize) -> Option<Pkt> {
    let mut new = cpu.pool.take()?;
    new.append(header.len()).ok()?.copy_from_slice(header);
    let first = len.min(pkt::DATA_LEN - header.len());
    fill(&mut new, pkt, at, first);
    let mut done = first;
    while done < len {
        let Some(mut next) = cpu.pool.take() else {
            cpu.pool.give(new);
            return None;
        };
        let part = (len - done).min(pkt::DATA_LEN);
        fill(&mut next, pkt, at + done, part);
        new.chain(next);
        done += part;
    }
    describe(&mut new, pkt);
    Some(new)
}

fn fill(new: &mut Pkt, pkt: &Pkt, at: usize, len: usize) {
    if let Ok(room) = new.append(len) {
        pkt.copy_out(at, room);
    }
}

fn describe(new: &mut Pkt, pkt: &Pkt) {
    (new.rcvif, new.outif) = (pkt.rcvif, pkt.outif);
    (new.hash, new.vlan) = (pkt.hash, pkt.vlan);
    (new.proto, new.l4) = (pkt.proto, pkt.l4);
    (new.flags, new.csum_start, new.csum_off) = (pkt.flags, pkt.csum_start, pkt.csum_off);
    new.fib = pkt.fib;
}

#[cfg(test)]
mod tests;
