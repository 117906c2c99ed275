//! Errors in IPv4 headers.

use crate::NoRoom;
use core::fmt;

/// An error in an IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Fewer than 20 bytes.
    Short {
        /// Bytes there were.
        have: usize,
    },
    /// Not version 4.
    Version {
        /// The field.
        version: u8,
    },
    /// The header length is less than 20 bytes.
    HeaderLenShort {
        /// Value of the field, in bytes.
        header: usize,
    },
    /// The header is longer than the packet.
    HeaderTruncated {
        /// Value of the header length field, in bytes.
        header: usize,
        /// Bytes there were.
        have: usize,
    },
    /// The total length is less than the header's.
    TotalLenShort {
        /// Value of the total length field.
        total: u16,
        /// Value of the header length field, in bytes.
        header: usize,
    },
    /// The total length is more than the packet's.
    Truncated {
        /// Value of the total length field.
        total: u16,
        /// Bytes there were.
        have: usize,
    },
    /// The checksum does not match.
    Checksum {
        /// The field.
        found: u16,
    },
    /// To be emitted: the datagram would be longer than 65 535 bytes.
    TooLong {
        /// Length of its payload.
        payload: u16,
    },
    /// To be emitted: the buffer is too short.
    NoRoom(NoRoom),
}

impl From<NoRoom> for Error {
    fn from(no_room: NoRoom) -> Self {
        Self::NoRoom(no_room)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { have } => write!(f, "the packet has {have} bytes, an IPv4 header takes 20"),
            Self::Version { version } => write!(f, "version {version} instead of 4"),
            Self::HeaderLenShort { header } => write!(f, "a header length of {header} bytes, less than 20"),
            Self::HeaderTruncated { header, have } => {
                write!(f, "the packet has {have} bytes, its header {header}")
            }
            Self::TotalLenShort { total, header } => {
                write!(f, "a total length of {total} bytes, less than the header's {header}")
            }
            Self::Truncated { total, have } => {
                write!(f, "the packet has {have} bytes of a total length of {total}")
            }
            Self::Checksum { found } => write!(f, "the header checksum {found:#06x} is wrong"),
            Self::TooLong { payload } => write!(f, "a payload of {payload} bytes makes more than 65535"),
            Self::NoRoom(no_room) => no_room.fmt(f),
        }
    }
}

impl core::error::Error for Error {}
