//! The set of our own addresses, asked for the source of every packet.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Ifnet;

/// Words of the filter: 1024 bits, so that a few dozen addresses leave nearly all of it empty.
const WORDS: usize = 16;

/// Our own addresses and our links' broadcast addresses.
///
/// A small filter in front answers for nearly every packet that the address is neither; what the filter does not
/// exclude is looked for in a sorted list. An attack on the filter reaches the list, which is no slow place either.
#[derive(Clone, Debug, Default)]
pub struct Own {
    filter: [u64; WORDS],
    v4: Vec<u32>,
    v6: Vec<u128>,
    broadcasts: Vec<u32>,
}

impl Own {
    /// The addresses of these interfaces.
    pub(super) fn of(ifs: &[Ifnet]) -> Self {
        let mut own = Self {
            filter: [0; WORDS],
            v4: sorted(ifs.iter().flat_map(Ifnet::addrs4).map(|(addr, _)| addr.to_bits())),
            v6: sorted(ifs.iter().flat_map(Ifnet::addrs6).map(|(addr, _)| addr.to_bits())),
            broadcasts: sorted(ifs.iter().flat_map(Ifnet::broadcasts).map(Ipv4Addr::to_bits)),
        };
        let bits4 = own.v4.iter().chain(&own.broadcasts).map(|addr| place4(*addr));
        let bits: Vec<_> =
            bits4.chain(own.v6.iter().map(|addr| place6(Ipv6Addr::from_bits(*addr)))).collect();
        for (word, bit) in bits {
            own.filter[word] |= bit;
        }
        own
    }

    /// Whether `addr` may be one of ours or a broadcast address of our links; "no" is certain.
    #[inline]
    #[must_use]
    pub fn may_have4(&self, addr: Ipv4Addr) -> bool {
        let (word, bit) = place4(addr.to_bits());
        self.filter[word] & bit != 0
    }

    /// Whether `addr` may be one of ours; "no" is certain.
    #[inline]
    #[must_use]
    pub fn may_have6(&self, addr: Ipv6Addr) -> bool {
        let (word, bit) = place6(addr);
        self.filter[word] & bit != 0
    }

    /// Whether `addr` is one of ours.
    #[must_use]
    pub fn has(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(addr) => self.may_have4(addr) && self.v4.binary_search(&addr.to_bits()).is_ok(),
            IpAddr::V6(addr) => self.may_have6(addr) && self.v6.binary_search(&addr.to_bits()).is_ok(),
        }
    }

    /// Lists our own addresses and our links' broadcast addresses.
    pub fn all(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let v4 = self.v4.iter().chain(&self.broadcasts).map(|addr| Ipv4Addr::from_bits(*addr).into());
        v4.chain(self.v6.iter().map(|addr| Ipv6Addr::from_bits(*addr).into()))
    }

    /// Whether `addr` is a broadcast address of one of our links.
    #[must_use]
    pub fn is_broadcast(&self, addr: Ipv4Addr) -> bool {
        self.may_have4(addr) && self.broadcasts.binary_search(&addr.to_bits()).is_ok()
    }
}

fn sorted<K: Ord>(keys: impl Iterator<Item = K>) -> Vec<K> {
    let mut keys: Vec<_> = keys.collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[inline]
fn place4(addr: u32) -> (usize, u64) {
    let mixed = addr.wrapping_mul(0x9e37_79b1);
    ((mixed >> 28) as usize % WORDS, 1 << ((mixed >> 22) & 63))
}

#[inline]
fn place6(addr: Ipv6Addr) -> (usize, u64) {
    // As it lies in memory: words are only folded, so the order of their bytes does not matter.
    let [a, b, c, d, e, f, g, h, rest @ ..] = addr.octets();
    let folded = u64::from_ne_bytes([a, b, c, d, e, f, g, h]) ^ u64::from_ne_bytes(rest);
    let [a, b, c, d, rest @ ..] = folded.to_ne_bytes();
    place4(u32::from_ne_bytes([a, b, c, d]) ^ u32::from_ne_bytes(rest))
}
