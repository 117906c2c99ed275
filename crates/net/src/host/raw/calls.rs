//! Calls of programs, on the CPU that owns their objects. None waits.

use core::net::IpAddr;

use wire::Protocol;

use super::filter::Filter;
use super::socket::{Id, Ready, Socket, Sockets};
use crate::base::count::Count;
use crate::host::dgram::{self, Aim, Listen, Received, Settings, To};
use crate::host::pcb::Bound;
use crate::host::sock::Error;
use crate::ip::group::Membership;
use crate::ip::icmp::is_one_host;
use crate::ip::ip_tx;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// Where the checksum stands in a message.
const CHECKSUM_AT: usize = 2;
/// Bytes of the shortest message: type, code and checksum.
const MESSAGE_MIN: usize = 4;

/// A raw socket.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Our address, or the unspecified one for all; it says of which family the messages are.
    pub local: IpAddr,
    /// Peer, if connected.
    pub remote: Option<IpAddr>,
    /// The interface, where addresses mean something only with their link; else 0.
    pub zone: IfIndex,
    /// Which messages it is shown.
    pub filter: Filter,
    /// Its settings.
    pub settings: Settings,
}

/// Opens a socket on this CPU; the other CPUs have to be asked as well.
///
/// # Errors
///
/// [`Error::BadAddress`], [`Error::NotPermitted`] and [`Error::NetworkUnreachable`] because of `remote`;
/// [`Error::AddrNotAvailable`] if the local address is not ours; [`Error::TooMany`].
pub fn open(cpu: &mut Cpu, wanted: &Open) -> Result<Id, Error> {
    let &Open { local, remote, zone, filter, settings } = wanted;
    if is_one_host(cpu, local) && !local.is_unspecified() && !settings.bind_any && !cpu.tables.is_ours(local)
    {
        return Err(Error::AddrNotAvailable);
    }
    if let Some(remote) = remote {
        if remote.is_ipv4() != local.is_ipv4() {
            return Err(Error::BadAddress);
        }
        dgram::outif(cpu, &settings, remote, zone)?;
    }
    let bound = Bound { addr: (local, 0).into(), zone, device: 0, only_v6: true, is_shared: true };
    cpu.raw.get_or_insert_default().add(Socket::new(bound, remote, filter, settings))
}

/// Sends a message to the host that the socket speaks with.
///
/// # Errors
///
/// [`Error::NotConnected`], and as [`send_to`].
pub fn send(cpu: &mut Cpu, id: Id, message: &[u8]) -> Result<(), Error> {
    let socket = socket(cpu, id)?;
    let (remote, zone) = (socket.remote.ok_or(Error::NotConnected)?, socket.bound.zone);
    send_to(cpu, id, To { remote: (remote, 0).into(), local: None, zone }, message)
}

/// Sends a message: its type, its code, two bytes for the checksum, and what follows. Over IPv6 the checksum is computed
/// here, over IPv4 the program has done so. It leaves from the CPU that its answers come to. The port in `to` means nothing.
///
/// # Errors
///
/// [`Error::BadMessage`], [`Error::BadAddress`], [`Error::NetworkUnreachable`], [`Error::AddrNotAvailable`] if the local address is
/// not ours, [`Error::NotPermitted`] towards everybody on a link without leave, [`Error::TooLong`], [`Error::TooBig`] for the
/// link if it must not be cut, [`Error::NoBuffer`], [`Error::NotFound`].
//= https://www.rfc-editor.org/rfc/rfc3542#section-3.1
//# The kernel will calculate and insert the ICMPv6 checksum for ICMPv6
//# raw sockets, since this checksum is mandatory.
pub fn send_to(cpu: &mut Cpu, id: Id, to: impl Into<To>, message: &[u8]) -> Result<(), Error> {
    if message.len() < MESSAGE_MIN {
        return Err(Error::BadMessage);
    }
    let mut to = to.into();
    to.remote.set_port(0);
    let socket = socket(cpu, id)?;
    let (bound, settings) = (socket.bound, socket.base.settings);
    let aim = Aim::of(cpu, &bound, settings, None, Some(to))?;
    let (ends, dont_fragment) = (&aim.ends, settings.dont_fragment);
    aim.launch(cpu, message, 0, Count::IcmpRawOut, |pkt, look| match ends.remote {
        IpAddr::V4(_) => ip_tx::put_ip(pkt, Protocol::ICMP, ends, look, dont_fragment).map(|_| ()),
        IpAddr::V6(_) => {
            let checksum = (Protocol::ICMP6, CHECKSUM_AT);
            ip_tx::put_network(pkt, checksum, ends, look, dont_fragment)
        }
    })
}

/// The message that has waited longest; its bytes, from its type on, are copied into `into`, as many as there is room for.
///
/// # Errors
///
/// [`Error::WouldBlock`] if there is none, [`Error::NotFound`].
pub fn recv(cpu: &mut Cpu, id: Id, into: &mut [u8]) -> Result<Received, Error> {
    socket(cpu, id)?.base.queue.pop(into).ok_or(Error::WouldBlock)
}

/// Returns what a program could do now.
#[must_use]
pub fn ready(cpu: &Cpu, id: Id) -> Ready {
    cpu.raw.as_ref().and_then(|sockets| sockets.get(id)).map(Socket::ready).unwrap_or_default()
}

/// Shows a socket other messages from now on.
///
/// # Errors
///
/// [`Error::NotFound`].
pub fn set_filter(cpu: &mut Cpu, id: Id, filter: Filter) -> Result<(), Error> {
    socket(cpu, id)?.filter = filter;
    Ok(())
}

/// Changes how a socket behaves.
///
/// # Errors
///
/// [`Error::NotFound`].
pub fn change<R>(cpu: &mut Cpu, id: Id, what: impl FnOnce(&mut Settings) -> R) -> Result<R, Error> {
    Ok(what(&mut socket(cpu, id)?.base.settings))
}

/// Listens to a group from now on, or to other senders of it than before, or leaves it. A socket that is on each CPU has
/// to be asked on each; each message to the group comes to one of them.
///
/// # Errors
///
/// [`Error::BadAddress`] for what is no group, needs senders that are named (RFC 4607), or names senders that cannot be;
/// [`Error::AddrNotAvailable`] if there is no such interface, or the socket is not in a group that it leaves;
/// [`Error::TooMany`], [`Error::NotFound`].
pub fn listen(cpu: &mut Cpu, id: Id, wanted: &Listen) -> Result<(), Error> {
    dgram::listen(cpu, id.into(), wanted)
}

/// The groups that a socket listens to.
#[must_use]
pub fn memberships(cpu: &Cpu, id: Id) -> &[Membership] {
    dgram::memberships(cpu, id.into())
}

/// Ends a socket, with unread datagrams; groups without other members are left.
///
/// # Errors
///
/// [`Error::NotFound`].
pub fn close(cpu: &mut Cpu, id: Id) -> Result<(), Error> {
    let socket = cpu.raw.as_mut().and_then(|sockets| sockets.remove(id)).ok_or(Error::NotFound)?;
    dgram::leave_all(cpu, id.into(), &socket.base);
    Ok(())
}

fn socket(cpu: &mut Cpu, id: Id) -> Result<&mut Socket, Error> {
    cpu.raw.as_mut().and_then(|sockets: &mut Box<Sockets>| sockets.get_mut(id)).ok_or(Error::NotFound)
}
