//! The devices of a test, opened as the daemon opens them.

use std::sync::Arc;

use dev::netlink::Rtnetlink;
use dev::sys::promisc::Promisc;
use pkt::{Arena, Pool};
use wire::ether::Mac;

use crate::config::{Device, Interface, Wires};
use crate::daemon::cpus::NewRing;
use crate::daemon::device::{self, Hold, Workshop};
use crate::daemon::log;

/// Buffers of each ring's worker: those that its receive ring may have out, as many in its transmit ring, and some in hand.
const BUFFERS: usize = 10_240;
const ALLOWANCE: usize = 4096;

/// A device in use. Dropping it, after its rings are closed, puts back what was changed for it.
pub(super) struct Port {
    /// As in the configuration.
    pub(super) name: String,
    pub(super) mac: Mac,
    /// The largest packet, bytes.
    pub(super) mtu: u32,
    /// The kernel lets the device hear what is for others until this goes.
    _promisc: Option<Promisc>,
    _hold: Hold,
}

/// A ring, the buffers it works with, and the port it belongs to.
pub(super) struct WorkerRing {
    pub(super) ring: NewRing,
    pub(super) pool: Pool,
    /// By its place among the ports.
    pub(super) port: usize,
    /// It ends, and has no peer.
    pub(super) is_file: bool,
}

/// Opens all of `devices`, with so many rings each, if that is given. What they were opened with must outlive them.
pub(super) fn open(
    devices: &[&Device],
    rings: Option<u32>,
) -> Result<(Vec<Port>, Vec<WorkerRing>, Workshop), String> {
    let interfaces: Vec<Interface> = devices.iter().map(|device| interface(device, rings)).collect();
    let mut netlink =
        Rtnetlink::open().map_err(|why| format!("cannot ask the kernel for its interfaces: {why}"))?;
    let mut count = 0;
    for interface in &interfaces {
        if interface.device.is_logical() {
            return Err(format!("{} is over interfaces of a stack; name a device", interface.device));
        }
        count +=
            device::rings(interface, 1, &mut netlink, &Wires::new()).map_err(|why| why.to_string())? as usize;
    }
    let pools = Arena::carve(count.max(1), BUFFERS, true).map_err(|why| why.to_string())?;
    let arena = pools.first().map(|pool| Arc::clone(pool.arena())).ok_or("there are no packet buffers")?;
    let mut workshop = Workshop::alone(netlink, arena, rings.unwrap_or(1), ALLOWANCE);
    let (mut ports, mut worker_rings, mut pools) = (Vec::new(), Vec::new(), pools.into_iter());
    for ((unit, at), interface) in (0..).zip(0..).zip(&interfaces) {
        match device::open(interface, unit, &mut workshop) {
            Ok(opened) => {
                let is_file = matches!(interface.device, Device::Pcap { .. });
                let rings = opened.rings.into_iter().zip(&mut pools);
                worker_rings.extend(rings.map(|(ring, pool)| WorkerRing { ring, pool, port: at, is_file }));
                ports.push(Port {
                    name: interface.device.to_string(),
                    mac: opened.facts.mac,
                    mtu: opened.facts.mtu,
                    _promisc: promiscuous(
                        &interface.device,
                        opened.facts.host.as_ref().map(|(_, index)| *index),
                    ),
                    _hold: opened.hold,
                });
            }
            Err(why) => {
                close(worker_rings);
                return Err(why.to_string());
            }
        }
    }
    Ok((ports, worker_rings, workshop))
}

/// Closes rings whose ports are about to go.
pub(super) fn close(rings: Vec<WorkerRing>) {
    for mut ring in rings {
        ring.ring.driver.close(&mut ring.pool);
    }
}

fn interface(device: &Device, rings: Option<u32>) -> Interface {
    Interface {
        // Frames on a queue that is not read would count as lost.
        rings: if let Device::AfXdp { .. } = device { rings } else { Some(rings.unwrap_or(1)) },
        ..Interface::of_device(device.to_string(), device.clone())
    }
}

/// A sink wants to see frames for other addresses too. A TAP delivers them anyhow.
fn promiscuous(device: &Device, ifindex: Option<u32>) -> Option<Promisc> {
    let Device::AfXdp { host, .. } = device else { return None };
    match Promisc::hold(ifindex?) {
        Ok(promisc) => Some(promisc),
        Err(why) => {
            log::warning(&format!(
                "{host} is not promiscuous, so it receives only what is for its address: {why}"
            ));
            None
        }
    }
}
