//! What packets come from and go to: devices of this machine, opened as the configuration asks.

mod af_xdp;
mod pcap;
mod put_back;
mod tap;

use dev::af_xdp::SharedUmem;
use dev::netlink::{Link, Rtnetlink};
use net::driver::Caps;
use net::tables::Rxcsum;
use wire::ether::Mac;

use super::UpError;
use super::cpus::NewRing;
use crate::api::{CopyMode, DeviceMode, Umem};
use crate::config::{Device, Interface, RxCsum};
use put_back::PutBack;

/// The MTU of a device that does not say.
const MTU: u32 = 1500;

/// What devices are opened with.
pub(crate) struct Workshop {
    /// The kernel's interfaces, in the network namespace in which the daemon was started.
    pub(crate) netlink: Rtnetlink,
    /// Packet buffers in all.
    pub(crate) buffers: usize,
    /// The memory that AF_XDP devices share.
    pub(crate) umem: SharedUmem,
    /// How many CPUs rings are dealt to.
    pub(crate) cpus: u32,
    /// Buffers that each ring may have out.
    pub(crate) allowance: usize,
}

/// A device that was opened. Dropping it, after its rings are closed, puts back what was changed for it.
pub(crate) struct Opened {
    pub(crate) facts: Facts,
    pub(crate) rings: Vec<NewRing>,
    pub(crate) hold: Hold,
}

/// What the stack must know of a device.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) mac: Mac,
    /// The largest packet that the device takes, bytes.
    pub(crate) mtu_max: u32,
    /// The largest packet to be sent if the configuration does not say, bytes.
    pub(crate) mtu: u32,
    pub(crate) caps: Caps,
    pub(crate) rxcsum: Rxcsum,
    /// How many rings there are.
    pub(crate) rings: usize,
    pub(crate) mode: DeviceMode,
    pub(crate) copy: Option<CopyMode>,
    pub(crate) umem: Option<Umem>,
    /// The kernel's interface, by name and number.
    pub(crate) host: Option<(String, u32)>,
}

/// What must be held as long as a device is used.
pub(crate) struct Hold {
    // In the order in which they are to go: first the program is detached.
    _port: Option<dev::af_xdp::Port>,
    _put_back: Option<PutBack>,
}

/// The number of rings that an interface will have.
pub(crate) fn rings(interface: &Interface, cpus: u32, netlink: &mut Rtnetlink) -> Result<u32, UpError> {
    match &interface.device {
        Device::Tap { .. } => Ok(interface.rings.unwrap_or(cpus)),
        Device::AfXdp { host, queues, .. } => {
            let queues = af_xdp::queues(interface, host, queues.clone(), netlink)?;
            Ok(queues.end() - queues.start() + 1)
        }
        Device::Pcap { .. } => Ok(1),
    }
}

/// Opens the device of an interface.
pub(crate) fn open(interface: &Interface, workshop: &mut Workshop) -> Result<Opened, UpError> {
    let opened = match &interface.device {
        Device::Tap { host } => tap::open(interface, host, workshop)?,
        Device::AfXdp { host, mode, queues } => {
            af_xdp::open(interface, host, *mode, queues.clone(), workshop)?
        }
        Device::Pcap { input, output } => pcap::open(interface, input, output.as_deref())?,
    };
    let (wanted, most) = (interface.mtu.unwrap_or(0), opened.facts.mtu_max);
    if wanted > most {
        let help = opened.facts.host.as_ref().map_or_else(String::new, |(host, _)| {
            format!("; `ip link set dev {host} mtu {wanted}` may raise it, else use {most} or less")
        });
        return Err(misfit(interface, &format!("mtu {wanted} is above the device's {most}{help}")));
    }
    Ok(opened)
}

/// What to believe of checksums, if nobody has said.
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

fn mac_of(link: &Link, interface: &Interface) -> Result<Mac, UpError> {
    let device = || misfit(interface, &format!("{} is no Ethernet interface: it has no address", link.name));
    interface.mac.or_else(|| link.mac.map(Mac)).ok_or_else(device)
}

/// The configuration asks for what the device has not.
fn misfit(interface: &Interface, what: &str) -> UpError {
    UpError::Misfit(format!("interface {}: {what}", interface.name))
}

/// The device cannot be had.
fn refused(interface: &Interface, why: &dyn core::fmt::Display) -> UpError {
    UpError::Device { interface: interface.name.clone(), why: why.to_string() }
}
