//! Ethernet II: addresses, the 14-byte header, 802.1Q tags.

mod mac;
mod tag;

pub use mac::{Mac, ParseMacError};
pub use tag::Tag;

use core::fmt;

/// Length of an Ethernet II header in bytes, without tag and without frame check sequence.
pub const HEADER_LEN: usize = 14;
/// The shortest frame a wire carries, without frame check sequence; shorter ones are padded.
pub const MIN_FRAME_LEN: usize = 60;

/// The EtherType of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: Self = Self(0x0800);
    /// ARP (RFC 826).
    pub const ARP: Self = Self(0x0806);
    /// An 802.1Q customer tag follows.
    pub const VLAN: Self = Self(0x8100);
    /// IPv6 (RFC 2464).
    pub const IPV6: Self = Self(0x86dd);
    /// An 802.1ad service tag follows.
    pub const QINQ: Self = Self(0x88a8);
    /// PPPoE discovery (RFC 2516).
    pub const PPPOE_DISCOVERY: Self = Self(0x8863);
    /// A frame of a PPPoE session (RFC 2516).
    pub const PPPOE_SESSION: Self = Self(0x8864);
    /// LLDP (802.1AB).
    pub const LLDP: Self = Self(0x88cc);

    /// Whether a [`Tag`] follows instead of the payload.
    #[must_use]
    pub const fn is_tag(self) -> bool {
        matches!(self, Self::VLAN | Self::QINQ)
    }

    /// Checks that the field is a type at all: 802.3 §3.2.6 gives values up to 1500 to the length of the frame
    /// and none to those from 1501 to 1535.
    ///
    /// # Errors
    /// [`Error::LengthField`] and [`Error::UndefinedType`].
    pub const fn check(self) -> Result<Self, Error> {
        match self.0 {
            0..=1500 => Err(Error::LengthField { length: self.0 }),
            1501..=1535 => Err(Error::UndefinedType { value: self.0 }),
            _ => Ok(self),
        }
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::IPV4 => f.pad("IPv4"),
            Self::ARP => f.pad("ARP"),
            Self::VLAN => f.pad("802.1Q"),
            Self::IPV6 => f.pad("IPv6"),
            Self::QINQ => f.pad("802.1ad"),
            Self::PPPOE_DISCOVERY => f.pad("PPPoE-D"),
            Self::PPPOE_SESSION => f.pad("PPPoE-S"),
            Self::LLDP => f.pad("LLDP"),
            Self(other) => write!(f, "{other:#06x}"),
        }
    }
}

/// The header of an Ethernet II frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Destination address.
    pub dst: Mac,
    /// Source address.
    pub src: Mac,
    /// EtherType of the payload; for a tagged frame [`EtherType::VLAN`] or [`EtherType::QINQ`].
    pub ethertype: EtherType,
}

impl Header {
    /// Reads the header of `frame`; the payload starts at [`HEADER_LEN`].
    ///
    /// # Errors
    /// [`Error::Short`]; for 802.3 frames with a length field [`Error::LengthField`].
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Self, Error> {
        let bytes = frame.first_chunk().ok_or(Error::Short { need: HEADER_LEN, have: frame.len() })?;
        let header = Self::from_bytes(bytes);
        header.ethertype.check()?;
        Ok(header)
    }

    /// Reads the three fields without judging the type.
    #[must_use]
    #[inline]
    pub const fn from_bytes(b: &[u8; HEADER_LEN]) -> Self {
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *b;
        Self {
            dst: Mac([d0, d1, d2, d3, d4, d5]),
            src: Mac([s0, s1, s2, s3, s4, s5]),
            ethertype: EtherType(u16::from_be_bytes([t0, t1])),
        }
    }

    /// The header as it stands on the wire.
    #[must_use]
    #[inline]
    pub const fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let [d0, d1, d2, d3, d4, d5] = self.dst.0;
        let [s0, s1, s2, s3, s4, s5] = self.src.0;
        let [t0, t1] = self.ethertype.0.to_be_bytes();
        [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1]
    }
}

/// An error in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The frame ends inside the header or the tag.
    Short {
        /// Bytes the header takes.
        need: usize,
        /// Bytes there were.
        have: usize,
    },
    /// The type field is an 802.3 length (spanning tree, IPX, …): not Ethernet II.
    LengthField {
        /// The field.
        length: u16,
    },
    /// The type field is neither a length nor a type (1501 to 1535).
    UndefinedType {
        /// The field.
        value: u16,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { need, have } => write!(f, "the frame has {have} bytes, the header takes {need}"),
            Self::LengthField { length } => write!(f, "an 802.3 frame of length {length}, not Ethernet II"),
            Self::UndefinedType { value } => {
                write!(f, "the type field {value} is neither a length nor a type")
            }
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests;
