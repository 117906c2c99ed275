//! The 802.1Q tag.

use super::{Error, EtherType};

/// A tag behind [`EtherType::VLAN`] or [`EtherType::QINQ`]: two bytes, then the EtherType of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    priority: u8,
    drop_eligible: bool,
    vid: u16,
    /// EtherType behind the tag; another tag's in a doubly tagged frame.
    pub ethertype: EtherType,
}

impl Tag {
    /// Length in bytes, the inner type included.
    pub const LEN: usize = 4;
    /// The largest VLAN identifier that may be used; 0 is "no VLAN, priority only" and 4095 is reserved.
    pub const VID_MAX: u16 = 4094;

    /// A tag of priority 0. Only the low 12 bits of `vid` are used.
    #[must_use]
    pub const fn new(vid: u16, ethertype: EtherType) -> Self {
        Self { priority: 0, drop_eligible: false, vid: vid & 0x0fff, ethertype }
    }

    /// Returns the tag with another priority code point, of which the low 3 bits are used.
    #[must_use]
    pub const fn with_priority(self, priority: u8) -> Self {
        Self { priority: priority & 7, ..self }
    }

    /// Returns the tag with another drop eligible indicator.
    #[must_use]
    pub const fn with_drop_eligible(self, drop_eligible: bool) -> Self {
        Self { drop_eligible, ..self }
    }

    /// Reads a tag from the bytes that follow the outer type.
    ///
    /// # Errors
    /// [`Error::Short`]; if the inner field is a length, [`Error::LengthField`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let tag = bytes.first_chunk().ok_or(Error::Short { need: Self::LEN, have: bytes.len() })?;
        let tag = Self::from_bytes(tag);
        tag.ethertype.check()?;
        Ok(tag)
    }

    const fn from_bytes(&[t0, t1, e0, e1]: &[u8; Self::LEN]) -> Self {
        let tci = u16::from_be_bytes([t0, t1]);
        Self {
            priority: t0 >> 5,
            drop_eligible: t0 & 0x10 != 0,
            vid: tci & 0x0fff,
            ethertype: EtherType(u16::from_be_bytes([e0, e1])),
        }
    }

    /// The tag as it stands on the wire.
    #[must_use]
    pub const fn to_bytes(&self) -> [u8; Self::LEN] {
        let [v0, v1] = self.vid.to_be_bytes();
        let [e0, e1] = self.ethertype.0.to_be_bytes();
        let dei = if self.drop_eligible { 0x10 } else { 0 };
        [self.priority << 5 | dei | v0, v1, e0, e1]
    }

    /// Priority code point, 0 to 7.
    #[must_use]
    pub const fn priority(&self) -> u8 {
        self.priority
    }

    /// Drop eligible indicator.
    #[must_use]
    pub const fn drop_eligible(&self) -> bool {
        self.drop_eligible
    }

    /// VLAN identifier, 0 to 4095.
    #[must_use]
    pub const fn vid(&self) -> u16 {
        self.vid
    }
}
