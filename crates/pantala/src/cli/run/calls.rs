//! Calls of programs about sockets, and their answers.

use core::cell::OnceCell;
use core::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Instant;

use dev::sys::notify::{Call, Listener, Trap};
use program::addr::{self, LEN_MAX};
use program::calls::{self, Kind, all};
use program::stream::{self, Connected};
use program::values::{self, VALUE_MAX, Value};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, socket_timeout};
use rustix::net::{RecvFlags, SocketFlags};
use wire::program::{Name, Role};

use super::caller::{Caller, Theirs};
use super::datagrams;

/// The answer to a call.
pub(super) enum Answer {
    /// The kernel does what was asked.
    Kernel,
    /// A value.
    Value(i64),
    /// The call has been answered.
    Given,
    /// There is none until a socket is ready.
    Waits(Waiting),
}

/// A call that waits for its socket.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) call: Call,
    pub(super) until: Option<Instant>,
    pub(super) socket: OwnedFd,
    pub(super) what: For,
}

/// The event that a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    /// A connection that begins is established, or fails.
    Connection,
    /// A listener has a connection.
    Accept,
    /// A datagram comes.
    Receive,
    /// There is room for a datagram.
    Send,
}

/// Calls that are answered.
pub(super) fn traps() -> Vec<Trap> {
    all().map(|calls::Trapped { call, when, is_set }| Trap { call, when, is_set }).collect()
}

/// Answers a call. What is not about a socket of pantala, or one that becomes it, is the kernel's.
pub(super) fn answer(listener: &Listener, call: &Call) -> Result<Answer, Errno> {
    let Some(kind) = Kind::of(call.number) else { return Ok(Answer::Kernel) };
    let number = int(call, 0);
    // The kernel tells what is wrong with a descriptor.
    let caller = match Caller::open(listener, call) {
        Err(Errno::MFILE | Errno::NFILE) => return Err(Errno::NOBUFS),
        Err(_) => return Ok(Answer::Kernel),
        Ok(caller) => caller,
    };
    let Ok(own) = caller.descriptor(number) else { return Ok(Answer::Kernel) };
    program::daemon::set_caller(call.thread);
    let begun = match kind {
        Kind::Bind | Kind::Connect => {
            let place = Theirs {
                listener,
                call,
                caller: &caller,
                number,
                fd: own.as_fd(),
                // Programs wait for a socket that has an address or a peer.
                may_wait: false,
                placed: OnceCell::new(),
            };
            match place_it(kind, &place)? {
                Placed::Begins => place.placed.into_inner(),
                Placed::Done => return Ok(Answer::Value(0)),
                Placed::Kernel => return Ok(Answer::Kernel),
            }
        }
        _ => None,
    };
    if kind == Kind::Connect {
        // A connection that began before is its own socket.
        return connecting(call, begun.unwrap_or(own));
    }
    if kind.is_about_messages() {
        return datagrams::answer(listener, call, &caller, own);
    }
    let Some(name) = stream::name(own.as_fd()) else { return before(listener, call, &caller, own.as_fd()) };
    match kind {
        Kind::Accept | Kind::Accept4 => accept(listener, call, &caller, own),
        Kind::Listen => {
            stream::listen(own.as_fd(), int(call, 1)).unwrap_or(Ok(())).map(|()| Answer::Value(0))
        }
        Kind::Local => {
            let at = stream::local(own.as_fd()).ok_or(Errno::NOTCONN)?;
            write_addr(&caller, at, call.arguments[1], call.arguments[2])
        }
        Kind::Remote if has_peer(&name) => {
            write_addr(&caller, name.remote, call.arguments[1], call.arguments[2])
        }
        Kind::Remote => Err(Errno::NOTCONN),
        Kind::GetOption => get(call, &caller, own.as_fd(), &name),
        _ => set(call, &caller, own.as_fd(), &name),
    }
}

fn has_peer(name: &Name) -> bool {
    name.role == Role::Stream || name.role == Role::Datagram && !program::datagram::is_addressed(name)
}

/// The result of binding or connecting a socket.
enum Placed {
    Kernel,
    Done,
    Begins,
}

fn place_it(kind: Kind, socket: &Theirs<'_>) -> Result<Placed, Errno> {
    let [_, at, len, ..] = socket.call.arguments;
    let mut bytes = [0; LEN_MAX];
    let len = usize::try_from(len & u64::from(u32::MAX)).unwrap_or(LEN_MAX).min(LEN_MAX);
    let bytes = bytes.get_mut(..len).unwrap_or_default();
    // The kernel reports a bad address.
    if socket.caller.read(at, bytes).is_err() {
        return Ok(Placed::Kernel);
    }
    let Some(addr) = addr::parse(bytes) else {
        let taken =
            if kind == Kind::Connect && addr::is_none(bytes) { stream::disconnect(socket) } else { None };
        return taken.map_or(Ok(Placed::Kernel), |done| done.map(|()| Placed::Done));
    };
    if kind == Kind::Connect {
        return match stream::connect(socket, addr) {
            None => Ok(Placed::Kernel),
            Some(Ok(Connected::Begins)) => Ok(Placed::Begins),
            // Made once more, the call of a socket that blocks waits.
            Some(Err(Errno::ALREADY)) if is_blocking(socket.fd)? => Ok(Placed::Begins),
            Some(Ok(Connected::Yes)) => Ok(Placed::Done),
            Some(Err(why)) => Err(why),
        };
    }
    stream::bind(socket, addr).map_or(Ok(Placed::Kernel), |done| done.map(|()| Placed::Done))
}

/// A connection begins: one of a socket that blocks is waited for.
fn connecting(call: &Call, socket: OwnedFd) -> Result<Answer, Errno> {
    if !is_blocking(socket.as_fd())? {
        return Err(Errno::INPROGRESS);
    }
    let until = until(socket.as_fd(), Timeout::Send);
    Ok(Answer::Waits(Waiting { call: *call, until, socket, what: For::Connection }))
}

fn accept(listener: &Listener, call: &Call, caller: &Caller, socket: OwnedFd) -> Result<Answer, Errno> {
    let blocks = is_blocking(socket.as_fd())?;
    match accept_now(listener, call, caller, socket.as_fd()) {
        Err(Errno::AGAIN) if blocks => {
            let until = until(socket.as_fd(), Timeout::Recv);
            Ok(Answer::Waits(Waiting { call: *call, until, socket, what: For::Accept }))
        }
        done => done,
    }
}

fn accept_now(
    listener: &Listener,
    call: &Call,
    caller: &Caller,
    socket: BorrowedFd<'_>,
) -> Result<Answer, Errno> {
    let [_, at, len, flags, ..] = call.arguments;
    let flags = if Kind::of(call.number) == Some(Kind::Accept4) { lower(flags) } else { 0 };
    let taken = stream::accept(socket, flags, RecvFlags::DONTWAIT);
    let (new, remote) = taken.ok_or(Errno::INVAL)??;
    if at != 0 {
        write_addr(caller, remote, at, len)?;
    }
    let cloexec = flags.cast_unsigned() & SocketFlags::CLOEXEC.bits() != 0;
    listener.answer_with(call.id, new.as_fd(), cloexec).map(|()| Answer::Given)
}

pub(super) fn is_blocking(socket: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(!fcntl_getfl(socket)?.contains(OFlags::NONBLOCK))
}

pub(super) fn until(socket: BorrowedFd<'_>, which: Timeout) -> Option<Instant> {
    let within = socket_timeout(socket, which).ok().flatten().filter(|within| !within.is_zero())?;
    Instant::now().checked_add(within)
}

impl Waiting {
    /// Returns the socket, and whether its call waits to write.
    pub(super) fn socket(&self) -> (BorrowedFd<'_>, bool) {
        (self.socket.as_fd(), matches!(self.what, For::Connection | For::Send))
    }

    /// Answers, when the socket is ready; `EAGAIN`: it goes on to wait.
    pub(super) fn go_on(&self, listener: &Listener) -> Result<Answer, Errno> {
        if self.what == For::Connection {
            return stream::outcome(self.socket.as_fd()).map_or(Ok(Answer::Value(0)), Err);
        }
        // Nothing is taken for a thread that is gone.
        let caller = Caller::open(listener, &self.call)?;
        if self.what == For::Accept {
            return accept_now(listener, &self.call, &caller, self.socket.as_fd());
        }
        match datagrams::answer(listener, &self.call, &caller, self.socket.try_clone().map_err(no_room)?)? {
            // Its time goes on.
            Answer::Waits(_) => Err(Errno::AGAIN),
            done => Ok(done),
        }
    }

    /// The error at the end of its time.
    pub(super) const fn late(&self) -> Errno {
        if matches!(self.what, For::Connection) { Errno::INPROGRESS } else { Errno::AGAIN }
    }
}

fn no_room(why: std::io::Error) -> Errno {
    Errno::from_io_error(&why).unwrap_or(Errno::NOBUFS)
}

fn write_addr(caller: &Caller, addr: SocketAddr, at: u64, len: u64) -> Result<Answer, Errno> {
    let (bytes, whole) = addr::emit(addr);
    caller.write_with_len(bytes.get(..whole).unwrap_or_default(), at, len, true)?;
    Ok(Answer::Value(0))
}

fn get(call: &Call, caller: &Caller, fd: BorrowedFd<'_>, name: &Name) -> Result<Answer, Errno> {
    let [_, _, _, at, len, _] = call.arguments;
    let option = (int(call, 1), int(call, 2));
    let given = if program::filter::is_whole(option) { given(caller, at, len)? } else { Vec::new() };
    let bytes = match values::get(fd, name, option, &given)? {
        None => return Ok(Answer::Kernel),
        Some(Value::Number(number)) => number.to_ne_bytes().to_vec(),
        Some(Value::Bytes(bytes)) => bytes,
    };
    caller.write_with_len(&bytes, at, len, false)?;
    Ok(Answer::Value(0))
}

/// Reads the place for a value, whose length is at `len`.
fn given(caller: &Caller, at: u64, len: u64) -> Result<Vec<u8>, Errno> {
    let mut room = [0; 4];
    caller.read(len, &mut room)?;
    let room = usize::try_from(i32::from_ne_bytes(room)).map_err(|_| Errno::INVAL)?;
    let mut bytes = vec![0; room.min(VALUE_MAX)];
    caller.read(at, &mut bytes)?;
    Ok(bytes)
}

fn set(call: &Call, caller: &Caller, fd: BorrowedFd<'_>, name: &Name) -> Result<Answer, Errno> {
    let bytes = value(call, caller)?;
    let (level, option) = (int(call, 1), int(call, 2));
    let keep = || {
        let done = dev::sys::sockopt::set(fd, level, option, &bytes);
        done.map_err(|why| Errno::from_io_error(&why).unwrap_or(Errno::INVAL))
    };
    let done = values::set(name, (level, option), &bytes, keep)?;
    Ok(done.map_or(Answer::Kernel, |()| Answer::Value(0)))
}

/// Reads the value that a call sets.
fn value(call: &Call, caller: &Caller) -> Result<Vec<u8>, Errno> {
    let [_, _, _, at, len, _] = call.arguments;
    let len = usize::try_from(lower(len)).map_err(|_| Errno::INVAL)?;
    let mut bytes = vec![0; len.min(VALUE_MAX)];
    caller.read(at, &mut bytes)?;
    Ok(bytes)
}

/// Answers a call about an option of a socket that is the kernel's yet, if that is an interface of pantala.
fn before(listener: &Listener, call: &Call, caller: &Caller, fd: BorrowedFd<'_>) -> Result<Answer, Errno> {
    let option = (int(call, 1), int(call, 2));
    match Kind::of(call.number) {
        Some(Kind::SetOption) => {
            // The kernel reports a bad address.
            let Ok(bytes) = value(call, caller) else { return Ok(Answer::Kernel) };
            let number = int(call, 0);
            let socket =
                Theirs { listener, call, caller, number, fd, may_wait: false, placed: OnceCell::new() };
            if let Some(begun) = values::begin_for_group(&socket, option, &bytes) {
                begun?;
                let placed = socket.placed.into_inner().ok_or(Errno::NETDOWN)?;
                let name = stream::name(placed.as_fd()).ok_or(Errno::NETDOWN)?;
                return set(call, caller, placed.as_fd(), &name);
            }
            let Some(device) = values::device_before(&socket, option, &bytes) else {
                return Ok(Answer::Kernel);
            };
            let number = program::options::SO_BINDTOIFINDEX;
            let done = dev::sys::sockopt::set(fd, option.0, number, &device.to_ne_bytes());
            done.map_err(|why| Errno::from_io_error(&why).unwrap_or(Errno::INVAL))?;
        }
        Some(Kind::GetOption) => {
            let Some(bytes) = values::bound_before::<Theirs<'_>>(fd, option) else {
                return Ok(Answer::Kernel);
            };
            let [_, _, _, at, len, _] = call.arguments;
            caller.write_with_len(&bytes, at, len, false)?;
        }
        _ => return Ok(Answer::Kernel),
    }
    Ok(Answer::Value(0))
}

/// An argument that is an `int`.
pub(super) fn int(call: &Call, place: usize) -> RawFd {
    call.arguments.get(place).map_or(-1, |word| lower(*word))
}

const fn lower(word: u64) -> i32 {
    let [a, b, c, d, ..] = word.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}
