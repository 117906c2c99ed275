//! The fragment header.

use super::Error;
use crate::Protocol;

/// An IPv6 fragment header as a value (RFC 8200 §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Next header of the reassembled packet.
    pub next_header: Protocol,
    /// Where the data belongs in the whole, in bytes; emitted in units of eight, what is left over is lost.
    pub offset: u16,
    /// Other fragments follow.
    pub more: bool,
    /// Identification, by which fragments find each other.
    pub id: u32,
}

impl Fragment {
    /// Length of the header in bytes.
    pub const LEN: usize = 8;

    /// Reads the header; reserved bits are ignored.
    #[must_use]
    pub const fn from_bytes(&[next, _, o0, o1, i0, i1, i2, i3]: &[u8; Self::LEN]) -> Self {
        Self {
            next_header: Protocol(next),
            offset: u16::from_be_bytes([o0, o1]) & !7,
            more: o1 & 1 != 0,
            id: u32::from_be_bytes([i0, i1, i2, i3]),
        }
    }

    /// The header as it stands on the wire.
    #[must_use]
    pub const fn to_bytes(&self) -> [u8; Self::LEN] {
        let [o0, o1] = (self.offset & !7).to_be_bytes();
        let [i0, i1, i2, i3] = self.id.to_be_bytes();
        let more = if self.more { 1 } else { 0 };
        [self.next_header.0, 0, o0, o1 | more, i0, i1, i2, i3]
    }

    /// The whole datagram in one fragment, to be processed for itself whatever else has the same identification.
    //= https://www.rfc-editor.org/rfc/rfc6946#section-4
    #[must_use]
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }

    /// Checks the number of data bytes behind this header, whose first stands `unfragmentable` bytes behind the IPv6
    /// header once the fragment header is taken out. `at` is where the fragment header stands.
    ///
    /// # Errors
    /// [`Error::FragmentLen`] if others follow and the number is no multiple of eight; [`Error::FragmentOverflow`]
    /// if the payload of the reassembled packet would be longer than 65 535 bytes.
    //= https://www.rfc-editor.org/rfc/rfc8200#section-4.5
    pub fn check_data(&self, at: usize, unfragmentable: usize, len: usize) -> Result<(), Error> {
        let end = usize::from(self.offset).saturating_add(len).saturating_add(unfragmentable);
        if self.more && !len.is_multiple_of(8) {
            return Err(Error::FragmentLen { len });
        }
        if end > usize::from(u16::MAX) {
            return Err(Error::FragmentOverflow { pointer: super::pointer(at + 2), end });
        }
        Ok(())
    }
}
