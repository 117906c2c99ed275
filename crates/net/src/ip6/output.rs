//! The way out for IPv6 packets.

use pkt::Pkt;

use crate::cpu::Cpu;
use crate::drop::DropReason;

/// Sends a packet that was made here: `pkt` starts with a whole IPv6 header. Towards a link-local or multicast
/// destination `pkt.outif` says by which interface.
pub fn output(cpu: &mut Cpu, pkt: Pkt) {
    cpu.bury(pkt, DropReason::NoRoute);
}
