//! Routes, next hops and links of a network namespace as the kernel tells them: listed on request, and then as they change.
//! The bytes are for [`wire::rtnetlink`].

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use super::NetlinkError;
use super::message::Message;
use crate::sys::sockopt;

/// `RTMGRP_LINK`, and the addresses of both families.
const LINKS: u32 = 1 | 0x10 | 0x100;
/// `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_ROUTE`, and `RTNLGRP_NEXTHOP`.
const ROUTES: u32 = 0x40 | 0x400 | 1 << 31;
/// Bytes that may wait to be read: a message takes 816 of them, and the kernel makes some 60,000 in a second.
const BUFFER: i32 = 1 << 25;
/// `RTM_GETNEXTHOP`.
const GETNEXTHOP: u16 = 106;
/// Length of `struct ifinfomsg`, `struct rtmsg` and `struct nhmsg`.
const FIXED: [usize; 3] = [16, 12, 8];

/// A non-blocking socket on which the kernel tells of routes.
#[derive(Debug)]
pub struct RouteMonitor {
    fd: OwnedFd,
    buffer: Vec<u8>,
    sequence: u32,
}

/// A list that the kernel can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// Interfaces.
    Links,
    /// Next hops that have a number.
    NextHops,
    /// IPv4 routes of all tables.
    Routes4,
    /// IPv6 routes of all tables.
    Routes6,
}

/// The result of reading once.
#[derive(Debug)]
pub enum Heard<'a> {
    /// Messages.
    Messages(&'a [u8]),
    /// The kernel had more to say than there was room for, and has dropped it.
    Overrun,
    /// There is nothing now.
    Nothing,
}

impl RouteMonitor {
    /// Listens to routes, next hops, links and addresses in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`NetlinkError::Open`].
    pub fn open() -> Result<Self, NetlinkError> {
        Self::listening_to(LINKS | ROUTES)
    }

    /// Listens to links and addresses alone.
    ///
    /// # Errors
    /// [`NetlinkError::Open`].
    pub fn open_for_links() -> Result<Self, NetlinkError> {
        Self::listening_to(LINKS)
    }

    fn listening_to(groups: u32) -> Result<Self, NetlinkError> {
        let open = || {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
            // Without the right to, it becomes as large as everybody's may be.
            let forced = sockopt::set_int(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER);
            forced.or_else(|_| sockopt::set_int(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, BUFFER))?;
            bind(&fd, &SocketAddrNetlink::new(0, groups))?;
            Ok(Self { fd, buffer: vec![0; 1 << 16], sequence: 0 })
        };
        open().map_err(NetlinkError::Open)
    }

    /// Asks for a list; its messages have the number that is returned, and end with `NLMSG_DONE`. One list at a time.
    ///
    /// # Errors
    /// The kernel does not take the request.
    pub fn ask(&mut self, listing: Listing) -> io::Result<u32> {
        let [links, routes, next_hops] = FIXED;
        let (kind, family, len) = match listing {
            Listing::Links => (libc::RTM_GETLINK, libc::AF_UNSPEC, links),
            Listing::NextHops => (GETNEXTHOP, libc::AF_UNSPEC, next_hops),
            Listing::Routes4 => (libc::RTM_GETROUTE, libc::AF_INET, routes),
            Listing::Routes6 => (libc::RTM_GETROUTE, libc::AF_INET6, routes),
        };
        let mut fixed = [0; 16];
        fixed[0] = u8::try_from(family).unwrap_or_default();
        // 0 is the number of what was not asked for.
        self.sequence = self.sequence.checked_add(1).unwrap_or(1);
        let message = Message::new(kind, libc::NLM_F_DUMP, &fixed[..len]).finish(self.sequence);
        send(&self.fd, &message, SendFlags::empty())?;
        Ok(self.sequence)
    }

    /// Reads once, without waiting.
    ///
    /// # Errors
    /// The socket cannot be read any more.
    pub fn read(&mut self) -> io::Result<Heard<'_>> {
        match recv(&self.fd, self.buffer.as_mut_slice(), RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
            // What is longer than all that the kernel makes is lost as an overrun is.
            Ok((_, len)) => Ok(self.buffer.get(..len).map_or(Heard::Overrun, Heard::Messages)),
            Err(Errno::NOBUFS) => Ok(Heard::Overrun),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Heard::Nothing),
            Err(why) => Err(why.into()),
        }
    }
}

impl AsFd for RouteMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// For event loops that want a number.
impl AsRawFd for RouteMonitor {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
