//! Calls of programs, on the CPU that owns their objects. None waits.

use core::net::{IpAddr, SocketAddr};

use super::socket::{Failure, Id, Ready, Socket};
use super::table::Sockets;
use crate::host::dgram::{self, Listen, Received, Settings};
use crate::host::pcb::{self, Bound, FourTuple, Wanted};
use crate::host::sock::Error;
use crate::ip::group::Membership;
use crate::ip::icmp::is_one_host;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// An unconnected socket.
#[derive(Clone, Copy, Debug)]
pub struct Bind {
    /// Our address, a group, or the unspecified one for all; and the port, or 0 for one that is free here.
    pub addr: SocketAddr,
    /// The interface, where the address means something only with its link; else 0.
    pub zone: IfIndex,
    /// With the unspecified IPv6 address: that IPv4 datagrams are not for it.
    pub only_v6: bool,
    /// Others may wait for the same (`SO_REUSEPORT`), and share what comes.
    pub is_shared: bool,
    /// Its settings.
    pub settings: Settings,
}

/// A socket that speaks with one other end.
#[derive(Clone, Copy, Debug)]
pub struct Connect {
    /// Peer.
    pub remote: SocketAddr,
    /// From which of our addresses; the route says, if this does not.
    pub local: Option<IpAddr>,
    /// From which port; without, one whose packets come to this CPU.
    pub port: Option<u16>,
    /// By which interface, where the address means something only with its link; else 0.
    pub zone: IfIndex,
    /// Its settings.
    pub settings: Settings,
}

/// Waits for datagrams on this CPU; the other CPUs have to be asked as well, with the port that [`local`] says.
///
/// # Errors
///
/// [`Error::AddrInUse`], [`Error::AddrNotAvailable`] if the address is not ours or no port was found, [`Error::TooMany`].
pub fn bind(cpu: &mut Cpu, bind: &Bind) -> Result<Id, Error> {
    let &Bind { mut addr, zone, only_v6, is_shared, settings } = bind;
    let ip = addr.ip();
    pcb::check_fib(cpu, settings.tx_params.fib)?;
    if is_one_host(cpu, ip) && !ip.is_unspecified() && !settings.bind_any && !cpu.tables.is_ours(ip) {
        return Err(Error::AddrNotAvailable);
    }
    if addr.port() == 0 {
        let is_taken = |cpu: &Cpu, port| cpu.udp.as_ref().is_some_and(|sockets| sockets.is_port_taken(port));
        addr.set_port(pcb::free_port(cpu, is_taken).ok_or(Error::AddrNotAvailable)?);
    }
    pcb::on_device(cpu, settings.device, zone)?;
    let bound = Bound { addr, zone, device: 0, only_v6, is_shared };
    sockets(cpu).add(Socket::new(bound, None, settings))
}

/// Speaks with one other end, on this CPU.
///
/// # Errors
///
/// [`Error::BadAddress`], [`Error::NetworkUnreachable`], [`Error::AddrNotAvailable`] if the local address is not ours, or no
/// port was found; [`Error::NotPermitted`] towards everybody on a link without leave; [`Error::AddrInUse`],
/// [`Error::Elsewhere`] with a port that was given, [`Error::TooMany`].
pub fn connect(cpu: &mut Cpu, connect: &Connect) -> Result<Id, Error> {
    let ends = ends(cpu, connect)?;
    let bound = Bound { addr: ends.local(), zone: connect.zone, device: 0, only_v6: false, is_shared: false };
    sockets(cpu).add(Socket::new(bound, Some(ends), connect.settings))
}

fn ends(cpu: &mut Cpu, connect: &Connect) -> Result<FourTuple, Error> {
    let &Connect { remote, local, port, zone, settings } = connect;
    if remote.port() == 0 {
        return Err(Error::BadAddress);
    }
    let (fib, device) = (settings.tx_params.fib, settings.device);
    let zone = dgram::outif(cpu, &settings, remote.ip(), pcb::on_device(cpu, device, zone)?)?;
    let is_taken =
        |cpu: &Cpu, ends: &FourTuple| cpu.udp.as_ref().is_some_and(|sockets| sockets.is_taken(ends));
    let bind_any = settings.bind_any && local.is_none_or(|local| is_one_host(cpu, local));
    pcb::local_end(cpu, Wanted { remote, local, port, zone, device, fib, bind_any }, is_taken)
}

/// Returns the local address of a socket.
#[must_use]
pub fn local(cpu: &Cpu, id: Id) -> Option<SocketAddr> {
    cpu.udp.as_ref()?.get(id).map(|socket| socket.bound.addr)
}

/// The datagram that has waited longest; its bytes are copied into `into`, as many as there is room for.
///
/// # Errors
///
/// [`Error::WouldBlock`] if there is none, [`Error::NotFound`]; of a connected socket what became of an earlier one that
/// was sent.
pub fn recv(cpu: &mut Cpu, id: Id, into: &mut [u8]) -> Result<Received, Error> {
    let socket = socket(cpu, id)?;
    socket.check()?;
    socket.base.queue.pop(into).ok_or(Error::WouldBlock)
}

/// Shows the datagram that has waited longest to `what`, in two pieces where it stands, which says whether it is read with
/// that: if not, it goes on waiting.
///
/// # Errors
///
/// As [`recv`].
pub fn read_in_place<R>(
    cpu: &mut Cpu,
    id: Id,
    what: impl FnOnce(&Received, [&[u8]; 2]) -> (bool, R),
) -> Result<R, Error> {
    let socket = socket(cpu, id)?;
    socket.check()?;
    socket.base.queue.show(what).ok_or(Error::WouldBlock)
}

/// Returns the error of an earlier datagram that was not reported yet: for sockets with many destinations.
#[must_use]
pub fn failure(cpu: &mut Cpu, id: Id) -> Option<Failure> {
    failure_with_quote(cpu, id, &mut Vec::new())
}

/// [`failure`], and adds what an ICMP error quotes of the datagram to `quote`; of a socket that does not want all errors nothing is kept.
#[must_use]
pub fn failure_with_quote(cpu: &mut Cpu, id: Id, quote: &mut Vec<u8>) -> Option<Failure> {
    socket(cpu, id).ok()?.failure(quote)
}

/// Returns what a program could do now.
#[must_use]
pub fn ready(cpu: &Cpu, id: Id) -> Ready {
    cpu.udp.as_ref().and_then(|sockets| sockets.get(id)).map(Socket::ready).unwrap_or_default()
}

/// Changes how a socket behaves.
///
/// # Errors
///
/// [`Error::NotFound`].
pub fn change<R>(cpu: &mut Cpu, id: Id, what: impl FnOnce(&mut Settings) -> R) -> Result<R, Error> {
    let sockets = cpu.udp.as_mut().ok_or(Error::NotFound)?;
    let settings = &mut sockets.get_mut(id).ok_or(Error::NotFound)?.base.settings;
    let done = what(settings);
    sockets.has_devices |= settings.device != 0;
    Ok(done)
}

/// Listens to a group from now on, or to other senders of it than before, or leaves it. A socket that is on each CPU has
/// to be asked on each, as with [`bind`]; a datagram to the group comes to one of them.
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
    let sockets = cpu.udp.as_mut().ok_or(Error::NotFound)?;
    let socket = sockets.remove(id).ok_or(Error::NotFound)?;
    dgram::leave_all(cpu, id.into(), &socket.base);
    Ok(())
}

/// The socket of this name.
pub(super) fn socket(cpu: &mut Cpu, id: Id) -> Result<&mut Socket, Error> {
    cpu.udp.as_mut().and_then(|sockets| sockets.get_mut(id)).ok_or(Error::NotFound)
}

/// Returns the sockets of this CPU, made at the first use.
fn sockets(cpu: &mut Cpu) -> &mut Sockets {
    let Cpu { udp, secret, .. } = cpu;
    udp.get_or_insert_with(|| Box::new(Sockets::new(secret)))
}
