//! AF_XDP: any Linux network interface, without a kernel module.
//!
//! A [`Port`] is an interface that was taken over: a redirect program of our own is attached to it, and each of its
//! queues is a [`ring::XdpRing`] on some CPU. All ports share the arena as one UMEM, so a packet that is forwarded from
//! one to another is never copied on our side: its buffer moves from a receive ring to a transmit ring.

mod lent;
mod ring;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use pkt::Arena;

pub use ring::XdpRing;

use crate::bpf::BpfError;
use crate::bpf::link::{XdpLink, XdpMode};
use crate::bpf::map::XskMap;
use crate::bpf::redirect;
use crate::sys::mmap;
use crate::sys::xsk::{BindOptions, CopyMode, Queue, RingSizes, Umem, XskError, XskSocket};

/// Descriptors in each of the four rings.
const RING_LEN: u32 = 1024;
const RING_SIZES: RingSizes = RingSizes { fill: RING_LEN, completion: RING_LEN, rx: RING_LEN, tx: RING_LEN };
/// Frames that one system call may send; the kernel's default is 32.
const TX_BUDGET: u16 = 256;
/// Pieces of a jumbo frame: the kernel takes one head and 17 fragments.
const PIECES_MAX: usize = 18;
/// Bytes of a frame that fits one buffer, Ethernet header included.
const SINGLE_BUFFER: u32 = 2048;
/// What the kernel takes at each address of the fill ring: its own 256 bytes of headroom, and a buffer's data.
const CHUNK: u32 = 2304;
const _: () = assert!(SINGLE_BUFFER as usize == pkt::DATA_LEN && CHUNK as usize == pkt::BUF_LEN);

/// The arena, lent to the kernel once for all ports.
pub struct SharedUmem {
    arena: Arc<Arena>,
    /// The socket that registered the memory; all others share it.
    owner: Mutex<Weak<XskSocket>>,
}

/// What is asked of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The best that the driver offers: zero-copy, else native with a copy, else generic.
    #[default]
    Auto,
    /// In the driver, without a copy.
    ZeroCopy,
    /// In the driver, with a copy.
    Native,
    /// On socket buffers: every interface can.
    Generic,
}

/// What to open.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The interface.
    pub ifindex: u32,
    /// Its queues that are taken over: 0 to `queues` - 1.
    pub queues: u32,
    /// Its MTU, bytes: above [`pkt::DATA_LEN`], frames come in several pieces.
    pub mtu: u32,
    /// What is asked of it.
    pub mode: Mode,
    /// Buffers that each of its rings may have out.
    pub allowance: usize,
}

/// An interface that was taken over. Dropping it detaches the program.
pub struct Port {
    /// What was got.
    pub mode: Mode,
    /// Why it is not what was asked for, or not the best there is: for a warning.
    pub fell_back: Option<String>,
    link: XdpLink,
    _map: XskMap,
}

/// Why an interface could not be taken over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The sockets.
    #[error(transparent)]
    Socket(#[from] XskError),
    /// The redirect program.
    #[error(transparent)]
    Program(#[from] BpfError),
}

impl SharedUmem {
    /// Wraps the arena; nothing is registered until the first port opens.
    #[must_use]
    pub fn new(arena: Arc<Arena>) -> Self {
        mmap::raise_locked_memory_limit();
        Self { arena, owner: Mutex::default() }
    }

    /// A socket for one queue, with its rings mapped, bound: over the memory that another one registered, if any is
    /// still open.
    fn socket(&self, queue: Queue, options: &BindOptions) -> Result<(Arc<XskSocket>, ring::Rings), XskError> {
        let mut registrar = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = registrar.upgrade()
            && let Ok(shared) = Self::further(queue, &owner)
        {
            return Ok(shared);
        }
        let socket = XskSocket::new()?;
        ring::lend(&socket, &self.umem())?;
        let rings = socket.map_rings(RING_SIZES)?;
        socket.bind(queue, options)?;
        raise_tx_budget(&socket);
        let socket = Arc::new(socket);
        *registrar = Arc::downgrade(&socket);
        drop(registrar);
        Ok((socket, rings))
    }

    /// A socket that shares the memory and the ways of `owner`, if its interface can have them.
    fn further(queue: Queue, owner: &XskSocket) -> Result<(Arc<XskSocket>, ring::Rings), XskError> {
        let socket = XskSocket::new()?;
        let rings = socket.map_rings(RING_SIZES)?;
        socket.bind_shared(queue, owner)?;
        raise_tx_budget(&socket);
        Ok((Arc::new(socket), rings))
    }

    fn umem(&self) -> Umem {
        Umem {
            start: self.arena.base().as_ptr(),
            len: self.arena.len() as u64,
            chunk_size: CHUNK,
            headroom: 0,
            unaligned: true,
        }
    }
}

impl Port {
    /// Takes an interface over, and returns it with a ring for each of its queues.
    ///
    /// # Errors
    /// [`PortError`], when not even the least mode that was asked for is to be had.
    pub fn open(umem: &SharedUmem, options: &Options) -> Result<(Self, Vec<XdpRing>), PortError> {
        let mut refused = Vec::new();
        for attempt in options.mode.attempts() {
            match Self::attempt(umem, options, *attempt) {
                Ok((mut port, rings)) => {
                    port.fell_back = (!refused.is_empty()).then(|| refused.join("; "));
                    return Ok((port, rings));
                }
                Err(error) if attempt.is_last_of(options.mode) => return Err(error),
                Err(error) => refused.push(format!("no {attempt} mode: {error}")),
            }
        }
        Err(XskError::Unsupported.into())
    }

    fn attempt(umem: &SharedUmem, options: &Options, mode: Mode) -> Result<(Self, Vec<XdpRing>), PortError> {
        let frags = options.mtu + wire_overhead() > SINGLE_BUFFER;
        let bind = BindOptions {
            copy: if mode == Mode::ZeroCopy { CopyMode::ZeroCopy } else { CopyMode::Copy },
            need_wakeup: true,
            multi_buffer: true,
        };
        let map = XskMap::new(options.queues)?;
        let program = redirect::load(&map, frags)?;
        let mut rings = Vec::new();
        for queue in 0..options.queues {
            let (socket, shared) = umem.socket(Queue { ifindex: options.ifindex, queue }, &bind)?;
            map.set(queue, &*socket)?;
            let pieces = if frags { PIECES_MAX } else { 1 };
            rings.push(XdpRing::new(Arc::clone(&umem.arena), socket, shared, pieces, options.allowance));
        }
        let hook = if mode == Mode::Generic { XdpMode::Generic } else { XdpMode::Native };
        let link = XdpLink::attach(&program, options.ifindex, hook)?;
        Ok((Self { mode, fell_back: None, link, _map: map }, rings))
    }

    /// Whether the kernel takes the program off should this process die.
    #[must_use]
    pub fn ends_with_process(&self) -> bool {
        self.link.ends_with_process()
    }
}

/// Without the option (before Linux 6.16) each doorbell sends 32 frames, and is rung more often.
fn raise_tx_budget(socket: &XskSocket) {
    if socket.set_tx_budget(TX_BUDGET).is_err() {
        // It stays at 32.
    }
}

/// Ethernet header and one tag, which the MTU does not count.
const fn wire_overhead() -> u32 {
    18
}

impl Mode {
    /// What is tried, best first.
    const fn attempts(self) -> &'static [Self] {
        match self {
            Self::Auto => &[Self::ZeroCopy, Self::Native, Self::Generic],
            Self::ZeroCopy => &[Self::ZeroCopy],
            Self::Native => &[Self::Native],
            Self::Generic => &[Self::Generic],
        }
    }

    fn is_last_of(self, asked: Self) -> bool {
        asked.attempts().last() == Some(&self)
    }
}

impl core::fmt::Display for Mode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::ZeroCopy => "zero-copy",
            Self::Native => "native",
            Self::Generic => "generic",
        })
    }
}
