//! The control channel: a Unix socket that keeps messages apart (`SOCK_SEQPACKET`), and descriptors beside them.

use core::mem::MaybeUninit;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, connect, listen,
    recvmsg, sendmsg, socket_with,
};

use super::fault::Fault;
use super::msg::{self, Msg, Text};
use crate::sys::caps::{self, CapabilitySet};
use crate::sys::unix_socket::{self, Access};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 8;
/// Flags of every socket: closed in child processes, and never blocking.
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// A socket that slaves connect to. Its file goes with it.
#[derive(Debug)]
pub(super) struct Listener {
    socket: OwnedFd,
    path: PathBuf,
}

impl Listener {
    /// Listens at `path` for the users that `access` admits. A stale socket file is replaced.
    pub(super) fn bind(path: &Path, access: &Access) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        if connect(socket()?, &address) == Err(Errno::CONNREFUSED) {
            std::fs::remove_file(path)?;
        }
        let socket = unix_socket::bound(SocketType::SEQPACKET, FLAGS, path, access)?;
        let listener = Self { socket, path: path.to_owned() };
        listen(&listener.socket, BACKLOG)?;
        Ok(listener)
    }

    /// Where it listens.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The next connection, if one waits.
    pub(super) fn accept(&self) -> Option<Channel> {
        accept_with(&self.socket, FLAGS).ok().map(Channel)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path); // perhaps somebody else did
    }
}

/// A connection. Nothing here ever blocks.
#[derive(Debug)]
pub(super) struct Channel(OwnedFd);

impl Channel {
    /// Connects to the master that listens at `path`, with the rights of root if this thread has kept them for that.
    pub(super) fn connect(path: &Path) -> Result<Self, Fault> {
        let connected = || {
            let (socket, address) = (socket()?, SocketAddrUnix::new(path)?);
            caps::raised(CapabilitySet::DAC_OVERRIDE, || connect(&socket, &address)).map(|()| Self(socket))
        };
        connected().map_err(|why| Fault::Connect { path: path.to_owned(), why })
    }

    /// Sends a message. The two ends take turns, so there is room for it unless the peer misbehaves.
    pub(super) fn send(&self, msg: &Msg, fd: Option<BorrowedFd<'_>>) -> Result<(), Fault> {
        let bytes = msg.encode();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let fd = fd.as_slice();
        if !fd.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(fd));
        }
        let sent = sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut beside, SendFlags::NOSIGNAL);
        match sent {
            Ok(_) => Ok(()),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(Fault::HungUp),
            Err(why) => Err(Fault::system("send to the peer")(why)),
        }
    }

    /// Tells the peer why it is over, unless it knows. Whether it still hears that is its own business.
    pub(super) fn farewell(&self, fault: &Fault) {
        if fault.is_news_to_the_peer() {
            let why = Text::new(&fault.to_string());
            let _ = self.send(&Msg::Disconnect { code: 0, why }, None);
        }
    }

    /// The next message and its descriptor; `None` if none waits. More descriptors than one are closed.
    pub(super) fn receive(&self) -> Result<Option<(Msg, Option<OwnedFd>)>, Fault> {
        let mut bytes = [0; msg::LEN + 1]; // one more, to see when a message is longer
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut receive = || {
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut beside, flags)
        };
        // A peer that went without having read everything is reported once, before what it said last.
        let got = receive().or_else(|why| if why == Errno::CONNRESET { receive() } else { Err(why) });
        let got = match got {
            Ok(got) if got.bytes == 0 => return Err(Fault::HungUp),
            Ok(got) => got,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(Errno::CONNRESET) => return Err(Fault::HungUp),
            Err(why) => return Err(Fault::system("hear the peer")(why)),
        };
        let mut fds = beside.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let fd = fds.next().and_then(|mut fds| fds.next());
        let whole = !got.flags.contains(ReturnFlags::TRUNC);
        let msg = Msg::decode(bytes.get(..got.bytes).filter(|_| whole).unwrap_or(&bytes))?;
        Ok(Some((msg, fd)))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn socket() -> rustix::io::Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)
}
