//! A wire to another stack of the same program.

use dev::mem::{End, MemRing};
use net::tables::Rxcsum;

use super::super::cpus::NewRing;
use super::{Facts, Hold, MTU, Opened, Steering, Workshop, caps, misfit, refused, rxcsum, stable_mac};
use crate::StackError;
use crate::api::DeviceMode;
use crate::config::{Interface, Wires};

/// The largest packet that a super-packet's frame has room for, bytes.
const MTU_MAX: u32 = 65_521;

pub(super) fn open(
    interface: &Interface,
    unit: u16,
    wire: &str,
    workshop: &Workshop,
) -> Result<Opened, StackError> {
    let end = end(interface, wire, &workshop.wires)?;
    let count = rings(interface, wire, &workshop.wires, workshop.cpus)?;
    let rings = end.open(count as usize, workshop.memory.allowance);
    let rings: Vec<_> = rings.map_err(|why| refused(interface, &why))?.into_iter().map(new_ring).collect();
    let map = workshop.map(unit, rings.len());
    let steering = Steering::ask(workshop.cpus, &map, || {
        end.steer(&map);
        Ok(Steering::Nic)
    });
    let (wire_number, side) = end.id();
    let facts = Facts {
        mac: interface.mac.unwrap_or_else(|| stable_mac(&format!("mem:{wire_number}.{side}"))),
        mtu_max: MTU_MAX,
        mtu: interface.mtu.unwrap_or(MTU),
        caps: caps(&rings),
        // Each frame says what is known of its checksum.
        rxcsum: rxcsum(interface.rxcsum, Rxcsum::Trust),
        rings: rings.len(),
        first_queue: 0,
        steering,
        mode: DeviceMode::Mem,
        copy: None,
        umem: None,
        host: None,
    };
    Ok(Opened { facts, rings, hold: Hold::default() })
}

/// Returns the number of CPUs, or of queues if the wire has fewer.
pub(super) fn rings(interface: &Interface, wire: &str, wires: &Wires, cpus: u32) -> Result<u32, StackError> {
    let queues = u32::try_from(end(interface, wire, wires)?.queues()).unwrap_or(u32::MAX);
    match interface.rings {
        Some(rings) if rings > queues => {
            let what = format!(
                "the wire has {queues} queues, and {rings} are asked for; use rings = {queues} or less"
            );
            Err(misfit(interface, &what))
        }
        rings => Ok(rings.unwrap_or(cpus).min(queues)),
    }
}

fn end<'w>(interface: &Interface, wire: &str, wires: &'w Wires) -> Result<&'w End, StackError> {
    wires.get(wire).ok_or_else(|| {
        let what = "no end of a wire was given this name; a program that embeds the stack does so with `Builder::wire`";
        misfit(interface, &format!("mem:{wire}: {what}"))
    })
}

fn new_ring(ring: MemRing) -> NewRing {
    NewRing { waiter: ring.waiter(), driver: Box::new(ring) }
}
