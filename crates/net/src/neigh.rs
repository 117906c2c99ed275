//! Neighbours: link addresses of the hosts and routers on our links.
//!
//! Each CPU has its own copies of the entries that it uses. One CPU, by the hash of the neighbour's address, resolves
//! the entry for all, and tells them.

use core::net::IpAddr;

use pkt::Pkt;

use crate::cpu::Cpu;
use crate::drop::DropReason;
use crate::next::Next;
use crate::tables::IfIndex;

/// Names a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The interface of the link that it is on.
    pub ifindex: IfIndex,
    /// Its address.
    pub addr: IpAddr,
}

/// What CPUs tell each other about neighbours.
#[derive(Clone, Debug)]
pub enum Msg {}

/// A CPU's neighbours.
pub struct Neigh {}

impl Neigh {
    /// No neighbours. `key` keys the tables.
    #[must_use]
    pub const fn new(_key: u128) -> Self {
        Self {}
    }

    /// Takes out all packets that wait.
    pub(crate) fn drain(&mut self) -> Vec<Pkt> {
        Vec::new()
    }
}

/// Puts the link header towards `next_hop`, on the link of `pkt.outif`, in front of a network packet.
///
/// Next   [`Next::Output`], or [`Next::Resolve`] if the neighbour's link address is not known here.
#[inline]
pub fn link(_cpu: &mut Cpu, _pkt: &mut Pkt, _next_hop: IpAddr) -> Next {
    Next::Resolve
}

/// Keeps a packet until its next hop's link address is known.
pub fn hold(cpu: &mut Cpu, pkt: Pkt) {
    cpu.bury(pkt, DropReason::NeighHoldFull);
}

/// Handles a message from another CPU.
pub fn message(_cpu: &mut Cpu, msg: Msg) {
    match msg {}
}

/// The timer of an entry that this CPU resolves.
pub fn timer(_cpu: &mut Cpu, _key: Key) {}

/// Tells the resolving CPUs which stale entries were used in this turn.
pub fn roll_up(_cpu: &mut Cpu) {}

/// Forgets the neighbours of interfaces that are gone.
pub fn tables_changed(_cpu: &mut Cpu) {}
