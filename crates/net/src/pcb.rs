//! Between whom a conversation is, and how it is found.

mod bound;

use core::net::{IpAddr, SocketAddr};

use wire::toeplitz;

pub(crate) use self::bound::{Bound, choose};
use crate::cpu::Cpu;
use crate::rss;
use crate::secret::{Secret, fold};
use crate::tables::IfIndex;

/// The two ends of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ends {
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

/// Ports that are given to conversations whose program names none: FreeBSD's range. More than RFC 6335 §6 calls dynamic,
/// since each of them makes guessing harder (RFC 6056 §3.2).
pub const EPHEMERAL: core::ops::RangeInclusive<u16> = 10_000..=65_535;

/// Ports that are tried for one conversation before there is said to be none.
const PORTS_TRIED_MAX: usize = 256;

impl Ends {
    /// Between `local` and `remote`, by the interface `zone` if they are of a link.
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
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        (self.local, self.local_port).into()
    }

    /// The other end.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        (self.remote, self.remote_port).into()
    }

    /// The hash that places the conversation's packets.
    #[must_use]
    pub fn flow(&self) -> u16 {
        rss::hash_flow((self.local, self.local_port), (self.remote, self.remote_port))
    }

    /// A hash for tables, that nobody can aim at who does not know `secret`.
    #[inline]
    pub(crate) fn hash(&self, secret: &[u64; 4]) -> u64 {
        let ports =
            u64::from(self.local_port) << 16 | u64::from(self.remote_port) | u64::from(self.zone) << 32;
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

/// A local port for a conversation with `ends` whose local port is not known, such that its packets come to this CPU
/// and it is not `taken`: drawn from all that do, so that it cannot be guessed. `None` if all that were drawn are taken.
///
/// The hash is the same both ways and linear, so a port is computed from a hash of this CPU, not searched for.
//= https://www.rfc-editor.org/rfc/rfc6056#section-3.3.1
pub(crate) fn port(cpu: &mut Cpu, ends: Ends, taken: impl Fn(&Cpu, &Ends) -> bool) -> Option<u16> {
    let (buckets, cpus) = (u64::from(cpu.placement.buckets()), u64::from(cpu.placement.cpus()));
    let mine = buckets.saturating_sub(cpu.id.0.into()).div_ceil(cpus);
    let rest = others(&ends);
    (0..PORTS_TRIED_MAX).find_map(|_| {
        let bucket = cpu.secret.below(mine) * cpus + u64::from(cpu.id.0);
        let hash = cpu.secret.below(0x1_0000 / buckets) * buckets + bucket;
        let port = toeplitz::fold_of(u16::try_from(hash).ok()?) ^ rest;
        let is_good = EPHEMERAL.contains(&port) && !taken(cpu, &Ends { local_port: port, ..ends });
        is_good.then_some(port)
    })
}

/// What the hash is made of besides the local port.
fn others(ends: &Ends) -> u16 {
    let addrs = match (ends.local, ends.remote) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => toeplitz::fold4(local, remote),
        (IpAddr::V6(local), IpAddr::V6(remote)) => toeplitz::fold6(local, remote),
        _ => 0,
    };
    addrs ^ toeplitz::fold_ports(0, ends.remote_port)
}

/// Whether an address means something only with its link.
pub(crate) fn is_of_a_link(addr: IpAddr) -> bool {
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
pub(crate) fn secrets(secret: &mut Secret) -> [u64; 4] {
    core::array::from_fn(|_| secret.draw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{Bench, addr4, addr6};

    #[test]
    fn a_port_brings_replies_home_and_is_not_taken_and_not_always_the_same() {
        for cpus in [1, 2, 3, 8] {
            let mut bench = Bench::with(1, cpus, |_| ());
            for at in 0..usize::from(cpus) {
                let cpu = &mut bench.netisrs[at].cpu;
                for (local, remote) in
                    [(addr4(1, 1).into(), addr4(1, 9).into()), (addr6(1, 1).into(), addr6(1, 9).into())]
                {
                    let ends = Ends { local, remote, local_port: 0, remote_port: 80, zone: 0 };
                    let ports: Vec<u16> = (0..50)
                        .map(|_| port(cpu, ends, |_, ends| ends.local_port % 2 == 0).unwrap())
                        .collect();
                    for port in &ports {
                        let ends = Ends { local_port: *port, ..ends };
                        assert_eq!(cpu.placement.owner(ends.flow()), cpu.id, "{cpus} CPUs, port {port}");
                        assert!(EPHEMERAL.contains(port) && port % 2 == 1);
                    }
                    assert!(ports.iter().any(|port| *port != ports[0]));
                    assert_eq!(port(cpu, ends, |_, _| true), None);
                }
            }
        }
    }
}
