//! Calls of programs, on the CPU that owns their objects. None waits: a call that cannot be served now fails,
//! and [`ready`] tells when to try again. Data to be sent goes out at the end of the turn.

use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use wire::tcp::Header;

use super::build::{self, IpTxParams};
use super::cookie;
use super::input::pcbs;
use super::listen::{Listen, Listener, ListenerId, is_address};
use super::pcbs::{Found, Id, Owner};
use super::settings::{Along, Settings};
use super::tcb::rings::Rings;
use super::tcb::{Ended, NewTcb, Out, Stamps, State, Tcb};
use super::watch;
use crate::base::count::Count;
use crate::fib::FibIndex;
use crate::host::pcb::{self, FourTuple, Wanted};
use crate::host::sock::Error;
use crate::ip::output::{self, Route};
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// A connection to be begun.
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
    /// IP header fields of its packets.
    pub tx_params: IpTxParams,
}

impl Connect {
    /// To this address and port, from where the route says, with all else as usual.
    #[must_use]
    pub fn to(remote: SocketAddr) -> Self {
        let (settings, tx_params) = (Settings::default(), IpTxParams::default());
        Self { remote, local: None, port: None, zone: 0, settings, tx_params }
    }
}

/// A connection that a listener has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its name on this CPU.
    pub id: Id,
    /// Its four-tuple.
    pub ends: FourTuple,
}

/// Payload of a super-packet at the most: with its headers it still has a length that IP can say.
const SUPER_BYTES: u32 = 65_000;

/// The readiness of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// There are bytes to read, or the end, or an error.
    pub readable: bool,
    /// There is room for bytes to send, or an error.
    pub writable: bool,
    /// The other end wants that something is read soon.
    pub urgent: bool,
    /// Nothing goes any more.
    pub ended: bool,
}

/// Takes a place on this CPU, to wait or to connect from there later; the other CPUs have to be asked as well, with the
/// port that [`local`] says if none was named. Until [`open`], what comes is refused, by segments that look as `listen`
/// says; how connections will behave is not known yet. [`unlisten`] gives the place up.
///
/// # Errors
///
/// [`Error::AddrInUse`], [`Error::AddrNotAvailable`], [`Error::BadAddress`], [`Error::TooMany`].
pub fn bind(cpu: &mut Cpu, listen: &Listen) -> Result<ListenerId, Error> {
    let mut listen = *listen;
    let addr = listen.addr.ip();
    pcb::check_fib(cpu, listen.tx_params.fib)?;
    if !is_address(addr) {
        return Err(Error::BadAddress);
    }
    if !addr.is_unspecified() && !listen.settings.bind_any && !cpu.tables.is_ours(addr) {
        return Err(Error::AddrNotAvailable);
    }
    if listen.addr.port() == 0 {
        let is_taken =
            |cpu: &Cpu, port| cpu.tcp.as_ref().is_some_and(|pcbs| pcbs.listeners.is_port_taken(port));
        listen.addr.set_port(pcb::free_port(cpu, is_taken).ok_or(Error::AddrNotAvailable)?);
    }
    let device = listen.settings.device;
    pcb::on_device(cpu, device, listen.zone)?;
    let pcbs = pcbs(cpu);
    pcbs.has_devices |= device != 0;
    pcbs.listeners.add(listen)
}

/// Waits for connections at the place that it has, which behave as is said now; the place stays what it is.
///
/// # Errors
///
/// [`Error::NotFound`].
pub fn open(cpu: &mut Cpu, id: ListenerId, backlog: usize, settings: Settings) -> Result<(), Error> {
    let listener = cpu.tcp.as_mut().and_then(|pcbs| pcbs.listeners.get_mut(id)).ok_or(Error::NotFound)?;
    listener.open(backlog, settings);
    Ok(())
}

/// Waits for connections on this CPU, at once: [`bind`] and [`open`].
///
/// # Errors
///
/// As [`bind`].
pub fn listen(cpu: &mut Cpu, listen: &Listen) -> Result<ListenerId, Error> {
    let id = bind(cpu, listen)?;
    open(cpu, id, listen.backlog, listen.settings)?;
    Ok(id)
}

/// Where a place is.
#[must_use]
pub fn local(cpu: &Cpu, id: ListenerId) -> Option<SocketAddr> {
    cpu.tcp.as_ref()?.listeners.get(id).map(|listener| listener.listen.addr)
}

/// Changes how what is sent from a place looks, and the packets of connections that begin there later.
///
/// # Errors
///
/// [`Error::NotFound`].
pub fn set_listener_tx_params(cpu: &mut Cpu, id: ListenerId, tx_params: IpTxParams) -> Result<(), Error> {
    let listener = cpu.tcp.as_mut().and_then(|pcbs| pcbs.listeners.get_mut(id)).ok_or(Error::NotFound)?;
    listener.listen.tx_params = tx_params;
    Ok(())
}

/// Returns how connections of a listener will behave; `None` if there is none.
#[must_use]
pub fn listener_settings(cpu: &Cpu, id: ListenerId) -> Option<Settings> {
    Some(cpu.tcp.as_ref()?.listeners.get(id)?.listen.settings)
}

/// Changes how connections behave that a listener accepts from now on, and how their packets look.
///
/// # Errors
///
/// [`Error::NotFound`].
pub fn change_listener(
    cpu: &mut Cpu,
    id: ListenerId,
    what: impl FnOnce(&mut Settings, &mut IpTxParams),
) -> Result<(), Error> {
    let pcbs = cpu.tcp.as_mut().ok_or(Error::NotFound)?;
    let listener = pcbs.listeners.get_mut(id).ok_or(Error::NotFound)?;
    listener.change(what);
    pcbs.has_devices |= listener.listen.settings.device != 0;
    Ok(())
}

/// Closes a listener, and gives the port up. Connections not accepted go to others of the group, or are reset.
pub fn unlisten(cpu: &mut Cpu, id: ListenerId) {
    let left = cpu.tcp.as_mut().map(|pcbs| pcbs.unlisten(id));
    for conn in left.into_iter().flatten() {
        let _ = abort(cpu, conn);
    }
}

/// The connection that has waited longest.
///
/// # Errors
///
/// [`Error::WouldBlock`], [`Error::NotFound`].
pub fn accept(cpu: &mut Cpu, listener: ListenerId) -> Result<Accepted, Error> {
    let pcbs = cpu.tcp.as_mut().ok_or(Error::NotFound)?;
    let id = pcbs.listeners.get_mut(listener).ok_or(Error::NotFound)?.waiting.pop_front();
    let conn = id.and_then(|id| pcbs.get_mut(id)).ok_or(Error::WouldBlock)?;
    conn.owner = Owner::Program;
    Ok(Accepted { id: conn.id, ends: conn.ends })
}

/// Returns the length of the accept queue, but never more than [`Settings::reported_max`]: a program that has accepted so many is
/// told of the rest at its next request.
///
/// # Errors
///
/// [`Error::NotFound`].
pub fn waiting(cpu: &Cpu, listener: ListenerId) -> Result<usize, Error> {
    let listener = cpu.tcp.as_ref().and_then(|pcbs| pcbs.listeners.get(listener));
    listener.map(Listener::reported).ok_or(Error::NotFound)
}

/// Begins a connection.
///
/// # Errors
///
/// [`Error::BadAddress`], [`Error::NetworkUnreachable`], [`Error::AddrNotAvailable`] if the local address is not ours, or no
/// port was found; [`Error::AddrInUse`], [`Error::Elsewhere`] with a port that was given, [`Error::TooMany`].
pub fn connect(cpu: &mut Cpu, connect: &Connect) -> Result<Id, Error> {
    let ends = ends(cpu, connect)?;
    let now = cpu.now;
    let settings = along(cpu, connect.tx_params.fib, &ends, &connect.settings);
    let (iss, clock) = cookie::beginnings(&cpu.secret, &ends, now);
    let ports = (ends.local_port, ends.remote_port);
    let is_fast = settings.fast_open && !settings.signs;
    let pcbs = pcbs(cpu);
    pcbs.has_devices |= settings.device != 0;
    let new = NewTcb { settings, ports, iss, stamps: Stamps::from(clock), now };
    let mut conn = pcbs.begin((ends, connect.tx_params), new);
    conn.tcb.connects();
    if let Some((cookie, most)) = pcbs.paths.cookie(ends.remote, now).filter(|_| is_fast) {
        conn.tcb.open_fast(cookie, most);
    }
    let id = pcbs.add(conn, Owner::Program).ok_or(Error::TooMany)?;
    cpu.count(Count::TcpConnects);
    Ok(id)
}

fn ends(cpu: &mut Cpu, connect: &Connect) -> Result<FourTuple, Error> {
    let &Connect { remote, local, port, zone, tx_params: IpTxParams { fib, .. }, .. } = connect;
    let addr = remote.ip();
    if remote.port() == 0 || addr.is_unspecified() || !is_address(addr) {
        return Err(Error::BadAddress);
    }
    if local.is_some_and(|local| !is_address(local) && !local.is_unspecified()) {
        return Err(Error::AddrNotAvailable);
    }
    let Settings { bind_any, device, .. } = connect.settings;
    let wanted = Wanted { remote, local, port, zone, device, fib, bind_any };
    let ends = pcb::local_end(cpu, wanted, |cpu, ends| {
        cpu.tcp.as_ref().is_some_and(|pcbs| pcbs.is_taken(ends)) || is_on_another_device(cpu, ends)
    })?;
    let is_there = port.is_some() && (pcbs(cpu).find(&ends).is_some() || is_on_another_device(cpu, &ends));
    if is_there { Err(Error::AddrInUse) } else { Ok(ends) }
}

/// Whether there is a connection between `ends` that is bound to another interface, or to none.
fn is_on_another_device(cpu: &Cpu, ends: &FourTuple) -> bool {
    let Some(pcbs) = cpu.tcp.as_ref().filter(|pcbs| pcbs.has_devices) else { return false };
    let zones = cpu.tables.ifnets().map(|ifnet| ifnet.index).chain([0]);
    zones.filter(|zone| *zone != ends.zone).any(|zone| pcbs.find(&FourTuple { zone, ..*ends }).is_some())
}

/// Returns the settings that follow from the route between `ends`: maximum segment size, initial window, and how
/// long segments live.
pub(super) fn along(cpu: &mut Cpu, fib: FibIndex, ends: &FourTuple, settings: &Settings) -> Arc<Settings> {
    match way(cpu, fib, ends) {
        Some(along) => pcbs(cpu).shared.share(settings, along),
        None => Arc::new(*settings),
    }
}

/// Returns those of a connection that a listener accepts.
pub(super) fn along_of(
    cpu: &mut Cpu,
    fib: FibIndex,
    ends: &FourTuple,
    id: ListenerId,
) -> Option<Arc<Settings>> {
    let along = way(cpu, fib, ends);
    let pcbs = cpu.tcp.as_mut()?;
    let listener = pcbs.listeners.get_mut(id)?;
    Some(match along {
        Some(along) => listener.suited(along, &mut pcbs.shared),
        None => Arc::new(listener.listen.settings),
    })
}

fn way(cpu: &Cpu, fib: FibIndex, ends: &FourTuple) -> Option<Along> {
    let way = output::path(cpu, fib, ends.remote, ends.zone, || 0);
    let Ok(Route::Link { ifindex, metrics, .. }) = way else { return None };
    let ifnet = cpu.tables.ifnet(ifindex)?;
    // What each path carries: RFC 9293 §3.7.1 and RFC 8200 §5.
    let (headers, safe_mss) = if ends.local.is_ipv4() { (40, 536) } else { (60, 1220) };
    let longest = |mtu: u32| u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX);
    Some(Along {
        link_mss: longest(ifnet.mtu),
        path_mss: longest(metrics.mtu_over(ifnet.mtu)),
        found_mss: cpu.tcp.as_ref().and_then(|pcbs| pcbs.paths.mss(ends.remote, cpu.now)),
        safe_mss,
        super_bytes: if ifnet.caps.tso && ifnet.caps.tx_csum { SUPER_BYTES } else { 0 },
        initial_segments: metrics.initial_window.into(),
        msl_ms: metrics.msl_ms,
    })
}

/// A connection, to look at.
#[must_use]
pub fn connection(cpu: &Cpu, id: Id) -> Option<(&FourTuple, &Tcb)> {
    cpu.tcp.as_ref()?.get(id).map(|conn| (&conn.ends, &conn.tcb))
}

/// Returns the half-open connections of this CPU.
pub fn half_open(cpu: &Cpu) -> impl Iterator<Item = &FourTuple> {
    cpu.tcp.as_ref().into_iter().flat_map(|pcbs| pcbs.halves())
}

/// Changes TTL, traffic class and the like of a connection's packets: of those that are made from now on, retransmissions
/// included. Packets in an output queue stay as they are.
///
/// # Errors
///
/// [`Error::NotFound`].
pub fn set_tx_params(cpu: &mut Cpu, id: Id, change: impl FnOnce(&mut IpTxParams)) -> Result<(), Error> {
    let conn = cpu.tcp.as_mut().and_then(|pcbs| pcbs.get_mut(id)).ok_or(Error::NotFound)?;
    change(&mut conn.tx_params);
    Ok(())
}

/// Does something to a connection; what it has to send then goes out at the end of the turn.
///
/// # Errors
///
/// [`Error::NotFound`].
pub fn change<R>(cpu: &mut Cpu, id: Id, what: impl FnOnce(&mut Tcb) -> R) -> Result<R, Error> {
    change_with(cpu, id, |tcb, _| what(tcb))
}

/// Changes with access to recycled buffers.
fn change_with<R>(cpu: &mut Cpu, id: Id, what: impl FnOnce(&mut Tcb, &mut Rings) -> R) -> Result<R, Error> {
    let pcbs = cpu.tcp.as_mut().ok_or(Error::NotFound)?;
    let mut conn = pcbs.take(id).ok_or(Error::NotFound)?;
    let done = what(&mut conn.tcb, &mut pcbs.rings);
    pcbs.put(conn);
    Ok(done)
}

/// Returns what a program could do now.
#[must_use]
pub fn ready(cpu: &Cpu, id: Id) -> Ready {
    let Some((_, tcb)) = connection(cpu, id) else {
        return Ready { readable: true, writable: true, urgent: false, ended: true };
    };
    let ended = tcb.state() == State::Closed;
    Ready {
        readable: ended || tcb.readable() > 0 || tcb.is_read_to_end(),
        writable: ended || tcb.writable() > 0 && tcb.state() >= State::Established || tcb.is_shut(),
        urgent: tcb.urgent().is_some(),
        ended,
    }
}

/// Takes as many of `bytes` as there is room for, and answers how many.
///
/// # Errors
///
/// [`Error::WouldBlock`] if there is no room; [`Error::Closed`] if the program sends no more; why the connection ended;
/// [`Error::NotFound`].
#[inline]
pub fn send(cpu: &mut Cpu, id: Id, bytes: &[u8]) -> Result<usize, Error> {
    send_by(cpu, id, bytes, Tcb::send)
}

/// Takes as many of `bytes` as there is room for, and answers how many. They are not copied if nothing else of the connection waits
/// to be acknowledged: a page that many connections send lies in memory once. CPUs had better not share them.
///
/// # Errors
///
/// As [`send`].
#[inline]
pub fn send_shared(cpu: &mut Cpu, id: Id, bytes: &Arc<[u8]>) -> Result<usize, Error> {
    send_with(cpu, id, bytes.len(), |tcb, rings| tcb.send_shared(bytes, rings))
}

/// Sends urgent data. New programs should not (RFC 6093 §5).
///
/// # Errors
///
/// As [`send`].
pub fn send_urgent(cpu: &mut Cpu, id: Id, bytes: &[u8]) -> Result<usize, Error> {
    send_by(cpu, id, bytes, Tcb::send_urgent)
}

fn send_by(cpu: &mut Cpu, id: Id, bytes: &[u8], send: fn(&mut Tcb, &[u8]) -> usize) -> Result<usize, Error> {
    send_with(cpu, id, bytes.len(), |tcb, rings| {
        tcb.borrow_to_send(bytes.len(), rings);
        send(tcb, bytes)
    })
}

#[inline]
fn send_with(
    cpu: &mut Cpu,
    id: Id,
    len: usize,
    send: impl FnOnce(&mut Tcb, &mut Rings) -> usize,
) -> Result<usize, Error> {
    let sent = change_with(cpu, id, |tcb, rings| {
        ended(tcb)?;
        if tcb.is_shut() {
            return Err(Error::Closed);
        }
        match send(tcb, rings) {
            0 if len > 0 => Err(Error::WouldBlock),
            taken => Ok(taken),
        }
    })?;
    if sent != Ok(len) {
        watch::want_room(cpu, id);
    }
    sent
}

/// The last urgent byte, for a program that wants it by itself (`MSG_OOB`).
///
/// # Errors
///
/// [`Error::WouldBlock`] if it has not come, [`Error::NothingUrgent`], [`Error::NotFound`].
pub fn read_urgent(cpu: &mut Cpu, id: Id) -> Result<u8, Error> {
    change(cpu, id, |tcb| match tcb.read_urgent() {
        Some(byte) => Ok(byte),
        None if tcb.awaits_urgent() => Err(Error::WouldBlock),
        None => Err(Error::NothingUrgent),
    })?
}

/// Copies what has come into `into`, and answers how much; 0 is the end.
///
/// # Errors
///
/// [`Error::WouldBlock`] if nothing has come, why the connection ended, [`Error::NotFound`].
pub fn read(cpu: &mut Cpu, id: Id, into: &mut [u8]) -> Result<usize, Error> {
    change(cpu, id, |tcb| match tcb.read(into) {
        0 => nothing(tcb, into),
        count => Ok(count),
    })?
}

/// Shows what has come to `what`, in two pieces where it stands, which says how much of it is done with.
///
/// # Errors
///
/// As [`read`].
pub fn read_in_place<R>(
    cpu: &mut Cpu,
    id: Id,
    what: impl FnOnce([&[u8]; 2]) -> (usize, R),
) -> Result<Option<R>, Error> {
    change(cpu, id, |tcb| {
        if tcb.readable() == 0 {
            return nothing(tcb, &[0]).map(|_| None);
        }
        Ok(Some(tcb.read_in_place(what)))
    })?
}

/// Reads without consuming.
///
/// # Errors
///
/// As [`read`].
pub fn peek(cpu: &Cpu, id: Id, into: &mut [u8]) -> Result<usize, Error> {
    let (_, tcb) = connection(cpu, id).ok_or(Error::NotFound)?;
    match tcb.peek(into) {
        0 => nothing(tcb, into),
        count => Ok(count),
    }
}

/// Why there is nothing to read.
#[inline]
fn nothing(tcb: &Tcb, into: &[u8]) -> Result<usize, Error> {
    if into.is_empty() || tcb.is_read_to_end() {
        return Ok(0);
    }
    ended(tcb)?;
    Err(Error::WouldBlock)
}

/// The error of a connection that has ended before its time, or that nothing goes through any more.
fn ended(tcb: &Tcb) -> Result<(), Error> {
    match why_ended(tcb) {
        Some(error) => Err(error),
        None if tcb.state() == State::Closed => Err(Error::Closed),
        None => Ok(()),
    }
}

/// Why a connection has ended before its time.
pub(super) fn why_ended(tcb: &Tcb) -> Option<Error> {
    Some(match tcb.ended()? {
        Ended::Refused => Error::Refused,
        Ended::Reset => Error::Reset,
        Ended::TimedOut => Error::TimedOut,
        Ended::Unreachable => Error::HostUnreachable,
        Ended::Aborted => Error::Aborted,
    })
}

/// The program sends no more.
///
/// # Errors
///
/// [`Error::NotFound`].
pub fn shutdown(cpu: &mut Cpu, id: Id) -> Result<(), Error> {
    change(cpu, id, Tcb::close)
}

/// The program wants to know no more: what it has sent still arrives, and the connection ends in order; but if there is
/// something that it has not read, or more comes, the other end is told by a reset.
///
/// # Errors
///
/// [`Error::NotFound`].
pub fn close(cpu: &mut Cpu, id: Id) -> Result<(), Error> {
    let now = cpu.now;
    let pcbs = cpu.tcp.as_mut().ok_or(Error::NotFound)?;
    let mut conn = pcbs.take(id).ok_or(Error::NotFound)?;
    (conn.owner, conn.watch) = (Owner::Nobody, None);
    conn.tcb.release(now);
    pcbs.put(conn);
    Ok(())
}

/// Forgets which servers data may be brought to with a SYN.
pub fn forget_paths(cpu: &mut Cpu) {
    if let Some(pcbs) = &mut cpu.tcp {
        pcbs.paths.clear();
    }
}

/// The connection ends here and now, and the other end is told.
///
/// # Errors
///
/// [`Error::NotFound`].
pub fn abort(cpu: &mut Cpu, id: Id) -> Result<(), Error> {
    let pcbs = cpu.tcp.as_mut().ok_or(Error::NotFound)?;
    let mut conn = pcbs.take(id).ok_or(Error::NotFound)?;
    let (ends, tx_params, reset) = (conn.ends, conn.tx_params, conn.tcb.abort(cpu.now));
    pcbs.remove(conn);
    tell(cpu, &ends, tx_params, reset);
    Ok(())
}

/// Ends whatever there is between `ends` here and now; false if there is nothing. The other end is told, and a program that
/// holds the connection finds that it was aborted.
pub fn drop_connection(cpu: &mut Cpu, ends: &FourTuple) -> bool {
    let Some(pcbs) = cpu.tcp.as_mut() else { return false };
    match pcbs.find(ends) {
        None => return false,
        // When the other end goes on, it is told that there is nothing.
        Some(Found::Half(at)) => pcbs.remove_half(at),
        Some(Found::Wait(at)) => pcbs.remove_wait(at),
        Some(Found::Conn(at)) => {
            let Some(mut conn) = pcbs.take_at(at) else { return false };
            let (tx_params, reset) = (conn.tx_params, conn.tcb.abort(cpu.now));
            pcbs.put(conn);
            tell(cpu, ends, tx_params, reset);
        }
    }
    true
}

fn tell(cpu: &mut Cpu, ends: &FourTuple, tx_params: IpTxParams, reset: Option<Header>) {
    if let Some(header) = reset {
        let out = Out { header, payload: [&[], &[]], cut: 0, may_be_marked: false };
        build::send(cpu, ends, tx_params, None, &out);
    }
}
