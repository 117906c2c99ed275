//! Symmetric Toeplitz hashes of addresses and ports: both directions of a flow hash alike.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::toeplitz;

/// The hash of one address, for what concerns a single host.
#[inline]
#[must_use]
pub fn hash_addr(addr: IpAddr) -> u16 {
    match addr {
        IpAddr::V4(addr) => hash_pair(addr.into(), Ipv4Addr::UNSPECIFIED.into()),
        IpAddr::V6(addr) => hash_pair(addr.into(), Ipv6Addr::UNSPECIFIED.into()),
    }
}

/// The hash that places a packet without ports: of its address pair.
#[inline]
#[must_use]
pub fn hash_pair(a: IpAddr, b: IpAddr) -> u16 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => toeplitz::symmetric(toeplitz::fold4(a, b)),
        (IpAddr::V6(a), IpAddr::V6(b)) => toeplitz::symmetric(toeplitz::fold6(a, b)),
        _ => 0,
    }
}

/// The hash that places a flow of TCP or UDP: of its addresses and ports.
#[inline]
#[must_use]
pub fn hash_flow(a: (IpAddr, u16), b: (IpAddr, u16)) -> u16 {
    let ports = toeplitz::fold_ports(a.1, b.1);
    match (a.0, b.0) {
        (IpAddr::V4(a), IpAddr::V4(b)) => toeplitz::symmetric(toeplitz::fold4(a, b) ^ ports),
        (IpAddr::V6(a), IpAddr::V6(b)) => toeplitz::symmetric(toeplitz::fold6(a, b) ^ ports),
        _ => 0,
    }
}
