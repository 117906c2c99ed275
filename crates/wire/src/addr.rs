//! Questions about addresses that the standard library does not answer.

use crate::ether::Mac;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Multicast address of all nodes on a link, `ff02::1` (RFC 4291 §2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Multicast address of all routers on a link, `ff02::2` (RFC 4291 §2.7.1).
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// The scope of an IPv6 multicast address (RFC 7346 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(pub u8);

impl Scope {
    /// Not off this interface.
    pub const INTERFACE_LOCAL: Self = Self(1);
    /// Not off this link.
    pub const LINK_LOCAL: Self = Self(2);
    /// Not out of this realm.
    pub const REALM_LOCAL: Self = Self(3);
    /// Not out of this part of the site.
    pub const ADMIN_LOCAL: Self = Self(4);
    /// Not off this site.
    pub const SITE_LOCAL: Self = Self(5);
    /// Not out of this organisation.
    pub const ORGANIZATION_LOCAL: Self = Self(8);
    /// Anywhere.
    pub const GLOBAL: Self = Self(14);
}

/// Scope of a multicast address; `None` for the others.
#[must_use]
pub const fn multicast_scope(addr: Ipv6Addr) -> Option<Scope> {
    match addr.octets() {
        [0xff, flags_scope, ..] => Some(Scope(flags_scope & 0x0f)),
        _ => None,
    }
}

/// In 0.0.0.0/8, "this network": only ever a source, of a host that has no address yet (RFC 6890 §2.2.2).
#[must_use]
#[inline]
pub const fn is_this_network(addr: Ipv4Addr) -> bool {
    addr.octets()[0] == 0
}

/// In 240.0.0.0/4 but not the limited broadcast: once class E, reserved (RFC 1112 §4, RFC 6890 §2.2.2).
#[must_use]
#[inline]
pub const fn is_class_e(addr: Ipv4Addr) -> bool {
    addr.octets()[0] >= 240 && !addr.is_broadcast()
}

/// An IPv4 address written as IPv6, `::ffff:0:0/96`: never on a wire (RFC 6890 §2.2.3).
#[must_use]
#[inline]
pub const fn is_ipv4_mapped(addr: Ipv6Addr) -> bool {
    addr.to_bits() >> 32 == 0xffff
}

/// A source that no packet from a wire may have: loopback, multicast, broadcast, reserved, or, in IPv6, mapped.
///
/// Unspecified is one, too, because hosts without an address are the exception: callers that accept them (DHCP,
/// duplicate address detection) check before. IPv6 multicast destinations that never leave their interface are
/// another matter: [`is_martian_destination`].
//= https://www.rfc-editor.org/rfc/rfc1812#section-5.3.7
//# A router SHOULD NOT forward any packet that has an invalid IP source
//# address or a source address on network 0.
#[must_use]
#[inline]
pub const fn is_martian_source(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => is_martian_source_v4(addr),
        IpAddr::V6(addr) => is_martian_source_v6(addr),
    }
}

/// [`is_martian_source`] for IPv4: 0/8, 127/8, and all from 224/4 upwards.
#[must_use]
#[inline]
pub const fn is_martian_source_v4(addr: Ipv4Addr) -> bool {
    matches!(addr.octets()[0], 0 | 127 | 224..)
}

/// [`is_martian_source`] for IPv6: `::`, `::1`, `ff00::/8`, mapped.
//= https://www.rfc-editor.org/rfc/rfc4291#section-2.7
//# Multicast addresses must not be used as source addresses in IPv6
//# packets or appear in any Routing header.
#[must_use]
#[inline]
pub const fn is_martian_source_v6(addr: Ipv6Addr) -> bool {
    addr.to_bits() <= 1 || addr.is_multicast() || is_ipv4_mapped(addr)
}

/// A destination that no packet from a wire may have: unspecified, loopback, reserved, mapped, or a multicast address
/// that does not leave its interface.
//= https://www.rfc-editor.org/rfc/rfc1812#section-5.3.7
#[must_use]
#[inline]
pub const fn is_martian_destination(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => is_this_network(addr) || addr.is_loopback() || is_class_e(addr),
        IpAddr::V6(addr) => {
            let stays = matches!(multicast_scope(addr), Some(Scope(0) | Scope::INTERFACE_LOCAL));
            addr.to_bits() <= 1 || is_ipv4_mapped(addr) || stays
        }
    }
}

/// Whether a router may pass on a unicast packet between these two: neither is a martian, none is link-local, the
/// destination is no group and not the limited broadcast.
//= https://www.rfc-editor.org/rfc/rfc3927#section-7
//= https://www.rfc-editor.org/rfc/rfc4291#section-2.5.6
//# Routers must not forward any packets with Link-Local source or
//# destination addresses to other links.
#[must_use]
#[inline]
pub const fn is_forwardable(src: IpAddr, dst: IpAddr) -> bool {
    !is_martian_source(src) && !is_martian_destination(dst) && !stays_on_link(src) && !stays_on_link(dst)
}

const fn stays_on_link(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => addr.is_link_local() || addr.octets()[0] >= 224,
        IpAddr::V6(addr) => addr.is_unicast_link_local() || addr.is_multicast(),
    }
}

/// The group a node with `addr` listens to for neighbour solicitations.
//= https://www.rfc-editor.org/rfc/rfc4291#section-2.7.1
#[must_use]
pub const fn solicited_node_multicast(addr: Ipv6Addr) -> Ipv6Addr {
    const PREFIX: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Addr::from_bits(PREFIX | addr.to_bits() & 0x00ff_ffff)
}

/// Whether `addr` is in `ff02::1:ff00:0/104`.
#[must_use]
pub const fn is_solicited_node_multicast(addr: Ipv6Addr) -> bool {
    addr.to_bits() >> 24 == 0x00ff_0200_0000_0000_0000_0000_01ff
}

/// The interface identifier made from an Ethernet address: `ff:fe` in the middle, universal bit turned over.
//= https://www.rfc-editor.org/rfc/rfc2464#section-4
#[must_use]
pub const fn eui64(mac: Mac) -> [u8; 8] {
    let [a, b, c, d, e, f] = mac.octets();
    [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
}

/// The link-local address made from an Ethernet address.
//= https://www.rfc-editor.org/rfc/rfc2464#section-5
#[must_use]
pub const fn link_local_from_mac(mac: Mac) -> Ipv6Addr {
    let id = u64::from_be_bytes(eui64(mac));
    Ipv6Addr::from_bits(0xfe80 << 112 | id as u128)
}

/// The Ethernet address a group is sent to, or `None` if `addr` is none: the low 23 bits behind `01:00:5e`.
//= https://www.rfc-editor.org/rfc/rfc1112#section-6.4
#[must_use]
pub const fn multicast_mac_v4(addr: Ipv4Addr) -> Option<Mac> {
    match addr.octets() {
        [224..=239, b, c, d] => Some(Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d])),
        _ => None,
    }
}

/// The Ethernet address a group is sent to, or `None` if `addr` is none: the low 32 bits behind `33:33`.
//= https://www.rfc-editor.org/rfc/rfc2464#section-7
#[must_use]
pub const fn multicast_mac_v6(addr: Ipv6Addr) -> Option<Mac> {
    match addr.octets() {
        [0xff, .., a, b, c, d] => Some(Mac([0x33, 0x33, a, b, c, d])),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
