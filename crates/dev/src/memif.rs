//! memif: Ethernet through shared memory, with VPP, DPDK, or another pantala on the same machine.
//!
//! Two programs meet at a Unix socket. One, the slave (client), makes memory with rings and buffers and hands it over;
//! the other, the master (server), listens. A [`Hub`] is the thread that speaks for all our interfaces; a [`Port`] is
//! one of them, and each of its [`MemifRing`]s is on some CPU. Peers come and go without the CPUs being asked: the thread
//! puts each new connection into the mailbox of the ring's owner.
//!
//! The peer is not trusted. It can write anywhere in the shared memory at any time, so whatever is read there is read
//! once and checked, frames are copied before they are looked at, and no memory is taken that could vanish.

mod fuzz_bodies;
mod channel;
mod mailbox;
mod fault;
mod hub;
pub mod msg;
mod queue;
mod region;
mod ring;
mod ring_memory;
mod session;

use std::path::PathBuf;

use crate::sys::unix_socket::Access;

pub use fault::{Fault, FaultCounts};
#[doc(hidden)]
pub use fuzz_bodies::{any_master, any_slave};
pub use hub::{Hub, Port, Tell};
pub use ring::MemifRing;

/// Ring pairs that an interface may have.
pub const RINGS_MAX: u16 = 64;
/// The longest ring, in descriptors.
pub const RING_SIZE_MAX: u32 = 1 << ring_memory::LOG2_MAX;
/// The shortest that we make.
pub const RING_SIZE_MIN: u32 = 16;
/// The longest buffer that we make, bytes.
pub const BUFFER_SIZE_MAX: u32 = 1 << 16;
/// The shortest, bytes: what headers need.
pub const BUFFER_SIZE_MIN: u32 = 256;
/// Bytes of a secret.
pub const SECRET_MAX: usize = 23;
/// Bytes of the longest frame: a super-packet and its Ethernet header.
pub const FRAME_MAX: usize = 65_535 + 14;
/// Regions that a peer may offer.
const REGIONS_MAX: u16 = 16;

/// The role, which decides which end makes the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// Listens at the socket, and maps what the slave offers. Others call it the server.
    #[default]
    Master,
    /// Connects to the socket, and makes the memory. Others call it the client.
    Slave,
}

/// Options for opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The interface's name, which the peer is told.
    pub name: String,
    /// The socket's file.
    pub socket: PathBuf,
    /// The users that a master's socket admits.
    pub access: Access,
    /// Which interface of those that share the socket.
    pub id: u32,
    /// Our role.
    pub role: Role,
    /// Ring pairs, up to [`RINGS_MAX`].
    pub rings: u16,
    /// Descriptors of each ring: a power of two from [`RING_SIZE_MIN`] to [`RING_SIZE_MAX`]. The slave decides.
    pub ring_size: u32,
    /// Bytes of each buffer, from [`BUFFER_SIZE_MIN`] to [`BUFFER_SIZE_MAX`]. The slave decides.
    pub buffer_size: u32,
    /// The shared secret, up to [`SECRET_MAX`] bytes. A master without one asks for none.
    pub secret: Option<String>,
}

/// The status of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// Its state.
    pub state: State,
    /// The program at the other end, now or last.
    pub peer: String,
    /// The peer's name of its interface.
    pub peer_interface: String,
    /// Ring pairs of the connection.
    pub rings: usize,
    /// Number of connections over which frames could flow.
    pub connects: u64,
    /// Number of connections refused or ended.
    pub ends: u64,
    /// Attempts of a slave to connect that failed.
    pub failed_connects: u64,
    /// Why, the last time.
    pub last_fault: Option<Fault>,
    /// Faults in the rings.
    pub faults: FaultCounts,
}

/// The state of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// No peer: the master listens, the slave tries again and again.
    #[default]
    Waiting,
    /// The two ends are speaking.
    Greeting,
    /// Frames flow.
    Connected,
}

impl Options {
    /// Whether everything is within its bounds, and the memory within what a master takes.
    #[must_use]
    pub fn are_sound(&self) -> bool {
        let bytes = u64::from(self.rings) * 2 * u64::from(self.ring_size) * u64::from(self.buffer_size + 256);
        (1..=RINGS_MAX).contains(&self.rings)
            && self.ring_size.is_power_of_two()
            && (RING_SIZE_MIN..=RING_SIZE_MAX).contains(&self.ring_size)
            && (BUFFER_SIZE_MIN..=BUFFER_SIZE_MAX).contains(&self.buffer_size)
            && self.secret.as_ref().is_none_or(|secret| secret.len() <= SECRET_MAX)
            && bytes <= region::BYTES_MAX
    }

    fn log2_ring_size(&self) -> u8 {
        u8::try_from(self.ring_size.ilog2()).unwrap_or(ring_memory::LOG2_MAX)
    }
}
