//! `ioctl(2)` about interfaces (netdevice(7)): what asks for an interface by its name or number.

use core::ffi::c_ulong;
use core::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};
use wire::program::INTERFACE_NAME_LEN;

use crate::interfaces::{self, Interface, trimmed};
use crate::{addr, stream};

/// Bytes of `struct ifreq`: a name, and a union.
pub const IFREQ_LEN: usize = 40;

/// Requests (`linux/sockios.h`), of which libc has some.
const NAME: c_ulong = 0x8910;
/// The list of addresses (`SIOCGIFCONF`).
pub const LIST: c_ulong = 0x8912;
const FLAGS: c_ulong = 0x8913;
const ADDR: c_ulong = 0x8915;
const PEER: c_ulong = 0x8917;
const BROADCAST: c_ulong = 0x8919;
const MASK: c_ulong = 0x891b;
const METRIC: c_ulong = 0x891d;
const MTU: c_ulong = 0x8921;
const LINK: c_ulong = 0x8927;
const NUMBER: c_ulong = 0x8933;

/// Whether a request asks for an interface.
#[must_use]
pub const fn is_known(request: c_ulong) -> bool {
    matches!(request, NAME | LIST | FLAGS | ADDR | PEER | BROADCAST | MASK | METRIC | MTU | LINK | NUMBER)
}

/// Whether such requests of a socket are about pantala's interfaces: it is a socket of TCP or UDP, of pantala or not yet.
#[must_use]
pub fn is_asked(fd: BorrowedFd<'_>) -> bool {
    let is_ip = || {
        matches!(sockopt::socket_domain(fd), Ok(AddressFamily::INET | AddressFamily::INET6))
            && matches!(sockopt::socket_type(fd), Ok(SocketType::STREAM | SocketType::DGRAM))
    };
    stream::name(fd).is_some() || is_ip()
}

/// Answers a request in its `struct ifreq`; `None`: it names no interface of pantala.
///
/// # Errors
/// `EADDRNOTAVAIL`: the interface has no IPv4 address.
pub fn answer(request: c_ulong, asked: &mut [u8; IFREQ_LEN]) -> Option<Result<(), Errno>> {
    let (name, value) = asked.split_first_chunk_mut::<INTERFACE_NAME_LEN>()?;
    if request == NAME {
        let number = u32::from_ne_bytes(*value.first_chunk()?);
        *name = interfaces::numbered(number)?.name;
        return Some(Ok(()));
    }
    let own = interfaces::named(trimmed(name))?;
    let answer = value_of(&own, request)?;
    if let Ok(bytes) = &answer {
        value.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    }
    Some(answer.map(drop))
}

/// The union of the answer.
fn value_of(own: &Interface, request: c_ulong) -> Option<Result<Vec<u8>, Errno>> {
    let first = own.addrs.iter().find(|(ip, _)| ip.is_ipv4());
    let socket = |ip: IpAddr| {
        let (bytes, len) = addr::emit((ip, 0).into());
        bytes.get(..len).unwrap_or_default().to_vec()
    };
    let of_first = |value: &dyn Fn(IpAddr, u8) -> IpAddr| {
        first.map(|(ip, prefix)| socket(value(*ip, *prefix))).ok_or(Errno::ADDRNOTAVAIL)
    };
    let broadcast = |ip, prefix| {
        let broadcast = interfaces::broadcast(ip, prefix).filter(|_| own.has_broadcast());
        broadcast.unwrap_or(Ipv4Addr::UNSPECIFIED).into()
    };
    Some(match request {
        // A short.
        FLAGS => Ok(own.flags.to_ne_bytes().get(low_half()).unwrap_or_default().to_vec()),
        ADDR | PEER => of_first(&|ip, _| ip),
        MASK => of_first(&interfaces::mask),
        BROADCAST => of_first(&broadcast),
        METRIC => Ok(vec![0; 4]),
        MTU => Ok(own.mtu.to_ne_bytes().to_vec()),
        LINK => Ok([&own.link_type().to_ne_bytes()[..], &own.link.unwrap_or_default()].concat()),
        NUMBER => Ok(own.number.to_ne_bytes().to_vec()),
        _ => return None,
    })
}

/// Where the low half of an `int` is in memory.
const fn low_half() -> core::ops::Range<usize> {
    if cfg!(target_endian = "little") { 0..2 } else { 2..4 }
}

/// The entries of the list for pantala's interfaces: one for each IPv4 address.
#[must_use]
pub fn entries(own: &[Interface]) -> Vec<[u8; IFREQ_LEN]> {
    let mut all = Vec::new();
    for own in own {
        for (ip, _) in own.addrs.iter().filter(|(ip, _)| ip.is_ipv4()) {
            let mut entry = [0; IFREQ_LEN];
            let (bytes, len) = addr::emit((*ip, 0).into());
            let parts = own.name.iter().chain(bytes.iter().take(len));
            entry.iter_mut().zip(parts).for_each(|(place, byte)| *place = *byte);
            all.push(entry);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use wire::program::InterfaceRecord;

    use super::*;

    fn own() -> Interface {
        Interface {
            number: 7,
            name: InterfaceRecord::name("t0"),
            flags: 0x1043,
            mtu: 1500,
            link: Some([2, 0, 0, 0, 0, 1]),
            addrs: vec![([192, 0, 2, 9].into(), 24), ("2001:db8::9".parse().unwrap(), 64)],
        }
    }

    #[test]
    fn a_request_about_an_interface_gets_its_value() {
        let own = own();
        let value = |request| value_of(&own, request).unwrap().unwrap();
        assert_eq!(value(FLAGS), 0x1043_u16.to_ne_bytes());
        assert_eq!(value(ADDR)[4..8], [192, 0, 2, 9]);
        assert_eq!(value(MASK)[4..8], [255, 255, 255, 0]);
        assert_eq!(value(BROADCAST)[4..8], [192, 0, 2, 255]);
        assert_eq!(value(LINK)[2..], [2, 0, 0, 0, 0, 1]);
        let none = Interface { addrs: own.addrs[1..].to_vec(), ..own.clone() };
        assert_eq!(value_of(&none, ADDR), Some(Err(Errno::ADDRNOTAVAIL)));
        assert!(value_of(&own, 0x8914).is_none() && !is_known(0x8914));
    }

    #[test]
    fn the_list_has_an_entry_for_each_ipv4_address() {
        let all = entries(&[own(), own()]);
        assert_eq!((all.len(), &all[0][..3], &all[1][20..24]), (2, &b"t0\0"[..], &[192, 0, 2, 9][..]));
    }
}
