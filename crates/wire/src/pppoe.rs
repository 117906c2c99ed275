//! PPPoE: the header of discovery packets and of session packets, and tags.
//!
//! All lengths of tags are checked before one is read, so a view of a packet can be asked without further errors.
//!
//! # Spec
//! RFC 2516 §4, §5, appendix A; RFC 4638 §3.

#[cfg(test)]
pub(crate) mod tests;

/// Length of the header.
pub const HEADER_LEN: usize = 6;
/// Length of a session's header with the PPP protocol behind it.
pub const SESSION_LEN: usize = HEADER_LEN + 2;
/// Version and type, both 1.
const VERSION_TYPE: u8 = 0x11;

/// Codes of packets.
pub mod code {
    /// PPPoE Active Discovery Initiation.
    pub const PADI: u8 = 0x09;
    /// PPPoE Active Discovery Offer.
    pub const PADO: u8 = 0x07;
    /// PPPoE Active Discovery Request.
    pub const PADR: u8 = 0x19;
    /// PPPoE Active Discovery Session-confirmation.
    pub const PADS: u8 = 0x65;
    /// PPPoE Active Discovery Terminate.
    pub const PADT: u8 = 0xa7;
    /// A packet of a session.
    pub const SESSION: u8 = 0x00;
}

/// Types of tags.
pub mod tag {
    /// The list ends here.
    pub const END_OF_LIST: u16 = 0x0000;
    /// A service that is asked for or offered.
    pub const SERVICE_NAME: u16 = 0x0101;
    /// The name of an access concentrator.
    pub const AC_NAME: u16 = 0x0102;
    /// A value by which a host finds the answer to its question.
    pub const HOST_UNIQ: u16 = 0x0103;
    /// A value of an access concentrator, that it wants to see again.
    pub const AC_COOKIE: u16 = 0x0104;
    /// A value of a relay, that it wants to see again.
    pub const RELAY_SESSION_ID: u16 = 0x0110;
    /// The largest payload that is wanted, if it is above 1492 (RFC 4638).
    pub const PPP_MAX_PAYLOAD: u16 = 0x0120;
    /// The service that was asked for cannot be had.
    pub const SERVICE_NAME_ERROR: u16 = 0x0201;
    /// The access concentrator has failed.
    pub const AC_SYSTEM_ERROR: u16 = 0x0202;
    /// An error for which there is no other tag.
    pub const GENERIC_ERROR: u16 = 0x0203;
}

/// A fault of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its header.
    Short,
    /// Of another version or type.
    Version,
    /// Its length is beyond the frame.
    Length,
    /// A tag ends beyond the packet.
    Tag,
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a> {
    /// Its code, of [`code`].
    pub code: u8,
    /// Its session; 0 before there is one.
    pub session: u16,
    /// Tags, or a PPP frame.
    pub payload: &'a [u8],
}

impl<'a> View<'a> {
    /// Parses a packet; bytes behind it pad the frame.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::Short)?;
        let header = Header::parse(header).ok_or(Malformed::Version)?;
        let payload = rest.get(..usize::from(header.len)).ok_or(Malformed::Length)?;
        Ok(Self { code: header.code, session: header.session, payload })
    }

    /// Parses the payload as tags.
    ///
    /// # Errors
    /// [`Malformed::Tag`].
    pub fn tags(&self) -> Result<Tags<'a>, Malformed> {
        Tags::parse(self.payload)
    }
}

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its code, of [`code`].
    pub code: u8,
    /// Its session.
    pub session: u16,
    /// Bytes behind the header.
    pub len: u16,
}

impl Header {
    /// Reads a header; `None` if it is of another version or type.
    #[must_use]
    #[inline]
    pub const fn parse(bytes: &[u8; HEADER_LEN]) -> Option<Self> {
        let [VERSION_TYPE, code, a, b, c, d] = *bytes else { return None };
        Some(Self { code, session: u16::from_be_bytes([a, b]), len: u16::from_be_bytes([c, d]) })
    }

    /// The header as it stands on the wire.
    #[must_use]
    #[inline]
    pub const fn to_bytes(self) -> [u8; HEADER_LEN] {
        let ([a, b], [c, d]) = (self.session.to_be_bytes(), self.len.to_be_bytes());
        [VERSION_TYPE, self.code, a, b, c, d]
    }
}

/// Tags whose lengths have been checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags<'a>(&'a [u8]);

impl<'a> Tags<'a> {
    /// Parses tags. Bytes behind [`tag::END_OF_LIST`] are not looked at.
    ///
    /// # Errors
    /// [`Malformed::Tag`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (kind, _, behind) = first(rest).ok_or(Malformed::Tag)?;
            if kind == tag::END_OF_LIST {
                break;
            }
            rest = behind;
        }
        let len = bytes.len().saturating_sub(rest.len());
        Ok(Self(bytes.get(..len).unwrap_or_default()))
    }

    /// All of them, by their types.
    pub fn iter(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (kind, value, behind) = first(rest)?;
            rest = behind;
            Some((kind, value))
        })
    }

    /// The first of a type.
    #[must_use]
    pub fn get(self, kind: u16) -> Option<&'a [u8]> {
        self.iter().find(|(known, _)| *known == kind).map(|(_, value)| value)
    }

    /// The first tag that tells of an error.
    #[must_use]
    pub fn error(self) -> Option<(u16, &'a [u8])> {
        let errors = [tag::SERVICE_NAME_ERROR, tag::AC_SYSTEM_ERROR, tag::GENERIC_ERROR];
        self.iter().find(|(kind, _)| errors.contains(kind))
    }
}

/// Splits the first tag off: type, value, the rest.
fn first(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (&[a, b, c, d], rest) = bytes.split_first_chunk::<4>()?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([c, d])))?;
    Some((u16::from_be_bytes([a, b]), value, rest))
}
