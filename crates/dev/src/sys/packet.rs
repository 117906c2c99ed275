//! Unsafe: `bind`, `recvmsg` and `getsockopt` on packet sockets, which rustix does not know.
//!
//! A packet socket: copies of frames that an interface receives, on their way to the kernel.
#![expect(unsafe_code, reason = "the calls take pointers to structures that depend on the kind of socket")]

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::sockopt;
use crate::bpf::prog::Program;

/// A packet socket that receives whole frames, non-blocking.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

/// A received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its length, which may be more than there was room for.
    pub len: usize,
    /// The outer tag, which the kernel has taken off: its type, and its control information.
    pub tag: Option<[u16; 2]>,
}

impl PacketSocket {
    /// Opens one on interface `ifindex` of this network namespace, for received frames of which `filter` keeps some.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`; `ENODEV` if there is no such interface.
    pub fn open(ifindex: u32, filter: &Program) -> io::Result<Self> {
        // Without a protocol it receives nothing until the filter is there.
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        sockopt::set_int(&fd, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, filter.as_fd().as_raw_fd())?;
        sockopt::set_int(&fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        sockopt::set_int(&fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
        let address = libc::sockaddr_ll {
            sll_family: AF_PACKET,
            sll_protocol: ALL_PROTOCOLS.to_be(),
            sll_ifindex: ifindex.cast_signed(),
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the kernel reads one `sockaddr_ll` of the length given, and keeps no pointer.
        let bound = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), ADDRESS_LEN) };
        if bound == 0 { Ok(Self(fd)) } else { Err(io::Error::last_os_error()) }
    }

    /// Receives a frame; `None` if there is none now.
    ///
    /// # Errors
    /// `ENETDOWN` once after the interface went down.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Received>> {
        let mut slice = IoSliceMut::new(buffer);
        let mut control = Control([0; CONTROL_LEN]);
        // SAFETY: all zeros is a valid `msghdr`: no name, no slices, no control data.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_iov = (&raw mut slice).cast();
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL_LEN as _;
        // SAFETY: the kernel writes into the buffer and the control data, both as long as it is told, and into the header.
        // `IoSliceMut` has the layout of `iovec`.
        let len = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) };
        let Ok(len) = usize::try_from(len) else {
            let error = io::Error::last_os_error();
            let is_none = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            return if is_none { Ok(None) } else { Err(error) };
        };
        let there = control.0.get(..message.msg_controllen as usize).unwrap_or_default();
        Ok(Some(Received { len, tag: tag(there) }))
    }

    /// Frames that found the receive buffer full since the last call.
    ///
    /// # Errors
    /// None is expected.
    pub fn dropped(&self) -> io::Result<u32> {
        let mut counts = [0_u32; 2]; // struct tpacket_stats { packets, drops }
        let mut len: libc::socklen_t = 8;
        // SAFETY: the kernel writes no more than `len` bytes into `counts`.
        let asked = unsafe {
            let into = counts.as_mut_ptr().cast();
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                into,
                &raw mut len,
            )
        };
        if asked == 0 { Ok(counts[1]) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Reads `struct tpacket_auxdata` in the first control message: the tag, if the frame had one.
fn tag(control: &[u8]) -> Option<[u16; 2]> {
    const HAS_TAG: u32 = 1 << 4; // TP_STATUS_VLAN_VALID
    const HAS_TYPE: u32 = 1 << 6; // TP_STATUS_VLAN_TPID_VALID
    const CUSTOMER: u16 = 0x8100;
    let word = |at: usize| Some(i32::from_ne_bytes(control.get(at..at + 4)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_ne_bytes(control.get(at..at + 2)?.try_into().ok()?));
    let level = size_of::<usize>();
    if (word(level)?, word(level + 4)?) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
        return None;
    }
    let data = level + 8;
    let status = word(data)?.cast_unsigned();
    let kind = if status & HAS_TYPE == 0 { CUSTOMER } else { half(data + 18)? };
    (status & HAS_TAG != 0).then_some([kind, half(data + 16)?])
}

/// Room for a `cmsghdr` with a `tpacket_auxdata`.
#[repr(align(8))]
struct Control([u8; CONTROL_LEN]);

const CONTROL_LEN: usize = 64;
const AF_PACKET: u16 = 17;
/// `ETH_P_ALL`
const ALL_PROTOCOLS: u16 = 3;
/// Length of `struct sockaddr_ll`.
const ADDRESS_LEN: libc::socklen_t = 20;
const _: () = assert!(size_of::<libc::sockaddr_ll>() == 20);
const PACKET_IGNORE_OUTGOING: i32 = 23;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_only_if_the_kernel_says_that_there_is_one() {
        let message = |status: u32, tci: u16, tpid: u16| {
            let mut bytes = vec![0; size_of::<usize>()];
            bytes.extend(libc::SOL_PACKET.to_ne_bytes());
            bytes.extend(libc::PACKET_AUXDATA.to_ne_bytes());
            [status, 60, 60].iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
            [0, 14, tci, tpid].iter().for_each(|half: &u16| bytes.extend(half.to_ne_bytes()));
            bytes
        };
        assert_eq!(tag(&message(0x1, 10, 0x8100)), None);
        assert_eq!(tag(&message(0x51, 10, 0x88a8)), Some([0x88a8, 10]));
        assert_eq!(tag(&message(0x11, 10, 0)), Some([0x8100, 10]));
        let whole = message(0x51, 10, 0x88a8);
        (0..whole.len()).for_each(|cut| assert_eq!(tag(&whole[..cut]), None, "{cut}"));
    }
}
