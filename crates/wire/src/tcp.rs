//! The TCP header (RFC 9293 §3.1).

mod flags;
mod options;

pub use flags::Flags;
pub use options::{
    Cookie, OPTIONS_MAX, Opt, OptionError, OptionIter, Options, SIGNATURE_LEN, SackBlock, SackBlocks,
    UserTimeout, window_scale,
};

use crate::build::Writer;
use crate::checksum::Sum;
use crate::{NoRoom, Protocol};
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Length of the header without options, in bytes.
pub const HEADER_LEN: usize = 20;
/// Length of the longest header.
pub const HEADER_MAX: usize = 60;
/// Length of one with timestamps, and no other option.
pub const STAMPED_LEN: usize = HEADER_LEN + options::STAMPS_PADDED;
/// Where the checksum field stands in the header.
pub const CHECKSUM_OFFSET: usize = 16;

/// A segment whose header length is right; nothing else has been judged.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    base: &'a [u8; HEADER_LEN],
    segment: &'a [u8],
    header_len: usize,
}

impl<'a> View<'a> {
    /// Checks the header length of `segment`, which is what IP says the TCP segment is.
    ///
    /// # Errors
    /// All of [`Error`] but that of the options.
    #[inline]
    pub fn new(segment: &'a [u8]) -> Result<Self, Error> {
        let have = segment.len();
        let base: &[u8; HEADER_LEN] = segment.first_chunk().ok_or(Error::Short { have })?;
        let header_len = usize::from(base[12] >> 4) * 4;
        match header_len {
            ..HEADER_LEN => Err(Error::HeaderLenShort { header: header_len }),
            _ if header_len > have => Err(Error::HeaderTruncated { header: header_len, have }),
            _ => Ok(Self { base, segment, header_len }),
        }
    }

    /// Port of the sender.
    #[must_use]
    #[inline]
    pub const fn src_port(&self) -> u16 {
        u16::from_be_bytes([self.base[0], self.base[1]])
    }

    /// Port of the receiver.
    #[must_use]
    #[inline]
    pub const fn dst_port(&self) -> u16 {
        u16::from_be_bytes([self.base[2], self.base[3]])
    }

    /// Sequence number of the first byte, or of the SYN.
    #[must_use]
    #[inline]
    pub const fn seq(&self) -> u32 {
        u32::from_be_bytes([self.base[4], self.base[5], self.base[6], self.base[7]])
    }

    /// The sequence number the sender expects next, if [`Flags::ACK`] is set.
    #[must_use]
    #[inline]
    pub const fn ack(&self) -> u32 {
        u32::from_be_bytes([self.base[8], self.base[9], self.base[10], self.base[11]])
    }

    /// Header length in bytes, 20 to 60.
    #[must_use]
    #[inline]
    pub const fn header_len(&self) -> usize {
        self.header_len
    }

    /// Control bits.
    #[must_use]
    #[inline]
    pub const fn flags(&self) -> Flags {
        Flags(self.base[13])
    }

    /// Window as it stands in the header, not scaled.
    #[must_use]
    #[inline]
    pub const fn window(&self) -> u16 {
        u16::from_be_bytes([self.base[14], self.base[15]])
    }

    /// The checksum field, right or not.
    #[must_use]
    #[inline]
    pub const fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.base[16], self.base[17]])
    }

    /// Urgent pointer, if [`Flags::URG`] is set.
    #[must_use]
    #[inline]
    pub const fn urgent(&self) -> u16 {
        u16::from_be_bytes([self.base[18], self.base[19]])
    }

    /// The option bytes, padding included.
    #[must_use]
    #[inline]
    pub fn option_bytes(&self) -> &'a [u8] {
        self.segment.get(HEADER_LEN..self.header_len).unwrap_or_default()
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
        self.segment.get(self.header_len..).unwrap_or_default()
    }

    /// Length in sequence space: payload, plus one for SYN and one for FIN.
    //= https://www.rfc-editor.org/rfc/rfc9293#section-3.4
    #[must_use]
    #[inline]
    pub fn seq_len(&self) -> usize {
        self.payload().len() + usize::from(self.flags().syn()) + usize::from(self.flags().fin())
    }

    /// Whether header and payload are intact over IPv4.
    #[must_use]
    #[inline]
    pub fn verify_v4(&self, src: Ipv4Addr, dst: Ipv4Addr) -> bool {
        let len = u16::try_from(self.segment.len());
        len.is_ok_and(|len| Sum::pseudo_v4(src, dst, Protocol::TCP, len).bytes(self.segment).is_intact())
    }

    /// Whether header and payload are intact over IPv6.
    #[must_use]
    #[inline]
    pub fn verify_v6(&self, src: Ipv6Addr, dst: Ipv6Addr) -> bool {
        let len = u32::try_from(self.segment.len());
        len.is_ok_and(|len| Sum::pseudo_v6(src, dst, Protocol::TCP, len).bytes(self.segment).is_intact())
    }
}

/// A TCP header as a value. The checksum is not part of it: it is verified on a [`View`] and filled in by
/// [`Header::emit_v4`] and [`Header::emit_v6`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Port of the sender.
    pub src_port: u16,
    /// Port of the receiver.
    pub dst_port: u16,
    /// Sequence number of the first byte, or of the SYN.
    pub seq: u32,
    /// The sequence number expected next; 0 without [`Flags::ACK`].
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// Window as it stands in the header, not scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

impl Header {
    /// Reads the header of `segment` with its options.
    ///
    /// # Errors
    /// All of [`Error`].
    #[inline]
    pub fn parse(segment: &[u8]) -> Result<Self, Error> {
        let view = View::new(segment)?;
        Ok(Self {
            src_port: view.src_port(),
            dst_port: view.dst_port(),
            seq: view.seq(),
            ack: view.ack(),
            flags: view.flags(),
            window: view.window(),
            urgent: view.urgent(),
            options: Options::parse(view.option_bytes())?,
        })
    }

    /// Length of the header with options, in bytes.
    #[inline]
    #[must_use]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Writes the header with a checksum of zero to the front of `out` and answers its length.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is too short.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        self.write(out).map(|header| header.len())
    }

    /// Writes the header with the checksum it has over IPv4 in front of `payload`, and answers its length.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is too short.
    #[inline]
    pub fn emit_v4(
        &self,
        src: Ipv4Addr,
        dst: Ipv4Addr,
        payload: &[u8],
        out: &mut [u8],
    ) -> Result<usize, NoRoom> {
        let len = u16::try_from(self.header_len() + payload.len()).unwrap_or(u16::MAX);
        self.emit_with(Sum::pseudo_v4(src, dst, Protocol::TCP, len), payload, out)
    }

    /// Emits the segment over IPv6.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is too short.
    #[inline]
    pub fn emit_v6(
        &self,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        payload: &[u8],
        out: &mut [u8],
    ) -> Result<usize, NoRoom> {
        let len = u32::try_from(self.header_len() + payload.len()).unwrap_or(u32::MAX);
        self.emit_with(Sum::pseudo_v6(src, dst, Protocol::TCP, len), payload, out)
    }

    #[inline]
    fn emit_with(&self, pseudo: Sum, payload: &[u8], out: &mut [u8]) -> Result<usize, NoRoom> {
        let header = self.write(out)?;
        let checksum = pseudo.bytes(header).bytes(payload).checksum();
        if let Some(field) = header.get_mut(CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2) {
            field.copy_from_slice(&checksum.to_be_bytes());
        }
        Ok(header.len())
    }

    /// The header of nearly all segments, with a checksum of zero: it has timestamps and no other option. `None`, if it
    /// is another one.
    #[inline]
    #[must_use]
    pub fn stamped(&self) -> Option<[u8; STAMPED_LEN]> {
        let stamps = self.options.only_stamps()?;
        let mut bytes = [0; STAMPED_LEN];
        let (base, options) = bytes.split_first_chunk_mut()?;
        *base = self.base_of(STAMPED_LEN);
        options.copy_from_slice(&stamps);
        Some(bytes)
    }

    #[inline]
    fn write<'a>(&self, out: &'a mut [u8]) -> Result<&'a mut [u8], NoRoom> {
        let mut writer = Writer::new(out);
        writer.put(&self.base_of(self.header_len()))?;
        self.options.write(&mut writer)?;
        Ok(writer.written())
    }

    /// The first twenty bytes of a header that has so many.
    #[inline]
    const fn base_of(&self, len: usize) -> [u8; HEADER_LEN] {
        let ([s0, s1], [d0, d1]) = (self.src_port.to_be_bytes(), self.dst_port.to_be_bytes());
        let ([q0, q1, q2, q3], [a0, a1, a2, a3]) = (self.seq.to_be_bytes(), self.ack.to_be_bytes());
        let ([w0, w1], [u0, u1]) = (self.window.to_be_bytes(), self.urgent.to_be_bytes());
        let [words, ..] = (len / 4).to_le_bytes();
        let data_offset = words << 4;
        let flags = self.flags.0;
        [s0, s1, d0, d1, q0, q1, q2, q3, a0, a1, a2, a3, data_offset, flags, w0, w1, 0, 0, u0, u1]
    }
}

/// An error in a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Fewer than 20 bytes.
    Short {
        /// Bytes there were.
        have: usize,
    },
    /// The data offset is less than 20 bytes.
    HeaderLenShort {
        /// Value of the field, in bytes.
        header: usize,
    },
    /// The data offset lies beyond the segment.
    HeaderTruncated {
        /// Value of the field, in bytes.
        header: usize,
        /// Bytes there were.
        have: usize,
    },
    /// An option was wrong.
    Option(OptionError),
}

impl From<OptionError> for Error {
    fn from(error: OptionError) -> Self {
        Self::Option(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { have } => write!(f, "the segment has {have} bytes, a TCP header takes 20"),
            Self::HeaderLenShort { header } => write!(f, "a data offset of {header} bytes, less than 20"),
            Self::HeaderTruncated { header, have } => {
                write!(f, "the segment has {have} bytes, its header {header}")
            }
            Self::Option(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests;
