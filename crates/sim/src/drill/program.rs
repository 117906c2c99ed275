//! The program on the host: its descriptors and sockets, as FreeBSD's programs have them.
//!
//! The stack's own calls never wait and belong to one CPU. Here are sockets that know where theirs is, and calls that
//! may have to wait: they are asked again until they need not.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use drill::limit::TCP_OPTIONS_MAX as OPTIONS_MAX;
use net::cpu::Cpu;
use net::pcb::FourTuple;
use net::sock::Error;
use net::tcp::settings::{Change, Settings};
use net::tcp::tcb::{Ended, Info, State, Tcb, Times};
use net::tcp::{self, Accepted, Connect, Id, IpTxParams, Listen, ListenerId, Ready};

use super::errno::Errno;
use super::lab::Lab;
use super::sysctl::{FASTOPEN_CLIENT, Sysctls};

/// A program.
#[derive(Default)]
pub(super) struct Program {
    /// Variables of the system that it runs on.
    pub(super) sysctls: Sysctls,
    /// Its sockets, by the descriptors that the script knows.
    pub(super) sockets: BTreeMap<i64, Socket>,
    /// Sockets whose descriptors were reused.
    pub(super) forgotten: Vec<Socket>,
}

/// A socket.
#[derive(Clone, Debug, Default)]
pub(super) struct Socket {
    /// Calls that would have to wait fail.
    pub(super) is_nonblocking: bool,
    /// Where it was bound to.
    pub(super) bound: Option<SocketAddr>,
    /// The program's changes, in that order.
    pub(super) changes: Vec<Change>,
    /// Options that were set, to be read back.
    pub(super) options: BTreeMap<&'static str, i64>,
    /// IP header fields of its packets.
    pub(super) tx_params: IpTxParams,
    /// Linger time of `close`; without one it resets at once.
    pub(super) linger: Option<Duration>,
    /// Its stage.
    pub(super) stage: Stage,
    /// The program has been told why the connection ended.
    is_told: bool,
    /// It was accepted, perhaps before it stands (RFC 7413).
    is_accepted: bool,
    /// It reads no more.
    is_deaf: bool,
    /// Connections that may be opened fast before they are accepted, and how many may wait at all.
    pub(super) fast_open_max: usize,
    backlog: usize,
    /// It has said that more comes, so that what is short waits.
    says_more: bool,
    /// Destination of the first bytes that it sends (Linux' `TCP_FASTOPEN_CONNECT`).
    pub(super) deferred: Option<SocketAddr>,
}

/// The stage of a socket.
#[derive(Clone, Debug, Default)]
pub(super) enum Stage {
    /// Nothing yet.
    #[default]
    Fresh,
    /// It has a place on each CPU.
    Bound(Vec<ListenerId>),
    /// It waits for connections on each CPU.
    Listening(Vec<ListenerId>),
    /// It has a connection, which is on this CPU.
    Open(usize, Id),
}

/// Flags of a call that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sending {
    /// It may wait for room.
    pub(super) waits: bool,
    /// The last byte is urgent.
    pub(super) is_urgent: bool,
    /// More comes soon: what is short waits.
    pub(super) says_more: bool,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It is done.
    Done(Result<T, Errno>),
    /// It has to wait.
    Waits,
}

/// Data or options for a new connection.
#[derive(Clone, Debug)]
pub(super) enum Early {
    /// As much as its buffer takes.
    All(Vec<u8>),
    /// As much as goes with its SYN.
    WithSyn(Vec<u8>),
}

impl<T> Outcome<T> {
    pub(super) const fn fails(name: &'static str) -> Self {
        Self::Done(Err(Errno(name)))
    }
}

impl Socket {
    /// One that is nothing yet.
    pub(super) fn new(is_nonblocking: bool) -> Self {
        Self { is_nonblocking, ..Self::default() }
    }

    /// Returns the settings of its connections.
    pub(super) fn settings(&self, sysctls: &Sysctls) -> Settings {
        let mut settings = sysctls.settings();
        self.changes.iter().for_each(|change| settings.take(*change));
        settings.fast_open_max = self.fast_open_max;
        settings.fast_open &= sysctls.get(FASTOPEN_CLIENT) != 0;
        settings
    }

    /// Looks at its connection, if it has one.
    pub(super) fn look_at<R: Send + 'static>(
        &self,
        lab: &mut Lab,
        what: impl FnOnce(&FourTuple, &Tcb) -> R + Send + 'static,
    ) -> Option<R> {
        let Stage::Open(cpu, id) = self.stage else { return None };
        lab.call(cpu, move |netisr| tcp::connection(&netisr.cpu, id).map(|(ends, tcb)| what(ends, tcb)))?
    }

    /// Returns information on its connection, and the times it spent in each activity.
    pub(super) fn describe(&self, lab: &mut Lab) -> Option<(Info, Times)> {
        let Stage::Open(cpu, id) = self.stage else { return None };
        lab.call(cpu, move |netisr| {
            let now = netisr.cpu.now;
            tcp::connection(&netisr.cpu, id).map(|(_, tcb)| (tcb.info(), tcb.times(now)))
        })?
    }

    /// Why its connection ended, if the program has not been told.
    pub(super) fn take_error(&mut self, lab: &mut Lab) -> Option<Errno> {
        let Stage::Open(cpu, id) = self.stage else { return None };
        let asked =
            lab.call(cpu, move |netisr| tcp::connection(&netisr.cpu, id).and_then(|(_, tcb)| tcb.ended()));
        let error = asked.flatten().map(|ended| match ended {
            Ended::Refused => Errno("ECONNREFUSED"),
            Ended::Reset => Errno("ECONNRESET"),
            Ended::TimedOut => Errno("ETIMEDOUT"),
            Ended::Unreachable => Errno("EHOSTUNREACH"),
            Ended::Aborted => Errno("ECONNABORTED"),
        });
        error.filter(|_| !core::mem::replace(&mut self.is_told, true))
    }

    /// The state of its connection.
    pub(super) fn state(&self, lab: &mut Lab) -> Option<State> {
        self.look_at(lab, |_, tcb| tcb.state())
    }

    /// Takes a place on each CPU.
    pub(super) fn bind(&mut self, lab: &mut Lab, addr: SocketAddr) -> Result<i64, Errno> {
        let Stage::Fresh = self.stage else { return Err(Errno("EINVAL")) };
        let is_shared = ["SO_REUSEPORT", "SO_REUSEPORT_LB"].iter().any(|name| self.option(name) != 0);
        let only_v6 = self.option("IPV6_V6ONLY") != 0;
        let (settings, tx_params) = (Settings::default(), self.tx_params);
        let mut place = Listen { addr, zone: 0, only_v6, backlog: 0, is_shared, settings, tx_params };
        let mut ids = Vec::new();
        for cpu in 0..lab.cpus() {
            let bound: Option<Result<_, Error>> = lab.call(cpu, move |netisr| {
                let id = tcp::bind(&mut netisr.cpu, &place)?;
                Ok((id, tcp::local(&netisr.cpu, id).unwrap_or(place.addr)))
            });
            match bound {
                Some(Ok((id, addr))) => {
                    // The first has drawn the port, if none was named.
                    place.addr = addr;
                    ids.push(id);
                }
                Some(Err(error)) => {
                    unlisten(lab, ids);
                    return Err(error.into());
                }
                None => return Err(Errno("ENOBUFS")),
            }
        }
        self.bound = Some(place.addr);
        self.stage = Stage::Bound(ids);
        Ok(0)
    }

    /// Waits for connections; at this address, if it was bound to none.
    pub(super) fn listen(
        &mut self,
        lab: &mut Lab,
        sysctls: &Sysctls,
        addr: SocketAddr,
        backlog: usize,
    ) -> Result<i64, Errno> {
        if let Stage::Fresh = self.stage {
            self.bind(lab, addr)?;
        }
        let Stage::Bound(ids) = &self.stage else { return Err(Errno("EINVAL")) };
        let ids = ids.clone();
        self.backlog = backlog;
        open(lab, &ids, backlog, self.settings(sysctls))?;
        self.stage = Stage::Listening(ids);
        Ok(0)
    }

    /// Connections that it accepts from now on behave as it has been changed.
    pub(super) fn listen_anew(&self, lab: &mut Lab, sysctls: &Sysctls) {
        if let Stage::Listening(ids) = &self.stage {
            // It listens, so it can be opened anew.
            _ = open(lab, ids, self.backlog, self.settings(sysctls));
        }
    }

    fn option(&self, name: &str) -> i64 {
        self.options.get(name).copied().unwrap_or(0)
    }

    /// The connection that has waited longest on the first CPU that has one.
    pub(super) fn accept(&self, lab: &mut Lab) -> Outcome<(Self, SocketAddr)> {
        let Stage::Listening(ids) = &self.stage else { return Outcome::fails("EINVAL") };
        for (cpu, id) in ids.iter().copied().enumerate() {
            let accepted = lab.call(cpu, move |netisr| tcp::accept(&mut netisr.cpu, id));
            if let Some(Ok(Accepted { id, ends })) = accepted {
                let stage = Stage::Open(cpu, id);
                let socket = Self { stage, bound: Some(ends.local()), is_accepted: true, ..self.clone() };
                return Outcome::Done(Ok((socket, ends.remote())));
            }
        }
        self.wait()
    }

    /// Whether it has begun a connection that does not stand yet.
    pub(super) fn is_beginning(&self, lab: &mut Lab) -> bool {
        let begins = |state| (State::SynSent..State::Established).contains(&state) && !self.is_accepted;
        self.state(lab).is_some_and(begins)
    }

    /// Returns the outcome of a call that has to wait.
    pub(super) fn wait<T>(&self) -> Outcome<T> {
        if self.is_nonblocking { Outcome::fails("EWOULDBLOCK") } else { Outcome::Waits }
    }

    /// Connects, or says how far it has come.
    pub(super) fn connect(&mut self, lab: &mut Lab, sysctls: &Sysctls, remote: SocketAddr) -> Outcome<i64> {
        let is_new = matches!(self.stage, Stage::Fresh | Stage::Bound(_));
        if is_new && self.deferred.is_some() {
            return Outcome::fails("EISCONN");
        }
        if is_new && self.option("TCP_FASTOPEN_CONNECT") != 0 {
            self.changes.push(Change::FastOpen(true));
            if self.has_cookie(lab, sysctls, remote) {
                self.deferred = Some(remote);
                return Outcome::Done(Ok(0));
            }
        }
        match self.stage {
            Stage::Listening(_) => return Outcome::fails("EOPNOTSUPP"),
            Stage::Open(..) => {}
            Stage::Fresh | Stage::Bound(_) => {
                if let Err(errno) = self.begin(lab, sysctls, remote, Early::All(Vec::new())) {
                    return Outcome::Done(Err(errno));
                }
            }
        }
        match self.state(lab) {
            Some(state) if state >= State::Established => {
                Outcome::Done(if is_new || !self.is_nonblocking { Ok(0) } else { Err(Errno("EISCONN")) })
            }
            None | Some(State::Closed) => {
                Outcome::Done(Err(self.take_error(lab).unwrap_or(Errno("ECONNABORTED"))))
            }
            _ if !self.is_nonblocking => Outcome::Waits,
            _ => Outcome::fails(if is_new { "EINPROGRESS" } else { "EALREADY" }),
        }
    }

    /// Begins a connection, with bytes that are sent as soon as may be; answers how many there was room for.
    pub(super) fn begin(
        &mut self,
        lab: &mut Lab,
        sysctls: &Sysctls,
        remote: SocketAddr,
        bytes: Early,
    ) -> Result<usize, Errno> {
        let (cpu, id, sent) = begin(lab, self.wanted(sysctls, remote), bytes)?;
        if let Stage::Bound(places) = &self.stage {
            // The connection has the port now.
            unlisten(lab, places.clone());
        }
        self.stage = Stage::Open(cpu, id);
        Ok(sent)
    }

    fn wanted(&self, sysctls: &Sysctls, remote: SocketAddr) -> Connect {
        let (settings, tx_params) = (self.settings(sysctls), self.tx_params);
        let local = self.bound.map(|bound| bound.ip());
        let port = self.bound.map(|bound| bound.port()).filter(|port| *port != 0);
        Connect { remote, local, port, zone: 0, settings, tx_params }
    }

    /// Whether a connection to `remote` could bring data with its SYN: what one that is given up at once would do.
    fn has_cookie(&self, lab: &mut Lab, sysctls: &Sysctls, remote: SocketAddr) -> bool {
        let connect = Connect { port: None, ..self.wanted(sysctls, remote) };
        let asked = lab.call(lab.cpus() - 1, move |netisr| {
            let id = tcp::connect(&mut netisr.cpu, &connect).ok()?;
            let room = room_with_syn(&netisr.cpu, id);
            tcp::abort(&mut netisr.cpu, id).ok().map(|()| room > 0)
        });
        asked.flatten() == Some(true)
    }

    /// Sends as many of the bytes as there is room for.
    fn send(&mut self, lab: &mut Lab, bytes: Vec<u8>, is_urgent: bool) -> Outcome<usize> {
        let Stage::Open(cpu, id) = self.stage else { return Outcome::fails("ENOTCONN") };
        if self.is_beginning(lab) {
            return Outcome::fails("ENOTCONN");
        }
        if let Some(errno) = self.take_error(lab) {
            return Outcome::Done(Err(errno));
        }
        let send = if is_urgent { tcp::send_urgent } else { tcp::send };
        match lab.call(cpu, move |netisr| send(&mut netisr.cpu, id, &bytes)) {
            Some(Ok(sent)) => Outcome::Done(Ok(sent)),
            Some(Err(Error::WouldBlock)) => self.wait(),
            Some(Err(_)) => Outcome::fails("EPIPE"),
            None => Outcome::fails("ENOBUFS"),
        }
    }

    /// Gives bytes to a connection that need not stand yet, as many as there is room for.
    pub(super) fn put(&self, lab: &mut Lab, bytes: Vec<u8>) -> usize {
        let Stage::Open(cpu, id) = self.stage else { return 0 };
        lab.call(cpu, move |netisr| tcp::send(&mut netisr.cpu, id, &bytes).unwrap_or(0)).unwrap_or(0)
    }

    /// Sends the bytes behind those that have `moved`; answers how many have in all, once it need not wait for the others.
    pub(super) fn send_all(
        &mut self,
        lab: &mut Lab,
        bytes: &[u8],
        moved: &mut usize,
        how: Sending,
    ) -> Outcome<usize> {
        let Sending { waits, is_urgent, says_more } = how;
        if says_more {
            self.says_more(lab, true);
        }
        loop {
            let left = bytes.get(*moved..).unwrap_or_default().to_vec();
            match self.send(lab, left, is_urgent) {
                Outcome::Done(Ok(sent)) => *moved += sent,
                Outcome::Done(Err(_)) | Outcome::Waits if *moved > 0 && (self.is_nonblocking || !waits) => {
                    break;
                }
                Outcome::Done(Err(errno)) => return Outcome::Done(Err(errno)),
                Outcome::Waits if !waits => return Outcome::fails("EWOULDBLOCK"),
                Outcome::Waits => return Outcome::Waits,
            }
            if *moved == bytes.len() {
                break;
            }
        }
        // What has waited goes with it.
        self.says_more(lab, says_more);
        Outcome::Done(Ok(*moved))
    }

    /// Corks or uncorks the connection, for each call.
    fn says_more(&mut self, lab: &mut Lab, more: bool) {
        let (Stage::Open(cpu, id), true) = (&self.stage, more != self.says_more) else { return };
        let corked = self.changes.iter().rev().find_map(|change| match change {
            Change::Cork(is_on) => Some(*is_on),
            _ => None,
        });
        let (id, cork) = (*id, more || corked.unwrap_or(false));
        self.says_more = more;
        lab.call(*cpu, move |netisr| {
            let now = netisr.cpu.now;
            // One that has ended waits for nothing.
            _ = tcp::change(&mut netisr.cpu, id, |tcb| tcb.change(Change::Cork(cork), now));
        });
    }

    /// Reads at most `len` bytes; those that are peeked at stay.
    pub(super) fn receive(&mut self, lab: &mut Lab, len: usize, is_peek: bool) -> Outcome<Vec<u8>> {
        let Stage::Open(cpu, id) = self.stage else {
            return if self.deferred.is_some() { self.wait() } else { Outcome::fails("ENOTCONN") };
        };
        if self.is_deaf {
            return Outcome::Done(Ok(Vec::new()));
        }
        let asked = lab.call(cpu, move |netisr| {
            let mut bytes = vec![0; len];
            let cpu = &mut netisr.cpu;
            let count = if is_peek { tcp::peek(cpu, id, &mut bytes) } else { tcp::read(cpu, id, &mut bytes) };
            count.map(|count| {
                bytes.truncate(count);
                bytes
            })
        });
        #[cfg(test)]
        let asked = asked.map(|read| read.map(super::planted::read));
        match asked {
            Some(Ok(bytes)) => Outcome::Done(Ok(bytes)),
            Some(Err(Error::WouldBlock)) => self.wait(),
            // It is told why the connection ended once; then there is just nothing more.
            Some(Err(_)) => Outcome::Done(self.take_error(lab).map_or(Ok(Vec::new()), Err)),
            None => Outcome::fails("ENOBUFS"),
        }
    }

    /// Whether urgent bytes are read in their place.
    pub(super) fn is_urgent_inline(&self) -> bool {
        let said = self.changes.iter().rev().find_map(|change| match change {
            Change::UrgentInline(is_on) => Some(*is_on),
            _ => None,
        });
        said.unwrap_or(false)
    }

    /// Reads the urgent byte.
    pub(super) fn receive_urgent(&self, lab: &mut Lab) -> Outcome<Vec<u8>> {
        let Stage::Open(cpu, id) = self.stage else { return Outcome::fails("ENOTCONN") };
        match lab.call(cpu, move |netisr| tcp::read_urgent(&mut netisr.cpu, id)) {
            Some(Ok(byte)) => Outcome::Done(Ok(vec![byte])),
            Some(Err(Error::WouldBlock)) => self.wait(),
            Some(Err(error)) => Outcome::Done(Err(error.into())),
            None => Outcome::fails("ENOBUFS"),
        }
    }

    /// Shuts one direction, or both.
    pub(super) fn shutdown(&mut self, lab: &mut Lab, reading: bool, writing: bool) -> Result<i64, Errno> {
        let Stage::Open(cpu, id) = self.stage else { return Err(Errno("ENOTCONN")) };
        if self.state(lab).is_none_or(|state| state < State::Established) {
            return Err(Errno("ENOTCONN"));
        }
        self.is_deaf |= reading;
        if writing {
            let asked = lab.call(cpu, move |netisr| tcp::shutdown(&mut netisr.cpu, id));
            asked.unwrap_or(Err(Error::NotFound))?;
        }
        Ok(0)
    }

    /// Returns its readiness; `None` before it has a connection.
    pub(super) fn ready(&self, lab: &mut Lab) -> Option<Ready> {
        match &self.stage {
            Stage::Fresh | Stage::Bound(_) => {
                self.deferred.map(|_| Ready { writable: true, ..Ready::default() })
            }
            Stage::Listening(ids) => {
                let has_some = |(cpu, id): (usize, &ListenerId)| {
                    let id = *id;
                    lab.call(cpu, move |netisr| tcp::waiting(&netisr.cpu, id))
                        .is_some_and(|some| some.is_ok_and(|some| some > 0))
                };
                Some(Ready { readable: ids.iter().enumerate().any(has_some), ..Ready::default() })
            }
            Stage::Open(cpu, id) => {
                let id = *id;
                lab.call(*cpu, move |netisr| tcp::ready(&netisr.cpu, id))
            }
        }
    }

    /// Whether its connection has ended before its time, and the program has not been told.
    pub(super) fn has_failed(&self, lab: &mut Lab) -> bool {
        !self.is_told && self.look_at(lab, |_, tcb| tcb.ended().is_some()) == Some(true)
    }

    /// Whether nothing more comes.
    pub(super) fn is_read_out(&self, lab: &mut Lab) -> bool {
        let has_ended = |tcb: &Tcb| tcb.state() == State::Closed || tcb.is_read_to_end();
        self.is_deaf || self.look_at(lab, move |_, tcb| has_ended(tcb)) == Some(true)
    }

    /// Is nothing again, with its options: its connection ends here and now, or its place is given up.
    pub(super) fn disconnect(&mut self, lab: &mut Lab) {
        match core::mem::take(&mut self.stage) {
            Stage::Fresh => {}
            Stage::Bound(ids) | Stage::Listening(ids) => unlisten(lab, ids),
            // One that is known no more has ended already.
            Stage::Open(cpu, id) => {
                _ = lab.call(cpu, move |netisr| _ = tcp::abort(&mut netisr.cpu, id));
            }
        }
        (self.bound, self.deferred) = (None, None);
        (self.is_told, self.is_accepted, self.is_deaf) = (false, false, false);
    }

    /// Ends its connection here and now.
    pub(super) fn abort(&self, lab: &mut Lab) {
        if let Stage::Open(cpu, id) = self.stage {
            // One that is known no more has ended already.
            lab.call(cpu, move |netisr| _ = tcp::abort(&mut netisr.cpu, id));
        }
    }

    /// Gives it up.
    pub(super) fn close(self, lab: &mut Lab) {
        match self.stage {
            Stage::Fresh => {}
            Stage::Bound(ids) | Stage::Listening(ids) => unlisten(lab, ids),
            Stage::Open(cpu, id) => {
                let at_once = self.linger == Some(Duration::ZERO);
                // A connection that has ended is known no more, which is as well.
                lab.call(cpu, move |netisr| {
                    let cpu = &mut netisr.cpu;
                    if at_once { tcp::abort(cpu, id) } else { tcp::close(cpu, id) }
                });
            }
        }
    }
}

/// Opens the places on all CPUs.
fn open(lab: &mut Lab, ids: &[ListenerId], backlog: usize, settings: Settings) -> Result<(), Errno> {
    for (cpu, id) in ids.iter().copied().enumerate() {
        let opened = lab.call(cpu, move |netisr| tcp::open(&mut netisr.cpu, id, backlog, settings));
        opened.unwrap_or(Err(Error::NotFound))?;
    }
    Ok(())
}

fn unlisten(lab: &mut Lab, ids: Vec<ListenerId>) {
    for (cpu, id) in ids.into_iter().enumerate() {
        lab.call(cpu, move |netisr| tcp::unlisten(&mut netisr.cpu, id));
    }
}

/// Bytes that Linux gives to the SYN of a connection, which leaves room for all options that there could be.
fn room_with_syn(cpu: &Cpu, id: Id) -> usize {
    let room = tcp::connection(cpu, id).and_then(|(_, tcb)| tcb.room_with_syn());
    room.map_or(0, |room| usize::from(room).saturating_sub(OPTIONS_MAX))
}

/// Begins a connection on the CPU that its ports ask for; without a port on the last, so that it is not always the first.
fn begin(lab: &mut Lab, connect: Connect, bytes: Early) -> Result<(usize, Id, usize), Errno> {
    let mut cpu = lab.cpus() - 1;
    for _ in 0..2 {
        let bytes = bytes.clone();
        let begun = lab.call(cpu, move |netisr| {
            let id = tcp::connect(&mut netisr.cpu, &connect)?;
            let bytes = match bytes {
                Early::All(bytes) => bytes,
                Early::WithSyn(mut bytes) => {
                    bytes.truncate(room_with_syn(&netisr.cpu, id));
                    bytes
                }
            };
            let sent = if bytes.is_empty() { 0 } else { tcp::send(&mut netisr.cpu, id, &bytes)? };
            Ok((id, sent))
        });
        match begun {
            Some(Ok((id, sent))) => return Ok((cpu, id, sent)),
            Some(Err(Error::Elsewhere(owner))) => cpu = owner.index(),
            Some(Err(error)) => return Err(error.into()),
            None => break,
        }
    }
    Err(Errno("ENOBUFS"))
}
