//! Operations of packetdrill on the host, in values instead of pointers.

use core::ffi::{c_int, c_ulong};
use core::time::Duration;

use sim::drill::{CallFlags, Kind, Machine, Outcome, Progress, Read};

use crate::address::{self, Domain};
use crate::clock::{Clock, World};
use crate::errno::Code;
use crate::files::{Files, Object};
use crate::flags::Flags;
use crate::poll::{Watched, revents};
use crate::whole::Whole;
use crate::{notes, options};

/// When virtual time begins, in seconds since 1970. packetdrill looks at differences only.
const EPOCH: Duration = Duration::from_secs(1_000_000_000);
/// Descriptors that one `poll` asks for, and events that one `epoll_wait` tells, at the most.
pub(crate) const POLLED_MAX: usize = 1024;
/// Flags of calls that nothing here does: errors as messages, and data that is not copied.
const UNKNOWN: c_int = libc::MSG_ERRQUEUE;

/// The machine, and its program's descriptors.
pub(crate) struct State {
    machine: Machine,
    files: Files,
}

impl World for State {
    fn now(&self) -> Duration {
        self.machine.now()
    }

    fn step(&mut self, until: Duration) -> bool {
        self.machine.step(until)
    }
}

impl State {
    /// A new descriptor. If packetdrill has closed another one of this number by itself, that socket is closed, too.
    fn open(&mut self, what: Object) -> Result<c_int, Code> {
        let (fd, is_stale) = self.files.open(what)?;
        if is_stale {
            // One that was no socket is none.
            _ = self.machine.close(fd);
        }
        Ok(fd)
    }
}

/// One host that packetdrill judges.
pub(crate) struct Host {
    clock: Clock<State>,
}

impl Host {
    /// Switches it on.
    ///
    /// # Errors
    ///
    /// What is wrong with the flags.
    pub(crate) fn new(flags: &str) -> Result<Self, String> {
        let flags = Flags::read(flags)?;
        let state = State { machine: flags.machine()?, files: Files::default() };
        Ok(Self { clock: Clock::new(state, flags.patience) })
    }

    /// Does what a command of a script says, if it is meant for a host like this.
    pub(crate) fn command(&self, text: &str) -> Option<Result<(), String>> {
        self.clock.with(|state| state.machine.command(text))
    }

    /// Whether a descriptor is one of this host's.
    pub(crate) fn has(&self, fd: c_int) -> bool {
        self.clock.with(|state| state.files.get(fd).is_ok())
    }

    /// Does something with descriptors alone.
    pub(crate) fn with_files<R>(&self, what: impl FnOnce(&mut Files) -> Result<R, Code>) -> Result<R, Code> {
        self.clock.with(|state| what(&mut state.files))
    }

    /// Does something with descriptors and what is behind them.
    pub(crate) fn with_state<R>(
        &self,
        what: impl FnOnce(&mut Files, &mut Machine) -> Result<R, Code>,
    ) -> Result<R, Code> {
        self.clock.with(|State { files, machine }| what(files, machine))
    }

    pub(crate) fn socket(&self, domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int, Code> {
        let domain = match domain {
            libc::AF_INET => Domain::V4,
            libc::AF_INET6 => Domain::V6,
            _ => return Err(Code(libc::EAFNOSUPPORT)),
        };
        let is_nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        let kind = match (kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC), protocol) {
            (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Kind::Stream,
            (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Kind::Datagram,
            (libc::SOCK_STREAM | libc::SOCK_DGRAM, _) => return Err(Code(libc::EPROTONOSUPPORT)),
            _ => return Err(Code(libc::ESOCKTNOSUPPORT)),
        };
        self.clock.with(|state| {
            let fd = state.open(Object::Socket(domain))?;
            state.machine.open(fd, kind, is_nonblocking);
            Ok(fd)
        })
    }

    pub(crate) fn bind(&self, fd: c_int, addr: &[u8]) -> Result<c_int, Code> {
        self.clock.with(|state| {
            let addr = address::read(addr, state.files.domain(fd)?)?;
            state.machine.bind(fd, addr)?;
            Ok(0)
        })
    }

    pub(crate) fn listen(&self, fd: c_int, backlog: c_int) -> Result<c_int, Code> {
        self.clock.with(|state| {
            state.files.domain(fd)?;
            state.machine.listen(fd, usize::try_from(backlog).unwrap_or(0))?;
            Ok(0)
        })
    }

    /// Answers the new descriptor, and the other end's address.
    pub(crate) fn accept(&self, fd: c_int) -> Result<(c_int, Vec<u8>), Code> {
        let domain = self.clock.with(|state| state.files.domain(fd))?;
        let new = self.clock.with(|state| state.open(Object::Socket(domain)))?;
        let accepted = self.clock.wait(None, |state| state.machine.accept(fd, new, false));
        match accepted {
            Ok(remote) => {
                self.clock.with(|state| state.files.inherit_notes(fd, new));
                Ok((new, address::write(remote, domain)))
            }
            Err(code) => {
                self.clock.with(|state| state.files.close(new))?;
                Err(code)
            }
        }
    }

    pub(crate) fn connect(&self, fd: c_int, addr: &[u8]) -> Result<c_int, Code> {
        let domain = self.clock.with(|state| state.files.domain(fd))?;
        if address::is_none(addr) {
            return self.clock.with(|state| Ok(state.machine.disconnect(fd).map(|()| 0)?));
        }
        let remote = address::read(addr, domain)?;
        self.clock.wait(None, |state| state.machine.connect(fd, remote)).map(|()| 0)
    }

    /// Receives a packet; returns its bytes, and its sender as an address.
    pub(crate) fn receive(&self, fd: c_int, len: usize, flags: c_int) -> Result<(Read, Vec<u8>), Code> {
        if flags == 0 && self.with_files(|files| Ok(files.is_pipe(fd)))? {
            let bytes = self.with_files(|files| files.drain(fd, len))?;
            return Ok((Read { len: bytes.len(), bytes, from: None }, Vec::new()));
        }
        let domain = self.with_files(|files| files.domain(fd))?;
        if flags & UNKNOWN != 0 {
            return Err(Code(libc::EWOULDBLOCK));
        }
        let mut all = Whole::new(len, flags & (libc::MSG_WAITALL | libc::MSG_PEEK) == libc::MSG_WAITALL);
        let read =
            self.clock.wait(None, |state| all.receive(|len| state.machine.receive(fd, len, how(flags))))?;
        let from = read.from.map(|from| address::write(from, domain)).unwrap_or_default();
        Ok((read, from))
    }

    pub(crate) fn send(&self, fd: c_int, bytes: &[u8], flags: c_int, to: &[u8]) -> Result<usize, Code> {
        if flags == 0 && to.is_empty() && self.with_files(|files| Ok(files.is_pipe(fd)))? {
            return self.with_files(|files| files.pour(fd, bytes));
        }
        let domain = self.with_files(|files| files.domain(fd))?;
        if address::is_none(to) && flags & libc::MSG_FASTOPEN != 0 {
            return Err(Code(libc::EOPNOTSUPP));
        }
        let to = if to.is_empty() { None } else { Some(address::read(to, domain)?) };
        self.may_note(fd, flags)?;
        let mut progress = Progress::default();
        let sent =
            self.clock.wait(None, |state| state.machine.send(fd, bytes, &mut progress, to, how(flags)))?;
        self.note_sent(fd, sent, flags)?;
        Ok(sent)
    }

    pub(crate) fn fcntl(&self, fd: c_int, command: c_int, value: c_int) -> Result<c_int, Code> {
        self.clock.with(|state| {
            state.files.domain(fd)?;
            match command {
                libc::F_GETFL => {
                    let is_nonblocking = state.machine.is_nonblocking(fd)?;
                    Ok(libc::O_RDWR | if is_nonblocking { libc::O_NONBLOCK } else { 0 })
                }
                libc::F_SETFL => {
                    state.machine.set_nonblocking(fd, value & libc::O_NONBLOCK != 0)?;
                    Ok(0)
                }
                libc::F_GETFD | libc::F_SETFD => Ok(0),
                _ => Err(Code(libc::EINVAL)),
            }
        })
    }

    /// Answers a number that is asked for.
    pub(crate) fn ioctl(&self, fd: c_int, request: c_ulong) -> Result<c_int, Code> {
        let number = |count: usize| c_int::try_from(count).unwrap_or(c_int::MAX);
        self.clock.with(|state| {
            state.files.domain(fd)?;
            let machine = &mut state.machine;
            match request {
                libc::FIONREAD => Ok(number(machine.queued(fd)?.0)),
                libc::TIOCOUTQ => Ok(number(machine.queued(fd)?.1)),
                SIOCOUTQNSD => Ok(number(options::unsent(&machine.describe(fd)?))),
                SIOCATMARK => Ok(machine.is_at_mark(fd)?.into()),
                _ => Err(Code(libc::ENOTTY)),
            }
        })
    }

    /// Calls that would have to wait fail from now on, or wait.
    pub(crate) fn set_nonblocking(&self, fd: c_int, is_on: bool) -> Result<c_int, Code> {
        self.clock.with(|state| Ok(state.machine.set_nonblocking(fd, is_on).map(|()| 0)?))
    }

    pub(crate) fn close(&self, fd: c_int) -> Result<c_int, Code> {
        self.clock.with(|state| {
            if let Object::Socket(_) = state.files.close(fd)? {
                state.machine.close(fd)?;
            }
            Ok(0)
        })
    }

    pub(crate) fn shutdown(&self, fd: c_int, how: c_int) -> Result<c_int, Code> {
        let (reading, writing) = match how {
            libc::SHUT_RD => (true, false),
            libc::SHUT_WR => (false, true),
            libc::SHUT_RDWR => (true, true),
            _ => return Err(Code(libc::EINVAL)),
        };
        self.clock.with(|state| {
            state.files.domain(fd)?;
            state.machine.shutdown(fd, reading, writing)?;
            Ok(0)
        })
    }

    pub(crate) fn option(&self, fd: c_int, level: c_int, option: c_int) -> Result<Vec<u8>, Code> {
        self.clock.with(|state| {
            let State { files, machine } = state;
            files.domain(fd)?;
            match notes::get(files, machine, fd, (level, option)) {
                Some(value) => Ok(value),
                None => options::get(machine, fd, level, option),
            }
        })
    }

    pub(crate) fn set_option(
        &self,
        fd: c_int,
        level: c_int,
        option: c_int,
        bytes: &[u8],
    ) -> Result<c_int, Code> {
        self.clock.with(|state| {
            let State { files, machine } = state;
            files.domain(fd)?;
            let kept = notes::set(files, machine, fd, (level, option), bytes);
            kept.unwrap_or_else(|| options::set(machine, fd, (level, option), bytes)).map(|()| 0)
        })
    }

    /// Writes to each what has happened, and answers with how many something has.
    pub(crate) fn poll(&self, list: &mut [libc::pollfd], timeout: c_int) -> Result<c_int, Code> {
        let alarm = self.alarm(timeout);
        self.clock.wait(alarm, |State { machine, files }| {
            for polled in &mut *list {
                let wanted = u32::from(polled.events.cast_unsigned());
                let came = if polled.fd < 0 { 0 } else { revents(polled.fd, wanted, machine, files) };
                polled.revents = u16::try_from(came).unwrap_or(0).cast_signed();
            }
            let count = list.iter().filter(|polled| polled.revents != 0).count();
            ready_or_late(count, alarm.is_some_and(|alarm| machine.now() >= alarm))
        })
    }

    /// When a call is over that waits so many milliseconds; never, if they are less than none.
    fn alarm(&self, timeout: c_int) -> Option<Duration> {
        let timeout = Duration::from_millis(u64::try_from(timeout).ok()?);
        Some(self.clock.with(|state| state.machine.now()) + timeout)
    }

    pub(crate) fn epoll_create(&self, size: c_int) -> Result<c_int, Code> {
        if size <= 0 {
            return Err(Code(libc::EINVAL));
        }
        self.clock.with(|state| state.open(Object::Epoll(Vec::new())))
    }

    pub(crate) fn epoll_ctl(&self, epfd: c_int, op: c_int, watch: Watched) -> Result<c_int, Code> {
        self.clock.with(|State { files, .. }| {
            if watch.fd == epfd {
                return Err(Code(libc::EINVAL));
            }
            files.get(watch.fd)?;
            let list = files.watched(epfd)?;
            let at = list.iter().position(|known| known.fd == watch.fd);
            match (op, at) {
                (libc::EPOLL_CTL_ADD, None) => list.push(watch),
                (libc::EPOLL_CTL_ADD, Some(_)) => return Err(Code(libc::EEXIST)),
                (libc::EPOLL_CTL_MOD, Some(at)) => list[at] = watch,
                (libc::EPOLL_CTL_DEL, Some(at)) => drop(list.remove(at)),
                (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None) => return Err(Code(libc::ENOENT)),
                _ => return Err(Code(libc::EINVAL)),
            }
            Ok(0)
        })
    }

    /// Waits for events of watched descriptors: the bits, and the program's data
    pub(crate) fn epoll_wait(
        &self,
        epfd: c_int,
        max: usize,
        timeout: c_int,
    ) -> Result<Vec<(u32, u64)>, Code> {
        self.clock.with(|state| state.files.watched(epfd).map(drop))?;
        let (alarm, mut told) = (self.alarm(timeout), Vec::new());
        self.clock.wait(alarm, |State { machine, files }| {
            let Ok(list) = files.watched(epfd) else { return ready_or_late(0, true) };
            let mut list = core::mem::take(list);
            for watched in &mut list {
                if told.len() < max {
                    told.extend(watched.happened(machine, files));
                }
            }
            if let Ok(place) = files.watched(epfd) {
                *place = list;
            }
            ready_or_late(told.len(), alarm.is_some_and(|alarm| machine.now() >= alarm))
        })?;
        Ok(told)
    }

    /// Gives a packet to the host, from its IP header on.
    pub(crate) fn inject(&self, packet: &[u8]) {
        self.clock.with(|state| state.machine.inject(packet));
    }

    /// The next packet that the host sends, and when, in microseconds; `None` if none comes for too long.
    pub(crate) fn sniff(&self) -> Option<(Vec<u8>, i64)> {
        let (at, bytes) = self.clock.await_answer(|state| state.machine.take_sent())?;
        Some((bytes, i64::try_from((EPOCH + at).as_micros()).unwrap_or(i64::MAX)))
    }

    pub(crate) fn sleep(&self, span: Duration) {
        self.clock.sleep(span);
    }

    /// The time since 1970, as it is here.
    pub(crate) fn time(&self) -> Duration {
        EPOCH + self.clock.time()
    }
}

/// `linux/sockios.h` and `asm-generic/sockios.h`.
const SIOCOUTQNSD: c_ulong = 0x894b;
const SIOCATMARK: c_ulong = 0x8905;

fn ready_or_late(count: usize, is_late: bool) -> Outcome<c_int> {
    if count == 0 && !is_late {
        return Outcome::Waits;
    }
    Outcome::Done(Ok(c_int::try_from(count).unwrap_or(c_int::MAX)))
}

const fn how(flags: c_int) -> CallFlags {
    CallFlags {
        dont_wait: flags & libc::MSG_DONTWAIT != 0,
        is_urgent: flags & libc::MSG_OOB != 0,
        is_peek: flags & libc::MSG_PEEK != 0,
        says_more: flags & libc::MSG_MORE != 0,
        is_fast: flags & libc::MSG_FASTOPEN != 0,
    }
}
