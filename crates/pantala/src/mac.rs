//! An Ethernet address as people write it.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An Ethernet (IEEE 802) address, written `02:00:00:00:00:01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Whether the address names a group of stations (or, all ones, every station).
    #[must_use]
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Whether the address can belong to one station: not a group, not all zero.
    #[must_use]
    pub fn is_station(self) -> bool {
        !self.is_multicast() && self.0 != [0; 6]
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The text is not six pairs of hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an Ethernet address is six hexadecimal numbers, as in 02:00:00:00:00:01")]
pub struct NotMac;

impl FromStr for Mac {
    type Err = NotMac;

    /// Reads six hexadecimal numbers of one or two digits between colons (`0:1:2:a:b:c` too, as BSD prints).
    fn from_str(text: &str) -> Result<Self, NotMac> {
        let mut octets = [0; 6];
        let mut words = text.split(':');
        for octet in &mut octets {
            *octet = words.next().and_then(hex_octet).ok_or(NotMac)?;
        }
        if words.next().is_some() { Err(NotMac) } else { Ok(Self(octets)) }
    }
}

fn hex_octet(word: &str) -> Option<u8> {
    let digits = matches!(word.len(), 1 | 2) && word.bytes().all(|b| b.is_ascii_hexdigit());
    if digits { u8::from_str_radix(word, 16).ok() } else { None }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        let mac = Mac([2, 0, 0xab, 0, 0, 1]);
        assert_eq!(mac.to_string(), "02:00:ab:00:00:01");
        assert_eq!("2:0:AB:0:0:1".parse(), Ok(mac));
    }

    #[test]
    fn what_is_not_six_octets_is_refused() {
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:00:01",
            "02:00:00:00:00:100",
            "+2:0:0:0:0:1",
            "02:00::00:00:01",
        ] {
            assert_eq!(text.parse::<Mac>(), Err(NotMac), "{text}");
        }
    }

    #[test]
    fn groups_and_the_zero_address_are_no_station() {
        assert!(Mac([2, 0, 0, 0, 0, 1]).is_station());
        assert!(!Mac([1, 0, 0x5e, 0, 0, 1]).is_station());
        assert!(!Mac([0; 6]).is_station());
    }
}
