//! The buffer of a capture: copies of packets one behind the other, in memory that never grows.

use super::Place;
use crate::base::time::Instant;
use crate::link::tables::IfIndex;

/// Bytes of a buffer at the least.
pub const BUFFER_MIN: usize = 64 << 10;
/// Bytes of a buffer at the most.
pub const BUFFER_MAX: usize = 64 << 20;
/// A buffer has a record for so many of its bytes: minimal frames fill both alike.
const BYTES_PER_RECORD: usize = 64;

/// A captured packet, besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When the turn began that captured it.
    pub at: Instant,
    /// Its device; 0 if it has none.
    pub ifindex: IfIndex,
    /// Where it was captured.
    pub place: Place,
    /// Bytes of the packet.
    pub len: u32,
}

/// Copies of packets.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    /// Each with the end of its bytes.
    records: Vec<(Record, usize)>,
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<(Record, usize)>() == 24);

/// A state of a buffer that it can return to.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    bytes: usize,
    records: usize,
}

impl Buffer {
    /// A buffer for `bytes` of packets, [`BUFFER_MIN`] to [`BUFFER_MAX`].
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.clamp(BUFFER_MIN, BUFFER_MAX);
        let records = Vec::with_capacity(bytes / BYTES_PER_RECORD);
        Self { bytes: Vec::with_capacity(bytes), records }
    }

    /// The packets, oldest first.
    pub fn packets(&self) -> impl Iterator<Item = (&Record, &[u8])> {
        let begins = core::iter::once(0).chain(self.records.iter().map(|(_, end)| *end));
        let records = self.records.iter().zip(begins);
        records.map(|((record, end), begin)| (record, self.bytes.get(begin..*end).unwrap_or_default()))
    }

    /// Whether more than a quarter of it is used.
    #[must_use]
    pub const fn is_filling(&self) -> bool {
        self.bytes.len() > self.bytes.capacity() / 4 || self.records.len() > self.records.capacity() / 4
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
    }

    /// Adds a packet; false if there is no room.
    pub(super) fn push(&mut self, record: Record, bytes: &[u8]) -> bool {
        let end = self.bytes.len() + bytes.len();
        let has_room = end <= self.bytes.capacity() && self.records.len() < self.records.capacity();
        if has_room {
            self.bytes.extend_from_slice(bytes);
            self.records.push((record, end));
        }
        has_room
    }

    pub(super) const fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), records: self.records.len() }
    }

    pub(super) fn back_to(&mut self, mark: &Mark) {
        self.bytes.truncate(mark.bytes);
        self.records.truncate(mark.records);
    }
}
