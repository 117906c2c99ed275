//! Interfaces and their addresses, as programs learn them: those of pantala, which stand beside the kernel's.
//!
//! Their numbers are none of the kernel's ([`INTERFACE_BASE`]). Their names may be, as that of a TAP is:
//! then the kernel's interface is not told.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use rustix::io::Errno;
use wire::program::{
    INTERFACE_BASE, INTERFACE_NAME_LEN, InterfaceRecord, PAGE_LEN, RECORD_LEN, RECORDS_MAX, own_number,
    seen_number,
};

use crate::daemon::{ask_interfaces, may_be_ours};

/// Records of a list at the most.
const LIST_MAX: usize = 1 << 16;
/// Times that a list is asked for that changes meanwhile.
const TRIES: u32 = 4;

/// An interface of pantala.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number, as programs see it.
    pub number: u32,
    /// Its name, and zeros, of which there is one at least.
    pub name: [u8; INTERFACE_NAME_LEN],
    /// Its flags (`IFF_UP` and others).
    pub flags: u32,
    /// Bytes of the largest packet.
    pub mtu: u32,
    /// Its link address, if it has one.
    pub link: Option<[u8; 6]>,
    /// Its addresses, with the bits of their prefixes.
    pub addrs: Vec<(IpAddr, u8)>,
}

impl Interface {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        trimmed(&self.name)
    }

    /// Returns an address of it as a socket has it: with its number, if the address is of its link alone.
    #[must_use]
    pub fn addr(&self, ip: IpAddr) -> SocketAddr {
        match ip {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                SocketAddrV6::new(ip, 0, 0, own_number(self.number)).into()
            }
            ip => SocketAddr::new(ip, 0),
        }
    }

    /// Returns the type of its link (`ARPHRD_ETHER` and others).
    #[must_use]
    pub fn link_type(&self) -> u16 {
        match self.link {
            Some(_) => libc::ARPHRD_ETHER,
            None if self.flags & libc::IFF_LOOPBACK.cast_unsigned() != 0 => libc::ARPHRD_LOOPBACK,
            None => libc::ARPHRD_NONE,
        }
    }

    /// Whether packets to its broadcast addresses reach all hosts on its link.
    #[must_use]
    pub const fn has_broadcast(&self) -> bool {
        self.flags & libc::IFF_BROADCAST.cast_unsigned() != 0
    }
}

/// Returns the interfaces of pantala, without addresses that are not for this program (`--only`); `None`: there are none for it, because
/// the daemon is not there or does not serve it.
#[must_use]
pub fn list() -> Option<Vec<Interface>> {
    (0..TRIES).find_map(|_| whole(ask_interfaces)).flatten()
}

/// Returns the interface with this name.
#[must_use]
pub fn named(name: &[u8]) -> Option<Interface> {
    if name.is_empty() || name.len() >= INTERFACE_NAME_LEN {
        return None;
    }
    list()?.into_iter().find(|own| own.name() == name)
}

/// Returns the interface with this number.
#[must_use]
pub fn numbered(number: u32) -> Option<Interface> {
    if number & INTERFACE_BASE == 0 {
        return None;
    }
    list()?.into_iter().find(|own| own.number == number)
}

/// The bytes in front of the first zero.
#[must_use]
pub fn trimmed(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Returns the mask of a prefix of so many bits.
#[must_use]
pub fn mask(ip: IpAddr, prefix: u8) -> IpAddr {
    let ones = |width: u32| width - u32::from(prefix).min(width);
    match ip {
        IpAddr::V4(_) => Ipv4Addr::from_bits(u32::MAX.checked_shl(ones(32)).unwrap_or(0)).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(u128::MAX.checked_shl(ones(128)).unwrap_or(0)).into(),
    }
}

/// Returns the broadcast address of a prefix. Those of 31 and 32 bits have none (RFC 3021 §2.1).
#[must_use]
pub fn broadcast(ip: IpAddr, prefix: u8) -> Option<Ipv4Addr> {
    match ip {
        IpAddr::V4(ip) if prefix < 31 => Some(Ipv4Addr::from_bits(ip.to_bits() | u32::MAX >> prefix)),
        _ => None,
    }
}

/// The list, page by page. The outer `None`: it has changed meanwhile.
fn whole(mut ask: impl FnMut(u32) -> Result<Page, Errno>) -> Option<Option<Vec<Interface>>> {
    let (mut all, mut place, mut total) = (Vec::new(), 0, None);
    loop {
        let Ok((page, count)) = ask(u32::try_from(place).ok()?) else { return Some(None) };
        if *total.get_or_insert(count) != count {
            return None;
        }
        let most = count.min(LIST_MAX);
        let here = most.saturating_sub(place).min(RECORDS_MAX);
        for record in page.chunks_exact(RECORD_LEN).take(here) {
            take(&mut all, InterfaceRecord::parse(record.first_chunk()?)?)?;
        }
        place += here;
        if place >= most {
            return Some(Some(all));
        }
    }
}

/// Adds a record to the list; `None`: an address without its interface, so the list has changed meanwhile.
fn take(all: &mut Vec<Interface>, record: InterfaceRecord) -> Option<()> {
    match record {
        InterfaceRecord::Interface { number, name, flags, mtu, link } => {
            let number = seen_number(number);
            all.push(Interface { number, name, flags, mtu, link, addrs: Vec::new() });
        }
        InterfaceRecord::Address { number, ip, prefix } => {
            let own = all.last_mut().filter(|own| own.number == seen_number(number))?;
            if may_be_ours((ip, 0).into()) {
                own.addrs.push((ip, prefix));
            }
        }
    }
    Some(())
}

/// A page of the list, and the number of records in the whole list.
pub(crate) type Page = ([u8; PAGE_LEN], usize);

/// Reads the number of records.
pub(crate) fn count(value: i32) -> Result<usize, Errno> {
    usize::try_from(value).map_err(|_| Errno::NETDOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_broadcast_addresses_are_those_of_the_prefix() {
        let [v4, v6]: [IpAddr; 2] = ["192.0.2.9", "2001:db8::9"].map(|text| text.parse().unwrap());
        let text = |ip: IpAddr, prefix| mask(ip, prefix).to_string();
        assert_eq!(
            (&*text(v4, 24), &*text(v4, 0), &*text(v4, 32)),
            ("255.255.255.0", "0.0.0.0", "255.255.255.255")
        );
        assert_eq!((&*text(v6, 64), &*text(v6, 0)), ("ffff:ffff:ffff:ffff::", "::"));
        assert_eq!(broadcast(v4, 24), Some([192, 0, 2, 255].into()));
        assert_eq!(broadcast(v4, 0), Some(Ipv4Addr::BROADCAST));
        assert_eq!((broadcast(v4, 31), broadcast(v6, 64)), (None, None));
    }

    #[test]
    fn a_list_of_interfaces_is_bounded_and_one_that_changes_is_asked_for_again() {
        let name = InterfaceRecord::name("t0");
        let record = InterfaceRecord::Interface { number: 1, name, flags: 1, mtu: 1500, link: None }.emit();
        let page: [u8; PAGE_LEN] = record.repeat(RECORDS_MAX).try_into().unwrap();
        let mut asked = Vec::new();
        let all = whole(|from| {
            asked.push(from);
            Ok((page, usize::MAX))
        });
        assert_eq!(all.unwrap().unwrap().len(), LIST_MAX);
        assert_eq!(asked.len(), LIST_MAX / RECORDS_MAX);
        assert_eq!(whole(|_| Ok((page, 3))).unwrap().unwrap().len(), 3);
        assert_eq!(whole(|_| Ok((page, 0))), Some(Some(Vec::new())));
        assert_eq!(whole(|from| Ok((page, if from == 0 { 70 } else { 71 }))), None, "it has changed");
        assert_eq!(whole(|_| Ok(([9; PAGE_LEN], 3))), None, "what is no record");
        assert_eq!(whole(|_| Err(Errno::NETDOWN)), Some(None));
    }

    #[test]
    fn addresses_belong_to_the_interface_before_them() {
        let mut all = Vec::new();
        let name = InterfaceRecord::name("t0");
        let address = |number| InterfaceRecord::Address { number, ip: [192, 0, 2, 1].into(), prefix: 24 };
        assert_eq!(take(&mut all, address(1)), None);
        let own = InterfaceRecord::Interface { number: 1, name, flags: 1, mtu: 1500, link: None };
        assert_eq!(take(&mut all, own), Some(()));
        assert_eq!(take(&mut all, address(2)), None);
        assert_eq!((all[0].number, all[0].name()), (INTERFACE_BASE + 1, &b"t0"[..]));
        let at = all[0].addr("fe80::1".parse().unwrap());
        assert!(matches!(at, SocketAddr::V6(at) if at.scope_id() == 1));
    }
}
