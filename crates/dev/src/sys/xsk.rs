//! Unsafe: lends memory to the kernel as UMEM.
//!
//! AF_XDP sockets: making one, its memory, its rings, and binding it to a receive queue.
//!
//! In order: [`XskSocket::new`], [`XskSocket::register_umem`], [`XskSocket::map_rings`], [`XskSocket::bind`].
//! A second socket over the same memory (another queue, another interface) leaves out the registration and
//! calls [`XskSocket::bind_shared`]; it has rings of its own, all four.
#![expect(unsafe_code, reason = "the kernel writes into the UMEM behind the compiler's back")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt as xdp_opt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags, XdpRingOffset, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use super::mmap::Mapping;
use super::sockopt;
use super::xsk_ring::{CompletionRing, FillRing, FromMapping, RxRing, TxRing, bytes};

pub use rustix::net::xdp::XdpStatistics;

/// Bytes that the kernel keeps free before each received frame, besides [`Umem::headroom`].
pub const XDP_PACKET_HEADROOM: u32 = 256;

/// Why an AF_XDP socket could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XskError {
    /// The process may not do this.
    #[error("{doing}: needs CAP_NET_RAW (or root)")]
    Permission {
        /// The operation.
        doing: &'static str,
    },
    /// The kernel has no AF_XDP.
    #[error("this kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS)")]
    Unsupported,
    /// Too much locked memory.
    #[error("no permission to lock the UMEM in memory: raise `ulimit -l`, or add CAP_IPC_LOCK")]
    LockedMemory,
    /// Another socket is bound to the queue.
    #[error(
        "queue {queue} of interface {ifindex} is used by another AF_XDP socket; stop the program that has it"
    )]
    Busy {
        /// The interface.
        ifindex: u32,
        /// The receive queue.
        queue: u32,
    },
    /// The driver cannot do what was asked for.
    #[error("interface {ifindex}, queue {queue}: the driver does not support {what}")]
    NotOffered {
        /// The interface.
        ifindex: u32,
        /// The receive queue.
        queue: u32,
        /// The missing feature.
        what: &'static str,
    },
    /// The kernel refused for another reason.
    #[error("{doing}: {source}")]
    Refused {
        /// The operation.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
}

impl XskError {
    /// Whether the kernel gave this error number, and it means nothing more particular.
    pub(crate) fn is(&self, errno: i32) -> bool {
        matches!(self, Self::Refused { source, .. } if source.raw_os_error() == Some(errno))
    }
}

/// Memory for frames, to be lent to the kernel.
#[derive(Debug, Clone, Copy)]
pub struct Umem {
    /// The first byte; at a page boundary.
    pub start: *mut u8,
    /// Length in bytes.
    pub len: u64,
    /// Bytes of a chunk: what the kernel takes at each address in the fill ring. A received frame, or piece
    /// of one, is at most [`XDP_PACKET_HEADROOM`] and `headroom` shorter. 2048 to 4096; a power of two
    /// unless `unaligned`.
    pub chunk_size: u32,
    /// Bytes to keep free before a frame, besides [`XDP_PACKET_HEADROOM`].
    pub headroom: u32,
    /// Chunks may begin anywhere, not only at multiples of `chunk_size`.
    pub unaligned: bool,
}

/// Entries of each ring; powers of two.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "they are the names of the rings")]
pub struct RingSizes {
    pub fill: u32,
    pub completion: u32,
    pub rx: u32,
    pub tx: u32,
}

/// The rings of a socket.
#[derive(Debug)]
#[expect(missing_docs, reason = "they are the names of the rings")]
pub struct Rings {
    pub fill: FillRing,
    pub completion: CompletionRing,
    pub rx: RxRing,
    pub tx: TxRing,
}

/// A receive queue of an interface; the transmit queue has the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Queue {
    pub ifindex: u32,
    pub queue: u32,
}

/// Whether frames are copied between the driver's memory and the UMEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyMode {
    /// No copy where the driver can, else copy; [`XskSocket::is_zero_copy`] says which.
    Auto,
    /// Copy: every driver can.
    Copy,
    /// No copy, or an error.
    ZeroCopy,
}

/// Options of bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindOptions {
    /// Copy or not.
    pub copy: CopyMode,
    /// The kernel may sleep, and says in the rings when it must be woken.
    pub need_wakeup: bool,
    /// Frames longer than a chunk come, and go, as several descriptors (Linux 6.6).
    pub multi_buffer: bool,
}

/// An AF_XDP socket.
#[derive(Debug)]
pub struct XskSocket(OwnedFd);

impl XskSocket {
    /// Opens a socket in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`XskError::Permission`], [`XskError::Unsupported`].
    pub fn new() -> Result<Self, XskError> {
        match socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None) {
            Ok(fd) => Ok(Self(fd)),
            Err(Errno::AFNOSUPPORT) => Err(XskError::Unsupported),
            Err(e) => Err(refused("open an AF_XDP socket")(e)),
        }
    }

    /// Lends memory to the kernel, once per socket, before it is bound.
    ///
    /// # Safety
    /// The memory must be valid, and not be touched through Rust references where the kernel owns it (from
    /// when a chunk is given to the fill or the transmit ring, until it comes back by the receive or the
    /// completion ring), until this socket and all that share its memory are closed.
    ///
    /// # Errors
    /// [`XskError::LockedMemory`]; [`XskError::Refused`] with `EINVAL` for a size that does not fit.
    pub unsafe fn register_umem(&self, umem: &Umem) -> Result<(), XskError> {
        let flags = if umem.unaligned {
            XdpUmemRegFlags::XDP_UMEM_UNALIGNED_CHUNK_FLAG
        } else {
            XdpUmemRegFlags::empty()
        };
        let region = XdpUmemReg {
            addr: umem.start as u64,
            len: umem.len,
            chunk_size: umem.chunk_size,
            headroom: umem.headroom,
            flags,
            tx_metadata_len: 0,
        };
        xdp_opt::set_xdp_umem_reg(&self.0, region).map_err(|e| match e {
            Errno::NOBUFS => XskError::LockedMemory,
            other => refused("register the UMEM")(other),
        })
    }

    /// Makes the four rings; once per socket, before it is bound.
    ///
    /// # Errors
    /// [`XskError::Refused`] with `EINVAL` for a size that is no power of two, `ENOMEM` for one too large.
    pub fn map_rings(&self, sizes: RingSizes) -> Result<Rings, XskError> {
        let fd = &self.0;
        xdp_opt::set_xdp_umem_fill_ring_size(fd, sizes.fill).map_err(refused("make the fill ring"))?;
        xdp_opt::set_xdp_umem_completion_ring_size(fd, sizes.completion)
            .map_err(refused("make the completion ring"))?;
        xdp_opt::set_xdp_rx_ring_size(fd, sizes.rx).map_err(refused("make the receive ring"))?;
        xdp_opt::set_xdp_tx_ring_size(fd, sizes.tx).map_err(refused("make the transmit ring"))?;
        let at = xdp_opt::xdp_mmap_offsets(fd).map_err(refused("ask for the layout of the rings"))?;
        Ok(Rings {
            fill: self.map(at.fr, sizes.fill, XDP_UMEM_PGOFF_FILL_RING)?,
            completion: self.map(at.cr, sizes.completion, XDP_UMEM_PGOFF_COMPLETION_RING)?,
            rx: self.map(at.rx, sizes.rx, XDP_PGOFF_RX_RING)?,
            tx: self.map(at.tx, sizes.tx, XDP_PGOFF_TX_RING)?,
        })
    }

    /// Binds the socket that registered the memory to a queue.
    ///
    /// # Errors
    /// [`XskError::Busy`]; [`XskError::NotOffered`] if the driver has no zero-copy, or no pieces.
    pub fn bind(&self, to: Queue, options: &BindOptions) -> Result<(), XskError> {
        let address = SocketAddrXdp::new(options.flags(), to.ifindex, to.queue);
        bind(&self.0, &address).map_err(|e| not_bound(e, to, options))
    }

    /// Binds a further socket over the memory of `owner`, which is bound already; its options hold here too.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn bind_shared(&self, to: Queue, owner: &Self) -> Result<(), XskError> {
        // Any other flag is EINVAL: the kernel takes them over from the owner.
        let flags = SocketAddrXdpFlags::XDP_SHARED_UMEM;
        let addr = SocketAddrXdp::new(flags, to.ifindex, to.queue);
        let address = SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: owner.0.as_fd() };
        bind(&self.0, &address).map_err(|e| not_bound(e, to, &BindOptions::default()))
    }

    /// Tells the kernel to send what is queued: at most 32 frames, or the budget, for each call.
    /// Answers `false` if it stopped before the end: at the budget, or because it is busy or out of room for
    /// completions. Ask again once completions were taken.
    ///
    /// # Errors
    /// `NetworkDown` when the interface is down or gone, and what the driver says.
    pub fn kick(&self) -> io::Result<bool> {
        match send(&self.0, &[], SendFlags::DONTWAIT) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Tells the kernel to look at the fill ring, where that says so ([`FillRing::needs_wakeup`]).
    ///
    /// # Errors
    /// `NetworkDown` when the interface is down or gone.
    pub fn wake_receiver(&self) -> io::Result<()> {
        match recv(&self.0, &mut [0_u8; 0], RecvFlags::DONTWAIT) {
            Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Raises how many frames one [`Self::kick`] sends: from 32 to the size of the transmit ring, which must
    /// have been made (Linux 6.16; before, it is 32 for ever).
    ///
    /// # Errors
    /// [`XskError::Refused`] outside these limits, and on older kernels.
    pub fn set_tx_budget(&self, frames: u16) -> Result<(), XskError> {
        const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
        const DOING: &str = "raise the transmit budget (32 to the size of the transmit ring)";
        sockopt::set_int(&self.0, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, i32::from(frames))
            .map_err(|source| XskError::Refused { doing: DOING, source }) // EACCES means a wrong number here
    }

    /// Lets system calls on this socket run the driver's receive loop, for up to `micros` microseconds and
    /// `budget` frames, instead of interrupts.
    ///
    /// # Errors
    /// [`XskError::Permission`]: needs `CAP_NET_ADMIN`.
    pub fn prefer_busy_poll(&self, micros: u16, budget: u16) -> Result<(), XskError> {
        let set = |option, value: u16| {
            sockopt::set_int(&self.0, libc::SOL_SOCKET, option, i32::from(value))
                .map_err(failed("set busy polling"))
        };
        set(libc::SO_PREFER_BUSY_POLL, 1)?;
        set(libc::SO_BUSY_POLL, micros)?;
        set(libc::SO_BUSY_POLL_BUDGET, budget)
    }

    /// The kernel's counters of this socket.
    ///
    /// # Errors
    /// None is expected.
    pub fn statistics(&self) -> io::Result<XdpStatistics> {
        Ok(xdp_opt::xdp_statistics(&self.0)?)
    }

    /// Whether frames go without a copy; meaningful once bound.
    ///
    /// # Errors
    /// None is expected.
    pub fn is_zero_copy(&self) -> io::Result<bool> {
        Ok(xdp_opt::xdp_options(&self.0)?.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    fn map<R: FromMapping>(&self, at: XdpRingOffset, entries: u32, page_offset: u64) -> Result<R, XskError> {
        let doing = "map the rings";
        let odd = || failed(doing)(io::Error::other("the kernel's layout does not fit its mapping"));
        let layout = (at, entries);
        let len = bytes::<R>(&layout).ok_or_else(odd)?;
        let mapping = Mapping::shared(&self.0, len, page_offset).map_err(failed(doing))?;
        R::from_mapping(mapping, layout).ok_or_else(odd)
    }
}

impl AsFd for XskSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Default for BindOptions {
    fn default() -> Self {
        Self { copy: CopyMode::Auto, need_wakeup: true, multi_buffer: false }
    }
}

impl BindOptions {
    fn flags(&self) -> SocketAddrXdpFlags {
        let mut flags = match self.copy {
            CopyMode::Auto => SocketAddrXdpFlags::empty(),
            CopyMode::Copy => SocketAddrXdpFlags::XDP_COPY,
            CopyMode::ZeroCopy => SocketAddrXdpFlags::XDP_ZEROCOPY,
        };
        flags.set(SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP, self.need_wakeup);
        flags.set(SocketAddrXdpFlags::XDP_USE_SG, self.multi_buffer);
        flags
    }
}

fn not_bound(e: Errno, to: Queue, options: &BindOptions) -> XskError {
    let Queue { ifindex, queue } = to;
    let not_offered = |what| XskError::NotOffered { ifindex, queue, what };
    match e {
        Errno::BUSY => XskError::Busy { ifindex, queue },
        Errno::OPNOTSUPP if options.copy == CopyMode::ZeroCopy => not_offered("zero-copy"),
        Errno::OPNOTSUPP if options.multi_buffer => not_offered("frames in several pieces"),
        Errno::OPNOTSUPP => not_offered("AF_XDP"),
        other => refused("bind an AF_XDP socket to its queue")(other),
    }
}

fn refused(doing: &'static str) -> impl Fn(Errno) -> XskError {
    move |e| failed(doing)(e.into())
}

fn failed(doing: &'static str) -> impl Fn(io::Error) -> XskError {
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => XskError::Permission { doing },
        _ => XskError::Refused { doing, source },
    }
}
