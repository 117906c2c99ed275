//! TCP, as far as a host without sockets owes it: answers of closed ports.

use pkt::Pkt;

use crate::cpu::Cpu;
use crate::drop::DropReason;

/// Takes a segment for this host in. `pkt` starts with its network header, `pkt.l4` is where TCP starts.
pub fn input(cpu: &mut Cpu, pkt: Pkt) {
    cpu.bury(pkt, DropReason::NoPort);
}
