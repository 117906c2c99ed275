//! Interfaces and routes, from how the configuration has them to how the netisrs want them.

use core::net::IpAddr;

use ipnet::IpNet;
use net::fib::{self, Hop, Prefix};
use net::tables::{self, IfAddr, IfIndex, Ifnet};

use super::cpus::tx_cpus;
use super::device::{Facts, Hold};
use crate::api::InterfaceCounters;
use crate::config::{Interface, NextHop, Route, RouteTarget};

/// Below this IPv6 does not work (RFC 8200 §5).
const MTU_MIN_V6: u32 = 1280;

/// An interface with its device.
pub(crate) struct Attached {
    pub(crate) index: IfIndex,
    pub(crate) config: Interface,
    pub(crate) facts: Facts,
    /// Administratively up.
    pub(crate) up: bool,
    /// What an earlier interface with the same index had counted.
    pub(crate) baseline: InterfaceCounters,
    /// Dropped last, when the netisrs have closed the rings.
    #[expect(dead_code, reason = "held for its drop")]
    pub(crate) hold: Hold,
}

impl Attached {
    /// Bytes of the largest packet.
    pub(crate) fn mtu(&self) -> u32 {
        self.config.mtu.unwrap_or(self.facts.mtu)
    }

    /// Its addresses: the configured ones, and the link-local one that follows from its Ethernet address.
    pub(crate) fn addresses(&self) -> Vec<IfAddr> {
        let configured = self.config.addresses.iter();
        let configured = configured.map(|net| IfAddr { addr: net.addr(), prefix_len: net.prefix_len() });
        let mut all: Vec<_> = configured.collect();
        if self.mtu() >= MTU_MIN_V6 && !all.iter().any(|own| is_link_local(own.addr)) {
            all.push(IfAddr { addr: net::addr::link_local(self.facts.mac).into(), prefix_len: 64 });
        }
        all
    }

    fn ifnet(&self, cpus: usize) -> Ifnet {
        Ifnet {
            index: self.index,
            name: self.config.name.clone(),
            mac: self.facts.mac,
            mtu: self.mtu(),
            up: self.up,
            addrs: self.addresses(),
            rxcsum: self.facts.rxcsum,
            caps: self.facts.caps,
            tx_cpu: tx_cpus(cpus, self.facts.rings),
            monitor: false,
        }
    }
}

/// What the netisrs are given.
pub(crate) fn tables(
    attached: &[Attached],
    routes: &[Route],
    forwarding: bool,
    cpus: usize,
    generation: u64,
) -> tables::Tables {
    tables::Tables::new(tables::Config {
        generation,
        ifs: attached.iter().map(|interface| interface.ifnet(cpus)).collect(),
        routes: routes.iter().filter_map(|route| fib_route(route, attached)).collect(),
        forwarding,
    })
}

/// A static route; `None` as long as it leads nowhere because its interfaces are down or gone.
fn fib_route(route: &Route, attached: &[Attached]) -> Option<fib::Route> {
    let hop = match &route.target {
        RouteTarget::Via(hops) => {
            let (hop, ifindex) = usable(hops, attached)?;
            Hop::Gateway { ifindex, via: hop.gateway }
        }
        RouteTarget::Dev(name) => Hop::OnLink { ifindex: up(name, attached)? },
        RouteTarget::Reject => Hop::Reject,
        RouteTarget::Blackhole => Hop::Blackhole,
    };
    Some(fib::Route { to: prefix(route.to)?, hop })
}

/// The gateway that is used: the first whose interface is up.
pub(crate) fn usable<'h>(hops: &'h [NextHop], attached: &[Attached]) -> Option<(&'h NextHop, IfIndex)> {
    hops.iter().find_map(|hop| Some((hop, up(&hop.interface, attached)?)))
}

fn up(name: &str, attached: &[Attached]) -> Option<IfIndex> {
    let interface = attached.iter().find(|interface| interface.config.name == name && interface.up)?;
    Some(interface.index)
}

fn prefix(net: IpNet) -> Option<Prefix> {
    Prefix::new(net.addr(), net.prefix_len())
}

pub(crate) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}
