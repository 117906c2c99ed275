//! Control messages of datagrams: addresses and interfaces, time to live, type of service.

use core::ffi::c_int;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wire::program::{Head, Icmp, Report, own_number, seen_number};

use crate::addr;

/// Bytes of `struct cmsghdr`, and of what each message is aligned to.
const HEADER: usize = 16;
const ALIGN: usize = 8;
/// Bytes of the control messages of a datagram at the most.
const MOST: usize = 128;
/// Origins of errors (`linux/errqueue.h`), which libc has by another type.
const ORIGIN_LOCAL: u8 = 1;
const ORIGIN_ICMP: u8 = 2;
const ORIGIN_ICMP6: u8 = 3;

/// Reads what a program says of a datagram that it sends.
pub fn read(bytes: &[u8], head: &mut Head) {
    let mut rest = bytes;
    while let Some((header, behind)) = rest.split_first_chunk::<HEADER>() {
        let (len, kind) = header.split_at(8);
        let len = usize::from_ne_bytes(len.try_into().unwrap_or_default());
        let Some(data) = len.checked_sub(HEADER).and_then(|len| behind.get(..len)) else { return };
        let (level, kind) = kind.split_at(4);
        take(head, (number(level), number(kind)), data);
        rest = rest.get(len.next_multiple_of(ALIGN)..).unwrap_or_default();
    }
}

fn take(head: &mut Head, kind: (c_int, c_int), data: &[u8]) {
    match kind {
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let Some((interface, rest)) = data.split_first_chunk::<4>() else { return };
            let Some(source) = rest.first_chunk::<4>() else { return };
            head.interface = own_number(u32::from_ne_bytes(*interface));
            head.local = Ipv4Addr::from(*source).into();
            head.details.local = true;
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let Some((source, rest)) = data.split_first_chunk::<16>() else { return };
            let Some(interface) = rest.first_chunk::<4>() else { return };
            head.interface = own_number(u32::from_ne_bytes(*interface));
            head.local = Ipv6Addr::from(*source).into();
            head.details.local = true;
        }
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
            (head.hops, head.details.hops) = (low(number(data)), number(data) > 0);
        }
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
            let value = if let [byte] = data { c_int::from(*byte) } else { number(data) };
            (head.class, head.details.class) = (low(value), value >= 0);
        }
        _ => {}
    }
}

fn number(bytes: &[u8]) -> c_int {
    bytes.first_chunk().map_or(-1, |number| c_int::from_ne_bytes(*number))
}

fn low(value: c_int) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

/// Control messages, each whole or not at all.
#[derive(Clone, Debug)]
pub struct Control {
    bytes: [u8; MOST],
    len: usize,
    room: usize,
    /// Some had no room.
    pub is_cut: bool,
}

impl Control {
    /// Control messages that have room in so many bytes, with what the program wants to know of a datagram that it has received.
    #[must_use]
    pub fn of(head: &Head, room: usize) -> Self {
        let mut all = Self { bytes: [0; MOST], len: 0, room, is_cut: false };
        let is_v4 = head.peer.is_ipv4();
        let interface = seen_number(head.interface).to_ne_bytes();
        if head.details.local {
            match head.local {
                IpAddr::V4(local) if is_v4 => {
                    let local = local.octets();
                    all.push((libc::IPPROTO_IP, libc::IP_PKTINFO), &[&interface, &local, &local]);
                }
                IpAddr::V4(local) => {
                    let local = local.to_ipv6_mapped().octets();
                    all.push((libc::IPPROTO_IPV6, libc::IPV6_PKTINFO), &[&local, &interface]);
                }
                IpAddr::V6(local) => {
                    all.push((libc::IPPROTO_IPV6, libc::IPV6_PKTINFO), &[&local.octets(), &interface]);
                }
            }
        }
        if head.details.hops {
            let kind = if is_v4 {
                (libc::IPPROTO_IP, libc::IP_TTL)
            } else {
                (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT)
            };
            all.push(kind, &[&c_int::from(head.hops).to_ne_bytes()]);
        }
        if head.details.class {
            // IPv4's is a byte.
            if is_v4 {
                all.push((libc::IPPROTO_IP, libc::IP_TOS), &[&[head.class]]);
            } else {
                let class = c_int::from(head.class).to_ne_bytes();
                all.push((libc::IPPROTO_IPV6, libc::IPV6_TCLASS), &[&class]);
            }
        }
        all
    }

    /// Returns the control message about a datagram that did not arrive: `struct sock_extended_err`, and behind it the sender of the ICMP
    /// error.
    #[must_use]
    pub fn of_report(report: &Report, room: usize) -> Self {
        let Report { to, error, info, icmp } = *report;
        let mut all = Self { bytes: [0; MOST], len: 0, room, is_cut: false };
        let (origin, kind, code) = match icmp {
            None => (ORIGIN_LOCAL, 0, 0),
            Some(Icmp { from: IpAddr::V4(_), kind, code }) => (ORIGIN_ICMP, kind, code),
            Some(Icmp { from: IpAddr::V6(_), kind, code }) => (ORIGIN_ICMP6, kind, code),
        };
        // An IPv6 socket has IPv4 addresses mapped.
        let none = |len: usize| ([0; addr::LEN_MAX], len);
        let (level, from) = match (to, icmp.map(|icmp| icmp.from)) {
            (SocketAddr::V4(_), Some(from)) => {
                ((libc::IPPROTO_IP, libc::IP_RECVERR), addr::emit((from, 0).into()))
            }
            (SocketAddr::V4(_), None) => ((libc::IPPROTO_IP, libc::IP_RECVERR), none(16)),
            (SocketAddr::V6(_), Some(IpAddr::V4(from))) => {
                ((libc::IPPROTO_IPV6, libc::IPV6_RECVERR), addr::emit((from.to_ipv6_mapped(), 0).into()))
            }
            (SocketAddr::V6(_), Some(from)) => {
                ((libc::IPPROTO_IPV6, libc::IPV6_RECVERR), addr::emit((from, 0).into()))
            }
            (SocketAddr::V6(_), None) => ((libc::IPPROTO_IPV6, libc::IPV6_RECVERR), none(28)),
        };
        let (from, len) = from;
        let kinds = [origin, kind, code, 0];
        let from = from.get(..len).unwrap_or_default();
        all.push(level, &[&error.to_ne_bytes(), &kinds, &info.to_ne_bytes(), &[0; 4], from]);
        all
    }

    /// Returns the messages, which have no more bytes than there is room for.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.min(self.room)).unwrap_or_default()
    }

    fn push(&mut self, (level, kind): (c_int, c_int), data: &[&[u8]]) {
        let len = HEADER + data.iter().map(|part| part.len()).sum::<usize>();
        let end = self.len + len.next_multiple_of(ALIGN);
        if self.len + len > self.room || end > MOST {
            self.is_cut = true;
            return;
        }
        let header = [&len.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes()];
        let mut at = self.len;
        for part in header.iter().chain(data) {
            if let Some(place) = self.bytes.get_mut(at..at + part.len()) {
                place.copy_from_slice(part);
            }
            at += part.len();
        }
        self.len = end;
    }
}

#[cfg(test)]
mod tests {
    use core::net::SocketAddr;

    use wire::program::Details;

    use super::*;

    #[test]
    fn control_messages_are_read_as_they_were_written() {
        let details = Details { local: true, hops: true, class: true };
        for (peer, local) in [("192.0.2.1:7", "192.0.2.9"), ("[2001:db8::1]:7", "2001:db8::9")] {
            let (peer, local): (SocketAddr, IpAddr) = (peer.parse().unwrap(), local.parse().unwrap());
            let head = Head { details, hops: 7, class: 0x28, interface: 3, local, ..Head::of(peer) };
            let control = Control::of(&head, MOST);
            let mut again = Head::of(peer);
            read(control.bytes(), &mut again);
            assert!(again == head && !control.is_cut);
            let small = Control::of(&head, 16);
            assert!(small.is_cut && small.bytes().is_empty());
            read(&control.bytes()[..30], &mut again);
        }
    }
}
