//! Our own addresses: detection of duplicates, announcement, defence.

use core::net::IpAddr;

use crate::cpu::Cpu;
use crate::tables::IfIndex;

/// Names one of our addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The interface that has it.
    pub ifindex: IfIndex,
    /// The address.
    pub addr: IpAddr,
}

/// What CPUs tell each other about our addresses.
#[derive(Clone, Debug)]
pub enum Msg {}

/// The states of our addresses.
#[derive(Default)]
pub struct Addrs {}

/// Handles a message from another CPU.
pub fn message(_cpu: &mut Cpu, msg: Msg) {
    match msg {}
}

/// The timer of an address that this CPU owns.
pub fn timer(_cpu: &mut Cpu, _key: Key) {}

/// Starts detection for new addresses, and forgets those that are gone.
pub fn tables_changed(_cpu: &mut Cpu) {}
