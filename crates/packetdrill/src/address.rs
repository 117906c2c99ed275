//! Socket addresses as C lays them out on Linux: the family as the machine counts, the rest as the network does.

use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::errno::Code;

/// Bytes of `struct sockaddr_in`.
const LEN_V4: usize = 16;
/// Bytes of `struct sockaddr_in6`.
const LEN_V6: usize = 28;

/// The address families of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    /// `AF_INET`.
    V4,
    /// `AF_INET6`; those of IPv4 stand for themselves in a part of it (RFC 4291 §2.5.5.2).
    V6,
}

/// The address that stands in `bytes`.
pub(crate) fn read(bytes: &[u8], domain: Domain) -> Result<SocketAddr, Code> {
    let wrong = Code(libc::EINVAL);
    let port = u16::from_be_bytes(piece(bytes, 2).ok_or(wrong)?);
    let family = libc::c_int::from(u16::from_ne_bytes(piece(bytes, 0).ok_or(wrong)?));
    match (family, domain) {
        (libc::AF_INET, Domain::V4) => {
            let addr: [u8; 4] = piece(bytes, 4).ok_or(wrong)?;
            Ok((addr, port).into())
        }
        (libc::AF_INET6, Domain::V6) => {
            let addr = Ipv6Addr::from(piece::<16>(bytes, 8).ok_or(wrong)?);
            Ok((addr.to_canonical(), port).into())
        }
        _ => Err(Code(libc::EAFNOSUPPORT)),
    }
}

/// Tells whether `bytes` are AF_UNSPEC: connecting to it dissolves the association.
pub(crate) fn is_none(bytes: &[u8]) -> bool {
    piece(bytes, 0).is_some_and(|family| libc::c_int::from(u16::from_ne_bytes(family)) == libc::AF_UNSPEC)
}

fn piece<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// The bytes of an address for a socket of this domain.
pub(crate) fn write(addr: SocketAddr, domain: Domain) -> Vec<u8> {
    match (addr, domain) {
        (SocketAddr::V4(addr), Domain::V4) => {
            let mut bytes = head(libc::AF_INET, addr.port());
            bytes.extend(addr.ip().octets());
            bytes.resize(LEN_V4, 0);
            bytes
        }
        (addr, _) => {
            let ip = match addr.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            let addr = SocketAddrV6::new(ip, addr.port(), 0, 0);
            let mut bytes = head(libc::AF_INET6, addr.port());
            bytes.extend([0; 4]);
            bytes.extend(addr.ip().octets());
            bytes.resize(LEN_V6, 0);
            bytes
        }
    }
}

fn head(family: libc::c_int, port: u16) -> Vec<u8> {
    let family = u16::try_from(family).unwrap_or(0);
    [family.to_ne_bytes(), port.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_were_written_and_those_of_ipv4_have_a_place_in_ipv6() {
        for (addr, domain, len) in [
            ("192.0.2.1:8080", Domain::V4, LEN_V4),
            ("192.0.2.1:8080", Domain::V6, LEN_V6),
            ("[2001:db8::1]:8080", Domain::V6, LEN_V6),
        ] {
            let addr: SocketAddr = addr.parse().unwrap();
            let bytes = write(addr, domain);
            assert_eq!((read(&bytes, domain), bytes.len()), (Ok(addr), len));
            assert!(read(&bytes[..len / 4], domain).is_err(), "too short");
        }
        let v4 = write("192.0.2.1:1".parse().unwrap(), Domain::V4);
        assert_eq!(read(&v4, Domain::V6), Err(Code(libc::EAFNOSUPPORT)));
        assert_eq!(read(&[], Domain::V4), Err(Code(libc::EINVAL)));
        assert!(is_none(&[0; LEN_V4]) && !is_none(&v4) && !is_none(&[]));
    }
}
