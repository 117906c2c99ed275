//! Unsafe: writes into frames by their addresses.
//!
//! Two ports coupled below the stack: what one receives the other sends, under new link addresses and otherwise as it
//! came. The least that forwarding over AF_XDP can cost, to measure drivers and the stack against.
#![expect(unsafe_code, reason = "frames are written where they lie, without a packet handle")]

use std::os::fd::AsFd;
use std::sync::Arc;

use pkt::{Arena, HEADROOM, META_LEN, Pool, STRIDE};

use super::ring::Rings;
use super::{Options, Port, PortError, Programs, SharedUmem};
use crate::sys::xsk::XskSocket;
use crate::sys::xsk_ring::Desc;

/// Frames that are taken from the ring at once.
const BURST: u32 = 64;
/// Empty chunks that are worth giving to the kernel.
const REFILL_AT: usize = 64;
/// Bytes of the two link addresses at the front of a frame.
const ADDRESSES: usize = 12;

/// A one-way connection from one port to another.
pub struct Relay {
    arena: Arc<Arena>,
    addresses: [u8; ADDRESSES],
    busy_poll: bool,
    input: End,
    output: End,
    /// Free chunks.
    free: Vec<u64>,
    scratch: Vec<Desc>,
    /// System calls made to send.
    pub doorbells: u64,
    /// Frames sent.
    pub frames: u64,
}

struct End {
    socket: Arc<XskSocket>,
    rings: Rings,
    _port: Port,
}

impl Relay {
    /// Couples queue 0 of two interfaces, with `addresses` (destination, then source) for all frames, and as many buffers
    /// as the pool gives it, which is then empty.
    ///
    /// # Errors
    /// As [`Port::open`].
    pub fn open(
        pool: &mut Pool,
        input: &Options,
        output: &Options,
        addresses: [u8; ADDRESSES],
    ) -> Result<Self, PortError> {
        let arena = Arc::clone(pool.arena());
        let umem = SharedUmem::new(Arc::clone(&arena));
        let options = input;
        let (input, output) = (End::open(&umem, input)?, End::open(&umem, output)?);
        let free = core::iter::from_fn(|| pool.take()).map(|pkt| pkt.into_frame() - HEADROOM as u64);
        let free = free.collect();
        let busy_poll = options.busy_poll;
        Ok(Self {
            arena,
            addresses,
            busy_poll,
            input,
            output,
            free,
            scratch: Vec::new(),
            doorbells: 0,
            frames: 0,
        })
    }

    /// Moves what is there, once; answers how many frames.
    pub fn turn(&mut self) -> usize {
        self.complete();
        if self.free.len() >= REFILL_AT {
            let room = self.input.rings.fill.room() as usize;
            let keep = self.free.len().saturating_sub(room);
            self.input.rings.fill.give(self.free.drain(keep..));
        }
        let room = self.output.rings.tx.room();
        let mut descs = core::mem::take(&mut self.scratch);
        self.input.rings.rx.take(BURST.min(room), |desc| descs.push(desc));
        let count = descs.len();
        let Self { arena, addresses, output, .. } = self;
        output.rings.tx.queue(descs.drain(..).map(|desc| readdressed(arena, *addresses, desc)));
        self.scratch = descs;
        if count == 0 && self.busy_poll {
            // An error says that the interface is down.
            let _ = self.input.socket.wake_receiver();
        }
        self.frames += count as u64;
        self.ring();
        count
    }

    /// Returns the descriptor to wait on for frames.
    pub fn waiter(&self) -> impl AsFd + use<'_> {
        &*self.input.socket
    }

    /// Whether frames are in the kernel's hands on their way out.
    pub fn busy(&self) -> bool {
        self.output.rings.tx.waiting() > 0
    }

    fn complete(&mut self) {
        let free = &mut self.free;
        let chunk = |addr: u64| addr / STRIDE as u64 * STRIDE as u64 + META_LEN as u64;
        self.output.rings.completion.take(u32::MAX, |addr| free.push(chunk(addr)));
    }

    fn ring(&mut self) {
        let waits = self.output.rings.tx.waiting() > 0;
        if waits && self.output.rings.tx.needs_wakeup() {
            self.doorbells += 1;
            // An error says that the interface is down: frames wait.
            let _ = self.output.socket.kick();
        }
    }
}

impl End {
    fn open(umem: &SharedUmem, options: &Options) -> Result<Self, PortError> {
        let (port, mut opened) = Port::open_sockets(umem, options, None, Programs::default())?;
        let Some((socket, rings)) = opened.pop() else {
            return Err(PortError::NoQueue);
        };
        Ok(Self { socket, rings, _port: port })
    }
}

fn readdressed(arena: &Arena, addresses: [u8; ADDRESSES], desc: Desc) -> Desc {
    let inside = desc.lies_within(arena.len() as u64) && desc.len as usize >= ADDRESSES;
    if let (true, Ok(at)) = (inside, usize::try_from(desc.data())) {
        // SAFETY: the frame lies inside the arena, and its chunk is ours until it is queued.
        let frame = unsafe { arena.base().add(at) };
        // SAFETY: as above; the frame is long enough.
        unsafe { frame.cast().write_unaligned(addresses) };
    }
    Desc { addr: desc.data(), len: desc.len, options: 0 }
}
