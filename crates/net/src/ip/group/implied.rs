//! The groups that we are in without being asked to: those that follow from our addresses, and from what we are.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::addr::{ALL_NODES, ALL_ROUTERS, solicited_node_multicast};
use wire::igmp::{ALL_ROUTERS as ALL_ROUTERS_4, ALL_SYSTEMS};
use wire::mld;

use crate::link::tables::{Ifnet, Twin};

/// Tells whether the host requires `group` on the link of `ifnet`, apart from sockets; `forwarding` says whether we are a
/// router.
///
/// # Spec
/// RFC 1122 §3.3.7; RFC 4291 §2.8.
#[must_use]
pub fn follows(ifnet: &Ifnet, group: IpAddr, forwarding: bool) -> bool {
    match group {
        IpAddr::V4(ALL_SYSTEMS) => true,
        IpAddr::V4(ALL_ROUTERS_4) if forwarding => true,
        IpAddr::V6(ALL_NODES) => true,
        IpAddr::V6(ALL_ROUTERS) => forwarding,
        IpAddr::V6(group) if solicited(ifnet).any(|own| own == group) => true,
        group => ifnet.groups.contains(&group),
    }
}

/// The groups that neighbours ask in for an address of ours, or for one that we answer for.
fn solicited(ifnet: &Ifnet) -> impl Iterator<Item = Ipv6Addr> {
    let published = ifnet.published.iter().filter_map(|own| match own.addr {
        IpAddr::V6(addr) => Some(addr),
        IpAddr::V4(_) => None,
    });
    ifnet.addrs6().map(|(addr, _)| addr).chain(published).map(solicited_node_multicast)
}

/// All that routers and switches are told of.
pub(super) fn reported(ifnet: &Ifnet, forwarding: bool) -> Vec<IpAddr> {
    if ifnet.port.is_some() || matches!(ifnet.twin, Twin::Of(_)) {
        return Vec::new();
    }
    let routers = [IpAddr::V4(ALL_ROUTERS_4), IpAddr::V6(ALL_ROUTERS)];
    let routers = routers.into_iter().filter(|_| forwarding);
    let solicited = solicited(ifnet).map(IpAddr::V6);
    let mut groups: Vec<_> = routers.chain(solicited).chain(ifnet.groups.iter().copied()).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Tells whether a group has all hosts as members, so that it is not reported.
#[must_use]
pub fn is_everybodys(group: IpAddr) -> bool {
    matches!(group, IpAddr::V4(ALL_SYSTEMS) | IpAddr::V6(ALL_NODES))
}

/// Tells whether listeners of `group` are reported at all.
//= https://www.rfc-editor.org/rfc/rfc3376#section-5
//# The all-systems multicast address, 224.0.0.1, is handled as a special
//# case.
pub(super) fn is_reported(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group != ALL_SYSTEMS,
        IpAddr::V6(group) => mld::is_reported(group),
    }
}

/// Whether a group means something only together with a sender to it.
//= https://www.rfc-editor.org/rfc/rfc4607#section-1
#[must_use]
pub fn is_source_specific(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group.octets()[0] == 232,
        IpAddr::V6(group) => {
            let [a, b, ..] = group.segments();
            a & 0xfff0 == 0xff30 && b == 0
        }
    }
}

/// Tells whether a group does not leave the host.
pub(crate) fn is_of_the_host(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group == Ipv4Addr::new(224, 0, 0, 0),
        IpAddr::V6(group) => wire::addr::multicast_scope(group).is_some_and(|scope| scope.0 <= 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::ifnet;

    #[test]
    fn we_are_in_the_groups_that_a_node_and_a_router_must_be_in() {
        let ifnet = ifnet(1);
        let all = |forwarding: bool| {
            let groups = [
                "224.0.0.1",
                "224.0.0.2",
                "224.0.0.5",
                "ff02::1",
                "ff02::2",
                "ff02::1:ff00:1",
                "ff02::1:ff00:2",
            ];
            groups.map(|group| follows(&ifnet, group.parse().unwrap(), forwarding))
        };
        assert_eq!(all(false), [true, false, false, true, false, true, false]);
        assert_eq!(all(true), [true, true, false, true, true, true, false]);
    }

    #[test]
    fn groups_that_need_a_sender_are_told_from_others() {
        let groups =
            ["232.0.0.1", "231.255.255.255", "233.0.0.1", "ff3e::1", "ff32::8000:1", "ff3e:1::1", "ff0e::1"];
        let specific = groups.map(|group| is_source_specific(group.parse().unwrap()));
        assert_eq!(specific, [true, false, false, true, true, false, false]);
    }
}
