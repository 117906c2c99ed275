//! Reassembly of datagrams for this host.

use pkt::Pkt;

use crate::cpu::Cpu;

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

/// Gives up datagrams that waited too long.
pub fn timer(_cpu: &mut Cpu) {}
