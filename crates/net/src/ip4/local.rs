//! IPv4 packets for this host.

use pkt::Pkt;

use crate::cpu::Cpu;
use crate::drop::DropReason;

/// Brings a packet for this host to its protocol.
pub fn input(cpu: &mut Cpu, pkt: Pkt) {
    cpu.bury(pkt, DropReason::NoProtocol);
}
