//! The configuration of an instance, compiled: shared by all CPUs, and never changed.

use core::net::Ipv4Addr;
use core::ops::RangeInclusive;

use ipfw::command::Nat64Config;

use super::prefix::Prefix;
use crate::base::secret::fold;
use crate::firewall::nat::headers::End;
use crate::firewall::nat::spec::{BINDINGS, PORTS, halves};
use crate::firewall::nat::table::Lifetimes;

/// Spreads what a key does not.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The configuration of an instance.
#[derive(Debug)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// Where addresses of IPv4 are in IPv6.
    pub prefix: Prefix,
    /// The ports that IPv4 sees.
    pub range: RangeInclusive<u16>,
    /// Lifetimes of bindings.
    pub lifetimes: Lifetimes,
    /// Bindings on each CPU at the most.
    pub max: usize,
    /// The first of the addresses that IPv4 sees, and the bits that they differ in.
    pool: (u32, u32),
    /// Private hosts of IPv4 are spoken to as well.
    allow_private: bool,
    /// Key that makes choices unpredictable outside.
    key: [u64; 2],
}

impl Spec {
    /// Works out how the instance translates; `None` if its prefix is of no length that there is. All CPUs, and all
    /// versions of an instance, must have the same `key`, which is secret.
    #[must_use]
    pub fn new(name: &str, config: &Nat64Config, key: u128) -> Option<Self> {
        let ((first, len), (prefix, prefix_len)) = (config.prefix4, config.prefix6);
        let differs = u32::MAX.checked_shr(len.into()).unwrap_or(0);
        Some(Self {
            name: name.to_owned(),
            prefix: Prefix::new(prefix, prefix_len)?,
            range: PORTS,
            lifetimes: Lifetimes::default(),
            max: BINDINGS,
            pool: (first.to_bits() & !differs, differs),
            allow_private: config.allow_private,
            key: halves(key),
        })
    }

    /// Whether flows that another version of the instance has bound can go on with this one.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.name == other.name && self.prefix == other.prefix && self.pool == other.pool
    }

    /// Whether IPv4 sees this address.
    #[inline]
    #[must_use]
    pub const fn is_outside(&self, addr: u32) -> bool {
        let (first, differs) = self.pool;
        (addr ^ first) & !differs == 0
    }

    /// The address that IPv4 sees of a host: always the same, so that its flows look like one host's.
    //= https://www.rfc-editor.org/rfc/rfc4787#section-4.1
    //# REQ-2:  It is RECOMMENDED that a NAT have an "IP address pooling"
    //# behavior of "Paired".
    #[must_use]
    pub fn outside(&self, inside: u128) -> u32 {
        let (first, differs) = self.pool;
        first | u32::try_from(self.mix(inside, 0) >> 32).unwrap_or(0) & differs
    }

    /// Whether a host of IPv4 may be spoken to.
    #[must_use]
    pub fn may_speak_to(&self, addr: Ipv4Addr) -> bool {
        self.prefix.may_have(addr) || self.allow_private && (addr.is_private() || addr.is_link_local())
    }

    /// Returns the seed of an inside end, the same on all CPUs.
    #[must_use]
    pub fn seed(&self, inside: End, protocol: u8) -> u64 {
        self.mix(inside.addr, u64::from(inside.port) << 8 | u64::from(protocol))
    }

    fn mix(&self, addr: u128, about: u64) -> u64 {
        let [a, b] = halves(addr);
        fold(fold(a ^ self.key[0], b ^ self.key[1]) ^ about, self.key[0] ^ ODD)
    }
}
