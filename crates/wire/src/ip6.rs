//! The IPv6 header (RFC 8200 §3). What may stand between it and the payload is in [`crate::ip6_ext`].

use crate::{NoRoom, Protocol, build};
use core::fmt;
use core::net::Ipv6Addr;
use core::ops::Range;

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 40;
/// Every link carries this much; no smaller path MTU is to be believed, and no ICMPv6 error is longer.
pub const MIN_MTU: u16 = 1280;

/// A packet whose length is right; nothing else has been judged.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    base: &'a [u8; HEADER_LEN],
    /// The packet, cut to its length.
    bytes: &'a [u8],
}

impl<'a> View<'a> {
    /// Checks version and length. Bytes behind the packet (Ethernet padding) are cut off.
    ///
    /// Jumbograms (RFC 2675) are not known: a payload length of 0 is one of 0.
    ///
    /// # Errors
    /// All of [`Error`].
    #[inline]
    pub fn new(packet: &'a [u8]) -> Result<Self, Error> {
        let view = Self::new_quoted(packet)?;
        let payload = view.payload_len();
        let bytes = packet
            .get(..HEADER_LEN + usize::from(payload))
            .ok_or(Error::Truncated { payload, have: packet.len() - HEADER_LEN })?;
        Ok(Self { bytes, ..view })
    }

    /// Parses a packet quoted in an ICMPv6 error: cut off anywhere behind its header, so that the payload
    /// length says nothing about the bytes that are there.
    ///
    /// # Errors
    /// [`Error::Short`], [`Error::Version`].
    #[inline]
    pub fn new_quoted(packet: &'a [u8]) -> Result<Self, Error> {
        let base: &[u8; HEADER_LEN] = packet.first_chunk().ok_or(Error::Short { have: packet.len() })?;
        let version = base[0] >> 4;
        if version != 6 {
            return Err(Error::Version { version });
        }
        Ok(Self { base, bytes: packet })
    }

    /// Traffic class: DSCP above, ECN in the low two bits.
    #[must_use]
    #[inline]
    pub const fn traffic_class(&self) -> u8 {
        self.base[0] << 4 | self.base[1] >> 4
    }

    /// Flow label, 20 bits.
    #[must_use]
    #[inline]
    pub const fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.base[1] & 0x0f, self.base[2], self.base[3]])
    }

    /// Length of what follows the header, extension headers included.
    #[must_use]
    #[inline]
    pub const fn payload_len(&self) -> u16 {
        u16::from_be_bytes([self.base[4], self.base[5]])
    }

    /// Next header: an extension header or the transport protocol.
    #[must_use]
    #[inline]
    pub const fn next_header(&self) -> Protocol {
        Protocol(self.base[6])
    }

    /// Hop limit.
    #[must_use]
    #[inline]
    pub const fn hop_limit(&self) -> u8 {
        self.base[7]
    }

    /// Source address.
    #[must_use]
    #[inline]
    pub fn src(&self) -> Ipv6Addr {
        Header::from_bytes(self.base).src
    }

    /// Destination address.
    #[must_use]
    #[inline]
    pub fn dst(&self) -> Ipv6Addr {
        Header::from_bytes(self.base).dst
    }

    /// The whole packet, cut to its length.
    #[must_use]
    #[inline]
    pub const fn packet(&self) -> &'a [u8] {
        self.bytes
    }

    /// Payload behind the header.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(HEADER_LEN..).unwrap_or_default()
    }

    /// Which bytes of the packet the payload is.
    #[must_use]
    #[inline]
    pub const fn payload_range(&self) -> Range<usize> {
        HEADER_LEN..self.bytes.len()
    }
}

/// An IPv6 header as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Traffic class: DSCP above, ECN in the low two bits.
    pub traffic_class: u8,
    /// Flow label; only its low 20 bits are emitted.
    pub flow_label: u32,
    /// Length of what follows the header, in bytes.
    pub payload_len: u16,
    /// Payload behind the header.
    pub next_header: Protocol,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl Header {
    /// The header of an ordinary packet.
    #[inline]
    #[must_use]
    pub const fn new(src: Ipv6Addr, dst: Ipv6Addr, next_header: Protocol, payload_len: u16) -> Self {
        Self { traffic_class: 0, flow_label: 0, payload_len, next_header, hop_limit: 64, src, dst }
    }

    /// Reads the header of `packet`.
    ///
    /// # Errors
    /// All of [`Error`].
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Self, Error> {
        View::new(packet).map(Self::from)
    }

    #[inline]
    fn from_bytes(b: &[u8; HEADER_LEN]) -> Self {
        let [v0, v1, v2, v3, l0, l1, next, hops, src_dst @ ..] = *b;
        let (src, dst) = addresses(&src_dst);
        Self {
            traffic_class: v0 << 4 | v1 >> 4,
            flow_label: u32::from_be_bytes([0, v1 & 0x0f, v2, v3]),
            payload_len: u16::from_be_bytes([l0, l1]),
            next_header: Protocol(next),
            hop_limit: hops,
            src,
            dst,
        }
    }

    /// The header as it stands on the wire.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let class = u32::from(self.traffic_class) << 20;
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&(6 << 28 | class | self.flow_label & 0x000f_ffff).to_be_bytes());
        bytes[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        (bytes[6], bytes[7]) = (self.next_header.0, self.hop_limit);
        bytes[8..24].copy_from_slice(&self.src.octets());
        bytes[24..].copy_from_slice(&self.dst.octets());
        bytes
    }

    /// Writes the header to the front of `out` and answers its length.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is shorter than [`HEADER_LEN`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        build::put(out, &self.to_bytes())
    }
}

impl From<View<'_>> for Header {
    fn from(view: View<'_>) -> Self {
        Self::from_bytes(view.base)
    }
}

/// Two addresses in a row.
#[inline]
pub(crate) fn addresses(bytes: &[u8; 32]) -> (Ipv6Addr, Ipv6Addr) {
    let [src, dst] = *bytes.as_chunks::<16>().0 else {
        return (Ipv6Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
    };
    (Ipv6Addr::from(src), Ipv6Addr::from(dst))
}

/// An error in an IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Fewer than 40 bytes.
    Short {
        /// Bytes there were.
        have: usize,
    },
    /// Not version 6.
    Version {
        /// The field.
        version: u8,
    },
    /// The payload length is more than what follows the header.
    Truncated {
        /// Value of the payload length field.
        payload: u16,
        /// Bytes there were behind the header.
        have: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { have } => write!(f, "the packet has {have} bytes, an IPv6 header takes 40"),
            Self::Version { version } => write!(f, "version {version} instead of 6"),
            Self::Truncated { payload, have } => {
                write!(f, "the packet has {have} bytes of a payload of {payload}")
            }
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests;
