//! Where addresses of IPv4 stand among those of IPv6.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::firewall::nat::ports::fold;

/// A prefix behind which addresses of IPv4 are put.
///
/// ```text
///   bits   0            32      40      48      56      64      72      80      88      96     104       128
///   /32    prefix       │ address                       │  0    │ 0
///   /40    prefix               │ address               │  0    │ addr  │ 0
///   /64    prefix                                       │  0    │ address                       │ 0
///   /96    prefix                                                                      │ address         │
/// ```
///
/// # Spec
/// RFC 6052 §2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    bits: u128,
    len: u8,
}

/// The one that needs no agreement.
const WELL_KNOWN: Prefix = Prefix { bits: 0x64_ff9b << 96, len: 96 };

impl Prefix {
    /// A prefix of one of the six lengths that there are.
    #[must_use]
    pub fn new(addr: Ipv6Addr, len: u8) -> Option<Self> {
        let mask = u128::MAX.checked_shl(128_u32.checked_sub(len.into())?)?;
        matches!(len, 32 | 40 | 48 | 56 | 64 | 96).then_some(Self { bits: addr.to_bits() & mask, len })
    }

    /// An address of IPv4 behind it.
    #[must_use]
    pub fn put(self, addr: u32) -> u128 {
        let addr = u128::from(addr);
        let Some(before) = self.bits_before() else { return self.bits | addr };
        let behind = 32 - before;
        self.bits | (addr >> behind) << 64 | (addr & low(behind)) << (24 + before)
    }

    /// The address of IPv4 that stands behind it, if `addr` begins with it. What stands behind that is not looked at.
    #[must_use]
    pub fn take(self, addr: u128) -> Option<u32> {
        if (addr ^ self.bits) >> (128 - self.len) != 0 {
            return None;
        }
        let taken = self.bits_before().map_or(addr & low(32), |before| {
            let behind = 32 - before;
            (addr >> 64 & low(before)) << behind | addr >> (24 + before) & low(behind)
        });
        u32::try_from(taken).ok()
    }

    /// Whether an address of IPv4 may be put behind it.
    //= https://www.rfc-editor.org/rfc/rfc6052#section-3.1
    //# The Well-Known Prefix MUST NOT be used to represent non-global IPv4
    //# addresses, such as those defined in [RFC1918]
    #[must_use]
    pub fn may_have(self, addr: Ipv4Addr) -> bool {
        let is_one_host =
            !(addr.is_unspecified() || addr.is_loopback() || addr.is_multicast() || addr.is_broadcast());
        is_one_host && (self != WELL_KNOWN || !(addr.is_private() || addr.is_link_local()))
    }

    /// Returns the sum that it adds to the fold of an embedded IPv4 address, if that is constant: the address's
    /// words stay words.
    #[must_use]
    pub fn fold(self) -> Option<u16> {
        matches!(self.len, 32 | 96).then(|| fold(self.bits))
    }

    /// Bits of the address that stand before those that are always zero, for all but the longest prefix.
    const fn bits_before(self) -> Option<u32> {
        if self.len == 96 { None } else { Some(64 - self.len as u32) }
    }
}

/// Returns a mask of low bits.
const fn low(bits: u32) -> u128 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of RFC 6052 §2.4.
    const EXAMPLES: [(&str, u8, &str); 6] = [
        ("2001:db8::", 32, "2001:db8:c000:221::"),
        ("2001:db8:100::", 40, "2001:db8:1c0:2:21::"),
        ("2001:db8:122::", 48, "2001:db8:122:c000:2:2100::"),
        ("2001:db8:122:300::", 56, "2001:db8:122:3c0:0:221::"),
        ("2001:db8:122:344::", 64, "2001:db8:122:344:c0:2:2100::"),
        ("2001:db8:122:344::", 96, "2001:db8:122:344::192.0.2.33"),
    ];

    #[test]
    fn an_address_is_put_behind_prefixes_of_all_lengths_and_found_there() {
        let addr = Ipv4Addr::new(192, 0, 2, 33).to_bits();
        for (prefix, len, there) in EXAMPLES {
            let prefix = Prefix::new(prefix.parse().unwrap(), len).unwrap();
            let there: Ipv6Addr = there.parse().unwrap();
            assert_eq!(Ipv6Addr::from_bits(prefix.put(addr)), there, "/{len}");
            assert_eq!(prefix.take(there.to_bits()), Some(addr), "/{len}");
            assert_eq!(prefix.take(there.to_bits() ^ 1 << (128 - len)), None, "/{len}");
            for bit in 0..32 {
                assert_eq!(prefix.take(prefix.put(1 << bit)), Some(1 << bit), "/{len}, bit {bit}");
            }
        }
    }

    #[test]
    fn other_lengths_are_no_prefixes() {
        for len in (0..=255).filter(|len| !matches!(len, 32 | 40 | 48 | 56 | 64 | 96)) {
            assert_eq!(Prefix::new(Ipv6Addr::UNSPECIFIED, len), None, "/{len}");
        }
    }

    #[test]
    fn private_addresses_are_not_put_behind_the_well_known_prefix_and_groups_behind_none() {
        let of = |len, prefix: &str| Prefix::new(prefix.parse().unwrap(), len).unwrap();
        let (known, own) = (of(96, "64:ff9b::"), of(96, "2001:db8::"));
        assert_eq!(known, WELL_KNOWN);
        let (private, public) = (Ipv4Addr::new(10, 1, 2, 3), Ipv4Addr::new(198, 51, 100, 1));
        assert!(known.may_have(public) && own.may_have(public) && own.may_have(private));
        assert!(!known.may_have(private));
        assert!(
            [[127, 0, 0, 1], [0; 4], [224, 0, 0, 1], [255; 4]].into_iter().all(|it| !own.may_have(it.into()))
        );
    }

    #[test]
    fn where_an_addresss_words_stay_words_a_prefix_adds_the_same_to_the_folds_of_all() {
        for (prefix, len, _) in EXAMPLES {
            let prefix = Prefix::new(prefix.parse().unwrap(), len).unwrap();
            let adds = |addr: u32| fold(prefix.put(addr)) ^ fold(addr.into());
            let is_same = (0..32).all(|bit| adds(1 << bit) == adds(0));
            assert_eq!(prefix.fold(), is_same.then(|| adds(0)), "/{len}");
        }
    }
}
