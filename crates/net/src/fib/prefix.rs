//! Address prefixes.

use core::fmt::{self, Debug, Display};
use core::hash::Hash;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Bound;
use std::collections::BTreeMap;

/// An address prefix whose host bits are zero.
///
/// Prefixes are ordered by address, and those with the same address by length: the order in which tables are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    addr: IpAddr,
    len: u8,
}

impl Prefix {
    /// The prefix of `len` bits that `addr` lies in; its host bits are cleared. `None` if it has not so many bits.
    #[must_use]
    pub fn new(addr: IpAddr, len: u8) -> Option<Self> {
        let addr = match addr {
            IpAddr::V4(_) if len > u32::BITS_U8 => return None,
            IpAddr::V6(_) if len > u128::BITS_U8 => return None,
            IpAddr::V4(addr) => Ipv4Addr::from_bits(addr.to_bits().cut(len)).into(),
            IpAddr::V6(addr) => Ipv6Addr::from_bits(addr.to_bits().cut(len)).into(),
        };
        Some(Self { addr, len })
    }

    /// The prefix that holds one address.
    #[must_use]
    pub const fn host(addr: IpAddr) -> Self {
        let len = if addr.is_ipv4() { 32 } else { 128 };
        Self { addr, len }
    }

    pub(super) fn of_key<K: Key>(key: K, len: u8) -> Self {
        Self { addr: key.addr(), len }
    }

    /// Its first address.
    #[must_use]
    pub const fn addr(self) -> IpAddr {
        self.addr
    }

    /// Its length, bits.
    #[must_use]
    pub const fn prefix_len(self) -> u8 {
        self.len
    }

    /// Whether `addr` lies in it.
    #[must_use]
    pub fn covers(self, addr: IpAddr) -> bool {
        self.addr.is_ipv4() == addr.is_ipv4() && Self::new(addr, self.len) == Some(self)
    }

    /// Whether all addresses of `other` lie in it.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.len <= other.len && self.covers(other.addr)
    }

    /// Whether both have an address in common: then one contains the other.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other) || other.contains(self)
    }
}

impl Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

/// An address as a number, most significant bit first.
pub(super) trait Key: Copy + Ord + Debug + Hash {
    const BITS_U8: u8;
    /// Its first `len` bits, and zeros.
    fn cut(self, len: u8) -> Self;
    /// Leading bits that both have.
    fn common(self, other: Self) -> u8;
    fn addr(self) -> IpAddr;
}

/// The longest prefix of `key` that is in a map of prefixes and not beyond `last`.
///
/// The one before `last` covers the key, or else what covers the key covers both, so it is no longer than what they
/// have in common.
pub(super) fn covering<K: Key, V>(
    all: &BTreeMap<(K, u8), V>,
    key: K,
    mut last: Bound<(K, u8)>,
) -> Option<((K, u8), &V)> {
    loop {
        let ((before, len), value) = all.range((Bound::Unbounded, last)).next_back()?;
        let common = key.common(*before);
        if common >= *len {
            return Some(((*before, *len), value));
        }
        last = Bound::Included((key.cut(common), common));
    }
}

macro_rules! key {
    ($int:ty, $bits:literal, $addr:ty) => {
        impl Key for $int {
            const BITS_U8: u8 = $bits;

            fn cut(self, len: u8) -> Self {
                self & !Self::MAX.checked_shr(u32::from(len)).unwrap_or(0)
            }

            fn common(self, other: Self) -> u8 {
                u8::try_from((self ^ other).leading_zeros()).unwrap_or($bits)
            }

            fn addr(self) -> IpAddr {
                <$addr>::from_bits(self).into()
            }
        }
    };
}

key!(u32, 32, Ipv4Addr);
key!(u128, 128, Ipv6Addr);
