//! UDP (RFC 768).

use crate::checksum::Sum;
use crate::{NoRoom, Protocol, build};
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 8;

/// A UDP header as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Port of the sender, or 0.
    pub src_port: u16,
    /// Port of the receiver.
    pub dst_port: u16,
    /// Header and payload, in bytes; at least 8.
    pub len: u16,
    /// Checksum; 0 for none.
    pub checksum: u16,
}

impl Header {
    /// Reads the header of `segment`, which is what IP says the UDP datagram is; UDP may say it is shorter.
    /// The checksum is read, not verified: see [`verify_v4`] and [`verify_v6`].
    ///
    /// # Errors
    /// All of [`Error`].
    #[inline]
    pub fn parse(segment: &[u8]) -> Result<Self, Error> {
        let have = segment.len();
        let b: &[u8; HEADER_LEN] = segment.first_chunk().ok_or(Error::Short { have })?;
        let header = Self::from_bytes(b);
        match usize::from(header.len) {
            ..HEADER_LEN => Err(Error::LenShort { len: header.len }),
            len if len > have => Err(Error::Truncated { len: header.len, have }),
            _ => Ok(header),
        }
    }

    /// Reads the four fields without judging the length; for datagrams quoted in ICMP errors.
    #[must_use]
    #[inline]
    pub const fn from_bytes(b: &[u8; HEADER_LEN]) -> Self {
        Self {
            src_port: u16::from_be_bytes([b[0], b[1]]),
            dst_port: u16::from_be_bytes([b[2], b[3]]),
            len: u16::from_be_bytes([b[4], b[5]]),
            checksum: u16::from_be_bytes([b[6], b[7]]),
        }
    }

    /// The header as it stands on the wire.
    #[must_use]
    #[inline]
    pub const fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let ([s0, s1], [d0, d1]) = (self.src_port.to_be_bytes(), self.dst_port.to_be_bytes());
        let ([l0, l1], [c0, c1]) = (self.len.to_be_bytes(), self.checksum.to_be_bytes());
        [s0, s1, d0, d1, l0, l1, c0, c1]
    }

    /// Writes the header to the front of `out` and answers its length.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is shorter than [`HEADER_LEN`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        build::put(out, &self.to_bytes())
    }

    /// Returns the header with its checksum over IPv4. `payload` is what follows it.
    #[inline]
    #[must_use]
    pub fn with_checksum_v4(self, src: Ipv4Addr, dst: Ipv4Addr, payload: &[u8]) -> Self {
        self.with_checksum(Sum::pseudo_v4(src, dst, Protocol::UDP, self.len), payload)
    }

    /// Returns the header with its checksum over IPv6.
    #[inline]
    #[must_use]
    pub fn with_checksum_v6(self, src: Ipv6Addr, dst: Ipv6Addr, payload: &[u8]) -> Self {
        self.with_checksum(Sum::pseudo_v6(src, dst, Protocol::UDP, u32::from(self.len)), payload)
    }

    #[inline]
    fn with_checksum(self, pseudo: Sum, payload: &[u8]) -> Self {
        let header = Self { checksum: 0, ..self }.to_bytes();
        Self { checksum: pseudo.bytes(&header).bytes(payload).checksum_never_zero(), ..self }
    }
}

/// Whether a datagram (header and payload, of the length the header says) is intact over IPv4. One without a
/// checksum is.
#[inline]
#[must_use]
pub fn verify_v4(src: Ipv4Addr, dst: Ipv4Addr, datagram: &[u8]) -> bool {
    let Ok(len) = u16::try_from(datagram.len()) else { return false };
    has_no_checksum(datagram) || Sum::pseudo_v4(src, dst, Protocol::UDP, len).bytes(datagram).is_intact()
}

/// Verifies a datagram over IPv6, where one without a checksum is invalid.
//= https://www.rfc-editor.org/rfc/rfc8200#section-8.1
//# IPv6 receivers must discard UDP packets containing a
//# zero checksum and should log the error.
#[inline]
#[must_use]
pub fn verify_v6(src: Ipv6Addr, dst: Ipv6Addr, datagram: &[u8]) -> bool {
    let Ok(len) = u32::try_from(datagram.len()) else { return false };
    !has_no_checksum(datagram) && Sum::pseudo_v6(src, dst, Protocol::UDP, len).bytes(datagram).is_intact()
}

#[inline]
fn has_no_checksum(datagram: &[u8]) -> bool {
    datagram.get(6..HEADER_LEN) == Some(&[0, 0])
}

/// An error in a UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Fewer than 8 bytes.
    Short {
        /// Bytes there were.
        have: usize,
    },
    /// The length field is less than the header's length.
    LenShort {
        /// The field.
        len: u16,
    },
    /// The length field is more than IP carries.
    Truncated {
        /// The field.
        len: u16,
        /// Bytes there were.
        have: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { have } => write!(f, "the datagram has {have} bytes, a UDP header takes 8"),
            Self::LenShort { len } => write!(f, "a length of {len} bytes, less than the header's 8"),
            Self::Truncated { len, have } => write!(f, "the datagram has {have} bytes of a length of {len}"),
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests;
