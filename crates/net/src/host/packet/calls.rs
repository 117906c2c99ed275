//! Calls of programs, on the CPU that owns their sockets. None waits.

use std::sync::Arc;

use wire::bpf::{Insn, Program};
use wire::ether::{EtherType, HEADER_LEN};

use super::socket::{Id, QUEUE_BYTES, Ready, Received, Socket, Sockets};
use crate::base::count::Count;
use crate::host::sock::Error;
use crate::ip::ip_tx;
use crate::link::ether::TAG_LEN;
use crate::link::logical::Path;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;
use crate::turn::netisr::dispatch;
use crate::turn::next::Next;

/// A packet socket.
#[derive(Clone, Debug)]
pub struct Open {
    /// The interface, a device or a VLAN; 0 for all devices.
    pub ifindex: IfIndex,
    /// It is shown what is received.
    pub rx: bool,
    /// It is shown what is sent, also by itself.
    pub tx: bool,
    /// Received frames that it selects are its own: the stack does not see them.
    pub takes: bool,
    /// The filter, of frames that begin with an Ethernet header; all frames without one.
    pub filter: Option<Arc<Program<Box<[Insn]>>>>,
    /// Bytes of each frame at the most.
    pub snap_len: usize,
    /// Bytes of frames that may wait: [`QUEUE_BYTES`] by default, 2 MiB at the most.
    pub queue_bytes: usize,
}

impl Default for Open {
    fn default() -> Self {
        let (filter, queue_bytes) = (None, QUEUE_BYTES);
        Self { ifindex: 0, rx: true, tx: false, takes: false, filter, snap_len: usize::MAX, queue_bytes }
    }
}

/// Opens a socket on this CPU; the other CPUs have to be asked as well. It is shown frames while its interface is up.
///
/// # Errors
///
/// [`Error::NoInterface`] if there is no interface of this number, or its frames come by no device: capture on the device
/// that carries a tunnel, or on a port of a bridge; [`Error::TooMany`].
pub fn open(cpu: &mut Cpu, wanted: Open) -> Result<Id, Error> {
    if wanted.ifindex != 0 {
        Path::of(&cpu.tables, wanted.ifindex).ok_or(Error::NoInterface)?;
    }
    let id = cpu.packets.get_or_insert_default().add(wanted)?;
    cpu.watched = true;
    Ok(id)
}

/// Sends a frame by the interface of the socket: it begins with its Ethernet header, and has no check sequence.
///
/// # Errors
///
/// [`Error::NotConnected`] of a socket for all devices, and as [`send_by`].
pub fn send(cpu: &mut Cpu, id: Id, frame: &[u8]) -> Result<(), Error> {
    match socket(cpu, id)?.wanted.ifindex {
        0 => Err(Error::NotConnected),
        ifindex => send_by(cpu, id, ifindex, frame),
    }
}

/// Sends a frame by a device or a VLAN. It passes the output queue, and neither the firewall nor a check of its addresses.
///
/// # Errors
///
/// [`Error::BadFrame`] if it has no Ethernet header, [`Error::TooBig`] if more than the MTU is behind that,
/// [`Error::NoInterface`], [`Error::InterfaceDown`], [`Error::NoBuffer`], [`Error::NotFound`].
pub fn send_by(cpu: &mut Cpu, id: Id, ifindex: IfIndex, frame: &[u8]) -> Result<(), Error> {
    socket(cpu, id)?;
    let (ethertype, _) =
        frame.get(HEADER_LEN - 2..).and_then(<[u8]>::split_first_chunk).ok_or(Error::BadFrame)?;
    let is_tagged = EtherType(u16::from_be_bytes(*ethertype)).is_tag();
    Path::of(&cpu.tables, ifindex).ok_or(Error::NoInterface)?;
    let ifnet = cpu.tables.ifnet(ifindex).ok_or(Error::NoInterface)?;
    if !ifnet.up {
        return Err(Error::InterfaceDown);
    }
    let header_len = HEADER_LEN + if is_tagged { TAG_LEN } else { 0 };
    if frame.len() > header_len + ifnet.mtu as usize {
        return Err(Error::TooBig { mtu: ifnet.mtu });
    }
    let mut pkt = ip_tx::payload(cpu, [frame, &[]]).ok_or(Error::NoBuffer)?;
    pkt.outif = ifindex;
    cpu.count(Count::PacketSocketOut);
    dispatch(cpu, pkt, Next::Output);
    Ok(())
}

/// The frame that has waited longest; its bytes are copied into `into`, as many as there is room for.
///
/// # Errors
///
/// [`Error::WouldBlock`] if there is none, [`Error::NotFound`].
pub fn recv(cpu: &mut Cpu, id: Id, into: &mut [u8]) -> Result<Received, Error> {
    socket(cpu, id)?.queue.pop(into).ok_or(Error::WouldBlock)
}

/// Shows the frame that has waited longest to `what`, in two pieces where it stands; `what` says whether it is read with that.
///
/// # Errors
///
/// [`Error::WouldBlock`] if there is none, [`Error::NotFound`].
pub fn show<R>(
    cpu: &mut Cpu,
    id: Id,
    what: impl FnOnce(&Received, [&[u8]; 2]) -> (bool, R),
) -> Result<R, Error> {
    socket(cpu, id)?.queue.show(what).ok_or(Error::WouldBlock)
}

/// Returns what a program could do now.
#[must_use]
pub fn ready(cpu: &Cpu, id: Id) -> Ready {
    cpu.packets.as_ref().and_then(|sockets| sockets.get(id)).map(Socket::ready).unwrap_or_default()
}

/// Ends a socket, with unread frames.
///
/// # Errors
///
/// [`Error::NotFound`].
pub fn close(cpu: &mut Cpu, id: Id) -> Result<(), Error> {
    let sockets = cpu.packets.as_mut().ok_or(Error::NotFound)?;
    if !sockets.remove(id) {
        return Err(Error::NotFound);
    }
    if sockets.is_empty() {
        cpu.packets = None;
        cpu.watched = cpu.is_watched();
    }
    Ok(())
}

fn socket(cpu: &mut Cpu, id: Id) -> Result<&mut Socket, Error> {
    cpu.packets.as_mut().and_then(|sockets: &mut Box<Sockets>| sockets.get_mut(id)).ok_or(Error::NotFound)
}
