//! Interface identifiers.

use core::hash::Hasher;
use core::net::Ipv6Addr;

use siphasher::sip::SipHasher13;
use wire::ether::Mac;

use super::Identifiers;

/// The link-local address of an interface.
#[must_use]
pub fn link_local(identifiers: Identifiers, mac: Mac, name: &str) -> Ipv6Addr {
    identifiers.addr(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), mac, name, 0)
}

impl Identifiers {
    /// The address in the /64 of `prefix`; the next one after `conflicts` were found to be others'.
    //= https://www.rfc-editor.org/rfc/rfc7217#section-5
    //# RID = F(Prefix, Net_Iface, Network_ID, DAD_Counter, secret_key)
    pub(super) fn addr(self, prefix: Ipv6Addr, mac: Mac, name: &str, conflicts: u8) -> Ipv6Addr {
        let id = match self {
            Self::Eui64 => low(wire::addr::link_local_from_mac(mac)),
            Self::Stable { secret } => {
                let mut hasher = SipHasher13::new_with_key(&secret.to_le_bytes());
                hasher.write_u64(high(prefix));
                hasher.write(name.as_bytes());
                hasher.write_u8(conflicts);
                hasher.finish()
            }
            Self::Negotiated { id } => id,
        };
        join(prefix, id)
    }

    /// Number of further addresses tried after a duplicate: `IDGEN_RETRIES` of RFC 7217 §7. The one that
    /// is made of the link address has no other.
    pub(super) const fn retries(self) -> u8 {
        match self {
            Self::Eui64 | Self::Negotiated { .. } => 0,
            Self::Stable { .. } => 3,
        }
    }
}

/// The address in the /64 of `prefix` that ends with `id`.
pub(super) fn join(prefix: Ipv6Addr, id: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(u128::from(high(prefix)) << 64 | u128::from(id))
}

fn high(addr: Ipv6Addr) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = addr.octets();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

fn low(addr: Ipv6Addr) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = addr.octets();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}
