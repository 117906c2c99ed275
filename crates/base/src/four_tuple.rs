//! Four-tuples: the two ends of a connection.

use core::net::{IpAddr, SocketAddr};

use crate::ids::IfIndex;
use crate::rss_hash;
use crate::secret::{Secret, fold};

/// The two ends of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FourTuple {
    /// Ours.
    pub local: IpAddr,
    /// The other one.
    pub remote: IpAddr,
    /// Our port.
    pub local_port: u16,
    /// The other one.
    pub remote_port: u16,
    /// The interface, where addresses mean something only with their link; else 0.
    pub zone: IfIndex,
}

impl FourTuple {
    /// Between `local` and `remote`, by the interface `zone` if they are of a link.
    #[inline]
    #[must_use]
    pub fn new(local: SocketAddr, remote: SocketAddr, zone: IfIndex) -> Self {
        Self {
            local: local.ip(),
            remote: remote.ip(),
            local_port: local.port(),
            remote_port: remote.port(),
            zone: if is_of_a_link(remote.ip()) { zone } else { 0 },
        }
    }

    /// Our end.
    #[inline]
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        (self.local, self.local_port).into()
    }

    /// The other end.
    #[inline]
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        (self.remote, self.remote_port).into()
    }

    /// The hash that places the conversation's packets.
    #[inline]
    #[must_use]
    pub fn flow(&self) -> u16 {
        rss_hash::hash_flow((self.local, self.local_port), (self.remote, self.remote_port))
    }

    /// All of it, in words: for hashes that are slower and give nothing away.
    #[inline]
    pub fn words(&self) -> [u64; 5] {
        let ([a, b], [c, d]) = (words(self.local), words(self.remote));
        [a, b, c, d, self.ports()]
    }

    const fn ports(&self) -> u64 {
        (self.zone as u64) << 32 | (self.local_port as u64) << 16 | self.remote_port as u64
    }

    /// Hashes with a secret key, so that collisions cannot be chosen.
    #[inline]
    pub fn hash(&self, secret: &[u64; 4]) -> u64 {
        let ports = self.ports();
        match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let addrs = u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits());
                fold(addrs ^ secret[0], ports ^ secret[1])
            }
            (local, remote) => {
                let ([a, b], [c, d]) = (words(local), words(remote));
                let addrs =
                    fold(a ^ secret[0], b ^ secret[1]) ^ fold(c ^ secret[2], d ^ secret[3]).rotate_left(32);
                fold(addrs ^ secret[2], ports ^ secret[1])
            }
        }
    }
}

/// Whether an address means something only with its link.
#[inline]
pub fn is_of_a_link(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => addr.is_link_local() || addr.is_multicast(),
        IpAddr::V6(addr) => addr.is_unicast_link_local() || addr.is_multicast(),
    }
}

fn words(addr: IpAddr) -> [u64; 2] {
    let bits = match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().to_bits(),
        IpAddr::V6(addr) => addr.to_bits(),
    };
    [u64::try_from(bits >> 64).unwrap_or(0), u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(0)]
}

/// The secrets of a table of conversations.
#[inline]
pub fn secrets(secret: &mut Secret) -> [u64; 4] {
    core::array::from_fn(|_| secret.draw())
}
