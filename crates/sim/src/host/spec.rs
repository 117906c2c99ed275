//! Specification of a host.

use core::net::IpAddr;
use std::sync::Arc;

use net::bridge::Bridge;
use net::fib::{FibIndex, Hop, Prefix, Route, To};
use net::ifq;
use net::ip6::autoconf::{self, Identifiers};
use net::logical::{Kind, Vlan};
use net::pppoe::{Pppoe, Session};
use net::stp;
use net::tables::{Config, IfAddr, IfIndex, Ifnet, Learned, Published, RtadvSettings, Rxcsum, Tables};
use net::tunnel::Tunnel;
use net::vxlan::Vxlan;
use wire::ether::Mac;

use super::ifindex;
use crate::mem;
use crate::plan;
use crate::world::CableId;

/// A host to be.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// CPUs.
    pub cpus: u16,
    /// Buffers of each CPU.
    pub buffers: usize,
    /// Whether it forwards.
    pub forwarding: bool,
    /// Flows of each family that each CPU remembers, if any: fast forwarding.
    pub flows: Option<usize>,
    /// Its interfaces.
    pub ports: Vec<Port>,
    /// Interfaces over others; their indices follow those of the ports.
    pub vlans: Vec<VlanPort>,
    /// Tunnels; their indices follow those of the VLANs.
    pub tunnels: Vec<TunnelPort>,
    /// VXLANs; their indices follow those of the tunnels.
    pub vxlans: Vec<VxlanPort>,
    /// A bridge, whose index follows those of the VXLANs.
    pub bridge: Option<BridgePorts>,
    /// Interfaces without link addresses; their indices follow that of the bridge.
    pub bare: Vec<BarePort>,
    /// Routes besides those to its own links.
    pub routes: Vec<Route>,
    /// Routing tables besides table 0.
    pub more_fibs: FibIndex,
    /// Whether the routes to its own links are in all tables.
    pub addr_all_fibs: bool,
}

/// A VLAN interface to be.
#[derive(Clone, Debug)]
pub struct VlanPort {
    /// Its parent and its tag.
    pub vlan: Vlan,
    /// Its addresses, the link-local one excepted.
    pub addrs: Vec<IfAddr>,
    /// Bytes of the largest packet.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
}

/// A tunnel to be.
#[derive(Clone, Debug)]
pub struct TunnelPort {
    /// Its outer addresses.
    pub tunnel: Tunnel,
    /// Its addresses, the link-local one excepted.
    pub addrs: Vec<IfAddr>,
    /// Bytes of the largest packet.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
}

/// A VXLAN to be.
#[derive(Clone, Debug)]
pub struct VxlanPort {
    /// Its identifier and outer addresses.
    pub vxlan: Vxlan,
    /// Its link address.
    pub mac: Mac,
    /// Its addresses, the link-local one excepted.
    pub addrs: Vec<IfAddr>,
    /// Bytes of the largest packet.
    pub mtu: u32,
    /// Learnt and static link addresses.
    pub fdb: net::fdb::Settings,
    /// Administratively up.
    pub up: bool,
}

/// A bridge to be.
#[derive(Clone, Debug)]
pub struct BridgePorts {
    /// Indices of its ports.
    pub ports: Vec<IfIndex>,
    /// What it floods in a second.
    pub bridge: Bridge,
    /// Its link address.
    pub mac: Mac,
    /// Its addresses, the link-local one excepted.
    pub addrs: Vec<IfAddr>,
}

/// A PPPoE session or a loopback interface to be.
#[derive(Clone, Debug)]
pub struct BarePort {
    /// Its kind.
    pub kind: Kind,
    /// Its addresses, the link-local one excepted.
    pub addrs: Vec<IfAddr>,
}

/// An interface to be.
#[derive(Clone, Debug)]
pub struct Port {
    /// The cable that it is plugged into.
    pub cable: CableId,
    /// Its card.
    pub nic: mem::Spec,
    /// Its addresses, the link-local one excepted.
    pub addrs: Vec<IfAddr>,
    /// Bytes of the largest packet.
    pub mtu: u32,
    /// Checksum policy.
    pub rxcsum: Rxcsum,
    /// Administratively up.
    pub up: bool,
    /// Output queue.
    pub queue: ifq::QueueSpec,
    /// IPv6 autoconfiguration, if enabled.
    pub autoconf: Option<autoconf::Settings>,
    /// Router advertisements that are sent, if any are.
    pub rtadv: Option<Arc<RtadvSettings>>,
    /// Results of router advertisements.
    pub learned: Arc<Learned>,
    /// Addresses of others that it answers for.
    pub published: Arc<Published>,
    /// The routing table of what comes in by it.
    pub fib: FibIndex,
    /// Whether it exists; its index stays taken when it does not.
    pub exists: bool,
    /// Whether it is a TUN: its packets have a link header of zeros, and it has no link-local address.
    pub is_tun: bool,
}

impl Spec {
    /// A router with one CPU.
    #[must_use]
    pub fn router(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            cpus: 1,
            buffers: 2048,
            forwarding: true,
            flows: None,
            ports: Vec::new(),
            vlans: Vec::new(),
            tunnels: Vec::new(),
            vxlans: Vec::new(),
            bridge: None,
            bare: Vec::new(),
            routes: Vec::new(),
            more_fibs: 0,
            addr_all_fibs: false,
        }
    }

    /// A host that does not forward.
    #[must_use]
    pub fn host(name: &str) -> Self {
        Self { forwarding: false, ..Self::router(name) }
    }

    /// With so many CPUs.
    #[must_use]
    pub fn cpus(self, cpus: u16) -> Self {
        Self { cpus, ..self }
    }

    /// With a flow cache of so many flows for each CPU and family.
    #[must_use]
    pub fn flows(self, flows: usize) -> Self {
        Self { flows: Some(flows), ..self }
    }

    /// With so many buffers for each CPU.
    #[must_use]
    pub fn buffers(self, buffers: usize) -> Self {
        Self { buffers, ..self }
    }

    /// With an interface.
    #[must_use]
    pub fn port(mut self, port: Port) -> Self {
        self.ports.push(port);
        self
    }

    /// With host `host` of network `net` on a VLAN; its index is the number of the ports and VLANs before it, plus 1.
    #[must_use]
    pub fn vlan(mut self, vlan: Vlan, net: u8, host: u8) -> Self {
        self.vlans.push(VlanPort { vlan, addrs: plan::addrs(net, host), mtu: 1500, up: true });
        self
    }

    /// With host `host` of network `net` on a tunnel, which carries packets of `mtu` bytes; its index follows those of the ports
    /// and VLANs.
    #[must_use]
    pub fn tunnel(mut self, tunnel: Tunnel, net: u8, host: u8) -> Self {
        self.tunnels.push(TunnelPort { tunnel, addrs: plan::addrs(net, host), mtu: 1460, up: true });
        self
    }

    /// With host `host` of network `net` on a VXLAN, over IPv6 or IPv4; its index follows those of the tunnels.
    #[must_use]
    pub fn vxlan(mut self, vxlan: Vxlan, net: u8, host: u8) -> Self {
        let (mac, addrs) = (plan::mac(net, host), plan::addrs(net, host));
        let fdb = net::fdb::Settings::default();
        self.vxlans.push(VxlanPort { vxlan, mac, addrs, mtu: 1430, fdb, up: true });
        self
    }

    /// With a bridge of interfaces, which is host `host` of network `net`.
    #[must_use]
    pub fn bridge(mut self, ports: &[IfIndex], storm: u32, net: u8, host: u8) -> Self {
        let (mac, addrs) = (plan::mac(net, host), plan::addrs(net, host));
        self.bridge = Some(BridgePorts {
            ports: ports.to_vec(),
            bridge: Bridge { storm, ..Bridge::default() },
            mac,
            addrs,
        });
        self
    }

    /// With a spanning tree on its bridge.
    #[must_use]
    pub fn spanning(mut self, settings: stp::Settings) -> Self {
        self.bridge.iter_mut().for_each(|bridge| bridge.bridge.stp = Some(settings));
        self
    }

    /// With host `host` of network `net` on a PPPoE session, whose other end is `remote`.
    #[must_use]
    pub fn session(mut self, parent: IfIndex, remote: Mac, net: u8, host: u8) -> Self {
        let pppoe = Pppoe { parent, session: Some(Session { id: 7, remote }), clamps_mss: true };
        self.bare.push(BarePort { kind: Kind::Pppoe(pppoe), addrs: plan::addrs(net, host) });
        self
    }

    /// With host `host` of network `net` on a loopback interface.
    #[must_use]
    pub fn loopback(mut self, net: u8, host: u8) -> Self {
        self.bare.push(BarePort { kind: Kind::Loopback, addrs: plan::addrs(net, host) });
        self
    }

    /// With a route by a router.
    #[must_use]
    pub fn via(mut self, to: Prefix, via: IpAddr) -> Self {
        let addrs =
            self.ports.iter().map(|port| &port.addrs).chain(self.vlans.iter().map(|vlan| &vlan.addrs));
        let addrs = addrs.chain(self.tunnels.iter().map(|tunnel| &tunnel.addrs));
        let addrs = addrs.chain(self.vxlans.iter().map(|vxlan| &vxlan.addrs));
        let addrs = addrs.chain(self.bridge.iter().map(|bridge| &bridge.addrs));
        let addrs = addrs.chain(self.bare.iter().map(|bare| &bare.addrs));
        let port = addrs.into_iter().position(|addrs| addrs.iter().any(|own| own.covers(via)));
        let ifindex = ifindex(port.unwrap_or(0));
        self.routes.push(Route::new(to, To::Gateway { ifindex, via }));
        self
    }

    /// With a route that leads nowhere, or is refused.
    #[must_use]
    pub fn route(mut self, to: Prefix, hop: impl Into<Hop>) -> Self {
        self.routes.push(Route::new(to, hop));
        self
    }

    /// With so many routing tables besides table 0.
    #[must_use]
    pub fn more_fibs(self, more_fibs: FibIndex) -> Self {
        Self { more_fibs, ..self }
    }

    /// With a route of table `fib`.
    #[must_use]
    pub fn route_in(mut self, fib: FibIndex, to: Prefix, hop: impl Into<Hop>) -> Self {
        self.routes.push(Route { fib, ..Route::new(to, hop) });
        self
    }

    /// The CPU that owns ring `ring` of every card.
    #[must_use]
    pub fn owner_of_ring(&self, ring: usize) -> usize {
        ring % usize::from(self.cpus)
    }

    /// Returns the tables for the CPUs.
    pub(super) fn tables(&self, generation: u64) -> Tables {
        let ports = (0..self.ports.len()).filter(|at| self.ports[*at].exists);
        let ports = ports.map(|at| self.ifnet(at));
        let mut ifs: Vec<_> = ports
            .chain(self.vlans.iter().zip(self.ports.len()..).map(|(vlan, at)| self.over(vlan, at)))
            .chain(self.tunnels.iter().zip(0..).map(|(tunnel, at)| self.through(tunnel, at)))
            .chain(self.vxlans.iter().zip(0..).map(|(vxlan, at)| self.across(vxlan, at)))
            .collect();
        if let Some(bridge) = &self.bridge {
            let joined = self.joined(bridge, &mut ifs);
            ifs.push(joined);
        }
        ifs.extend(self.bare.iter().zip(0..).map(|(port, at)| self.without_link(port, at)));
        let &Self { forwarding, more_fibs, addr_all_fibs, .. } = self;
        Tables::new(Config {
            generation,
            ifs,
            routes: self.routes.clone(),
            forwarding,
            more_fibs,
            addr_all_fibs,
        })
    }

    fn ifnet(&self, at: usize) -> Ifnet {
        let port = &self.ports[at];
        let name = format!("mem{at}");
        let identifiers = port.autoconf.map_or(Identifiers::Eui64, |settings| settings.identifiers);
        let link_local = autoconf::link_local(identifiers, port.nic.mac, &name).into();
        let link_local = IfAddr { addr: link_local, prefix_len: 64 };
        Ifnet {
            index: ifindex(at),
            name,
            kind: if port.is_tun { Kind::RawIp } else { Kind::Device },
            mac: port.nic.mac,
            mtu: port.mtu,
            up: port.up,
            addrs: port.addrs.iter().copied().chain((!port.is_tun).then_some(link_local)).collect(),
            rxcsum: port.rxcsum,
            caps: port.nic.caps,
            monitor: false,
            queue: port.queue,
            fdb: net::fdb::Settings::default(),
            port: None,
            groups: Vec::new(),
            autoconf: port.autoconf,
            rtadv: port.rtadv.clone(),
            learned: Arc::clone(&port.learned),
            metric: 0,
            published: Arc::clone(&port.published),
            twin: net::tables::Twin::None,
            fib: port.fib,
        }
    }
}

impl Spec {
    /// The VLAN interface with place `at` among all interfaces.
    fn over(&self, port: &VlanPort, at: usize) -> Ifnet {
        let device = self.device_below(port.vlan.parent);
        let below = self.ifnet(usize::from(device).saturating_sub(1));
        let link_local =
            below.addrs.iter().filter(|own| matches!(own.addr, IpAddr::V6(v6) if v6.is_unicast_link_local()));
        Ifnet {
            index: ifindex(at),
            name: format!("vlan{at}"),
            kind: Kind::Vlan(port.vlan),
            mtu: port.mtu,
            up: port.up,
            addrs: port.addrs.iter().chain(link_local).copied().collect(),
            autoconf: None,
            learned: Arc::default(),
            ..below.clone()
        }
    }

    /// The index of tunnel number `at`.
    #[must_use]
    pub fn tunnel_index(&self, at: usize) -> IfIndex {
        ifindex(self.ports.len() + self.vlans.len() + at)
    }

    /// The interface of tunnel number `at`.
    fn through(&self, port: &TunnelPort, at: usize) -> Ifnet {
        Ifnet {
            index: self.tunnel_index(at),
            name: format!("gif{at}"),
            kind: Kind::Tunnel(port.tunnel),
            mtu: port.mtu,
            up: port.up,
            addrs: port.addrs.clone(),
            autoconf: None,
            rtadv: None,
            learned: Arc::default(),
            ..self.ifnet(0)
        }
    }

    /// The index of VXLAN number `at`.
    #[must_use]
    pub fn vxlan_index(&self, at: usize) -> IfIndex {
        ifindex(self.ports.len() + self.vlans.len() + self.tunnels.len() + at)
    }

    /// The interface of VXLAN number `at`.
    fn across(&self, port: &VxlanPort, at: usize) -> Ifnet {
        let name = format!("vxlan{at}");
        let link_local = autoconf::link_local(Identifiers::Eui64, port.mac, &name).into();
        let link_local = IfAddr { addr: link_local, prefix_len: 64 };
        Ifnet {
            index: self.vxlan_index(at),
            name,
            kind: Kind::Vxlan(port.vxlan),
            mac: port.mac,
            mtu: port.mtu,
            up: port.up,
            addrs: port.addrs.iter().copied().chain([link_local]).collect(),
            fdb: port.fdb.clone(),
            autoconf: None,
            rtadv: None,
            learned: Arc::default(),
            ..self.ifnet(0)
        }
    }

    /// The index of the bridge.
    #[must_use]
    pub fn bridge_index(&self) -> IfIndex {
        self.vxlan_index(self.vxlans.len())
    }

    /// The interface of the bridge, whose ports among `ifs` lose their addresses.
    fn joined(&self, bridge: &BridgePorts, ifs: &mut [Ifnet]) -> Ifnet {
        let index = self.bridge_index();
        for port in ifs.iter_mut().filter(|ifnet| bridge.ports.contains(&ifnet.index)) {
            let stp = bridge.bridge.stp.map(|_| stp::PortSettings::default());
            port.port = Some(net::bridge::Port { bridge: index, stp, ..Default::default() });
            port.addrs.clear();
        }
        let link_local = autoconf::link_local(Identifiers::Eui64, bridge.mac, "bridge0").into();
        let link_local = IfAddr { addr: link_local, prefix_len: 64 };
        Ifnet {
            index,
            name: "bridge0".to_owned(),
            kind: Kind::Bridge(bridge.bridge),
            mac: bridge.mac,
            mtu: 1500,
            up: true,
            addrs: bridge.addrs.iter().copied().chain([link_local]).collect(),
            autoconf: None,
            rtadv: None,
            learned: Arc::default(),
            port: None,
            ..self.ifnet(0)
        }
    }

    /// The index of interface number `at` of those without link addresses.
    #[must_use]
    pub fn bare_index(&self, at: usize) -> IfIndex {
        let bridges = usize::from(self.bridge.is_some());
        self.vxlan_index(self.vxlans.len() + bridges + at)
    }

    /// Interface number `at` of those without link addresses.
    fn without_link(&self, port: &BarePort, at: usize) -> Ifnet {
        Ifnet {
            index: self.bare_index(at),
            name: if port.kind.is_loopback() { format!("lo{at}") } else { format!("pppoe{at}") },
            kind: port.kind,
            mtu: 1492,
            up: true,
            addrs: port.addrs.clone(),
            autoconf: None,
            rtadv: None,
            learned: Arc::default(),
            ..self.ifnet(0)
        }
    }

    /// The index of the last interface.
    #[must_use]
    pub fn last_index(&self) -> IfIndex {
        self.bare_index(self.bare.len()).saturating_sub(1)
    }

    fn device_below(&self, mut index: IfIndex) -> IfIndex {
        while let Some(vlan) =
            usize::from(index).checked_sub(1 + self.ports.len()).and_then(|at| self.vlans.get(at))
        {
            index = vlan.vlan.parent;
        }
        index
    }
}

impl Port {
    /// An interface of host `host` on network `net`, with a card of one ring.
    #[must_use]
    pub fn new(cable: CableId, net: u8, host: u8) -> Self {
        let nic = mem::Spec { mac: plan::mac(net, host), ..mem::Spec::default() };
        let addrs = plan::addrs(net, host);
        Self {
            cable,
            nic,
            addrs,
            mtu: 1500,
            rxcsum: Rxcsum::Verify,
            up: true,
            queue: ifq::QueueSpec::default(),
            autoconf: None,
            rtadv: None,
            learned: Arc::default(),
            published: Arc::default(),
            fib: 0,
            exists: true,
            is_tun: false,
        }
    }

    /// Makes it a TUN.
    #[must_use]
    pub fn tun(self) -> Self {
        let mut tun = Self { is_tun: true, ..self };
        (tun.nic.mac, tun.nic.promiscuous) = (Mac::ZERO, true);
        tun
    }

    /// With addresses of others that it answers for.
    #[must_use]
    pub fn publishes(self, published: Published) -> Self {
        Self { published: Arc::new(published), ..self }
    }

    /// In routing table `fib`.
    #[must_use]
    pub fn fib(self, fib: FibIndex) -> Self {
        Self { fib, ..self }
    }

    /// With this MTU.
    #[must_use]
    pub fn mtu(self, mtu: u32) -> Self {
        Self { mtu, ..self }
    }

    /// With packets that queue like this.
    #[must_use]
    pub fn queue(self, queue: ifq::QueueSpec) -> Self {
        Self { queue, ..self }
    }

    /// Makes a host that has no address but those of router advertisements.
    #[must_use]
    pub fn autoconf(self, settings: autoconf::Settings) -> Self {
        Self { addrs: Vec::new(), autoconf: Some(settings), ..self }
    }

    /// With router advertisements.
    #[must_use]
    pub fn advertises(self, settings: RtadvSettings) -> Self {
        Self { rtadv: Some(Arc::new(settings)), ..self }
    }

    /// With so many rings, filled like this.
    #[must_use]
    pub fn rings(mut self, rings: usize, rss: mem::Rss) -> Self {
        (self.nic.rings, self.nic.rss) = (rings, rss);
        self
    }

    /// With a card that is changed like this.
    #[must_use]
    pub fn card(mut self, change: impl FnOnce(&mut mem::Spec)) -> Self {
        change(&mut self.nic);
        self
    }
}
