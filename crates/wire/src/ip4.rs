//! The IPv4 header (RFC 791).

mod error;
mod options;

pub use error::Error;
pub use options::{
    OPTIONS_MAX, Opt, OptionError, OptionIter, Options, Route, Summary, TimestampKind, Timestamps,
};

use crate::build::Writer;
use crate::{Protocol, checksum};
use core::net::Ipv4Addr;
use core::ops::Range;

/// Length of the header without options, in bytes.
pub const HEADER_LEN: usize = 20;
/// Length of the longest header.
pub const HEADER_MAX: usize = 60;
/// The datagram every host must be able to receive, and the largest ICMP error.
pub const MIN_REASSEMBLY_LEN: usize = 576;
/// Every link must carry this much; no smaller path MTU is to be believed.
pub const MIN_MTU: u16 = 68;

/// Don't-fragment bit of the word of flags and fragment offset.
const DF: u16 = 0x4000;
/// More-fragments bit.
const MF: u16 = 0x2000;
/// Fragment offset, in units of eight bytes.
const OFFSET: u16 = 0x1fff;

pub use checksum::verify_header_20 as verify_checksum_20;

/// A datagram whose lengths are right; nothing else has been judged.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    base: &'a [u8; HEADER_LEN],
    /// The datagram, cut to its total length.
    bytes: &'a [u8],
    header_len: usize,
}

impl<'a> View<'a> {
    /// Checks version and lengths. Bytes behind the datagram (Ethernet padding) are cut off.
    ///
    /// # Errors
    /// All of [`Error`] but the checksum.
    //= https://www.rfc-editor.org/rfc/rfc1812#section-5.2.2
    #[inline]
    pub fn new(packet: &'a [u8]) -> Result<Self, Error> {
        let view = Self::new_quoted(packet)?;
        let total = view.total_len();
        if usize::from(total) < view.header_len {
            return Err(Error::TotalLenShort { total, header: view.header_len });
        }
        let bytes = packet.get(..usize::from(total)).ok_or(Error::Truncated { total, have: packet.len() })?;
        Ok(Self { bytes, ..view })
    }

    /// Parses a datagram quoted in an ICMP error: cut off anywhere behind its header, so that the total length
    /// says nothing about the bytes that are there.
    ///
    /// # Errors
    /// [`Error::Short`], [`Error::Version`], [`Error::HeaderLenShort`], [`Error::HeaderTruncated`].
    #[inline]
    pub fn new_quoted(packet: &'a [u8]) -> Result<Self, Error> {
        let have = packet.len();
        let base: &[u8; HEADER_LEN] = packet.first_chunk().ok_or(Error::Short { have })?;
        let version = base[0] >> 4;
        let header_len = usize::from(base[0] & 0x0f) * 4;
        if version != 4 {
            return Err(Error::Version { version });
        }
        if header_len < HEADER_LEN {
            return Err(Error::HeaderLenShort { header: header_len });
        }
        if header_len > have {
            return Err(Error::HeaderTruncated { header: header_len, have });
        }
        Ok(Self { base, bytes: packet, header_len })
    }

    /// Length of the header with options, in bytes: 20 to 60.
    #[must_use]
    #[inline]
    pub const fn header_len(&self) -> usize {
        self.header_len
    }

    /// Whether there are option bytes.
    #[must_use]
    #[inline]
    pub const fn has_options(&self) -> bool {
        self.header_len != HEADER_LEN
    }

    /// Type of service: DSCP above, ECN in the low two bits.
    #[must_use]
    #[inline]
    pub const fn tos(&self) -> u8 {
        self.base[1]
    }

    /// Header and payload, in bytes.
    #[must_use]
    #[inline]
    pub const fn total_len(&self) -> u16 {
        u16::from_be_bytes([self.base[2], self.base[3]])
    }

    /// Identification, by which fragments find each other.
    #[must_use]
    #[inline]
    pub const fn id(&self) -> u16 {
        u16::from_be_bytes([self.base[4], self.base[5]])
    }

    #[inline]
    const fn fragment_word(&self) -> u16 {
        u16::from_be_bytes([self.base[6], self.base[7]])
    }

    /// Must not be fragmented.
    #[must_use]
    #[inline]
    pub const fn dont_fragment(&self) -> bool {
        self.fragment_word() & DF != 0
    }

    /// Other fragments follow.
    #[must_use]
    #[inline]
    pub const fn more_fragments(&self) -> bool {
        self.fragment_word() & MF != 0
    }

    /// Where the payload belongs in the whole datagram's, in bytes: a multiple of eight.
    #[must_use]
    #[inline]
    pub const fn fragment_offset(&self) -> u16 {
        (self.fragment_word() & OFFSET) << 3
    }

    /// Not a whole datagram.
    #[must_use]
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        self.fragment_word() & (MF | OFFSET) != 0
    }

    /// Time to live, in hops.
    #[must_use]
    #[inline]
    pub const fn ttl(&self) -> u8 {
        self.base[8]
    }

    /// Protocol of the payload.
    #[must_use]
    #[inline]
    pub const fn protocol(&self) -> Protocol {
        Protocol(self.base[9])
    }

    /// The checksum field, right or not.
    #[must_use]
    #[inline]
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.base[10], self.base[11]])
    }

    /// Source address.
    #[must_use]
    #[inline]
    pub const fn src(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.base[12], self.base[13], self.base[14], self.base[15])
    }

    /// Destination address.
    #[must_use]
    #[inline]
    pub const fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.base[16], self.base[17], self.base[18], self.base[19])
    }

    /// The header with its options.
    #[must_use]
    #[inline]
    pub fn header(&self) -> &'a [u8] {
        self.bytes.get(..self.header_len).unwrap_or_default()
    }

    /// The option bytes, padding included.
    #[must_use]
    #[inline]
    pub fn option_bytes(&self) -> &'a [u8] {
        self.bytes.get(HEADER_LEN..self.header_len).unwrap_or_default()
    }

    /// The options one by one.
    #[must_use]
    #[inline]
    pub fn options(&self) -> OptionIter<'a> {
        OptionIter::new(self.option_bytes())
    }

    /// Returns the payload.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.header_len..).unwrap_or_default()
    }

    /// Which bytes of the packet the payload is.
    #[must_use]
    #[inline]
    pub const fn payload_range(&self) -> Range<usize> {
        self.header_len..self.bytes.len()
    }

    /// Whether the header is intact. One without options takes the short way, [`verify_checksum_20`].
    #[must_use]
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        if self.has_options() {
            checksum::Sum::new().bytes(self.header()).is_intact()
        } else {
            verify_checksum_20(self.base)
        }
    }
}

/// An IPv4 header as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of service: DSCP above, ECN in the low two bits.
    pub tos: u8,
    /// Length of what follows the header, in bytes.
    pub payload_len: u16,
    /// Identification.
    pub id: u16,
    /// Must not be fragmented.
    pub dont_fragment: bool,
    /// Other fragments follow.
    pub more_fragments: bool,
    /// Fragment offset in bytes; emitted in units of eight, what is left over is lost.
    pub fragment_offset: u16,
    /// Time to live, in hops.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: Protocol,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Options, padded to a multiple of four.
    pub options: Options,
}

impl Header {
    /// The header of an ordinary datagram: not to be fragmented, and so without an identification.
    //= https://www.rfc-editor.org/rfc/rfc6864#section-4.1
    //# Originating sources MAY set the IPv4 ID field of atomic datagrams
    //# to any value.
    #[inline]
    #[must_use]
    pub const fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol, payload_len: u16) -> Self {
        Self {
            tos: 0,
            payload_len,
            id: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol,
            src,
            dst,
            options: Options::NONE,
        }
    }

    /// Reads the header of `packet` and verifies its checksum. The options are taken as bytes, not judged.
    ///
    /// # Errors
    /// All of [`Error`].
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Self, Error> {
        let view = View::new(packet)?;
        if !view.verify_checksum() {
            return Err(Error::Checksum { found: view.checksum() });
        }
        Ok(Self::from(view))
    }

    /// Length of the header with options, in bytes.
    #[inline]
    #[must_use]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Header and payload in bytes; `None` above 65 535.
    #[inline]
    #[must_use]
    pub fn total_len(&self) -> Option<u16> {
        u16::try_from(self.header_len()).ok()?.checked_add(self.payload_len)
    }

    /// Writes the header with its checksum to the front of `out` and answers its length.
    ///
    /// # Errors
    /// [`Error::NoRoom`] if `out` is too short, [`Error::TooLong`] if the datagram would be.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, Error> {
        if let Some(bytes) = self.plain() {
            return Ok(Writer::new(out).put(&bytes).map(|()| HEADER_LEN)?);
        }
        let mut writer = Writer::new(out);
        writer.put(&self.base()?)?;
        writer.put(self.options.as_bytes())?;
        let len = writer.len();
        let header = writer.written();
        let sum = checksum::Sum::new().bytes(header).checksum();
        if let Some(field) = header.get_mut(10..12) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
        Ok(len)
    }

    /// The header with its checksum, if it has no options; `None` if it has, or the datagram would be too long.
    #[inline(always)]
    #[must_use]
    pub fn plain(&self) -> Option<[u8; HEADER_LEN]> {
        let mut bytes = self.base().ok().filter(|_| self.options.is_empty())?;
        let [high, low] = checksum::Sum::new().bytes(&bytes).checksum().to_be_bytes();
        (bytes[10], bytes[11]) = (high, low);
        Some(bytes)
    }

    /// The first twenty bytes, with a checksum of zero.
    #[inline(always)]
    fn base(&self) -> Result<[u8; HEADER_LEN], Error> {
        let total = self.total_len().ok_or(Error::TooLong { payload: self.payload_len })?;
        let [l0, l1] = total.to_be_bytes();
        let [i0, i1] = self.id.to_be_bytes();
        let [f0, f1] = self.fragment_word().to_be_bytes();
        let [s0, s1, s2, s3] = self.src.octets();
        let [d0, d1, d2, d3] = self.dst.octets();
        let version_ihl = 0x40 | (self.options.words() + 5);
        let protocol = self.protocol.0;
        Ok([
            version_ihl,
            self.tos,
            l0,
            l1,
            i0,
            i1,
            f0,
            f1,
            self.ttl,
            protocol,
            0,
            0,
            s0,
            s1,
            s2,
            s3,
            d0,
            d1,
            d2,
            d3,
        ])
    }

    #[inline]
    const fn fragment_word(&self) -> u16 {
        let df = if self.dont_fragment { DF } else { 0 };
        let mf = if self.more_fragments { MF } else { 0 };
        df | mf | self.fragment_offset >> 3
    }
}

impl From<View<'_>> for Header {
    fn from(view: View<'_>) -> Self {
        let payload = usize::from(view.total_len()).saturating_sub(view.header_len());
        Self {
            tos: view.tos(),
            payload_len: u16::try_from(payload).unwrap_or(u16::MAX),
            id: view.id(),
            dont_fragment: view.dont_fragment(),
            more_fragments: view.more_fragments(),
            fragment_offset: view.fragment_offset(),
            ttl: view.ttl(),
            protocol: view.protocol(),
            src: view.src(),
            dst: view.dst(),
            options: Options::from_bytes(view.option_bytes()).unwrap_or(Options::NONE),
        }
    }
}

#[cfg(test)]
mod tests;
