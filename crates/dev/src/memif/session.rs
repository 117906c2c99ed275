//! The handshake of both ends. They take turns: the slave sends a message, the master acknowledges.
//!
//! ```text
//! master                slave
//! HELLO        ──▶            what I can
//!              ◀──      INIT  which interface
//! ACK          ──▶
//!              ◀──      ADD_REGION, ADD_RING, …  and an ACK for each
//!              ◀──      CONNECT
//! CONNECTED    ──▶
//! ```
//!
//! Nothing here reads or writes a socket: a message goes in, what is to be said comes out.

mod master;
mod slave;

use std::os::fd::OwnedFd;
use std::sync::Arc;

pub(super) use master::{Master, hello};
pub(super) use slave::Slave;

use super::mailbox::Wire;
use super::msg::{Msg, Name};

/// The action after a message.
#[derive(Debug)]
pub(super) enum Reply {
    /// The peer gets an answer, perhaps with a descriptor.
    Send(Msg, Option<Arc<OwnedFd>>),
    /// Frames may flow in these rings, once the peer knows.
    Up(Option<Msg>, Vec<Wire>),
}

/// The peer's identity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub(super) program: Name,
    pub(super) interface: Name,
}

impl Peer {
    fn new(program: Name) -> Self {
        Self { program, interface: Name::new("") }
    }
}

/// Returns our own name.
fn program() -> Name {
    Name::new(concat!("pantala ", env!("CARGO_PKG_VERSION")))
}
