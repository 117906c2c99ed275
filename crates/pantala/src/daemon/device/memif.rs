//! memif: another program of this machine, which comes and goes as it likes.

use std::io::ErrorKind;

use dev::memif::{BUFFER_SIZE_MIN, FRAME_MAX, Fault, Hub, MemifRing, Options, Role};
use dev::sys::unix_socket::Access;
use net::tables::Rxcsum;

use super::super::cpus::NewRing;
use super::super::{log, privileges};
use super::{Facts, Hold, MTU, Opened, Steering, Workshop, caps, misfit, refused, rxcsum, stable_mac};
use crate::StackError;
use crate::api::DeviceMode;
use crate::config::{Admin, Config, Interface, Memif};

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
    let options = options(interface, memif, workshop.users.access(memif)?);
    if !options.are_sound() {
        let what =
            "its rings and buffers need more than 1 GiB; use fewer rings, a smaller ring_size or buffer_size";
        return Err(misfit(interface, what));
    }
    let hub = match &mut workshop.memif {
        Some(hub) => hub,
        none => none
            .insert(Hub::start(privileges::drop_all_but_to_connect, Box::new(tell)).map_err(|why| no(&why))?),
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

/// The users of the control socket, which may connect to memif sockets, too.
#[derive(Debug, Clone)]
pub(crate) struct SocketUsers {
    /// A group by name or number, if one was named.
    group: Option<String>,
    mode: u32,
}

impl Default for SocketUsers {
    fn default() -> Self {
        Self { group: None, mode: Admin::default().mode }
    }
}

impl SocketUsers {
    pub(crate) fn of(config: &Config) -> Self {
        let group = config.admin.group.as_ref().or(config.group.as_ref()).cloned();
        Self { group, mode: config.admin.mode }
    }

    /// Returns the access to the socket of a device. Without a named group no group has any: that of the process may be the one
    /// that many programs share, `nogroup`.
    fn access(&self, memif: &Memif) -> Result<Access, StackError> {
        let group = memif.group.as_ref().or(self.group.as_ref());
        let mode = memif.mode.unwrap_or(self.mode);
        let is_for_all = mode & 0o006 != 0;
        let mode = if group.is_some() || is_for_all { mode } else { mode & 0o700 };
        Ok(Access { mode, group: group.map(|name| privileges::group(name)).transpose()? })
    }
}

/// Says why an interface cannot connect.
fn tell(options: &Options, fault: &Fault) {
    let text = format!("{}: {fault}", options.name);
    match fault {
        Fault::Connect { why, .. }
            if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            log::info(&text);
        }
        _ => log::warning(&text),
    }
}

fn options(interface: &Interface, memif: &Memif, access: Access) -> Options {
    Options {
        name: interface.name.clone(),
        socket: memif.socket.clone(),
        access,
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
        ErrorKind::AddrInUse => {
            format!(
                "{path}: another program listens there; use another socket, or role=slave to connect to it"
            )
        }
        ErrorKind::PermissionDenied => format!(
            "{path}: {why}; the folder must be writable for the user of the stack, and another group for a socket can be set by \
             root alone, at the start"
        ),
        ErrorKind::NotFound => format!("{path}: there is no such folder; make it first"),
        _ => format!("{path}: {why}"),
    }
}
