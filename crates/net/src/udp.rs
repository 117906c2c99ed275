//! UDP.

use pkt::Pkt;

use crate::cpu::Cpu;
use crate::drop::DropReason;

/// Takes a datagram for this host in. `pkt` starts with its network header, `pkt.l4` is where UDP starts.
pub fn input(cpu: &mut Cpu, pkt: Pkt) {
    cpu.bury(pkt, DropReason::NoPort);
}
