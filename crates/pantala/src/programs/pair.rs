//! Pairs of Unix sockets: the program's end and ours, their names, and descriptors that go over.

use core::mem::MaybeUninit;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, bind, sendmsg, socketpair,
};
use tokio::io::Interest;
use tokio::net::UnixStream;
use wire::program::Name;

/// Makes a pair: the program's end blocks, as a socket of the kernel does at first, and ours does not. Ours has the name.
pub(super) fn pair(kind: SocketType, name: &Name) -> io::Result<(OwnedFd, OwnedFd)> {
    let (program, ours) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    bind(&ours, &SocketAddrUnix::new_abstract_name(&name.emit())?)?;
    Ok((program, ours))
}

/// Sends bytes, and a descriptor with the first of them.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let list: &[BorrowedFd<'_>] = descriptor.as_slice();
    if !list.is_empty() && !control.push(SendAncillaryMessage::ScmRights(list)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)?)
}

/// Tells whether no process has the other end any more, or it is shut down in both directions.
pub(super) fn is_hung_up(socket: impl AsFd) -> bool {
    polled(&socket, PollFlags::empty()).intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// Polls a socket for these events, now; some are reported unasked.
fn polled(socket: impl AsFd, events: PollFlags) -> PollFlags {
    let mut asked = [PollFd::new(&socket, events)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // An error has no events.
    let _ = poll(&mut asked, Some(&now));
    asked[0].revents()
}

/// Tells whether the program sends no more: what is read as empty is the end then, and not an empty message.
pub(super) fn is_shut(socket: impl AsFd) -> bool {
    !polled(&socket, PollFlags::RDHUP).is_empty()
}

/// Waits until the other end hangs up. It watches a descriptor of its own, so it takes no event from readers and writers.
pub(super) async fn hung_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    if is_hung_up(socket) {
        return Ok(());
    }
    let own = watched(socket.try_clone_to_owned()?)?;
    while !is_hung_up(&own) {
        // A hang-up closes the way out. That the way in has ended says nothing: tokio reports it again and again.
        own.writable().await?;
        let waits = || if is_hung_up(&own) { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) };
        // An event since `writable` is not lost.
        let _ = own.try_io(Interest::WRITABLE, waits);
    }
    Ok(())
}

/// Watches a Unix socket of any type.
pub(super) fn watched(socket: OwnedFd) -> io::Result<UnixStream> {
    UnixStream::from_std(socket.into())
}
