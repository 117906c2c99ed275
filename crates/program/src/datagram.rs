//! What differs for sockets of datagrams. A message on the pair of one without a peer begins with a header ([`Head`]).

use core::net::SocketAddr;
use std::os::fd::BorrowedFd;

use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, getsockname, recv};
use wire::program::{HEAD_LEN, Head, NO_ADDR, Name};

/// Bytes of a message on a pair at the most.
const MESSAGE_MAX: usize = (64 << 10) + HEAD_LEN;

/// Whether messages of a socket begin with an address.
#[must_use]
pub fn is_addressed(name: &Name) -> bool {
    name.remote == NO_ADDR
}

/// Returns the local address of a socket of the kernel that is bound; else [`NO_ADDR`].
#[must_use]
pub fn bound(fd: BorrowedFd<'_>) -> SocketAddr {
    let local = getsockname(fd).ok().and_then(|local: SocketAddrAny| SocketAddr::try_from(local).ok());
    local.filter(|local| local.port() != 0).unwrap_or(NO_ADDR)
}

/// Gives back what waits to be received at a socket without a peer, which is about to get one.
pub(super) fn give_back(fd: BorrowedFd<'_>, name: &Name) {
    let mut bytes = if is_addressed(name) { vec![0; MESSAGE_MAX] } else { return };
    while let Ok((_, count)) = recv(fd, &mut bytes[..], RecvFlags::DONTWAIT)
        && count > 0
    {
        let message = bytes.get_mut(..count).unwrap_or_default();
        let Some(head) = Head::parse(message) else { continue };
        let Some(place) = message.first_chunk_mut() else { continue };
        *place = Head { is_returned: true, ..head }.emit();
        if rustix::net::send(fd, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
}
