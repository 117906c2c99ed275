//! Calls of TCP sockets only.

use core::net::SocketAddr;

use net::tcp::tcb::{Info, State, Times};

use super::super::assert;
use super::super::errno::Errno;
use super::super::lab::Lab;
use super::super::linux::{self, info, opening};
use super::super::options::{self, Value};
use super::super::program::{Early, Outcome, Sending, Socket, Stage};
use super::super::sysctl::Sysctls;
use super::{CallFlags, Handle, Machine, Progress, Read};

pub(super) fn receive(socket: &mut Socket, lab: &mut Lab, len: usize, how: CallFlags) -> Outcome<Read> {
    let received =
        if how.is_urgent { socket.receive_urgent(lab) } else { socket.receive(lab, len, how.is_peek) };
    received.map(|bytes| Read { len: bytes.len(), bytes, from: None })
}

pub(super) fn send(
    socket: &mut Socket,
    (lab, sysctls, is_linux): (&mut Lab, &Sysctls, bool),
    bytes: &[u8],
    progress: &mut Progress,
    to: Option<SocketAddr>,
    how: CallFlags,
) -> Outcome<usize> {
    let Progress { moved, is_again } = progress;
    let is_again = core::mem::replace(is_again, true);
    let sending = Sending { waits: !how.dont_wait, is_urgent: how.is_urgent, says_more: how.says_more };
    let is_fresh = matches!(socket.stage, Stage::Fresh | Stage::Bound(_));
    let promised = socket.deferred.filter(|_| is_fresh || is_again);
    if how.is_fast || promised.is_some() {
        match (is_fresh, promised.or(to)) {
            (true, None) => return Outcome::fails("EDESTADDRREQ"),
            (true, Some(to)) => {
                return opening::begin((socket, sysctls), lab, to, bytes, moved, sending.waits);
            }
            (false, _) if is_again => match opening::stands(socket, lab) {
                Outcome::Done(Ok(())) => {}
                Outcome::Done(Err(errno)) => return Outcome::Done(Err(errno)),
                Outcome::Waits => return Outcome::Waits,
            },
            (false, _) if socket.is_beginning(lab) => return Outcome::fails("EALREADY"),
            (false, _) => {}
        }
    } else if let (true, Some(to)) = (is_fresh, to) {
        return Outcome::Done(socket.begin(lab, sysctls, to, Early::All(bytes.to_vec())));
    } else if is_linux && socket.is_beginning(lab) {
        // FreeBSD says that it is not connected.
        return socket.wait();
    }
    linux::sent(socket.send_all(lab, bytes, moved, sending), is_linux)
}

impl Machine {
    fn stream(&mut self, fd: i32) -> Result<(&mut Socket, &mut Lab, &Sysctls), Errno> {
        match self.sockets.get_mut(&fd) {
            Some(Handle::Stream(socket)) => Ok((socket, &mut self.lab, &self.sysctls)),
            Some(Handle::Datagram(_)) => Err(Errno("EOPNOTSUPP")),
            None => Err(Errno("EBADF")),
        }
    }

    /// Waits for connections, at an address of its own if it was bound to none.
    ///
    /// # Errors
    ///
    /// `EBADF`, `EOPNOTSUPP`, `EINVAL`.
    pub fn listen(&mut self, fd: i32, backlog: usize) -> Result<(), Errno> {
        let anywhere = (self.scene.local(), 0).into();
        let (socket, lab, sysctls) = self.stream(fd)?;
        let addr = socket.bound.unwrap_or(anywhere);
        socket.listen(lab, sysctls, addr, backlog).map(drop)
    }

    /// Accepts the oldest connection as descriptor `new`; returns its peer.
    pub fn accept(&mut self, fd: i32, new: i32, is_nonblocking: bool) -> Outcome<SocketAddr> {
        let is_linux = self.scene.is_linux;
        let (socket, lab, _) = match self.stream(fd) {
            Ok(stream) => stream,
            Err(errno) => return Outcome::Done(Err(errno)),
        };
        let accepted = socket.accept(lab);
        accepted.map(|(mut socket, remote)| {
            // What a listener does not wait for, its connections do not either; but on Linux.
            socket.is_nonblocking = is_nonblocking || socket.is_nonblocking && !is_linux;
            self.sockets.insert(new, Handle::Stream(Box::new(socket)));
            remote
        })
    }

    /// Shuts one direction, or both.
    ///
    /// # Errors
    ///
    /// `EBADF`, `EOPNOTSUPP`, `ENOTCONN`.
    pub fn shutdown(&mut self, fd: i32, reading: bool, writing: bool) -> Result<(), Errno> {
        let (socket, lab, _) = self.stream(fd)?;
        socket.shutdown(lab, reading, writing).map(drop)
    }

    /// Sets an option whose value is a number, by its name in C.
    ///
    /// # Errors
    ///
    /// `EBADF`, `ENOPROTOOPT`.
    pub fn set_option(&mut self, fd: i32, name: &'static str, value: i64) -> Result<(), Errno> {
        if let Some(Handle::Datagram(socket)) = self.sockets.get_mut(&fd) {
            return socket.set_option(&mut self.lab, name, value);
        }
        let (socket, lab, sysctls) = self.stream(fd)?;
        options::set_number(name, value, socket, lab, sysctls).map(drop)
    }

    /// Says how long `close` waits, if it does.
    ///
    /// # Errors
    ///
    /// `EBADF`, `EOPNOTSUPP`.
    pub fn set_linger(&mut self, fd: i32, linger: Option<core::time::Duration>) -> Result<(), Errno> {
        self.stream(fd)?.0.linger = linger;
        Ok(())
    }

    /// Has the congestion window grow as the algorithm of this name says.
    ///
    /// # Errors
    ///
    /// `EBADF`, `EOPNOTSUPP`, `ENOENT`.
    pub fn set_algorithm(&mut self, fd: i32, name: &[u8]) -> Result<(), Errno> {
        let (socket, lab, _) = self.stream(fd)?;
        options::set_algorithm(name, socket, lab).map(drop)
    }

    /// Reads an option, by its name in C.
    ///
    /// # Errors
    ///
    /// `EBADF`, `ENOPROTOOPT`.
    pub fn option(&mut self, fd: i32, name: &'static str) -> Result<Value, Errno> {
        if let Some(Handle::Datagram(socket)) = self.sockets.get_mut(&fd) {
            return socket.option(&mut self.lab, name);
        }
        let (socket, lab, sysctls) = self.stream(fd)?;
        options::read(name, socket, lab, sysctls).ok_or(Errno("ENOPROTOOPT"))
    }

    /// Returns its `TCP_INFO`.
    ///
    /// # Errors
    ///
    /// `EBADF`, `EOPNOTSUPP`.
    pub fn describe(&mut self, fd: i32) -> Result<Description, Errno> {
        let (socket, lab, _) = self.stream(fd)?;
        let state = assert::state(socket, lab);
        let known = socket.describe(lab);
        Ok(Description { state, known })
    }

    /// Bytes that wait to be read, and those that are not acknowledged.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub fn queued(&mut self, fd: i32) -> Result<(usize, usize), Errno> {
        if let Some(Handle::Datagram(socket)) = self.sockets.get_mut(&fd) {
            return Ok((socket.next_len(&mut self.lab), 0));
        }
        let (socket, lab, _) = self.stream(fd)?;
        Ok(socket.look_at(lab, |_, tcb| (tcb.readable(), tcb.queued())).unwrap_or_default())
    }

    /// Whether the next byte to be read is behind the urgent one.
    ///
    /// # Errors
    ///
    /// `EBADF`, `EOPNOTSUPP`.
    pub fn is_at_mark(&mut self, fd: i32) -> Result<bool, Errno> {
        let (socket, lab, _) = self.stream(fd)?;
        Ok(socket.look_at(lab, |_, tcb| tcb.is_at_mark()).unwrap_or(false))
    }
}

/// A socket of TCP, and its connection.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// The state, as RFC 9293 calls it.
    pub state: &'static str,
    /// Information on the connection, and the times it spent in each activity, if there is one.
    pub known: Option<(Info, Times)>,
}

impl Description {
    /// A field of Linux' `TCP_INFO`, as Linux counts.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<i128> {
        let (known, times) = self.known.as_ref()?;
        info::field(name, known).or_else(|| assert::field(name, known)).or_else(|| assert::span(name, times))
    }

    /// Where the connection is in its life, if there is one.
    #[must_use]
    pub fn life(&self) -> Option<State> {
        self.known.map(|(known, _)| known.state)
    }
}
