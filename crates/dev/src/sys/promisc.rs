//! Promiscuous and all-multicast mode of an interface, for as long as the process wants it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::sockopt;

/// Holds an interface in promiscuous mode; the kernel ends it when this is dropped, also by a crash.
///
/// (The flag set by [`crate::netlink::Rtnetlink::set_promisc`] would stay.)
#[derive(Debug)]
pub struct Promisc(#[expect(dead_code, reason = "held for its close")] OwnedFd);

impl Promisc {
    /// Starts promiscuous mode on interface `ifindex` of this network namespace.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`; `NotFound`/`ENODEV` if there is no such interface.
    pub fn hold(ifindex: u32) -> io::Result<Self> {
        Self::with(ifindex, PACKET_MR_PROMISC)
    }

    /// Holds all-multicast mode: a device that would filter groups lets all pass.
    ///
    /// # Errors
    /// As [`Self::hold`].
    pub fn hold_groups(ifindex: u32) -> io::Result<Self> {
        Self::with(ifindex, PACKET_MR_ALLMULTI)
    }

    fn with(ifindex: u32, what: u16) -> io::Result<Self> {
        // Protocol 0: the socket itself receives nothing.
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let mut membership = [0_u8; 16]; // struct packet_mreq { int ifindex; u16 type, alen; u8 address[8] }
        membership[..4].copy_from_slice(&ifindex.to_ne_bytes());
        membership[4..6].copy_from_slice(&what.to_ne_bytes());
        sockopt::set(&fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        Ok(Self(fd))
    }
}

const PACKET_MR_PROMISC: u16 = 1;
const PACKET_MR_ALLMULTI: u16 = 2;
