//! Unmodified programs and their sockets.

use core::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Unmodified programs that have sockets of this stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Programs {
    /// The processes, by their number.
    pub programs: Vec<Program>,
    /// Counts of all programs since the start.
    pub counters: ProgramCounters,
    /// Sockets that a user may have at a time.
    pub sockets_max: u64,
    /// Requests that a user may have under way at a time.
    pub requests_max: u64,
}

/// A process that has sockets of this stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct Program {
    /// Its number.
    pub pid: i32,
    /// Its name in the kernel: 15 bytes at the most.
    pub command: String,
    /// The number of its user.
    pub uid: u32,
    /// Sockets that it has made, and connections that were accepted for it.
    pub sockets: u64,
    /// Bytes that wait in its Unix sockets, in both directions, with what the kernel adds to them.
    pub queued_bytes: u64,
    /// Its counts since it was first seen.
    pub counters: ProgramCounters,
}

/// Counts of programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct ProgramCounters {
    /// Requests: of sockets, addresses and options.
    pub requests: u64,
    /// Requests that were refused because the user may not, or is at a limit.
    pub refused: u64,
    /// Reads and writes of its Unix sockets that moved data.
    pub transfers: u64,
    /// Bytes from it to the network.
    pub sent_bytes: u64,
    /// Bytes from the network to it.
    pub received_bytes: u64,
}

/// A part of the sockets of programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct ProgramSockets {
    /// The sockets, in the order in which they were made.
    pub sockets: Vec<ProgramSocket>,
    /// Where the next part begins; `None` if this was the last.
    pub next: Option<String>,
}

/// A socket of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
pub struct ProgramSocket {
    /// Its number.
    pub id: u64,
    /// The process that has made it; of an accepted connection, its listener's.
    pub pid: i32,
    /// The name of the process.
    pub command: String,
    /// Its kind.
    pub kind: ProgramSocketKind,
    /// Its own address, once it has one.
    pub local: Option<SocketAddr>,
    /// Its peer.
    pub foreign: Option<SocketAddr>,
}

/// The kind of a program's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "admin", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProgramSocketKind {
    /// A TCP socket that is bound, and listens or will.
    Listener,
    /// A TCP connection, or one that begins.
    Connection,
    /// A UDP socket.
    Datagrams,
}
