//! The Ethernet address.

use core::fmt;
use core::str::FromStr;

/// An Ethernet (EUI-48) address, in the order of the wire.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Everybody on the link.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// All zero: no station; ARP's "unknown".
    pub const ZERO: Self = Self([0; 6]);

    /// The six bytes in the order of the wire.
    #[must_use]
    #[inline]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// Group bit set; broadcast is a multicast address too.
    #[must_use]
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// `ff:ff:ff:ff:ff:ff`.
    #[must_use]
    #[inline]
    pub const fn is_broadcast(self) -> bool {
        matches!(self.0, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff])
    }

    /// `00:00:00:00:00:00`.
    #[must_use]
    #[inline]
    pub const fn is_zero(self) -> bool {
        matches!(self.0, [0, 0, 0, 0, 0, 0])
    }

    /// The address of one station: neither a group nor all zero. The only kind a source may have.
    #[must_use]
    #[inline]
    pub const fn is_unicast(self) -> bool {
        !self.is_multicast() && !self.is_zero()
    }

    /// Made up on site rather than bought from the IEEE (the U/L bit is set).
    #[must_use]
    #[inline]
    pub const fn is_locally_administered(self) -> bool {
        self.0[0] & 2 != 0
    }

    /// One of the 16 addresses `01:80:c2:00:00:0x` that a bridge never forwards (802.1D §7.12.6).
    #[must_use]
    pub const fn is_link_constrained(self) -> bool {
        matches!(self.0, [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
    }
}

impl From<[u8; 6]> for Mac {
    fn from(octets: [u8; 6]) -> Self {
        Self(octets)
    }
}

impl From<Mac> for [u8; 6] {
    fn from(mac: Mac) -> Self {
        mac.0
    }
}

/// Six pairs of lower-case hexadecimal digits with colons between.
impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads what [`Mac`]'s `Display` writes, and also upper case, `-` as separator and single digits (`2:0:0:0:0:1`).
impl FromStr for Mac {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, ParseMacError> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut parts = text.split(separator);
        let mut octets = [0; 6];
        for octet in &mut octets {
            *octet = parts.next().and_then(hex_octet).ok_or(ParseMacError)?;
        }
        if parts.next().is_some() { Err(ParseMacError) } else { Ok(Self(octets)) }
    }
}

/// One or two digits; `from_str_radix` alone would also take a sign.
fn hex_octet(digits: &str) -> Option<u8> {
    let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if plain && digits.len() <= 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// The text is not an Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseMacError;

impl fmt::Display for ParseMacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an Ethernet address is six pairs of hexadecimal digits, like 02:00:5e:10:00:01")
    }
}

impl core::error::Error for ParseMacError {}
