//! ICMPv6.

use pkt::Pkt;

use crate::cpu::Cpu;
use crate::drop::DropReason;

/// Takes an ICMPv6 message for this host in. `pkt` starts with its IPv6 header, `pkt.l4` is where ICMPv6 starts.
pub fn input(cpu: &mut Cpu, pkt: Pkt) {
    cpu.bury(pkt, DropReason::IcmpNotAnswered);
}
