//! Pairs of Unix sockets: the program's end and ours, their names, and descriptors that go over.

use core::mem::MaybeUninit;
use core::time::Duration;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, recvmsg, sendmsg,
    socketpair, sockopt,
};
use tokio::io::Interest;
use tokio::net::UnixStream;
use wire::program::{Name, Options, SockOpt};

/// Bytes of a program that go with a SYN at the most: what a segment carries on most links.
const EARLY_MAX: usize = 1460;

/// Makes a pair: the program's end blocks, as a socket of the kernel does at first, and ours does not. Ours has the name.
pub(super) fn pair(kind: SocketType, name: &Name) -> io::Result<(OwnedFd, OwnedFd)> {
    let (program, ours) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    bind(&ours, &SocketAddrUnix::new_abstract_name(&name.emit())?)?;
    Ok((program, ours))
}

/// Sets options at a program's end that the kernel keeps for any kind of socket, so that it answers them.
pub(super) fn dress(program: &OwnedFd, options: &Options) -> io::Result<()> {
    for (option, value) in options.iter() {
        let size = usize::try_from(value).unwrap_or(0);
        match option {
            SockOpt::KeepAlive => sockopt::set_socket_keepalive(program, value != 0)?,
            SockOpt::Broadcast => sockopt::set_socket_broadcast(program, value != 0)?,
            SockOpt::Linger => {
                let linger = u64::try_from(value).ok().map(Duration::from_secs);
                sockopt::set_socket_linger(program, linger)?;
            }
            SockOpt::SendBuffer => sockopt::set_socket_send_buffer_size(program, size)?,
            SockOpt::ReceiveBuffer => sockopt::set_socket_recv_buffer_size(program, size)?,
            _ => {}
        }
    }
    Ok(())
}

/// Bounds what waits for a program in our end of a connection's pair by its receive buffer, if it has chosen one: the peer is to
/// notice that it does not read.
pub(super) fn bound(ours: impl AsFd, options: &Options) -> io::Result<()> {
    match options.get(SockOpt::ReceiveBuffer).and_then(|bytes| usize::try_from(bytes).ok()) {
        Some(bytes) => Ok(sockopt::set_socket_send_buffer_size(ours, bytes)?),
        None => Ok(()),
    }
}

/// Returns the bytes that wait in a pair: for the program, and from it.
pub(super) fn queued(ours: impl AsFd) -> (u64, u64) {
    let unread = rustix::io::ioctl_fionread(&ours).unwrap_or(0);
    (dev::sys::unix_socket::unsent(ours.as_fd()).unwrap_or(0), unread)
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

/// Receives a message, and whether a descriptor came with it, which is closed.
pub(super) fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<(usize, bool)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = recvmsg(socket, &mut [IoSliceMut::new(into)], &mut control, flags)?;
    let is_marked = control.drain().any(|message| matches!(message, RecvAncillaryMessage::ScmRights(_)));
    Ok((got.bytes, is_marked))
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

/// Reads the first bytes of a program, no more than go with a SYN; `None`: it has closed its socket.
pub(super) async fn early(unix: &UnixStream) -> Option<Vec<u8>> {
    let mut bytes = vec![0; EARLY_MAX];
    loop {
        unix.readable().await.ok()?;
        match unix.try_read(&mut bytes) {
            Ok(0) if is_hung_up(unix) => return None,
            Ok(count) => {
                bytes.truncate(count);
                return Some(bytes);
            }
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
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

#[cfg(test)]
mod tests {
    use wire::program::{NO_ADDR, Role};

    use super::*;

    #[test]
    fn no_more_waits_for_a_program_than_its_receive_buffer_has_room_for() {
        let name = Name { role: Role::Stream, id: 1, local: NO_ADDR, remote: NO_ADDR };
        let mut options = Options::default();
        let room = |options: &Options| {
            let (_program, ours) = pair(SocketType::STREAM, &name).unwrap();
            bound(&ours, options).unwrap();
            let sent = || rustix::net::send(&ours, &[7; 1000], SendFlags::NOSIGNAL).ok();
            core::iter::from_fn(sent).sum::<usize>()
        };
        let usual = room(&options);
        options.set(SockOpt::ReceiveBuffer, 4096);
        let (small, most) = (room(&options), 4 * 4096);
        assert!(usual > most && (1..most).contains(&small), "{usual} {small}");
    }
}
