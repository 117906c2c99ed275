//! Interfaces and routes, from how the configuration has them to how the netisrs want them.

use core::net::IpAddr;
use std::sync::Arc;

use dev::Waiter;
use net::bridge;
use net::ip6::autoconf::{self, Identifiers, Settings};
use net::logical::{Kind, TAGS_MAX, Vlan};
use net::pppoe::{self, Pppoe};
use net::tables::{IfAddr, IfIndex, Ifnet, Learned, Twin, settle};
use wire::ether::Mac;

use super::device::{Facts, Hold};
use super::hotplug::Away;
use super::ring_placement::RingPlacement;
use super::routing::{Statics, is_led_elsewhere};
use crate::api::{CopyMode, DeviceMode, InterfaceCounters};
use crate::config::{self, Autoconf, Device, Interface, Publish};
use crate::pppoe::lcp;

/// Below this IPv6 does not work (RFC 8200 §5).
pub(crate) const MTU_MIN_V6: u32 = 1280;

/// An interface with its device. A clone shares the device, which is closed with the last of them.
#[derive(Clone)]
pub(crate) struct Attached {
    pub(crate) index: IfIndex,
    /// The number by which its rings are dealt to CPUs.
    pub(crate) unit: u16,
    pub(crate) config: Interface,
    pub(crate) facts: Facts,
    /// Which CPU has which ring.
    pub(crate) placement: RingPlacement,
    /// Administratively up.
    pub(crate) up: bool,
    /// The wire of its device carries, as the kernel said last.
    pub(crate) has_carrier: bool,
    /// Its device is gone, and taken up again when it is back.
    pub(crate) away: Option<Away>,
    /// Only monitors: its rings have sinks.
    pub(crate) monitor: bool,
    /// Addresses of others that it answers for by hand: they outlast changes of the configuration.
    pub(crate) by_hand: Publish,
    /// Results of router advertisements on its link.
    pub(crate) learned: Arc<Learned>,
    /// Secret of its stable identifiers.
    pub(crate) secret: u128,
    /// Counters of an earlier interface with the same index.
    pub(crate) baseline: InterfaceCounters,
    /// Waiters of its rings.
    pub(crate) waiters: Vec<Waiter>,
    /// Dropped last, when the netisrs have closed the rings.
    pub(crate) hold: Arc<Hold>,
}

impl Attached {
    /// Bytes of the largest packet.
    pub(crate) fn mtu(&self) -> u32 {
        let own = self.config.mtu.unwrap_or(self.facts.mtu);
        self.config.session.as_ref().map_or(own, |session| own.min(session.mtu.into()))
    }

    /// Returns its autoconfiguration, if enabled. A PPPoE interface has none without a session that carries IPv6.
    pub(crate) fn autoconf(&self) -> Option<Settings> {
        if self.config.ppp.is_some() && self.config.session.as_ref()?.identifier.is_none() {
            return None;
        }
        let Autoconf { temporary, dad_transmits, dad_nonce, identifiers } = self.config.autoconf?;
        let identifiers = match identifiers {
            config::Identifiers::Eui64 => Identifiers::Eui64,
            config::Identifiers::Stable => Identifiers::Stable { secret: self.secret },
        };
        let negotiated = self.config.session.as_ref().and_then(|session| session.identifier);
        let identifiers = negotiated.map_or(identifiers, |id| Identifiers::Negotiated { id });
        Some(Settings { identifiers, temporary, dad_transmits, dad_nonce })
    }

    /// Its addresses: the configured and leased ones, and the link-local one.
    pub(crate) fn addresses(&self) -> Vec<IfAddr> {
        let leased = self.config.leased.iter().map(|leased| &leased.net);
        let configured = self
            .config
            .addresses
            .iter()
            .chain(leased)
            .map(|net| IfAddr { addr: net.addr(), prefix_len: net.prefix_len() });
        let mut all: Vec<_> = configured.collect();
        // That of a PPPoE interface is leased with the session.
        let is_aside =
            self.config.is_port || self.config.twin_of.is_some() || self.config.device == Device::Lo;
        let has_own = self.mtu() >= MTU_MIN_V6 && !is_aside && self.config.ppp.is_none();
        if has_own && !all.iter().any(|own| is_link_local(own.addr)) {
            // The kernel makes one of the same link address, and both cannot have it.
            let usual = if self.config.device.is_shared() {
                Identifiers::Stable { secret: self.secret }
            } else {
                Identifiers::Eui64
            };
            let identifiers = self.autoconf().map_or(usual, |settings| settings.identifiers);
            let addr = autoconf::link_local(identifiers, self.facts.mac, &self.config.name);
            all.push(IfAddr { addr: addr.into(), prefix_len: 64 });
        }
        all
    }

    /// Its device, in a line.
    pub(crate) fn description(&self) -> String {
        let facts = &self.facts;
        if self.config.device.is_logical() {
            return self.config.device.to_string();
        }
        let mode = match (facts.mode, facts.copy) {
            (DeviceMode::Native, Some(CopyMode::ZeroCopy)) => ", zero-copy",
            (DeviceMode::Native, _) => ", native",
            (DeviceMode::Generic, _) => ", generic",
            (
                DeviceMode::Tap
                | DeviceMode::Tun
                | DeviceMode::Pcap
                | DeviceMode::Null
                | DeviceMode::Memif
                | DeviceMode::Mem
                | DeviceMode::Vlan
                | DeviceMode::Tunnel
                | DeviceMode::Vxlan
                | DeviceMode::Bridge
                | DeviceMode::Pppoe
                | DeviceMode::Loopback,
                _,
            ) => "",
        };
        let plural = if facts.rings == 1 { "" } else { "s" };
        let (device, mtu) = (&self.config.device, self.mtu());
        let (rings, mac, steering) = (facts.rings, facts.mac, &facts.steering);
        format!("{device}{mode}, {rings} ring{plural}, {mac}, mtu {mtu}, steering: {steering}")
    }

    /// Whether packets may go by it: it is administratively up, its device is there, and as a port of a bridge it has carrier, so
    /// that a spanning tree takes another way at once.
    pub(crate) const fn is_usable(&self) -> bool {
        self.up && self.away.is_none() && (self.has_carrier || !self.config.is_port)
    }

    /// The interface that it is over, if it is no device of its own.
    pub(crate) fn parent<'a>(&self, attached: &'a [Self]) -> Option<&'a Self> {
        let name = self.config.device.parent()?;
        attached.iter().find(|other| other.config.name == name)
    }

    fn kind(&self, attached: &[Self]) -> Kind {
        let vlan = match &self.config.device {
            Device::Vlan(vlan) => vlan,
            Device::Tunnel(tunnel) => return Kind::Tunnel(tunnel.to_net()),
            Device::Vxlan(vxlan) => return Kind::Vxlan(vxlan.to_net()),
            Device::Bridge(_) => {
                let keys = &self.config.bridge;
                let stp = keys.stp.as_ref().map(|stp| stp.settings);
                return Kind::Bridge(bridge::Bridge { storm: keys.storm, stp, snooping: keys.snooping });
            }
            Device::Pppoe(_) => return Kind::Pppoe(self.pppoe(attached)),
            Device::Tun { .. } => return Kind::RawIp,
            Device::Lo => return Kind::Loopback,
            _ => return Kind::Device,
        };
        // Without a parent it is over no interface, and so never up.
        let parent = self.parent(attached).map_or(0, |parent| parent.index);
        Kind::Vlan(Vlan { parent, tpid: vlan.kind.tpid(), vid: vlan.vid, pcp: self.config.vlanpcp })
    }

    /// The interface that its PPPoE is over, if it has any.
    pub(crate) fn below<'a>(&self, attached: &'a [Self]) -> Option<&'a Self> {
        let Device::Pppoe(pppoe) = &self.config.device else { return None };
        attached.iter().find(|other| other.config.name == pppoe.parent)
    }

    fn pppoe(&self, attached: &[Self]) -> Pppoe {
        let session = self.config.session.as_ref();
        Pppoe {
            parent: self.below(attached).map_or(0, |below| below.index),
            session: session.map(|session| pppoe::Session { id: session.id, remote: session.remote }),
            clamps_mss: self.config.ppp.as_ref().is_some_and(|ppp| ppp.clamp_mss),
        }
    }

    /// Its place in a bridge, if it is a port of one.
    fn port(&self, attached: &[Self]) -> Option<bridge::Port> {
        let name = &self.config.name;
        let has =
            |other: &&Self| matches!(&other.config.device, Device::Bridge(all) if all.ports.contains(name));
        let bridge = attached.iter().find(has).filter(|_| self.config.is_port)?;
        let keys = &bridge.config.bridge;
        let (is_private, is_span) = (keys.private.contains(name), keys.span.contains(name));
        let stp = keys.stp.as_ref().filter(|_| !is_span).map(|stp| stp.port(name));
        Some(bridge::Port { bridge: bridge.index, is_private, is_span, stp })
    }

    /// Its part in a pair of twins.
    fn twin(&self, attached: &[Self]) -> Twin {
        let index = |is: &dyn Fn(&Self) -> bool| attached.iter().find(|other| is(other)).map(|it| it.index);
        let name = self.config.name.as_str();
        match &self.config.twin_of {
            // Without its interface it leads nowhere.
            Some(of) => Twin::Of(index(&|other| other.config.name == *of).unwrap_or(0)),
            None if self.config.punt.is_none() => Twin::None,
            None => {
                index(&|other| other.config.twin_of.as_deref() == Some(name)).map_or(Twin::None, Twin::By)
            }
        }
    }

    /// Groups that servers here listen to.
    fn groups(&self) -> Vec<IpAddr> {
        let is_asked = self.config.dhcp6_server.is_some() || !self.config.dhcp6_relay.is_empty();
        is_asked.then_some(IpAddr::V6(wire::dhcp6::ALL_AGENTS)).into_iter().collect()
    }

    /// Its link address: that of its frames, of which a TUN has none.
    fn link_addr(&self) -> Mac {
        match self.config.device {
            Device::Tun { .. } | Device::Lo => Mac::default(),
            _ => self.facts.mac,
        }
    }

    fn ifnet(&self, attached: &[Self]) -> Ifnet {
        Ifnet {
            index: self.index,
            name: self.config.name.clone(),
            kind: self.kind(attached),
            mac: self.link_addr(),
            mtu: self.mtu(),
            up: self.is_usable(),
            addrs: self.addresses(),
            rxcsum: self.facts.rxcsum,
            caps: self.facts.caps,
            monitor: self.monitor,
            queue: self.config.queue,
            fdb: self.config.fdb.to_net(|name| {
                attached.iter().find(|other| other.config.name == name).map(|other| other.index)
            }),
            port: self.port(attached),
            groups: self.groups(),
            autoconf: self.autoconf(),
            rtadv: self.config.ra.as_ref().map(|ra| Arc::new(ra.of(&self.config))),
            learned: Arc::clone(&self.learned),
            metric: self.config.metric,
            published: Arc::new(self.by_hand.with(&self.config.publish)),
            twin: self.twin(attached),
            fib: self.config.fib,
        }
    }
}

/// Gives interfaces over others what they inherit from the device below.
pub(crate) fn inherit(attached: &mut [Attached]) {
    for at in 0..attached.len() {
        let Some(device) = device_below(&attached[at], attached) else { continue };
        let (mtu, facts) = (device.mtu(), device.facts.clone());
        let own = &mut attached[at].facts;
        (own.mac, own.caps, own.rxcsum, own.mtu) = (facts.mac, facts.caps, facts.rxcsum, mtu);
    }
    // PPPoE may be over one of them.
    for at in 0..attached.len() {
        let Some(below) = attached[at].below(attached) else { continue };
        let (mac, mtu) = (below.facts.mac, below.mtu().saturating_sub(pppoe::OVERHEAD));
        let own = &mut attached[at].facts;
        (own.mac, own.mtu) = (mac, mtu.min(lcp::MRU.into()));
    }
}

/// The device that an interface is over; `None` if it is one, or leads to none.
pub(crate) fn device_below<'a>(interface: &Attached, attached: &'a [Attached]) -> Option<&'a Attached> {
    let mut below = interface.parent(attached)?;
    for _ in 1..TAGS_MAX {
        below = below.parent(attached).unwrap_or(below);
    }
    below.config.device.parent().is_none().then_some(below)
}

/// Whether packets may go by an interface, and by all that it is over.
pub(crate) fn is_usable(interface: &Attached, attached: &[Attached]) -> bool {
    let mut here = Some(interface);
    (0..=TAGS_MAX).all(|_| {
        let Some(interface) = here else { return true };
        here = interface.parent(attached);
        interface.is_usable() && (here.is_some() || interface.config.device.parent().is_none())
    })
}

/// The interfaces as the netisrs want them. Of what routers have said that is in force which does not contradict addresses
/// and static routes.
pub(crate) fn ifnets(attached: &[Attached], statics: &Statics) -> Vec<Ifnet> {
    let mut ifs: Vec<_> = attached.iter().map(|interface| interface.ifnet(attached)).collect();
    let own = |index| attached.iter().find(|other| other.index == index).map(|other| &other.config);
    settle(&mut ifs, |prefix, index| {
        own(index).is_some_and(|own| is_led_elsewhere(statics, own.fib, prefix, &own.name))
    });
    ifs
}

/// The index of an interface that is up.
pub(crate) fn up(name: &str, attached: &[Attached]) -> Option<IfIndex> {
    let interface =
        attached.iter().find(|interface| interface.config.name == name && is_usable(interface, attached))?;
    Some(interface.index)
}

pub(crate) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}
