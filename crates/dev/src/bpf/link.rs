//! Unsafe: `BPF_LINK_CREATE`, `BPF_LINK_DETACH`.
//!
//! An XDP program on an interface: held by a link, which goes when its descriptor is closed, also by a crash.
#![expect(unsafe_code, reason = "implements the unsafe trait Command for structures of links")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::prog::Program;
use super::syscall::{BpfError, Command, call, call_for_fd, refused};
use crate::netlink::{NetlinkError, Rtnetlink};

/// Where the program is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver, before a socket buffer is made. Not every driver can.
    Native,
    /// After the driver, on socket buffers: every interface can, slower.
    Generic,
}

impl XdpMode {
    /// `XDP_FLAGS_…` of `linux/if_link.h`.
    fn flags(self) -> u32 {
        match self {
            Self::Generic => 1 << 1,
            Self::Native => 1 << 2,
        }
    }
}

/// An attached program; detached when dropped.
#[derive(Debug)]
pub struct XdpLink {
    mode: XdpMode,
    held: Held,
}

impl XdpLink {
    /// Attaches `program` to interface `ifindex` of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`BpfError::Busy`]; [`BpfError::Refused`] with `EOPNOTSUPP` if the driver has no native mode, with
    /// `ERANGE` if the MTU needs a program loaded with `frags`.
    pub fn attach(program: &Program, ifindex: u32, mode: XdpMode) -> Result<Self, BpfError> {
        let mut create = Create {
            program: program.as_fd().as_raw_fd(),
            ifindex,
            attach_type: ATTACH_XDP,
            flags: mode.flags(),
        };
        let held = match call_for_fd(&mut create) {
            Ok(fd) => Held::ByLink(fd),
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Held::by_netlink(program, ifindex, mode)?,
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => return Err(BpfError::Busy { ifindex }),
            Err(e) => return Err(refused("attach an XDP program")(e)),
        };
        Ok(Self { mode, held })
    }

    /// Native where the driver can, generic otherwise; [`Self::mode`] says which.
    ///
    /// # Errors
    /// As [`Self::attach`].
    pub fn attach_best(program: &Program, ifindex: u32) -> Result<Self, BpfError> {
        match Self::attach(program, ifindex, XdpMode::Native) {
            Err(BpfError::Refused { .. } | BpfError::Netlink(_)) => {
                Self::attach(program, ifindex, XdpMode::Generic)
            }
            other => other,
        }
    }

    /// Where it runs.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Whether the kernel detaches it should the process die. Otherwise (before Linux 5.9) a crash leaves it
    /// attached, and [`Rtnetlink::detach_xdp`] cleans up.
    pub fn ends_with_process(&self) -> bool {
        matches!(self.held, Held::ByLink(_))
    }
}

/// The attachment of the program.
#[derive(Debug)]
enum Held {
    ByLink(OwnedFd),
    ByNetlink { socket: Rtnetlink, ifindex: u32 },
}

impl Held {
    /// For kernels that have no links for XDP; they answer `EINVAL` to the attempt.
    fn by_netlink(program: &Program, ifindex: u32, mode: XdpMode) -> Result<Self, BpfError> {
        let mut socket = Rtnetlink::open()?;
        match socket.attach_xdp(ifindex, program, mode.flags()) {
            Ok(()) => Ok(Self::ByNetlink { socket, ifindex }),
            Err(NetlinkError::Refused { source, .. }) if source.kind() == io::ErrorKind::ResourceBusy => {
                Err(BpfError::Busy { ifindex })
            }
            Err(other) => Err(other.into()),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        match self {
            // The close alone does not do it while a child of this process has yet to close its copy of the descriptor.
            Self::ByLink(fd) => _ = call(&mut Detach { link: fd.as_raw_fd() }),
            Self::ByNetlink { socket, ifindex } => _ = socket.detach_xdp(*ifindex),
        }
    }
}

/// `BPF_LINK_CREATE`
#[repr(C)]
struct Create {
    program: i32,
    ifindex: u32,
    attach_type: u32,
    flags: u32,
}

// SAFETY: laid out as the kernel's structure; no pointers.
unsafe impl Command for Create {
    const NUMBER: libc::c_long = 28;
}

/// `BPF_LINK_DETACH`
#[repr(C)]
struct Detach {
    link: i32,
}

// SAFETY: laid out as the kernel's structure; no pointers.
unsafe impl Command for Detach {
    const NUMBER: libc::c_long = 34;
}

const ATTACH_XDP: u32 = 37;
