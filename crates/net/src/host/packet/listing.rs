//! Packet sockets for users.

use super::socket::Ready;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// A socket, at the time of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its interface; 0 for all devices.
    pub ifindex: IfIndex,
    /// Frames that it selects are kept from the stack.
    pub takes: bool,
    /// Frames that wait.
    pub ready: Ready,
}

/// Returns the sockets of this CPU.
#[must_use]
pub fn list(cpu: &Cpu) -> Vec<Listed> {
    cpu.packets.as_deref().map_or_else(Vec::new, |sockets| sockets.list().collect())
}
