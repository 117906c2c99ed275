//! Capture files in place of a wire.

use std::path::Path;

use dev::Waiter;
use dev::pcap::PcapRing;
use net::tables::Rxcsum;
use wire::ether::Mac;

use super::super::cpus::NewRing;
use super::{Facts, Hold, MTU, Opened, Steering, caps, refused, rxcsum};
use crate::StackError;
use crate::api::DeviceMode;
use crate::config::Interface;

/// The address that replayed frames find here, if the configuration gives no other.
const MAC: Mac = Mac([0x02, 0, 0, 0, 0, 1]);
const MTU_MAX: u32 = 65_535;

pub(super) fn open(
    interface: &Interface,
    input: &Path,
    output: Option<&Path>,
    cpus: u32,
) -> Result<Opened, StackError> {
    let ring = PcapRing::open(Some(input), output).map_err(|why| refused(interface, &why))?;
    let rings = vec![NewRing { driver: Box::new(ring), waiter: Waiter::never() }];
    let facts = Facts {
        mac: interface.mac.unwrap_or(MAC),
        mtu_max: MTU_MAX,
        mtu: interface.mtu.unwrap_or(MTU),
        caps: caps(&rings),
        rxcsum: rxcsum(interface.rxcsum, Rxcsum::Complete),
        rings: 1,
        first_queue: 0,
        steering: Steering::of_one_ring(cpus),
        mode: DeviceMode::Pcap,
        copy: None,
        umem: None,
        host: None,
    };
    Ok(Opened { facts, rings, hold: Hold::default() })
}
