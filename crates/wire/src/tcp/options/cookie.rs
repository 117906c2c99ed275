//! Fast Open cookies (RFC 7413 §4.1.1).

use core::fmt;

/// Bytes of the longest cookie.
const LEN_MAX: usize = 16;
/// Bytes of the shortest, unless it is a request for one.
const LEN_MIN: usize = 4;

/// A Fast Open cookie, which lets a client send data with its SYN. Without bytes, the request for one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cookie {
    bytes: [u8; LEN_MAX],
    len: u8,
}

impl Cookie {
    /// The request for a cookie.
    pub const REQUEST: Self = Self { bytes: [0; LEN_MAX], len: 0 };

    /// None, or an even number of bytes between 4 and 16; else there is no such cookie.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let is_valid = bytes.is_empty() || (bytes.len() >= LEN_MIN && bytes.len().is_multiple_of(2));
        let mut cookie = Self { bytes: [0; LEN_MAX], len: u8::try_from(bytes.len()).ok()? };
        cookie.bytes.get_mut(..bytes.len()).filter(|_| is_valid)?.copy_from_slice(bytes);
        Some(cookie)
    }

    /// Whether it asks for a cookie.
    #[must_use]
    pub const fn is_request(&self) -> bool {
        self.len == 0
    }

    /// Its bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or_default()
    }

    pub(super) const fn len(&self) -> usize {
        self.len as usize
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
