//! ARP: what its packets mean for [`crate::neigh`] and [`crate::addr`].

use pkt::Pkt;

use crate::cpu::Cpu;
use crate::drop::DropReason;

/// Takes an ARP packet in, on the CPU that owns the address it is about.
///
/// # Spec
/// RFC 826; RFC 5227.
pub fn input(cpu: &mut Cpu, pkt: Pkt) {
    cpu.bury(pkt, DropReason::ArpDone);
}
