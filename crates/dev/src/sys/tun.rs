//! Unsafe: `ioctl(2)` on TAP and TUN queues.
//!
//! TAP and TUN interfaces with several queues, virtio headers, and a steering program.
#![expect(unsafe_code, reason = "ioctl takes a pointer whose meaning depends on the request")]

use core::fmt;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::vnet_hdr::VNET_HDR_LEN;
use super::{fdinfo, process, tun_reserve};
use crate::bpf::prog::Program;
use crate::netlink::Rtnetlink;

/// Why a TAP or TUN interface could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunError {
    /// The kernel has no TUN/TAP driver, or it is not loaded.
    #[error("no /dev/net/tun: `modprobe tun`, or make the node (mknod /dev/net/tun c 10 200)")]
    NoDevice,
    /// The device node belongs to others.
    #[error(
        "may not open /dev/net/tun: it must be readable and writable for this user (usually mode 0666), or pantala be started as root"
    )]
    NodeForbidden,
    /// A name the kernel would not take.
    #[error("{0:?} cannot name an interface: use 1 to 15 bytes, no '/' and no blanks")]
    BadName(String),
    /// The process may not do this.
    #[error("{layer} interface {name}: needs CAP_NET_ADMIN (run as root, or in a user namespace)")]
    Permission {
        /// TAP or TUN.
        layer: Layer,
        /// The interface.
        name: String,
    },
    /// A process has it open: this one, or another.
    #[error("{layer} interface {name} is busy: {} has it open", holder(*.pid))]
    Busy {
        /// TAP or TUN.
        layer: Layer,
        /// The interface.
        name: String,
        /// The process, if this one may see it.
        pid: Option<u32>,
    },
    /// An interface of this name is there, and no such TAP or TUN.
    #[error(
        "interface {name} is no {layer} with several queues; `ip tuntap add {name} mode {} multi_queue` makes one",
        layer.mode()
    )]
    NoTap {
        /// TAP or TUN.
        layer: Layer,
        /// The interface.
        name: String,
    },
    /// The kernel refused for another reason.
    #[error("{layer} interface {name}: {doing}: {source}")]
    Refused {
        /// TAP or TUN.
        layer: Layer,
        /// The interface.
        name: String,
        /// The operation.
        doing: &'static str,
        /// The reason.
        source: io::Error,
    },
}

/// The layer of an interface whose other end is a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Ethernet frames: TAP.
    Frames,
    /// IP packets: TUN.
    Packets,
}

impl Layer {
    /// The word of `ip tuntap` for it.
    const fn mode(self) -> &'static str {
        match self {
            Self::Frames => "tap",
            Self::Packets => "tun",
        }
    }

    /// Flags of its queues, to be passed to `TUNSETIFF`.
    const fn flags(self) -> i16 {
        match self {
            Self::Frames => IFF_TAP | QUEUE_FLAGS,
            Self::Packets => IFF_TUN | QUEUE_FLAGS,
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Frames => "TAP",
            Self::Packets => "TUN",
        })
    }
}

/// A TAP or TUN interface. It goes when all queues are closed, unless it is persistent.
#[derive(Debug)]
pub struct Tap {
    /// Its name.
    pub name: String,
    /// Its queues; each may be moved to a thread of its own.
    pub queues: Vec<TapQueue>,
    /// Offloads left to us by the kernel.
    pub offload: Offload,
}

/// Offloads that the kernel leaves to the reader of a TAP queue; writing such frames is always allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// Frames are whole and small.
    Nothing,
    /// Checksums, and TCP super-packets.
    Tcp,
    /// Checksums, and TCP and UDP super-packets (Linux 6.2).
    TcpAndUdp,
}

impl Tap {
    /// Opens, or makes, a TAP, as [`Self::open_as`] does.
    ///
    /// # Errors
    /// [`TunError`].
    pub fn open(name: &str, queues: usize) -> Result<Self, TunError> {
        Self::open_as(Layer::Frames, name, queues)
    }

    /// Opens, or makes, the interface in the network namespace of the calling thread, with `queues` queues
    /// (1 to 256), non-blocking, each frame preceded by a [`super::vnet_hdr::VnetHdr`]. A name with `%d`
    /// lets the kernel count. It is down at first. One that is there already must not be open anywhere: the kernel
    /// would deal its frames to both owners.
    ///
    /// # Errors
    /// [`TunError`].
    pub fn open_as(layer: Layer, name: &str, queues: usize) -> Result<Self, TunError> {
        if name.is_empty() || name.len() > 15 || name.bytes().any(|b| b == b'/' || b.is_ascii_whitespace()) {
            return Err(TunError::BadName(name.to_owned()));
        }
        let (first, name) = Self::open_first(layer, name)?;
        let offload = first.offload_most().map_err(refused(layer, &name, "set offloads"))?;
        let mut all = vec![first];
        for _ in 1..queues {
            all.push(TapQueue::open(layer, &name, 0)?.0);
        }
        Ok(Self { name, queues: all, offload })
    }

    /// Makes the interface, or opens one that is there and that no process has open.
    fn open_first(layer: Layer, name: &str) -> Result<(TapQueue, String), TunError> {
        match TapQueue::open(layer, name, EXCLUSIVE) {
            Err(TunError::Busy { .. }) => {}
            other => return other,
        }
        if open_queues(layer, name)? > 0 {
            return Err(busy(layer, name));
        }
        let first = TapQueue::open(layer, name, 0)?;
        // Two that begin at the same moment have both seen none: neither gets it.
        if open_queues(layer, name)? > 1 { Err(busy(layer, name)) } else { Ok(first) }
    }

    /// Lets the kernel finish checksums and cut super-packets before it gives them to us.
    ///
    /// # Errors
    /// [`TunError::Refused`].
    pub fn take_whole_frames(&mut self) -> Result<(), TunError> {
        self.on_first(TapQueue::offload_nothing, "set offloads")?;
        self.offload = Offload::Nothing;
        Ok(())
    }

    /// Lets `program` choose the queue of each frame: its result modulo the number of attached queues.
    ///
    /// # Errors
    /// [`TunError::Refused`].
    pub fn steer(&self, program: &Program) -> Result<(), TunError> {
        let mut fd = program.as_fd().as_raw_fd();
        self.on_first(|q| q.ioctl(libc::TUNSETSTEERINGEBPF, &mut fd), "set the steering program")
    }

    /// Whether the interface stays when all queues are closed. It does not, unless set.
    ///
    /// # Errors
    /// [`TunError::Refused`].
    pub fn set_persistent(&self, stays: bool) -> Result<(), TunError> {
        self.on_first(|q| q.ioctl_value(libc::TUNSETPERSIST, u32::from(stays)), "set persistence")
    }

    /// Lets the user `uid` attach queues to it, and processes with `CAP_NET_ADMIN`. Without an owner every user may.
    ///
    /// # Errors
    /// [`TunError::Refused`]: the user namespace has no such user.
    pub fn set_owner(&self, uid: u32) -> Result<(), TunError> {
        self.on_first(|q| q.ioctl_value(libc::TUNSETOWNER, uid), "set its owner")
    }

    fn on_first(
        &self,
        f: impl FnOnce(&TapQueue) -> io::Result<()>,
        doing: &'static str,
    ) -> Result<(), TunError> {
        let Some(first) = self.queues.first() else { return Ok(()) };
        f(first).map_err(refused(first.layer, &self.name, doing))
    }
}

/// One queue of a TAP or TUN interface; non-blocking.
#[derive(Debug)]
pub struct TapQueue {
    fd: ManuallyDrop<OwnedFd>,
    layer: Layer,
    /// The interface was deleted: the descriptor belongs to none.
    is_gone: AtomicBool,
}

impl TapQueue {
    /// Returns whether it has frames or packets.
    #[must_use]
    pub const fn layer(&self) -> Layer {
        self.layer
    }

    /// Receives one frame, virtio header first, into the buffers in order; `None` if there is none now.
    /// Answers its length, the header included; what does not fit is cut off.
    ///
    /// # Errors
    /// `EBADFD` when the interface is gone, `EIO` when it is down.
    pub fn readv(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        self.result(rustix::io::readv(&*self.fd, buffers))
    }

    /// Sends one frame, virtio header first, from the buffers in order; `None` if it cannot be taken now.
    ///
    /// # Errors
    /// `EINVAL` for a header that does not fit its frame, `EIO` when the interface is down.
    pub fn writev(&self, buffers: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        self.result(rustix::io::writev(&*self.fd, buffers))
    }

    fn result(&self, done: rustix::io::Result<usize>) -> io::Result<Option<usize>> {
        if done == Err(Errno::BADFD) {
            self.is_gone.store(true, Ordering::Relaxed);
        }
        none_if_again(done)
    }

    /// Detaches the queue: it gets no more frames, which go to the others; [`Self::attach`] undoes it.
    ///
    /// # Errors
    /// `EINVAL` if it is detached already.
    pub fn detach(&self) -> io::Result<()> {
        self.set_queue(libc::IFF_DETACH_QUEUE)
    }

    /// Attaches the queue again; it comes last among the queues.
    ///
    /// # Errors
    /// `EINVAL` if it is attached already.
    pub fn attach(&self) -> io::Result<()> {
        self.set_queue(libc::IFF_ATTACH_QUEUE)
    }

    fn open(layer: Layer, name: &str, how: i16) -> Result<(Self, String), TunError> {
        let fd = match tun_reserve::open() {
            Err(Errno::NOENT | Errno::NODEV | Errno::NXIO) => return Err(TunError::NoDevice),
            Err(Errno::ACCESS | Errno::PERM) => return Err(TunError::NodeForbidden),
            other => other.map_err(|e| refused(layer, name, "open /dev/net/tun")(e.into()))?,
        };
        let queue = Self { fd: ManuallyDrop::new(fd), layer, is_gone: AtomicBool::new(false) };
        let name = queue.set_interface(name, how)?;
        queue.set_header().map_err(refused(layer, &name, "set the header"))?;
        Ok((queue, name))
    }

    /// `TUNSETIFF`; answers the name that the kernel chose.
    fn set_interface(&self, name: &str, how: i16) -> Result<String, TunError> {
        let (layer, mut request) = (self.layer, IfReq::new(name));
        request.flags = layer.flags() | how;
        self.ioctl(libc::TUNSETIFF, &mut request).map_err(|e| match e.raw_os_error() {
            Some(libc::EBUSY) => busy(layer, name),
            Some(libc::EINVAL) => TunError::NoTap { layer, name: name.to_owned() },
            _ => refused(layer, name, "open a queue")(e),
        })?;
        Ok(request.name())
    }

    fn set_header(&self) -> io::Result<()> {
        let mut len = i32::try_from(VNET_HDR_LEN).map_err(io::Error::other)?;
        self.ioctl(libc::TUNSETVNETHDRSZ, &mut len)?;
        self.ioctl(libc::TUNSETVNETLE, &mut 1_i32)
    }

    /// Asks for as much as the kernel knows.
    fn offload_most(&self) -> io::Result<Offload> {
        let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        let udp = libc::TUN_F_USO4 | libc::TUN_F_USO6;
        for (bits, offload) in [(tcp | udp, Offload::TcpAndUdp), (tcp, Offload::Tcp)] {
            if self.ioctl_value(libc::TUNSETOFFLOAD, bits).is_ok() {
                return Ok(offload);
            }
        }
        self.offload_nothing().map(|()| Offload::Nothing)
    }

    fn offload_nothing(&self) -> io::Result<()> {
        self.ioctl_value(libc::TUNSETOFFLOAD, 0)
    }

    fn set_queue(&self, flag: i32) -> io::Result<()> {
        let mut request = IfReq::new("");
        request.flags = i16::try_from(flag).map_err(io::Error::other)?;
        self.ioctl(libc::TUNSETQUEUE, &mut request)
    }

    /// A request that reads or writes the structure it is given.
    fn ioctl<T: TunArgument>(&self, request: libc::Ioctl, argument: &mut T) -> io::Result<()> {
        // SAFETY: the requests of this file take a pointer to an int or to a struct ifreq; `TunArgument` is
        // implemented for these two only, and each call above passes the one that belongs to its request.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), request, core::ptr::from_mut(argument)) })
    }

    /// A request whose argument is a number, not a pointer.
    fn ioctl_value(&self, request: libc::Ioctl, value: u32) -> io::Result<()> {
        // SAFETY: the requests of this kind (TUNSETOFFLOAD, TUNSETPERSIST, TUNSETOWNER) touch no memory of ours.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), request, libc::c_ulong::from(value)) })
    }
}

impl Drop for TapQueue {
    fn drop(&mut self) {
        // The queue may not have been read since its interface was deleted. A frame that is lost here had no reader.
        let _ = self.readv(&mut [IoSliceMut::new(&mut [0])]);
        // SAFETY: nothing uses the field after this.
        let fd = unsafe { ManuallyDrop::take(&mut self.fd) };
        if *self.is_gone.get_mut() {
            tun_reserve::give_back(fd);
        }
    }
}

impl AsFd for TapQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A type that may be passed by pointer.
trait TunArgument {}
impl TunArgument for i32 {}
impl TunArgument for IfReq {}

/// `struct ifreq` with the member that TUN uses.
#[repr(C)]
struct IfReq {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

impl IfReq {
    /// The name must be shorter than 16 bytes; what is longer is cut off.
    fn new(name: &str) -> Self {
        let mut request = Self { name: [0; 16], flags: 0, rest: [0; 22] };
        request.name[..15].iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        request
    }

    fn name(&self) -> String {
        String::from_utf8_lossy(self.name.split(|&b| b == 0).next().unwrap_or_default()).into_owned()
    }
}

fn check(answer: i32) -> io::Result<()> {
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn none_if_again(result: Result<usize, Errno>) -> io::Result<Option<usize>> {
    match result {
        Ok(n) => Ok(Some(n)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn refused(layer: Layer, name: &str, doing: &'static str) -> impl Fn(io::Error) -> TunError {
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => TunError::Permission { layer, name: name.to_owned() },
        _ => TunError::Refused { layer, name: name.to_owned(), doing, source },
    }
}

/// The queues of a TAP that processes have open.
fn open_queues(layer: Layer, name: &str) -> Result<u32, TunError> {
    let link = Rtnetlink::open().and_then(|mut netlink| netlink.link(name));
    let link = link.map_err(|why| refused(layer, name, "find it")(why.into()))?;
    match link.open_queues {
        Some(queues) => Ok(queues),
        // With one queue, and open: by a program that knows no more.
        None if link.kind.as_deref() == Some("tun") && holder_of(name).is_some() => Err(busy(layer, name)),
        None => Err(TunError::NoTap { layer, name: name.to_owned() }),
    }
}

fn busy(layer: Layer, name: &str) -> TunError {
    TunError::Busy { layer, name: name.to_owned(), pid: holder_of(name) }
}

/// A process of this namespace that has the TAP open.
fn holder_of(name: &str) -> Option<u32> {
    fdinfo::holder_in_this_netns(|info| fdinfo::field(info, "iff") == Some(name))
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid} ({})", process::name_of(pid)),
    )
}

/// Packets without frames.
const IFF_TUN: i16 = 0x0001;
/// Frames.
const IFF_TAP: i16 = 0x0002;
/// `IFF_NO_PI | IFF_MULTI_QUEUE | IFF_VNET_HDR`
const QUEUE_FLAGS: i16 = 0x1000 | 0x0100 | 0x4000;
/// `IFF_TUN_EXCL`: an error if the interface is there.
const EXCLUSIVE: i16 = 0x8000_u16.cast_signed();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_kernel_would_cut_are_refused() {
        for bad in ["", "sixteen-bytes-xx", "a/b", "a b"] {
            assert!(matches!(Tap::open(bad, 1), Err(TunError::BadName(_))), "{bad}");
        }
    }

    #[test]
    fn the_request_structure_has_the_kernels_size() {
        assert_eq!(size_of::<IfReq>(), size_of::<libc::ifreq>());
        assert_eq!(i32::from(EXCLUSIVE.cast_unsigned()), libc::IFF_TUN_EXCL);
        for (layer, bit) in [(Layer::Frames, libc::IFF_TAP), (Layer::Packets, libc::IFF_TUN)] {
            let flags = bit | libc::IFF_NO_PI | libc::IFF_MULTI_QUEUE | libc::IFF_VNET_HDR;
            assert_eq!(i32::from(layer.flags()), flags);
        }
    }
}
