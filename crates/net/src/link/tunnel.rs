//! Tunnels as interfaces: point-to-point links without rings, whose packets travel in packets between two addresses.
//!
//! Stages in between see an Ethernet interface with link addresses of zeros. On the way out that header comes off again
//! and the packet gets its outer header ([`crate::turn::next::Next::Encapsulate`]). On the way in the outer addresses
//! name the interface.
//!
//! # Spec
//! RFC 2003 §3; RFC 2473 §3, §6; RFC 4213 §3; RFC 2784 §2; RFC 2890 §2.

mod ends;

pub use self::ends::Tunnels;

use core::net::IpAddr;

use pkt::{Flags, Pkt};
use wire::ether::EtherType;
use wire::{Protocol, gre, ip4, ip6};

use crate::link::driver::Caps;

/// Headers that one packet gets on its way out, or loses on its way in, at the most.
pub const NESTING_MAX: u16 = 4;
/// A tunnel takes chains of buffers; all else is done before a packet enters it.
pub(super) const CAPS: Caps = Caps { tx_csum: false, tso: false, uso: false, buffers_max: usize::MAX };

/// A tunnel between two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tunnel {
    /// Our outer address.
    pub local: IpAddr,
    /// The outer address of the other end; the first one of the prefix, if there may be several ends.
    pub remote: IpAddr,
    /// Bits of `remote` that an outer source must have: all of one other end, 0 of any.
    pub remote_len: u8,
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
    /// Returns a tunnel with one other end.
    #[must_use]
    pub const fn between(local: IpAddr, remote: IpAddr, encap: Encap) -> Self {
        let remote_len = if remote.is_ipv4() { 32 } else { 128 };
        Self { local, remote, remote_len, encap }
    }

    /// Returns whether it has one other end: packets can be sent into it.
    #[must_use]
    pub const fn has_one_end(&self) -> bool {
        self.remote_len == if self.remote.is_ipv4() { 32 } else { 128 }
    }

    /// Returns it as the table has it: only the first bits of the other end.
    fn masked(self, remote_len: u8) -> Self {
        let remote = match self.remote {
            IpAddr::V4(addr) => {
                let mask = u32::MAX.checked_shl(32_u32.saturating_sub(remote_len.into())).unwrap_or(0);
                IpAddr::V4((addr.to_bits() & mask).into())
            }
            IpAddr::V6(addr) => {
                let mask = u128::MAX.checked_shl(128_u32.saturating_sub(remote_len.into())).unwrap_or(0);
                IpAddr::V6((addr.to_bits() & mask).into())
            }
        };
        Self { remote, remote_len, ..self }
    }

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
