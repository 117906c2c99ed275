//! VXLAN interfaces: Ethernet frames of one network identifier in UDP datagrams.
//!
//! # Spec
//! RFC 7348 §4, §5.

use core::net::IpAddr;

use wire::{ip4, ip6, udp};

use crate::link::logical::Kind;
use crate::link::tables::{IfIndex, Ifnet};

/// The UDP port that IANA has given to VXLAN.
pub const PORT: u16 = 4789;
/// Largest network identifier.
pub const VNI_MAX: u32 = (1 << 24) - 1;
/// Bytes of the VXLAN header.
pub const HEADER_LEN: usize = 8;
/// The I flag: the header has a valid network identifier.
const VALID_VNI: u8 = 0x08;

/// A VXLAN interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vxlan {
    /// VXLAN network identifier.
    pub vni: u32,
    /// Our outer address.
    pub local: IpAddr,
    /// The remote end, or group, that gets what is flooded, if there is one.
    pub remote: Option<IpAddr>,
    /// UDP port of both ends.
    pub port: u16,
}

impl Vxlan {
    /// Returns the bytes that it puts in front of a frame.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        let network = match self.local {
            IpAddr::V4(_) => ip4::HEADER_LEN,
            IpAddr::V6(_) => ip6::HEADER_LEN,
        };
        network + udp::HEADER_LEN + HEADER_LEN
    }

    /// Returns the multicast group of its remote ends, if it has one.
    #[must_use]
    pub fn group(&self) -> Option<IpAddr> {
        self.remote.filter(IpAddr::is_multicast)
    }

    /// Returns its header. All reserved bits are 0.
    //= https://www.rfc-editor.org/rfc/rfc7348#section-5
    #[must_use]
    pub const fn header(&self) -> [u8; HEADER_LEN] {
        let [_, a, b, c] = self.vni.to_be_bytes();
        [VALID_VNI, 0, 0, 0, a, b, c, 0]
    }
}

/// Returns the network identifier of a header; `None` if its I flag is not set. All other flags and reserved bits are ignored.
//= https://www.rfc-editor.org/rfc/rfc7348#section-5
#[must_use]
pub const fn vni(header: &[u8; HEADER_LEN]) -> Option<u32> {
    let [flags, _, _, _, a, b, c, _] = *header;
    if flags & VALID_VNI == 0 { None } else { Some(u32::from_be_bytes([0, a, b, c])) }
}

/// The VXLAN interfaces of a [`super::logical::Logical`], by the datagrams that they take.
#[derive(Debug, Default)]
pub struct Vxlans {
    /// By destination address, port and network identifier, sorted.
    ends: Vec<((IpAddr, u16, u32), IfIndex)>,
    /// By interface of a group: the interface on whose link the group is.
    links: Vec<(IfIndex, IfIndex)>,
}

impl Vxlans {
    /// Returns the VXLAN interfaces among interfaces, those that are down included.
    pub(super) fn of(ifs: &[Ifnet]) -> Self {
        let mut all = Self::default();
        for ifnet in ifs {
            let Kind::Vxlan(vxlan) = ifnet.kind else { continue };
            let mut take = |addr| all.ends.push(((addr, vxlan.port, vxlan.vni), ifnet.index));
            take(vxlan.local);
            if let Some(group) = vxlan.group() {
                take(group);
                let link = ifs.iter().find(|other| other.has(vxlan.local));
                all.links.extend(link.map(|link| (ifnet.index, link.index)));
            }
        }
        all.ends.sort_unstable();
        all
    }

    /// Returns whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the interface of datagrams to this address and port with this network identifier.
    #[must_use]
    pub fn find(&self, to: IpAddr, port: u16, vni: u32) -> Option<IfIndex> {
        let at = self.ends.binary_search_by_key(&(to, port, vni), |(end, _)| *end).ok()?;
        self.ends.get(at).map(|(_, ifindex)| *ifindex)
    }

    /// Returns whether some VXLAN takes datagrams to this address and port.
    #[must_use]
    pub fn takes(&self, to: IpAddr, port: u16) -> bool {
        let at = self.ends.partition_point(|(end, _)| *end < (to, port, 0));
        self.ends.get(at).is_some_and(|((addr, of, _), _)| (*addr, *of) == (to, port))
    }

    /// Returns whether datagrams to this port are of some VXLAN.
    #[must_use]
    pub fn has_port(&self, port: u16) -> bool {
        self.ends.iter().any(|((_, of, _), _)| *of == port)
    }

    /// Returns the interface on whose link the group of `ifindex` is; 0 if it has none.
    #[must_use]
    pub fn link(&self, ifindex: IfIndex) -> IfIndex {
        self.links.iter().find(|(of, _)| *of == ifindex).map_or(0, |(_, link)| *link)
    }
}

/// Has the links on which groups of VXLAN interfaces are join them.
pub(super) fn join_groups(ifs: &mut [Ifnet]) {
    let joins: Vec<_> = ifs
        .iter()
        .filter(|ifnet| ifnet.up)
        .filter_map(|ifnet| ifnet.kind.vxlan())
        .filter_map(|vxlan| Some((vxlan.local, vxlan.group()?)))
        .collect();
    for ifnet in ifs {
        let own = joins.iter().filter(|(local, _)| ifnet.has(*local)).map(|(_, group)| *group);
        ifnet.groups.extend(own.collect::<Vec<_>>());
        ifnet.groups.sort_unstable();
        ifnet.groups.dedup();
    }
}
