//! TAP: the kernel's end is an interface of the host, ours is a file descriptor for each ring.

use core::hash::Hasher;

use dev::bpf::steering;
use dev::sys::tun::{Offload, Tap};
use dev::tap::TapRing;
use net::rss::Placement;
use net::tables::Rxcsum;
use siphasher::sip::SipHasher13;
use wire::ether::Mac;

use super::super::cpus::NewRing;
use super::super::{UpError, log};
use super::{Facts, Hold, MTU, Opened, PutBack, Workshop, caps, refused, rxcsum};
use crate::api::DeviceMode;
use crate::config::Interface;

/// The most that Linux lets a TAP carry.
const MTU_MAX: u32 = 65_521;

pub(super) fn open(interface: &Interface, host: &str, workshop: &mut Workshop) -> Result<Opened, UpError> {
    let no = |why: &dyn core::fmt::Display| refused(interface, why);
    let count = interface.rings.unwrap_or(workshop.cpus);
    let tap = Tap::open(host, count as usize).map_err(|why| no(&why))?;
    steer(&tap, workshop.cpus);
    let mut put_back = PutBack::new(host).map_err(|why| no(&why))?;
    let mtu = interface.mtu.unwrap_or(MTU);
    put_back.set_mtu(mtu).and_then(|()| put_back.set_up()).map_err(|why| no(&why))?;
    let link = workshop.netlink.link(host).map_err(|why| no(&why))?;
    let rings = rings(tap, workshop.allowance);
    let facts = Facts {
        mac: interface.mac.unwrap_or_else(|| stable_mac(host)),
        mtu_max: MTU_MAX,
        mtu,
        caps: caps(&rings),
        // Each frame says what is known of its checksum.
        rxcsum: rxcsum(interface.rxcsum, Rxcsum::Trust),
        rings: rings.len(),
        mode: DeviceMode::Tap,
        copy: None,
        umem: None,
        host: Some((host.to_owned(), link.index)),
    };
    Ok(Opened { facts, rings, hold: Hold { _port: None, _put_back: Some(put_back) } })
}

fn rings(tap: Tap, allowance: usize) -> Vec<NewRing> {
    let offload: Offload = tap.offload;
    let ring = |queue| {
        let ring = TapRing::new(queue, offload, allowance);
        NewRing { waiter: ring.waiter(), driver: Box::new(ring) }
    };
    tap.queues.into_iter().map(ring).collect()
}

/// Lets the kernel put each frame into the queue of the CPU that owns its flow. Without it the CPUs hand packets to
/// each other, so it is no failure.
fn steer(tap: &Tap, cpus: u32) {
    if tap.queues.len() < 2 || tap.queues.len() != cpus as usize {
        return;
    }
    let buckets = Placement::new(u16::try_from(cpus).unwrap_or(u16::MAX)).buckets();
    let steered = steering::load(buckets).map_err(|why| why.to_string());
    if let Err(why) = steered.and_then(|program| tap.steer(&program).map_err(|why| why.to_string())) {
        log::warning(&format!("{}: frames are not steered to the CPUs of their flows: {why}", tap.name));
    }
}

/// An address for our end of the wire; the other end has its own. The same at each start, so that neighbours need not
/// learn it again, and different on other machines.
fn stable_mac(host: &str) -> Mac {
    // Without a machine-id the name alone must do.
    let machine = std::fs::read("/etc/machine-id").unwrap_or_default();
    let mut hasher = SipHasher13::new();
    hasher.write(&machine);
    hasher.write(host.as_bytes());
    let [a, b, c, d, e, ..] = hasher.finish().to_be_bytes();
    // Locally administered, unicast (IEEE 802 §8.2).
    Mac([0x02, a, b, c, d, e])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_tap_is_local_unicast_stable_and_its_own() {
        let mac = stable_mac("lan0");
        assert_eq!(mac.octets()[0] & 3, 2);
        assert_eq!(mac, stable_mac("lan0"));
        assert_ne!(mac, stable_mac("lan1"));
    }
}
