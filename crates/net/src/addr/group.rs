//! Which groups we are in.

use core::net::{IpAddr, Ipv4Addr};

use wire::addr::{ALL_NODES, ALL_ROUTERS, solicited_node_multicast};

use crate::tables::Ifnet;

/// All systems on a link (RFC 1112 §4).
const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// All routers on a link (RFC 1112, IANA).
const ALL_ROUTERS_4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);

/// Whether what is sent to `group` on the link of `ifnet` is for us; `forwarding` says whether we are a router.
///
/// Routers and switches are told of them by [`crate::ip6::mld`]; `224.0.0.x` need not be told (RFC 3376 §5).
///
/// # Spec
/// RFC 1122 §3.3.7; RFC 4291 §2.8.
#[must_use]
pub fn in_group(ifnet: &Ifnet, group: IpAddr, forwarding: bool) -> bool {
    match group {
        IpAddr::V4(ALL_SYSTEMS) => true,
        IpAddr::V4(group) => forwarding && group == ALL_ROUTERS_4,
        IpAddr::V6(ALL_NODES) => true,
        IpAddr::V6(ALL_ROUTERS) => forwarding,
        IpAddr::V6(group) => ifnet.addrs6().any(|(addr, _)| solicited_node_multicast(addr) == group),
    }
}
