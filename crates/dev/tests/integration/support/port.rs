//! Unsafe: reads and writes UMEM.
//!
//! An AF_XDP port for tests: a socket, its rings and its memory, waiting bounded.
#![expect(unsafe_code, reason = "frames lie in memory that is shared with the kernel")]

use core::time::Duration;
use std::rc::Rc;
use std::time::Instant;

use dev::bpf::link::{XdpLink, XdpMode};
use dev::bpf::{map::XskMap, prog::Program, redirect};
use dev::sys::mmap::Mapping;
use dev::sys::poll::{PollFd, PollFlags, wait};
use dev::sys::xsk::{BindOptions, Queue, RingSizes, Rings, Umem, XskSocket};
use dev::sys::xsk_ring::Desc;

/// Layout of a test's chunks.
#[derive(Clone, Copy)]
pub struct Layout {
    pub chunk_size: u32,
    pub stride: u64,
    /// Where in each slot the chunk begins.
    pub lead: u64,
    pub unaligned: bool,
}

/// 64 bytes of metadata, then 256 that the kernel keeps, then 2048 of data: 37 cache lines.
pub const ODD: Layout = Layout { chunk_size: 2304, stride: 2368, lead: 64, unaligned: true };
pub const ALIGNED: Layout = Layout { chunk_size: 2048, stride: 2048, lead: 0, unaligned: false };

pub const SLOTS: u64 = 128;

impl Layout {
    pub fn chunk(&self, slot: u64) -> u64 {
        slot * self.stride + self.lead
    }

    /// Where a received frame begins.
    pub fn data(&self, slot: u64) -> u64 {
        self.chunk(slot) + 256
    }
}

/// Memory for `SLOTS` slots.
pub struct Memory {
    mapping: Mapping,
    pub layout: Layout,
}

impl Memory {
    pub fn new(layout: Layout) -> Rc<Self> {
        let len = usize::try_from(SLOTS * layout.stride).unwrap().next_multiple_of(4096);
        Rc::new(Self { mapping: Mapping::anonymous(len).unwrap(), layout })
    }

    pub fn len(&self) -> u64 {
        self.mapping.len() as u64
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        assert!(at + bytes.len() as u64 <= self.len());
        let from = bytes.as_ptr();
        let to = self.mapping.start().as_ptr().wrapping_add(usize::try_from(at).unwrap());
        // SAFETY: inside the mapping, as asserted; the slot is ours until it is given to the kernel.
        unsafe { to.copy_from_nonoverlapping(from, bytes.len()) };
    }

    pub fn read(&self, desc: Desc) -> Vec<u8> {
        assert!(desc.lies_within(self.len()), "{desc:?}");
        let mut bytes = vec![0; desc.len as usize];
        let from = self.mapping.start().as_ptr().wrapping_add(usize::try_from(desc.data()).unwrap());
        // SAFETY: inside the mapping, as asserted; the kernel has given the frame to us.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }
}

/// A bound socket to which the frames of a queue are redirected.
pub struct Port {
    _link: XdpLink,
    _program: Program,
    _map: XskMap,
    pub rings: Rings,
    pub socket: XskSocket,
    pub memory: Rc<Memory>,
}

impl Port {
    /// A port with memory of its own.
    pub fn new(ifindex: u32, mode: XdpMode, layout: Layout, options: &BindOptions) -> Self {
        let (socket, rings, memory) = unbound(layout);
        socket.bind(Queue { ifindex, queue: 0 }, options).unwrap();
        Self::redirect_to(socket, rings, memory, ifindex, mode, options.multi_buffer)
    }

    /// A port over the memory of another.
    pub fn sharing(owner: &Self, ifindex: u32, mode: XdpMode) -> Self {
        let socket = XskSocket::new().unwrap();
        let rings = socket.map_rings(SIZES).unwrap();
        socket.bind_shared(Queue { ifindex, queue: 0 }, &owner.socket).unwrap();
        Self::redirect_to(socket, rings, Rc::clone(&owner.memory), ifindex, mode, false)
    }

    fn redirect_to(
        socket: XskSocket,
        rings: Rings,
        memory: Rc<Memory>,
        ifindex: u32,
        mode: XdpMode,
        frags: bool,
    ) -> Self {
        let map = XskMap::new(1).unwrap();
        map.set(0, &socket).unwrap();
        let program = redirect::load(&map, frags).unwrap();
        let link = XdpLink::attach(&program, ifindex, mode).unwrap();
        Self { _link: link, _program: program, _map: map, rings, socket, memory }
    }

    /// Gives the chunks of these slots to the kernel.
    pub fn fill(&mut self, slots: core::ops::Range<u64>) {
        let count = u32::try_from(slots.end - slots.start).unwrap();
        let layout = self.memory.layout;
        assert_eq!(self.rings.fill.give(slots.map(|s| layout.chunk(s))), count);
    }

    /// Queues the pieces of frames, and kicks until the kernel has taken and completed all of them; answers
    /// the completions.
    pub fn send(&mut self, descs: &[Desc]) -> Vec<u64> {
        assert_eq!(self.rings.tx.queue(descs.iter().copied()) as usize, descs.len());
        let mut done = Vec::new();
        let Self { rings, socket, .. } = self;
        until(|| {
            socket.kick().unwrap();
            rings.completion.take(u32::MAX, |a| done.push(a));
            done.len() >= descs.len()
        });
        done
    }

    /// Waits until `count` descriptors have come.
    pub fn receive(&mut self, count: usize) -> Vec<Desc> {
        let mut got = Vec::new();
        let Self { rings, socket, .. } = self;
        until(|| {
            wait(&mut [PollFd::new(socket, PollFlags::IN)], Some(Duration::from_millis(50))).unwrap();
            rings.rx.take(u32::MAX, |d| got.push(d));
            got.len() >= count
        });
        got
    }
}

/// A socket with memory and rings, to be bound. The memory must be dropped last.
pub fn unbound(layout: Layout) -> (XskSocket, Rings, Rc<Memory>) {
    let memory = Memory::new(layout);
    let socket = XskSocket::new().unwrap();
    let umem = Umem {
        start: memory.mapping.start().as_ptr(),
        len: memory.len(),
        chunk_size: layout.chunk_size,
        headroom: 0,
        unaligned: layout.unaligned,
    };
    // SAFETY: the caller keeps the memory longer than the socket.
    unsafe { socket.register_umem(&umem) }.unwrap();
    let rings = socket.map_rings(SIZES).unwrap();
    (socket, rings, memory)
}

/// Repeats until `done`; a test that waits for more than ten seconds fails.
pub fn until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(10), "waited for ten seconds in vain");
    }
}

/// A frame of `len` bytes to everybody, whose bytes depend on `seed`.
pub fn frame(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|i| (i as u64 * 7 + seed * 31).to_le_bytes()[0]).collect();
    bytes[..14].copy_from_slice(&[255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    bytes
}

const SIZES: RingSizes = RingSizes { fill: 128, completion: 128, rx: 128, tx: 128 };
