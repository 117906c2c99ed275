//! Interfaces and addresses, as programs learn them.

use core::net::IpAddr;

use net::tables::{Ifnet, Tables};
use wire::program::{InterfaceRecord, PAGE_LEN, RECORDS_MAX};

/// Flags of an interface, as Linux numbers them (`net/if.h`).
const UP: u32 = 1;
const BROADCAST: u32 = 1 << 1;
const LOOPBACK: u32 = 1 << 3;
const POINT_TO_POINT: u32 = 1 << 4;
const RUNNING: u32 = 1 << 6;
const NO_ARP: u32 = 1 << 7;
const MULTICAST: u32 = 1 << 12;

/// A page of the list, and the number of records in the whole list.
pub(super) struct Page {
    pub(super) bytes: Vec<u8>,
    pub(super) total: usize,
}

/// Returns the page of the list that begins at a place.
pub(super) fn page(tables: &Tables, from: u32) -> Page {
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let (mut bytes, mut total) = (Vec::with_capacity(PAGE_LEN), 0);
    for record in tables.ifnets().flat_map(records) {
        if total >= from && total - from < RECORDS_MAX {
            bytes.extend(record.emit());
        }
        total += 1;
    }
    bytes.resize(PAGE_LEN, 0);
    Page { bytes, total }
}

/// An interface, and its addresses behind it.
fn records(ifnet: &Ifnet) -> impl Iterator<Item = InterfaceRecord> {
    let number = u32::from(ifnet.index);
    let v4 = ifnet.addrs4().map(|(ip, prefix)| (IpAddr::from(ip), prefix));
    let v6 = ifnet.addrs6().map(|(ip, prefix)| (IpAddr::from(ip), prefix));
    let own = InterfaceRecord::Interface {
        number,
        name: InterfaceRecord::name(&ifnet.name),
        flags: flags(ifnet),
        mtu: ifnet.mtu,
        link: (!ifnet.kind.is_point_to_point()).then_some(ifnet.mac.0),
    };
    let addrs = v4.chain(v6).map(move |(ip, prefix)| InterfaceRecord::Address { number, ip, prefix });
    core::iter::once(own).chain(addrs)
}

fn flags(ifnet: &Ifnet) -> u32 {
    let kind = if ifnet.kind.is_loopback() {
        LOOPBACK
    } else if ifnet.kind.is_point_to_point() {
        POINT_TO_POINT | NO_ARP | MULTICAST
    } else {
        BROADCAST | MULTICAST
    };
    kind | if ifnet.up { UP | RUNNING } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use dev::mem;
    use tokio::runtime::Builder;
    use wire::program::RECORD_LEN;

    use super::*;
    use crate::programs::registry::{Limits, Registry};
    use crate::stack::{Interface, Stack};

    #[test]
    fn a_list_of_interfaces_comes_in_pages_of_which_none_is_longer() {
        let [here, _] = mem::wire(1).unwrap();
        let interface = (1..=40).fold(Interface::mem(here), |own, n| own.address(format!("192.0.2.{n}/24")));
        let stack = Stack::builder().threads(1).interface(interface).start().unwrap();
        let limits = Limits { users: None, low_ports: HashSet::new(), requests: 1, sockets: 1 };
        let registry = Registry::new(stack.sockets().unwrap(), stack.remotes().to_vec(), limits);
        let runtime = Builder::new_current_thread().build().unwrap();
        let read = |from| {
            let Page { bytes, total } = runtime.block_on(registry.interfaces(from)).unwrap();
            assert_eq!(bytes.len(), PAGE_LEN);
            let chunks = bytes.chunks_exact(RECORD_LEN);
            let records: Vec<_> =
                chunks.map_while(|record| InterfaceRecord::parse(record.try_into().ok()?)).collect();
            (records, total)
        };
        let ((first, total), (last, _)) = (read(0), read(32));
        assert_eq!((first.len(), first.len() + last.len()), (RECORDS_MAX, total));
        let all: Vec<_> = first.into_iter().chain(last).collect();
        assert!(matches!(all[0], InterfaceRecord::Interface { number: 1, flags, .. } if flags & UP != 0));
        let own = |n: u8| InterfaceRecord::Address { number: 1, ip: [192, 0, 2, n].into(), prefix: 24 };
        assert!((1..=40).all(|n| all.contains(&own(n))), "{all:?}");
        assert!([42 + 100, u32::MAX].iter().all(|from| read(*from).0.is_empty()));
    }
}
