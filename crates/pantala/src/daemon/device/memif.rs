//! memif: another program of this machine, which comes and goes as it likes.

use dev::memif::{BUFFER_SIZE_MIN, FRAME_MAX, Hub, MemifRing, Options, Role};
use net::tables::Rxcsum;

use super::super::cpus::NewRing;
use super::super::privileges;
use super::{Facts, Hold, MTU, Opened, Steering, Workshop, caps, misfit, refused, rxcsum, stable_mac};
use crate::StackError;
use crate::api::DeviceMode;
use crate::config::{Interface, Memif};

/// Bytes of a frame that the MTU does not count: the Ethernet header and one tag.
const BESIDE_MTU: u32 = 18;
/// The largest packet that a super-packet's frame has room for, bytes.
const MTU_MAX: u32 = 65_521;
/// Buffers that one frame may be spread over.
const CHAIN_MAX: u32 = 64;
const _: () = assert!((MTU_MAX + BESIDE_MTU) as usize <= FRAME_MAX && BUFFER_SIZE_MIN * CHAIN_MAX > 9018);

/// Default number of rings: any peer has one.
pub(super) const RINGS: u32 = 1;

pub(super) fn open(
    interface: &Interface,
    unit: u16,
    memif: &Memif,
    workshop: &mut Workshop,
) -> Result<Opened, StackError> {
    let no = |why: &dyn core::fmt::Display| refused(interface, why);
    let options = options(interface, memif);
    if !options.are_sound() {
        let what =
            "its rings and buffers need more than 1 GiB; use fewer rings, a smaller ring_size or buffer_size";
        return Err(misfit(interface, what));
    }
    let hub = match &mut workshop.memif {
        Some(hub) => hub,
        none => none.insert(Hub::start(privileges::drop_all).map_err(|why| no(&why))?),
    };
    let (port, rings) = hub.open(options).map_err(|why| no(&because(memif, &why)))?;
    let rings: Vec<_> = rings.into_iter().map(new_ring).collect();
    let map = workshop.map(unit, rings.len());
    let steering = Steering::ask(workshop.cpus, &map, || Err("the peer chooses the rings".to_owned()));
    let facts = Facts {
        mac: interface.mac.unwrap_or_else(|| stable_mac(&memif.to_string())),
        mtu_max: mtu_max(memif),
        mtu: interface.mtu.unwrap_or(MTU),
        caps: caps(&rings),
        rxcsum: rxcsum(interface.rxcsum, Rxcsum::Verify),
        rings: rings.len(),
        first_queue: 0,
        steering,
        mode: DeviceMode::Memif,
        copy: None,
        umem: None,
        host: None,
    };
    Ok(Opened { facts, rings, hold: Hold { memif: Some(port), ..Hold::default() } })
}

fn options(interface: &Interface, memif: &Memif) -> Options {
    Options {
        name: interface.name.clone(),
        socket: memif.socket.clone(),
        id: memif.id,
        role: memif.role,
        rings: u16::try_from(interface.rings.unwrap_or(RINGS)).unwrap_or(u16::MAX),
        ring_size: memif.ring_size,
        buffer_size: memif.buffer_size,
        secret: memif.secret.clone(),
    }
}

fn new_ring(ring: MemifRing) -> NewRing {
    NewRing { waiter: ring.waiter(), driver: Box::new(ring) }
}

/// A master does not know what buffers its peers will have.
fn mtu_max(memif: &Memif) -> u32 {
    match memif.role {
        Role::Master => MTU_MAX,
        Role::Slave => {
            (memif.buffer_size * memif.ring_size.min(CHAIN_MAX)).saturating_sub(BESIDE_MTU).min(MTU_MAX)
        }
    }
}

fn because(memif: &Memif, why: &std::io::Error) -> String {
    let path = memif.socket.display();
    match why.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!(
                "{path}: another program listens there; use another socket, or role=slave to connect to it"
            )
        }
        std::io::ErrorKind::NotFound => format!("{path}: there is no such folder; make it first"),
        _ => format!("{path}: {why}"),
    }
}
