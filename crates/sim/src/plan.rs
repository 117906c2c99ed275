//! Addresses of a world: network `n` and host `h` in both families.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use net::fib::Prefix;
use net::tables::IfAddr;
use wire::ether::Mac;

/// The two families: tests run one body for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The address of host `host` on network `net`: 10.0.n.h, 2001:db8:n::h.
    #[must_use]
    pub const fn addr(self, net: u8, host: u8) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::new(10, 0, net, host)),
            Self::V6 => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, net as u16, 0, 0, 0, 0, host as u16)),
        }
    }

    /// Bits of a network's prefix.
    #[must_use]
    pub const fn prefix_len(self) -> u8 {
        match self {
            Self::V4 => 24,
            Self::V6 => 64,
        }
    }

    /// The prefix of network `net`.
    #[must_use]
    pub fn prefix(self, net: u8) -> Prefix {
        Prefix::new(self.addr(net, 0), self.prefix_len()).unwrap_or_else(|| Prefix::host(self.addr(net, 0)))
    }

    /// All addresses.
    #[must_use]
    pub fn default_prefix(self) -> Prefix {
        Prefix::new(self.addr(0, 0), 0).unwrap_or_else(|| Prefix::host(self.addr(0, 0)))
    }

    /// The family of an address.
    #[must_use]
    pub const fn of(addr: IpAddr) -> Self {
        if addr.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

/// Both addresses of host `host` on network `net`.
#[must_use]
pub fn addrs(net: u8, host: u8) -> Vec<IfAddr> {
    let addr = |family: Family| IfAddr { addr: family.addr(net, host), prefix_len: family.prefix_len() };
    Family::BOTH.map(addr).to_vec()
}

/// The link address of host `host` on network `net`.
#[must_use]
pub const fn mac(net: u8, host: u8) -> Mac {
    Mac([2, 0, 0, 0, net, host])
}
