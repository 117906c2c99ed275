//! Neighbour discovery: what its messages mean for [`crate::neigh`] and [`crate::addr`].

use pkt::Pkt;

use crate::cpu::Cpu;
use crate::drop::DropReason;

/// Takes a neighbour discovery message in, on the CPU that owns the address it is about. `pkt` starts with its IPv6
/// header, `pkt.l4` is where ICMPv6 starts; its checksum is right.
pub fn input(cpu: &mut Cpu, pkt: Pkt) {
    cpu.bury(pkt, DropReason::NdDone);
}
