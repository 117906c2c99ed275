//! `publish` and `proxy_arp`: addresses of other hosts that an interface answers for.

use core::net::IpAddr;

use net::tables::{PUBLISHED_MAX, Publication, Published};
use wire::ether::Mac;

use super::fields::Fields;
use super::problem::{At, Report, Wrong};

/// The addresses of other hosts that an interface answers for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Publish {
    /// Each address, with the link address in answers if that is not the interface's own.
    pub addresses: Vec<(IpAddr, Option<Mac>)>,
    /// ARP requests are answered for each address that is routed by another interface.
    pub proxy_arp: bool,
}

impl Publish {
    /// Returns these addresses and the others, of which these count first, as the netisrs want them.
    pub(crate) fn with(&self, others: &Self) -> Published {
        let all = self.addresses.iter().chain(&others.addresses);
        let list = all.map(|(addr, mac)| Publication { addr: *addr, mac: *mac });
        Published::new(list.collect(), self.proxy_arp || others.proxy_arp)
    }

    /// Adds an address, or gives it another link address; false if `most` are there.
    pub(crate) fn add(&mut self, address: IpAddr, mac: Option<Mac>, most: usize) -> bool {
        if let Some(own) = self.addresses.iter_mut().find(|(addr, _)| *addr == address) {
            own.1 = mac;
            return true;
        }
        let has_room = self.addresses.len() < most;
        if has_room {
            self.addresses.push((address, mac));
        }
        has_room
    }

    /// Removes an address; whether it was there.
    pub(crate) fn remove(&mut self, address: IpAddr) -> bool {
        let before = self.addresses.len();
        self.addresses.retain(|(addr, _)| *addr != address);
        self.addresses.len() < before
    }
}

pub(super) fn read(fields: &Fields<'_>, report: &mut Report<'_>) -> Publish {
    let list = fields.parsed_list("publish", publication, report);
    if let Some(first) = list.get(PUBLISHED_MAX) {
        let message = format!("an interface publishes at most {PUBLISHED_MAX} addresses");
        report.add(&first.span, message, "proxy_arp = true answers for whole networks");
    }
    let addresses = list.into_iter().map(|at: At<_>| at.value).take(PUBLISHED_MAX).collect();
    let proxy_arp = fields.truth("proxy_arp", report).is_some_and(|at| at.value);
    Publish { addresses, proxy_arp }
}

/// `ADDRESS` or `ADDRESS=MAC`.
fn publication(text: &str) -> Result<(IpAddr, Option<Mac>), Wrong> {
    const HELP: &str = "write an address like 192.0.2.9, or 192.0.2.9=02:00:00:00:00:09";
    let (address, mac) = text.split_once('=').map_or((text, None), |(address, mac)| (address, Some(mac)));
    let address: IpAddr =
        address.trim().parse().map_err(|_| Wrong::new(format!("`{address}` is not an address"), HELP))?;
    if address.is_multicast() || address.is_unspecified() {
        return Err(Wrong::new(format!("{address} is not the address of one host"), HELP));
    }
    let read = |text: &str| {
        let mac = text.trim().parse::<Mac>().ok().filter(|mac| mac.is_unicast());
        mac.ok_or_else(|| Wrong::new(format!("`{text}` is not the Ethernet address of one host"), HELP))
    };
    Ok((address, mac.map(read).transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_published_with_or_without_a_link_address() {
        let mac = Mac([2, 0, 0, 0, 0, 9]);
        for address in ["192.0.2.9", "2001:db8::9"] {
            let ip: IpAddr = address.parse().unwrap();
            assert_eq!(publication(address).unwrap(), (ip, None));
            assert_eq!(publication(&format!("{address}=02:00:00:00:00:09")).unwrap(), (ip, Some(mac)));
        }
        for wrong in
            ["", "host", "192.0.2.0/24", "224.0.0.1", "::", "192.0.2.9=ff:ff:ff:ff:ff:ff", "192.0.2.9=x"]
        {
            assert!(publication(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn so_many_addresses_are_published_and_no_more() {
        let mut publish = Publish::default();
        let address = |n: usize| IpAddr::from(u128::try_from(n).unwrap().to_be_bytes());
        assert!((1..=PUBLISHED_MAX).all(|n| publish.add(address(n), None, PUBLISHED_MAX)));
        assert!(!publish.add(address(PUBLISHED_MAX + 1), None, PUBLISHED_MAX));
        assert!(
            publish.add(address(7), Some(Mac([2, 0, 0, 0, 0, 9])), PUBLISHED_MAX),
            "one that is there may change"
        );
        assert!(publish.remove(address(7)) && !publish.remove(address(7)));
        assert!(publish.add(address(PUBLISHED_MAX + 1), None, PUBLISHED_MAX));
    }
}
