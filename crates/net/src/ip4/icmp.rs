//! ICMP.

use pkt::Pkt;

use crate::cpu::Cpu;
use crate::drop::DropReason;

/// Takes an ICMP message for this host in. `pkt` starts with its IPv4 header, `pkt.l4` is where ICMP starts.
pub fn input(cpu: &mut Cpu, pkt: Pkt) {
    cpu.bury(pkt, DropReason::IcmpNotAnswered);
}
