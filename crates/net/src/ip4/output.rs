//! The way out for IPv4 packets.

use pkt::Pkt;

use crate::cpu::Cpu;
use crate::drop::DropReason;

/// Sends a packet that was made here: `pkt` starts with a whole IPv4 header.
pub fn output(cpu: &mut Cpu, pkt: Pkt) {
    cpu.bury(pkt, DropReason::NoRoute);
}

/// Cuts a packet that is bigger than the MTU of `pkt.outif`, and sends the pieces.
pub fn fragment(cpu: &mut Cpu, pkt: Pkt) {
    cpu.bury(pkt, DropReason::TooBig);
}
