//! Tunnels as interfaces: point-to-point links without rings, whose packets travel in packets between two addresses.
//!
//! Stages in between see an Ethernet interface with link addresses of zeros. On the way out that header comes off again
//! and the packet gets its outer header ([`crate::turn::next::Next::Encapsulate`]). On the way in the outer addresses
//! name the interface.
//!
//! # Spec
//! RFC 2003 §3; RFC 2473 §3, §6; RFC 4213 §3; RFC 2784 §2; RFC 2890 §2.

use core::net::IpAddr;

use pkt::{Flags, Pkt};
use wire::ether::EtherType;
use wire::{Protocol, gre, ip4, ip6};

use crate::link::driver::Caps;
use crate::link::logical::Kind;
use crate::link::tables::{IfIndex, Ifnet};

/// Headers that one packet gets on its way out, or loses on its way in, at the most.
pub const NESTING_MAX: u16 = 4;
/// A tunnel takes chains of buffers; all else is done before a packet enters it.
pub(super) const CAPS: Caps = Caps { tx_csum: false, tso: false, uso: false, buffers_max: usize::MAX };

/// A tunnel between two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tunnel {
    /// Our outer address.
    pub local: IpAddr,
    /// The outer address of the other end.
    pub remote: IpAddr,
    /// Encapsulation.
    pub encap: Encap,
}

/// The headers of a tunnel's packets behind the outer network header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encap {
    /// None: IPv4 and IPv6 packets themselves (gif).
    Ip,
    /// GRE.
    Gre {
        /// Tells tunnels between the same addresses apart.
        key: Option<u32>,
    },
}

impl Tunnel {
    /// Returns the protocols of its outer packets.
    #[must_use]
    pub const fn protocols(&self) -> &'static [Protocol] {
        match self.encap {
            Encap::Ip => &[Protocol::IPIP, Protocol::IPV6],
            Encap::Gre { .. } => &[Protocol::GRE],
        }
    }

    /// Returns the bytes that it puts in front of a packet.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        let behind = match self.encap {
            Encap::Ip => 0,
            Encap::Gre { key } => gre::Header::new(EtherType::IPV4, key).len(),
        };
        self.network_len() + behind
    }

    /// Returns the length of its outer network header.
    #[must_use]
    pub const fn network_len(&self) -> usize {
        match self.local {
            IpAddr::V4(_) => ip4::HEADER_LEN,
            IpAddr::V6(_) => ip6::HEADER_LEN,
        }
    }
}

/// Makes a packet the one that begins `at` bytes into it. Nothing is known of that, but that a sender on this machine has
/// left its checksum to be completed.
pub(crate) fn become_inner(pkt: &mut Pkt, at: usize) {
    let is_partial = pkt.flags.has(Flags::CSUM_PARTIAL) && usize::from(pkt.csum_start) > at;
    pkt.trim_front(at);
    let (start, off) = (pkt.csum_start, pkt.csum_off);
    pkt.forget();
    pkt.moved = true;
    if is_partial {
        pkt.flags.set(Flags::CSUM_PARTIAL);
        (pkt.csum_start, pkt.csum_off) = (start, off);
    }
}

/// The tunnels of an [`super::logical::Logical`], by their ends.
#[derive(Debug, Default)]
pub struct Tunnels {
    /// Sorted. Both addresses of an end are whole, so that the longest match is the only one.
    ends: Vec<(Tunnel, IfIndex)>,
}

impl Tunnels {
    /// Returns the tunnels among interfaces, those that are down included.
    pub(super) fn of(ifs: &[Ifnet]) -> Self {
        let tunnel = |ifnet: &Ifnet| match ifnet.kind {
            Kind::Tunnel(tunnel) => Some((tunnel, ifnet.index)),
            _ => None,
        };
        let mut ends: Vec<_> = ifs.iter().filter_map(tunnel).collect();
        ends.sort_unstable();
        Self { ends }
    }

    /// Returns whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the interface of packets between these ends.
    #[must_use]
    pub fn find(&self, ends: &Tunnel) -> Option<IfIndex> {
        let at = self.ends.binary_search_by_key(&ends, |(tunnel, _)| tunnel).ok()?;
        self.ends.get(at).map(|(_, ifindex)| *ifindex)
    }
}
