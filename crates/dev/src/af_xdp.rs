//! AF_XDP: any Linux network interface, without a kernel module.
//!
//! A [`Port`] is an interface that was taken over: a redirect program of our own is attached to it, and each of its
//! queues is a [`ring::XdpRing`] on some CPU. All ports share the arena as one UMEM, so a packet that is forwarded from
//! one to another is never copied on our side: its buffer moves from a receive ring to a transmit ring.

mod kernel_slots;
mod relay;
mod ring;
mod shared;
mod umem;

use std::sync::Arc;

use pkt::PageKind;

pub use relay::Relay;
pub use ring::XdpRing;
pub use shared::SharedRing;
pub use umem::SharedUmem;

use crate::bpf::BpfError;
use crate::bpf::asm::Insn;
use crate::bpf::link::{XdpLink, XdpMode};
use crate::bpf::map::XskMap;
use crate::bpf::offload::{self, Offload, PortWords};
use crate::bpf::prog::{Kind, Program};
use crate::bpf::redirect;
use crate::bpf::share::{self, Claim, Owners, Shares};
use crate::bpf::user::{UserError, UserProgram};
use crate::sys::carrier::Carrier;
use crate::sys::xsk::{BindOptions, CopyMode, Queue, RingSizes, XskError};
use umem::Opened;

/// Descriptors in each of the four rings. With 1024 a netisr that waits some milliseconds for its processor loses
/// frames: one TCP flow over veth, on two busy CPUs, retransmitted 700 to 5500 times in 3 s; with 2048 not at all in
/// 26 of 30 runs, and under a hundred times in the others.
const RING_LEN: u32 = 2048;
const RING_SIZES: RingSizes = RingSizes { fill: RING_LEN, completion: RING_LEN, rx: RING_LEN, tx: RING_LEN };
/// Frames that one system call may send; the kernel's default is 32.
const TX_BUDGET: u16 = 256;
/// Frames that one busy poll takes from the driver, and the microseconds that it may last.
const BUSY_POLL: (u16, u16) = (64, 20);
/// Pieces of a jumbo frame: the kernel takes one head and 17 fragments.
const PIECES_MAX: usize = 18;
/// Bytes of a frame that fits one buffer, Ethernet header included.
const SINGLE_BUFFER: u32 = 2048;
/// Bytes of a frame that the MTU does not count: the Ethernet header and one tag.
const BESIDE_MTU: u32 = 18;
/// Room of each address of the fill ring: the kernel's 256 bytes of headroom, and a buffer's data.
const CHUNK: u32 = 2304;
const _: () = assert!(SINGLE_BUFFER as usize == pkt::DATA_LEN && CHUNK as usize == pkt::BUF_LEN);

/// Attach mode of an interface.
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
    ///
    /// It comes after the kernel's GRO. What that has merged, or what a neighbour on the same machine has not cut, cannot
    /// be cut here, because the size of the pieces is lost: such frames are dropped as errors.
    Generic,
}

/// Options for opening.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The interface.
    pub ifindex: u32,
    /// The first of its queues that are taken over.
    pub first_queue: u32,
    /// Their number.
    pub queues: u32,
    /// Its MTU, bytes: frames longer than [`pkt::DATA_LEN`] come in several pieces.
    pub mtu: u32,
    /// The requested mode.
    pub mode: Mode,
    /// Buffers that each of its rings may have out.
    pub allowance: usize,
    /// The driver's receive loop runs when the ring is polled, on that CPU, and not by interrupts: what is too much is
    /// then dropped before it costs anything. Only for programs that poll all the time; see [`crate::sys::napi`] for the half of it
    /// that is a setting of the interface.
    pub busy_poll: bool,
}

/// An interface that was taken over. Dropping it detaches the program.
pub struct Port {
    /// The mode in use; never [`Mode::Auto`].
    pub mode: Mode,
    /// With [`Mode::Auto`]: why it became generic, which is slow. For a warning.
    pub fell_back: Option<String>,
    /// With [`Mode::Auto`]: why frames are copied, as most drivers do. For information.
    pub copies_because: Option<String>,
    link: XdpLink,
    _map: XskMap,
    owners: Option<Owners>,
    offload: Option<PortWords>,
    user: Option<Arc<UserProgram>>,
    /// Why flows are not offloaded although that was asked for.
    pub no_offload_because: Option<String>,
}

/// Programs that see the frames of a port before its rings.
#[derive(Clone, Copy, Default)]
pub struct Programs<'p> {
    /// The program of a user, which sees them first.
    pub user: Option<&'p Arc<UserProgram>>,
    /// Forwards the flows of this table by itself.
    pub offload: Option<&'p Offload>,
}

/// Our part of an interface that the kernel goes on using.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// The link address of frames that may be ours.
    pub mac: [u8; 6],
    /// The frames to it that are.
    pub claim: Claim,
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
    /// The program of a user.
    #[error("XDP program: {0}")]
    User(#[from] UserError),
    /// A port of no queues where one is needed.
    #[error("no queue was asked for")]
    NoQueue,
    /// The packet socket of a shared interface.
    #[error("no packet socket for broadcast and multicast frames: {0}")]
    Copies(#[source] std::io::Error),
    /// The arena is not in huge pages.
    #[error("zero-copy needs packet buffers in huge pages (vm.nr_hugepages)")]
    SmallPages,
}

impl Options {
    const fn range(&self) -> core::ops::Range<u32> {
        self.first_queue..self.first_queue.saturating_add(self.queues)
    }

    const fn frame_max(&self) -> u32 {
        self.mtu.saturating_add(BESIDE_MTU)
    }

    /// Whether frames may come in several pieces.
    const fn has_frags(&self) -> bool {
        self.frame_max() > SINGLE_BUFFER
    }
}

impl Port {
    /// Takes an interface over, and returns it with a ring for each of its queues.
    ///
    /// # Errors
    /// [`PortError`], when not even the least mode that was asked for is to be had.
    pub fn open(umem: &SharedUmem, options: &Options) -> Result<(Self, Vec<XdpRing>), PortError> {
        Self::open_rings(umem, options, None, Programs::default())
    }

    /// Takes an interface over, with a program that forwards the flows of `table` by itself; if the kernel refuses that one,
    /// with the usual one, and [`Self::no_offload_because`] says why. [`Self::offload`] begins it.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_offloading(
        umem: &SharedUmem,
        options: &Options,
        table: &Offload,
    ) -> Result<(Self, Vec<XdpRing>), PortError> {
        Self::open_with(umem, options, Programs { user: None, offload: Some(table) })
    }

    /// Takes an interface over, with these programs before its rings. Offload that the kernel refuses is left out, and
    /// [`Self::no_offload_because`] says why.
    ///
    /// # Errors
    /// As [`Self::open`]; [`PortError::User`].
    pub fn open_with(
        umem: &SharedUmem,
        options: &Options,
        programs: Programs<'_>,
    ) -> Result<(Self, Vec<XdpRing>), PortError> {
        Self::open_rings(umem, options, None, programs)
    }

    /// The program of a user.
    #[must_use]
    pub const fn user(&self) -> Option<&Arc<UserProgram>> {
        self.user.as_ref()
    }

    /// The words by which the offload program is told what is for it; `None` if the usual one runs.
    #[must_use]
    pub const fn offload(&self) -> Option<&PortWords> {
        self.offload.as_ref()
    }

    /// Takes what is ours of an interface, and returns it with a ring for each of its queues. Until [`Self::share`] says
    /// which addresses are ours, only what is for a link address of our own is.
    ///
    /// # Errors
    /// As [`Self::open`]; [`PortError::Copies`].
    pub fn open_shared(
        umem: &SharedUmem,
        options: &Options,
        share: &Share,
        user: Option<&Arc<UserProgram>>,
    ) -> Result<(Self, Vec<SharedRing>), PortError> {
        let programs = Programs { user, offload: None };
        let (port, rings) = Self::open_rings(umem, options, Some(share), programs)?;
        let mut shared = Vec::with_capacity(rings.len());
        for ring in rings {
            shared.push(if shared.is_empty() {
                SharedRing::with_copies(ring, options.ifindex).map_err(PortError::Copies)?
            } else {
                SharedRing::without_copies(ring)
            });
        }
        Ok((port, shared))
    }

    /// Says which addresses are ours, if the interface is shared.
    ///
    /// # Errors
    /// [`BpfError::Refused`] if there are too many.
    pub fn share(&self, shares: &Shares) -> Result<(), BpfError> {
        self.owners.as_ref().map_or(Ok(()), |owners| owners.set(shares))
    }

    /// Whether the kernel goes on using the interface.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.owners.is_some()
    }

    fn open_rings(
        umem: &SharedUmem,
        options: &Options,
        share: Option<&Share>,
        programs: Programs<'_>,
    ) -> Result<(Self, Vec<XdpRing>), PortError> {
        let (port, sockets) = Self::open_sockets(umem, options, share, programs)?;
        let pieces = if options.has_frags() { PIECES_MAX } else { 1 };
        let zero_copy = port.mode == Mode::ZeroCopy;
        let no_socket = |source| XskError::Refused { doing: "open a socket to ask for the carrier", source };
        let carrier = Arc::new(Carrier::of(options.ifindex).map_err(no_socket)?);
        let ring = |opened| XdpRing::new(umem, opened, Arc::clone(&carrier), zero_copy, pieces, options);
        let rings = sockets.into_iter().map(ring);
        Ok((port, rings.collect()))
    }

    fn open_sockets(
        umem: &SharedUmem,
        options: &Options,
        share: Option<&Share>,
        programs: Programs<'_>,
    ) -> Result<(Self, Vec<Opened>), PortError> {
        let frags = options.has_frags();
        let map = XskMap::new(options.range().end)?;
        let owners = share.map(|_| Owners::new()).transpose()?;
        let (mut words, mut no_offload_because) = (None, None);
        let load = |ours: &[Insn]| load_programs(ours, &map, programs.user, frags);
        let program = match (share, &owners, programs.offload.map(|table| offloading(&map, table, load))) {
            (Some(share), Some(owners), _) => load(&share::assembled(&map, owners, share.claim, share.mac)?)?,
            (_, _, Some(Ok((program, port)))) => {
                words = Some(port);
                program
            }
            (_, _, refused) => {
                no_offload_because = refused.and_then(Result::err).map(|why| why.to_string());
                load(&redirect::assemble(&map)?)?
            }
        };
        // First the program, which passes everything on as long as the map is empty: what is bound once is hard to
        // bind again soon.
        let (link, fell_back) = attach(&program, options)?;
        let (sockets, zero_copy, copies_because) = bind(umem, options, link.mode(), frags)?;
        for (queue, (socket, _)) in options.range().zip(&sockets) {
            if options.busy_poll {
                socket.prefer_busy_poll(BUSY_POLL.1, BUSY_POLL.0)?;
            }
            map.set(queue, &**socket)?;
            programs.user.into_iter().for_each(|user| user.add_socket(queue, &**socket));
        }
        let mode = match link.mode() {
            XdpMode::Generic => Mode::Generic,
            XdpMode::Native if zero_copy => Mode::ZeroCopy,
            XdpMode::Native => Mode::Native,
        };
        let port = Self {
            mode,
            fell_back,
            copies_because,
            link,
            _map: map,
            owners,
            offload: words,
            user: programs.user.cloned(),
            no_offload_because,
        };
        Ok((port, sockets))
    }

    /// Whether the kernel takes the program off should this process die.
    #[must_use]
    pub fn ends_with_process(&self) -> bool {
        self.link.ends_with_process()
    }
}

/// Loads the program that forwards flows by itself, and the words that tell it what is for it.
fn offloading(
    map: &XskMap,
    table: &Offload,
    load: impl Fn(&[Insn]) -> Result<Program, PortError>,
) -> Result<(Program, PortWords), PortError> {
    let port = PortWords::new()?;
    Ok((load(&offload::assemble(map, table, &port)?)?, port))
}

/// Loads a program of ours, behind that of a user if there is one.
fn load_programs(
    ours: &[Insn],
    map: &XskMap,
    user: Option<&Arc<UserProgram>>,
    frags: bool,
) -> Result<Program, PortError> {
    match user {
        Some(user) => Ok(user.load_before(ours, map, frags)?),
        None => Ok(Program::load(redirect::NAME, Kind::Xdp, ours, frags)?),
    }
}

/// Attaches the redirect program where the mode wants it; says why, if that is not where [`Mode::Auto`] wants it.
fn attach(program: &Program, options: &Options) -> Result<(XdpLink, Option<String>), BpfError> {
    let attach = |hook| XdpLink::attach(program, options.ifindex, hook);
    let hook = if options.mode == Mode::Generic { XdpMode::Generic } else { XdpMode::Native };
    match attach(hook) {
        Err(error @ (BpfError::Refused { .. } | BpfError::Netlink(_))) if options.mode == Mode::Auto => {
            Ok((attach(XdpMode::Generic)?, Some(generic_because(&error))))
        }
        other => Ok((other?, None)),
    }
}

fn generic_because(error: &BpfError) -> String {
    format!(
        "the driver has no native mode ({error}); generic mode is slow, and drops frames that were merged: \
         turn GRO off with `ethtool -K NAME gro off`"
    )
}

/// Binds a socket to each queue, without a copy if the mode wants that and it is to be had; says why not.
fn bind(
    umem: &SharedUmem,
    options: &Options,
    hook: XdpMode,
    frags: bool,
) -> Result<(Vec<Opened>, bool, Option<String>), PortError> {
    let bind = |copy, multi_buffer| {
        let how = BindOptions { copy, need_wakeup: true, multi_buffer };
        let queues = options.range().map(|queue| Queue { ifindex: options.ifindex, queue });
        queues.map(|queue| umem.socket(queue, &how)).collect::<Result<Vec<_>, _>>()
    };
    let zero_copy = || match umem.arena().pages() {
        PageKind::Huge => bind(CopyMode::ZeroCopy, frags).map_err(PortError::from),
        // Most buffers lie across the border of two small pages, which a device does not see side by side.
        PageKind::Normal => Err(PortError::SmallPages),
    };
    let because = match (options.mode, hook) {
        (Mode::ZeroCopy, _) => return Ok((zero_copy()?, true, None)),
        (Mode::Auto, XdpMode::Native) => match zero_copy() {
            Ok(sockets) => return Ok((sockets, true, None)),
            Err(error) if error.is_about_zero_copy() => Some(error.to_string()),
            Err(error) => return Err(error),
        },
        _ => None,
    };
    Ok((bind(CopyMode::Copy, true)?, false, because))
}

impl PortError {
    /// Whether it might not happen with a copy.
    const fn is_about_zero_copy(&self) -> bool {
        matches!(
            self,
            Self::SmallPages | Self::Socket(XskError::NotOffered { .. } | XskError::Refused { .. })
        )
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
