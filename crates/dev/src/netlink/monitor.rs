//! Changes of the interfaces of a network namespace and of their addresses, as the kernel reports them.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use super::NetlinkError;
use super::message::{answers, u32_at};

/// `RTMGRP_LINK`: interfaces that are made, changed and deleted; `RTMGRP_IPV4_IFADDR` and `RTMGRP_IPV6_IFADDR`: their
/// addresses.
const CHANGES: u32 = 1 | 0x10 | 0x100;
/// Offset of the interface's number in `struct ifinfomsg`.
const INDEX: usize = 4;
/// Datagrams read in one go: a flood of changes does not hold the caller for ever.
const AT_ONCE: usize = 256;

/// A non-blocking socket that is readable when interfaces have changed.
#[derive(Debug)]
pub struct LinkMonitor {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

/// Changes of interfaces and of their addresses since the last call of [`LinkMonitor::changes`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LinkChanges {
    /// Whether anything has changed. Also set when the kernel had no room to say what.
    pub any: bool,
    /// The numbers of interfaces that were deleted, or moved to another namespace.
    pub deleted: Vec<u32>,
}

impl LinkMonitor {
    /// Listens in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`NetlinkError::Open`].
    pub fn open() -> Result<Self, NetlinkError> {
        let open = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
            bind(&fd, &SocketAddrNetlink::new(0, CHANGES))?;
            Ok(Self { fd, buffer: vec![0; 1 << 16] })
        };
        open().map_err(|why: Errno| NetlinkError::Open(why.into()))
    }

    /// Reads what the kernel has said, without waiting.
    pub fn changes(&mut self) -> LinkChanges {
        let mut changes = LinkChanges::default();
        for _ in 0..AT_ONCE {
            match recv(&self.fd, self.buffer.as_mut_slice(), RecvFlags::DONTWAIT) {
                Ok((_, len)) => changes.read(self.buffer.get(..len).unwrap_or_default()),
                Err(Errno::INTR) => {}
                // The kernel had more to say than it could keep: look at everything.
                Err(Errno::NOBUFS) => changes.any = true,
                Err(_) => break,
            }
        }
        changes
    }
}

impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// For event loops that want a number.
impl AsRawFd for LinkMonitor {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl LinkChanges {
    fn read(&mut self, datagram: &[u8]) {
        for message in answers(datagram) {
            self.any = true;
            if message.kind == libc::RTM_DELLINK {
                self.deleted.extend(u32_at(message.body, INDEX));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Message;
    use super::*;

    #[test]
    fn deleted_interfaces_are_told_by_number_and_others_only_as_a_change() {
        let link = |kind, index: u32| {
            let mut body = [0; 16];
            body[INDEX..8].copy_from_slice(&index.to_ne_bytes());
            Message::new(kind, 0, &body).finish(1)
        };
        let mut changes = LinkChanges::default();
        changes.read(&[]);
        assert_eq!(changes, LinkChanges::default());
        changes.read(&link(libc::RTM_NEWLINK, 7));
        assert_eq!(changes, LinkChanges { any: true, deleted: vec![] });
        changes.read(&[link(libc::RTM_DELLINK, 8), link(libc::RTM_DELLINK, 9)].concat());
        assert_eq!(changes.deleted, [8, 9]);
    }
}
