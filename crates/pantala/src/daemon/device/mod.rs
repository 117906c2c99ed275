//! Devices of this machine, opened as the configuration asks.

mod af_xdp;
pub(crate) mod lifeline;
mod mem;
mod memif;
mod null;
mod pcap;
mod restore;
mod steering;
pub(crate) mod takeover;
mod tap;
pub(super) mod twin;
pub(crate) mod xdp;

use core::hash::Hasher;
use core::net::IpAddr;
use core::time::Duration;

use dev::af_xdp::SharedUmem;
use dev::bpf::share::Shares;
use dev::memif::Hub;
use dev::netlink::{Link, Rtnetlink};
use dev::sys::promisc::Promisc;
use dev::sys::tun::Layer;
use dev::xdp::vm::InProcess;
use net::driver::Caps;
use net::ringmap::RingMap;
use net::tables::Rxcsum;
use siphasher::sip::SipHasher13;
use wire::ether::Mac;

use super::bring_up::Memory;
use super::cpus::NewRing;
use super::flow_offload::FlowOffload;
use super::log;
use super::tables::is_link_local;
use crate::StackError;
use crate::api::{CopyMode, DeviceMode, Umem};
use crate::config::{Device, Interface, RxCsum, Wires, limits};
use crate::pppoe::lcp;
pub(crate) use memif::SocketUsers;
use restore::PutBack;
use steering::Programmed;
pub(crate) use steering::Steering;
use twin::{Instance, Twin};

/// The MTU of a device that does not say.
const MTU: u32 = 1500;

/// The context of opening devices.
pub(crate) struct Workshop {
    /// The kernel's interfaces, in the network namespace in which the daemon was started.
    pub(crate) netlink: Rtnetlink,
    /// Packet buffers in all.
    pub(crate) buffers: usize,
    /// The memory that AF_XDP devices share.
    pub(crate) umem: SharedUmem,
    /// Number of CPUs that share the rings.
    pub(crate) cpus: u32,
    /// Whether the netisrs never sleep, so that devices need not interrupt.
    pub(crate) busy_poll: bool,
    /// Buffers of CPUs and rings.
    pub(crate) memory: Memory,
    /// Wires of the program.
    pub(crate) wires: Wires,
    /// Speaks to the peers of memif interfaces, if there ever was one.
    pub(crate) memif: Option<Hub>,
    /// The users that its sockets admit, if a device does not say.
    pub(crate) users: SocketUsers,
    /// Time limit of waiting for a device that an ending process still has.
    pub(crate) patience: Duration,
    /// Flows that drivers forward.
    pub(crate) offload: FlowOffload,
    /// The mark of what it leaves in the kernel when it is killed, and takes over at the next start.
    pub(crate) instance: Instance,
}

impl Workshop {
    /// Makes one for a program that runs `cpus` rings of each device by itself, with at most `allowance` buffers of `arena` each.
    #[cfg(feature = "cli")]
    pub(crate) fn alone(
        netlink: Rtnetlink,
        arena: std::sync::Arc<pkt::Arena>,
        cpus: u32,
        allowance: usize,
    ) -> Self {
        let (buffers, memory) = (arena.slots(), Memory::of_rings(allowance));
        Self {
            netlink,
            buffers,
            umem: SharedUmem::new(arena),
            cpus,
            memory,
            wires: Wires::new(),
            memif: None,
            users: SocketUsers::default(),
            busy_poll: false,
            patience: Duration::ZERO,
            offload: FlowOffload::default(),
            instance: Instance::default(),
        }
    }

    /// Opens something that must not be waited for. What is opened later, by a reload, may be.
    pub(crate) fn without_waiting<T>(&mut self, open: impl FnOnce(&mut Self) -> T) -> T {
        let patience = core::mem::replace(&mut self.patience, Duration::ZERO);
        let opened = open(self);
        self.patience = patience;
        opened
    }

    /// Which CPU is to have which of an interface's rings.
    pub(crate) fn map(&self, unit: u16, rings: usize) -> RingMap {
        ring_map(self.cpus, unit, u32::try_from(rings).unwrap_or(u32::MAX))
    }
}

/// Deals the rings of the interface number `unit` to CPUs.
pub(crate) fn ring_map(cpus: u32, unit: u16, rings: u32) -> RingMap {
    let most = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
    RingMap::alloc(most(cpus), unit, None, most(rings))
}

/// A device that was opened. Dropping it, after its rings are closed, puts back what was changed for it.
pub(crate) struct Opened {
    pub(crate) facts: Facts,
    pub(crate) rings: Vec<NewRing>,
    pub(crate) hold: Hold,
}

/// Facts about a device.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) mac: Mac,
    /// The largest packet that the device takes, bytes.
    pub(crate) mtu_max: u32,
    /// The largest packet to be sent if the configuration does not say, bytes.
    pub(crate) mtu: u32,
    pub(crate) caps: Caps,
    pub(crate) rxcsum: Rxcsum,
    /// Number of rings.
    pub(crate) rings: usize,
    /// The device's queue of the first of them.
    pub(crate) first_queue: u32,
    /// Steering of frames to the CPUs of their flows.
    pub(crate) steering: Steering,
    pub(crate) mode: DeviceMode,
    pub(crate) copy: Option<CopyMode>,
    pub(crate) umem: Option<Umem>,
    /// The kernel's interface, by name and number.
    pub(crate) host: Option<(String, u32)>,
}

/// Resources held as long as a device is used.
#[derive(Default)]
pub(crate) struct Hold {
    pub(crate) memif: Option<dev::memif::Port>,
    // In the order in which they are to go: first the program is detached.
    port: Option<dev::af_xdp::Port>,
    nic: Option<Programmed>,
    _groups: Option<Promisc>,
    /// The XDP program, if it runs in this process.
    in_process: Option<InProcess>,
    /// The kernel's twin of another interface, which it is.
    twin: Option<Twin>,
    put_back: Option<PutBack>,
}

impl Hold {
    /// Says which addresses are ours, if the device is shared with the kernel.
    pub(crate) fn share(&self, shares: &Shares) -> Result<(), String> {
        self.port.as_ref().map_or(Ok(()), |port| port.share(shares).map_err(|why| why.to_string()))
    }

    /// The port of an AF_XDP device.
    pub(crate) const fn port(&self) -> Option<&dev::af_xdp::Port> {
        self.port.as_ref()
    }

    /// The device is gone: nothing is put back, because another may have its name by now.
    pub(crate) fn forsake(&mut self) {
        self.nic.iter_mut().for_each(Programmed::forsake);
        self.put_back.iter_mut().for_each(PutBack::forsake);
        self.twin.iter_mut().for_each(Twin::forsake);
    }
}

/// The number of rings that an interface will have.
pub(crate) fn rings(
    interface: &Interface,
    cpus: u32,
    netlink: &mut Rtnetlink,
    wires: &Wires,
) -> Result<u32, StackError> {
    match &interface.device {
        Device::Tap { .. } | Device::Tun { .. } => Ok(interface.rings.unwrap_or(cpus)),
        Device::AfXdp { host, queues, .. } => {
            let queues = af_xdp::queues(interface, host, queues.clone(), netlink)?;
            Ok(queues.end() - queues.start() + 1)
        }
        Device::Pcap { .. } | Device::Null { .. } => Ok(1),
        Device::Memif(_) => Ok(interface.rings.unwrap_or(memif::RINGS)),
        Device::Mem { wire } => mem::rings(interface, wire, wires, cpus),
        Device::Vlan(_)
        | Device::Tunnel(_)
        | Device::Vxlan(_)
        | Device::Bridge(_)
        | Device::Pppoe(_)
        | Device::Lo => Ok(0),
    }
}

/// Refuses to take an interface of the kernel by which this machine is reached.
pub(crate) fn leaves_the_machine_reachable(
    interface: &Interface,
    netlink: &mut Rtnetlink,
) -> Result<(), StackError> {
    let Device::AfXdp { host, share, .. } = &interface.device else { return Ok(()) };
    // The kernel goes on, by the twin.
    if interface.punt.is_some() {
        return Ok(());
    }
    let (found, loses, way) = if *share {
        let found = lifeline::session_at(&interface.addresses, &interface.kernel_ports);
        (
            Ok(found),
            "which this interface would receive",
            "put its port into `kernel_ports`, or use another address;",
        )
    } else {
        let way = "share it with the kernel by `,share` behind the device, or give it a twin there by `punt = true`;";
        (lifeline::of(host, netlink), "and the kernel would receive nothing from it any more", way)
    };
    match found.map_err(|why| refused(interface, &why))? {
        None => Ok(()),
        Some(why) => {
            let text = format!("{why}, {loses}; {way} `pantala up --force` takes it nevertheless");
            Err(misfit(interface, &text))
        }
    }
}

/// Says that the kernel would go on sending by a NIC itself, and not by the twin, from which it gets packets.
fn warn_of_addresses(interface: &Interface, host: &str, netlink: &mut Rtnetlink) {
    let Some(twin) = &interface.punt else { return };
    let (Ok(link), Ok(all)) = (netlink.link(host), netlink.addresses()) else { return };
    if all.iter().any(|own| own.ifindex == link.index && !is_link_local(own.net.addr())) {
        log::warning(&format!(
            "interface {}: the kernel has addresses on {host} itself and sends by it, not by {twin}: `ip address flush dev {host}`",
            interface.name
        ));
    }
}

/// Opens the device of the interface number `unit`.
pub(crate) fn open(interface: &Interface, unit: u16, workshop: &mut Workshop) -> Result<Opened, StackError> {
    let opened = match &interface.device {
        Device::Tap { host } => tap::open(interface, unit, (Layer::Frames, host), workshop)?,
        Device::Tun { host } => tap::open(interface, unit, (Layer::Packets, host), workshop)?,
        Device::AfXdp { host, mode, queues, share } => {
            let wanted = af_xdp::Wanted { host, mode: *mode, queues: queues.clone(), share: *share };
            let opened = af_xdp::open(interface, unit, wanted, workshop)?;
            warn_of_addresses(interface, host, &mut workshop.netlink);
            opened
        }
        Device::Pcap { input, output } => pcap::open(interface, input, output.as_deref(), workshop.cpus)?,
        Device::Null { receives } => null::open(interface, usize::from(*receives), workshop.cpus),
        Device::Memif(memif) => memif::open(interface, unit, memif, workshop)?,
        Device::Mem { wire } => mem::open(interface, unit, wire, workshop)?,
        Device::Vlan(_) => logical(DeviceMode::Vlan, Mac::default(), MTU),
        Device::Lo => logical(DeviceMode::Loopback, Mac::default(), MTU),
        Device::Pppoe(_) => logical(DeviceMode::Pppoe, Mac::default(), lcp::MRU.into()),
        Device::Tunnel(tunnel) => {
            let header = u32::try_from(tunnel.to_net().header_len()).unwrap_or(0);
            logical(DeviceMode::Tunnel, identifier(tunnel.local), MTU.saturating_sub(header))
        }
        Device::Bridge(_) => {
            logical(DeviceMode::Bridge, interface.mac.unwrap_or_else(|| stable_mac(&interface.name)), MTU)
        }
        Device::Vxlan(vxlan) => {
            let header = vxlan.to_net().header_len() + wire::ether::HEADER_LEN;
            let mac = interface.mac.unwrap_or_else(|| stable_mac(&interface.name));
            logical(DeviceMode::Vxlan, mac, MTU.saturating_sub(u32::try_from(header).unwrap_or(0)))
        }
    };
    let opened = xdp::in_process(interface, opened, workshop.cpus)?;
    let (wanted, most) = (interface.mtu.unwrap_or(0), opened.facts.mtu_max);
    if wanted > most {
        let help = opened.facts.host.as_ref().map_or_else(String::new, |(host, _)| {
            format!("; `ip link set dev {host} mtu {wanted}` may raise it, else use {most} or less")
        });
        return Err(misfit(interface, &format!("mtu {wanted} is above the device's {most}{help}")));
    }
    Ok(opened)
}

/// An interface without a device: what it inherits, tables say ([`super::tables::inherit`]).
fn logical(mode: DeviceMode, mac: Mac, mtu: u32) -> Opened {
    let facts = Facts {
        mac,
        mtu_max: limits::MTU.end().to_owned(),
        mtu,
        caps: Caps::default(),
        rxcsum: Rxcsum::default(),
        rings: 0,
        first_queue: 0,
        steering: Steering::Needless,
        mode,
        copy: None,
        umem: None,
        host: None,
    };
    Opened { facts, rings: Vec::new(), hold: Hold::default() }
}

/// Returns an address of which the link-local address of a tunnel is made: the end of the outer one, so that both ends of a
/// tunnel have their own (RFC 4213 §3.7).
fn identifier(local: IpAddr) -> Mac {
    let [.., a, b, c, d] = match local {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().octets(),
        IpAddr::V6(addr) => addr.octets(),
    };
    Mac([2, 0, a, b, c, d])
}

/// Returns the checksum policy for `auto`.
fn rxcsum(asked: RxCsum, auto: Rxcsum) -> Rxcsum {
    match asked {
        RxCsum::Auto => auto,
        RxCsum::Verify => Rxcsum::Verify,
        RxCsum::Trust => Rxcsum::Trust,
        RxCsum::Complete => Rxcsum::Complete,
    }
}

fn caps(rings: &[NewRing]) -> Caps {
    rings.first().map_or_else(Caps::default, |ring| ring.driver.caps())
}

fn mac_of(link: &Link, interface: &Interface) -> Result<Mac, StackError> {
    let device = || misfit(interface, &format!("{} is no Ethernet interface: it has no address", link.name));
    interface.mac.or_else(|| link.mac.map(Mac)).ok_or_else(device)
}

/// The configuration asks for what the device has not.
fn misfit(interface: &Interface, what: &str) -> StackError {
    StackError::Misfit(format!("interface {}: {what}", interface.name))
}

/// The device cannot be had.
fn refused(interface: &Interface, why: &dyn core::fmt::Display) -> StackError {
    StackError::Device { interface: interface.name.clone(), why: why.to_string() }
}

/// An address for our end of a wire; the other end has its own. The same at each start, so that neighbours need not
/// learn it again, and different on other machines.
fn stable_mac(name: &str) -> Mac {
    // Without a machine-id the name alone must do.
    let machine = std::fs::read("/etc/machine-id").unwrap_or_default();
    let mut hasher = SipHasher13::new();
    hasher.write(&machine);
    hasher.write(name.as_bytes());
    let [a, b, c, d, e, ..] = hasher.finish().to_be_bytes();
    // Locally administered, unicast (IEEE 802 §8.2).
    Mac([0x02, a, b, c, d, e])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_an_interface_is_local_unicast_stable_and_its_own() {
        let mac = stable_mac("lan0");
        assert_eq!(mac.octets()[0] & 3, 2);
        assert_eq!(mac, stable_mac("lan0"));
        assert_ne!(mac, stable_mac("lan1"));
    }

    #[cfg(feature = "cli")]
    #[test]
    fn a_device_that_came_back_and_was_not_waited_for_leaves_the_next_one_its_time() {
        let pool = pkt::Arena::carve(1, 16, false).unwrap().remove(0);
        let netlink = Rtnetlink::open().unwrap();
        let mut workshop = Workshop::alone(netlink, std::sync::Arc::clone(pool.arena()), 1, 8);
        workshop.patience = takeover::PATIENCE;
        for outcome in [Ok(()), Err("it is held")] {
            let during = workshop.without_waiting(|workshop| outcome.map(|()| workshop.patience));
            assert_eq!(during, outcome.map(|()| Duration::ZERO));
            assert_eq!(workshop.patience, takeover::PATIENCE);
        }
    }
}
