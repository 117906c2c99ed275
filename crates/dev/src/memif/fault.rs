//! Faults of a peer.

use core::sync::atomic::{AtomicU64, Ordering};
use std::path::PathBuf;

use rustix::io::Errno;

use super::msg::{NoMessage, VERSION};

/// Why a connection was refused or ended. Nothing of what the peer offered is used any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The control channel was closed.
    #[error("the peer hung up")]
    HungUp,
    /// The peer said farewell.
    #[error("the peer disconnected: {0}")]
    Disconnected(String),
    /// We said farewell.
    #[error("the interface was closed")]
    Closed,
    /// Nothing was heard for too long.
    #[error("the peer did not finish the handshake in time")]
    TimedOut,
    /// A message was not of the one length that there is.
    #[error("a message has {0} bytes instead of 128")]
    MessageLength(usize),
    /// A message was of no known type.
    #[error("unknown message type {0}")]
    MessageType(u16),
    /// A message was not the one that was due.
    #[error("{got} received, {due} expected")]
    Order {
        /// The message received.
        got: &'static str,
        /// The message expected.
        due: &'static str,
    },
    /// The peer does not speak our version.
    #[error("the peer speaks versions {:#x} to {:#x}, not {VERSION:#x}", .0, .1)]
    Version(u16, u16),
    /// The peer wants frames without an Ethernet header.
    #[error("the peer wants mode {0}, not Ethernet (0)")]
    Mode(u8),
    /// No interface has this id.
    #[error("no interface of this socket has id {0}")]
    NoSuchId(u32),
    /// Too many stand at the socket without having said what they want.
    #[error("too many peers have not yet said which interface they want")]
    Crowd,
    /// The interface has a peer already.
    #[error("id {0} is connected already")]
    Busy(u32),
    /// The secrets differ.
    #[error("wrong secret")]
    Secret,
    /// A message came without the descriptor that belongs to it.
    #[error("{0} received without a file descriptor")]
    NoDescriptor(&'static str),
    /// A ring's descriptor is something else.
    #[error("the descriptor of a ring is not an eventfd")]
    NoEventfd,
    /// Regions are numbered from 0, and there are not so many.
    #[error("region {0} is not the next one")]
    RegionIndex(u16),
    /// A region is empty, or there is too much memory.
    #[error("region of {0} bytes")]
    RegionSize(u64),
    /// The file ends before the region does.
    #[error("region of {claimed} bytes in a file of {file}")]
    RegionShort {
        /// The peer's claim.
        claimed: u64,
        /// The actual value.
        file: u64,
    },
    /// The file could be made shorter while we read it, which would kill us (SIGBUS).
    #[error("a region could shrink: it must be a memfd with F_SEAL_SHRINK, not in huge pages")]
    Unsealed,
    /// A ring of that number is there already, or there may not be so many.
    #[error("ring {0} exists already, or exceeds the number of rings")]
    RingIndex(u16),
    /// A ring is too short or too long.
    #[error("ring of 2^{0} descriptors")]
    RingSize(u8),
    /// A ring lies outside its region, or crooked.
    #[error("ring at {offset} of region {region}, where it does not fit")]
    RingPlace {
        /// The region.
        region: u16,
        /// The offset, bytes.
        offset: u32,
    },
    /// A ring does not begin with the cookie.
    #[error("ring {0} does not begin with memif's cookie")]
    Cookie(u16),
    /// Frames are to have a private header.
    #[error("private header of {0} bytes")]
    PrivateHeader(u16),
    /// The peer has fewer rings than we have, so that some of our CPUs could not send.
    #[error("the peer has {theirs} rings for what we send, and we have {ours}: set rings to the same number")]
    FewRings {
        /// The peer's.
        theirs: usize,
        /// Ours.
        ours: usize,
    },
    /// An index of the peer's jumped further than the ring is long.
    #[error("the index of a ring jumped to {theirs} while ours is {ours}")]
    IndexJump {
        /// The peer's.
        theirs: u16,
        /// Ours.
        ours: u16,
    },
    /// The peer's eventfd is full, which no rings of ours make it.
    #[error("the peer's eventfd is full: signalling it could block")]
    FullBell,
    /// An empty buffer of the peer's lies outside its memory.
    #[error("the peer gave an empty buffer outside its memory")]
    Buffer,
    /// A slave found no master at the socket, or may not use it.
    #[error("cannot connect to {}: {why}; {}", .path.display(), what_to_do(*.why))]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The kernel's error.
        why: Errno,
    },
    /// The system refused.
    #[error("{doing}: {why}")]
    System {
        /// The operation.
        doing: &'static str,
        /// Why not.
        why: String,
    },
}

impl Fault {
    /// For `map_err`.
    pub(super) fn system<E: Into<std::io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |why| Self::System { doing, why: why.into().to_string() }
    }

    /// Whether the peer should be told.
    pub(super) const fn is_news_to_the_peer(&self) -> bool {
        !matches!(self, Self::HungUp | Self::Disconnected(_))
    }
}

/// Returns the remedy for a refused connection.
const fn what_to_do(why: Errno) -> &'static str {
    match why {
        Errno::ACCESS | Errno::PERM => {
            "only its owner, its group and root may: let the master's `group=` or `mode=` admit this user"
        }
        Errno::NOENT => "no master has made it yet",
        Errno::CONNREFUSED => "no master listens there",
        Errno::PROTOTYPE => "this is the socket of something else, not of memif",
        _ => "it is tried again",
    }
}

impl From<NoMessage> for Fault {
    fn from(what: NoMessage) -> Self {
        match what {
            NoMessage::Length(bytes) => Self::MessageLength(bytes),
            NoMessage::Type(other) => Self::MessageType(other),
        }
    }
}

/// Faults in the rings of an interface, by name. Frames of the first three were dropped; because of the others the
/// connection ended.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct FaultCounts {
    /// Received descriptors that point outside the peer's memory.
    pub bad_descriptor: u64,
    /// Received frames that are empty or longer than any.
    pub bad_length: u64,
    /// Received chains that do not end in what was published.
    pub bad_chain: u64,
    /// Indices that jumped.
    pub index_jump: u64,
    /// Empty buffers outside the peer's memory.
    pub bad_buffer: u64,
}

impl FaultCounts {
    /// Frames that were dropped for it.
    pub(super) const fn frames(&self) -> u64 {
        self.bad_descriptor + self.bad_length + self.bad_chain
    }

    fn plus(self, other: Self) -> Self {
        Self {
            bad_descriptor: self.bad_descriptor + other.bad_descriptor,
            bad_length: self.bad_length + other.bad_length,
            bad_chain: self.bad_chain + other.bad_chain,
            index_jump: self.index_jump + other.index_jump,
            bad_buffer: self.bad_buffer + other.bad_buffer,
        }
    }
}

impl core::iter::Sum for FaultCounts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::plus)
    }
}

/// [`FaultCounts`] as they are counted: by the owner of a ring, read by any thread.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) bad_descriptor: AtomicU64,
    pub(super) bad_length: AtomicU64,
    pub(super) bad_chain: AtomicU64,
    index_jump: AtomicU64,
    bad_buffer: AtomicU64,
}

impl Counters {
    #[cold]
    pub(super) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a fault that ends the connection.
    pub(super) fn fatal(&self, fault: &Fault) {
        match fault {
            Fault::IndexJump { .. } => Self::add(&self.index_jump),
            Fault::Buffer => Self::add(&self.bad_buffer),
            _ => {}
        }
    }

    pub(super) fn read(&self) -> FaultCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FaultCounts {
            bad_descriptor: read(&self.bad_descriptor),
            bad_length: read(&self.bad_length),
            bad_chain: read(&self.bad_chain),
            index_jump: read(&self.index_jump),
            bad_buffer: read(&self.bad_buffer),
        }
    }
}
