//! C's socket addresses, as bytes.

use core::ffi::c_int;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use wire::program::seen_number;

const V4_LEN: usize = size_of::<libc::sockaddr_in>();
/// Bytes of an address at the most.
pub const LEN_MAX: usize = size_of::<libc::sockaddr_in6>();

/// Reads an IPv4 or IPv6 address; `None` if it is another, or too short.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let port = u16::from_be_bytes(*port);
    match c_int::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET if bytes.len() >= V4_LEN => {
            let ip = Ipv4Addr::from(*rest.first_chunk::<4>()?);
            Some((ip, port).into())
        }
        libc::AF_INET6 if bytes.len() >= LEN_MAX => {
            let (flow, rest) = rest.split_first_chunk::<4>()?;
            let (ip, rest) = rest.split_first_chunk::<16>()?;
            let scope = u32::from_ne_bytes(*rest.first_chunk::<4>()?);
            let flow = u32::from_be_bytes(*flow);
            Some(SocketAddrV6::new(Ipv6Addr::from(*ip), port, flow, scope).into())
        }
        _ => None,
    }
}

/// Whether it is of no family, which means that a socket has no peer any more.
#[must_use]
pub fn is_none(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|family| c_int::from(u16::from_ne_bytes(*family)) == libc::AF_UNSPEC)
}

/// Writes an address, and returns how many of the bytes it has. The number of an interface in it is the one that programs see.
#[must_use]
pub fn emit(at: SocketAddr) -> ([u8; LEN_MAX], usize) {
    let mut bytes = [0; LEN_MAX];
    let (family, len) = match at {
        SocketAddr::V4(at) => {
            bytes[4..8].copy_from_slice(&at.ip().octets());
            (libc::AF_INET, V4_LEN)
        }
        SocketAddr::V6(at) => {
            bytes[8..24].copy_from_slice(&at.ip().octets());
            bytes[24..28].copy_from_slice(&seen_number(at.scope_id()).to_ne_bytes());
            (libc::AF_INET6, LEN_MAX)
        }
    };
    let family = u16::try_from(family).unwrap_or(0);
    bytes[..2].copy_from_slice(&family.to_ne_bytes());
    bytes[2..4].copy_from_slice(&at.port().to_be_bytes());
    (bytes, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written() {
        for at in ["192.0.2.1:80", "[2001:db8::1]:443", "[fe80::1%1073741827]:443"] {
            let at: SocketAddr = at.parse().unwrap();
            let (bytes, len) = emit(at);
            assert_eq!(parse(&bytes[..len]), Some(at));
            assert_eq!(parse(&bytes[..len - 1]), None, "too short");
        }
        assert!(is_none(&[0, 0]) && !is_none(&[0]) && !is_none(&[2, 0]));
    }
}
