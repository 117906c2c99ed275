//! A device without a wire.

use dev::Waiter;
use dev::null::NullRing;
use net::tables::Rxcsum;

use super::super::cpus::NewRing;
use super::{Facts, Hold, MTU, Opened, Steering, caps, rxcsum, stable_mac};
use crate::api::DeviceMode;
use crate::config::Interface;

const MTU_MAX: u32 = 65_535;

pub(super) fn open(interface: &Interface, receives: usize, cpus: u32) -> Opened {
    let ring = NullRing::new(vec![0; receives]);
    let rings = vec![NewRing { driver: Box::new(ring), waiter: Waiter::never() }];
    let facts = Facts {
        mac: interface.mac.unwrap_or_else(|| stable_mac(&interface.name)),
        mtu_max: MTU_MAX,
        mtu: interface.mtu.unwrap_or(MTU),
        caps: caps(&rings),
        rxcsum: rxcsum(interface.rxcsum, Rxcsum::Complete),
        rings: 1,
        first_queue: 0,
        steering: Steering::of_one_ring(cpus),
        mode: DeviceMode::Null,
        copy: None,
        umem: None,
        host: None,
    };
    Opened { facts, rings, hold: Hold::default() }
}
