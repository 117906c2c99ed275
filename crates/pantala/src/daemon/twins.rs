//! Twins: interfaces of the kernel with the addresses of ours. What nothing here wants goes there.
//!
//! A twin is a TAP that outlives a killed daemon, without carrier ([`super::device::twin`]): the next one begins with what the kernel
//! has, and changes what differs. This stack resolves neighbours and detects duplicates; the kernel is told not to configure
//! itself.

use std::collections::BTreeMap;

use dev::netlink::{LinkFlags, NetlinkError, Rtnetlink};
use dev::sys::sysctl;
use ipnet::IpNet;
use net::tables::{IfIndex, Ifnet, PREFIX_LEN};

use super::control::Control;
use super::log;
use super::tables::Attached;
use crate::Mac;

/// Settings of the kernel's interface, and their values. An IPv6 address outlasts that its interface is down.
const QUIET: &[(&str, u8)] = &[
    ("addr_gen_mode", 1),
    ("accept_ra", 0),
    ("autoconf", 0),
    ("accept_dad", 0),
    ("dad_transmits", 0),
    ("router_solicitations", 0),
    ("keep_addr_on_down", 1),
    ("disable_ipv6", 0),
];

/// Twins as they were set last, by their number.
pub(super) type Twins = BTreeMap<IfIndex, Mirrored>;

/// The state of a twin, as the kernel had it first, and as it was given last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mirrored {
    /// The kernel's number of the interface: another one has its own state.
    kernels: u32,
    mac: Option<Mac>,
    mtu: u32,
    is_up: bool,
    has_carrier: Option<bool>,
    addresses: Vec<IpNet>,
}

/// Lets the kernel not configure an interface by itself.
pub(super) fn quiet(host: &str) {
    let name = host.replace('.', "/");
    for (setting, value) in QUIET {
        let set = sysctl::set(&format!("ipv6.conf.{name}.{setting}"), value);
        // A kernel without IPv6 has none of them.
        if let Err(why) = set.or_else(|why| if has_ipv6() { Err(why) } else { Ok(()) }) {
            log::warning(&format!("the kernel may configure {host} by itself: {why}"));
            return;
        }
    }
}

fn has_ipv6() -> bool {
    sysctl::get("ipv6.conf.all.forwarding").is_ok()
}

impl Control {
    /// Gives twins the link address, MTU, state and addresses of their interfaces, as they are now.
    pub(super) fn mirror_twins(&mut self) {
        if self.twins.is_empty() && !self.attached.iter().any(|own| own.config.twin_of.is_some()) {
            return;
        }
        let attached = &self.attached;
        self.twins.retain(|index, _| attached.iter().any(|own| own.index == *index));
        for twin in attached.iter().filter(|twin| twin.away.is_none()) {
            let Some(of) = twin.config.twin_of.as_deref() else { continue };
            let Some((host, number)) = &twin.facts.host else { continue };
            let Some(interface) = attached.iter().find(|own| own.config.name == of) else { continue };
            let Some(ifnet) = self.tables.ifnet(interface.index) else { continue };
            let wanted = wanted(interface, ifnet, *number);
            let has = self.twins.entry(twin.index).or_default();
            if has.kernels != *number {
                match Mirrored::read(&mut self.workshop.netlink, host) {
                    Ok(read) if read.kernels == *number => *has = read,
                    // Another has its name by now.
                    Ok(_) => continue,
                    Err(why) => {
                        log::error(&format!("{host}, the twin of {of}: {why}"));
                        continue;
                    }
                }
            }
            if *has != wanted
                && let Err(why) = give(&mut self.workshop.netlink, host, has, &wanted)
            {
                log::error(&format!("{host}, the twin of {of}, is not as its interface is: {why}"));
            }
        }
    }
}

impl Mirrored {
    /// Reads what the kernel has.
    fn read(netlink: &mut Rtnetlink, host: &str) -> Result<Self, NetlinkError> {
        let link = netlink.link(host)?;
        let all = netlink.addresses()?;
        let is_up = link.flags.contains(LinkFlags::UP);
        let mut addresses: Vec<IpNet> =
            all.iter().filter(|own| own.ifindex == link.index).map(|own| own.net).collect();
        addresses.sort_unstable();
        Ok(Self {
            kernels: link.index,
            mac: link.mac.map(wire::ether::Mac).map(Mac),
            mtu: link.mtu,
            is_up,
            // A TAP forgets it while it is down.
            has_carrier: link.carrier.filter(|_| is_up),
            addresses,
        })
    }
}

fn wanted(interface: &Attached, ifnet: &Ifnet, kernels: u32) -> Mirrored {
    let own = ifnet.addrs.iter().map(|own| (own.addr, own.prefix_len));
    let learned = ifnet.learned.addrs.iter().map(|own| (own.addr.into(), PREFIX_LEN));
    let mut addresses: Vec<IpNet> =
        own.chain(learned).filter_map(|(addr, len)| IpNet::new(addr, len).ok()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    Mirrored {
        kernels,
        mac: Some(Mac(interface.facts.mac)),
        mtu: interface.mtu(),
        is_up: interface.up,
        has_carrier: Some(interface.away.is_none() && interface.has_carrier),
        addresses,
    }
}

/// Removes the addresses that the interface has no more.
fn take_away(
    netlink: &mut Rtnetlink,
    host: &str,
    has: &mut Mirrored,
    wanted: &Mirrored,
) -> Result<(), NetlinkError> {
    let gone: Vec<IpNet> =
        has.addresses.iter().copied().filter(|net| !wanted.addresses.contains(net)).collect();
    if gone.is_empty() {
        return Ok(());
    }
    for net in gone {
        match netlink.delete_address(host, net) {
            Ok(()) | Err(NetlinkError::Refused { .. }) => {}
            Err(why) => return Err(why),
        }
    }
    // With the first address of a prefix the kernel removes the others.
    look_again(netlink, has)
}

/// Forgets addresses that the kernel has removed.
fn look_again(netlink: &mut Rtnetlink, has: &mut Mirrored) -> Result<(), NetlinkError> {
    let left = netlink.addresses()?;
    has.addresses.retain(|net| left.iter().any(|own| own.ifindex == has.kernels && own.net == *net));
    Ok(())
}

/// Makes the changes, and notes each in `has`.
fn give(
    netlink: &mut Rtnetlink,
    host: &str,
    has: &mut Mirrored,
    wanted: &Mirrored,
) -> Result<(), NetlinkError> {
    if has.mac != wanted.mac
        && let Some(mac) = wanted.mac
    {
        netlink.set_mac(host, mac.0.octets())?;
        has.mac = wanted.mac;
    }
    if has.mtu != wanted.mtu {
        netlink.set_mtu(host, wanted.mtu)?;
        has.mtu = wanted.mtu;
    }
    take_away(netlink, host, has, wanted)?;
    if has.is_up != wanted.is_up {
        netlink.set_up(host, wanted.is_up)?;
        has.is_up = wanted.is_up;
        // A TAP forgets it while it is down.
        has.has_carrier = None;
        // Link-local addresses go when an interface goes down.
        look_again(netlink, has)?;
    }
    // While it is down it gets none that would go again.
    let new = wanted.addresses.iter().filter(|_| wanted.is_up);
    for new in new {
        if has.addresses.contains(new) {
            continue;
        }
        match netlink.add_address(host, *new) {
            Ok(()) | Err(NetlinkError::Exists { .. }) => has.addresses.push(*new),
            Err(why) => return Err(why),
        }
    }
    has.addresses.sort_unstable();
    if has.has_carrier != wanted.has_carrier && wanted.is_up {
        // The state that routing programs read is known from the first change on.
        netlink.set_carrier(host, false)?;
        netlink.set_carrier(host, wanted.has_carrier.unwrap_or(true))?;
    }
    has.has_carrier = wanted.has_carrier;
    Ok(())
}
