//! What all CPUs agree on: interfaces, addresses, routes. An immutable snapshot, replaced as a whole.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::ether::Mac;

use crate::cpu::CpuId;
use crate::driver::Caps;
use crate::fib::Fib;

/// The configuration that every CPU reads and none writes. Each CPU holds one `Arc` of it; a change is a new one,
/// sent from CPU to CPU as a message, and the old one dies with its last holder.
#[derive(Debug, Default)]
pub struct Tables {
    /// Grows by one with each change: whatever was derived from older tables is stale.
    pub generation: u64,
    /// Interfaces by index; index 0 is never used, and a hole is an interface that is gone.
    pub ifs: Vec<Option<Ifnet>>,
    /// Routes, own addresses included.
    pub fib: Fib,
    /// Whether packets for others are forwarded.
    pub forwarding: bool,
}

/// Index of an interface. Packets name interfaces by it, never by pointer.
pub type IfIndex = u16;

/// An interface.
#[derive(Clone, Debug)]
pub struct Ifnet {
    /// Its place in [`Tables::ifs`].
    pub index: IfIndex,
    /// Its name.
    pub name: String,
    /// Its link address.
    pub mac: Mac,
    /// Bytes of the largest network-layer packet on this link.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Its own addresses.
    pub addrs: Vec<IfAddr>,
    /// What to believe of received transport checksums.
    pub rxcsum: Rxcsum,
    /// What its device does for us.
    pub caps: Caps,
    /// For each CPU, the CPU that owns the transmit ring which it uses; empty without a device.
    pub tx_cpu: Vec<CpuId>,
    /// Only count what is received.
    pub monitor: bool,
}

/// An address of an interface, with the prefix that is on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IfAddr {
    /// The address.
    pub addr: IpAddr,
    /// Length of the on-link prefix, bits.
    pub prefix_len: u8,
}

/// What to believe of the transport checksums that an interface delivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rxcsum {
    /// Nothing: sum what is for us.
    #[default]
    Verify,
    /// All: the device has checked.
    Trust,
    /// Right ones and partial ones: a field that holds only the pseudo-header's sum is completed on the way out.
    Complete,
}

impl Tables {
    /// The interface with this index, if it (still) exists.
    #[must_use]
    pub fn ifnet(&self, index: IfIndex) -> Option<&Ifnet> {
        self.ifs.get(usize::from(index))?.as_ref()
    }

    /// All interfaces.
    pub fn ifnets(&self) -> impl Iterator<Item = &Ifnet> {
        self.ifs.iter().flatten()
    }

    /// The interface with this name.
    #[must_use]
    pub fn ifnet_named(&self, name: &str) -> Option<&Ifnet> {
        self.ifnets().find(|ifnet| ifnet.name == name)
    }

    /// Whether `addr` is one of our own on any interface.
    #[must_use]
    pub fn is_ours(&self, addr: IpAddr) -> bool {
        self.ifnets().any(|ifnet| ifnet.has(addr))
    }
}

impl Ifnet {
    /// Whether `addr` is one of this interface's own.
    #[must_use]
    pub fn has(&self, addr: IpAddr) -> bool {
        self.addrs.iter().any(|own| own.addr == addr)
    }

    /// This interface's IPv4 addresses.
    pub fn addrs4(&self) -> impl Iterator<Item = (Ipv4Addr, u8)> {
        self.addrs.iter().filter_map(|own| match own.addr {
            IpAddr::V4(addr) => Some((addr, own.prefix_len)),
            IpAddr::V6(_) => None,
        })
    }

    /// This interface's IPv6 addresses, link-local ones included.
    pub fn addrs6(&self) -> impl Iterator<Item = (Ipv6Addr, u8)> {
        self.addrs.iter().filter_map(|own| match own.addr {
            IpAddr::V6(addr) => Some((addr, own.prefix_len)),
            IpAddr::V4(_) => None,
        })
    }

    /// Whether `addr` lies in a prefix that is on this link.
    #[must_use]
    pub fn is_on_link(&self, addr: IpAddr) -> bool {
        self.addrs.iter().any(|own| own.covers(addr))
    }

    /// The own address to speak to `peer` with: one whose prefix covers it, else one that reaches as far.
    #[must_use]
    pub fn source_for(&self, peer: IpAddr) -> Option<IpAddr> {
        let same_family = self.addrs.iter().filter(|own| own.addr.is_ipv4() == peer.is_ipv4());
        let score = |own: &&IfAddr| (own.covers(peer), is_link_local(own.addr) == is_link_local(peer));
        same_family.max_by_key(score).map(|own| own.addr)
    }
}

impl IfAddr {
    /// Whether `addr` lies in this address's prefix.
    #[must_use]
    pub fn covers(&self, addr: IpAddr) -> bool {
        crate::fib::Prefix::new(self.addr, self.prefix_len).is_some_and(|prefix| prefix.covers(addr))
    }
}

fn is_link_local(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => addr.is_link_local(),
        IpAddr::V6(addr) => addr.is_unicast_link_local(),
    }
}
