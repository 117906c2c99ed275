//! GRE (RFC 2784), with keys and sequence numbers (RFC 2890): the header between an IP header and what that carries.

use core::fmt;

use crate::ether::EtherType;
use crate::{NoRoom, build};

/// Length of a header without options, and with all of them.
pub const HEADER_LEN: usize = 4;
/// See [`HEADER_LEN`].
pub const HEADER_LEN_MAX: usize = 16;

/// Bits of the first two bytes.
const CHECKSUM: u16 = 0x8000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
/// Routing, strict source route, and the first bit of the recursion count of RFC 1701.
const ROUTING: u16 = 0x4c00;
const VERSION: u16 = 0x0007;

/// A GRE header as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The type of what follows.
    pub protocol: EtherType,
    /// A checksum of the header and what follows stands in it.
    pub has_checksum: bool,
    /// Tells flows, or tunnels, between the same addresses apart.
    pub key: Option<u32>,
    /// Position in the flow.
    pub sequence: Option<u32>,
}

impl Header {
    /// Makes a header without checksum and sequence number.
    #[must_use]
    pub const fn new(protocol: EtherType, key: Option<u32>) -> Self {
        Self { protocol, has_checksum: false, key, sequence: None }
    }

    /// Returns its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a header is never empty")]
    #[must_use]
    pub const fn len(&self) -> usize {
        let options =
            self.has_checksum as usize + self.key.is_some() as usize + self.sequence.is_some() as usize;
        HEADER_LEN + 4 * options
    }

    /// Reads the header at the front of a packet. The checksum is not verified.
    ///
    /// # Errors
    /// All of [`Error`].
    //= https://www.rfc-editor.org/rfc/rfc2784#section-2.3
    //# A receiver MUST discard a packet where any of bits 1-5 are non-
    //# zero, unless that receiver implements RFC 1701.
    pub fn parse(packet: &[u8]) -> Result<Self, Error> {
        let have = packet.len();
        let &[f0, f1, p0, p1] = packet.first_chunk().ok_or(Error::Short { have })?;
        let flags = u16::from_be_bytes([f0, f1]);
        if flags & VERSION != 0 {
            return Err(Error::Version { version: f1 & 0x07 });
        }
        // RFC 2890 has given bits 2 and 3 a meaning.
        if flags & ROUTING != 0 {
            return Err(Error::Reserved { flags });
        }
        let mut at = HEADER_LEN;
        let mut field = |is_there: bool| {
            let here = at;
            at += if is_there { 4 } else { 0 };
            is_there.then(|| packet.get(here..).and_then(|rest| rest.first_chunk().copied()))
        };
        let [checksum, key, sequence] = [CHECKSUM, KEY, SEQUENCE].map(|bit| field(flags & bit != 0));
        let number = |field: Option<Option<[u8; 4]>>| match field {
            None => Ok(None),
            Some(bytes) => bytes.map(u32::from_be_bytes).map(Some).ok_or(Error::Short { have }),
        };
        number(checksum)?;
        Ok(Self {
            protocol: EtherType(u16::from_be_bytes([p0, p1])),
            has_checksum: flags & CHECKSUM != 0,
            key: number(key)?,
            sequence: number(sequence)?,
        })
    }

    /// Writes the header to the front of `out` and answers its length; zeros in the place of a checksum.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is shorter than [`Self::len`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let bit = |is_set: bool, bit: u16| if is_set { bit } else { 0 };
        let flags = bit(self.has_checksum, CHECKSUM)
            | bit(self.key.is_some(), KEY)
            | bit(self.sequence.is_some(), SEQUENCE);
        let ([f0, f1], [p0, p1]) = (flags.to_be_bytes(), self.protocol.0.to_be_bytes());
        let mut at = build::put(out, &[f0, f1, p0, p1])?;
        for field in [self.has_checksum.then_some(0), self.key, self.sequence].into_iter().flatten() {
            at += build::put(out.get_mut(at..).unwrap_or_default(), &field.to_be_bytes())?;
        }
        Ok(at)
    }
}

/// Why bytes are no GRE header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Fewer bytes than the flags say.
    Short {
        /// Bytes there were.
        have: usize,
    },
    /// A version other than 0, such as that of PPTP.
    Version {
        /// The version.
        version: u8,
    },
    /// Bits of RFC 1701 that must be zero.
    Reserved {
        /// The first two bytes.
        flags: u16,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { have } => write!(f, "the packet has {have} bytes, which its GRE header exceeds"),
            Self::Version { version } => write!(f, "GRE of version {version}, not 0"),
            Self::Reserved { flags } => write!(f, "GRE flags {flags:#06x} with reserved bits"),
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// Each combination of options, and its bytes.
    fn all() -> [(Header, Vec<u8>); 4] {
        let ip4 = Header::new(EtherType::IPV4, None);
        [
            (ip4, vec![0, 0, 8, 0]),
            (Header { key: Some(0x0102_0304), ..ip4 }, vec![0x20, 0, 8, 0, 1, 2, 3, 4]),
            (
                Header { has_checksum: true, sequence: Some(9), ..ip4 },
                vec![0x90, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 9],
            ),
            (
                Header { has_checksum: true, key: Some(7), sequence: Some(9), protocol: EtherType::IPV6 },
                vec![0xb0, 0, 0x86, 0xdd, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 9],
            ),
        ]
    }

    #[test]
    fn headers_are_written_and_read_byte_by_byte() {
        for (header, bytes) in all() {
            let mut out = [0xee; HEADER_LEN_MAX];
            assert_eq!((header.emit(&mut out), header.len()), (Ok(bytes.len()), bytes.len()));
            assert_eq!(out[..bytes.len()], bytes);
            assert_eq!(Header::parse(&[&bytes[..], &[0x45]].concat()), Ok(header));
            for cut in 0..bytes.len() {
                assert_eq!(Header::parse(&bytes[..cut]), Err(Error::Short { have: cut }));
                assert!(header.emit(&mut out[..cut]).is_err());
            }
        }
    }

    #[test]
    fn other_versions_and_reserved_bits_are_refused_and_ignored_ones_are_ignored() {
        for bit in 0..16_u32 {
            let flags = 1_u16 << bit;
            let [f0, f1] = flags.to_be_bytes();
            let bytes = [&[f0, f1, 8, 0][..], &[0; 12]].concat();
            let read = Header::parse(&bytes);
            match bit {
                0..=2 => assert_eq!(read, Err(Error::Version { version: f1 }), "bit {bit}"),
                10 | 11 | 14 => assert_eq!(read, Err(Error::Reserved { flags }), "bit {bit}"),
                12 | 13 | 15 => assert_eq!(read.map(|header| header.len()), Ok(8), "bit {bit}"),
                _ => assert_eq!(read, Ok(Header::new(EtherType::IPV4, None)), "bit {bit}"),
            }
        }
    }
}
