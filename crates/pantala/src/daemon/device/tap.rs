//! TAP and TUN: the kernel's end is an interface of the host, ours is a file descriptor for each ring.

use core::time::Duration;
use std::time::Instant;

use dev::bpf::steering::{self, Link, Steer};
use dev::sys::process;
use dev::sys::tun::{Layer, Offload, Tap, TunError};
use dev::tap::TapRing;
use net::ringmap::RingMap;
use net::tables::Rxcsum;

use super::super::cpus::NewRing;
use super::super::log;
use super::super::twins;
use super::twin::{self, Twin};
use super::{
    Facts, Hold, MTU, Opened, PutBack, Steering, Workshop, caps, refused, rxcsum, stable_mac, takeover,
};
use crate::StackError;
use crate::api::DeviceMode;
use crate::config::Interface;

/// The most that Linux lets a TAP carry.
const MTU_MAX: u32 = 65_521;
/// Frames that wait in each queue of the kernel's end: what a thousand programs begin with at once. Linux lets 500 or 1000
/// wait, and drops what comes when they do.
const QUEUE_LEN: u32 = 4096;

pub(super) fn open(
    interface: &Interface,
    unit: u16,
    (layer, host): (Layer, &str),
    workshop: &mut Workshop,
) -> Result<Opened, StackError> {
    let no = |why: &dyn core::fmt::Display| refused(interface, why);
    let count = interface.rings.unwrap_or(workshop.cpus);
    if interface.twin_of.is_some() {
        twin::is_free_or_ours(interface, host, workshop)?;
    }
    let mut tap = open_when_free(layer, host, count as usize, workshop.patience).map_err(|why| no(&why))?;
    if interface.xdp.is_some() {
        // Its program is to see whole frames with whole checksums.
        tap.take_whole_frames().map_err(|why| no(&why))?;
    }
    let map = workshop.map(unit, tap.queues.len());
    let steering = Steering::ask(workshop.cpus, &map, || steer(&tap, &map, link_of(layer)));
    let mut put_back = PutBack::new(host).map_err(|why| no(&why))?;
    let mtu = interface.mtu.unwrap_or(MTU);
    // A twin gets the MTU of its interface, comes up with its addresses, and goes at the end.
    let twin = match interface.twin_of.as_deref() {
        Some(of) => {
            twins::quiet(host);
            Some(Twin::keep(of, &tap, workshop).map_err(|why| no(&why))?)
        }
        None => {
            put_back.set_mtu(mtu).map_err(|why| no(&why))?;
            put_back.set_up().map_err(|why| no(&why))?;
            None
        }
    };
    // A process that may use a TAP of another may not change it.
    if let Err(why) = put_back.lengthen_queue(QUEUE_LEN) {
        log::warning(&format!("the queue of {host} is not longer, so bursts may be dropped: {why}"));
    }
    let link = workshop.netlink.link(host).map_err(|why| no(&why))?;
    let rings = rings(tap, workshop.memory.allowance);
    let facts = Facts {
        mac: interface.mac.unwrap_or_else(|| stable_mac(host)),
        mtu_max: MTU_MAX,
        mtu,
        caps: caps(&rings),
        // Each frame says what is known of its checksum.
        rxcsum: rxcsum(interface.rxcsum, Rxcsum::Trust),
        rings: rings.len(),
        first_queue: 0,
        steering,
        mode: match layer {
            Layer::Frames => DeviceMode::Tap,
            Layer::Packets => DeviceMode::Tun,
        },
        copy: None,
        umem: None,
        host: Some((host.to_owned(), link.index)),
    };
    Ok(Opened { facts, rings, hold: Hold { put_back: Some(put_back), twin, ..Hold::default() } })
}

/// Opens a TAP or TUN. The kernel takes it from a process that was killed in its own time: that is waited for.
fn open_when_free(layer: Layer, host: &str, queues: usize, patience: Duration) -> Result<Tap, TunError> {
    let until = Instant::now() + patience;
    loop {
        match Tap::open_as(layer, host, queues) {
            Err(TunError::Busy { pid, .. })
                if pid.is_none_or(process::is_ending) && Instant::now() < until =>
            {
                std::thread::sleep(takeover::LOOK_AGAIN);
            }
            other => return other,
        }
    }
}

fn rings(tap: Tap, allowance: usize) -> Vec<NewRing> {
    let offload: Offload = tap.offload;
    let ring = |queue| {
        let ring = TapRing::new(queue, offload, allowance);
        NewRing { waiter: ring.waiter(), driver: Box::new(ring) }
    };
    tap.queues.into_iter().map(ring).collect()
}

/// The link header of what the kernel sends.
const fn link_of(layer: Layer) -> Link {
    match layer {
        Layer::Frames => Link::Ethernet,
        Layer::Packets => Link::None,
    }
}

/// Lets the kernel put each frame into the queue whose CPU owns its flow.
fn steer(tap: &Tap, map: &RingMap, link: Link) -> Result<Steering, String> {
    let program = steering::load(Steer::by(map, link)).map_err(|why| why.to_string())?;
    tap.steer(&program).map_err(|why| why.to_string())?;
    Ok(Steering::Program)
}
