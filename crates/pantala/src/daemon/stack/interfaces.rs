//! `ifconfig`, and `netstat -i`.

use core::net::IpAddr;

use dev::bpf::offload::{CameUp, PortWords};
use dev::memif::{State, Status};
use dev::netlink::{LinkFlags, NetlinkError};
use net::addr;
use net::count::IfCount;
use net::driver::{Caps, DriverStats, Link};
use net::fdb;
use net::group::Membership;
use net::ifq;
use net::ip6::autoconf::{self, OwnStatus};
use net::stp_io;
use net::tables::{IfIndex, Rxcsum};
use net::time::Instant;

use super::super::control::Control;
use super::super::device::Facts;
use super::super::log;
use super::super::report::Report;
use super::super::tables::{self, Attached};
use super::links::left;
use super::spanning;
use crate::Mac;
use crate::api::{
    self, Address, AddressState, BridgeInfo, BridgeMember, DeviceInfo, DeviceMode, Error, Interface,
    InterfaceChange, InterfaceCounters, InterfaceFlag, InterfaceOption, MemifFaults, MemifInfo, MemifState,
    OffloadInfo, OutputQueue, RingInfo, Station,
};
use crate::config::{self, Device, memif_role};

impl Control {
    pub(super) fn list_interfaces(&mut self) -> Result<Vec<Interface>, Error> {
        let reports = self.cpus.reports()?;
        let states: Vec<_> = self.cpus.call_all(|netisr| addr::states(&netisr.cpu))?.concat();
        let memberships = self.memberships()?;
        let links = self.learned()?;
        let now = self.cpus.clock.now();
        let known: Vec<_> = self.cpus.call_all(|netisr| fdb::entries(&netisr.cpu))?.concat();
        let trees: Vec<_> = self.cpus.call_all(|netisr| stp_io::status(&netisr.cpu))?.concat();
        let all = self.interfaces_by(&reports).into_iter().zip(&self.attached);
        Ok(all
            .map(|(shown, interface)| Interface {
                device: shown.device.map(|info| spanning::with_tree(info, interface, &trees, &self.attached)),
                addresses: self.addresses(interface, &states, &links, now),
                groups: groups(interface.index, &memberships),
                fdb: stations(interface.index, &known, &self.attached),
                ..shown
            })
            .collect())
    }

    /// All interfaces, as the CPUs report on their rings and queues; without their addresses and groups.
    pub(in super::super) fn interfaces_by(&mut self, reports: &[Report]) -> Vec<Interface> {
        let carriers: Vec<bool> = self.carriers(reports);
        let all = self.attached.iter().zip(carriers);
        all.map(|(interface, active)| self.interface_as_it_is(interface, active, reports)).collect()
    }

    fn addresses(
        &self,
        interface: &Attached,
        states: &[addr::Status],
        links: &[autoconf::Status],
        now: Instant,
    ) -> Vec<Address> {
        let has = |own: &OwnStatus| {
            self.tables.ifnet(interface.index).is_some_and(|ifnet| ifnet.has(own.addr.into()))
        };
        let link = links.iter().filter(|link| link.ifindex == interface.index);
        addresses(interface, states, link.flat_map(|link| link.addrs.iter().copied()).filter(has), now)
    }

    /// The output queues of an interface.
    fn queues(&self, index: IfIndex, reports: &[Report]) -> Vec<OutputQueue> {
        let own =
            |report: &Report| report.queues.iter().find(|(of, _)| *of == index).map(|(_, state)| *state);
        let cpus = self.cpus.iter().zip(reports);
        cpus.filter_map(|(cpu, report)| Some(output_queue(number(cpu.processor), &own(report)?))).collect()
    }

    pub(super) fn change(&mut self, name: &str, change: &InterfaceChange) -> Result<(), Error> {
        let Some(interface) = self.attached.iter_mut().find(|interface| interface.config.name == name) else {
            return Err(self.no_interface(name));
        };
        let before = (interface.up, interface.monitor);
        interface.up = change.up.unwrap_or(interface.up);
        interface.monitor = change.monitor.unwrap_or(interface.monitor);
        let (index, after) = (interface.index, (interface.up, interface.monitor));
        if before.0 != after.0 {
            log::info(&format!("interface {name} {}", if after.0 { "up" } else { "down" }));
        }
        if let Some(on) = change.monitor {
            log::info(&format!(
                "interface {name} {}",
                if on { "monitor mode on" } else { "monitor mode off" }
            ));
            self.watch(index, on)?;
        }
        if before == after { Ok(()) } else { self.publish() }
    }

    /// Returns all counts of an interface index since the start.
    pub(in super::super) fn counted(&self, index: IfIndex) -> InterfaceCounters {
        let get = |what| {
            let readers = self.cpus.iter().map(|cpu| &cpu.counters.counters.ifs);
            readers.map(|reader| reader.get(usize::from(index), what)).sum()
        };
        InterfaceCounters {
            rx_packets: get(IfCount::RxPackets),
            rx_bytes: get(IfCount::RxBytes),
            tx_packets: get(IfCount::TxPackets),
            tx_bytes: get(IfCount::TxBytes),
            tx_drops: get(IfCount::TxDrops),
            tx_marks: get(IfCount::TxMarks),
            tx_pushed_back: get(IfCount::PushedBack),
            tx_flushes: get(IfCount::Doorbells),
            ..InterfaceCounters::default()
        }
    }

    fn interface_as_it_is(&self, interface: &Attached, active: bool, reports: &[Report]) -> Interface {
        let rings = self.rings_of(interface, reports);
        let from_devices: InterfaceCounters = rings.iter().map(|ring| ring.counters).sum();
        let counted = self.counted(interface.index).since(&interface.baseline);
        Interface {
            name: interface.config.name.clone(),
            index: interface.index.into(),
            flags: flags(interface, active),
            description: interface.config.description.clone(),
            options: options(&interface.facts),
            metric: interface.config.metric,
            fib: interface.config.fib,
            mtu: interface.mtu(),
            mac: (!is_point_to_point(interface)).then_some(Mac(interface.facts.mac)),
            addresses: Vec::new(),
            groups: Vec::new(),
            fdb: Vec::new(),
            twin: interface.config.punt.clone(),
            twin_of: interface.config.twin_of.clone(),
            device: Some(DeviceInfo { pppoe: self.pppoe_info(&interface.config.name), ..device(interface) }),
            link: api::Link { active, media: media(&interface.facts).to_owned() },
            rings,
            queues: self.queues(interface.index, reports),
            counters: InterfaceCounters {
                rx_errors: from_devices.rx_errors,
                rx_drops: from_devices.rx_drops,
                tx_errors: from_devices.tx_errors,
                doorbells: from_devices.doorbells,
                ..counted
            },
        }
    }

    /// The rings of an interface, in their order.
    fn rings_of(&self, interface: &Attached, reports: &[Report]) -> Vec<RingInfo> {
        let mut all: Vec<RingInfo> = Vec::new();
        for (cpu, report) in self.cpus.iter().zip(reports) {
            let own = report.rings.iter().filter(|ring| ring.ifindex == interface.index);
            all.extend(own.map(|ring| RingInfo {
                ring: ring.queue.into(),
                cpu: number(cpu.processor),
                counters: ring_counters(&ring.stats),
            }));
        }
        all.sort_by_key(|ring| ring.ring);
        all
    }

    /// Whether each interface has carrier: what the rings have noticed, and what the kernel says of its interface.
    pub(super) fn carriers(&mut self, reports: &[Report]) -> Vec<bool> {
        let netlink = &mut self.workshop.netlink;
        let alive = |interface: &Attached| {
            let rings = reports.iter().flat_map(|report| &report.rings);
            let mut own = rings.filter(|ring| ring.ifindex == interface.index).peekable();
            own.peek().is_some() && own.all(|ring| ring.link == Link::Up)
        };
        // A TAP may have been moved to another namespace, and its rings know by themselves.
        let mut running = |facts: &Facts| match &facts.host {
            _ if facts.copy.is_none() => true,
            None => true,
            Some((host, index)) => match netlink.link(host) {
                Ok(link) => link.index == *index && link.flags.contains(LinkFlags::RUNNING),
                // A TAP's kernel end may live in another network namespace; our end notices when it is gone.
                Err(NetlinkError::NoSuchLink(_)) => matches!(facts.mode, DeviceMode::Tap | DeviceMode::Tun),
                Err(why) => {
                    log::warning(&why.to_string());
                    true
                }
            },
        };
        let attached = &self.attached;
        let carrier = |interface: &Attached| {
            let device = tables::device_below(interface, attached);
            match (device, interface.config.device.parent()) {
                (None, Some(_)) => false,
                _ if interface.config.ppp.is_some() => interface.config.session.is_some(),
                // Tunnels have no link that could be noticed.
                _ if matches!(
                    interface.config.device,
                    Device::Tunnel(_) | Device::Vxlan(_) | Device::Bridge(_) | Device::Lo
                ) =>
                {
                    true
                }
                (device, _) => {
                    let device = device.unwrap_or(interface);
                    alive(device) && running(&device.facts)
                }
            }
        };
        attached.iter().map(carrier).collect()
    }
}

fn output_queue(cpu: u32, state: &ifq::State) -> OutputQueue {
    OutputQueue {
        cpu,
        discipline: state.discipline.name().to_owned(),
        packets: state.packets as u64,
        bytes: state.bytes as u64,
        flows: state.flows as u64,
        packets_max: state.packets_max as u64,
        bytes_max: state.bytes_max as u64,
        byte_limit: state.byte_limit.map(|limit| limit as u64),
        in_flight: state.in_flight as u64,
    }
}

/// Bytes are not counted by ring.
fn ring_counters(stats: &DriverStats) -> InterfaceCounters {
    InterfaceCounters {
        rx_packets: stats.rx_frames,
        rx_errors: stats.rx_errors,
        rx_drops: stats.rx_dropped,
        tx_packets: stats.tx_frames,
        tx_errors: stats.tx_errors,
        doorbells: stats.doorbells,
        ..InterfaceCounters::default()
    }
}

fn flags(interface: &Attached, active: bool) -> Vec<InterfaceFlag> {
    let mut flags = Vec::new();
    if interface.up {
        flags.push(InterfaceFlag::Up);
    }
    flags.push(match &interface.config.device {
        Device::Lo => InterfaceFlag::Loopback,
        device if device.is_point_to_point() => InterfaceFlag::PointToPoint,
        _ => InterfaceFlag::Broadcast,
    });
    if interface.up && active {
        flags.push(InterfaceFlag::Running);
    }
    flags.extend([InterfaceFlag::Simplex, InterfaceFlag::Multicast]);
    if interface.monitor {
        flags.push(InterfaceFlag::Monitor);
    }
    flags
}

const fn is_point_to_point(interface: &Attached) -> bool {
    interface.config.device.is_point_to_point()
}

fn options(facts: &Facts) -> Vec<InterfaceOption> {
    let Caps { tx_csum, tso, .. } = facts.caps;
    let all = [
        (facts.rxcsum != Rxcsum::Verify, InterfaceOption::Rxcsum),
        (tx_csum, InterfaceOption::Txcsum),
        (tso, InterfaceOption::Tso4),
        (tso, InterfaceOption::Tso6),
        (tso, InterfaceOption::Lro),
    ];
    all.into_iter().filter_map(|(has, option)| has.then_some(option)).collect()
}

/// Groups of an interface, among all.
fn groups(index: IfIndex, memberships: &[Membership]) -> Vec<IpAddr> {
    let own = memberships.iter().filter(|membership| membership.key.ifindex == index);
    own.map(|membership| membership.key.group).collect()
}

/// The configured addresses, and of those in routers' prefixes the ones that are in force.
fn addresses(
    interface: &Attached,
    states: &[addr::Status],
    own: impl Iterator<Item = OwnStatus>,
    now: Instant,
) -> Vec<Address> {
    let state = |addr: IpAddr| {
        let key = addr::Key { ifindex: interface.index, addr };
        states.iter().find(|status| status.key == key).map(|status| status.state)
    };
    let state = |addr| match state(addr) {
        Some(addr::State::Preferred) => AddressState::Preferred,
        Some(addr::State::Duplicated) => AddressState::Duplicated,
        Some(addr::State::Tentative) | None => AddressState::Tentative,
    };
    let configured = interface.addresses().into_iter().map(|own| Address {
        address: own.addr,
        prefix_len: own.prefix_len,
        state: state(own.addr),
        autoconf: false,
        temporary: false,
        preferred_s: None,
        valid_s: None,
    });
    configured.chain(own.map(|own| made(&own, state(own.addr.into()), now))).collect()
}

/// An address that a router's prefix made.
fn made(own: &OwnStatus, state: AddressState, now: Instant) -> Address {
    let is_over = own.preferred <= now && state == AddressState::Preferred;
    Address {
        address: own.addr.into(),
        prefix_len: autoconf::PREFIX_LEN,
        state: if is_over { AddressState::Deprecated } else { state },
        autoconf: true,
        temporary: own.kind == autoconf::Kind::Temporary,
        preferred_s: left(own.preferred, now),
        valid_s: left(own.valid, now),
    }
}

/// The link addresses that an interface has learnt, and its static ones.
fn stations(ifindex: IfIndex, known: &[fdb::Entry], attached: &[Attached]) -> Vec<Station> {
    let name =
        |index| attached.iter().find(|other| other.index == index).map(|other| other.config.name.clone());
    let own = known.iter().filter(|entry| entry.key.ifindex == ifindex);
    own.map(|entry| Station {
        mac: Mac(entry.key.mac),
        vtep: match entry.behind {
            fdb::Behind::Vtep(addr) => Some(addr),
            fdb::Behind::Port(_) => None,
        },
        port: match entry.behind {
            fdb::Behind::Vtep(_) => None,
            fdb::Behind::Port(port) => name(port),
        },
        is_static: entry.is_static,
        left_s: entry.left.map(|left| left.as_secs()),
    })
    .collect()
}

fn device(interface: &Attached) -> DeviceInfo {
    let facts = &interface.facts;
    DeviceInfo {
        device: interface.config.device.to_string(),
        mode: facts.mode,
        copy: facts.copy,
        need_wakeup: facts.copy.is_some(),
        offload: interface.hold.port().and_then(|port| port.offload()).map(offload),
        xdp: interface.hold.xdp(&interface.config),
        umem: facts.umem,
        queues: number(facts.rings),
        memif: memif(interface),
        bridge: (facts.mode == DeviceMode::Bridge).then(|| bridge(&interface.config)),
        pppoe: None,
        vlanpcp: (facts.mode == DeviceMode::Vlan).then_some(interface.config.vlanpcp),
    }
}

fn offload(port: &PortWords) -> OffloadInfo {
    let CameUp { stale, exceptions } = port.came_up();
    OffloadInfo { sends: port.sends(), stale, exceptions }
}

/// Returns the bridge part of an interface.
fn bridge(config: &config::Interface) -> BridgeInfo {
    let (fdb, keys) = (&config.fdb, &config.bridge);
    let ports = if let Device::Bridge(bridge) = &config.device { &*bridge.ports } else { &[] };
    let member = |name: &String| BridgeMember {
        name: name.clone(),
        private: keys.private.contains(name),
        span: keys.span.contains(name),
        stp: None,
    };
    BridgeInfo {
        members: ports.iter().map(member).collect(),
        maxaddr: fdb.addresses_max,
        timeout_s: fdb.timeout_s,
        storm: keys.storm,
        stp: None,
    }
}

/// Returns the memif part of an interface.
fn memif(interface: &Attached) -> Option<MemifInfo> {
    let (Device::Memif(config), Some(port)) = (&interface.config.device, &interface.hold.memif) else {
        return None;
    };
    let Status { state, peer, peer_interface, rings, connects, ends, failed_connects, last_fault, faults } =
        port.status();
    Some(MemifInfo {
        role: memif_role(config.role).to_owned(),
        id: config.id,
        socket: config.socket.display().to_string(),
        state: match state {
            State::Waiting => MemifState::Waiting,
            State::Greeting => MemifState::Greeting,
            State::Connected => MemifState::Connected,
        },
        peer,
        peer_interface,
        rings: if state == State::Connected { number(rings) } else { 0 },
        connects,
        ends,
        failed_connects,
        last_error: last_fault.map(|fault| fault.to_string()),
        faults: MemifFaults {
            bad_descriptor: faults.bad_descriptor,
            bad_length: faults.bad_length,
            bad_chain: faults.bad_chain,
            index_jump: faults.index_jump,
            bad_buffer: faults.bad_buffer,
        },
    })
}

const fn media(facts: &Facts) -> &'static str {
    match facts.mode {
        DeviceMode::Native | DeviceMode::Generic => "Ethernet autoselect",
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
        | DeviceMode::Loopback => "",
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
