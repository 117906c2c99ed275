//! Calls of programs that send and receive messages with addresses.
//!
//! The messages of a socket without a peer have headers ([`program::datagram`]), so these calls are made here, with the program's
//! buffers. Calls about other sockets are the kernel's.

use core::cell::OnceCell;
use core::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use dev::sys::notify::{Call, Listener};
use program::addr::{self, LEN_MAX};
use program::calls::Kind;
use program::control::Control;
use program::{datagram, stream};
use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use wire::program::{Head, NO_ADDR, Name, Role};

use super::caller::{Caller, Theirs};
use super::calls::{Answer, For, Waiting, int, is_blocking, until};

/// Bytes of a datagram at the most, and of control messages that are looked at.
const BYTES_MAX: usize = 64 << 10;
const CONTROL_MAX: usize = 1024;
/// Buffers of a message, and messages of a call at the most, as of Linux.
const BUFFERS_MAX: usize = 1024;
const MESSAGES_MAX: u64 = 1024;
/// Bytes of `struct iovec`, and of `struct mmsghdr`: a `struct msghdr`, and a length behind it.
const BUFFER_LEN: usize = 16;
const MMSG_LEN: u64 = 64;
const MMSG_COUNT_AT: u64 = 56;
/// Bytes of `struct msghdr`, and where it has the lengths and flags that calls write.
const MSG_LEN: usize = 56;
const MSG_NAME_LEN_AT: u64 = 8;
const MSG_CONTROL_LEN_AT: u64 = 40;
const MSG_FLAGS_AT: u64 = 48;

/// A message of a program, by the places in its memory.
#[derive(Default)]
struct Message {
    /// `struct msghdr`; 0: the call has none.
    at: u64,
    name: u64,
    /// Room for an address, or its length.
    name_len: u64,
    control: u64,
    control_len: u64,
    buffers: Vec<(u64, u64)>,
}

/// A call about messages.
struct Exchange<'a> {
    listener: &'a Listener,
    call: &'a Call,
    caller: &'a Caller,
    flags: i32,
}

/// Answers a call that sends or receives messages. The socket is the program's.
pub(super) fn answer(
    listener: &Listener,
    call: &Call,
    caller: &Caller,
    socket: OwnedFd,
) -> Result<Answer, Errno> {
    let Some(kind) = Kind::of(call.number) else { return Ok(Answer::Kernel) };
    let flags = match kind {
        Kind::SendMessage | Kind::ReceiveMessage => int(call, 2),
        _ => int(call, 3),
    };
    let exchange = Exchange { listener, call, caller, flags };
    let mut socket = socket;
    let is_sent = matches!(kind, Kind::SendTo | Kind::SendMessage | Kind::SendMessages);
    if is_sent && stream::name(socket.as_fd()).is_none() {
        match exchange.begin(kind, &socket)? {
            Some(placed) => socket = placed,
            None => return Ok(Answer::Kernel),
        }
    }
    let name = stream::name(socket.as_fd()).filter(|name| name.role == Role::Datagram);
    let Some(name) = name else { return Ok(Answer::Kernel) };
    match exchange.all(kind, &socket, &name) {
        Err(Errno::AGAIN) if flags & datagram::MSG_DONTWAIT == 0 && is_blocking(socket.as_fd())? => {
            let which = if is_sent { Timeout::Send } else { Timeout::Recv };
            let until = until(socket.as_fd(), which);
            let what = if is_sent { For::Send } else { For::Receive };
            Ok(Answer::Waits(Waiting { call: *call, until, socket, what }))
        }
        done => done.map(|count| Answer::Value(i64::try_from(count).unwrap_or(i64::MAX))),
    }
}

impl Exchange<'_> {
    /// Makes a socket of the kernel pantala's, if its datagram is for a host that pantala reaches.
    fn begin(&self, kind: Kind, socket: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
        // Without an address, or with a bad one, it is the kernel's to answer.
        let Ok(message) = self.message(kind, 0) else { return Ok(None) };
        let Ok(Some(to)) = self.to(&message) else { return Ok(None) };
        let place = Theirs {
            listener: self.listener,
            call: self.call,
            caller: self.caller,
            number: int(self.call, 0),
            fd: socket.as_fd(),
            may_wait: true,
            placed: OnceCell::new(),
        };
        match datagram::begin(&place, to) {
            None => Ok(None),
            Some(begun) => begun.map(|()| place.placed.into_inner()),
        }
    }

    /// Sends or receives the messages of the call, one at least, and returns what the call returns.
    fn all(&self, kind: Kind, socket: &OwnedFd, name: &Name) -> Result<usize, Errno> {
        let (count, is_many) = match kind {
            Kind::SendMessages | Kind::ReceiveMessages => {
                (u64::from(int(self.call, 2).cast_unsigned()).min(MESSAGES_MAX), true)
            }
            _ => (1, false),
        };
        let mut done = 0;
        for n in 0..count {
            let one = self.message(kind, n).and_then(|message| match kind {
                Kind::SendTo | Kind::SendMessage | Kind::SendMessages => self.send(socket, name, &message),
                _ => self.receive(socket, name, &message),
            });
            let bytes = match one {
                // What was done is not lost by the error of what follows.
                Err(_) if done > 0 => break,
                one => one?,
            };
            if !is_many {
                return Ok(bytes);
            }
            let place = self.call.arguments[1].saturating_add(n * MMSG_LEN + MMSG_COUNT_AT);
            self.caller.write(place, &u32::try_from(bytes).unwrap_or(0).to_ne_bytes())?;
            done += 1;
        }
        Ok(done)
    }

    /// Reads where the parts of the message number `n` are.
    fn message(&self, kind: Kind, n: u64) -> Result<Message, Errno> {
        let [_, first, second, _, name, len] = self.call.arguments;
        match kind {
            Kind::SendTo => {
                let name_len = len & u64::from(u32::MAX);
                Ok(Message { name, name_len, buffers: vec![(first, second)], ..Message::default() })
            }
            Kind::ReceiveFrom => {
                Ok(Message { name, name_len: len, buffers: vec![(first, second)], ..Message::default() })
            }
            Kind::SendMessage | Kind::ReceiveMessage => self.header(first),
            _ => self.header(first.saturating_add(n * MMSG_LEN)),
        }
    }

    /// Reads a `struct msghdr`.
    fn header(&self, at: u64) -> Result<Message, Errno> {
        let mut bytes = [0; MSG_LEN];
        self.caller.read(at, &mut bytes)?;
        let word = |n: usize| {
            bytes.get(n..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_ne_bytes(*word))
        };
        let count = usize::try_from(word(24)).unwrap_or(usize::MAX);
        if count > BUFFERS_MAX {
            return Err(Errno::MSGSIZE);
        }
        let mut list = vec![0; count * BUFFER_LEN];
        self.caller.read(word(16), &mut list)?;
        let pair = |buffer: &[u8]| {
            let (at, len) = buffer.split_at_checked(8)?;
            Some((u64::from_ne_bytes(at.try_into().ok()?), u64::from_ne_bytes(len.try_into().ok()?)))
        };
        Ok(Message {
            at,
            name: word(0),
            name_len: word(8) & u64::from(u32::MAX),
            control: word(32),
            control_len: word(40),
            buffers: list.chunks_exact(BUFFER_LEN).filter_map(pair).collect(),
        })
    }

    /// The receiver that a message names.
    fn to(&self, message: &Message) -> Result<Option<SocketAddr>, Errno> {
        if message.name == 0 {
            return Ok(None);
        }
        let mut bytes = [0; LEN_MAX];
        let len = usize::try_from(message.name_len).unwrap_or(LEN_MAX).min(LEN_MAX);
        let bytes = bytes.get_mut(..len).unwrap_or_default();
        self.caller.read(message.name, bytes)?;
        Ok(addr::parse(bytes))
    }

    fn send(&self, socket: &OwnedFd, name: &Name, message: &Message) -> Result<usize, Errno> {
        let to = self.to(message)?;
        if message.name != 0 && to.is_none() {
            return Err(Errno::INVAL);
        }
        let mut bytes = Vec::new();
        for (at, len) in &message.buffers {
            let begins = bytes.len();
            let len = usize::try_from(*len).unwrap_or(usize::MAX);
            if len > BYTES_MAX || begins + len > BYTES_MAX {
                return Err(Errno::MSGSIZE);
            }
            bytes.resize(begins + len, 0);
            self.caller.read(*at, bytes.get_mut(begins..).unwrap_or_default())?;
        }
        let mut head = Head::of(to.unwrap_or(NO_ADDR));
        if message.control != 0 {
            let len = usize::try_from(message.control_len).unwrap_or(CONTROL_MAX).min(CONTROL_MAX);
            let mut control = vec![0; len];
            self.caller.read(message.control, &mut control)?;
            program::control::read(&control, &mut head);
        }
        datagram::send(socket.as_fd(), name, &head, &bytes)
    }

    fn receive(&self, socket: &OwnedFd, name: &Name, message: &Message) -> Result<usize, Errno> {
        if self.flags & datagram::MSG_ERRQUEUE != 0 {
            let told = datagram::take_report(socket.as_fd(), name)?;
            let control = Control::of_report(&told.report, control_room(message));
            let left = self.write_bytes(message, told.bytes())?;
            let flags = datagram::MSG_ERRQUEUE | if left > 0 { datagram::MSG_TRUNC } else { 0 };
            self.write_about(message, told.report.to, &control, flags)?;
            return Ok(told.bytes().len() - left);
        }
        let mut bytes = vec![0; BYTES_MAX];
        let peeks = self.flags & datagram::MSG_PEEK != 0;
        let (len, head) = datagram::receive(socket.as_fd(), name, &mut bytes, peeks)?;
        let left = self.write_bytes(message, bytes.get(..len).unwrap_or_default())?;
        let flags = if left == 0 { 0 } else { datagram::MSG_TRUNC };
        self.write_about(message, head.peer, &Control::of(&head, control_room(message)), flags)?;
        let is_all = self.flags & datagram::MSG_TRUNC != 0;
        Ok(if is_all { len } else { len - left })
    }

    /// Writes the bytes of a datagram into the buffers of a message, and returns the number of those that have no room.
    fn write_bytes(&self, message: &Message, bytes: &[u8]) -> Result<usize, Errno> {
        let mut rest = bytes;
        for (at, room) in &message.buffers {
            let room = usize::try_from(*room).unwrap_or(usize::MAX).min(rest.len());
            let (now, behind) = rest.split_at(room);
            self.caller.write(*at, now)?;
            rest = behind;
        }
        Ok(rest.len())
    }

    /// Writes what a call tells besides the bytes: the sender, control messages and flags.
    fn write_about(
        &self,
        message: &Message,
        from: SocketAddr,
        control: &Control,
        mut flags: i32,
    ) -> Result<(), Errno> {
        let (name, whole) = addr::emit(from);
        let name = name.get(..whole).unwrap_or_default();
        if message.at == 0 {
            return self.caller.write_with_len(name, message.name, message.name_len, true);
        }
        let field = |at: u64, bytes: &[u8]| self.caller.write(message.at.saturating_add(at), bytes);
        if message.name != 0 {
            let room = usize::try_from(message.name_len).unwrap_or(whole);
            self.caller.write(message.name, name.get(..room.min(whole)).unwrap_or_default())?;
            field(MSG_NAME_LEN_AT, &u32::try_from(whole).unwrap_or(0).to_ne_bytes())?;
        }
        self.caller.write(message.control, control.bytes())?;
        field(MSG_CONTROL_LEN_AT, &(control.bytes().len() as u64).to_ne_bytes())?;
        if control.is_cut {
            flags |= datagram::MSG_CTRUNC;
        }
        field(MSG_FLAGS_AT, &flags.to_ne_bytes())
    }
}

/// Bytes that a program has for control messages.
fn control_room(message: &Message) -> usize {
    if message.control == 0 { 0 } else { usize::try_from(message.control_len).unwrap_or(0) }
}
